"""What a reply shows of a file in any encoding can be searched, matched, edited, renamed, written, undone and masked."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Generator
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import WrongEncoding
from context_engine.text import decode, wide_encoding
from tests.support.engines import indexed
from tests.support.tool_calls import text
from tests.support.trees import repository, tree

WORDS = {
    "utf-8": ("Prüfung", "Größe"),
    "utf-8-sig": ("Prüfung", "検査"),
    "utf-16": ("Prüfung", "検査"),
    "utf-16-le": ("Prüfung", "Größe"),
    "utf-16-be": ("Prüfung", "Größe"),
    "utf-32": ("Prüfung", "検査"),
    "utf-32-le": ("Prüfung", "Größe"),
    "latin-1": ("Prüfung", "déjà"),
    "cp1252": ("„Prüfung“", "l’été"),
    "cp1250": ("ścieżka", "žluťoučký"),
    "cp1251": ("проверка", "Ошибка"),
    "cp1253": ("έλεγχος", "σφάλμα"),
    "cp1254": ("değişken", "ışık"),
    "cp1255": ("שלום עולם", "עולם"),
    "cp1256": ("مرحبا", "بالعالم"),
    "cp1257": ("ceļš", "ąžuolas"),
    "gbk": ("设置路径", "错误信息"),
    "big5": ("檢查設定", "錯誤資料"),
    "shift_jis": ("設定を検査する", "エラー"),
    "euc_jp": ("設定を検査する", "エラー"),
    "euc_kr": ("설정 파일", "오류"),
}
LACKING = {"latin-1": "я", "cp1251": "é", "gbk": "é̱", "shift_jis": "ü", "euc_kr": "ü", "cp1253": "я"}


SECRET = "ghp_" + "aB3dE5gH7jK9" * 3


def source(word: str) -> str:
    return f"# {word}\ntoken = '{SECRET}'\nsize = 1\nname = '{word}'\n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    root = repository(tmp_path_factory.mktemp("encodings") / "w")
    files = {f"{encoding}.py": source(word).encode(encoding) for encoding, (word, _) in WORDS.items()}
    files |= {
        f"long-{path}": ("x = 0\n" * 1_500).encode(path[:-3]) + raw
        for path, raw in files.items()
        if "16" not in path and "32" not in path
    }
    with indexed(tree(root, files | {"plain.py": b"size = 2\n"})) as engine:
        yield engine


@pytest.mark.parametrize("name", ["{}.py", "long-{}.py"])
@pytest.mark.parametrize("encoding", WORDS)
def test_what_is_shown_is_found_and_edited(engine: Engine, encoding: str, name: str) -> None:
    word, other = WORDS[encoding]
    path = name.format(encoding)
    file = Path(engine.root) / path
    if not file.exists():
        return  # a mark or the NULs decide in the first bytes
    raw = file.read_bytes()
    before = raw.decode(encoding)
    first = before.count("\n") - 2
    said = decode(raw).label
    assert said.endswith("?") != (encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32")), said
    shown = text(engine, "read", items=[f"{path}:{first - 1}-{first + 2}"])
    assert word in shown
    assert SECRET not in shown
    assert (f" · {said} · sha256" in shown) == bool(said)
    assert SECRET not in text(engine, "search_text", query="token =", include=[path])
    for call in ({"query": word}, {"query": f"name = .{word}", "regex": True}):
        found = text(engine, "search_text", include=[path], **call)
        assert f"\n{path}{said and f' · {said}'}\n" in found
        assert word in found
    assert word in text(engine, "scout", keywords=[word], file_patterns=[path])
    assert word in text(engine, "grep_codebase", pattern=word, file_pattern=path)
    edited = text(engine, "edit_file", path=path, target=f"name = '{word}'", replace=f"name = '{other}'")
    assert (f"note: encoded in {said}" in edited) == bool(said)
    assert file.read_bytes() == before.replace(f"name = '{word}'", f"name = '{other}'").encode(encoding)
    assert path in text(engine, "search_text", query=f"name = '{other}'", include=[path])
    text(engine, "undo_edit")
    assert file.read_bytes() == raw
    rename = {"path": path, "name": "size", "new_name": "length", "accept": ["none"]}
    for dry_run in (True, False):
        renamed = text(engine, "rename_symbol", dry_run=dry_run, **rename)
        assert (f"note: encoded in {said}" in renamed) == bool(said)
    assert file.read_bytes() == before.replace("size", "length").encode(encoding)
    text(engine, "undo_edit")
    written = text(engine, "write_file", path=path, labels_are_text=True, content=source(other), overwrite=True)
    assert (f"note: encoded in {said}" in written) == bool(said)
    assert file.read_bytes() == source(other).encode(encoding)
    text(engine, "undo_edit")


@pytest.mark.parametrize("encoding", LACKING)
def test_an_edit_is_refused_only_for_a_character_that_the_encoding_lacks(engine: Engine, encoding: str) -> None:
    path = f"{encoding}.py"
    raw = (Path(engine.root) / path).read_bytes()
    with pytest.raises(WrongEncoding, match=r"encoded in .* which has no"):
        text(engine, "edit_file", path=path, target="size = 1", replace=f"size = '{LACKING[encoding]}'")
    assert (Path(engine.root) / path).read_bytes() == raw


def test_damaged_utf_8_takes_any_character(tmp_path: Path) -> None:
    with indexed(tree(tmp_path, {"a.py": "b = 'é'\n".encode() * 5 + b"c = '\xff'\nd = 1\n"})) as engine:
        assert "note: encoded in damaged utf-8" in text(
            engine, "edit_file", path="a.py", target="d = 1", replace="d = 'я'"
        )
    assert (tmp_path / "a.py").read_bytes().endswith(b"c = '\xff'\n" + "d = 'я'\n".encode())


def test_numbers_are_no_text() -> None:
    records = struct.pack("<400H", *[number for row in range(100) for number in (65 + row % 26, 97, 98, row % 8)])
    columns = "name\0value\0abcd\0".encode("utf-32-be") * 40
    for raw in (records, columns, b"\0\1" * 500, codecs.BOM_UTF16_LE + b"a\0\0\0", bytes(range(256)) * 8):
        assert wide_encoding(raw) == ""
