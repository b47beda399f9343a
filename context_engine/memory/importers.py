"""PURE. Importers: the rules, decisions and issues that files and history of a repository state.

    import_file("docs/adr/0003-cents.md", text) ->  a decision, with its line
    import_file("AGENTS.md", text)              ->  rules: its bullets
    import_file("CHANGELOG.md", text)           ->  decisions: what was changed, removed or deprecated
    import_file("src/pay.py", text)             ->  issues: TODO, FIXME, XXX, HACK in comments
    import_commits(commits)                     ->  issues (fixes, reverts) and decisions (breaking changes)

Each importer looks for one form that people use on purpose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from context_engine.context import KnowledgeEntry, RuleScope
from context_engine.errors import InvalidArgument
from context_engine.memory.memory_file import FRONT_MATTER, split_keys
from context_engine.model import Commit
from context_engine.search import expand_braces
from context_engine.text import escape_line, shorten_prose, uuid8
from context_engine.timestamps import format_timestamp

CONFIDENCE: Mapping[str, float] = {
    "adr": 0.95,
    "rules": 0.80,
    "contributing": 0.60,
    "changelog": 0.60,
    "marker": 0.90,
    "fix": 0.95,
    "breaking": 0.95,
}
"""Share of thirty findings that a reader called right, in steps of 0.05; less for bullets, which no one judges."""
CONTENT_CHARS_MAX = 600
"""Characters of a decision or rule: the first paragraph has its core, the provenance leads to the rest."""


def _discover(importer: str, kind: str, title: str, content: str, *, twin: int = 0, **where: Any) -> KnowledgeEntry:
    """Return a discovery whose id follows from its content and its file, but not from its line, because lines move.

    `twin` counts the discoveries of one file with the same content.
    """
    source = "discovery" if where.get("path") else "git"
    name = f"dis_{uuid8(kind, where.get('path') or where.get('commit', ''), content, str(twin))}"
    return KnowledgeEntry(name, kind, title, content, source, confidence=CONFIDENCE[importer], **where)


def import_file(path: str, text: str, *, commit: str = "") -> list[KnowledgeEntry]:
    """Return the discoveries of one file. `commit` is the one that is checked out, for provenance."""
    if _is_adr(path):
        found = _decision(path, text)
    elif scope := read_rule_file(path, text):
        found = _rules(path, blank_front_matter(text), "rules", scope)
    elif _is_changelog(path):
        found = _changes(path, text)
    elif scope := read_contributing_file(path):
        found = _rules(path, text, "contributing", scope)
    else:
        found = _markers(path, text)
    return [replace(discovery, commit=commit) for discovery in found]


# -- rule files: which files have rules for agents, and the files that those rules apply to ----------------------------

GLOBS_MAX = 100
"""Globs of one file, braces expanded. A file with more is not narrowed down by them."""
GLOB_CHARS_MAX = 200


class _RuleFormat(NamedTuple):
    """A folder of rule files: how their names end, and how their globs count.

    A glob without a slash matches `anywhere`, or at the top alone. `needs_globs`: a file without globs is read only on
    request.
    """

    folder: str
    suffixes: tuple[str, ...] = (".md",)
    anywhere: bool = False
    needs_globs: bool = False


_RULE_FOLDERS = (
    _RuleFormat(".cursor/rules/", (".mdc", ".md"), anywhere=True),
    *(
        _RuleFormat(f".{tool}/rules/", anywhere=True)
        for tool in ("windsurf", "continue", "trae", "augment", "amazonq", "roo", "agent")
    ),
    _RuleFormat(".claude/rules/"),
    _RuleFormat(".kiro/steering/"),
    _RuleFormat(".clinerules/", (".md", ".txt")),
    _RuleFormat(".github/instructions/", (".instructions.md",), needs_globs=True),
)
_RULE_NAMES = frozenset(
    (
        *("AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", "WARP.md", "CRUSH.md", ".cursorrules", ".windsurfrules"),
        *(".clinerules", ".roorules", ".goosehints", ".augment-guidelines"),
    )
)
"""Files that agents and editors read by themselves, in any folder."""
_RULE_PATHS = (".github/copilot-instructions.md", ".junie/guidelines.md")
_CONTRIBUTING = frozenset(("contributing", *(f"contributing.{end}" for end in ("md", "markdown", "rst", "txt"))))
_FOR_THE_WHOLE = frozenset(("doc", "docs", ".github", ".gitlab"))
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
_TOOL_FOLDERS = frozenset((".claude", ".agents", ".codex", ".gemini", ".ai"))
"""Folders in which a project keeps what its agents read; their skills are read on request."""
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


def read_rule_file(path: str, text: str) -> RuleScope | None:
    r"""Return the scope of a file of rules; None for every other file, and for copies.

    >>> read_rule_file("docs/.cursor/rules/pages.mdc", "---\nglobs: *.mdx\n---\n- Use short sentences.\n")
    RuleScope(folder='docs', globs=('**/*.mdx',), is_on_request=False)
    >>> read_rule_file("tests/fixtures/repo/AGENTS.md", "- Use tabs.") is None
    True
    """
    found = None if is_copy(path) or "/skills/" in f"/{path}" else _find_rule_format(path)
    if found is None:
        return None
    folder, form = found
    fields = _read_fields(text)
    for key, meanings in _AUTOMATIC.items():
        is_automatic = meanings.get("".join(fields.get(key, ())).lower())
        if is_automatic is not None:
            return RuleScope(folder, (), is_on_request=not is_automatic)
    globs = [glob for key in _GLOB_KEYS for glob in fields.get(key, ())]
    if not globs:
        is_narrowed = form.needs_globs or path.endswith(".mdc") or (".mdc" in form.suffixes and bool(fields))
        return RuleScope(folder, (), is_on_request=is_narrowed)
    known = tuple(dict.fromkeys(found for glob in globs for found in _normalize(glob, folder, form.anywhere)))
    return RuleScope(folder, known[:GLOBS_MAX], is_on_request=not known or len(known) > GLOBS_MAX)


def _find_rule_format(path: str) -> tuple[str, _RuleFormat] | None:
    """Return the folder that a rule file governs, and its format; None for other files."""
    folder, _, name = path.rpartition("/")
    if name.replace(".local.md", ".md").replace(".override.md", ".md") in _RULE_NAMES:
        if folder.rpartition("/")[2] in _TOOL_FOLDERS:  # `.claude/CLAUDE.md` governs the project that it is for
            folder = folder.rpartition("/")[0]
        return folder, _RuleFormat("")
    for known in _RULE_PATHS:
        if f"/{path}".endswith(f"/{known}"):
            return path[: -len(known)].rstrip("/"), _RuleFormat("")
    for form in _RULE_FOLDERS:
        at = f"/{path}".rfind(f"/{form.folder}")
        rest = path[at + len(form.folder) :]
        if at >= 0 and path.endswith(form.suffixes) and not (form.folder == ".clinerules/" and "/" in rest):
            return path[:at].rstrip("/"), form
    return None


def read_contributing_file(path: str) -> RuleScope | None:
    """Return the scope of a guide for contributors; None for every other file, and for copies."""
    folder, _, name = path.rpartition("/")
    if is_copy(path) or name.lower() not in _CONTRIBUTING:
        return None
    return RuleScope() if folder.lower() in _FOR_THE_WHOLE else RuleScope(folder)


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
    fenced = FRONT_MATTER.match(text)
    return "\n" * fenced[0].count("\n") + text[fenced.end() :] if fenced else text


def _read_fields(text: str) -> dict[str, list[str]]:
    """Return the fields of the front matter, each with its values; keys are in lower case.

    They are read line by line and not as YAML, since `globs: *.mdx`, as editors write it, is not valid YAML.
    """
    fenced = FRONT_MATTER.match(text)
    fields: dict[str, list[str]] = {}
    for key, written in split_keys(fenced["yaml"] if fenced else ""):
        first, *lines = written.split("\n")
        if key and ":" in first:
            items = (line.lstrip()[2:] for line in lines if line.lstrip().startswith(("- ", "-\t")))
            fields[key.lower()] = [value for part in (first.partition(":")[2], *items) for value in _split_values(part)]
    return fields


def _split_values(written: str) -> list[str]:
    """Split a list in brackets or between commas; commas in braces belong to a glob."""
    inner = written.strip().removeprefix("[").removesuffix("]").strip("\"'")
    values = (value.strip().strip("\"'").strip() for value in re.split(r",(?![^{}]*\})", inner))
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
        one = one.removeprefix(f"{folder}/" if folder else "")  # some editors count from the top of the repository
        if one in ("*", "**", "**/*") and (is_anywhere or one != "*"):
            yield "**/*"
        elif one.endswith("/"):
            yield f"{one}**"
        else:
            yield f"**/{one}" if is_anywhere and "/" not in one else one


# -- sections of Markdown ----------------------------------------------------------------------------------------------

_BULLET = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>\S.*)")
_HEADING = re.compile(r"#{1,6}[ \t]+(\S.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_UNDERLINE = re.compile(r"(?:={3,}|-{3,}|~{3,})\s*")


class DocumentSection(NamedTuple):
    """The numbered lines under one heading, without examples. `line` is that of the heading; 0 before the first."""

    line: int
    title: str
    lines: list[tuple[int, str]]


def _split_sections(text: str) -> list[DocumentSection]:
    """Split a text at its headings, including underlined ones; the lines of a code fence are blank."""
    parts = [DocumentSection(0, "", [])]
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark, lines = _FENCE.match(line), parts[-1].lines
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        before = lines[-1][1] if lines else ""
        if mark or fence:
            lines.append((number, ""))
        elif heading := _HEADING.fullmatch(line):
            parts.append(DocumentSection(number, heading[1].rstrip(" \t#") or "#", []))
        elif before.strip() and _UNDERLINE.fullmatch(line) and not _BULLET.fullmatch(before):
            lines.pop()
            parts.append(DocumentSection(number - 1, before.strip(), []))
        else:
            lines.append((number, line))
    return parts


# -- decisions ---------------------------------------------------------------------------------------------------------

_ADR_FOLDERS = frozenset(
    (
        *("adr", "adrs", "decisions", "decision-records", "architecture-decision", "architecture-decisions"),
        *("architecture_decision", "architecture_decisions"),
    )
)
_ADR_NAME = re.compile(r"(?:adr[-_]?)?\d{3,5}[-_].+", re.IGNORECASE)
_STATUS_LINE = re.compile(r"[-*\s]*+status\**\s*:\**\s*(.+)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:adr[-\s]?)?\d+[.:)\s-]+", re.IGNORECASE)
"""Of the record, before its title."""
_NO_LONGER = ("superseded", "deprecated", "rejected", "withdrawn")


def _is_adr(path: str) -> bool:
    *folders, name = path.lower().split("/")
    stem, _, suffix = name.rpartition(".")
    if suffix not in ("md", "markdown", "rst") or stem in ("readme", "index") or "template" in stem or is_copy(path):
        return False
    return "adr" in folders or bool(_ADR_FOLDERS.intersection(folders) and _ADR_NAME.fullmatch(name))


def _decision(path: str, text: str) -> list[KnowledgeEntry]:
    """Return the one decision of an architecture decision record: its title, and what was decided."""
    parts = _split_sections(text)
    title = next((part for part in parts if part.title), None)
    if title is None:
        return []
    names = ("decision", "the decision", "what we decided")
    chosen = next((part for part in parts if part.title.lower().startswith(names)), title)
    later = (part for part in parts if part.line > title.line)
    body = next(filter(None, map(_first_words, (chosen, *later))), "")
    if not body:
        return []
    stated = _find_status(parts).lower()
    status = "stale" if any(word in stated for word in _NO_LONGER) else "active"
    number = _NUMBER.match(title.title)
    name = title.title[number.end() :] if number else title.title
    return [_discover("adr", "decision", name, body, path=path, line=chosen.line, status=status)]


def _find_status(parts: Sequence[DocumentSection]) -> str:
    """Return the status of a record, from a line or from the text under a heading."""
    for part in parts:
        if part.title.lower() == "status":
            return " ".join(line for _, line in part.lines)
        for _, line in part.lines[:10]:
            if stated := _STATUS_LINE.match(line):
                return stated[1]
    return ""


def _first_words(part: DocumentSection) -> str:
    """Return the first paragraph of prose, with the list that it introduces."""
    words: list[str] = []
    for _, line in part.lines:
        plain = line.strip()
        if _STATUS_LINE.match(line) or plain.lower().startswith(("date:", "decider:", "deciders:")):
            continue
        if not plain and words and not words[-1].endswith(":"):
            break
        if plain and not plain.startswith(("<!--", "|", "![")):
            words.append(plain)
    return shorten_prose(" ".join(words), CONTENT_CHARS_MAX)


# -- rules -------------------------------------------------------------------------------------------------------------

RULE_WORDS_MIN = 3
"""`Python 3.9` and `Open an issue` are not rules."""
_LINK = re.compile(r"!?\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])?\W*|<?https?://\S+>?")

_NAMED = re.compile(r"[`\d]|\w_\w|\w\.\w\w|\w\(\)|[a-z][A-Z]")
"""Code, a number or a file. Without one, a bullet for contributors is about people, or about how to ask."""


def _rules(path: str, text: str, importer: str, scope: RuleScope) -> list[KnowledgeEntry]:
    """Return the bullets of a file of rules, each under its heading. What a bullet says is not judged."""
    found: list[KnowledgeEntry] = []
    twins: Counter[str] = Counter()
    for part in _split_sections(text):
        for line, bullet in _read_bullets(part):
            if len(bullet.split()) < RULE_WORDS_MIN or bullet.endswith(":") or _LINK.fullmatch(bullet):
                continue
            if importer == "contributing" and (_LINK.match(bullet) or not _NAMED.search(_LINK.sub("", bullet))):
                continue
            content = shorten_prose(bullet, CONTENT_CHARS_MAX)
            title = part.title or escape_line(path.rpartition("/")[2])
            where = {"path": path, "line": line, "scope": scope, "twin": twins[content]}
            found.append(_discover(importer, "rule", title, content, **where))
            twins[content] += 1
    return found


def _read_bullets(part: DocumentSection) -> list[tuple[int, str]]:
    """Return the bullets of a section with their lines; indented lines continue a bullet.

    The text begins with the sentence that introduces its list with a colon.
    """
    found: list[tuple[int, str]] = []
    intro, intro_indent, is_open = "", -1, False
    for number, line in part.lines:
        bullet, is_continued = _BULLET.fullmatch(line), is_open and line[:1] in (" ", "\t") and bool(line.strip())
        if bullet:
            said, indent = bullet["text"].strip(), len(bullet["indent"].expandtabs(4))
            found.append((number, f"{intro} {said}" if intro and indent > intro_indent else said))
            if said.endswith(":"):
                intro, intro_indent = said, indent
        elif is_continued:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif line.strip():
            intro, intro_indent = line.strip() if line.rstrip().endswith(":") else "", -1
        is_open = bool(bullet) or is_continued
    return found


# -- changelogs ----------------------------------------------------------------------------------------------------

_CHANGELOGS = frozenset(("changelog", "changes", "history", "news", "breaking"))
_DECIDED = frozenset(("breaking", "changed", "removed", "deprecated"))
"""Words of headings, as https://keepachangelog.com has them: under the others is what was added or fixed."""
CHANGES_MAX = 50
"""The newest ones of a file; older ones are part of the code by now."""


