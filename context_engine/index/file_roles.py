"""PURE. What a file says of itself: its role (source, test, docs, example and so on), and the tags of a document.

Ranking gives each role a prior; nothing is ever left out for its role. Some words always say a role (`__tests__`,
`node_modules`). Others are also names of product packages - a web framework ships a folder `Testing`, a mocking library
a folder `mocks` - so they need evidence: a place outside the shipped source, or a text that shows the role.

>>> role_of("src/app.py", "code"), role_of("tests/test_app.py", "code"), role_of("README.md", "documentation")
('source', 'test', 'docs')
>>> role_of("contest/latest.py", "code"), role_of("types/index.d.ts", "code"), role_of("pkg/__init__.py", "code")
('source', 'declaration', 'init')
>>> role_of("testing/feed.py", "code"), role_of("src/zoo/testing/feed.py", "code")
('test', 'source')
>>> role_of("src/zoo/testing/feed.py", "code", "def test_feed(): ...")
'test'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from context_engine.text import ParseError, read_yaml

Role = Literal[
    "source", "test", "docs", "example", "bench", "compat", "vendor", "init", "declaration", "generated", "data"
]
ROLES: tuple[Role, ...] = get_args(Role)

_ANYWHERE: dict[str, Role] = {
    **dict.fromkeys(("tests", "__tests__", "testdata", "__mocks__", "e2e"), "test"),
    **dict.fromkeys(("docs", "documentation", "changelogs"), "docs"),
    **dict.fromkeys(("example", "examples", "samples", "demo", "demos", "tutorial", "tutorials"), "example"),
    **dict.fromkeys(("benches", "benchmarks"), "bench"),
    **dict.fromkeys(("_compat", "deprecated"), "compat"),
    **dict.fromkeys(
        ("vendor", "vendored", "_vendor", "third_party", "thirdparty", "third-party", "node_modules"), "vendor"
    ),
    **dict.fromkeys(("generated", "__generated__"), "generated"),
}
_WITH_EVIDENCE: dict[str, Role] = {
    **dict.fromkeys(("test", "testing", "spec", "specs", "fixtures", "mocks"), "test"),
    **dict.fromkeys(("bench", "benchmark"), "bench"),
    **dict.fromkeys(("compat", "legacy"), "compat"),
    **dict.fromkeys(("deps", "external"), "vendor"),
    "sample": "example",
    "gen": "generated",
}
"""Words that are also names of packages: they say a role outside of shipped source, or with evidence."""
_SHIPPED = frozenset("src source sources lib libs app pkg internal include main".split())
"""Folders of shipped source. Python's packages need none of them, so there only the first folder is outside."""
_PACKAGES = frozenset("packages crates modules apps libs projects services plugins extensions components".split())
"""Folders of a repository with several packages: what is directly in one of these is outside of its source, too."""

_TEST_FILE = re.compile(r"^conftest\.py$|[.-](test|tests|spec|specs)\.\w+$|_(test|tests|spec|specs)\.(?!py$)\w+$")
_LIKE_A_TEST_FILE = re.compile(
    r"^test_\w+\.py$|_(test|tests|spec|specs)\.py$"
    r"|[a-z0-9](Test|Tests|Spec|Specs|TestCase|IT)\.(java|kt|kts|scala|cs|swift|php|groovy|hs)$"
)
_TEST_FOLDER = re.compile(r"[a-z0-9]Tests?$|\.Tests$|[-_]tests$")
_DOCS_FILES = frozenset(
    {"PKG-INFO", "METADATA", "AUTHORS", "CONTRIBUTORS", "CHANGES", "NEWS", "COPYING", "LICENSE", "NOTICE"}
)
_COMPAT_STEMS = frozenset(("compat", "legacy", "deprecated", "backport", "backports"))
_GENERATED_FILE = re.compile(
    r"([._](generated|gen|g|pb|designer)\.\w+|_pb2(_grpc)?\.pyi?|\.pb\.go|[-.]lock(\.\w+)?|\.snap"
    r"|^(package-lock|npm-shrinkwrap)\.json|-lock\.(json|ya?ml)|^go\.sum)$",
    re.IGNORECASE,
)

