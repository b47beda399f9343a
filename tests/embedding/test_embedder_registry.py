"""The list of embedders: read without importing any, added to by other packages, clear about what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.embedding.embedder import EmbedderConfig, Provider
from context_engine.embedding.embedder_registry import PROVIDERS, list_providers, open_embedder
from context_engine.errors import EmbedderUnusable, UnsupportedHost

HEAVY = "httpx2 onnxruntime torch transformers tokenizers huggingface_hub model2vec sentence_transformers onnx".split()


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that brings two embedders, one of them by a name of ours."""
    (tmp_path / "other_embedders.py").write_text("def mine(choice):\n    return ('mine', choice.model)\n")
    facts = tmp_path / "other_embedders-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: other-embedders\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[context_engine.embedders]\nmine = other_embedders:mine\nstatic = other_embedders:mine\nlost = other_absent:it\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_list_is_read_without_importing_a_model_library_or_a_network() -> None:
    code = f"""
import sys
from context_engine.embedding.embedder_registry import list_providers
from context_engine.embedding import http_endpoint, remote_embedder, wordpiece
assert len(list_providers()) >= 7
print([name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_row_says_what_it_is_and_names_are_unique() -> None:
    names = [row.name for row in PROVIDERS]
    assert names == ["none", "static", "minilm", "openai-compatible", "ollama", "sentence-transformers", "model2vec"]
    assert all(row.summary for row in PROVIDERS)


def test_none_embeds_nothing() -> None:
    assert open_embedder(EmbedderConfig("none")) is None


def test_an_unknown_name_is_refused_with_the_nearest_or_with_all() -> None:
    with pytest.raises(EmbedderUnusable, match="no embedder 'olama'") as near:
        open_embedder(EmbedderConfig("olama"))
    assert near.value.suggestion == "Did you mean ollama?"
    with pytest.raises(EmbedderUnusable) as far:
        open_embedder(EmbedderConfig("x" * 1_000))
    assert "static, minilm" in far.value.suggestion
    assert len(far.value.message) < 120


@pytest.mark.parametrize(
    ("name", "missing", "step"),
    [
        ("model2vec", "model2vec", " install 'smart-context-engine[model2vec]'"),
        ("sentence-transformers", "sentence_transformers", " install 'smart-context-engine[sentence-transformers]'"),
    ],
)
def test_an_extra_that_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, name: str, missing: str, step: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UnsupportedHost, match=f"the embedder {name} cannot start") as refused:
        open_embedder(EmbedderConfig(name, model="/nowhere"))
    assert step in refused.value.suggestion


def test_a_model_folder_that_is_not_there_is_named_and_nothing_is_downloaded(tmp_path: Path) -> None:
    pytest.importorskip("model2vec")
    for model in ("", "minishlab/potion-base-8M", str(tmp_path / "absent")):
        with pytest.raises(EmbedderUnusable, match="there is no folder") as refused:
            open_embedder(EmbedderConfig("model2vec", model=model))
        assert "hf download" in refused.value.suggestion


def test_a_folder_without_a_sound_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("model2vec")
    for damaged in ({}, {"config.json": "{}", "tokenizer.json": "{}", "model.safetensors": "no"}):
        for name, text in damaged.items():
            (tmp_path / name).write_text(text)
        with pytest.raises(EmbedderUnusable, match="cannot be read"):
            open_embedder(EmbedderConfig("model2vec", model=str(tmp_path)))


@pytest.mark.usefixtures("other_package")
def test_another_package_adds_rows_but_never_takes_a_name_of_ours() -> None:
    rows = list_providers()
    assert rows[: len(PROVIDERS)] == PROVIDERS
    assert rows[len(PROVIDERS) :] == (
        Provider("lost", "other_absent:it", "from the package other-embedders"),
        Provider("mine", "other_embedders:mine", "from the package other-embedders"),
    )
    assert "other_embedders" not in sys.modules


@pytest.mark.usefixtures("other_package")
def test_an_embedder_of_another_package_is_made_when_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_embedder(EmbedderConfig("mine", model="m")) == ("mine", "m")
    monkeypatch.delitem(sys.modules, "other_embedders")
    with pytest.raises(UnsupportedHost, match="other_absent is not installed") as refused:
        open_embedder(EmbedderConfig("lost"))
    assert refused.value.suggestion.endswith(" install other_absent")