def _is_changelog(path: str) -> bool:
    stem = path.rpartition("/")[2].lower().partition(".")[0]
    return stem in _CHANGELOGS and path.lower().endswith((stem, ".md", ".rst", ".txt")) and not is_copy(path)


def _changes(path: str, text: str) -> list[KnowledgeEntry]:
    """Return what a changelog says of decisions: the bullets under their headings, each with the heading above."""
    found: dict[str, KnowledgeEntry] = {}
    version = ""
    for part in _split_sections(text):
        if _DECIDED.isdisjoint(part.title.lower().split()):
            version = part.title
            continue
        title = f"{version}: {part.title}" if version else part.title
        for line, bullet in _read_bullets(part):
            content = shorten_prose(bullet, CONTENT_CHARS_MAX)
            if len(content.split()) >= RULE_WORDS_MIN:
                found.setdefault(content, _discover("changelog", "decision", title, content, path=path, line=line))
    return list(found.values())[:CHANGES_MAX]


# -- issues in comments ------------------------------------------------------------------------------------------------

_MARKER = re.compile(
    r"(?:#|//|/\*|\*|--|;|<!--|%|\"\"\"|'''|{-|\(\*|\bREM)"
    r"[ \t*/#!-]{0,40}\b(TODO|FIXME|XXX|HACK)\b(?:\(([^)\n]{0,60})\))?[ \t]*[:\-–]?[ \t]*(.*)"
)
_COMMENT_END = re.compile(r"(?:\*/|-->|\*\)|-}|\"\"\"|''').*$")
MARKERS = ("TODO", "FIXME", "XXX", "HACK")
MARKER_WORDS_MIN = 2
"""A bare `TODO` has no content."""
MARKERS_MAX = 50
"""Markers of one file; a file with more is generated, or nobody reads them."""


