"""Every built-in check in its order: those of one version of a file, those that compare two, those of a whole change."""

from __future__ import annotations

from context_engine.review.checks import (
    danger,
    depending,
    deploying,
    golang,
    growing,
    parsing,
    places,
    python,
    script,
    symbols,
    testing,
    words,
)

TEXT = (*words.ALL, *python.ALL, *script.ALL, *golang.ALL, *danger.ALL, *deploying.ALL)
FILE = (*parsing.ALL, *places.ALL, *symbols.FILE, *growing.ALL)
CHANGE = (*symbols.CHANGE, *depending.ALL, *testing.ALL)
