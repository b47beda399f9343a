"""The page of `ctx ui` in a real browser: its tests, and pictures of its views for the documentation.

    python scripts/ui_browser.py               run tests/ui/test_in_browser.py in Chromium
    python scripts/ui_browser.py --pictures    write docs/pictures/ui from a clone of this repository
    python scripts/ui_browser.py --pictures edits reviews    only those of these views
    python scripts/ui_browser.py --session     write docs/pictures/session-*.png: Claude Code next to the page

Chromium comes from the system's packages (Debian: chromium; `apt-get install` is tried as root). Playwright, axe,
Pillow and ansi2html are installed into build/ui-browser, not into the environment. A session needs tmux, and Claude Code,
which `make clients` installs; its model is a script (`STEPS`), its calls are real.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ROOT / "build" / "ui-browser"
PACKAGES = ("playwright", "axe-playwright-python", "pillow", "ansi2html")
NAMES = ("chromium", "chromium-browser", "google-chrome")
PICTURES = ROOT / "docs" / "pictures" / "ui"
BYTES_MAX = 120_000
COLORS = 256
SHAPES: dict[str, tuple[Any, int, int]] = {
    "light": ("light", 1280, 800),
    "dark": ("dark", 1280, 800),
    "narrow": ("light", 390, 800),
}
VIEWS = {
    "activity": "activity",
    "search": "search?q=where+are+secrets+masked+in+replies",
    "graph": "graph?symbol=workspace_id&relation=impact&depth=3",
    "plans": "plans",
    "reviews": "reviews",
    "memories": "memories",
    "edits": "edits",
    "index": "index",
    "settings": "settings",
}
OPENED = {"edits": "details.changes summary"}
"""What is opened for the picture of a view: here the diff of the newest edit."""
SHOWN = {"reviews": "tr.note"}
"""The part of a view that must be visible: here a finding below its line."""


def main(arguments: list[str]) -> int:
    """Run the tests, or take the pictures; return the exit code."""
    chromium = find_chromium()
    install_libraries()
    if {"--pictures", "--session"} & set(arguments):
        sys.path[:0] = [str(LIBRARIES), str(ROOT)]
        names = [name for name in arguments if name in VIEWS]
        take_session_picture(chromium) if "--session" in arguments else take_pictures(chromium, names)
        return 0
    paths = os.pathsep.join(filter(None, (str(LIBRARIES), os.environ.get("PYTHONPATH", ""))))
    env = os.environ | {"CTX_TEST_CHROMIUM": chromium, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-s", "tests/ui/test_in_browser.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def find_chromium() -> str:
    """Return the path of a Chromium; install Debian's where there is none."""
    for attempt in range(2):
        found = next(filter(None, map(shutil.which, NAMES)), None)
        if found:
            return found
        if attempt == 0 and shutil.which("apt-get"):
            subprocess.run(["apt-get", "install", "-y", "chromium"], check=False)
    raise SystemExit("there is no Chromium on this machine: install it, for example with `apt-get install chromium`")


def install_libraries() -> None:
    """Install what drives the browser, once."""
    if not all((LIBRARIES / name).exists() for name in ("playwright", "axe_playwright_python", "PIL", "ansi2html")):
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(LIBRARIES), *PACKAGES]
        subprocess.run(command, check=True)


# -- pictures ---------------------------------------------------------------------------------------------------------


def take_pictures(chromium: str, names: list[str]) -> None:
    """Take a picture of each view in each shape, of a clone of this repository with some work in it."""
    chosen = {name: view for name, view in VIEWS.items() if name in names or not names}
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, serve_sample(Path(folder)) as page, sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        for shape, (scheme, width, height) in SHAPES.items():
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            tab = context.new_page()
            for name, view in chosen.items():
                tab.goto(f"{page}#{view}")
                tab.locator("main h1").wait_for()
                tab.wait_for_timeout(500)
                tab.locator(".loading").first.wait_for(state="detached", timeout=120_000)
                if opened := OPENED.get(name):
                    tab.locator(opened).first.click()
                tab.wait_for_timeout(400)
                if shown := SHOWN.get(name):
                    tab.locator(shown).first.scroll_into_view_if_needed()
                save_picture(PICTURES / f"{name}-{shape}.png", tab.screenshot())
            context.close()
        browser.close()


