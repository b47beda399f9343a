"""What a reply shows of a file in any encoding can be searched, matched, edited, written and undone."""

from __future__ import annotations

import codecs
from collections.abc import Generator
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import WrongEncoding
from context_engine.text import wide_encoding
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


def source(word: str) -> str:
    return f"# {word}\nsize = 1\nname = '{word}'\n"


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
    assert word in text(engine, "read", items=[f"{path}:{first}-{first + 2}"])
    for call in ({"query": word}, {"query": f"name = .{word}", "regex": True}):
        found = text(engine, "search_text", include=[path], **call)
        assert f"\n{path}\n" in found
        assert word in found
    assert word in text(engine, "scout", keywords=[word], file_patterns=[path])
    assert word in text(engine, "grep_codebase", pattern=word, file_pattern=path)
    text(engine, "edit_file", path=path, target=f"name = '{word}'", replace=f"name = '{other}'")
    assert file.read_bytes() == before.replace(f"name = '{word}'", f"name = '{other}'").encode(encoding)
    assert path in text(engine, "search_text", query=f"name = '{other}'", include=[path])
    text(engine, "undo_edit")
    assert file.read_bytes() == raw
    text(engine, "write_file", path=path, content=source(other), overwrite=True)
    assert file.read_bytes() == source(other).encode(encoding)
    text(engine, "undo_edit")


@pytest.mark.parametrize("encoding", LACKING)
def test_an_edit_is_refused_only_for_a_character_that_the_encoding_lacks(engine: Engine, encoding: str) -> None:
    path = f"{encoding}.py"
    raw = (Path(engine.root) / path).read_bytes()
    with pytest.raises(WrongEncoding, match=r"encoded in .* which has no"):
        text(engine, "edit_file", path=path, target="size = 1", replace=f"size = '{LACKING[encoding]}'")
    assert (Path(engine.root) / path).read_bytes() == raw


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "gbk"])
def test_a_rename_reaches_every_encoding(engine: Engine, encoding: str) -> None:
    file = Path(engine.root) / f"{encoding}.py"
    before = file.read_bytes().decode(encoding)
    text(engine, "rename_symbol", path=file.name, name="size", new_name="length", dry_run=False, accept=["none"])
    assert file.read_bytes() == before.replace("size", "length").encode(encoding)
    text(engine, "undo_edit")


def test_numbers_are_no_text() -> None:
    for raw in (b"\0\1" * 500, codecs.BOM_UTF16_LE + b"a\0\0\0", bytes(range(256)) * 8):
        assert wide_encoding(raw) == ""
