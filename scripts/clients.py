"""Install real MCP clients, run tests/clients with them, and write what was seen into docs/clients-report.md.

    python scripts/clients.py                 install what is missing, run everything, write the report
    python scripts/clients.py --protocol      only what checks the protocol: no agents, a third of the size, no report
    python scripts/clients.py --install       only install; may stand beside --protocol
    python scripts/clients.py -- -k codex     what stands after `--` goes to pytest; what other tests saw before stays
    python scripts/clients.py --report        run nothing, write the report again

Versions are pinned in tests/clients/npm, with lock files, and come from the npm registry; no script of a package is
run. It needs npm to install. At run time nothing leaves this machine: models are scripted and listen on loopback.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

PINNED = ROOT / "tests" / "clients" / "npm"
INSTALLED = ROOT / "build" / "clients"
FINDINGS = INSTALLED / "findings.json"
REPORT = ROOT / "docs" / "clients-report.md"
PROTOCOL_TESTS = ("test_conformance.py", "test_inspector.py", "test_tool_tokens.py")
TRIES = 3
"""A download of 1.5 GB in a thousand pieces fails at times; npm keeps what it has."""
PAUSE_S = 5.0


def main(argv: list[str]) -> int:
    """Install, run, report; pytest's exit code."""
    own, to_pytest = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", action="store_true", help="leave the agents out")
    parser.add_argument("--install", action="store_true", help="install and run nothing")
    parser.add_argument("--report", action="store_true", help="only write the report")
    asked = parser.parse_args(own)
    status = 0
    if not asked.report:
        seconds = {name: installed(name) for name in (("protocol",) if asked.protocol else ("protocol", "agents"))}
        if asked.install:
            return 0
        if not to_pytest and not asked.protocol:
            FINDINGS.unlink(missing_ok=True)
        status = run(asked.protocol, to_pytest, seconds)
        if asked.protocol:
            return status
    REPORT.write_text(report(json.loads(FINDINGS.read_text()) if FINDINGS.exists() else {}), encoding="utf-8")
    print(f"written: {REPORT.relative_to(ROOT)}")
    return status


