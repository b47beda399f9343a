"""Hooks in real agents: what `ctx setup --hooks` writes is run by them, and its context reaches the model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_engine.context import QUOTED_FROM_REPOSITORY
from tests.clients.agents import AGENTS, Agent
from tests.clients.dialects import Say
from tests.clients.programs import Place, client, ctx
from tests.clients.scripted_model import ScriptedModel

PROMPT = "Where are the passwords hashed with their salt? hash_password seems to ignore it."
CHAT = "thanks, that was all"

pytestmark = pytest.mark.slow


def asked(agent: Agent, place: Place, prompt: str, *more: str) -> str:
    """Everything that the model was shown for one prompt, as JSON."""
    client(agent.program)
    with ScriptedModel([Say("Done.")]) as model:
        here = agent.prepared(Place(place.home, place.folder, {**place.env, "CTX_DAEMON": "0"}), model.url)
        done = here.run(str(ctx()), "setup", agent.program, "--hooks")
        assert done.status == 0, done.out + done.err
        first, *rest = agent.asked(prompt)
        run = here.run(first, *rest[:-1], *more, rest[-1])
        assert run.status == 0, run.out[-2000:] + run.err[-2000:]
        bodies: list[dict[str, Any]] = [turn.body for turn in model.turns]
    return json.dumps(bodies, ensure_ascii=False)


@pytest.mark.parametrize("name", ["claude", "gemini", "opencode", "codex"])
def test_the_model_is_shown_the_code_for_a_prompt_and_the_brief_of_the_repository(name: str, place: Place) -> None:
    more = ("--dangerously-bypass-hook-trust",) if name == "codex" else ()
    shown = asked(AGENTS[name], place, PROMPT, *more)
    assert f"ctx on this request ({QUOTED_FROM_REPOSITORY})" in shown
    assert "till/auth.py" in shown
    assert "To find code, ask the tools of ctx" in shown


@pytest.mark.parametrize("name", ["claude", "gemini", "opencode"])
def test_the_model_is_shown_no_code_for_chat(name: str, place: Place) -> None:
    assert "ctx on this request" not in asked(AGENTS[name], place, CHAT)
