"""The four coding agents: how each is told of a model on loopback, and how one prompt is put to it.

`ctx` itself is made known to them by `ctx setup`, into the very files that are written here first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.clients.programs import Place, client, ctx

KEY = "no-key-needed"
"""What stands where an agent wants a key before it starts."""

CODEX_SETTINGS = """\
# What a person wrote here stays.
model = "{model}"
model_provider = "loopback"
tool_output_token_limit = 10000
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.loopback]
name = "A scripted model"
base_url = "{url}/v1"
wire_api = "responses"
"""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent. `settings` are the files of its home, `env` its environment, `prompt` its words before a prompt."""

    program: str
    settings: Callable[[str], Mapping[str, str]]
    env: Callable[[str], Mapping[str, str]]
    prompt: Sequence[str]
    shows: Literal["all", "names", "purpose"] = "all"
    """What its model sees of our tools at first: everything, names alone (schemas on request), or only what they are
    for."""
    checks_arguments: bool = False
    """Whether it refuses what our schema does not allow before we hear of it, in words of its own."""
    afterwards: Callable[[Place], None] = lambda _: None
    """What the person changes in its settings after `ctx setup`."""

    def prepared(self, place: Place, url: str) -> Place:
        """The place with the agent's own settings in it, and the model's address."""
        for name, text in self.settings(url).items():
            file = place.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return Place(place.home, place.folder, {**place.env, **self.env(url)})

    def introduced(self, place: Place) -> None:
        """Make `ctx` known to it, as a person would."""
        done = place.run(str(ctx()), "setup", self.program)
        assert done.status == 0, done.out + done.err
        self.afterwards(place)

    def asked(self, words: str) -> list[str]:
        """The command that puts one prompt to it, without a terminal."""
        return [*client(self.program), *self.prompt, words]


def codex_settings(model: str) -> Callable[[str], Mapping[str, str]]:
    """Codex knows by a model's name whether that model can search for tools."""
    return lambda url: {".codex/config.toml": CODEX_SETTINGS.format(model=model, url=url)}


def without_always_load(place: Place) -> None:
    """Claude Code then holds our tools back, but for those that ask to be shown in their own listing."""
    file = place.home / ".claude.json"
    settings = json.loads(file.read_text())
    del settings["mcpServers"]["ctx"]["alwaysLoad"]
    file.write_text(json.dumps(settings))


def opencode_settings(url: str) -> Mapping[str, str]:
    """A provider that speaks chat completions."""
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "A scripted model", "options": options}
    models = {"scripted": {"name": "scripted", "tool_call": True}}
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "model": "loopback/scripted",
        "small_model": "loopback/scripted",
        "provider": {"loopback": {**provider, "models": models}},
    }
    return {".config/opencode/opencode.json": json.dumps(settings, indent=2)}


def gemini_settings(_: str) -> Mapping[str, str]:
    """A key instead of a login; nothing is sent anywhere."""
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    }
    return {".gemini/settings.json": json.dumps(settings, indent=2)}


AGENTS: Mapping[str, Agent] = {
    "claude": Agent(
        "claude",
        lambda _: {},
        lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY},
        ("--allowedTools", "mcp__ctx", "--print"),
    ),
    "claude with tool search": Agent(
        "claude",
        lambda _: {},
        lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY},
        ("--allowedTools", "mcp__ctx", "--print"),
        shows="names",
        afterwards=without_always_load,
    ),
    "codex": Agent("codex", codex_settings("scripted"), lambda _: {}, ("exec", "--skip-git-repo-check")),
    "codex with tool search": Agent(
        "codex", codex_settings("gpt-5.5"), lambda _: {}, ("exec", "--skip-git-repo-check"), shows="purpose"
    ),
    "gemini": Agent(
        "gemini",
        gemini_settings,
        lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY},
        ("--approval-mode", "yolo", "--model", "gemini-2.5-pro", "--prompt"),
        checks_arguments=True,
    ),
    "opencode": Agent("opencode", opencode_settings, lambda _: {}, ("run",)),
}
"""In the order of the report. A key is what the report calls it."""