def take_session_picture(chromium: str) -> None:
    """Take a picture of a session of Claude Code next to the page that shows its calls."""
    from ansi2html import Ansi2HTMLConverter
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, serve_sample(Path(folder)) as page, sync_playwright() as playwright:
        terminal = Ansi2HTMLConverter(inline=True).convert(run_agent(Path(folder)), full=False)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_context(viewport={"width": 770, "height": 740}, color_scheme=scheme).new_page()
            tab.goto(f"{page}#activity")
            tab.locator(".call summary").first.click()
            tab.locator(".call pre").first.wait_for()
            shown = base64.b64encode(tab.screenshot()).decode()
            both = browser.new_page(viewport={"width": 1420, "height": 740})
            both.set_content(BESIDE.format(terminal=terminal, page=shown))
            save_picture(PICTURES.parent / f"session-{scheme}.png", both.screenshot())
        browser.close()


PROMPT = "Let the page show new calls twice as fast."
BESIDE = """<body style="margin:0;display:flex;background:#16181c">
<pre style="margin:0;width:650px;box-sizing:border-box;padding:10px 12px;color:#d8d8d8;overflow:hidden;
font:11.7px/15px 'DejaVu Sans Mono',monospace">{terminal}</pre><img src="data:image/png;base64,{page}">"""


