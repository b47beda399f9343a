"""What the lists of tools cost a model, in true o200k tokens: each of our profiles, and other servers beside them.

A tool is counted as scripts/tokens.py counts it: name, description and arguments as compact JSON.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts import tokens
from tests.clients.conftest import Tell
from tests.clients.programs import INSTALLED, Place, ctx, node
from tests.clients.stdio import listing

PEERS = ("filesystem", "memory", "everything", "github")
"""The official servers that install without anything else; the last is no longer maintained but much used."""
PROFILES = ("core", "edit", "code", "plan", "review", "seeds", "all")

pytestmark = pytest.mark.slow


def counted(texts: Sequence[str]) -> list[int]:
    """The number of tokens of each text."""
    run = [node(), "-e", tokens.COUNT]
    done = subprocess.run(
        run, input=json.dumps(list(texts)), cwd=protocol(), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def protocol() -> Path:
    """Where the tokenizer and the other servers are; skips when they are not."""
    folder = INSTALLED / "protocol"
    if not (folder / "node_modules" / "gpt-tokenizer").is_dir():
        pytest.skip("the tokenizer is not installed: `make clients` installs it")
    return folder


def cost(tools: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many tools, and what they cost together."""
    return {"tools": len(tools), "tokens": sum(counted([tokens.paid(tool) for tool in tools]))}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_costs_no_more_than_its_budget(profile: str, fresh: Place, tell: Tell) -> None:
    protocol()
    _, tools = listing(fresh, str(ctx()), "serve", "--root", str(fresh.folder), "--profile", profile)
    seen = cost(tools)
    tell(f"tokens ctx {profile}", {**seen, "budget": tokens.BUDGETS.get(profile)})
    assert seen["tokens"] <= tokens.BUDGETS.get(profile, tokens.BUDGETS["all"])


@pytest.mark.parametrize("peer", PEERS)
def test_another_server_is_counted_in_the_same_way(peer: str, fresh: Place, tell: Tell) -> None:
    server = protocol() / "node_modules" / "@modelcontextprotocol" / f"server-{peer}" / "dist" / "index.js"
    given = [str(fresh.folder)] if peer == "filesystem" else []
    here = Place(
        fresh.home, fresh.folder, {"GITHUB_PERSONAL_ACCESS_TOKEN": "none", "MEMORY_FILE_PATH": str(fresh.home / "m")}
    )
    _, tools = listing(here, node(), str(server), *given)
    tell(f"tokens {peer}", cost(tools))
    assert tools
