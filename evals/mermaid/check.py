"""Draw random plans with hostile titles, and ask the real Mermaid parser what it makes of every diagram.

    make mermaid                          300 plans; npm ci into build/mermaid once
    make mermaid ARGS="--plans 50 --seed 7"
    make mermaid ARGS=--plain             what becomes of labels as most write them

A diagram passes when the parser accepts it and finds exactly what was drawn: every step with the title it was given,
every arrow, every bar with a beginning before its end. The titles are made of what broke diagrams elsewhere.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from context_engine.plans import mermaid  # noqa: E402 - found beside this file
from context_engine.plans.model import Plan, PlanStep  # noqa: E402
from context_engine.plans.plan_events import PlanEvent, fold_progress  # noqa: E402
from context_engine.plans.plan_json import normalize_plan  # noqa: E402

HERE = Path(__file__).resolve().parent
INSTALLED = ROOT / "build" / "mermaid"
SHOWN_MAX = 8
KINDS = ("dependencies", "progress", "gantt", "architecture")
HOSTILE = (
    *(
        '"',
        "'",
        "`",
        "```",
        "end",
        "END",
        "subgraph",
        "graph TD",
        "click n1 href",
        "%%",
        "%%{init: {'theme': 'dark'}}%%",
        "#",
    ),
    *(
        "#35;",
        "#quot;",
        "&amp;",
        "&lt;",
        ";",
        ":",
        "::",
        ":::done",
        "-->",
        "---",
        "-.->",
        "==>",
        "<--",
        "|x|",
        "[x]",
        "((x))",
        "{x}",
    ),
    *(
        "[/x/]",
        "]",
        ")",
        "}",
        "<b>",
        "<script>alert(1)</script>",
        "<br/>",
        "\\n",
        "\n",
        "\r\n",
        "\t",
        "\\",
        "//",
        "$$x^2$$",
        "$&",
    ),
    *(
        "@{ shape: rect }",
        "classDef done fill:#f00;",
        "style n1 fill:#f00;",
        "class n1 done",
        "section x",
        "title y",
        "done, crit",
    ),
    *(
        "2024-01-01",
        "10d",
        "dateFormat X",
        "after n1",
        "1. first",
        "- item",
        "* item",
        "# heading",
        "**bold**",
        "~~~",
        "~x~",
        "_x_",
    ),
    *(
        "\u0000",
        "\u0007",
        "\u001b[31m",
        "\u200b",
        "\u200e",
        "\u202e",
        "\ufeff",
        "\u2028",
        "\u00ad",
        "\ue000",
        "é",
        "ß",
        "ﬂ°",
        "¶ß",
        "°°",
    ),
    *(
        "日本語",
        "مرحبا",
        "שלום",
        "🎉",
        "👩‍💻",
        "🇩🇪",
        "e\u0301\u0301\u0301",
        "x" * 200,
        "",
        " ",
        "o",
        "x",
        "default",
        "_self",
        "null",
        "true",
    ),
    *(
        "accTitle: x",
        "accDescr { x }",
        "direction LR",
        "linkStyle 0 stroke:#f00;",
        "vert",
        "milestone",
        "axisFormat %Y",
        "excludes weekends",
    ),
)
"""What is syntax somewhere in a flowchart or a Gantt chart, what is none but looks like it, and what is hardly text."""
WORDS = ("fix", "the", "parser", "of", "tests", "and", "docs", "for", "login", "in", "src/app.py", "v1.2")


class Drawn(NamedTuple):
    """One diagram, and what the parser must find in it: texts by name, arrows or None."""

    kind: str
    text: str
    texts: Mapping[str, str]
    arrows: int | None


def main(argv: list[str]) -> int:
    """Draw, parse, compare; 1 when any diagram fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=300, help="how many (default 300)")
    parser.add_argument("--seed", type=int, default=11, help="another seed, other plans (default 11)")
    parser.add_argument("--plain", action="store_true", help="with labels as most write them: only quotes coded")
    asked = parser.parse_args(argv)
    install()
    if asked.plain:
        mermaid.escape_label = plain  # ty: ignore[invalid-assignment] - the check must be able to fail
    diagrams = [each for number in range(asked.plans) for each in drawn(random.Random(f"{asked.seed} {number}"))]
    found = parsed([each.text for each in diagrams])
    wrong = [(each, why) for each, said in zip(diagrams, found, strict=True) if (why := difference(each, said))]
    failed, total = Counter(each.kind for each, _ in wrong), Counter(each.kind for each in diagrams)
    for kind in KINDS:
        print(f"{kind:14}{total[kind] - failed[kind]}/{total[kind]}")
    for each, why in wrong[:SHOWN_MAX]:
        print(f"\n{each.kind}: {why}")
    return 1 if wrong else 0


def install() -> None:
    """The pinned packages, once; no script of a package is run."""
    wanted, stamp = (HERE / "package-lock.json").read_bytes(), INSTALLED / "installed"
    if stamp.exists() and stamp.read_bytes() == wanted:
        return
    npm = shutil.which("npm")
    if not npm:
        sys.exit("npm is not installed: the parser is a package of its registry")
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, INSTALLED)
    subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=INSTALLED, check=True)
    stamp.write_bytes(wanted)


