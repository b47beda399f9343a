"""What a session makes of a change between two commits: every file looked at once, by its blobs, and nothing kept that is secret."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import Cancelled, PreconditionFailed, RefNotFound
from context_engine.model import Finding
from context_engine.repo.git import Git
from context_engine.repo.paths import Root
from context_engine.review.analyzers import ALL, AnalyzerRunner
from context_engine.review.finding import ReviewOptions, ReviewRequest
from context_engine.review.review_job import (
    UNIT_FILES_MAX,
    UNIT_LINES_MAX,
    ReviewJob,
    ReviewMetrics,
    cut_into_units,
    open_review_job,
    summarize_metrics,
)
from context_engine.review.review_service import ReviewWorkspace
from context_engine.review.review_store import ReviewSession, ReviewStore, ReviewUnit
from context_engine.review.verdict import NO_TIME, AnalyzerRun
from context_engine.secrets import redact
from context_engine.text.lines import LineSpan
from tests.support.changes import SCRATCH
from tests.support.engines import GRAMMARS, LANGUAGES
from tests.support.trees import commit, git, repository, tree

KEY = "ghp_" + "a1B2c3D4e5F6" * 3
BEFORE = "def load(path):\n    return open(path).read()\n"
AFTER = BEFORE + "\n\ndef safe(path):\n    try:\n        return load(path)\n    except:\n        return None\n"


def analysed(found: Sequence[Finding] = (), runs: Sequence[Any] = (), name: str = "") -> SimpleNamespace:
    """Analyzers that report this."""
    report = SimpleNamespace(findings=found, runs=runs)
    return SimpleNamespace(run=lambda *_, **_named: report, fingerprint=lambda *_: name)


def means(root: Path, **other: Any) -> Any:
    """What a small workspace has to review with: our own checks, and nothing installed."""
    masks: Any = SimpleNamespace(redact=redact, redact_parts=lambda _files: lambda text: redact(text).text)
    masks.history, masks.read_once, masks.find = lambda: None, lambda _path: None, lambda *_: ()
    made = ReviewWorkspace(Root(root), Git(root), LANGUAGES, GRAMMARS, masks, masks, masks, SCRATCH)
    vars(made).update({"analyzers": analysed()} | other)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a branch that changes four files and adds one."""
    root = repository(tmp_path / "work", {f"src/f{number}.py": BEFORE for number in range(5)})
    git(root, "checkout", "--quiet", "-b", "topic")
    tree(
        root,
        {f"src/f{number}.py": AFTER for number in range(4)} | {"new.py": f'try:\n    go()\nexcept: token = "{KEY}"\n'},
    )
    commit(root, "change")
    return root


def change(root: Path, made: Any = None, **asked: Any) -> ReviewJob:
    return open_review_job(
        ReviewRequest("topic", "main", **asked), made or means(root), ReviewStore(root / ".context-engine")
    )


def paths_of(made: ReviewJob) -> list[str]:
    return [path for unit in made.cut() for path in unit.paths]


def test_a_request_is_kept_with_full_hashes_and_means_the_same_when_branches_move(root: Path) -> None:
    first = change(root)
    commits = git(root, "rev-parse", "topic"), git(root, "rev-parse", "main")
    assert (first.request.commit, first.request.base) == commits
    tree(root, {"later.py": "x = 1\n"})
    commit(root, "later")
    again = open_review_job(first.request, means(root), first.store)
    assert (again.request.key, again.cut(), again.keys) == (first.request.key, first.cut(), first.keys)
    assert paths_of(first) == ["new.py", *(f"src/f{number}.py" for number in range(4))]


@pytest.mark.parametrize(
    "what",
    [
        lambda root: tree(root, {"src/f0.py": AFTER + "\n"}),
        lambda root: git(root, "mv", "src/f4.py", "src/g4.py"),
        lambda root: git(root, "update-index", "--chmod=+x", "src/f0.py"),
    ],
)
def test_a_file_with_another_content_name_or_mode_is_not_known(root: Path, what: Any) -> None:
    before = set(change(root).keys.values())
    what(root)
    git(root, "commit", "--quiet", "--all" if (root / "src/f0.py").read_text() != AFTER else "--quiet", "-m", "other")
    assert len(set(change(root).keys.values()) - before) == 1