def _markers(path: str, text: str) -> list[KnowledgeEntry]:
    """Return the TODO, FIXME, XXX and HACK comments of a file."""
    if not any(marker in text for marker in MARKERS):
        return []
    found: list[KnowledgeEntry] = []
    twins: Counter[str] = Counter()
    for line, written in enumerate(text.split("\n"), 1):
        match = _MARKER.search(written)
        note = _COMMENT_END.sub("", match[3]).strip() if match else ""
        if match and len(note.split()) >= MARKER_WORDS_MIN and len(found) < MARKERS_MAX:
            content = f"{match[1]}: {shorten_prose(note, CONTENT_CHARS_MAX)}"
            title = f"{match[1]} in {escape_line(path.rpartition('/')[2])}"
            found.append(_discover("marker", "issue", title, content, path=path, line=line, twin=twins[content]))
            twins[content] += 1
    return found


def add_dates(
    found: Iterable[KnowledgeEntry], blame: Callable[[str, int], tuple[str, str] | None]
) -> list[KnowledgeEntry]:
    """Return issues with the commit and the day in which each line was written; `blame` returns None if unknown."""
    dated = []
    for discovery in found:
        is_dated = discovery.type == "issue" and discovery.line
        origin = blame(discovery.path, discovery.line) if is_dated else None
        dated.append(replace(discovery, commit=origin[0], date=origin[1]) if origin else discovery)
    return dated


