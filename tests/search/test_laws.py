"""Searching keeps its laws: an updated index answers like a new one, and a filter only ever takes hits away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.index.encoder import StaticEncoder
from context_engine.index.importance import importance
from context_engine.index.snapshot import UnionSnapshot
from context_engine.model import CHUNK_KINDS, Filter, Query
from context_engine.search.searcher import Ranking, Searcher
from context_engine.search.semantic_scores import SemanticRanker
from tests.support.engines import indexed, snapshot_of
from tests.support.trees import tree

FILES = {
    "src/pool.py": "LIMIT = 3\n\n\ndef drain_pool(pool):\n    return pool.drain(LIMIT)\n",
    "src/user/user.py": '"""Users and their pools."""\n\n\nclass User:\n    def drain(self):\n        return drain_pool(self)\n',
    "src/user/user.ts": "import { pool } from '../pool'\n\nexport class User {\n  drain() { return pool }\n}\n",
    "src/pool.ts": "export const pool = 1\n\nexport function drainPool() { return pool }\n",
    "tests/test_pool.py": "from src.pool import drain_pool\n\n\ndef test_drain():\n    assert drain_pool(User())\n",
    "docs/pool.md": "---\ntags: [Guide]\n---\n# Pool\n\nHow a pool is drained. #water\n\n## User\n\nA user drains. "
    + "pool " * 40,
    "docs/Old/user.md": "# User\n\nAbout the user of a pool, once. #legacy\n",
    "config/pool.yml": "pool:\n  size: 3\n  user: admin\n",
    "README.md": "# Drains\n\nDrain the pool. #water\n",
    "empty.py": "",
    "long.py": "".join(f"def pool_{n}(user):\n    return drain('{'x' * 60}')\n\n\n" for n in range(200)),
}
QUERIES = (
    "drain pool",
    "user",
    "drain_pool",
    "how is the pool drained",
    "User.drain",
    "water",
    "pool_7",
    "nothingness",
)


@dataclass(frozen=True)
class Row:
    """One chunk as somebody with a pencil would write it down."""

    path: str
    kind: str
    language: str
    tags: frozenset[str]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("laws") / "w", FILES)) as engine:
        yield engine


@pytest.fixture(scope="module", params=["lexical", "hybrid"])
def searcher(engine: Engine, request: pytest.FixtureRequest) -> Searcher:
    return Searcher(snapshot_of(engine), SemanticRanker(StaticEncoder().query) if request.param == "hybrid" else None)


@pytest.fixture(scope="module")
def rows(searcher: Searcher) -> list[Row]:
    """What is known of each chunk by its number; tags of prose are read from the text of the file, not from the index."""
    snapshot = searcher.snapshot
    kinds = [CHUNK_KINDS[code] for code in snapshot.chunk_column("kind").tolist()]
    languages = [snapshot.languages[code] for code in snapshot.file_column("language").tolist()]
    firsts, lasts = snapshot.chunk_column("first").tolist(), snapshot.chunk_column("last").tolist()
    files = snapshot.chunk_file.tolist()
    with_code = {file for file, kind in zip(files, kinds, strict=True) if kind == "definitions"}
    found = []
    for chunk, file in enumerate(files):
        path = snapshot.paths[file]
        tags = {kinds[chunk], languages[file], *path.lower().split("/")[:-1]}
        tags |= {"code"} if file in with_code else set()
        if path.endswith(".md"):
            lines = FILES[path].split("\n")[firsts[chunk] - 1 : lasts[chunk]]
            tags |= set(re.findall(r"(?:^|\s)#(\w+)", "\n".join(lines)))
            tags |= {"guide"} if path == "docs/pool.md" else set()
        found.append(Row(path, kinds[chunk], languages[file], frozenset(tags)))
    return found


# -- filters --

GLOBS = {
    "src/**": lambda path: path.startswith("src/"),
    "*.py": lambda path: path.endswith(".py"),
    "docs/": lambda path: path.startswith("docs/"),
    "user": lambda path: "user" in path.split("/")[:-1],
    "/README.md": lambda path: path == "README.md",
    "src/*.ts": lambda path: re.fullmatch(r"src/[^/]*\.ts", path) is not None,
    "**/user.*": lambda path: path.rpartition("/")[2].startswith("user."),
    "./config/pool.yml": lambda path: path == "config/pool.yml",
    "no/such": lambda path: False,
}
TAGS = "python code documentation definitions data src user old Guide water legacy nope".split()

filters = st.builds(
    Filter,
    kinds=st.lists(st.sampled_from(["documentation", "definitions", "data"]), max_size=2).map(tuple),
    languages=st.lists(st.sampled_from(["python", "TypeScript", "markdown", "cobol"]), max_size=2).map(tuple),
    tags=st.lists(st.sampled_from(TAGS), max_size=2).map(tuple),
    include_paths=st.lists(st.sampled_from(sorted(GLOBS)), max_size=2).map(tuple),
    exclude_paths=st.lists(st.sampled_from(sorted(GLOBS)), max_size=2).map(tuple),
)


def passes(row: Row, asked: Filter) -> bool:
    """The meaning of a filter, in the words of its documentation."""
    return (
        (not asked.kinds or row.kind in asked.kinds)
        and (not asked.languages or row.language in {name.lower() for name in asked.languages})
        and all(tag.lower() in row.tags for tag in asked.tags)
        and (not asked.include_paths or any(GLOBS[glob](row.path) for glob in asked.include_paths))
        and not any(GLOBS[glob](row.path) for glob in asked.exclude_paths)
    )


def chunks(ranking: Ranking) -> list[int]:
    return [place.chunk for place in ranking.places]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=filters)
def test_a_filter_passes_exactly_what_its_words_say(searcher: Searcher, rows: list[Row], asked: Filter) -> None:
    mask = searcher.masks.of(asked)
    passing = [True] * len(rows) if mask is None else mask.tolist()
    assert passing == [passes(row, asked) for row in rows]


@given(asked=filters, text=st.sampled_from(QUERIES), limit=st.integers(1, 12))
def test_every_hit_passes_the_filter_and_none_that_matches_is_missing(
    searcher: Searcher, rows: list[Row], asked: Filter, text: str, limit: int
) -> None:
    every = searcher.rank(Query(text, 1_000, asked, chunks_per_file=1_000))
    assert all(passes(rows[chunk], asked) for chunk in chunks(every))
    if asked.is_empty or not every.places:
        return
    unfiltered = searcher.rank(Query(text, 1_000, chunks_per_file=1_000))
    telling = {chunk for chunk in chunks(unfiltered) if passes(rows[chunk], asked)}
    assert telling <= set(chunks(every)), "a passing hit was lost"
    assert chunks(searcher.rank(Query(text, limit, asked, chunks_per_file=1_000))) == chunks(every)[:limit]


@given(asked=filters, text=st.sampled_from(QUERIES), per_file=st.integers(1, 3), limit=st.integers(1, 12))
def test_a_limit_takes_the_best_and_reaches_it_whenever_so_many_exist(
    searcher: Searcher, asked: Filter, text: str, per_file: int, limit: int
) -> None:
    every = searcher.rank(Query(text, 1_000, asked, chunks_per_file=per_file))
    some = searcher.rank(Query(text, limit, asked, chunks_per_file=per_file))
    assert chunks(some) == chunks(every)[:limit]


@given(asked=filters, text=st.sampled_from(QUERIES))
def test_hits_come_best_first_with_ties_by_path_and_line(searcher: Searcher, asked: Filter, text: str) -> None:
    ranking = searcher.rank(Query(text, 1_000, asked))
    firsts = searcher.snapshot.chunk_column("first")
    keys = [(-p.score, searcher.snapshot.paths[p.file], int(firsts[p.chunk])) for p in ranking.places]
    assert keys == sorted(keys)


@given(asked=filters, text=st.sampled_from(QUERIES))
def test_a_score_is_the_sum_of_its_named_addends(searcher: Searcher, asked: Filter, text: str) -> None:
    for place in searcher.rank(Query(text, 1_000, asked)).places:
        assert place.score == pytest.approx(sum(place.why.values()), abs=1e-4)
        assert all(value > 0 for value in place.why.values())


@given(asked=filters, text=st.sampled_from(QUERIES))
def test_the_same_question_has_the_same_answer(searcher: Searcher, asked: Filter, text: str) -> None:
    again = Searcher(searcher.snapshot, searcher.meaning)
    assert again.rank(Query(text, 20, asked)) == searcher.rank(Query(text, 20, asked))


def test_an_unknown_tag_finds_nothing_and_names_its_neighbours(engine: Engine) -> None:
    answer = engine.search.find(Query("pool", filter=Filter(tags=("watr",))))
    assert answer.hits == ()
    assert answer.near_tags[0] == "water"
    assert "watr" in answer.reason
    assert "removed all" in answer.reason


def test_the_tags_of_a_hit_are_those_it_can_be_filtered_by(engine: Engine) -> None:
    for hit in engine.search.find(Query("pool drain user", 50)).hits:
        for tag in hit.chunk.tags:
            same = engine.search.find(Query("pool drain user", 50, Filter(tags=(tag,)))).hits
            assert hit.chunk.id in {other.chunk.id for other in same}


# -- incremental and anew --

contents = st.sampled_from(
    [
        "",
        "def drain(): ...\n",
        "class Pool:\n    def drain(self):\n        return user\n",
        "from a import drain\n\nLIMIT = 3\n\n\ndef user():\n    drain()\n",
        "# Pool\n\nA user drains. #water\n" * 3,
        "pool " * 500,
        b"\0binary",
        None,
    ]
)
edits = st.lists(
    st.dictionaries(st.sampled_from(["a.py", "src/pool.py", "docs/user.md", "b.ts"]), contents, min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)


def apply(root: Path, edit: dict[str, str | bytes | None], step: int) -> None:
    for path, content in edit.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.unlink(missing_ok=True)
        elif isinstance(content, bytes):
            place.write_bytes(content + b"\0" * step)
        else:
            place.write_text(content + "\n" * step, encoding="utf-8")


def told(engine: Engine, *, weights_anew: bool) -> dict[str, list[tuple[str, int, float]]]:
    """Each query's (path, first line, score), best first, over ranks that are computed now."""
    with engine.index.store.writer() as writer:
        if weights_anew:
            writer.set_importance(importance(writer.snapshot()))
    searcher = Searcher(snapshot_of(engine))
    snapshot = searcher.snapshot
    firsts = snapshot.chunk_column("first")
    return {
        text: [(snapshot.paths[p.file], int(firsts[p.chunk]), p.score) for p in searcher.rank(Query(text, 100)).places]
        for text in QUERIES
    }


