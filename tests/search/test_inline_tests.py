"""Tests inside a source file are shown after its code, unless a question asks for them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.model import Query
from tests.support.engines import indexed
from tests.support.trees import tree

CODE = (
    "/// Finds values far from the others.\npub fn detect(values: &[f64]) -> usize {\n"
    + "    step(values);\n" * 30
    + "}\n"
)
CHECKS = "    // outliers are detected among outliers\n" + "    assert_eq!(1, detect(&OUTLIERS));\n" * 30
MODULE = f"#[cfg(test)]\nmod tests {{\n    use super::*;\n\n    #[test]\n    fn outliers() {{\n{CHECKS}    }}\n}}\n"
FUNCTION = f"#[test]\nfn test_outliers() {{\n{CHECKS}}}\n"


@pytest.fixture(params=[MODULE, FUNCTION], ids=["module", "function"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Engine]:
    with indexed(tree(tmp_path / "w", {"src/outlier.rs": f"{CODE}\n{request.param}"})) as engine:
        yield engine


def first_place(engine: Engine, question: str) -> str:
    return engine.search.find(Query(question, 1)).hits[0].chunk.text


def test_a_question_about_the_code_is_answered_by_the_code(engine: Engine) -> None:
    assert "pub fn detect" in first_place(engine, "how are outliers detected")


def test_a_question_about_the_tests_is_answered_by_the_tests(engine: Engine) -> None:
    assert "assert_eq!" in first_place(engine, "where are the tests of outliers detected")
