"""Whoever copies lines with labels back into an edit changes nothing that the labels hide, or is refused."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from tests.support.engines import indexed
from tests.support.secret_examples import Drawn, drawn
from tests.support.tool_calls import text
from tests.support.trees import repository, tree

PEM = "-----BEGIN RSA PRIVATE KEY-----\n<b64>\n<b64>\n<b40>\n-----END RSA PRIVATE KEY-----"
HIDING = (
    'password = "<w20>"',
    "url = 'postgres://app:<w14>@localhost/db'  # same = 1",
    'connect("ghp_<w36>", 1, token="<x32>")',
    PEM,
    f'KEY = """{PEM}\n"""',
    "\n".join(f'    "{line}\\n"' for line in PEM.split("\n")),
    "DB_PASSWORD=ab1-same-<w8>",
)
PLAIN = ("", "same = 1", "    return same", "# see [masked password]", 'x = "[masked private key]"', "def f():", "\t")
PARTS = st.builds(Drawn, st.sampled_from(PLAIN), st.just(())) | st.builds(
    drawn, st.sampled_from(HIDING), st.sampled_from("abc")
)
PATHS = ("a.py", "a.env", "a.yml", "tests/a.py", "a.md")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    root = repository(tmp_path_factory.mktemp("redacted") / "w")
    with indexed(tree(root, dict.fromkeys(PATHS, b"\n"))) as engine:
        yield engine


def changed_elsewhere(data: st.DataObject, lines: Sequence[str]) -> list[str]:
    """The lines as an agent sends them back: some without a label are gone, others have a comment or a new line."""
    changed: list[str] = []
    for line in lines:
        what = data.draw(st.sampled_from(["keep", "keep", "drop", "comment", "add", "replace"]))
        if what == "drop" and "[masked" not in line:
            continue
        line = line.replace("same", "other") if what == "replace" else line
        changed += [f"{line} # new" if what == "comment" else line, *(["added = 2"] if what == "add" else [])]
    return changed


def send(data: st.DataObject, engine: Engine, path: str, shown: list[str], sha: str) -> None:
    """One edit of any kind, made of lines that were shown."""
    first = data.draw(st.integers(0, len(shown) - 1))
    last = data.draw(st.integers(first, len(shown) - 1))
    old = shown[first : last + 1]
    new = changed_elsewhere(data, old)
    whole = [*shown[:first], *new, *shown[last + 1 :]]
    rows = [{"target": line, "replace": "\n".join(changed_elsewhere(data, [line]))} for line in old]
    is_text = data.draw(st.booleans())
    how = data.draw(st.sampled_from(["whole", "text", "several", "lines", "fuzzy", "everywhere", "diff"]))
    if how == "whole":
        text(engine, "write_file", path=path, content="\n".join(whole), labels_are_text=is_text)
    elif how == "text":
        row = {"target": "\n".join(old), "replace": "\n".join(new)}
        text(engine, "edit_file", path=path, **row, labels_are_text=is_text)
    elif how == "several":
        kept = [row for row in rows if is_text or "[masked" not in row["target"]]
        text(engine, "edit_file", path=path, edits=kept, labels_are_text=is_text)
    elif how == "lines":
        row = {"line_range": f"{first + 1}-{last + 1}", "replace": "\n".join(new)}
        text(engine, "edit_file", path=path, **row, expected_hash=sha, labels_are_text=is_text)
    elif how == "fuzzy":
        far = {"enabled": True, "maxDistance": 30, "whitespaceOnly": False}
        pair = {"old_content": "\n".join(old), "new_content": "\n".join(new)}
        text(engine, "safe_replace", file_path=path, **pair, fuzzy_match=far)
    elif how == "everywhere":
        word, count = data.draw(st.sampled_from(["same", "a", "1", '"'])), data.draw(st.integers(1, 9))
        text(engine, "safe_replace", file_path=path, old_content=word, new_content="other", expected_matches=count)
    else:
        diff = "\n".join(difflib.unified_diff(shown, whole, "a", "b", lineterm=""))
        engine.edits.apply([engine.edits.change_by_diff(path, diff)])


@given(st.lists(PARTS, min_size=1, max_size=6), st.sampled_from(PATHS), st.sampled_from(["\n", "\r\n"]), st.data())
def test_an_edit_of_copied_lines_keeps_every_hidden_value_or_changes_nothing(
    engine: Engine, parts: list[Drawn], path: str, ending: str, data: st.DataObject
) -> None:
    file = Path(engine.root) / path
    before = ("\n".join([*(part.text for part in parts), "end"]) + "\n").replace("\n", ending)
    file.write_bytes(before.encode())
    head, *shown = text(engine, "read_file", path=path).split("\n")
    values = [value for part in parts for value in part.parts if value not in "\n".join(shown)]
    try:
        send(data, engine, path, shown, head.rpartition("sha256 ")[2])
        is_refused = False
    except ContextEngineError:
        is_refused = True
    after = file.read_bytes().decode()
    assert not is_refused or after == before
    assert all(after.count(value) == before.count(value) for value in values)
