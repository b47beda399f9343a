"""Runs a parser on hostile texts: for a moment in every test run, for minutes by `make fuzz`.

    CTX_TEST_FUZZ_S=60 pytest tests/security/test_fuzz_*.py      so many seconds a target
    CTX_TEST_FUZZ_REPORT=FILE                                    a line of figures for each target

A target passes when each text gives a value or an error of a type that the parser promises, in bounded time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from context_engine.errors import BugError, ContextEngineError

FUZZ_S = float(os.environ.get("CTX_TEST_FUZZ_S", "0"))
REPORT = os.environ.get("CTX_TEST_FUZZ_REPORT", "")
CASE_S = 10.0
"""CPU time that a single text may take: a hundred times what the slowest takes."""
MEMORY_BYTES = 1_000_000_000
"""How much a whole target may add to the memory of the process at its peak."""
QUICK, LONG = 60, 500


def fuzz(name: str, texts: st.SearchStrategy[Any], parse: Callable[[Any], object], *errors: type[Exception]) -> None:
    """Call `parse` with texts for as long as was asked; `errors` are the types it may raise besides errors of ours."""
    cases, started, before = 0, time.monotonic(), peak_bytes()
    how = settings(
        max_examples=LONG if FUZZ_S else QUICK,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )

    def one(text: Any) -> None:
        nonlocal cases
        cases += 1
        begun = time.process_time()
        try:
            parse(text)
        except BugError:
            raise
        except (ContextEngineError, *errors):
            pass
        assert time.process_time() - begun < CASE_S, "it takes too long"

    run = how(given(texts)(one))
    run()
    while time.monotonic() - started < FUZZ_S:
        run()
    assert peak_bytes() - before < MEMORY_BYTES
    if REPORT:
        with open(REPORT, "a", encoding="utf-8") as file:  # noqa: PTH123 - one line, whole
            file.write(f"{name}\t{cases}\t{time.monotonic() - started:.0f}\n")


def peak_bytes() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# -- texts ------------------------------------------------------------------------------------------------------------

ODD = [
    "\0", "\x1b]0;x\x07", "\u202e", "\ud800", "\ufeff", "\x85", "\u2028", "\r", "\r\n", "\n", "\t", " ", "'", '"', "`", "\\", "%", "$",
    "{", "}", "[", "]", "(", ")", "<", ">", "&", "*", "!", "|", "#", ":", "-", "=", ",", ".", "/", "..", "~", "@", "---\n", "```\n",
    "null", "true", "NaN", "1e999", "-0", "9" * 30, "9" * 5000, "0x" + "f" * 400, "9999-99-99", "é", "𝔘", "ß", "ı", "&a ", "*a ", "<<: ",
    "!!python/object/apply:os.system ", "<script>alert(1)</script>", "<!--", "-->", "]]>", "{{", "%%{init", "\\u0000", "\\ud800",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[str], tokens: Sequence[str] = (), repeats: int = 1_500) -> str:
    """A good text with parts taken out, doubled, nested or replaced, or any text at all."""
    words = st.sampled_from([*ODD, *tokens]) | st.text(max_size=4)
    if draw(st.integers(0, 19)) == 0:
        return "".join(draw(st.lists(words, max_size=12)))
    text = draw(st.sampled_from(list(seeds)))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.sampled_from([0, 0, 1, 1, 2, 5, 20, 100_000])))
        match draw(st.integers(0, 4)):
            case 0:
                text = text[:start] + text[stop:]
            case 1:
                text = text[:start] + draw(words) + text[stop:]
            case 2:
                text = text[:stop] + text[start:stop][:200] * draw(st.integers(1, 40)) + text[stop:]
            case 3:
                text = text[:start] + draw(words)[:20] * draw(st.sampled_from([2, 70, repeats])) + text[start:]
            case 4:
                other = draw(st.sampled_from(list(seeds)))
                text = text[:start] + other[draw(st.integers(0, len(other))) :]
    return text


def mutated_bytes(seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """The same for bytes, each taken for a character."""
    as_text = mutated([seed.decode("latin-1") for seed in seeds], [token.decode("latin-1") for token in tokens])
    return as_text.map(lambda text: text.encode("latin-1", "replace"))


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