def parsed(texts: list[str]) -> list[dict[str, Any]]:
    """What the parser makes of each diagram."""
    sent = INSTALLED / "diagrams.json"
    sent.write_text(json.dumps(texts), encoding="utf-8")
    told = subprocess.run(
        [shutil.which("node") or "node", str(HERE / "parse.mjs"), str(INSTALLED), str(sent)],
        stdout=subprocess.PIPE,
        check=True,
    )
    return [json.loads(line) for line in told.stdout.decode("utf-8").splitlines()]


def difference(each: Drawn, said: Mapping[str, Any]) -> str:
    """What the parser found that was not drawn, or the other way round; nothing when it found just that."""
    if "refused" in said:
        return str(said["refused"])
    texts = {row[0]: row[1] for row in said.get("tasks", said.get("nodes", ()))}
    if texts != each.texts:
        return f"texts differ: {[(texts.get(key), each.texts.get(key)) for key in {**texts, **each.texts} if texts.get(key) != each.texts.get(key)][:3]}"
    if each.arrows is not None and said["edges"] != each.arrows:
        return f"{said['edges']} arrows instead of {each.arrows}"
    if any(not start < end for _, _, start, end in said.get("tasks", ())):
        return "a bar ends before it begins"
    return ""


# -- plans -------------------------------------------------------------------------------------------------------------


def drawn(chance: random.Random) -> Iterator[Drawn]:
    """Every kind of diagram of one random plan."""
    plan = random_plan(chance)
    execution = fold_progress(plan, random_events(chance, plan))
    chars = chance.choice((20, 50, 120))
    shown = plan.steps if len(plan.steps) <= mermaid.NODES_MAX else ()
    texts = {f"n{number}": f"{number} · {seen(step.title, chars)}".strip() for number, step in enumerate(shown, 1)}
    arrows = sum(len(set(step.depends_on)) for step in plan.steps) if shown else None
    direction, start = chance.choice(("TD", "LR")), chance.random() * 2e9
    for kind in ("dependencies", "progress", "gantt"):
        picture = mermaid.draw_plan(kind, plan, execution, direction=direction, start=start, label_chars=chars)
        held = texts or collapsed(picture.mermaid)
        yield Drawn(kind, picture.mermaid, held, None if kind == "gantt" else arrows)
    names = {title(chance): [1, 2] for _ in range(chance.randint(1, 6))}
    modules = mermaid.draw_architecture(
        names, [(one, other) for one in names for other in names], label_chars=chars
    ).mermaid
    yield Drawn("architecture", modules, collapsed(modules), len(names) * (len(names) - 1))


def random_plan(chance: random.Random) -> Plan:
    """A plan of up to 150 steps that wait for earlier ones."""
    steps = []
    for number in range(1, chance.choice((1, 3, 8, 20, 60, 150)) + 1):
        waits = chance.sample(range(1, number), min(number - 1, chance.choice((0, 0, 1, 2))))
        low = chance.choice((0.0, 0.25, 2.0, 30.0, 100_000.0))
        hours = low if chance.random() < 0.7 else None
        steps.append(PlanStep(title=title(chance), depends_on=tuple(f"s{each}" for each in waits), hours=hours))
    return normalize_plan(Plan(goal=title(chance), steps=tuple(steps)))


def title(chance: random.Random) -> str:
    """Words and syntax, in any order; never nothing at all."""
    parts = [chance.choice(HOSTILE if chance.random() < 0.6 else WORDS) for _ in range(chance.randint(1, 6))]
    return chance.choice(("", " ")).join(parts) or "x"


def random_events(chance: random.Random, plan: Plan) -> list[PlanEvent]:
    """What may have happened to some of its steps."""
    kinds = ("step_started", "step_completed", "step_failed", "step_skipped")
    told = [
        (step.uid, kind)
        for step in plan.steps
        if chance.random() < 0.6
        for kind in ("step_started", chance.choice(kinds))
    ]
    return [
        PlanEvent(seq=seq, at="2026-11-21T12:00:00Z", kind=kind, step=uid) for seq, (uid, kind) in enumerate(told, 1)
    ]


def plain(text: str, chars_max: int = mermaid.LABEL_CHARS) -> str:
    """A label as most write it: on one line, cut, with its quotes coded."""
    return " ".join(text.split())[:chars_max].replace('"', "#34;")


def seen(text: str, chars: int) -> str:
    """A title as a reader of the picture is to see it."""
    return _decoded(mermaid.escape_label(text, chars))


def _decoded(label: str) -> str:
    return (label.replace("#34;", '"') if mermaid.escape_label is plain else decoded(label)).strip()


def decoded(text: str) -> str:
    """A label with its codes as the characters they stand for."""
    out, rest = "", text
    while "#" in rest:
        before, _, rest = rest.partition("#")
        code, _, rest = rest.partition(";")
        out += before + chr(int(code))
    return out + rest


def collapsed(text: str) -> dict[str, str]:
    """The texts of a diagram as it writes them itself, for one whose boxes are not all steps."""
    found = {}
    for line in text.splitlines():
        if '["' in line:
            name, _, shown = line.strip().partition('["')
            found[name] = _decoded(shown.removesuffix('"]')).strip()
        elif " :" in line:
            shown, _, rest = line.strip().rpartition(" :")
            name = next(part for part in rest.split(", ") if part not in ("done", "active", "crit"))
            found[name] = _decoded(shown).strip()
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