def assert_same(one: dict[str, list[tuple[str, int, float]]], other: dict[str, list[tuple[str, int, float]]]) -> None:
    for text in QUERIES:
        assert [row[2] for row in one[text]] == pytest.approx([row[2] for row in other[text]], abs=2e-6)
        assert sorted(row[:2] for row in one[text]) == sorted(row[:2] for row in other[text])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=edits, whole=st.booleans())
def test_an_index_that_was_updated_answers_like_one_built_anew(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict], whole: bool
) -> None:
    keep = {f"keep_{n}.py": f"user_{n} = drain(pool)\n" for n in range(20)}  # so that the dead are too few to be merged
    edited = dict.fromkeys(("a.py", "src/pool.py", "docs/user.md", "b.ts"), "pool user drain water pool_7\n")
    root = tree(tmp_path_factory.mktemp("edits") / "w", keep | edited)
    with indexed(root) as engine:
        for number, edit in enumerate(steps):
            apply(root, edit, number)
            if whole:
                engine.index.update()
            else:
                engine.index.builder.index_paths(sorted(edit))
        assert engine.index.store.check() == []
        assert engine.status().stale == ()
        updated = told(engine, weights_anew=not whole)
        files, chunk_count = engine.status().files, engine.status().chunks
        engine.index.update(force=True)
        assert (engine.status().files, engine.status().chunks) == (files, chunk_count)
        assert_same(told(engine, weights_anew=False), updated)


