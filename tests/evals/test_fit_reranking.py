"""The weights of reranking are fitted: from commits to facts, and from facts to weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from context_engine.search.reranking import PlaceFacts
from evals.places import fit_reranking
from tests.support.trees import commit, repository, tree

POOL = "def drain(pool):\n    while pool.items:\n        pool.items.pop()\n    return pool\n"
MESSAGE = "Close a pool that is drained\n\nThe pool stayed open after drain, so a later call of take found nothing."


def test_the_facts_of_a_commit_are_those_of_the_tree_before_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "pools")
    commit(tree(root, {"src/pool.py": POOL, "src/other.py": "def other():\n    return 1\n"}), "Begin")
    commit(tree(root, {"src/pool.py": POOL.replace("return pool", "return pool.close()")}), MESSAGE)
    commit(tree(root, {"src/pool.py": "def take(pool):\n    return pool\n"}), "Later")
    found = fit_reranking.collect("ann/pools", root / ".git", 9)
    assert found["counts"].tolist() == [len(found["needed"])]
    assert found["facts"].shape == (len(found["needed"]), len(PlaceFacts._fields))
    assert found["needed"].tolist()[0]


def test_weights_are_found_again_and_chances_are_the_shares_that_were_seen() -> None:
    chance = np.random.default_rng(7)
    facts = chance.normal(size=(6_000, 3))
    odds = 1.5 * facts[:, 0] - 1.0 * facts[:, 1] - 2.0
    needed = (chance.random(len(odds)) < 1 / (1 + np.exp(-odds))).astype(float)
    weights = fit_reranking.fit(facts, needed, [20] * 300)
    assert weights == pytest.approx([1.5, -1.0, 0.0, -2.0], abs=0.25)
    fitted = 1 / (1 + np.exp(-(facts @ weights[:-1] + weights[-1])))
    assert fitted.mean() == pytest.approx(needed.mean(), abs=0.01)
