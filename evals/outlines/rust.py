"""Print the definitions of Rust files as the compiler names them: path, first line, name (line 0: it refuses the file).

    python rust.py < PATHS

Reads the syntax tree that a nightly `rustc` prints. What a macro makes is not seen.
"""

from __future__ import annotations

import re
import subprocess
import sys

SPAN = re.compile(r"( *)span: \S+?:(\d+):\d+: \d+:\d+ ")
KIND = re.compile(r" *kind: (\w+)")
NAME = re.compile(r" *(?:ident: )?((?:r#)?\w+)#\d+,$")
NAMELESS = {"Impl", "Use", "ExternCrate", "MacCall", "ForeignMod", "GlobalAsm", "Delegation"}


def print_definitions(path: str, tree: list[str]) -> None:
    """Print what a tree defines: each has a span and a visibility, and then its name."""
    wanted: tuple[str, str] | None = None
    is_inside = False  # of the visibility, which may name modules
    for number, text in enumerate(tree):
        span = SPAN.match(text)
        if span is not None and tree[number + 1].startswith(f"{span[1]}vis: "):
            wanted, is_inside = (span[1], span[2]), True
        if wanted is None or is_inside:
            is_inside = is_inside and text != f"{wanted[0]}}}," if wanted else False
            continue
        kind, name = KIND.match(text), NAME.match(text)
        is_nameless = kind is not None and text.startswith(f"{wanted[0]}kind") and kind[1] in NAMELESS
        if is_nameless or text == f"{wanted[0]}ident: None,":
            wanted = None
        elif name is not None:
            is_elsewhere = tree[number + 1].strip() == "Unloaded,"
            if not is_elsewhere:
                print(path, wanted[1], name[1], sep="\t")
            wanted = None


for path in sys.stdin.read().split("\n"):
    if path:
        command = ["rustc", "+nightly", "--edition", "2024", "-Zunpretty=ast-tree", path]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            print(path, 0, "", sep="\t")
        else:
            print_definitions(path, answer.stdout.splitlines())