def test_other_rules_analyzers_or_options_know_nothing(root: Path) -> None:
    jobs = [
        change(root),
        change(root, means(root, analyzers=analysed(name="ruff 1.0"))),
        change(root, means(root, make_reviewer=lambda _options: (SimpleNamespace(ruleset="other"), ()))),
        change(root, options=ReviewOptions(confidence_threshold=0.5)),
    ]
    assert len({job.keys["new.py"] for job in jobs}) == len(jobs)


def test_nothing_secret_is_kept(root: Path) -> None:
    made = change(root, title=f"Use {KEY}", author=KEY, options=ReviewOptions(custom_instructions=f"with {KEY}"))
    assert KEY not in repr(made.request)
    review, cache = made.review_files(paths_of(made), threading.Event())
    outcome, pending = made.conclude(review.files, {}, threading.Event())
    stored = b"".join((msgspec.json.encode([review, outcome]), *filter(None, cache.values()), pending))
    assert KEY.encode() not in stored
    quotes = [finding.quote for file in review.files for finding in file.findings]
    assert any("except: token = " in quote for quote in quotes), "its line is quoted without it"


def test_findings_of_analyzers_are_kept_with_their_file_and_their_time_is_told_once(root: Path) -> None:
    found = Finding(
        "E722", "ruff", "bare except", "", 2, "correctness", 0.9, "src/f1.py", LineSpan(8, 8), "except:",
        is_on_changed_line=True,
    )  # fmt: skip
    runs = [AnalyzerRun("ruff", True, 12, 1), AnalyzerRun("tsc", False, why_not="not installed")]
    made = change(root, means(root, analyzers=analysed([found], runs)))
    review, cache = made.review_files(["src/f0.py", "src/f1.py"], threading.Event())
    sources = [{finding.source for finding in file.findings} for file in review.files]
    assert ["ruff" in named for named in sources] == [False, True]
    ruff, tsc = made.conclude(review.files, {}, threading.Event())[0].review["coverage"]["analyzers"]
    assert (ruff["ran"], ruff["ms"], ruff["findings"], tsc["why_not"]) == (True, 12, 1, "not installed")
    made.store.add(ReviewSession("rev_1", "key", 0.0, 0.0, 1, ReviewRequest("topic", "main")))
    made.store.update("rev_1", lambda session: msgspec.structs.replace(session, updated_at=1.0), {}, cache)
    again, _ = made.review_files(["src/f0.py", "src/f1.py"], threading.Event())
    assert again.metrics.hits == 2
    assert {run.ms for file in again.files for run in file.runs} == {0}


@pytest.mark.parametrize(
    ("run", "is_kept"),
    [
        (AnalyzerRun("ruff", True, why_not="took longer than 20 s"), False),
        (AnalyzerRun("ruff", False, why_not=NO_TIME), False),
        (AnalyzerRun("ruff", False, why_not="not installed"), True),
    ],
)
def test_an_analyzer_that_failed_is_asked_again_the_next_time(root: Path, run: AnalyzerRun, is_kept: bool) -> None:
    made = change(root, means(root, analyzers=analysed((), [run])))
    review, cache = made.review_files(["src/f0.py"], threading.Event())
    assert (bool(cache), not review.metrics.failures) == (is_kept, is_kept)


def test_only_named_files_are_reviewed_and_others_are_told_of(root: Path) -> None:
    made = change(root, paths=("src/f1.py", "src/f4.py", "nowhere.py"))
    assert paths_of(made) == ["src/f1.py"]
    assert made.request.warnings == ("not changed between the two commits: nowhere.py, src/f4.py",)
    with pytest.raises(PreconditionFailed):
        change(root, paths=("src/f4.py",))
    with pytest.raises(RefNotFound):
        open_review_job(ReviewRequest("no-such-branch", "main"), means(root), made.store)