EVIDENCE_CHARS = 65_536
_HEAD_CHARS = 1_000
_SHOWS_TESTS = re.compile(
    r"^[ \t*]*(?:(?:async[ \t]+)?def[ \t]+test|(?:describe|context|it|test|specify|feature)(?:\.\w+)?[ \t(]+[\"'`]"
    r"|@(?:Test|ParameterizedTest|RepeatedTest|test)\b|\[(?:Fact|Theory|Test|TestMethod|TestCase)\b|#\[(?:\w+::)?test\b"
    r"|func[ \t]+(?:\([^)\n]*\)[ \t]*)?[tT]est|(?:public[ \t]+)?function[ \t]+test"
    r"|(?:TEST|TEST_F|TEST_P|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE)[ \t]*\()",
    re.MULTILINE,
)
_SHOWS_OLD_CODE = re.compile(r"deprecat|backport|backwards?[ -]compat|older version", re.IGNORECASE)
_SHOWS_GENERATION = re.compile(
    r"^[^\w\n]{1,9}(?:.*[^\w])?(?:@generated|do not (?:edit|modify)|(?:auto-?|code |file (?:is|was) )generated)\b",
    re.MULTILINE | re.IGNORECASE,
)


def role_of(path: str, content: str, text: str | None = None) -> Role:
    """Return the role of a workspace-relative path whose language has this `content` (code, documentation or data).

    Without its text a file is judged by its path alone.
    """
    *folders, name = path.split("/")
    if _TEST_FILE.search(name) or (_LIKE_A_TEST_FILE.search(name) and (text is None or _shows("test", text))):
        return "test"
    if _GENERATED_FILE.search(name):
        return "generated"
    for depth, folder in enumerate(folders):
        word = folder.lower()
        role = _ANYWHERE.get(word) or ("test" if _TEST_FOLDER.search(folder) else None)
        if role:
            return role
        role = _WITH_EVIDENCE.get(word)
        if role and (_is_outside_source(folders[: depth + 1], name) or _shows(role, text)):
            return role
    if name == "__init__.py" or name == "__init__.pyi":
        return "init"
    if name.endswith((".d.ts", ".d.mts", ".d.cts")):
        return "declaration"
    if content == "documentation" or name in _DOCS_FILES:
        return "docs"
    if name.removeprefix("_").partition(".")[0] in _COMPAT_STEMS and name.count(".") == 1:
        return "compat"
    if content == "data":
        return "data"
    return "source"


def role_code(role: Role) -> int:
    """Return the small number that stores a role."""
    return ROLES.index(role)


def _is_outside_source(folders: Sequence[str], name: str) -> bool:
    """Return whether the last of these folders is outside of shipped source: next to it, not in it."""
    *above, folder = (folder.lower() for folder in folders)
    if not above or (above[-1] == "src" and folder == "test"):  # src/test is the convention of Maven and Gradle
        return True
    if len(above) == 2 and above[0] in _PACKAGES:
        return True
    return not name.endswith((".py", ".pyi")) and _SHIPPED.isdisjoint(above)


def _shows(role: Role, text: str | None) -> bool:
    """Return whether the text of a file is evidence of a role. Examples and vendored code look like any other."""
    if text is None:
        return False
    if role == "test":
        return _SHOWS_TESTS.search(text, 0, EVIDENCE_CHARS) is not None
    if role == "compat":
        return _SHOWS_OLD_CODE.search(text, 0, EVIDENCE_CHARS) is not None
    return role == "generated" and _SHOWS_GENERATION.search(text, 0, _HEAD_CHARS) is not None


_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_INLINE = re.compile(r"(?:^|(?<=[\s(,;]))#([A-Za-z][\w-]*(?:/[\w-]+)*)(?![\w#])")
_HEX, _COLOR_DIGITS = frozenset("0123456789abcdefABCDEF"), (3, 4, 6, 8)
_NOT_TAGS = frozenset("include define undef if ifdef ifndef endif else elif pragma error region endregion".split())
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
                tag = match[1]
                is_color = len(tag) in _COLOR_DIGITS and _HEX.issuperset(tag)
                if not is_color and tag not in _NOT_TAGS:
                    yield start + match.start(), tag.lower()
        start += len(line) + 1


def _blank_out(match: re.Match[str]) -> str:
    return " " * len(match[0])
