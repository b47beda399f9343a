"""The training of the static table: the gradient is the slope, a planted package gives its pairs, the list is permissive and clean."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from context_engine.embedding.static_embedder import SHIPPED
from tests.support.engines import GRAMMARS, LANGUAGES
from training import mine, overlap, sources
from training.sources import Package
from training.train import Bags, Plan, loss_and_gradient, train

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Package("pypi", "planted", "1.0", "MIT")
CODE = b'''"""Counts what the warehouse holds."""


class Shelf:
    def fill(self, boxes):
        """Puts boxes where `room` is left. Twice if needed."""
        # the widest boxes find no place later
        boxes = sorted(boxes, key=width)
        place(boxes)

        # TODO sort by weight
        return boxes


def width(box):
    return box.x
'''


def bags(*texts: list[int]) -> Bags:
    return Bags.of([np.array(text, dtype=np.int32) for text in texts])


# -- the gradient -------------------------------------------------------------------------------------------------


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rows = np.random.default_rng(1).normal(size=(7, 6))
    asked, answered = bags([0, 1], [2], [3, 3, 1]), bags([4, 5], [6, 2, 2], [0, 5])
    widths = (6, 4)
    _, pieces, gradient = loss_and_gradient(rows, asked, answered, widths)
    for row, piece in enumerate(pieces):
        for column in range(6):
            step = np.zeros_like(rows)
            step[piece, column] = 1e-6
            up, down = (loss_and_gradient(rows + sign * step, asked, answered, widths)[0] for sign in (1, -1))
            assert gradient[row, column] == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_training_brings_each_question_to_its_code_and_is_the_same_twice() -> None:
    chance = np.random.default_rng(2)
    asked = Bags.of([np.array([n], dtype=np.int32) for n in range(20)])
    answered = Bags.of([np.array([20 + n], dtype=np.int32) for n in range(20)])
    rows = chance.normal(size=(40, 384)).astype(np.float32) / 20
    plan = Plan(epochs=8, batch=10, rate=0.05)
    runs = [[(r.copy(), loss) for r, loss in train(rows, asked, answered, ["f"] * 20, plan)] for _ in range(2)]
    losses = [loss for _, loss in runs[0]]
    assert losses[-1] < losses[0] / 4
    assert np.array_equal(runs[0][-1][0], runs[1][-1][0])


# -- mining -------------------------------------------------------------------------------------------------------


def test_a_planted_package_gives_exactly_its_pairs() -> None:
    found = mine.mined(PLANTED, [("planted/shelf.py", CODE), ("planted/notes.txt", b"prose")], LANGUAGES, GRAMMARS)
    signature = "planted/shelf.py | Shelf.fill | def fill(self, boxes)"
    told = [(pair.kind, pair.query, pair.code.partition("\n")[0]) for pair in found]
    assert told == [
        ("file", "Counts what the warehouse holds.", "planted/shelf.py | Shelf fill width"),
        ("doc", "Puts boxes where room is left.", signature),
        ("inline", "the widest boxes find no place later", signature),
    ]
    assert "Twice if needed" not in found[1].code and "return boxes" in found[1].code
    assert found[2].code.partition("\n")[2] == "        boxes = sorted(boxes, key=width)\n        place(boxes)"


# -- the list -----------------------------------------------------------------------------------------------------


def test_the_allow_list_has_only_permissive_licences_each_package_once_and_pinned() -> None:
    packages, lock = sources.listed(), sources.pinned()
    assert [package.title for package in packages if not package.is_permissive] == []
    assert len({package.title for package in packages}) == len(packages)
    assert {package.title for package in packages} == set(lock)
    assert all(len(digest) == 64 for hashes in lock.values() for digest in hashes.values())


def test_no_repository_of_an_evaluation_is_on_the_list() -> None:
    evaluated = overlap.asked(None)
    assert evaluated.names >= {"click", "zod", "express"}
    known = replace(evaluated, names=evaluated.names | {overlap.name_of(name) for name in DEVELOPMENT})
    assert overlap.named_alike(sources.listed(), known) == []
    assert overlap.named_alike([replace(PLANTED, name="flask")], known) == ["pypi:flask"]


DEVELOPMENT = (
    "aio-libs/aiohttp pallets/flask MinishLab/model2vec pydantic/pydantic psf/requests spf13/cobra go-chi/chi "
    "apache/commons-lang Seldaek/monolog rack/rack tokio-rs/tokio MessagePack-CSharp/MessagePack-CSharp "
    "Alamofire/Alamofire vitest-dev/vitest JamesNK/Newtonsoft.Json Kotlin/kotlinx.coroutines JetBrains/Exposed "
    "haskell/aeson folke/lazy.nvim nvm-sh/nvm zigtools/zls"
).split()
"""The repositories that the weights of the ranking are tuned on."""


def test_an_archive_with_other_bytes_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(b"not what was pinned")
    with pytest.raises(sources.WrongHashError, match=r"a\.tgz"):
        sources.check(tmp_path / "a.tgz", "0" * 64)


# -- measuring, and what came of it -------------------------------------------------------------------------------


def test_the_report_is_about_the_table_that_ships() -> None:
    report = (ROOT / "training" / "report.md").read_text(encoding="utf-8")
    assert hashlib.sha256(SHIPPED.read_bytes()).hexdigest() in report
    for package in sources.listed():
        assert f"| {package.title} | {package.version} | {package.licence} |" in report
