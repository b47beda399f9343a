"""One Engine for each work tree, shared; the least recently used are closed, and none while it is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.daemon import EnginePool
from context_engine.errors import FileNotFound
from tests.support.trees import tree


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        self.now_s += 60.0
        return self.now_s


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "cache"))
    return [tree(tmp_path / name, {"a.py": "x = 1\n"}) for name in ("one", "two", "three")]


def test_clients_of_one_work_tree_share_its_engine(roots: list[Path]) -> None:
    pool = EnginePool(2)
    with pool.lease(roots[0]) as first, pool.lease(str(roots[0]) + "/") as second:
        assert first.engine() is second.engine()
    pool.close()


def test_the_least_recently_used_engine_is_closed_and_opened_again(roots: list[Path]) -> None:
    pool = EnginePool(2, clock=Clock())
    opened = {}
    for root in (roots[0], roots[1], roots[0], roots[2]):
        with pool.lease(root) as lease:
            opened[root] = lease.engine()
    assert pool.roots() == [str(roots[0]), str(roots[2])]
    with pool.lease(roots[1]) as lease:
        assert lease.engine() is not opened[roots[1]]
    pool.close()
    assert pool.roots() == []


def test_an_engine_in_use_is_not_closed_and_an_idle_client_gets_it_again(roots: list[Path]) -> None:
    pool = EnginePool(1, clock=Clock())
    is_busy = True
    stays = pool.lease(roots[0], is_busy=lambda: is_busy)
    first = stays.engine()
    with pool.lease(roots[1]) as lease:
        lease.engine()
    assert str(roots[0]) in pool.roots()
    is_busy = False
    with pool.lease(roots[2]) as lease:
        lease.engine()
    assert str(roots[0]) not in pool.roots()
    assert stays.engine() is not first
    pool.close()


def test_a_work_tree_that_was_replaced_gets_a_new_engine(roots: list[Path]) -> None:
    pool = EnginePool(4, clock=Clock())
    with pool.lease(roots[0]) as lease:
        first = lease.engine()
    roots[0].rename(roots[0].parent / "former")
    with pytest.raises(FileNotFound):
        pool.lease(roots[0])
    tree(roots[0], {"b.py": "y = 2\n"})
    with pool.lease(roots[0]) as lease:
        assert lease.engine() is not first
    pool.close()
