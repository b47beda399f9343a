r"""PURE. The files in which a repository gives rules to coding agents, and the files that those rules apply to.

    AGENTS.md, CLAUDE.md, GEMINI.md     the folder that the file is in
    .cursor/rules/*.mdc                 `globs` and `alwaysApply`
    .github/*.instructions.md           `applyTo`
    .claude/rules/*.md                  `paths`
    .windsurf/rules/*.md                `trigger` and `globs`

A front matter is read line by line and not as YAML, since `globs: *.mdx`, as editors write it, is not valid YAML. Files
of fixtures, examples, templates and vendored code are the subject of tests or the start of other projects: their rules
apply to nothing here.

>>> read_rule_file("docs/.cursor/rules/pages.mdc", "---\nglobs: *.mdx\n---\n- Use short sentences.\n")
RuleScope(folder='docs', globs=('**/*.mdx',), is_on_request=False)
>>> read_rule_file("tests/fixtures/repo/AGENTS.md", "- Use tabs.") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from context_engine.context import RuleScope
from context_engine.errors import InvalidArgument
from context_engine.search import expand_braces

GLOBS_MAX = 100
"""Globs of one file, braces expanded. A file with more is not narrowed down by them."""
GLOB_CHARS_MAX = 200
FRONT_MATTER_LINES_MAX = 200

_RULE_FILE = re.compile(
    r"""(?P<folder>(?:.*/)?)(?:
        (?:AGENTS|CLAUDE|GEMINI|QWEN|WARP|CRUSH)(?:\.local|\.override)?\.md
      | \.cursorrules | \.windsurfrules | \.clinerules | \.roorules | \.goosehints | \.augment-guidelines
      | \.github/copilot-instructions\.md | \.junie/guidelines\.md
      | (?P<cursor>\.cursor/rules/.+\.mdc?)
      | (?P<anywhere>\.(?:windsurf|continue|trae|augment|amazonq|roo|agent)/rules/.+\.md)
      | (?P<from_top>\.claude/rules/.+\.md | \.kiro/steering/.+\.md | \.clinerules/[^/]+\.(?:md|txt))
      | (?P<copilot>\.github/instructions/.+\.instructions\.md)
    )""",
    re.VERBOSE,
)
"""Files that agents and editors read by themselves. `folder` is the folder that a file governs.

