"""A file that others lean on is important; one that nobody uses is not."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.index.importance import DAMPING, ROUNDS, SCALE, importance
from context_engine.index.snapshot import Snapshot
from tests.support.engines import segment_of

NAMES = "abcd"


def file_text(defines: str, uses: set[str]) -> str:
    body = "".join(f"    do_{name}()\n" for name in sorted(uses)) or "    pass\n"
    return f"def do_{defines}():\n{body}"


def snapshot_of(uses: dict[str, set[str]], dead: AbstractSet[str] = frozenset()) -> Snapshot:
    """Files named like what each of them defines, that call what others define; all in one segment, some dead."""
    return Snapshot(
        [segment_of({f"{name}.py": file_text(name, used) for name, used in uses.items()})],
        [[number for number, name in enumerate(uses) if name in dead]],
        [np.zeros(len(uses), np.float32)],
        generation="g",
        epoch=1,
    )


def by_hand(uses: dict[str, set[str]], dead: set[str]) -> dict[str, float]:
    """PageRank as its authors wrote it down, over dictionaries."""
    alive = [name for name in uses if name not in dead]
    links = {name: {used for used in uses[name] if used in alive and used != name} for name in alive}
    if not any(links.values()):
        return dict.fromkeys(uses, 0.0)
    rank = {name: 1 / len(alive) for name in alive}
    for _ in range(ROUNDS):
        lost = sum(rank[name] for name in alive if not links[name])
        rank = {
            name: (1 - DAMPING) / len(alive)
            + DAMPING * (lost / len(alive) + sum(rank[o] / len(links[o]) for o in alive if name in links[o]))
            for name in alive
        }
    value = {name: np.log(rank[name] * len(alive) / (1 - DAMPING)) / SCALE for name in alive}
    return {name: max(0.0, float(value.get(name, 0.0))) for name in uses}


@given(
    st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=3), min_size=1, max_size=4),
    st.sets(st.sampled_from(NAMES), max_size=2),
)
def test_importance_is_page_rank_over_who_uses_whom(uses: dict[str, set[str]], dead: set[str]) -> None:
    expected = by_hand(uses, dead)
    found = importance(snapshot_of(uses, dead)).tolist()
    assert found == pytest.approx([expected[name] for name in uses], abs=1e-4)


def test_a_name_that_two_files_define_says_nothing() -> None:
    text = {"a.py": "def do_a(): ...\n", "b.py": "def do_a(): ...\n", "c.py": "do_a()\n"}
    snapshot = Snapshot([segment_of(text)], [[]], [np.zeros(3, np.float32)], generation="g", epoch=1)
    assert importance(snapshot).tolist() == [0, 0, 0]


def test_importance_does_not_depend_on_how_files_lie_in_segments() -> None:
    uses = {"a": {"b"}, "b": set(), "c": {"b", "a"}}
    parts = [segment_of({f"{name}.py": file_text(name, used)}) for name, used in uses.items()]
    several = Snapshot(parts, [[], [], []], [np.zeros(1, np.float32)] * 3, generation="g", epoch=1)
    assert importance(several).tolist() == pytest.approx(importance(snapshot_of(uses)).tolist())
