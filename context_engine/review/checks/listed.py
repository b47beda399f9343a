"""Every built-in check in its order: those of one version of a file, those that compare two, those of a whole change."""

from __future__ import annotations

from context_engine.review.checks import danger, golang, python, script

TEXT = (*python.ALL, *script.ALL, *golang.ALL, *danger.ALL)