def test_a_stopped_review_ends_at_the_next_file(root: Path) -> None:
    made, stop = change(root), threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        made.review_files(["new.py"], stop)
    with pytest.raises(Cancelled):
        made.conclude([], {}, stop)


def test_another_program_or_for_compilers_another_tree_is_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for each in ALL:
        (tmp_path / each.program).write_text("#!/bin/sh\n")
        (tmp_path / each.program).chmod(0o755)
    linters = AnalyzerRunner(tuple(each for each in ALL if not each.needs_whole_tree), SCRATCH)
    first = linters.fingerprint(ReviewOptions(analyzers=("ruff",)), "commit")
    assert linters.fingerprint(ReviewOptions(analyzers=("ruff",)), "other commit") == first != ""
    assert linters.fingerprint(ReviewOptions(analyzers="none"), "commit") == ""
    (tmp_path / "ruff").write_text("#!/bin/sh\n# another release\n")
    assert linters.fingerprint(ReviewOptions(analyzers=("ruff",)), "commit") != first
    compilers = tuple(each for each in ALL if each.needs_whole_tree)
    whole = AnalyzerRunner(compilers, SCRATCH, frozenset(each.name for each in compilers))
    assert whole.fingerprint(ReviewOptions(), "commit") != whole.fingerprint(ReviewOptions(), "other commit")


sizes = st.dictionaries(st.text("abc/", min_size=1, max_size=6), st.integers(0, 2_000), max_size=40)


@given(sizes)
def test_every_file_is_in_exactly_one_unit_and_no_unit_is_too_large(found: dict[str, int]) -> None:
    units = cut_into_units(found.items())
    assert [path for unit in units for path in unit.paths] == sorted(found)
    for unit in units:
        assert 1 <= len(unit.paths) <= UNIT_FILES_MAX
        assert len(unit.paths) == 1 or sum(found[path] for path in unit.paths) <= UNIT_LINES_MAX


def unit(times: Sequence[float], tries: int = 1) -> ReviewUnit:
    queued_at, began_at, ended_at = times
    return ReviewUnit(("a.py",), 1, "done", tries, 1, 0, queued_at, began_at, ended_at)


moments = st.integers(1, 50).map(float)
spans = st.lists(st.tuples(moments, moments, moments).map(lambda three: unit(sorted(three))), max_size=8)


@given(spans)
def test_units_take_at_least_as_long_together_as_the_time_in_which_any_was_under_way(found: list[ReviewUnit]) -> None:
    seconds = {second for span in found for second in range(int(span.began_at), int(span.ended_at))}
    told = summarize_metrics([], found, [], 2)
    assert told["units"]["total_ms"] >= told["units"]["wall_ms"] == len(seconds) * 1_000
    assert told["worker_utilisation"] is None or told["worker_utilisation"] > 0


def test_everything_is_counted() -> None:
    figures = [
        ReviewMetrics({"lint": [1.0, 3.0]}, 3, 1, 10, ["ruff: timed out"]),
        ReviewMetrics({"lint": [2.0], "merge": [5.0]}, 0, 0, 5),
    ]
    pairs = [("ruff", "style"), ("builtin", "style"), ("ruff", "security")]
    found = [{"source": source, "category": category} for source, category in pairs]
    told = summarize_metrics(figures, [unit((0.0, 1.0, 3.0)), unit((0.0, 2.0, 4.0), tries=2)], found, 2)
    assert told["stages"]["lint"] == {"p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0, "count": 3}
    assert told["cache"] == {"hits": 3, "misses": 1, "rate": 0.75}
    assert told["findings"] == {"by_source": {"builtin": 1, "ruff": 2}, "by_category": {"security": 1, "style": 2}}
    assert (told["units"], told["worker_utilisation"]) == ({"count": 2, "total_ms": 4_000.0, "wall_ms": 3_000.0}, 0.667)
    assert (told["queue_wait"]["max"], told["bytes_read"], told["retries"]) == (2_000.0, 15, 1)
    assert told["analyzer_failures"] == ["ruff: timed out"]
