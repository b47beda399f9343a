"""Fuzz tests of what lies beside the code: plans, events, memories, chunk files, archives of an index, git's own files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from context_engine.embedding.static_embedder import BadTableError, unpack_table
from context_engine.errors import StorageCorrupt
from context_engine.memory import memory_file
from context_engine.plans import plan_json
from context_engine.plans.plan_events import fold_progress
from context_engine.plans.plan_json import parse_plan as read_plan
from context_engine.plans.plan_markdown import render_plan
from context_engine.plans.plan_validation import validate_plan
from context_engine.references.scip.scip_edges import EdgeProject, ExternalEdges
from context_engine.references.values import NamePlace
from context_engine.repo import Root, git_files
from context_engine.search import chunk_files
from context_engine.storage import event_log
from tests.security.fuzzing import as_bytes, fuzz, mutated, mutated_bytes
from tests.support.planned import ground, plan_of
from training.pack import pack_table

PLAN = {
    "goal": "Ship", "task": "t", "scope": {"included": ["src/"], "excluded": [], "assumptions": ["a"]},
    "steps": [
        {"title": "A", "actions": ["do"], "depends_on": [], "estimate": {"best_h": 1, "likely_h": 2, "worst_h": 3}},
        {"title": "B", "depends_on": [1], "targets": ["src/a.py"], "acceptance": ["it works"], "confidence": 0.5},
    ],
    "risks": [{"issue": "r", "mitigation": "m"}], "milestones": [{"name": "m", "steps": [1, 2]}], "confidence_score": 0.9,
    "questions": ["why?"], "diagrams": [{"type": "x", "mermaid": "flowchart TD"}], "testing_strategy": {"unit": "u"},
}  # fmt: skip


def test_plans_that_are_sent() -> None:
    def read(text: str) -> None:
        plan = read_plan(text).plan
        validate_plan(plan, ground())
        render_plan(plan, fold_progress(plan, ()))

    fuzz(
        "plans that are sent",
        mutated([json.dumps(PLAN), json.dumps(PLAN, indent=1)], ['"steps": ', '"depends_on": [2]']),
        read,
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*PLAN, "title", "uid"]), inner, max_size=5)
    ),
    max_leaves=30,
)


def test_plans_of_any_values() -> None:
    fuzz("plans of any values", JSON_VALUES, lambda value: render_plan(read_plan(value).plan))


def test_versions_of_plans() -> None:
    plan = plan_of((), (1,))
    made = plan_json.PlanVersion(
        plan_id="p", version=1, created_at="2026-11-22T00:00:00Z", change_type="created", content_hash="h", events=()
    )
    sealed = plan_json.encode_version(made, plan).decode()

    def read(text: str) -> None:
        plan_json.decode_version(as_bytes(text))

    fuzz("versions of plans", mutated([sealed]), read, ValueError)


def test_events_of_plans() -> None:
    _, log = event_log._encode_events(event_log.LogContent(), [{"kind": "created"}, {"kind": "started", "step": "s1"}])
    data, _ = event_log._encode_events(event_log.LogContent(), log.events)

    def read(text: str) -> None:
        found = event_log.parse_log(as_bytes(text), Path("events.jsonl"))
        fold_progress(plan_of((), (1,)), version_events(found.events))

    fuzz(
        "events of plans",
        mutated([data.decode(), '{"seq":1,"prev_sha":"","kind":"created"}\n']),
        read,
        StorageCorrupt,
    )


def version_events(rows: Any) -> list[Any]:
    from context_engine.plans.plan_events import PlanEvent

    found = []
    for row in rows:
        try:
            found.append(msgspec.convert(row, PlanEvent))
        except msgspec.ValidationError:
            continue
    return found


def test_memories() -> None:
    seeds = [
        (
            "---\nid: mem_0123456789abcdef\ntitle: Use tabs\ntags: [a]\npriority: helpful\nsubtype: decision\n"
            "expires_at: 2027-01-01\nlinks: [{type: file, target: src/a.py}]\nunknown: {deep: [1]}\n---\nUse tabs.\n"
        ),
        "No front matter.\n",
    ]

    def read(text: str) -> None:
        found = memory_file.parse_file(text, "facts/a.md")
        if not isinstance(found, str):
            memory_file.format_file(found)
            memory_file.update_file(text, found, found)

    fuzz("memories", mutated(seeds), read)


def test_chunk_files() -> None:
    seeds = [
        (
            '{"_metadata": {"model": "m", "fingerprint": "f"}, "chunks": [{"id": "a", "text": "x", "file": "a.py", "lines": [1, 2],'
            ' "embedding": [0.1, -2e3], "tags": ["t"], "metadata": {"a": {"b": 1}}}]}'
        ),
        '[{"id": "a", "text": "x", "embedding": null}]',
    ]

    def read(text: str) -> None:
        for kind in chunk_files.FILES:
            chunk_files.parse_chunk_file(kind, as_bytes(text))

    fuzz("chunk files", mutated(seeds, ["1e400,", "-0.0"]), read)


# -- git's own files --------------------------------------------------------------------------------------------------


def test_files_of_git(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "objects").mkdir()
    sha = "0123456789" * 4
    files = {
        "HEAD": ["ref: refs/heads/main\n", f"{sha}\n", "ref: ../../etc/passwd\n"],
        "packed-refs": [f"# pack-refs with: peeled\n{sha} refs/heads/main\n^{sha}\n"],
        "config": ['[core]\n\tworktree = "../x" ; c\n[include]\n\tpath = /etc/x\n[core "a\\"b"]\n bare = true\n'],
        "commondir": ["../..\n"],
        "gitdir": ["/x/.git\n"],
    }

    def read(given: tuple[str, str]) -> None:
        for name, texts in files.items():
            (git / name).write_text(texts[0])
        for name in ("commondir", "gitdir"):
            (git / name).unlink()
        (git / given[0]).write_bytes(as_bytes(given[1]))
        found = git_files.repository_at(str(tmp_path))
        git_files.core_worktree(given[1])
        git_files.repository_of(str(tmp_path))
        if found:
            git_files.problem_of(found)
            git_files.read_head(found)

    texts = st.sampled_from(sorted(files)).flatmap(
        lambda name: st.tuples(st.just(name), mutated(files[name], ["refs/", "worktree = "]))
    )
    fuzz("files of git", texts, read)


def test_a_file_that_stands_for_a_git_folder(tmp_path: Path) -> None:
    def read(text: str) -> None:
        (tmp_path / ".git").write_bytes(as_bytes(text))
        git_files.repository_at(str(tmp_path))
        git_files.common_dir_of(str(tmp_path))

    fuzz("a .git file", mutated(["gitdir: ../x/.git/worktrees/a\n", f"gitdir: {tmp_path}\n"]), read)


# -- tables of numbers ------------------------------------------------------------------------------------------------


def test_tables_of_vectors() -> None:
    import numpy as np

    table = pack_table(["a", "b"], np.zeros((2, 4), np.int8), {"model": "m"})
    fuzz("static tables", mutated_bytes([bytes(table)]), unpack_table, BadTableError, ValueError)


def test_scip_indexes(tmp_path: Path) -> None:
    made = (Path(__file__).parents[1] / "references/shop.scip").read_bytes()
    shop = Path(__file__).parents[2] / "examples/shop"
    files = {file.relative_to(shop).as_posix(): file.read_bytes() for file in shop.rglob("*.py")}
    project = EdgeProject(lambda path: files.get(path, b""), lambda _: 0, lambda _: list(files), lambda *_: [])

    def read(data: bytes) -> None:
        (tmp_path / "index.scip").write_bytes(data)
        edges = ExternalEdges(Root(tmp_path))
        edges.begin(project)
        for path, text in files.items():
            found = [edges.edge_at(path, text, start) for start in range(0, len(text), 7)]
            targets = frozenset(place for edge in found if edge is not None for place in edge.targets)
            edges.edges_to(path, text, targets | {NamePlace(path, 80)})
            edges.find_implementing(NamePlace(path, 80))
        edges.close()

    fuzz("SCIP indexes", mutated_bytes([made], [b"\x12\xff\xff\xff\x7f", b"\x80" * 12]), read)
