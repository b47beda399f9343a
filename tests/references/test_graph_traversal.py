"""Traces go step by step along the graph, each step with its evidence, and end in circles."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import SymbolNotFound
from context_engine.model import Trace
from context_engine.text import LineSpan
from tests.support.engines import indexed
from tests.support.trees import tree

PROJECT = {
    "app/api.py": "from app.service import serve\n\n\ndef handle():\n    return serve()\n",
    "app/service.py": "from app.store import load\n\n\ndef serve():\n    return load()\n",
    "app/store.py": "from app import service\n\n\ndef load():\n    return read_row()\n\n\ndef read_row():\n    return load()\n",
    "app/jobs.py": "from app.service import serve\n\nserve()\n",
    "app/same.py": "def load(): ...\n",
    "app/alone.py": "def alone(): ...\n",
}


def steps(trace: Trace) -> list[tuple[str, str, int, int]]:
    return [(edge.source, edge.path, edge.line, edge.depth) for edge in trace.edges]


def test_callers_are_those_who_call_with_the_line_that_does(engine: Engine) -> None:
    trace = engine.symbols.trace("serve")
    assert ("handle", "app/api.py", 5, 1) in steps(trace)
    assert ("app/jobs.py", "app/jobs.py", 3, 1) in steps(trace)
    assert all("serve" in edge.evidence for edge in trace.edges)
    assert {edge.depth for edge in trace.edges} == {1}


def test_depth_goes_on_to_the_callers_of_callers(engine: Engine) -> None:
    assert ("handle", "app/api.py", 5, 2) not in steps(engine.symbols.trace("load", depth=1))
    assert ("handle", "app/api.py", 5, 2) in steps(engine.symbols.trace("load", depth=2))


def test_a_circle_of_calls_ends(engine: Engine) -> None:
    deep = engine.symbols.trace("read_row", depth=50)
    assert steps(deep) == steps(engine.symbols.trace("read_row", depth=4))
    assert len(set(deep.edges)) == len(deep.edges)


def test_callees_name_what_is_meant_and_where(engine: Engine) -> None:
    trace = engine.symbols.trace("serve", "callees")
    assert [(edge.source, edge.target, edge.line) for edge in trace.edges] == [("serve", "load (app/store.py:4)", 5)]


def test_imports_and_importers_of_a_file(engine: Engine) -> None:
    assert [(edge.source, edge.target) for edge in engine.symbols.trace("app/service.py", "imports").edges] == [
        ("app/service.py", "app/store.py")
    ]
    importers = engine.symbols.trace("app/service.py", "importers")
    assert [edge.source for edge in importers.edges] == ["app/api.py", "app/jobs.py", "app/store.py"]
    assert all("import" in edge.evidence for edge in importers.edges)


def test_a_circle_of_imports_ends(engine: Engine) -> None:
    trace = engine.symbols.trace("app/api.py", "imports", depth=50)
    assert {(edge.source, edge.target) for edge in trace.edges} == {
        ("app/api.py", "app/service.py"),
        ("app/service.py", "app/store.py"),
        ("app/store.py", "app/service.py"),
    }


def test_the_impact_of_a_symbol_is_who_uses_it_and_who_uses_those(engine: Engine) -> None:
    trace = engine.symbols.trace("read_row", "impact")
    assert [(source, depth) for source, _, _, depth in steps(trace) if source != "read_row"] == [
        ("load", 1), ("serve", 2), ("handle", 3), ("app/jobs.py", 3),
    ]  # fmt: skip


FAMILY = {
    "zoo/base.py": "class Animal:\n    def eat(self):\n        return self.eat_slowly()\n\n    def eat_slowly(self): ...\n",
    "zoo/cat.py": "from zoo.base import Animal\n\n\nclass Cat(Animal):\n    def eat(self): ...\n",
    "zoo/feed.py": (
        "from zoo.base import Animal\n\n\ndef feed(one: Animal):\n    one.eat()\n    one.eat()\n\n\n"
        "def feed_all(some: list[Animal]):\n    for one in some:\n        feed(one)\n"
    ),
    "tests/test_feed.py": "from zoo.base import Animal\n\n\ndef test_it():\n    Animal().eat()\n",
}
OVERRIDING = {
    "zoo/base.py": "class Animal:\n    def eat(self): ...\n",
    "zoo/cat.py": "from zoo.base import Animal\n\n\nclass Cat(Animal):\n    def eat(self): ...\n",
    "zoo/feed.py": "from zoo.base import Animal\n\n\ndef feed(one: Animal):\n    one.eat()\n",
    "zoo/hunt.py": "from zoo.cat import Cat\n\n\ndef hunt(one: Cat):\n    one.eat()\n",
}
OVERLOADED = {
    "Timer.java": (
        "class Timer {\n  Timer(int ticks) { this(ticks, 8); }\n  Timer(int ticks, int buckets) { wait(ticks); }\n"
        "  void run() { run(1); }\n  void run(int times) { wait(times); }\n}\n"
    ),
    "Use.java": "class Use {\n  void use() { Timer timer = new Timer(3); timer.run(); }\n}\n",
}
HANDED_ON = {
    "zoo/cat.py": "def feed(): ...\n",
    "zoo/__init__.py": "from zoo.cat import feed as feed\n",
    "zoo/use.py": "from zoo.cat import feed\n\n\ndef use():\n    feed()\n",
}


@pytest.mark.parametrize(
    ("files", "name", "found", "tests"),
    [
        # overrides, one step for each user, and tests apart
        (
            FAMILY,
            "Animal.eat",
            ["1 Cat.eat definition 1", "1 feed call 2", "2 feed_all call 1"],
            ("tests/test_feed.py",),
        ),
        # what a method overrides, with the users of that
        (OVERRIDING, "Cat.eat", ["1 Animal.eat base 1", "1 feed call 1 Animal.eat", "1 hunt call 1"], ()),
        # a file that only hands on what changes
        (HANDED_ON, "feed", ["1 zoo/__init__.py import 1", "1 use call 1"], ()),
    ],
)
def test_an_impact_has_users_overrides_and_what_hands_on(
    tmp_path: Path, files: dict[str, str], name: str, found: list[str], tests: tuple[str, ...]
) -> None:
    with indexed(tree(tmp_path / "w", files)) as engine:
        trace = engine.symbols.trace(name, "impact")
    assert [f"{one.depth} {one.source} {one.kind} {one.uses} {one.via}".rstrip() for one in trace.edges] == found
    assert trace.tests == tests


@pytest.mark.parametrize("name", ["Timer", "Timer.run"])
def test_an_overload_overrides_no_other(tmp_path: Path, name: str) -> None:
    with indexed(tree(tmp_path / "project", OVERLOADED)) as engine:
        trace = engine.symbols.trace(name, "impact")
    assert "Use.use" in [edge.source for edge in trace.edges]
    assert "base" not in [edge.kind for edge in trace.edges]


def test_an_impact_stops_at_a_level_that_has_enough(tmp_path: Path) -> None:
    users = "".join(f"def user_{number}():\n    start()\n\n\n" for number in range(25))
    files = {
        "app/core.py": "def start(): ...\n",
        "app/users.py": f"from app.core import start\n\n\n{users}def last():\n    user_1()\n",
    }
    with indexed(tree(tmp_path / "project", files)) as engine:
        trace = engine.symbols.trace("start", "impact")
    assert {edge.depth for edge in trace.edges} == {1} and len(trace.edges) == 25
    assert any("has enough to look at" in note for note in trace.notes)


def test_a_name_with_several_definitions_says_so(engine: Engine) -> None:
    assert any("2 definitions" in note for note in engine.symbols.trace("load").notes)


def test_a_limit_cuts_and_says_so(engine: Engine) -> None:
    whole = engine.symbols.trace("serve")
    assert not whole.truncated
    cut = engine.symbols.trace("serve", limit=1)
    assert cut.truncated and cut.edges == whole.edges[:1]


def test_an_unknown_symbol_names_its_neighbours(engine: Engine) -> None:
    with pytest.raises(SymbolNotFound) as refused:
        engine.symbols.trace("read_rows")
    assert "read_row" in refused.value.details["near"]


def test_neighbors_are_the_same_whichever_file_was_indexed_last(tmp_path: Path) -> None:
    users = {f"use_{n}.py": f"from app import load\n\n\ndef run_{n}():\n    return load()\n" for n in range(9)}
    root = tree(tmp_path / "w", users | {"app.py": "def load():\n    return 1\n"})
    with indexed(root) as engine:
        whole = engine.symbols.neighbors("app.py", LineSpan(1, 2))
        tree(root, {"use_0.py": users["use_0.py"] + "# edited\n"})
        engine.index.update()
        assert engine.symbols.neighbors("app.py", LineSpan(1, 2)) == whole != []


def test_lines_that_name_a_symbol_and_are_not_resolved_are_said(tmp_path: Path) -> None:
    files = {
        "src/toast.ts": "export function hide() {}\n// hide it\n",
        "src/panel.html": "<b>\n<button (click)='hide()'>x</button>\n",
        "src/menu.ts": "const actions = ['hide', 'hide the menu']\n",
        "notes.md": "Call hide.\n",
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        for direction in ("callers", "impact"):
            notes = engine.symbols.trace("hide", direction).notes
            assert notes[-1].endswith("2 lines of templates or strings with the name (src/menu.ts:1, src/panel.html:2)")


def test_a_path_chooses_among_definitions_of_one_name(tmp_path: Path) -> None:
    files = {
        "a.c": "static int size(void) { return 1; }\nint first(void) { return size(); }\n",
        "b.c": "static int size(void) { return 2; }\nint second(void) { return size(); }\n",
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        assert "give its path" in engine.symbols.trace("size").notes[0]
        assert [edge.source for edge in engine.symbols.trace("size", under="b.c").edges] == ["second"]
        with pytest.raises(SymbolNotFound):
            engine.symbols.trace("first", under="b.c")


PYTHON = "def parcel_price(x):\n    return x\n"
SCRIPT = "export function parcel_price(x) { return x; }\n"
RUBY = "class Parcel\n  def parcel_price\n    1\n  end\nend\n"
PHP = "<?php\nclass Parcel {\n  function parcel_price() { return 1; }\n}\n"
JAVA = "class Parcel {\n  int parcel_price() { return 1; }\n}\n"
GO = "package a\n\ntype P struct{}\n\nfunc (p P) parcel_price() int { return 1 }\n"
CSHARP = "class Parcel { public int parcel_price() { return 1; } }\n"
OBJC = "@implementation P\n- (int)parcel_price:(int)x { return x; }\n@end\n"
HIDDEN_USES = [
    ("a.py", PYTHON, "t.j2", "{{ parcel_price(x) }}"),
    ("a.py", PYTHON, "t/x.html", "{{ parcel_price(x) }}"),
    ("a.rb", RUBY, "v/x.html.erb", "<%= p.parcel_price %>"),
    ("a.rb", RUBY, "v/x.haml", "  = p.parcel_price"),
    ("a.php", PHP, "v/x.blade.php", "{{ $p->parcel_price() }}"),
    ("a.php", PHP, "v/x.twig", "{{ p.parcel_price }}"),
    ("a.ts", SCRIPT, "a.component.html", "<p (click)='parcel_price()'></p>"),
    ("a.ts", SCRIPT, "b.ts", "@Component({ template: `<p (click)='parcel_price()'></p>` }) class B {}"),
    ("a.ts", SCRIPT, "V.vue", "<template><p @click='parcel_price(1)'/></template>"),
    ("a.ts", SCRIPT, "V.svelte", "<p>{parcel_price(1)}</p>"),
    ("a.ts", SCRIPT, "V.astro", "<p>{parcel_price(1)}</p>"),
    ("a.ts", SCRIPT, "i.html", "<a onclick='parcel_price(1)'>"),
    ("a.js", SCRIPT, "b.jsx", 'export const B = () => <button data-on="parcel_price"/>;'),
    ("a.js", SCRIPT, "b.jsx", 'export const B = () => <button onClick="parcel_price(1)"/>;'),
    ("a.js", SCRIPT, "b.js", "window['parcel_price'](1);"),
    ("a.py", PYTHON, "b.py", "f = getattr(a, 'parcel_price')"),
    ("a.py", PYTHON, "b.py", "mock.patch('shop.a.parcel_price')"),
    ("a.rb", RUBY, "b.rb", "x.send(:parcel_price)"),
    ("a.rb", RUBY, "b.rb", "x.public_send('parcel_price')"),
    ("a.php", PHP, "b.php", "<?php usort($a, [$p, 'parcel_price']);"),
    ("a.php", PHP, "b.php", "<?php call_user_func('Parcel::parcel_price');"),
    ("A.java", JAVA, "B.java", 'class B { Object f() { return P.class.getMethod("parcel_price"); } }'),
    ("a.kt", "fun parcel_price() = 1\n", "b.kt", 'fun f() = P::class.java.getMethod("parcel_price")'),
    ("a.cs", CSHARP, "b.cs", 'class B { object F() => typeof(P).GetMethod("parcel_price"); }'),
    ("a.cs", CSHARP, "V.cshtml", "@Model.parcel_price()"),
    ("a.go", GO, "b.go", 'package a; var f = reflect.ValueOf(P{}).MethodByName("parcel_price")'),
    ("a.go", GO, "t.tmpl", "{{ .parcel_price }}"),
    ("P.m", OBJC, "b.m", "int f(P *p) { return [p parcel_price:1]; }"),
    ("P.m", OBJC, "b.m", "int f(P *p) { return p.parcel_price; }"),
    ("P.m", OBJC, "b.swift", "func f(p: P) { p.parcel_price(1) }"),
]


@pytest.mark.parametrize(("path", "source", "user", "line"), HIDDEN_USES)
def test_a_use_that_is_not_resolved_is_listed_or_said(
    path: str, source: str, user: str, line: str, tmp_path: Path
) -> None:
    with indexed(tree(tmp_path / "w", {path: source, user: f"{line}\n"})) as engine:
        for relation in ("callers", "references", "impact"):
            traced = engine.symbols.trace("parcel_price", relation)
            is_listed = (user, 1) in [(edge.path, edge.line) for edge in traced.edges]
            assert is_listed or any(f"{user}:1" in note for note in traced.notes)


@pytest.mark.parametrize("line", ["# see 'parcel_price'", "x = 'the parcel_price of it'", "x = 'a parcel_price(x) b'"])
def test_a_name_in_a_sentence_is_no_use(line: str, tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", {"a.py": PYTHON, "b.py": f"{line}\n"})) as engine:
        assert not any("not resolved" in note for note in engine.symbols.trace("parcel_price").notes)
