"""The page of `ctx ui` in a real browser: its tests, and pictures of its views for the documentation.

    python scripts/ui_browser.py               run tests/ui/test_in_browser.py in Chromium
    python scripts/ui_browser.py --pictures    write docs/pictures/ui from a clone of this repository
    python scripts/ui_browser.py --pictures edits reviews    only those of these views

Chromium comes from the system's packages (Debian: chromium; `apt-get install` is tried as root). Playwright, axe and
Pillow are installed into build/ui-browser, not into the environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ROOT / "build" / "ui-browser"
PACKAGES = ("playwright", "axe-playwright-python", "pillow")
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
    if "--pictures" in arguments:
        sys.path.insert(0, str(LIBRARIES))
        take_pictures(chromium, [name for name in arguments if name in VIEWS])
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
    if not all((LIBRARIES / name).exists() for name in ("playwright", "axe_playwright_python", "PIL")):
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
        yield page.address
    finally:
        page.stop()
        thread.join()


def prepare_work(root: Path) -> None:
    """Index the repository, and leave plans, memories and edits in it, through the tools that agents call."""
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
    replies = call_tools(root, calls, client="claude-code")
    plan = json.loads(replies[1])
    further = (
        ("refine_plan", {"plan_id": plan["plan_id"], "feedback": f"remove step {len(plan['steps'])}"}),
        ("request_approval", {"plan_id": plan["plan_id"]}),
        ("start_step", {"plan_id": plan["plan_id"], "step_number": 1}),
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