@pytest.mark.parametrize(
    ("question", "first"),
    [
        (
            'the user drains\n  File "/home/me/zoo/src/user/user.py", line 5, in drain\nKeyError: pool',
            "src/user/user.py",
        ),
        ("why does a pool fail at user.ts:3", "src/user/user.ts"),
        (
            "the pool fails\n    at drainPool (/srv/app/src/pool.ts:3:40)\n    at main (/srv/app/src/user/user.ts:4:1)",
            "src/pool.ts",
        ),
        ("--- a/config/pool.yml\n+++ b/config/pool.yml\n@@ -2,2 +2,2 @@\n-  size: 3\n+  size: 4\n", "config/pool.yml"),
    ],
)
def test_a_file_that_the_question_names_comes_first(searcher: Searcher, question: str, first: str) -> None:
    places = searcher.rank(Query(question)).places
    assert searcher.snapshot.paths[places[0].file] == first and places[0].why["named"] > 0


def test_the_line_that_a_frame_names_is_in_the_chunk_that_is_shown(searcher: Searcher) -> None:
    chunk = searcher.rank(Query("it fails at long.py:601")).places[0].chunk
    first, last = (searcher.snapshot.chunk_column(column).item(chunk) for column in ("first", "last"))
    assert first <= 601 <= last


