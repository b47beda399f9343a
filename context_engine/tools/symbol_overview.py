r"""PURE. Count the symbols that a `symbols` chunk lists, from its text, since nothing else is stored of it.

>>> count_listed_symbols("imports: 2\nclass Pool (lines 3-9)\n  method drain (lines 5-9)")
{'imports_count': 2, 'symbols_count': 2, 'types_count': 1, 'functions_count': 1}
"""

from __future__ import annotations

import re
from collections import Counter

TYPES = ("class", "interface", "struct", "enum", "trait", "type")
FUNCTIONS = ("function", "method", "constructor", "macro")

_SYMBOL = re.compile(r"^ *(\w+) .*\(lines \d+-\d+\)$", re.MULTILINE)
_IMPORTS = re.compile(r"\Aimports: (\d+)$", re.MULTILINE)
_MORE = re.compile(r"^\.\.\. (\d+) more\Z", re.MULTILINE)


def count_listed_symbols(text: str) -> dict[str, int]:
    r"""Count imports and symbols; types and functions too, unless the list was cut.

    >>> count_listed_symbols("function drain (lines 1-2)\n... 7 more")
    {'imports_count': 0, 'symbols_count': 8}
    """
    kinds = Counter(_SYMBOL.findall(text))
    imports, more = _IMPORTS.search(text), _MORE.search(text)
    counts = {
        "imports_count": int(imports[1]) if imports else 0,
        "symbols_count": kinds.total() + (int(more[1]) if more else 0),
    }
    if more:
        return counts
    return counts | {
        "types_count": sum(kinds[kind] for kind in TYPES),
        "functions_count": sum(kinds[kind] for kind in FUNCTIONS),
    }
