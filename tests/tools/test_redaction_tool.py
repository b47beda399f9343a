"""The tool that takes secrets out: the text that is left, what was where, and nothing kept of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument, TooLarge
from context_engine.settings import Settings
from context_engine.tools.content_tools import scrub_secrets
from context_engine.tools.memory_tools import add_memory
from context_engine.tools.tool import Call
from tests.support.secret_examples import drawn

TOKEN = drawn("ghp_<w36>", "tool").text
TEXT = f'x = 1\npassword = "$&Tr0ub4dor"\ntoken: {TOKEN}\n'
THEIRS = """
[[rules]]
id = "acme"
regex = '''acme-[0-9a-z]{12}'''

[[rules]]
id = "broken"
regex = '''(?=never)'''
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("redacted")
    settings = Settings(cache_folder=root.parent / "cache", workers=0, watch=False)
    with Engine.open(root, settings=settings) as engine:
        yield engine


def call(engine: Engine, **arguments: Any) -> dict[str, Any]:
    return json.loads(scrub_secrets.call(engine, arguments, Call()).text)


def test_the_text_comes_back_without_its_secrets_and_says_what_was_where(engine: Engine) -> None:
    said = call(engine, content=TEXT)
    assert said.keys() == {
        *("ok", "secrets_found", "secrets_count", "mode", "processing_time_ms", "skipped_rules", "meta"),
        *("detected_types", "warnings", "scrubbed_content"),
    }
    assert (said["ok"], said["secrets_found"], said["secrets_count"], said["mode"]) == (True, True, 2, "broad")
    first, second = said["detected_types"]
    told = [first[name] for name in ("rule", "line", "column", "length", "confidence")]
    assert told == ["password", 2, 13, 11, 0.75]
    assert (second["rule"], second["line"], second["column"], second["confidence"]) == ("github-token", 3, 8, 0.95)
    assert second["type"].startswith("GitHub")
    assert said["scrubbed_content"] == f'x = 1\npassword = "{first["masked"]}"\ntoken: {second["masked"]}\n'
    assert second["masked"] == f"[REDACTED:github-token:{second['fingerprint'][:6]}]"
    assert TOKEN not in json.dumps(said)


def test_redacting_again_changes_nothing_and_labels_are_the_same_in_every_call(engine: Engine) -> None:
    once = call(engine, content=TEXT)["scrubbed_content"]
    assert call(engine, content=once)["scrubbed_content"] == once
    assert call(engine, content=TEXT)["scrubbed_content"] == once


def test_how_and_what_can_be_chosen(engine: Engine) -> None:
    assert call(engine, content=TEXT, mode="strict")["secrets_count"] == 1
    assert call(engine, content=TEXT, replacement="fixed")["scrubbed_content"].count("[REDACTED]") == 2
    assert call(engine, content=TEXT, allowlist=[TOKEN])["secrets_count"] == 1
    assert call(engine, content=TEXT, returnLocations="false")["detected_types"] == []
    assert "ghp_[REDACTED" in call(engine, content=TEXT, show_start=4)["scrubbed_content"]
    with pytest.raises(InvalidArgument):
        call(engine, content=TEXT, show_start=5)


def test_nothing_of_the_text_is_kept(engine: Engine) -> None:
    call(engine, content=TEXT)
    kept = [path for path in engine.root.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert kept == []


def test_rules_of_the_workspace_are_read_anew_and_what_cannot_be_run_is_named(engine: Engine) -> None:
    assert call(engine, content="acme-4f5g6h7j8k9l")["secrets_count"] == 0
    (engine.root / ".gitleaks.toml").write_text(THEIRS)
    said = call(engine, content="acme-4f5g6h7j8k9l")
    assert said["detected_types"][0]["rule"] == "acme"
    assert [each.split(": ")[:2] for each in said["skipped_rules"]] == [[".gitleaks.toml", "broken"]]
    (engine.root / ".gitleaks.toml").write_text("= 1")
    said = call(engine, content=TOKEN)
    assert (said["secrets_count"], len(said["skipped_rules"])) == (1, 1)
    (engine.root / ".gitleaks.toml").unlink()


def test_a_text_over_two_megabytes_is_refused(engine: Engine) -> None:
    with pytest.raises(TooLarge) as caught:
        call(engine, content="a" * 2_000_001)
    assert "parts" in caught.value.suggestion


def test_a_text_that_no_reply_can_hold_is_left_out_whole_and_said_so(engine: Engine) -> None:
    said = call(engine, content="x = 1\n" * 8_000 + TOKEN)
    assert said["scrubbed_content"] is None
    assert "in parts" in said["warnings"][0]
    assert said["detected_types"][0]["line"] == 8_001
    many = call(engine, content=f"{TOKEN}\n" * 1_000)
    assert many["secrets_count"] == 1_000
    assert f"{len(many['detected_types'])} of 1000 places are listed" in many["warnings"]
    assert len(json.dumps(many)) < engine.settings.result_chars_max


def test_the_key_of_the_labels_belongs_to_the_workspace(engine: Engine, tmp_path: Path) -> None:
    settings = Settings(cache_folder=tmp_path / "cache", workers=0, watch=False)
    (tmp_path / "other").mkdir()
    with Engine.open(tmp_path / "other", settings=settings) as other:
        theirs = call(other, content=TOKEN)["detected_types"][0]["fingerprint"]
    assert call(engine, content=TOKEN)["detected_types"][0]["fingerprint"] != theirs


def test_what_is_remembered_is_redacted_by_both_tiers_with_the_same_labels(engine: Engine) -> None:
    label = call(engine, content=f"{TEXT}")["detected_types"][0]["masked"]
    said = json.loads(
        add_memory.call(engine, {"category": "facts", "content": f"It is reached with this:\n{TEXT}"}, Call()).text
    )
    kept = (engine.root / said["path"]).read_text(encoding="utf-8")
    assert said["redactions"] >= 2
    assert label in kept
    assert "Tr0ub4dor" not in kept
    assert TOKEN not in kept