def test_a_file_name_counts_by_how_many_telling_words_of_the_question_it_has(tmp_path: Path) -> None:
    files = {f"app_{number}/application.rb": "x = 1\n" for number in range(5)}
    files["app_0/routes_reloader.rb"] = "x = 1\n"
    with indexed(tree(tmp_path / "w", files)) as engine:
        hits = engine.search.find(Query(text="how does the application use the routes reloader")).hits
    shares = {str(hit.chunk.path): hit.why["name"] for hit in hits}
    assert shares["app_0/routes_reloader.rb"] > 1.5 * shares["app_1/application.rb"]


@pytest.mark.parametrize("question", ["FakePool", "what does FakePool do"])
def test_the_role_of_a_file_does_not_weigh_against_a_name_that_was_asked_for(tmp_path: Path, question: str) -> None:
    files = {f"src/pool_{number}.py": "from zoo.fakes import FakePool\n\npool = FakePool()\n" for number in range(5)}
    files["tests/fakes.py"] = "class FakePool:\n    pass\n"
    with indexed(tree(tmp_path / "w", files)) as engine:
        assert engine.search.find(Query(question)).hits[0].chunk.path == "tests/fakes.py"


@pytest.mark.parametrize(
    ("question", "folder"),
    [
        ("fix(config): the pool drains", "config/"),
        ("old: drains a pool", "docs/Old/"),
        ("[user] the pool drains", "src/user/"),
    ],
)
def test_the_scope_of_a_commit_message_counts_for_the_files_in_it(
    searcher: Searcher, question: str, folder: str
) -> None:
    why = {searcher.snapshot.paths[place.file]: place.why for place in searcher.rank(Query(question, limit=50)).places}
    inside = [path for path, parts in why.items() if "scope" in parts]
    assert any(path.startswith(folder) for path in inside) and "README.md" not in inside


@pytest.mark.parametrize("name", ["drain_pool", "drainPool", "pool_7", "LIMIT"])
def test_a_file_that_defines_the_requested_name_comes_before_what_is_alike(searcher: Searcher, name: str) -> None:
    first = searcher.rank(Query(name)).places[0]
    defined = {symbol.name for symbol in searcher.view.outline(first.file).symbols}
    assert name in defined and first.why["symbol"] > 0


def test_a_header_comes_after_its_implementation_unless_a_symbol_is_asked_for(tmp_path: Path) -> None:
    header = "// Feeds the cat.\n\n// How the cat is fed: feed the cat with food.\nint feed_cat(int food);\n"
    source = '#include "cat.h"\n\nint feed_cat(int food) {\n  return food - 1;\n}\n\nint pet(void) { return 1; }\n'
    with indexed(tree(tmp_path / "w", {"include/zoo/cat.h": header, "src/zoo/cat.c": source})) as engine:
        answer = engine.search.find(Query("how is the cat fed with food")).hits
        assert [hit.chunk.path for hit in answer][:2] == ["src/zoo/cat.c", "include/zoo/cat.h"]
        assert all(hit.score == pytest.approx(sum(hit.why.values()), abs=1e-4) for hit in answer)


def test_frames_of_libraries_take_nothing_from_the_frame_that_called_them(searcher: Searcher) -> None:
    inside = '  File "/usr/lib/python3/json/decoder.py", line 355, in raw_decode\n' * 3
    trace = 'It fails.\n  File "/srv/src/user/user.py", line 6, in drain\n'
    alone, deeper = (searcher.rank(Query(text)).places[0] for text in (trace, trace + inside))
    assert searcher.snapshot.paths[deeper.file] == "src/user/user.py"
    assert deeper.why["named"] == pytest.approx(alone.why["named"])


def test_a_path_that_two_repositories_have_leads_to_both(engine: Engine) -> None:
    snapshot = snapshot_of(engine)
    searcher = Searcher(UnionSnapshot({"one": snapshot, "two": snapshot}))
    places = searcher.rank(Query("it fails at src/user/user.ts:3", chunks_per_file=1)).places
    assert [searcher.snapshot.key(place.file) for place in places[:2]] == [
        "one:src/user/user.ts",
        "two:src/user/user.ts",
    ]
