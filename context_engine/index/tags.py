r"""PURE. Tags that a document carries in its own text: front matter and inline `#hashtags`.

>>> front_matter_tags("---\ntitle: Login\ntags: [Auth, web api]\n---\n# Login\n")
['auth', 'web api']
>>> text = "Uses #auth and #user-model, see #12 and colour #ffcc00; not C's\n#include <x>\n# Heading\n"
>>> [tag for _, tag in inline_tag_places(text)]
['auth', 'user-model']
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from context_engine.text import ParseError, read_yaml

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_INLINE = re.compile(r"(?:^|(?<=[\s(,;]))#([A-Za-z][\w-]*(?:/[\w-]+)*)(?![\w#])")
_HEX_COLOUR = re.compile(r"[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8}")
_NOT_TAGS = re.compile(r"include|define|undef|if|ifdef|ifndef|endif|else|elif|pragma|error|region|endregion")
_CODE_SPAN = re.compile(r"`[^`]*`")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


def front_matter_tags(text: str) -> list[str]:
    """Return the `tags` of YAML front matter, lower case; none when it is absent or is not YAML."""
    match = _FRONT_MATTER.match(text)
    if match is None or "tags" not in match[1]:
        return []
    try:
        matter = read_yaml(match[1])
    except ParseError:
        return []  # a document with broken front matter is still a document
    tags = None
    if isinstance(matter, dict):
        tags = matter.get("tags")
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list):
        return []
    plain = (str(tag).strip().lower() for tag in tags if tag is not None and not isinstance(tag, dict | list))
    return sorted({tag for tag in plain if tag})


def inline_tag_places(text: str) -> Iterator[tuple[int, str]]:
    """Yield (character offset, tag) of each `#hashtag` in the prose of a whole document, lower case, in order.

    Code, headings, colors and issue numbers have none.
    """
    if "#" not in text:
        return
    fence, start = "", 0
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and "#" in line and not line.startswith(("    ", "\t")):
            prose = _CODE_SPAN.sub(_blank_out, line)
            for match in _INLINE.finditer(prose):
                if not _HEX_COLOUR.fullmatch(match[1]) and not _NOT_TAGS.fullmatch(match[1]):
                    yield start + match.start(), match[1].lower()
        start += len(line) + 1


def _blank_out(match: re.Match[str]) -> str:
    return " " * len(match[0])
