"""The pictures in docs/ show the figures of the page: each on its side of its goal, and how they grow."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import pictures
from scripts.pictures import (
    FIGURES,
    GROWING,
    GROWTH,
    PICTURES,
    SECTION,
    Figure,
    figures,
    goals_picture,
    growth_picture,
    growths,
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


@given(
    st.dictionaries(st.integers(1, 10**7), st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4),
    st.sampled_from([("p50",), ("p95",), ("p50", "p95")]),
)
def test_what_grows_is_a_line_for_each_place(sizes: dict[int, tuple[float, float]], kinds: tuple[str, ...]) -> None:
    """The order of the tables is of no importance; what only one place has is a line of its own."""
    names = [
        f"a question, {kinds[0]} (ms)",
        *(f"... {kind} (ms)" for kind in kinds[1:]),
        "files that nobody draws (MB)",
    ]
    page = f"# B\n\n## {GROWTH} (`make`)\n"
    for chunks, (here, there) in sizes.items():
        page += f"\n| 7 files, {chunks:,} chunks | this machine | A & B | goal |\n| --- | --- | --- | --- |\n"
        page += "".join(f"| {name} | {here:,.1f} | {there:,.1f} | 2,000, met |\n" for name in names)
        page += f"| disk here (MB) | {here} |  |  |\n"
    grown = {each.name: each for each in growths(page)}
    assert list(grown) == [*(f"a question, {kind} (ms)" for kind in kinds), "disk here (MB)"]
    ours = sorted((chunks, here) for chunks, (here, _) in sizes.items())
    assert grown["disk here (MB)"].lines == {"this machine": ours} and grown["disk here (MB)"].goals == []
    assert grown[f"a question, {kinds[0]} (ms)"].goals == [(chunks, 2_000.0) for chunks, _ in ours]
    whole = ET.fromstring(growth_picture(page))
    lines = [line for line in whole.iter(f"{SVG}polyline") if line.attrib["class"] != "goal"]
    assert len(lines) == sum(len(each.lines) for each in grown.values())
    height = float(whole.attrib["viewBox"].split()[3])
    for x, y in (point.split(",") for line in lines for point in line.attrib["points"].split()):
        assert 0 < float(x) < pictures.WIDTH, "a tenth of leeway may lie beyond the axis, never beyond the picture"
        assert pictures.HEAD < float(y) < height


def test_what_costs_ten_times_for_ten_times_rises_evenly() -> None:
    page = f"## {GROWTH}\n"
    for chunks in (10_000, 100_000, 1_000_000):
        page += f"\n| 7 files, {chunks:,} chunks | here | goal |\n| --- | --- | --- |\n| disk here (MB) | {chunks / 1000} | |\n"
    (line,) = ET.fromstring(growth_picture(page)).iter(f"{SVG}polyline")
    (left, low), (middle, half), (right, high) = (
        [float(each) for each in point.split(",")] for point in line.attrib["points"].split()
    )
    assert left < middle < right and low > half > high
    assert middle - left == pytest.approx(right - middle, abs=0.2) and low - half == pytest.approx(half - high, abs=0.2)


def test_the_page_has_the_three_sizes_and_every_row_that_is_drawn() -> None:
    grown = growths(FIGURES.read_text(encoding="utf-8"))
    assert [each.name.rpartition(" (")[0] for each in grown] == list(GROWING)
    assert all(len(each.lines["this machine"]) == 3 for each in grown)


@pytest.mark.parametrize("name", ["goals.svg", "growth.svg"])
def test_one_file_serves_light_and_dark_pages_and_reaches_for_nothing(name: str) -> None:
    text = (PICTURES / name).read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\s\"']+|url\(|@import|<script", text) == ["http://www.w3.org/2000/svg"]


def test_a_page_without_the_table_is_told() -> None:
    for text in (
        "",
        "# B\n\n## 100,000 chunks\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n",
        "# B\n\n## 100,000 chunks\n\nNothing yet.\n\n## Next\n\n| a |\n",
    ):
        with pytest.raises(SystemExit, match="no table"):
            goals_picture(text)
        with pytest.raises(SystemExit, match="no table"):
            growth_picture(text)
