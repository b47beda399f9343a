"""The line scanners see what a parser would: fences, front matter and block scalars hide what is in them."""

from __future__ import annotations

import pytest

from context_engine.languages.line_scanners import SCANNERS
from context_engine.languages.outline_types import nest_symbols


def shown(scanner: str, text: str) -> list[str]:
    """Each symbol as `name first-last`, indented by depth."""
    symbols = nest_symbols(SCANNERS[scanner](text.encode())[0])
    depth: list[int] = []
    for symbol in symbols:
        depth.append(depth[symbol.parent] + 1 if symbol.parent >= 0 else 0)
    return [f"{'  ' * d}{s.name} {s.first}-{s.last}" for s, d in zip(symbols, depth, strict=True)]


@pytest.mark.parametrize(
    ("scanner", "text", "expected"),
    [
        ("markdown", "# A\n## B\n# C\n", ["A 1-2", "  B 2-2", "C 3-3"]),
        ("markdown", "# A\n~~~~\n# no\n~~~\n# no\n~~~~\n# B", ["A 1-6", "B 7-7"]),
        ("markdown", "````md\n```\n# no\n```\n````\n# A\n", ["A 6-6"]),
        ("markdown", "# open fence\n```\n# no\n", ["open fence 1-3"]),
        ("markdown", "`# no`\n#no\n####### no\n # yes\n    # code\n", ["yes 4-5"]),
        ("markdown", "Title\n===\n\nSub\n---\n\n---\ntext\n", ["Title 1-8", "  Sub 4-8"]),
        ("markdown", "- item\n---\n| a |\n---\n", []),
        ("markdown", "+++\n# no\n+++\r\n# yes\r\n", ["yes 4-4"]),
        ("markdown", "", []),
        ("rst", "A\n=\n\nB\n-\n\nC\n=\n", ["A 1-6", "  B 4-6", "C 7-8"]),
        ("rst", "text\n\n----\n\nmore\n", []),
        ("yaml", "a:\n  b: 1\n  c:\n    d: 2\ne: [1]\n", ["a 1-4", "  b 2-2", "  c 3-4", "e 5-5"]),
        ("yaml", "a: |\n  b: no\nc: >-\n\n  d: no\ne: 1\n", ["a 1-2", "c 3-5", "e 6-6"]),
        ("yaml", "a:\n    b: |\n      c: no\n    d: 1\n", ["a 1-4", "  b 2-3", "  d 4-4"]),
        ("yaml", "# a: no\n'b c': 1\nhttp://x: y\n- d: no\n", ["b c 2-2", "http://x 3-4"]),
        ("dockerfile", "ARG V=1\nFROM a:${V} AS one\nRUN x\nfrom b\n", ["one 2-3", "b 4-4"]),
    ],
)
def test_a_scanner_sees_structure_and_no_look_alikes(scanner: str, text: str, expected: list[str]) -> None:
    assert shown(scanner, text) == expected
