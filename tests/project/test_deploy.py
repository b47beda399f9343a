"""What is said in deploy/ about servers of ours: that the files parse, and that what they set is there to be set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from context_engine import CLIENT_VARIABLES
from context_engine.settings import list_settings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHECKER = os.environ.get("CHECK_JSONSCHEMA") or shutil.which("check-jsonschema")
"""It brings the schema of the compose specification."""


def servers() -> dict[str, dict[str, Any]]:
    said = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    return {name: each for name, each in said["services"].items() if name.startswith("ctx-")}


def test_every_variable_that_is_set_is_one_of_ours() -> None:
    ours = {
        *CLIENT_VARIABLES,
        *(f"CTX_{name.upper()}" for name in list_settings()),
        "FORWARDED_ALLOW_IPS",
    }  # the last is uvicorn's
    for server in servers().values():
        assert set(server["environment"]) <= ours


@pytest.mark.skipif(CHECKER is None, reason="no check-jsonschema: pip install it, or name it in CHECK_JSONSCHEMA")
def test_the_compose_file_is_one_by_the_specification() -> None:
    assert CHECKER is not None
    command = [CHECKER, "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_two_servers_share_tokens_and_store_and_keep_no_sessions() -> None:
    one, two = servers().values()
    same = ("CTX_HTTP_TOKENS", "CTX_STORE_URL", "CTX_ROOT", "CTX_HTTP_STATELESS")
    assert [one["environment"][name] for name in same] == [two["environment"][name] for name in same]
    assert one["environment"]["CTX_HTTP_STATELESS"] == "1"
    assert set(one["volumes"]) - set(two["volumes"]) == {"cache-1:/cache"}


def test_the_time_to_finish_is_less_than_the_time_until_the_kill() -> None:
    for server in servers().values():
        ends_s = sum(
            float(server["environment"][name]) for name in ("CTX_HTTP_SHUTDOWN_DELAY_S", "CTX_HTTP_SHUTDOWN_TIMEOUT_S")
        )
        assert ends_s + 5 <= float(server["stop_grace_period"].rstrip("s"))


def test_git_trusts_what_is_mounted_at_the_folder_of_the_image_and_below_it_and_nothing_else() -> None:
    dockerfile = (DEPLOY.parent / "packaging" / "Dockerfile").read_text()
    assert re.findall(r"--add safe\.directory '?([^'\s]+)", dockerfile) == ["/workspace", "/workspace/*"]
    projects = servers()["ctx-1"]["environment"]["CTX_ROOT"].split(":")
    assert all(re.fullmatch("/workspace/[^/]+", project) for project in projects)


def test_the_proxies_ask_the_servers_that_there_are() -> None:
    for name in ("Caddyfile", "nginx.conf"):
        text = (DEPLOY / name).read_text()
        assert set(re.findall(r"(ctx-\d+):8765", text)) == set(servers())
        assert text.count("{") == text.count("}")
    hosts = servers()["ctx-1"]["environment"]["CTX_HTTP_HOSTS"]
    assert hosts.endswith("ctx-1,ctx-2"), "else the proxy's own questions are refused"
