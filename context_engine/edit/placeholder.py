"""PURE. Placeholders for omitted code: `// ... existing code ...`, `# rest of the function`.

Written into a file they would replace the code that they stand for.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"(?:#+|//+|/\*+|<!--|--+|;+|%+|\{/\*|\"\"\"|\*+|\()?[ \t]*")
_DOTS = re.compile(r"\[?(?:\.\.\.|…)")
_DOTS_ALONE = re.compile(r"[\[(<]?(?:\.\.\.|…)[ \t]")
"""Outside of a comment dots may be a spread, `...rest`, and then nothing stands between."""
_LEFT_OUT = re.compile(
    r"\b(?:existing|remaining|unchanged|omitted|previous|truncated|elided)\b|\brest of\b"
    r"|\bother (?:code|methods|functions)\b"
    r"|\b(?:same as|as) before\b|\b(?:code|keep) (?:here|as is|the same)\b",
    re.IGNORECASE,
)
_REST = re.compile(
    r"(?:the )?(?:rest of|remaining|existing)(?: (?:the|your|this))? "
    r"(?:code|file|function|method|class|implementation|logic|module)\b"
    r"(?:\W+(?:is|are|remains?|stays?|goes))*"
    r"(?:\W+(?:unchanged|the same|here|as before|as is|omitted))*\W*",
    re.IGNORECASE,
)
_TELLING = (
    *("existing", "remaining", "unchanged", "omitted", "previous", "truncated", "elided", "rest of", "other "),
    *("same as", "as before", "code here", "code as", "code the", "keep "),
)
"""What every placeholder holds one of, in lower case."""
_CLOSING = ' */->)}]"'
_WORDS_MAX = 12
"""A placeholder is a short remark; a longer sentence says something."""


def has_placeholder(text: str) -> bool:
    r"""Return whether some line of a text is nothing but a placeholder.

    >>> has_placeholder("a()\n# ... existing code ...\nb()"), has_placeholder("x[...] = existing")
    (True, False)
    """
    return bool(placeholders(text))


def placeholders(text: str) -> list[str]:
    r"""Return the lines of a text that are nothing but a placeholder, without what is around them.

    >>> placeholders("  // rest of the function unchanged\n  return ...")
    ['// rest of the function unchanged']
    """
    if not _may_leave_out(text.lower()):
        return []
    return [line.strip() for line in text.split("\n") if _is_placeholder(line.strip())]


def _may_leave_out(text: str) -> bool:
    """Return whether a word of any placeholder is in a lower-case text, which is quick where none is."""
    return any(word in text for word in _TELLING)


def _is_placeholder(line: str) -> bool:
    if not line or len(line.split()) > _WORDS_MAX:
        return False
    mark = _MARK.match(line)
    said = line[mark.end() :] if mark else line
    if said == line:
        return bool(_DOTS_ALONE.match(said) and _LEFT_OUT.search(said))
    if _DOTS.match(said) or said.rstrip(_CLOSING).endswith(("...", "…")):
        return bool(_LEFT_OUT.search(said))
    return bool(_REST.fullmatch(said))