def installed(name: str) -> float:
    """Install one folder of pinned packages unless it is the one that was installed last; the seconds that took."""
    folder, started = INSTALLED / name, time.monotonic()
    lock = (PINNED / name / "package-lock.json").read_bytes()
    stamp = folder / ".installed"
    wanted = hashlib.sha256(lock).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return 0.0
    print(f"== installing {name}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copyfile(PINNED / name / file, folder / file)
    fetch(folder)
    stamp.write_text(wanted)
    return time.monotonic() - started


def fetch(folder: Path) -> None:
    """`npm ci`, a few times if need be. Exits when it never succeeds."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            "npm is not on PATH: install Node, any version from 20 on; a newer one is fetched with the rest"
        )
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    for _ in range(TRIES):
        if subprocess.run(command, cwd=folder, check=False).returncode == 0:
            return
        time.sleep(PAUSE_S)
    raise SystemExit(f"npm could not install {folder.name} in {TRIES} tries")


def run(only_protocol: bool, to_pytest: Sequence[str], install_s: Mapping[str, float]) -> int:
    """Run the tests; their exit code. How long it took is a finding too."""
    tests = (
        [ROOT / "tests" / "clients" / name for name in PROTOCOL_TESTS]
        if only_protocol
        else [ROOT / "tests" / "clients"]
    )
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", *map(str, tests), *to_pytest]
    status = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "CTX_CLIENTS_FINDINGS": str(FINDINGS)}, check=False
    ).returncode
    seen = json.loads(FINDINGS.read_text()) if FINDINGS.exists() else {}
    took = {
        "seconds": round(time.monotonic() - started),
        "install_s": {name: round(s) for name, s in install_s.items() if s},
    }
    name = "make clients" + (" --protocol" if only_protocol else f' ARGS="{" ".join(to_pytest)}"' if to_pytest else "")
    what = {"date": time.strftime("%Y-%m-%d"), "machine": f"{platform.system()} with {os.cpu_count()} cores"}
    seen["run"] = {**seen.get("run", {}), **what, name: took}
    FINDINGS.write_text(json.dumps(seen, indent=1, ensure_ascii=False))
    return status


# -- the report -------------------------------------------------------------------------------------------------------


def report(seen: Mapping[str, Any]) -> str:
    """The page, from what the tests saw."""
    parts = [
        HEAD.format(**when(seen.get("run", {}))),
        versions(),
        conformance(seen),
        inspector(seen),
        listings(seen),
        packages(seen),
    ]
    return "\n".join([*parts, sessions(seen), costs(seen), LEARNED])


def when(run: Mapping[str, Any]) -> dict[str, str]:
    """The words of the head that depend on what was run."""
    took = [
        f"- `{name}`: {one['seconds']} s{installing(one['install_s'])}"
        for name, one in run.items()
        if isinstance(one, Mapping)
    ]
    return {"date": run.get("date", "no day"), "machine": run.get("machine", "no machine"), "took": "\n".join(took)}


def installing(seconds: Mapping[str, int]) -> str:
    """How long installing took, where it was needed."""
    return " and " + ", ".join(f"{took} s to install {name}" for name, took in seconds.items()) if seconds else ""


def versions() -> str:
    """The pinned packages."""
    files = [json.loads((PINNED / name / "package.json").read_text()) for name in ("protocol", "agents")]
    wanted = {k: v for file in files for k, v in (file["dependencies"] | file["optionalDependencies"]).items()}
    rows = [
        (f"`{name}`", version) for name, version in sorted(wanted.items()) if "darwin" not in name and "win" not in name
    ]
    return section("What was run", table(("package", "version"), rows))


def conformance(seen: Mapping[str, Any]) -> str:
    """One row for each scenario, one column for each revision."""
    revisions = sorted(key.partition(" ")[2] for key in seen if key.startswith("conformance "))
    if not revisions:
        return ""
    found = {revision: {one["scenario"]: one for one in seen[f"conformance {revision}"]} for revision in revisions}
    told = [
        f"**{revision}**: {sum(not one['failed'] for one in own.values() if one['required'])} of "
        f"{sum(one['required'] for one in own.values())} required scenarios pass, {sum(one['passed'] for one in own.values())} checks."
        for revision, own in found.items()
    ]
    names = list(dict.fromkeys(name for own in found.values() for name in own))
    rows = [(f"`{name}`", *(cell(found[revision].get(name)) for revision in revisions)) for name in sorted(names)]
    return section(
        "Conformance suite", "\n".join(told) + "\n\n" + CONFORMANCE + "\n\n" + table(("scenario", *revisions), rows)
    )


def cell(one: Mapping[str, Any] | None) -> str:
    """One outcome in words."""
    if one is None:
        return ""
    counts = [f"{one['passed']} passed"] + [f"{one[kind]} {kind}" for kind in ("failed", "warned") if one[kind]]
    return (
        ", ".join(counts) + ("" if one["required"] else " (not required)") + (f": {one['why']}" if one["why"] else "")
    )


def inspector(seen: Mapping[str, Any]) -> str:
    """Strict reading of the schemas in both eras, both ways."""
    rows = [
        (*key.split()[1:], one["tools"], one["strict"])
        for key, one in sorted(seen.items())
        if key.startswith("inspector ")
    ]
    return (
        section("Inspector", INSPECTOR + "\n\n" + table(("era", "over", "tools", "`--strict` says"), rows))
        if rows
        else ""
    )


def listings(seen: Mapping[str, Any]) -> str:
    """What the clients say of us."""
    rows = [
        (key.partition(" ")[2], "<br>".join(f"`{line}`" for line in one["lines"]), one["seconds"])
        for key, one in sorted(seen.items())
        if key.startswith("listing ")
    ]
    if codex := seen.get("codex app-server"):
        said = f"`mcpServerStatus/list`: {codex['tools']} tools; `mcpServer/tool/call`: the text of the file, whole"
        rows.append(("codex app-server", said, f"{codex['listed_s']} and {codex['called_s']}"))
    return (
        section("Set up by `ctx setup`, found by the client", table(("client", "says", "seconds"), rows))
        if rows
        else ""
    )


def packages(seen: Mapping[str, Any]) -> str:
    """What the clients say of the server of an installed package."""
    rows = [
        (key.partition(" ")[2], "<br>".join(f"`{line}`" for line in one["lines"]))
        for key, one in sorted(seen.items())
        if key.startswith("package ")
    ]
    return section("Packages, validated and installed by the client", table(("client", "says"), rows)) if rows else ""


def sessions(seen: Mapping[str, Any]) -> str:
    """What the model saw, a column for each agent."""
    agents = {key.partition(" ")[2]: one for key, one in sorted(seen.items()) if key.startswith("session ")}
    if not agents:
        return ""
    facts = [fact for fact in next(iter(agents.values())) if fact != "errors"]
    rows = [(fact, *(written(one[fact]) for one in agents.values())) for fact in facts]
    read = [f"- {', '.join(who)}, {what}: `{text}`" for (what, text), who in errors(agents).items()]
    told = [SESSIONS, table(("", *agents), rows), READ, "\n".join(read)]
    if found := seen.get("found by codex"):
        told += [
            FOUND,
            table(("words", "found"), ((words, ", ".join(map(code, names))) for words, names in found.items())),
        ]
    return section("Scripted sessions", "\n\n".join(told))


def errors(agents: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Who read which words about what, those who read the same together."""
    readers: dict[tuple[str, str], list[str]] = {}
    for at, what in enumerate(ERRORS):
        for name, one in agents.items():
            readers.setdefault((what, one["errors"][at]), []).append(name)
    return readers


def code(word: str) -> str:
    """A name as code."""
    return f"`{word}`"


def written(value: Any) -> str:
    """A fact in a cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        ", ".join(f"{one:,}" for one in value)
        if isinstance(value, list)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def costs(seen: Mapping[str, Any]) -> str:
    """Tokens of the lists of tools."""
    rows = [
        (
            key.removeprefix("tokens "),
            one["tools"],
            f"{one['tokens']:,}",
            f"{one['budget']:,}" if one.get("budget") else "",
        )
        for key, one in seen.items()
        if key.startswith("tokens ") and one["tools"]
    ]
    return (
        section("What the lists of tools cost", COSTS + "\n\n" + table(("server", "tools", "tokens", "budget"), rows))
        if rows
        else ""
    )


def section(title: str, text: str) -> str:
    """A heading and what stands under it."""
    return f"## {title}\n\n{text}\n"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    return "\n".join(lines(list(head), rows))


def lines(head: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """The lines of a table; `|` inside of a cell is escaped."""
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows:
        yield f"| {' | '.join(str(one).replace('|', chr(92) + '|') for one in row)} |"


HEAD = """\
# Real clients

What real MCP clients see of `ctx`, and what the protocol's own checkers say of it. Written by `make clients`
(`scripts/clients.py`) from what `tests/clients` saw; do not edit it by hand. One part alone: `make clients ARGS="-k codex"`.

Run on {date}, {machine}, offline: a scripted model on loopback drove the agents. Seconds depend on what else the machine
does; everything else should come out the same anywhere.

{took}
"""
CONFORMANCE = """\
Over HTTP, with our guard, middleware and handlers; the suite's own tools, resources and prompts stand beside ours
(`tests/clients/fixtures.py`). What does not pass is listed with its reason in `tests/clients/conformance.toml`: a scenario
that fails and is not listed fails the test, and so does one that is listed and passes."""
INSPECTOR = "`inspector --cli` lists and calls in both eras of the protocol, over stdio and over HTTP, and reads and prompts in one."
SESSIONS = """\
Each agent is set up by `ctx setup`, asked one question, and its model plays a script: a search, a file of 32,000 characters,
a file in Chinese that is longer in bytes than some clients show, a missing file, a wrong argument. Each result is
compared with what `ctx call` prints: whole, not cut, not doubled. Each error shows code, message and next step.
Where the model is shown names or a purpose alone, it asks the client for schemas first, as a real one would."""
READ = "What the model read when something was wrong, word for word:"
FOUND = "What Codex' own search finds when the model asks for a tool in its own words:"
ERRORS = ("a missing file", "a wrong argument")
COSTS = "Name, description and arguments of every listed tool as compact JSON, in tokens of o200k; others from the npm registry."
LEARNED = """\
## What the sessions taught us

- **Codex cuts a result in the middle above 48,000 bytes** of UTF-8, and above 12,000 with a model it does not know unless
  `tool_output_token_limit` is set in its config; **opencode above 51,200 bytes**. Claude Code and Gemini CLI showed 58,000.
  A limit in characters alone lets a file in Chinese be cut, so ours counts bytes as well.
- **Codex asks its model about a second after it starts** and does not add servers that come later.
- **Claude Code opens `subscriptions/listen` when a server declares that its lists may change, and waits for the
  acknowledgement** before it lists tools. It then asks for prompts and resources beside the tools; Gemini CLI asks for
  prompts before tools.
- **Gemini CLI checks arguments against our schema itself**: a wrong name never reaches us, and the model reads "params must
  NOT have additional properties" in place of our did-you-mean. The other three pass it on and show our error whole.
- **Codex with tool search** shows the model the first paragraph of our instructions and no tool name at all.
"""

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
