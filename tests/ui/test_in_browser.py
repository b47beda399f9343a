"""The page of `ctx ui` in Chromium: every view, live updates, writes, hostile texts, accessibility. `make ui-browser` runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from context_engine.engine import Engine
from context_engine.memory import MemoryDraft
from context_engine.review import ReviewRequest
from context_engine.server import ToolDispatcher, single_engine
from context_engine.server.gain_store import GainStore
from context_engine.server.resources import APP_VIEWS, render_view
from context_engine.settings import EDITORS
from context_engine.tools import Call
from tests.support.trees import tree
from tests.ui.conftest import WAIT_S, XSS, Browser, serve

CHROMIUM = os.environ.get("CTX_TEST_CHROMIUM", "")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="make ui-browser sets CTX_TEST_CHROMIUM")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
VIEWS = (
    "activity",
    "search?q=login",
    "graph?symbol=login",
    "plans",
    "reviews",
    "memories",
    "edits",
    "index",
    "settings",
)
TITLES = ("Activity", "Search", "Graph", "Plans", "Reviews", "Memories", "Edits", "Index", "Settings")
SHAPES = {"light": ("light", 1280, 860), "dark": ("dark", 1280, 860), "narrow": ("light", 390, 844)}
BIG_NODES = 10_000
SYMBOLS, SYMBOLS_A_FILE = int(os.environ.get("CTX_TEST_UI_SYMBOLS", "0")), 100
LARGE_S = 3.0
"""A view of a large repository that was open before; it takes 0.2 s on an idle machine (decision record hostile-input)."""
FILES = {
    "till/auth.py": f'def login(user):\n    """{XSS}"""\n    return check(user)\n\n\ndef check(user):\n    return user\n',
    f"till/{XSS.replace('/', '')}.py": "from till.auth import login\n\n\ndef again():\n    return login('x')\n",
    ".gitignore": ".context-engine/\n",
}


@pytest.fixture(scope="module")
def shop(places: Path) -> Path:
    """A repository with a plan, memories, edits and a change, each with a text that tries to become HTML."""
    root = tree(places / "shop", FILES)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "begin"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    with Engine.open(root) as engine:
        engine.index.update()
        engine.memory.memories.add(MemoryDraft(category="decisions", content=f"Users log in once. {XSS}", title=XSS))
        door = dispatcher(engine)
        made = door.call("create_plan", {"task": f"Let login refuse an empty user {XSS}"}, Call())
        assert not made.error, made.error
        (root / "till/stored.py").write_text("def g(b={}):\n    return b\n")
        for words in (["add", "till/stored.py"], ["commit", "-q", "-m", "add g"]):
            subprocess.run([*git, *words], cwd=root, check=True)
        session = engine.reviews.sessions.start(ReviewRequest("HEAD", "HEAD~1", title=XSS), workers=1).session
        engine.reviews.sessions.wait(session.id, WAIT_S)
        written = door.call(
            "write_file", {"path": "till/new.py", "content": f"def f(a=[]):\n    return a  # {XSS}\n"}, Call()
        )
        assert not written.error, written.error
    return root


def dispatcher(engine: Engine) -> ToolDispatcher:
    from context_engine.server import ToolSelection

    return ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds")))


@pytest.fixture(scope="module")
def read_only(shop: Path) -> Generator[Browser]:
    with serve(shop) as browser:
        yield browser


@pytest.fixture(scope="module")
def may_write(shop: Path) -> Generator[Browser]:
    with serve(shop, may_write=True) as browser:
        yield browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Watched:
    """A tab that notes every error, every dialog, and every request that goes elsewhere."""

    def __init__(self, chromium: Any, page: Browser, shape: str = "light") -> None:
        scheme, width, height = SHAPES[shape]
        self.base = page.base
        self.context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.tab = self.context.new_page()
        self.trouble: list[str] = []
        self.tab.on("console", lambda line: self.trouble.append(line.text) if line.type == "error" else None)
        self.tab.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.tab.on("request", lambda request: self._check(request.url))
        self.tab.on("dialog", self._note_dialog)

    def _check(self, url: str) -> None:
        if not url.startswith(self.base):
            self.trouble.append(f"a request to {url}")

    def _note_dialog(self, dialog: Any) -> None:
        self.trouble.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, view: str) -> Any:
        """Open a view and wait until it is complete."""
        self.tab.goto(f"{self.base}#{view}")
        self.tab.locator("main h1").wait_for()
        self.tab.locator(".loading").first.wait_for(state="detached", timeout=60_000)
        return self.tab

    def close(self) -> None:
        """Close the tab. Raises: AssertionError for whatever was noted."""
        self.context.close()
        assert self.trouble == []


@pytest.mark.parametrize("shape", SHAPES)
def test_every_view_opens_without_an_error_and_without_serious_findings_of_axe(
    chromium: Any, read_only: Browser, shape: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    watched = Watched(chromium, read_only, shape)
    for view, title in zip(VIEWS, TITLES, strict=True):
        tab = watched.open(view)
        assert tab.locator("main h1").inner_text() == title
        found = Axe().run(tab).response["violations"]
        serious = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
        assert [
            row for row, one in zip(serious, found, strict=True) if one["impact"] in ("serious", "critical")
        ] == [], view
        assert tab.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"), f"{view} is too wide"
    watched.close()


def test_texts_of_others_are_shown_as_text(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    for view in VIEWS:
        tab = watched.open(view)
        assert tab.locator("main img").count() == 0, view
        if view.partition("?")[0] in ("search", "plans", "reviews", "memories"):
            assert XSS in tab.locator("main").inner_text(), view
    watched.close()


def test_an_edit_opens_its_diff_and_a_stored_review_its_findings(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("edits")
    tab.get_by_text("Diff", exact=True).click()
    assert XSS in tab.locator(".changes tr.plus", has_text="return a").inner_text()
    tab = watched.open("reviews")
    tab.get_by_text("1 stored review").click()
    tab.get_by_role("button", name=XSS).click()
    tab.locator(".finding").first.wait_for()
    assert tab.locator("tr.plus", has_text="def g").is_visible()
    watched.close()


def test_the_first_paint_comes_within_half_a_second(chromium: Any, read_only: Browser) -> None:
    took = []
    for _ in range(3):
        watched = Watched(chromium, read_only)
        tab = watched.open("activity")
        took.append(tab.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        watched.close()
    print(f"first paint: {[round(ms) for ms in took]} ms")
    assert min(took) <= 500


def test_a_call_of_an_agent_appears_within_a_second(chromium: Any, read_only: Browser, shop: Path) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("activity")
    tab.locator(".live.on").wait_for()
    with Engine.open(shop) as engine:
        door = dispatcher(engine)
        door.call("find_symbol", {"name": "warm"}, Call(session="s", client="warm-up"))
        tab.locator(".call", has_text="warm-up").wait_for()
        door.call("find_symbol", {"name": XSS}, Call(session="s", client="some-agent"))
        row = tab.locator(".call", has_text="some-agent")
        row.wait_for(timeout=1_000)
        assert XSS in row.inner_text()
    watched.close()


def test_a_running_call_keeps_the_focus_and_is_canceled(
    chromium: Any, may_write: Browser, read_only: Browser, shop: Path
) -> None:
    call, state, ended = Call(session="s", client=XSS), ["indexing: 1 of 9 files"], threading.Event()
    with Engine.open(shop) as engine:
        store = GainStore()
        store.note_engine("", engine)
        store.keep_line(engine.settings, json.dumps({"at": "2026-01-01T00:00:00Z", "event": "library", "says": XSS}))

        def work() -> None:
            while not ended.wait(0.1):
                store.show_running(call, "index_workspace", state[0])
            store.show_running(call, "index_workspace", "")

        server = threading.Thread(target=work)
        server.start()
        try:
            watched = Watched(chromium, read_only)
            assert watched.open("activity").get_by_role("button", name="Cancel").is_disabled()
            watched.close()
            watched = Watched(chromium, may_write)
            tab = watched.open("activity")
            row = tab.locator(".running", has_text=XSS)
            cancel = row.get_by_role("button", name="Cancel")
            cancel.focus()
            state[0] = "indexing: 2 of 9 files"
            row.get_by_text("indexing: 2 of 9 files").wait_for()
            assert tab.evaluate("() => document.activeElement.textContent") == "Cancel"
            tab.keyboard.press("Enter")
            assert call.cancel.wait(WAIT_S)
        finally:
            ended.set()
            server.join()
        row.wait_for(state="detached")
        tab.get_by_text(re.compile("^Log of servers: ")).click()
        assert XSS in tab.locator(".timeline li", has_text="library").first.inner_text()
        watched.close()


def test_a_page_opened_after_the_work_shows_what_was_asked_and_the_whole_reply(
    chromium: Any, read_only: Browser, shop: Path
) -> None:
    with Engine.open(shop) as engine:
        door = dispatcher(engine)
        for name, arguments in (("read", {"items": ["till/auth.py"]}), ("index_status", {})):
            door.call(name, arguments, Call(session="s", client="earlier"))
    watched = Watched(chromium, read_only)
    tab = watched.open("activity")
    rows = tab.locator(".call", has_text="earlier")
    assert "no arguments" in rows.nth(0).inner_text()
    rows.nth(1).locator("summary").click()
    assert "def check(user):\n" in rows.nth(1).get_by_label("Got").inner_text()
    watched.close()


def test_a_weak_answer_says_so_first_and_has_no_scores(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("search?q=kubernetes operator helm login chart")
    assert tab.locator("main .problem").inner_text().startswith("Weak: ")
    assert tab.locator(".hits .place").count() > 0
    assert tab.locator(".hits .part, .hits .figure").count() == 0
    tab = watched.open("search?q=login")
    assert tab.locator("main .problem").count() == 0
    text = tab.locator(".hits .small").first.inner_text()
    assert not re.search(r"\b(chunk|top5|static|doc|def)\b", text), text
    watched.close()


def test_a_file_with_a_finding_comes_before_files_without_one(chromium: Any, read_only: Browser, shop: Path) -> None:
    added = {"aa.py": "A = 1\n", "zz.py": "def note(word, seen=[]):\n    seen.append(word)\n    return seen\n"}
    tree(shop, added)
    watched = Watched(chromium, read_only)
    names = watched.open("reviews").locator(".file summary b").all_inner_texts()
    for path in added:
        (shop / path).unlink()
    assert names[0] == "zz.py"
    assert "aa.py" in names
    assert not [name for name in names if name.startswith(".context-engine")]
    watched.close()


def test_the_chosen_tab_is_in_sight_at_the_width_of_a_phone(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only, "narrow")
    for view in VIEWS:
        box = watched.open(view).locator("#nav a[aria-current]").bounding_box()
        assert box["x"] >= 0, view
        assert box["x"] + box["width"] <= 390, view
    watched.close()


def test_settings_are_in_groups_and_filtered(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("settings")
    assert {"embedding", "store", "general"} <= {text.lower() for text in tab.locator(".group").all_inner_texts()}
    tab.get_by_label("Filter").fill("embedding_key")
    assert tab.locator("tbody tr").count() == 2
    watched.close()


def test_approving_and_undoing_are_refused_without_write(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    for view, name in (("plans", "Approve"), ("edits", "Undo"), ("memories", "Edit")):
        assert watched.open(view).get_by_role("button", name=name, exact=True).first.is_disabled(), view
    assert read_only.write("undo_edit", project="shop").status == 403
    assert read_only.write("decide", project="shop").status == 403
    watched.close()


def test_approving_editing_and_undoing_work_with_write(chromium: Any, may_write: Browser, shop: Path) -> None:
    watched = Watched(chromium, may_write)
    tab = watched.open("plans")
    tab.get_by_role("button", name="Approve", exact=True).click()
    tab.get_by_text("approval approved").wait_for()
    tab = watched.open("memories")
    tab.get_by_role("button", name="Edit", exact=True).click()
    tab.get_by_label("Tags").fill("session, users")
    tab.get_by_role("button", name="Save").click()
    tab.get_by_text("#session").wait_for()
    tab.get_by_role("button", name="Expire now").click()
    tab.locator(".chip", has_text="expired").wait_for()
    tab = watched.open("edits")
    tab.get_by_role("button", name="Undo", exact=True).click()
    tab.locator(".chip", has_text="undone").wait_for()
    assert not (shop / "till/new.py").exists()
    tab.get_by_role("button", name="Redo", exact=True).click()
    tab.get_by_role("button", name="Undo", exact=True).wait_for()
    assert (shop / "till/new.py").exists()
    watched.close()


def test_a_memory_is_added_with_write(chromium: Any, may_write: Browser, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    assert watched.open("memories").get_by_role("button", name="Add", exact=True).is_disabled()
    watched.close()
    watched = Watched(chromium, may_write)
    tab = watched.open("memories")
    tab.get_by_role("button", name="Add", exact=True).click()
    assert tab.evaluate("() => document.activeElement.tagName") == "SELECT", "the first field has the focus"
    tab.get_by_label("Category").select_option("preferences")
    tab.get_by_label("Content").fill(f"Ask before you add a dependency. {XSS}")
    tab.get_by_label("Tags").fill("packages")
    tab.get_by_role("button", name="Save").click()
    card = tab.locator("article", has_text="Ask before you add a dependency.")
    card.get_by_text("#packages").wait_for()
    assert "preferences" in card.inner_text()
    assert tab.locator("main form").count() == 0
    watched.close()


def test_a_running_review_is_paused_at_the_page_and_followed(chromium: Any, may_write: Browser) -> None:
    watched = Watched(chromium, may_write)
    session = {
        "id": "rev_1",
        "title": XSS,
        "base": "",
        "commit": "",
        "findings": 1,
        "files_done": 2,
        "files_total": 9,
        "at": 0,
    }
    states = iter([*["running"] * 2, *["paused"] * 9])
    sent: list[Any] = []
    answer = {"content_type": "application/json"}
    watched.tab.route(
        "**/api/review-sessions",
        lambda route: route.fulfill(body=json.dumps({"sessions": [session | {"status": next(states)}]}), **answer),
    )
    watched.tab.route(
        "**/write/pause_review", lambda route: (sent.append(route.request), route.fulfill(body="{}", **answer))
    )
    tab = watched.open("reviews")
    row = tab.locator(".edits li", has_text="2 of 9 files")
    row.get_by_role("button", name="Pause").click()
    row.get_by_role("button", name="Resume").wait_for()
    assert sent[0].post_data_json["session_id"] == "rev_1"
    assert sent[0].headers["x-ctx-token"] == may_write.token
    watched.close()


def test_a_place_opens_in_the_editor_and_no_path_changes_what_its_link_is(
    chromium: Any, read_only: Browser, shop: Path
) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("graph?symbol=login&relation=callers&depth=1")
    tab.locator(".links button").first.click()
    tab.get_by_label("Code of again").wait_for()
    assert "return login('x')" in tab.get_by_label("Code of again").inner_text()
    link = tab.locator(".side a").first.get_attribute("href")
    assert unquote(link) == f"vscode://file{shop}/{next(iter(FILES.keys() - {'till/auth.py', '.gitignore'}))}:4"
    for editor, wanted in OPENED.items():
        assert tab.evaluate(LINK, [read_only.base, "süß #1/a b.py", EDITORS[editor]]) == wanted.replace(
            "ROOT%2F", f"{quote(str(shop), safe='')}%2F"
        ).replace("ROOT", str(shop))
    hostile = ["a?b#c", 'a b"><x', "x:9/../y", "%2e%2e/z", "\\\\host\\c", "javascript:alert(1)", "\n//host/x", "\ud800"]
    for path in hostile:
        href = tab.evaluate(LINK, [read_only.base, path])
        assert re.fullmatch(r"vscode://file/[\w./%~!*'()-]+:7", href), href
    assert tab.evaluate(LINK, [read_only.base, "a.py", EDITORS["none"]]) is None
    watched.close()


OPENED = {
    "zed": "zed://fileROOT/s%C3%BC%C3%9F%20%231/a%20b.py:7",
    "webstorm": "jetbrains://web-storm/navigate/reference?project=shop&path=s%C3%BC%C3%9F%20%231/a%20b.py:6",
    "macvim": "mvim://open?url=file%3A%2F%2FROOT%2Fs%25C3%25BC%25C3%259F%2520%25231%2Fa%2520b.py&line=7",
    "vscode": "vscode://fileROOT/s%C3%BC%C3%9F%20%231/a%20b.py:7",
}
LINK = """async ([base, path, editor]) => {
  const { page, place } = await import(`${base}assets/kit.js`);
  page.editor = editor ?? page.editor;
  return place(path, 7).getAttribute("href");
}"""


def test_the_keyboard_reaches_views_fields_and_help(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("activity")
    tab.keyboard.press("2")
    tab.locator("main h1", has_text="Search").wait_for()
    tab.locator("main").focus()
    tab.keyboard.press("/")
    assert tab.evaluate("() => document.activeElement.name") == "query"
    tab.keyboard.type("till")
    tab.keyboard.press("Escape")
    assert tab.locator("input[name=query]").input_value() == "till"
    tab.keyboard.press("?")
    tab.get_by_role("heading", name="Keyboard").wait_for()
    tab.keyboard.press("Escape")
    before = tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
    tab.keyboard.press("t")
    assert tab.evaluate("() => getComputedStyle(document.body).backgroundColor") != before
    tab.keyboard.press("Tab")
    outline = tab.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is visible"
    watched.close()


def test_a_graph_of_ten_thousand_symbols_is_fluid(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    middle = [f"middle_{number}" for number in range(200)]
    edges = [edge(name, "login", 1) for name in middle]
    edges += [edge(f"user_{number}", middle[number % 200], 2) for number in range(BIG_NODES - 200)]
    graph: dict[str, Any] = {"target": "login", "path": "till/auth.py", "line": 1, "kind": "function"}
    graph |= {"relation": "callers", "edges": edges, "tests": [], "notes": [], "possible": 0, "truncated": False}
    watched.tab.route(
        "**/api/graph", lambda route: route.fulfill(body=json.dumps(graph), content_type="application/json")
    )
    tab = watched.open("graph?symbol=login")
    box = tab.locator("canvas").bounding_box()
    tab.evaluate(
        "() => { window.frames_ = []; const note = (at) => { window.frames_.push(at); requestAnimationFrame(note); };"
        " requestAnimationFrame(note); }"
    )
    x, y = box["x"] + 300, box["y"] + 300
    tab.mouse.move(x, y)
    tab.mouse.down()
    for step in range(60):
        tab.mouse.move(x + 2 * step, y + step)
    tab.mouse.up()
    for _ in range(10):
        tab.mouse.wheel(0, -60)
    gaps = tab.evaluate(
        "() => window.frames_.slice(1).map((at, before) => at - window.frames_[before]).sort((a, b) => a - b)"
    )
    print(f"frames: {len(gaps)}, middle {gaps[len(gaps) // 2]:.0f} ms, 95 % under {gaps[int(len(gaps) * 0.95)]:.0f} ms")
    assert gaps[len(gaps) // 2] <= 50
    watched.close()


def edge(source: str, target: str, depth: int) -> dict[str, Any]:
    place = {"path": f"till/{source}.py", "line": 3, "evidence": "login()", "certainty": "exact", "uses": 1}
    ends = {"source_at": f"till/{source}.py:1", "target_at": f"till/{target}.py:1"}
    return {"source": source, "target": target.rpartition(".")[2], "depth": depth, **place, **ends}


ARRANGE = """async ([base, graph]) => {
  const { arrange } = await import(`${base}assets/graph.js`);
  const { nodes, links } = arrange(graph);
  return { columns: nodes.map(({ name, depth, x }) => [name, depth, x]), links: links.map((link) => link.map(({ name }) => name)) };
}"""


def test_methods_of_one_name_are_in_the_columns_of_their_levels_under_what_they_use(
    chromium: Any, read_only: Browser
) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("activity")
    wanted = [("Till.run", "Store.save"), ("Clock.run", "Store.save"), ("Bell.run", "Till.run"), ("wind", "Clock.run")]
    edges = [edge("Till.run", "Store.save", 1), edge("Clock.run", "Store.save", 1)]
    edges += [edge("Bell.run", "Till.run", 2), edge("wind", "Clock.run", 2)]
    graph = {"target": "Store.save", "path": "till/Store.save.py", "line": 1, "relation": "callers", "edges": edges}
    drawn = tab.evaluate(ARRANGE, [read_only.base, graph])
    assert sorted(map(tuple, drawn["links"])) == sorted(wanted)
    assert {name: depth for name, depth, _ in drawn["columns"]} == {
        "Store.save": 0,
        "Till.run": 1,
        "Clock.run": 1,
        "Bell.run": 2,
        "wind": 2,
    }
    assert all(x == -230 * depth for _, depth, x in drawn["columns"]), "what is used is to the right of its users"
    for one in edges:
        one["source_at"] = one["target_at"] = ""  # a name alone may mean each definition that has it
    drawn = tab.evaluate(ARRANGE, [read_only.base, graph])
    assert ["wind", "Clock.run"] in drawn["links"]
    assert ["wind", "Till.run"] in drawn["links"]
    watched.close()


def test_each_definition_of_an_overloaded_name_is_a_symbol_of_its_own(chromium: Any, read_only: Browser) -> None:
    watched = Watched(chromium, read_only)
    tab = watched.open("activity")
    steps = [(3, 9, 1), (9, 6, 1), (20, 3, 1), (20, 6, 2), (30, 20, 2)]  # lines of source and target, level
    names = {3: "Text.cut", 6: "Text.cut", 9: "Text.cut", 20: "Text.fit", 30: "wrap"}
    edges = [
        edge(names[source], names[target], depth) | {"source_at": f"a.java:{source}", "target_at": f"a.java:{target}"}
        for source, target, depth in steps
    ]
    graph = {"target": "Text.cut", "path": "a.java", "line": 3, "relation": "callers", "edges": edges}
    drawn = tab.evaluate(ARRANGE.replace("name", "label"), [read_only.base, graph])
    one, two, three = (f"Text.cut ({line})" for line in (3, 6, 9))
    assert {label: depth for label, depth, _ in drawn["columns"]} == {
        one: 0,
        two: 0,
        three: 0,
        "Text.fit": 1,
        "wrap": 2,
    }
    wanted = [(one, three), (three, two), ("Text.fit", one), ("Text.fit", two), ("wrap", "Text.fit")]
    assert sorted(map(tuple, drawn["links"])) == sorted(wanted)
    watched.close()


@pytest.mark.skipif(not SYMBOLS, reason="CTX_TEST_UI_SYMBOLS=100000 makes a repository with so many symbols")
def test_every_view_of_a_large_repository_opens(chromium: Any, places: Path) -> None:
    files = {
        f"part_{number % 40}/module_{number}.py": "\n\n".join(
            f"def total_{number}_{row}(cents):\n    return total_{number}_{max(0, row - 1)}(cents) + {row}\n"
            for row in range(SYMBOLS_A_FILE)
        )
        for number in range(SYMBOLS // SYMBOLS_A_FILE)
    }
    root = tree(places / "large", files | {".gitignore": ".context-engine/\n"})
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    with Engine.open(root) as engine:
        engine.index.update()
        assert engine.status().symbols >= SYMBOLS
    (root / "part_0/module_0.py").write_text("def total_0_0(cents=[]):\n    return cents\n")
    with serve(root) as page:
        watched = Watched(chromium, page)
        for view in (
            "activity",
            "search?q=total+cents",
            "graph?symbol=total_7_0",
            "plans",
            "reviews",
            "memories",
            "index",
        ):
            took = []
            for _ in range(3):
                watched.tab.goto("about:blank")
                start = time.monotonic()
                watched.open(view)
                took.append(time.monotonic() - start)
            print(f"{view}: first {took[0]:.2f} s, then {min(took[1:]):.2f} s")
            assert min(took[1:]) <= LARGE_S, view
        watched.close()


# -- the same views inside a client (MCP Apps) --

HOST = """<!doctype html><iframe id="view" sandbox="allow-scripts" width="900" height="700"></iframe><script>
window.seen = [];
addEventListener("message", async ({ source, data }) => {
  const view = document.getElementById("view").contentWindow;
  if (source !== view) return;
  window.seen.push(data.method);
  const reply = (result) => view.postMessage({ jsonrpc: "2.0", id: data.id, result }, "*");
  if (data.method === "ui/initialize") reply({ protocolVersion: data.params.protocolVersion,
    hostInfo: { name: "test", version: "1" }, hostCapabilities: window.abilities, hostContext: { theme: "dark" } });
  if (data.method === "ui/notifications/initialized")
    view.postMessage({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params: window.result }, "*");
  if (data.method === "tools/call") reply(await window.callTool(data.params.name, data.params.arguments));
});
</script>"""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'none'"
)
"""The one that a client must enforce where a view declares none (SEP-1865)."""


@pytest.mark.parametrize("abilities", [{}, {"serverTools": {}}])
@pytest.mark.parametrize(
    ("view", "tool", "arguments", "shown"),
    [
        ("plan", "create_plan", {"task": f"Let check refuse {XSS}"}, ["version 1"]),
        ("review", "review_git_diff", {"target": "HEAD~1..HEAD"}, ["Mutable default argument", "def g(b={}):"]),
    ],
)
def test_a_client_shows_the_result_of_a_tool_as_text(
    chromium: Any, shop: Path, view: str, tool: str, arguments: dict[str, Any], shown: list[str], abilities: Any
) -> None:
    with Engine.open(shop) as engine:
        tools = dispatcher(engine)

        def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
            outcome = tools.call(name, given, Call())
            return {"content": [{"type": "text", "text": outcome.reply.text}], "isError": bool(outcome.error)}

        result = call(tool, arguments)
        context = chromium.new_context(viewport={"width": 1000, "height": 800})
        tab = context.new_page()
        trouble: list[str] = []
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.on("console", lambda line: trouble.append(line.text) if line.type == "error" else None)
        tab.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        tab.expose_function("callTool", call)
        tab.set_content(HOST)
        page = render_view(next(uri for uri in APP_VIEWS if uri.endswith(view))).text
        page = page.replace("<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{POLICY}">')
        tab.evaluate(
            "([result, abilities, page]) => { Object.assign(window, { result, abilities });"
            " document.getElementById('view').srcdoc = page; }",
            [result, abilities, page],
        )
        main = tab.frame_locator("#view").locator("main")
        for text in shown:
            main.get_by_text(text, exact=False).first.wait_for()
        assert main.locator("img").count() == 0
        if view == "plan" and abilities:
            main.get_by_text("Progress").first.wait_for()
            assert XSS in main.inner_text()
        assert ("tools/call" in tab.evaluate("window.seen")) == (view == "plan" and bool(abilities))
        assert tab.frame_locator("#view").locator("html").get_attribute("data-theme") == "dark"
        tab.wait_for_function("window.seen.includes('ui/notifications/size-changed')")
        context.close()
    assert trouble == []
