"""Our editor beside three of other people, on the same replayed edits, judged by the bench and not by us.

    python evals/edit/side_by_side.py BENCH               the table of each family of tasks
    python evals/edit/side_by_side.py BENCH --limit 10    ten tasks of each kind, the same ones for all
    python evals/edit/side_by_side.py BENCH --files       what becomes of the file around the edit (as root: owner, full disk)
    python evals/edit/side_by_side.py BENCH --big         100,000 lines, and inputs made to be slow

BENCH is a folder that holds bench.py, fs_checks.py, perf.py and its tasks in data/. The peers are installed into
build/peers, pinned, from their registries; nothing of theirs lies here. Needs node and npm.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.measure import p50_p95, table
from evals.edit.peers.protocol import PEERS

HERE = Path(__file__).resolve().parent
FILESYSTEM = ("@modelcontextprotocol/server-filesystem", "2026.8.31")
AIDER = ("aider-chat", "0.86.2")

OURS = {"anchors": True, "batch": "native", "line_only": False}
PLAIN = {"anchors": False, "batch": "sequential", "line_only": False}
EDITORS = {
    "ours": ("adapter.py", OURS),
    "exact-only": ("peers/exact_only.py", PLAIN),
    "mcp-fs": ("peers/mcp_fs.py", PLAIN),
    "aider": ("peers/editblock.py", PLAIN | {"line_only": True}),
}
"""Who takes part, and what the bench may ask of whom. It calls the second peer by that name, too."""

Row = dict[str, Any]


def main() -> None:
    """Install, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, help="tasks of each kind; default: all")
    parser.add_argument("--files", action="store_true", help="the file around the edit instead")
    parser.add_argument("--big", action="store_true", help="cost on big files instead")
    parser.add_argument("--only", default=",".join(EDITORS), help="some of %(default)s")
    asked = parser.parse_args()
    names = asked.only.split(",")
    install()
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as scratch:
        bench = workshop(Path(scratch), asked.bench.resolve())
        if asked.files:
            print(files_table(bench, names))
        elif asked.big:
            print(cost_table(bench, names))
        else:
            print("\n\n".join(replay_tables(bench, names, asked.split, asked.limit)))


def install() -> None:
    """Fetch the peers unless they are there.

    No script of a package is run, and of aider nothing but its wheel is fetched.
    """
    PEERS.mkdir(parents=True, exist_ok=True)
    name, version = FILESYSTEM
    manifest = PEERS / "node_modules" / name / "package.json"
    if not manifest.is_file() or json.loads(manifest.read_text(encoding="utf-8"))["version"] != version:
        npm = shutil.which("npm") or sys.exit("npm is not on PATH: install Node, any version from 20 on")
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        run([npm, "install", *quiet, "--prefix", str(PEERS), f"{name}@{version}"], PEERS)
    name, version = AIDER
    if not list(PEERS.glob(f"aider_chat-{version}-*.whl")):
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"{name}=={version}"], PEERS)


def workshop(folder: Path, bench: Path) -> Path:
    """A copy of the bench that knows our editors; its tasks stay where they are."""
    for script in bench.glob("*.py"):
        shutil.copy(script, folder)
    (folder / "data").symlink_to(bench / "data")
    (folder / "peers").symlink_to(PEERS)
    (folder / "results").mkdir()
    editors = {
        name: {"spec": f"cmd:{shlex.join([sys.executable, str(HERE / script)])}", "caps": caps}
        for name, (script, caps) in EDITORS.items()
    }
    (folder / "editors.json").write_text(json.dumps(editors), encoding="utf-8")
    return folder


def run(command: Sequence[str], folder: Path) -> None:
    """Run a program; what it prints goes to stderr, since stdout is for tables, and what it leaves behind into the folder."""
    scratch = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    subprocess.run(command, cwd=folder, env=os.environ | scratch, stdout=sys.stderr, check=True)


def result(bench: Path, name: str) -> Any:
    """What the bench wrote down."""
    return json.loads((bench / "results" / name).read_text(encoding="utf-8"))


# -- the replay ---------------------------------------------------------------------------------------------------


def replay_tables(bench: Path, names: Sequence[str], split: str, limit: int | None) -> Iterable[str]:
    """All tasks in one table, then a table a family, then what was wrong with the wrong ones."""
    tasks = [json.loads(line) for line in (bench / "data" / "tasks.jsonl").open(encoding="utf-8")]
    family = {task["id"]: task["family"] for task in tasks}
    rows: dict[str, list[Row]] = {}
    for name in names:
        some = ["--limit", str(limit)] if limit else []
        run([sys.executable, "bench.py", "run", "--editor", name, "--split", split, *some], bench)
        rows[name] = result(bench, f"{name}.{split}.json")["rows"]
    yield verdicts("all", rows)
    for each in sorted(set(family.values())):
        yield verdicts(each, {name: [row for row in rows[name] if family[row["id"]] == each] for name in names})
    yield wrongs(rows)


def verdicts(title: str, rows: dict[str, list[Row]]) -> str:
    """How many tasks ended how, and how long an edit took."""
    lines = []
    for name, own in rows.items():
        ended = Counter(row["out"] for row in own)
        p50, p95 = p50_p95([row["ms"] for row in own if "ms" in row] or [0.0])
        counts = [ended[out] for out in ("applied_ok", "WRONG", "refused_ok", "refused_wrongly", "n/a")]
        lines.append([name, *map(str, counts), f"{p50:.1f}", f"{p95:.1f}"])
    return table(
        [title, "correct", "wrong", "refused rightly", "refused wrongly", "not asked", "ms p50", "ms p95"], lines
    )


def wrongs(rows: dict[str, list[Row]]) -> str:
    """What was wrong, in the words of the bench."""
    found = {name: Counter(row["cls"] for row in own if row["out"] == "WRONG") for name, own in rows.items()}
    kinds = sorted({kind for counts in found.values() for kind in counts})
    return table(["what was wrong", *rows], [[kind, *(str(found[name][kind]) for name in rows)] for kind in kinds])


# -- the file around the edit, and cost -----------------------------------------------------------------------------


def files_table(bench: Path, names: Sequence[str]) -> str:
    """Mode, owner, links, a full disk, sixteen edits at once."""
    run([sys.executable, "fs_checks.py", *names], bench)
    found = result(bench, "fs.json")
    words = {True: "yes", False: "**no**"}
    checks = dict.fromkeys(check for name in names for check in found[name])
    rows = [[check, *(words.get(cell := found[name].get(check, "-"), cell) for name in names)] for check in checks]
    return table(["", *names], rows)


def cost_table(bench: Path, names: Sequence[str]) -> str:
    """Milliseconds, wall time, and what came of it."""
    rows: dict[str, list[str]] = {}
    for name in names:
        run([sys.executable, "perf.py", name], bench)
        for key, (ms, answer) in result(bench, f"perf-{name}.json").items():
            rows.setdefault(key.removeprefix(f"{name}|"), []).append(f"{ms:.0f} {answer}")
    return table(["ms, and the answer", *names], [[case, *cells] for case, cells in rows.items()])


if __name__ == "__main__":
    main()