def run_agent(folder: Path) -> str:
    """Run Claude Code in a terminal until its model has said the last word; return what is on the screen."""
    from tests.clients.agents import KEY
    from tests.clients.dialects import Say, Use
    from tests.clients.programs import client, ctx
    from tests.clients.scripted_model import ScriptedModel

    root, home = folder / "context-engine", folder / "home"
    home.mkdir()
    seen: dict[str, Any] = {"hasCompletedOnboarding": True, "theme": "dark", "verbose": True}
    seen |= {"projects": {str(root): {"hasTrustDialogAccepted": True}}, "customApiKeyResponses": {"approved": [KEY]}}
    (home / ".claude.json").write_text(json.dumps(seen), encoding="utf-8")
    with ScriptedModel((*(Use(tool, arguments) for tool, arguments in STEPS), Say(LAST_WORDS))) as model:
        env = {name: text for name, text in os.environ.items() if name.startswith(("CTX_", "XDG_")) or name == "PATH"}
        env |= {
            "HOME": str(home),
            "CTX_DAEMON": "false",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
        }
        env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "scripted"}
        env |= {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        subprocess.run([str(ctx()), "setup", "claude"], cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)
        tmux = ["tmux", "-S", str(folder / "tmux")]
        size = ["-x", "90", "-y", "70"]
        subprocess.run([*tmux, "-f", os.devnull, "new-session", "-d", *size, "-c", str(root), *client("claude"),
                        "--allowedTools", "mcp__ctx"], env=env, check=True)  # fmt: skip
        try:
            time.sleep(10)
            subprocess.run([*tmux, "send-keys", "-l", PROMPT], check=True)
            time.sleep(1)
            subprocess.run([*tmux, "send-keys", "Enter"], check=True)
            for _ in range(60):
                time.sleep(1)
                screen = subprocess.run(
                    [*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True
                ).stdout
                if LAST_WORDS[:40] in screen and " done " in screen:
                    break
        finally:
            subprocess.run([*tmux, "kill-server"], check=True)
    return screen[screen.index("\n", screen.index(PROMPT) - 80) :].strip("\n").replace("⎿", "└")


STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_code", {"query": "poll interval of the event stream of the page", "limit": 1, "token_budget": 250}),
    ("symbols", {"name": "EVENTS_EVERY_S", "relation": "references"}),
    ("edit_file", {"path": "context_engine/server/page_server.py", "edits": [
        {"target": "EVENTS_EVERY_S = 0.2", "replace": "EVENTS_EVERY_S = 0.1"},
    ]}),
)  # fmt: skip
LAST_WORDS = "The page now looks for new calls every 0.1 seconds. Only `_stream_events` uses the constant."


def save_picture(path: Path, data: bytes) -> None:
    """Save a picture with few colors, which halves its size."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB").quantize(COLORS, kmeans=3, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    assert size <= BYTES_MAX, f"{path.name} has {size:,} bytes"
    print(f"{path.relative_to(ROOT)}  {size:,} bytes")


@contextmanager
def serve_sample(folder: Path) -> Generator[str]:
    """Serve the page over a clone of this repository; yield its address."""
    os.environ |= {
        "CTX_CACHE_FOLDER": str(folder / "cache"),
        "CTX_DATA_FOLDER": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    root = folder / "context-engine"
    subprocess.run(["git", "clone", "-q", "--depth", "100", f"file://{ROOT}", str(root)], check=True)
    subprocess.run(["git", "switch", "-q", "-C", "main"], cwd=root, check=True)
    from context_engine.ui import LocalPage

    prepare_work(root)
    page = LocalPage({str(root): root.name}, may_write=True, is_person=True)
    page.bind(0)
    thread = threading.Thread(target=page.run, daemon=True)
    thread.start()
    try:
        with keep_running(root):
            yield page.address
    finally:
        page.stop()
        thread.join()


@contextmanager
def keep_running(root: Path) -> Generator[None]:
    """Show the page a call that does not end, as its server does."""
    from context_engine.engine import Engine
    from context_engine.server import GainStore
    from context_engine.tools import Call

    store, call, ended = GainStore(), Call(session="codex", client="codex"), threading.Event()

    def show() -> None:
        while not ended.wait(0.5):
            store.show_running(call, "index_workspace", "indexing: 312 of 1,368 files", arguments={"force": True})

    with Engine.open(root) as engine:
        store.note_engine("", engine)
        thread = threading.Thread(target=show)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def prepare_work(root: Path) -> None:
    """Index the repository, and leave plans, memories and edits in it, through the tools that agents call."""
    from context_engine.engine import Engine
    from context_engine.plans import PlanQuery

    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("index_workspace", {}),
        ("create_plan", {"task": "Show the duration of each tool call in ctx status"}),
        ("create_plan", {"task": "Retry a lost connection to the shared store, with a limit on the time of all tries"}),
        ("add_memory", {
            "content": "Tokens are estimated at four characters each, everywhere; no tokenizer is loaded.",
            "title": "Four characters are a token", "category": "decisions", "tags": ["budget"],
            "linked_files": ["context_engine/text/words.py"],
        }),
        ("add_memory", {"content": "Tests are named by the sentence they prove.", "category": "preferences", "subtype": "rule"}),
        ("add_memory", {
            "content": "The wheel is built by hatchling; assets are package data.", "category": "facts",
            "expires_at": "2026-01-01",
        }),
        ("edit_file", {"path": "context_engine/text/words.py", "edits": [
            {"target": "    return len(_tokens(text))", "replace": "    return len(_tokens(text)) if text else 0"},
        ]}),
        ("write_file", {"path": "context_engine/team/retry_policy.py", "content": RETRIES}),
    )  # fmt: skip
    call_tools(root, calls, client="claude-code")
    with Engine.open(root) as engine:
        plan = engine.plans.repository.list_page(PlanQuery(sort_by="created_at", sort_order="asc")).rows[0]
    further = (
        ("refine_plan", {"plan_id": plan.id, "feedback": f"remove step {plan.step_count}"}),
        ("request_approval", {"plan_id": plan.id}),
        ("start_step", {"plan_id": plan.id, "step_number": 1}),
        (
            "reactive_review_pr",
            {"commit_hash": "HEAD", "base_ref": "HEAD~2", "title": "The last two commits", "wait_s": 55},
        ),
    )
    call_tools(root, further, client="claude-code")
    for client, tool, arguments in QUESTIONS:
        call_tools(root, ((tool, arguments),), client=client)


RETRIES = '''"""Try a call again, for a limited time."""

import subprocess


def run(command, seen=[]):
    seen.append(command)
    try:
        return subprocess.run(command, shell=True)
    except Exception:
        pass
'''
QUESTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("claude-code", "search_code", {"query": "where is a lost connection to the store noticed"}),
    ("claude-code", "symbols", {"name": "PostgresSession", "relation": "callers"}),
    ("codex", "get_context", {"query": "how are replies kept within their budget", "token_budget": 4000}),
    ("codex", "read", {"items": ["context_engine/text/words.py"]}),
    ("claude-code", "search_text", {"query": "estimate_tokens("}),
    ("codex", "symbols", {"name": "estimate_tokns"}),
    ("claude-code", "search_memory", {"query": "how are tokens counted"}),
    ("claude-code", "search_code", {"query": "where are secrets masked in replies"}),
)


def call_tools(root: Path, calls: Any, *, client: str) -> list[str]:
    """Call tools as a client does; return their replies."""
    from context_engine.engine import Engine
    from context_engine.server import ToolDispatcher, ToolSelection, single_engine
    from context_engine.tools import Call

    with Engine.open(root) as engine:
        dispatcher = ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all",)))
        caller = Call(session=client, client=client)
        outcomes = [dispatcher.call(tool, arguments, caller) for tool, arguments in calls]
    assert not [outcome.error for outcome in outcomes if outcome.error], (
        "a call that fails is not in the pictures by mistake"
    )
    return [outcome.reply.text for outcome in outcomes]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
