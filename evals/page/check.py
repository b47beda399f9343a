"""Open pages of random plans with hostile titles in a real browser, and ask it what it sees.

    make page                             20 plans, and pictures of one of them in build/page
    make page ARGS="--plans 100 --seed 7"

Needs Chromium: `apt-get install chromium` on Debian; $CHROMIUM names another one. A page passes when the browser has nothing to
complain of, its style sheet counts, and every step stands in it with the title it was given and nothing that was made of a title.
First a page with one byte changed must fail: the policy of a page allows the style sheet it was written with.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from context_engine.plans.model import Plan  # noqa: E402 - found beside this file
from context_engine.plans.plan_page import page  # noqa: E402
from context_engine.plans.plan_progress import fold_progress  # noqa: E402
from context_engine.plans.plan_svg import STEPS_MAX  # noqa: E402
from evals.mermaid.check import random_events, random_plan  # noqa: E402

BUILT = ROOT / "build" / "page"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
COMPLAINT = re.compile(rb":CONSOLE[:(]\d+\)?\] (.*)")
WINDOWS = {"day": (1200, 2400, 1), "night": (1200, 2400, 0), "phone": (500, 2000, 1)}
"""Width, height, and what Chromium calls the colours that somebody prefers."""
SHOWN_MAX = 8


class Seen(HTMLParser):
    """What stands in a page as the browser has read it: tags, titles of steps, boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.titles: list[str] = []
        self.boxes = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.add(tag)
        self.boxes += (told.get("class") or "").startswith("box ")
        self._in_title = tag == "h3" and "dir" in told
        self.titles += [""] * self._in_title

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "h3"

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.titles[-1] += data


def main(argv: list[str]) -> int:
    """Write, open, look; 1 when any page fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=20, help="how many (default 20)")
    parser.add_argument("--seed", type=int, default=11, help="another seed, other plans (default 11)")
    asked = parser.parse_args(argv)
    browser = Browser(found())
    BUILT.mkdir(parents=True, exist_ok=True)
    plans = [random_plan(random.Random(f"{asked.seed} {number}")) for number in range(asked.plans)]
    texts = [written(random.Random(f"{asked.seed} {number} events"), plan) for number, plan in enumerate(plans)]
    complaints, _ = browser.looked(texts[0].replace("margin: 0;", "margin: 1px;", 1))
    if not complaints:
        sys.exit("a page with another style sheet than its own passed: this check sees nothing")
    wrong = [
        (number, why) for number, text in enumerate(texts) if (why := trouble(plans[number], *browser.looked(text)))
    ]
    print(
        f"pages          {len(texts) - len(wrong)}/{len(texts)}, {max(len(text.encode()) for text in texts):,} bytes at most"
    )
    for number, why in wrong[:SHOWN_MAX]:
        print(f"\nplan {number}: {why}")
    middle = next((text for plan, text in zip(plans, texts, strict=True) if len(plan.steps) in (8, 20)), texts[0])
    for name, window in WINDOWS.items():
        browser.pictured(middle, BUILT / f"{name}.png", *window)
    print(f"pictures       {BUILT}")
    return 1 if wrong else 0


def found() -> str:
    """The browser of this machine."""
    named = os.environ.get("CHROMIUM", "")
    for name in (named, *NAMES):
        if name and (path := shutil.which(name)):
            return path
    sys.exit("Chromium is not installed: apt-get install chromium, or name one in $CHROMIUM")


def written(chance: random.Random, plan: Plan) -> str:
    """The page of a plan that is under way."""
    return page(plan, fold_progress(plan, random_events(chance, plan), now=0))


def trouble(plan: Plan, complaints: list[str], dom: str) -> str:
    """What the browser complains of, or what of the plan is missing or too much in what it read; empty when all is well."""
    if complaints:
        return complaints[0]
    seen = Seen()
    seen.feed(dom)
    if made := seen.tags & {"script", "iframe", "img", "object", "embed", "form", "input", "b", "br"}:
        return f"a title became markup: {sorted(made)}"
    if len(seen.titles) != len(plan.steps):
        return f"{len(seen.titles)} steps instead of {len(plan.steps)}"
    for step, shown in zip(plan.steps, seen.titles, strict=True):
        if letters(step.title) != letters(shown) and not shown.endswith("…"):
            return f"{step.title!r} is shown as {shown!r}"
    boxes = min(len(plan.steps), STEPS_MAX)
    return "" if seen.boxes == boxes else f"{seen.boxes} boxes instead of {boxes}"


def letters(text: str) -> str:
    """What of a text can be seen: letters, digits and signs."""
    return "".join(char for char in text if char.isprintable() and not char.isspace())


class Browser:
    """Chromium without a window, a profile of its own each time."""

    def __init__(self, path: str) -> None:
        self._path = path

    def looked(self, text: str) -> tuple[list[str], str]:
        """What it complains of on its console, and the page as it has read it."""
        done = self._run(text, "--enable-logging=stderr", "--dump-dom")
        complaints = [found.decode(errors="replace") for found in COMPLAINT.findall(done.stderr)]
        return complaints, done.stdout.decode(errors="replace")

    def pictured(self, text: str, to: Path, width: int, height: int, colours: int) -> None:
        """A picture of what it shows."""
        to.unlink(missing_ok=True)
        settings = f"--blink-settings=preferredColorScheme={colours}"
        self._run(text, settings, "--hide-scrollbars", f"--window-size={width},{height}", f"--screenshot={to}")
        if not to.exists():
            sys.exit(f"Chromium made no picture {to}")

    def _run(self, text: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plan.html"
            file.write_bytes(text.encode())
            own = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile")
            command = [self._path, *own, *options, file.as_uri()]
            return subprocess.run(command, capture_output=True, check=True, timeout=120)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
