"""The pictures in docs/ show the figures of the page: each on its side of its goal."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import pictures
from scripts.pictures import (
    FIGURES,
    PICTURES,
    SECTION,
    Figure,
    figures,
    goals_picture,
    rows,
)

AMOUNTS = st.integers(1, 10_000).map(lambda number: number / 10)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*shown: Figure, head: str = "a workspace") -> ET.Element:
    """The picture of a table with these figures, one with two parts for each."""
    lines = [
        f"| {each.name}, p50 / p95 | 0.01 / {each.seen} {each.unit} | p95 {each.goal} {each.unit} |" for each in shown
    ]
    table = "\n".join([f"| {head} | | goal |", "| --- | --- | --- |", *lines])
    return ET.fromstring(goals_picture(f"# B\n\n## {SECTION}\n\nWords.\n\n{table}\n\n## Next\n"))


def test_the_pictures_show_the_figures_of_the_page() -> None:
    assert pictures.main(["--check"]) == 0, "run `make pictures`"


def test_every_figure_of_the_page_that_has_a_goal_is_taken() -> None:
    table = rows(FIGURES.read_text(encoding="utf-8"), SECTION)[1:]
    assert len([*figures(table)]) == sum(bool(goal) for *_, goal in table) > 3
    for figure, (_, _, goal) in zip(figures(table), (row for row in table if row[2]), strict=True):
        assert figure.is_met is (re.search(r", missed", goal) is None), f"{figure} beside {goal!r}"


@given(st.lists(st.builds(Figure, st.sampled_from(["open", "a < b & c", "café"]), AMOUNTS, AMOUNTS, st.just("ms"))))
def test_a_dot_is_right_of_the_goal_exactly_when_that_is_missed(shown: list[Figure]) -> None:
    if not shown:
        with pytest.raises(SystemExit, match="no figure"):
            drawn()
        return
    whole = drawn(*shown)
    dots = [(float(dot.attrib["cx"]), dot.attrib["class"]) for dot in whole.iter(f"{SVG}circle")]
    assert len(dots) == len(shown)
    for (x, kind), each in zip(dots, shown, strict=True):
        assert kind == ("met" if each.seen <= each.goal else "missed")
        assert pictures.MARGIN <= x <= pictures.WIDTH - pictures.MARGIN
        assert x <= pictures.WIDTH / 2 if each.is_met else x >= pictures.WIDTH / 2
    told = " ".join(text.text or "" for text in whole.iter(f"{SVG}text"))
    assert all(f"{each.name}, p95" in told and f"{each.seen:g} ms, goal {each.goal:g}" in told for each in shown)


@pytest.mark.parametrize("name", ["goals.svg", "lines.svg", "flames.svg"])
def test_one_file_serves_light_and_dark_pages_and_reaches_for_nothing(name: str) -> None:
    text = (PICTURES / name).read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text and len(text) <= 60_000
    assert re.findall(r"https?://[^\s\"']+|url\(|@import|<script", text) == ["http://www.w3.org/2000/svg"]