The other groups say how globs count: without a slash they match anywhere (`cursor`, `anywhere`), or at the top alone.
"""
_CONTRIBUTING = re.compile(r"(?P<folder>(?:.*/)?)CONTRIBUTING(?:\.md|\.markdown|\.rst|\.txt)?", re.IGNORECASE)
_FOR_THE_WHOLE = re.compile(r"(?:docs?|\.github|\.gitlab)/", re.IGNORECASE)
"""Folders in which the guide to a repository may be."""

_COPIES = frozenset(
    (
        *("fixture", "fixtures", "__fixtures__", "testdata", "test-data", "test_data", "test-fixtures", "__mocks__"),
        *("mocks", "snapshots", "__snapshots__", "golden", "goldens", "cassettes", "corpus"),
        *("example", "examples", "sample", "samples", "demo", "demos", "tutorial", "tutorials"),
        *("template", "templates", "scaffold", "scaffolds", "scaffolding", "boilerplate", "starters", "skeleton"),
        *("vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty", "node_modules", "site-packages"),
    )
)
"""Folders of copies, whose rules are not those of this repository."""
_TESTS = frozenset(("test", "tests", "spec", "specs", "e2e", "integration", "testing"))
_TEST_MATERIAL = frozenset(("resources", "data", "repos", "projects", "repositories", "cases", "inputs", "assets"))
"""Folders below tests in which files are test material."""

_AUTOMATIC: Mapping[str, Mapping[str, bool]] = {
    "alwaysapply": {"true": True},
    "trigger": {"always_on": True, "manual": False, "model_decision": False},
    "inclusion": {"always": True, "manual": False, "auto": False},
    "type": {"always_apply": True, "always": True, "agent_requested": False, "manual": False},
}
"""Key -> value -> whether the rules are read for every file, or only on request; other values leave it to the globs."""
_GLOB_KEYS = ("globs", "paths", "applyto", "filematchpattern")
_FIELD = re.compile(r"([A-Za-z_-]+)[ \t]*:(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t](.*)")
_COMMA = re.compile(r",(?![^{}]*\})")


def read_rule_file(path: str, text: str) -> RuleScope | None:
    """Return the scope of a file of rules; None for every other file, and for copies."""
    match = _RULE_FILE.fullmatch(path)
    if match is None or is_copy(path):
        return None
    folder = match["folder"].rstrip("/")
    if folder.rpartition("/")[2] == ".claude":  # `.claude/CLAUDE.md` governs the project that it is for
        folder = folder.rpartition("/")[0]
    fields = dict(_read_fields(text))
    globs = [glob for key in _GLOB_KEYS for glob in fields.get(key, ())]
    for key, meanings in _AUTOMATIC.items():
        is_automatic = meanings.get("".join(fields.get(key, ())).lower())
        if is_automatic is not None:
            return RuleScope(folder, (), is_on_request=not is_automatic)
    if not globs:
        needs_globs = (match["cursor"] and fields) or match["copilot"] or path.endswith(".mdc")
        return RuleScope(folder, (), is_on_request=bool(needs_globs))
    is_anywhere = bool(match["cursor"] or match["anywhere"])
    known = tuple(dict.fromkeys(found for glob in globs for found in _normalize(glob, folder, is_anywhere)))
    return RuleScope(folder, known[:GLOBS_MAX], is_on_request=not known or len(known) > GLOBS_MAX)


def read_contributing_file(path: str) -> RuleScope | None:
    """Return the scope of a guide for contributors; None for every other file, and for copies."""
    match = _CONTRIBUTING.fullmatch(path)
    if match is None or is_copy(path):
        return None
    if _FOR_THE_WHOLE.fullmatch(match["folder"]):
        return RuleScope()
    return RuleScope(match["folder"].rstrip("/"))


def is_copy(path: str) -> bool:
    """Return whether a file is in a folder of fixtures, examples, templates or vendored code.

    >>> is_copy("test/resources/repos/go/CONTRIBUTING.md"), is_copy("tests/AGENTS.md"), is_copy("{{name}}/AGENTS.md")
    (True, False, True)
    """
    folders = [folder.lower() for folder in path.split("/")[:-1]]
    if not _COPIES.isdisjoint(folders) or "{{" in path:
        return True
    below_tests = next((folders[at + 1 :] for at, folder in enumerate(folders) if folder in _TESTS), [])
    return not _TEST_MATERIAL.isdisjoint(below_tests)


def blank_front_matter(text: str) -> str:
    r"""Return a text with empty lines in place of its front matter, so that all other lines keep their numbers.

    >>> blank_front_matter("---\nglobs:\n- a\n---\n- Use tabs.\n")
    '\n\n\n\n- Use tabs.\n'
    """
    lines = text.split("\n")
    end = _find_end(lines)
    return "\n".join([""] * end + lines[end:])


def _find_end(lines: list[str]) -> int:
    """Return the number of lines of the front matter; 0 without one."""
    if lines[0].lstrip("\ufeff").rstrip() != "---":
        return 0
    return next((at + 1 for at, line in enumerate(lines[:FRONT_MATTER_LINES_MAX]) if at and line.rstrip() == "---"), 0)


def _read_fields(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the fields of the front matter, each with its values; keys are in lower case."""
    lines = text.split("\n", FRONT_MATTER_LINES_MAX)
    key, values = "", []
    for line in lines[1 : max(_find_end(lines) - 1, 0)]:
        if item := _ITEM.fullmatch(line.rstrip()):
            values += _split_values(item[1])
        elif field := _FIELD.fullmatch(line.rstrip()):
            yield key, tuple(values)
            key, values = field[1].lower(), _split_values(field[2])
    yield key, tuple(values)


def _split_values(written: str) -> list[str]:
    """Split a list in brackets or between commas; commas in braces belong to a glob."""
    inner = written.strip().removeprefix("[").removesuffix("]")
    values = (value.strip().strip("\"'").strip() for value in _COMMA.split(inner.strip("\"'")))
    return [value for value in values if value and not value.startswith("#")]


def _normalize(glob: str, folder: str, is_anywhere: bool) -> Iterator[str]:
    """Yield globs without braces that match whole paths below a folder."""
    if len(glob) > GLOB_CHARS_MAX:
        return
    try:
        expanded = expand_braces(glob.replace("\\", "/").removeprefix("./").removeprefix("/"))
    except InvalidArgument:  # more alternatives than anyone writes
        return
    for one in islice(expanded, GLOBS_MAX):
        if folder and one.startswith(f"{folder}/"):  # some editors count from the top of the repository
            one = one[len(folder) + 1 :]
        if one in ("*", "**", "**/*") and (is_anywhere or one != "*"):
            yield "**/*"
        elif one.endswith("/"):
            yield f"{one}**"
        elif is_anywhere and "/" not in one:
            yield f"**/{one}"
        else:
            yield one
