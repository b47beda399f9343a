"""What the lists of tools cost a client's model, in tokens of o200k: a bound that needs nothing, and the true count.

    python scripts/tokens.py             each tool and each profile; the true count where node and the tokenizer are there
    python scripts/tokens.py SERVER.json the same for a tools/list reply of another server

The true count needs node and `npm install --prefix build/tokens gpt-tokenizer` (it brings the vocabulary; build/ is not
committed). `bound` was calibrated with it: on every tool of ours it lies up to 8 % above.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

TOKENIZER = ROOT / "build" / "tokens"
COUNT = """
const {encode} = require("gpt-tokenizer/cjs/encoding/o200k_base");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
"""

PIECES = re.compile(
    r"(?P<word>[^\r\nA-Za-z0-9]?(?:[A-Z]*[a-z]+|[A-Z]+))|(?P<number>[0-9]{1,3})|(?P<marks> ?[^\sA-Za-z0-9]+)|\s+"
)
"""How o200k cuts a text before it looks anything up (ASCII; written after its published pattern)."""
TOKENS_PER_WORD = 1.07
"""Words of tool descriptions are one token, but a few in a hundred (`callees`, `codebase`); no tool had more than
these."""
LONG_PART = 10
"""More letters behind an underscore (`needs_clarification`) are two tokens."""
WHOLE_MARKS = frozenset(('":{"', '":["'))
"""Runs of more than three marks that are one token all the same, since JSON is full of them."""

BUDGETS: Mapping[str, int] = {
    "core": 1_490,
    "edit": 2_900,
    "code": 3_200,
    "plan": 2_500,
    "review": 1_500,
    "seeds": 6_700,
    "all": 7_500,
}
"""Most tokens of name, description and arguments of all tools that a profile lists."""


def bound(text: str) -> int:
    """Tokens that a text has at most, for texts such as the description and schema of a tool.

    >>> bound('{"name":"find_symbol"}')
    7
    """
    words = tokens = 0
    for piece in PIECES.finditer(text):
        chars = piece.group()
        if piece.lastgroup == "word":
            words += 1
            tokens += chars.startswith("_") and len(chars) > 1 + LONG_PART
        else:
            tokens += 1 if len(chars) <= 3 or chars in WHOLE_MARKS else len(chars) // 2
    return tokens + math.ceil(words * TOKENS_PER_WORD)


def counted(texts: Sequence[str]) -> list[int] | None:
    """The true numbers of tokens; None where node or the tokenizer is missing."""
    node = shutil.which("node")
    if not node or not (TOKENIZER / "node_modules" / "gpt-tokenizer").is_dir():
        return None
    done = subprocess.run(
        [node, "-e", COUNT], input=json.dumps(list(texts)), cwd=TOKENIZER, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def paid(wire: Mapping[str, Any]) -> str:
    """What a model pays for of a listed tool: name, description and arguments, as compact JSON."""
    told = {key: wire.get(key) for key in ("name", "description", "inputSchema")}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def profile_texts(profile: str) -> list[str]:
    """What each tool of a profile costs, as text, of those that exist."""
    from context_engine import tools
    from context_engine.server import ToolSelection, mcp_server
    from context_engine.server.profiles import list_tools

    selection = ToolSelection(profiles=(profile,))
    listed = [mcp_server.wire_tool(tool, selection) for tool in list_tools(tools.ALL, selection)]
    return [paid(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in listed]


def told(name: str, texts: Sequence[str], budget: int | None = None) -> str:
    """One line of the table."""
    true = counted(texts)
    counts = f"{sum(map(bound, texts)):6}  {sum(true) if true else '-':>6}"
    return f"{name:24} {len(texts):3}  {counts}  {budget or '':>6}"


def main(files: Iterable[str]) -> None:
    """Print the table."""
    from context_engine.server import PROFILES

    print(f"{'':24}  no   bound    true  budget")
    for file in files:
        reply = json.loads(Path(file).read_text(encoding="utf-8"))
        print(told(Path(file).stem, [paid(wire) for wire in reply.get("result", reply)["tools"]]))
    for profile in PROFILES:
        print(told(f"profile {profile}", profile_texts(profile), BUDGETS.get(profile)))
    for text in profile_texts("all"):
        print(told(json.loads(text)["name"], [text]))


if __name__ == "__main__":
    main(sys.argv[1:])
