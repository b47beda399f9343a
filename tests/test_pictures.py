"""The picture in docs/ shows the figures that stand beside it, each on its side of its goal."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import pictures
from scripts.pictures import FIGURES, PICTURE, SECTION, Figure, figures, growths, picture, rows

AMOUNTS = st.integers(1, 10_000).map(lambda number: number / 10)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*shown: Figure, head: str = "a workspace") -> ET.Element:
    """The picture of a table with these figures, one with two parts for each."""
    lines = [
        f"| {each.name}, p50 / p95 | 0.01 / {each.seen} {each.unit} | p95 {each.goal} {each.unit} |" for each in shown
    ]
    table = "\n".join([f"| {head} | | goal |", "| --- | --- | --- |", *lines])
    return ET.fromstring(picture(f"# B\n\n## {SECTION}\n\nWords.\n\n{table}\n\n## Next\n"))


def test_the_picture_shows_the_figures_of_the_page() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(FIGURES.read_text(encoding="utf-8")), "run `make pictures`"
    assert pictures.main(["--check"]) == 0


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


@given(
    st.dictionaries(st.integers(1, 10**7), st.tuples(AMOUNTS, AMOUNTS), max_size=4),
    st.lists(st.sampled_from(["p50 (ms)", "p95 (ms)"]), min_size=1, max_size=2, unique=True),
)
def test_tables_of_two_sizes_or_more_are_drawn_from_nothing(
    sizes: dict[int, tuple[float, float]], kinds: list[str]
) -> None:
    """The order of the tables is of no importance; what only one place has is a line of its own."""
    names = [f"a question, {kinds[0]}", *(f"... {kind}" for kind in kinds[1:]), "files that nobody draws (MB)"]
    page = "# B\n"
    for chunks, (here, there) in sizes.items():
        page += f"\n| 7 files, {chunks:,} chunks | this machine | A & B |\n| --- | --- | --- |\n"
        page += "".join(f"| {name} | {here:,.1f} | {there:,.1f} |\n" for name in names)
        page += f"| disk here (MB) | {here} | |\n"
    grown = {each.name: each.lines for each in growths(page)}
    is_drawn = len(sizes) > 1
    shown = ["a question, p95 (ms)"] * ("p95 (ms)" in kinds) + ["disk here (MB)"]
    assert list(grown) == shown * is_drawn
    if is_drawn:
        assert grown["disk here (MB)"] == {
            "this machine": sorted((chunks, here) for chunks, (here, _) in sizes.items())
        }
    whole = ET.fromstring(picture(f"## {SECTION}\n| w | | goal |\n| --- | --- | --- |\n| a | 1 ms | 2 ms |\n\n{page}"))
    lines = [line.attrib["points"].split() for line in whole.iter(f"{SVG}polyline")]
    assert len(lines) == sum(len(each) for each in grown.values())
    height = float(whole.attrib["viewBox"].split()[3])
    for x, y in (point.split(",") for line in lines for point in line):
        assert pictures.MARGIN <= float(x) <= pictures.WIDTH - pictures.MARGIN
        assert pictures.HEAD < float(y) < height


def test_one_file_serves_light_and_dark_pages_and_reaches_for_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\s\"']+|url\(|@import|<script", text) == ["http://www.w3.org/2000/svg"]


def test_a_page_without_the_table_is_told() -> None:
    for text in (
        "",
        "# B\n\n## 100,000 chunks\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n",
        "# B\n\n## 100,000 chunks\n\nNothing yet.\n\n## Next\n\n| a |\n",
    ):
        with pytest.raises(SystemExit, match="no table"):
            picture(text)