# -- history -----------------------------------------------------------------------------------------------------------

COMMITS_MAX = 2_000
"""Newest matching commits; older fixes are part of the code by now."""
BODY_CHARS_MAX, REASON_CHARS_MAX = 4_000, 240
"""Of the body of a commit, and of the reason for a fix in it: two or three sentences."""
REASON_WORDS_MIN = 5
COMMIT_PATTERN = r"^(hot|bug)?fix|fix(e[sd])?:? [^ ]*#[0-9]|^revert|^[a-z]+(\([^)]*\))?!:|^BREAKING([ -]CHANGE|[(:])"
"""POSIX pattern for git that matches every message in which one of these may match."""
_FIX = re.compile(
    r"^(?:fix|hotfix|bugfix)(?:\((?!deps|docs|lint|types?\b)[^)]*\))?!?:\s|\bfix(?:e[sd])?:?\s+(?:\S+/\S+)?#\d+",
    re.IGNORECASE,
)
"""`Closes #1` is used for features just as often."""
_NO_FIX = re.compile(r"(?:docs?|feat(?:ure)?|add|remove|update|chore|refactor|more)\b", re.IGNORECASE)
_BREAKING = re.compile(r"^\w+(?:\([^)]*\))?!:\s|^BREAKING[ -]CHANGE\b|\A(?i:breaking)(?:\([^)]*\))?:", re.MULTILINE)
_BREAKING_BODY = re.compile(r"^BREAKING[ -]CHANGE:?\s*(.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_NO_REASON = ("*", "#", ">", "`", "|", "-", "(cherry", "http://", "https://")
"""Beginnings of lists, quotes and links."""


def import_commits(commits: Iterable[Commit]) -> list[KnowledgeEntry]:
    """Return the discoveries of the history, newest first: fixes and reverts, and breaking changes."""
    found: list[KnowledgeEntry] = []
    for commit in commits:
        if len(found) == COMMITS_MAX:
            break
        message = f"{commit.subject}\n\n{commit.body}".strip()
        if _BREAKING.search(message):
            stated = _BREAKING_BODY.search(commit.body)
            content = shorten_prose(" ".join(stated[1].split()), CONTENT_CHARS_MAX) if stated else _with_reason(commit)
            importer, kind = "breaking", "decision"
        elif commit.subject.lower().startswith(("revert ", "revert:")) or (
            _FIX.search(message) and not _NO_FIX.match(commit.subject)
        ):
            importer, kind, content = "fix", "issue", _with_reason(commit, REASON_CHARS_MAX)
        else:
            continue
        title = shorten_prose(commit.subject, CONTENT_CHARS_MAX)
        found.append(_discover(importer, kind, title, content, commit=commit.hash, date=format_timestamp(commit.at)))
    return found


def _with_reason(commit: Commit, chars_max: int = CONTENT_CHARS_MAX) -> str:
    r"""Return the subject of a commit, and the first paragraph of its body that says why.

    >>> _with_reason(Commit("a", 0, "", "Fix the pager", body="Refs #3\n\nThe pipe may be closed too early."))
    'Fix the pager\nThe pipe may be closed too early.'
    """
    for paragraph in re.split(r"\n\s*\n", commit.body[:BODY_CHARS_MAX]):
        text = " ".join(paragraph.split())
        words = text.split()
        is_trailer = bool(words) and words[0].endswith(":")  # as `Signed-off-by:`
        if len(words) >= REASON_WORDS_MIN and not is_trailer and not text.startswith(_NO_REASON):
            return f"{commit.subject}\n{shorten_prose(text, chars_max)}"
    return commit.subject
