"""A bundle is the best of what was found that keeps its budget: by file, no line twice, with what belongs to it, and facts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import context_engine.context
from context_engine.context.budget import find_symbol_at, widen_to_symbol
from context_engine.context.bundle import Bundle, BundleRequest, build_bundle
from context_engine.context.localizer import glob_for_path
from context_engine.context.project_knowledge import KnowledgeEntry, ProjectKnowledge
from context_engine.context.related_files import find_partners
from context_engine.engine import Engine
from context_engine.index import live_index
from context_engine.model import Definition, Filter, Query, RelPath
from context_engine.text import estimate_tokens
from context_engine.text.lines import LineSpan
from tests.support.engines import indexed, open_engine
from tests.support.trees import tree

LONG = "".join(f"    step_{n} = pour(tank, {n})\n" for n in range(120))
FILES = {
    "pool/drain.py": '"""Draining."""\n\nfrom pool.valve import open_valve\nfrom pool import clock\n\n\n'
    'def drain_pool(pool):\n    """Drain the pool through its valve."""\n    open_valve(pool)\n    return pool.level\n',
    "pool/valve.py": "def open_valve(pool):\n    pool.valve = 1\n",
    "pool/clock.py": "def now():\n    return 0\n",
    "pool/filling.py": f"def fill_slowly(tank):\n    # a very long way to fill a pool after it was drained\n{LONG}    return tank\n",
    "pool/[old]/drain.py": "def drain_old():\n    return 'the old way to drain'\n",
    "tests/test_drain.py": "from pool.drain import drain_pool\n\n\ndef test_drain():\n    assert drain_pool(POOL) == 0\n",
    "app.py": "from pool.drain import drain_pool\n\n\ndef main():\n    drain_pool(None)\n",
    "docs/drain.md": "# Draining\n\nHow a pool is drained: open the valve. See https://pools.example/drain for more.\n",
    "keys.py": 'def drain_key():\n    """The key that opens the drain of the pool."""\n    return "ghp_'
    + "a1B2" * 9
    + '"\n',
}
TEN = {f"user_{n}.py": "from pool.valve import open_valve\n\nopen_valve(None)\n" for n in range(11)}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("pools") / "w", FILES | TEN), staleness_ms=600_000) as engine:
        yield engine


def tokens(made: Bundle) -> int:
    """What a plain rendering costs."""
    return estimate_tokens(repr(made))


NOTHING_KNOWN = ProjectKnowledge()


def made(
    engine: Engine, text: str = "how is the pool drained", team: ProjectKnowledge = NOTHING_KNOWN, **wish: object
) -> Bundle:
    chosen = replace(BundleRequest(text), **wish)
    return build_bundle(chosen, engine, team, lambda one: tokens(one) - chosen.tokens_max)


# -- the budget and the laws --


def test_a_small_budget_is_spent_on_the_lines_of_the_question_in_several_places(tmp_path: Path) -> None:
    filler = "".join(f"    gauge_{n} = read_gauge({n})\n" for n in range(14))
    files = {
        f"plant/{name}.py": f"def run_{name}(tank):\n{filler}    drain_overflow(tank, '{name}')\n{filler}    return tank\n"
        for name in ("north", "south", "east", "west", "harbor")
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        question = "where is the overflow of a tank drained"
        small, large = (made(engine, question, tokens_max=count, with_related=False) for count in (900, 9_000))
    (best,), *others = [file.snippets for file in small.files]
    assert best.span.lines == 31
    assert len(others) > 1 and all(any("drain_overflow" in part.text for part in parts) for parts in others)
    assert all(part.span.lines < 31 for parts in others for part in parts)
    assert [file.snippets[0].span.lines for file in large.files] == [31] * 5


def test_a_bundle_shows_no_scraps_and_ends_after_places_that_are_much_less_likely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "".join(f"    gauge_{n} = read_gauge({n})\n" for n in range(14))
    files = {
        f"plant/{name}.py": f"def run_{name}(tank):\n{filler}" + f"    drain_overflow(tank, '{name}')\n" * number
        for number, name in enumerate(("north", "south", "east", "west", "harbor", "canal", "dock"), 1)
    }
    question = "where is the overflow of a tank drained"
    with indexed(tree(tmp_path / "w", files)) as engine:
        for budget in range(600, 1_800, 40):
            found = made(engine, question, tokens_max=budget, with_related=False)
            assert min(part.span.lines for file in found.files for part in file.snippets) >= 5
        everything = made(engine, question, with_related=False)
        monkeypatch.setattr("context_engine.context.bundle.CHANCE_SHARE", 1.0)
        likely = made(engine, question, with_related=False)
    assert len(everything.files) == 7
    assert len(likely.files) == 3


@given(
    st.integers(300, 6_000), st.integers(1, 9), st.sampled_from(["drain the pool", "valve", "fill slowly", "clock now"])
)
def test_no_bundle_is_over_its_budget_and_no_line_is_shown_twice(
    pool: Engine, tokens_max: int, files_max: int, text: str
) -> None:
    found = made(pool, text, tokens_max=tokens_max, files_max=files_max)
    assert tokens(found) <= max(tokens_max, tokens(replace(found, files=(), hints=(), remembered=(), external=())))
    assert len(found.files) <= files_max
    for file in found.files:
        spans = [each.span for each in file.snippets]
        assert spans == sorted(spans)
        assert not any(one.touches(other) for one in spans for other in spans if one != other)


def test_a_secret_is_masked_before_it_is_counted(pool: Engine) -> None:
    shown = next(file for file in made(pool, "the key of the drain").files if file.path == "keys.py")
    assert "ghp_" not in shown.snippets[0].text and "[masked" in shown.snippets[0].text


def test_a_place_that_is_cut_says_where_it_goes_on(pool: Engine) -> None:
    found = made(pool, "a very long way to fill a pool", files_max=1, tokens_max=300)
    (snippet,) = found.files[0].snippets
    assert found.files[0].path == "pool/filling.py" and snippet.span.contains(LineSpan(2, 2))  # it answers
    assert 2 < snippet.goes_on == snippet.span.last + 1 < 40


def test_what_costs_more_than_foreseen_is_chosen_again_for_less_room_and_not_just_dropped(pool: Engine) -> None:
    wish = BundleRequest("a very long way to fill a pool", files_max=1, tokens_max=600, with_related=False)
    found = build_bundle(wish, pool, ProjectKnowledge(), lambda one: int(tokens(one) * 1.5) - wish.tokens_max)
    (snippet,) = found.files[0].snippets
    assert snippet.goes_on and tokens(found) * 1.5 <= wish.tokens_max + 1


def test_a_part_of_a_long_function_is_widened_to_all_of_it_when_there_is_room(pool: Engine) -> None:
    roomy = made(pool, "a very long way to fill a pool", files_max=1, tokens_max=20_000)
    (snippet,) = roomy.files[0].snippets
    assert snippet.span == LineSpan(1, 123) and snippet.symbol.startswith("fill_slowly")


def test_a_task_has_the_imports_of_its_file_after_its_places_and_a_question_has_not(tmp_path: Path) -> None:
    imports = "".join(f"from meters.dial_{n} import dial_{n}\n" for n in range(45))
    filler = "".join(f"def gauge_{n}():\n    return read_gauge({n}, 'north of the tank')\n\n\n" for n in range(400))
    wanted = "def drain_overflow(tank):\n    return tank.drain(overflow=True)\n"
    with indexed(tree(tmp_path / "w", {"plant/north.py": f"{imports}\n\n{filler}{wanted}"})) as engine:
        asked = [f"{verb} the overflow of a tank is drained" for verb in ("change how", "where is it that")]
        task, question = (made(engine, text, tokens_max=3_500, with_related=False).files[0].snippets for text in asked)
    assert "drain_overflow" in task[0].text and task[0].relevance > task[-1].relevance
    assert task[-1].text.strip() == imports.strip()
    assert not any("import" in snippet.text for snippet in question)


def test_globs_choose_the_files_and_a_name_with_brackets_is_a_name(pool: Engine) -> None:
    found = made(pool, "drain old", filter=Filter(include_paths=("pool/**",)), relevance_min=0)
    paths = {str(file.path) for file in found.files}
    assert "pool/[old]/drain.py" in paths and all(path.startswith("pool/") for path in paths)
    assert pool.search.find(Query("drain", filter=Filter(include_paths=(glob_for_path("pool/[old]/drain.py"),)))).hits[
        0
    ].chunk.path == ("pool/[old]/drain.py")


# -- what belongs to it --


def why(found: Bundle, path: str) -> dict[str, str]:
    return {each.path: each.why for file in found.files if file.path == path for each in file.related}


def rows(found: Bundle, path: str) -> list[str]:
    """Each related place of a file as one line."""
    related = [each for file in found.files if file.path == path for each in file.related]
    return [f"{each.path}:{each.line} {each.why}: {each.text}" for each in related if each.line]


def test_the_best_place_comes_with_its_callees_callers_and_tests_a_line_each(pool: Engine) -> None:
    assert rows(made(pool, "drain_pool", files_max=1), "pool/drain.py") == [
        "pool/valve.py:1 used by it: def open_valve(pool):",
        "app.py:4 uses it: def main():",
        "tests/test_drain.py:4 tests it: def test_drain():",
    ]


@dataclass
class Companion:
    path: str
    together: int
    confidence: float


@dataclass
class Log:
    commits: int
    last_at: int


class Past:
    """The history of one file, as a repository would tell it."""

    def record(self, path: str) -> Log | None:
        return Log(14, 1_790_000_000) if path == "pool/drain.py" else None

    def list_cochanged(self, path: str, *, support: int = 2, confidence: float = 0.0) -> Sequence[Companion]:
        known = [Companion("pool/clock.py", 9, 0.9), Companion("pool/valve.py", 4, 0.4)]
        return [each for each in known if each.together >= support and each.confidence >= confidence]

    def list_usual_cochanges(self, path: str) -> Sequence[Companion]:
        return [Companion("pool/clock.py", 9, 0.9)] if path == "pool/drain.py" else []


def test_history_tells_what_changes_together(pool: Engine) -> None:
    past: Any = Past()
    found = made(pool, "drain_pool", ProjectKnowledge(history=past), files_max=1)
    assert why(found, "pool/drain.py")["pool/clock.py"] == "changed with it in 90% of its commits"
    assert "pool/drain.py: changed together with pool/clock.py in 9 of 10 commits" in found.hints
    assert "pool/drain.py: 14 commits, the last on 2026-09-21" in found.hints
    assert found.sources["history"] == 1 and found.absent == ("memories",)


def remembered(number: int, content: str = "Pools are drained at night.") -> KnowledgeEntry:
    return KnowledgeEntry(f"mem_{number}", "decision", "Night", content, "memory", f"memories/{number}.md", score=0.9)


def test_what_is_remembered_stands_beside_the_code_and_never_takes_more_than_its_share(pool: Engine) -> None:
    team = ProjectKnowledge(recall=lambda _text, limit, _files=None: [remembered(n, "x " * 900) for n in range(limit)])
    found = made(pool, team=team, tokens_max=2_000)
    assert found.files and found.remembered and len(found.remembered) < 6
    assert sum(estimate_tokens(each.content) for each in found.remembered) < 500
    assert all(each.content.endswith("…") for each in found.remembered)
    assert made(pool, team=team, with_memories=False).remembered == ()


def test_an_address_is_never_fetched_but_who_mentions_it_is_told(pool: Engine) -> None:
    told = made(pool, addresses=("https://pools.example/drain/", "https://nowhere.example")).external
    assert [each.mentioned for each in told] == [("docs/drain.md",), ()]


# -- without an index --


def test_without_an_index_the_words_are_looked_for_and_the_bundle_says_so(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "w", FILES)) as engine:
        found = made(engine, "how is the pool drained by its valve")
        assert found.files[0].path == "pool/drain.py" and found.freshness == "no index"
        assert "no index yet" in found.warnings[0] and "index_workspace" in found.warnings[0]
        assert any("drain_pool" in snippet.symbol for snippet in found.files[0].snippets)
        nothing = made(engine, "zebra quantum")
        assert nothing.files == () and nothing.reason


def test_a_file_that_was_edited_since_it_was_indexed_is_shown_as_it_is_and_said_to_be_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_index.LiveIndex, "index_shown", lambda *_: False)  # as on a machine too busy to take it in
    root = tree(tmp_path / "w", FILES)
    with indexed(root, staleness_ms=600_000) as engine:
        engine.search.find(Query("drain"))  # looks at the files; for ten minutes nobody looks again
        tree(root, {"pool/drain.py": "# new at the top\n" + FILES["pool/drain.py"]})
        found = made(engine, "drain_pool", files_max=1)
        assert "pool/drain.py: edited since it was indexed; lines are those of today" in found.hints
        (snippet,) = found.files[0].snippets
        assert (
            snippet.text.split("\n")[0] == engine.files.read("pool/drain.py").text.split("\n")[snippet.span.first - 1]
        )


def test_a_file_that_vanished_since_the_search_is_left_out_by_name(
    pool: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pool.symbols.outline

    def outline(path: str, **options: bool):
        return real("gone.py" if path == "pool/drain.py" else path, **options)

    monkeypatch.setattr(pool.symbols, "outline", outline)
    found = made(pool, "drain_pool", files_max=2)
    assert [each.split(":")[0] for each in found.left_out.unreadable] == ["pool/drain.py"]


# -- names and symbols --


def symbol(name: str, first: int, last: int, kind: str = "function") -> Definition:
    return Definition(name, name, kind, RelPath("a.py"), LineSpan(first, last), "", "", "python")


ranges = st.tuples(st.integers(1, 9), st.integers(0, 9)).map(lambda pair: LineSpan(pair[0], sum(pair)))


@given(ranges, st.lists(ranges, max_size=5), st.integers(1, 20))
def test_a_span_is_only_ever_widened_and_never_beyond_the_limit(
    span: LineSpan, others: list[LineSpan], most: int
) -> None:
    wide, name = widen_to_symbol(span, [symbol(str(n), *each) for n, each in enumerate(others)], lines_max=most)
    assert wide.contains(span) and (wide == span) == (not name)
    assert wide == span or (wide in others and wide.lines <= most)


def test_a_chunk_that_holds_a_whole_definition_is_complete() -> None:
    symbols = [symbol("Class", 1, 50, "class"), symbol("Class.method", 10, 19)]
    assert widen_to_symbol(LineSpan(9, 20), symbols, lines_max=99) == (LineSpan(9, 20), "")
    assert widen_to_symbol(LineSpan(12, 14), symbols, lines_max=99) == (LineSpan(10, 19), "Class.method")
    assert find_symbol_at(LineSpan(12, 12), symbols) == "Class.method"


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("src/auth.py", "tests/test_auth.py"),
        ("auth.go", "auth_test.go"),
        ("src/user.ts", "src/user.test.ts"),
        ("src/user.ts", "src/__tests__/user.spec.ts"),
        ("src/Auth.php", "tests/AuthTest.php"),
        ("lib/user.rb", "spec/user_spec.rb"),
        ("Zoo/Cat.cs", "Zoo.Tests/CatTests.cs"),
        ("src/zoo/_compositor.py", "tests/test_compositor.py"),
        ("src/zoo/screen.py", "tests/test_screens.py"),
        ("src/zoo/_screen.py", "tests/test_screens.py"),
        ("src/zoo/entities.py", "tests/test_entity.py"),
        ("zoo/box.go", "zoo/boxes_test.go"),
        ("lib/dispatcher/agent.js", "test/agent.js"),
        ("src/parser.rs", "tests/parser.rs"),
    ],
)
def test_a_test_and_its_source_find_each_other_by_name(source: str, test: str) -> None:
    assert find_partners(source, lambda *names: [test] if test.rpartition("/")[2] in names else []) == [test]
    assert find_partners(test, lambda *names: [source] if source.rpartition("/")[2] in names else []) == [source]


@pytest.mark.parametrize(
    ("source", "tests", "found"),
    [
        ("src/widget.py", ["tests/test_widget.py", "tests/test_widgets.py"], ["tests/test_widget.py"]),
        ("src/_cat.py", ["tests/test__cat.py", "tests/test_cats.py"], ["tests/test__cat.py"]),
        ("src/utils.py", ["tests/utils.py"], []),
        ("lib/fetch/index.js", ["test/index.js"], []),
        ("src/__init__.py", ["tests/test_init.py", "tests/test_inits.py"], []),
        ("src/class.py", ["tests/test_clas.py"], []),
    ],
)
def test_only_the_surest_names_of_tests_count(source: str, tests: list[str], found: list[str]) -> None:
    assert find_partners(source, lambda *names: [test for test in tests if test.rpartition("/")[2] in names]) == found


def test_a_discovery_is_shown_only_if_it_speaks_of_the_files_and_rules_and_memories_always(pool: Engine) -> None:
    def remembered(source: Any, type: str, content: str) -> KnowledgeEntry:  # noqa: A002 - the name of the field
        return KnowledgeEntry(content, type, "", content, source, "docs/decisions.md", 4, score=0.5)

    items = [
        remembered("discovery", "decision", "The level that drain_pool returns is in liters."),
        remembered("discovery", "decision", "Colors are written in hexadecimal."),
        remembered("discovery", "rule", "Write tests first."),
        remembered("memory", "facts", "The team meets on Mondays."),
    ]
    found = made(pool, "drain_pool", ProjectKnowledge(recall=lambda _text, _most, _files=None: items), files_max=1)
    assert [one.content for one in found.remembered] == [items[0].content, items[2].content, items[3].content]


def test_the_room_of_bundles_reaches_no_store_and_no_vectors() -> None:
    rooms = {
        (node.module or "").split(".")[1]
        for path in Path(context_engine.context.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("context_engine.")
    }
    assert rooms and not rooms & {"storage", "sharing", "semantic", "engine"}


def test_without_related_and_summaries_there_are_none(pool: Engine) -> None:
    found = made(pool, with_related=False, with_summaries=False)
    assert not any(file.related or file.summary for file in found.files)
    assert any(file.summary == "defines drain_pool" for file in made(pool).files)
