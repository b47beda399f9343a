"""The golden ranks of the committed corpus, and the checker that guards them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evals.retrieval import golden
from evals.retrieval.metrics import Target, ndcg, ranks, recall, recall_within, reciprocal

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = ROOT / "evals" / "retrieval" / "adapter.py"
CORPUS = ROOT / "evals" / "retrieval" / "tiny" / "corpus"


def test_the_committed_corpus_ranks_as_the_golden_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = golden.main(["--tiny"])
    assert code == golden.SAME, capsys.readouterr().out


def test_a_rank_that_changes_is_shown_as_a_diff(tmp_path: Path) -> None:
    before = tmp_path / "ranks.txt"
    before.write_text("a 1 (c): 1 questions\n   1  where\n", encoding="utf-8")
    assert golden.compare("a 1 (c): 1 questions\n   1  where\n", before, set()) == ""
    assert "-   1  where\n+   4  where" in golden.compare("a 1 (c): 1 questions\n   4  where\n", before, set())


def test_a_package_that_cannot_be_fetched_fails_unless_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed, ranked = tmp_path / "packages.toml", tmp_path / "ranks.txt"
    listed.write_text('[[corpus]]\nname="a"\nregistry="npm"\nversion="1"\nlanguage="c"\nquestions=[["q","p"]]\n')
    ranked.write_text("# head\n\na 1 (c): 1 questions\n   1  where\n", encoding="utf-8")

    def unreachable(corpus: golden.Corpus, place: Path) -> None:
        raise golden.NotFetchedError("no network")

    for name, value in {"PACKAGES": listed, "RANKS": ranked, "CORPORA": tmp_path, "fetch": unreachable}.items():
        monkeypatch.setattr(golden, name, value)
    monkeypatch.setattr(golden, "HEAD", "# head")
    assert golden.main([]) == golden.MISSING
    assert "SKIPPED a 1: not on disk and not fetched (no network)" in capsys.readouterr().out
    assert golden.main(["--allow-missing"]) == golden.SAME
    assert golden.main(["--update"]) == golden.MISSING
    assert "   1  where" in ranked.read_text(encoding="utf-8")


def test_every_package_is_pinned_by_version_and_hash() -> None:
    corpora = golden.Corpus.all_of(golden.PACKAGES)
    assert corpora
    assert [each.name for each in corpora if not each.version or not (each.sha256 or each.sha512)] == []


def test_the_adapter_speaks_one_line_a_request_and_survives_bad_ones() -> None:
    requests = [
        {"op": "search", "query": "too early"},
        {"op": "index", "dir": str(CORPUS), "repo": "tiny"},
        {"op": "search", "query": "check digit of a barcode", "top_k": 2},
        {"op": "search", "query": " "},
        {"op": "dance"},
    ]
    lines = "not json\n" + "".join(json.dumps(request) + "\n" for request in requests)
    ran = subprocess.run(
        [sys.executable, str(ADAPTER)], input=lines, capture_output=True, text=True, timeout=120, check=True
    )
    broken, early, indexed, found, empty, unknown = map(json.loads, ran.stdout.splitlines())
    assert indexed == {"ok": True}
    assert found["results"][0]["path"] == "scanner/src/barcode.rs"
    assert [each["ok"] for each in (broken, early, empty, unknown)] == [False] * 4
    assert "unknown op 'dance'" in unknown["error"]


def test_the_figures_of_a_ranking_by_hand() -> None:
    rows = [{"path": path, "start": 1, "end": 9, "content": "x" * 400} for path in ("c", "a", "c", "b")]
    found = ranks(rows, [Target("a"), Target("b")])
    assert found == [2, 4]
    assert reciprocal(found) == 0.5
    assert recall(found, wanted=2, k=3) == 0.5
    assert ndcg([1, 2], wanted=2) == 1.0
    assert [recall_within(rows, [Target("a")], tokens) for tokens in (199, 200)] == [0.0, 1.0]
