"""PURE. Importers: what the files and the history of a repository tell of its patterns, rules, decisions and issues.

    from_file("docs/adr/0003-cents.md", text)   ->  decision, with the line it stands at
    from_file("AGENTS.md", text)                ->  rules: its bullets
    from_file("src/pay.py", text)               ->  issues: TODO, FIXME, XXX, HACK in comments
    from_commits(commits)                       ->  issues (fixes, reverts) and decisions (breaking changes)

No language model reads here; each importer looks for one form that people use on purpose. How often it is right was
judged on three repositories (docs/decisions/0025) and is its confidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from context_engine.memory.discovery import Discovery, DiscoverySource, DiscoveryType, make_discovery
from context_engine.text import escape_line

CONFIDENCE: Mapping[str, float] = {
    "adr": 0.95,
    "rules": 0.90,
    "contributing": 0.80,
    "marker": 0.90,
    "fix": 0.95,
    "breaking": 0.95,
}
"""The share of thirty that a reader called right, in steps of .05 (docs/decisions/0025)."""

CONTENT_CHARS_MAX = 600
"""Of a decision or rule: its heart stands in the first paragraph, the rest where the provenance says."""
MARKERS_MAX = 50
"""Of one file; a file with more is generated, or nobody reads them."""
COMMITS_MAX = 2_000
"""The newest that tell something: what was fixed before is code by now."""

_ADR_FOLDER = re.compile(r"(?:^|/)(?:adrs?|decisions|decision-records|architecture-decisions?|architecture_decisions)/")
_ADR_NAME = re.compile(r"(?:^|/)(?:adr[-_]?)?\d{3,5}[-_][^/]+\.(?:md|markdown|rst)$", re.IGNORECASE)
_NOT_A_DECISION = re.compile(r"(?:^|/)(?:readme|index|template|[^/]*template[^/]*)\.\w+$", re.IGNORECASE)
_RULE_FILE = re.compile(
    r"(?:^|/)(?:AGENTS|CLAUDE|GEMINI)\.md$|(?:^|/)\.cursor/rules/[^/]+\.mdc?$|(?:^|/)\.cursorrules$"
    r"|(?:^|/)\.github/copilot-instructions\.md$"
)
"""As the agents look for them: `docs/agents.md` is a page about agents."""
_CONTRIBUTING = re.compile(r"(?:^|/)CONTRIBUTING(?:\.md|\.markdown|\.rst|\.txt)?$", re.IGNORECASE)


def is_importable(path: str) -> bool:
    """Whether the name of a file alone says that it tells something, whatever its language."""
    return bool(_is_adr(path) or _RULE_FILE.search(path) or _CONTRIBUTING.search(path))


def import_file(path: str, text: str, *, commit: str = "") -> list[Discovery]:
    """What one file tells. `commit` is the one that is checked out, for provenance."""
    if _is_adr(path):
        found = _decision(path, text)
    elif _RULE_FILE.search(path):
        found = _rules(path, text, "rules")
    elif _CONTRIBUTING.search(path):
        found = _rules(path, text, "contributing")
    else:
        found = _markers(path, text)
    return [replace(each, commit=commit) for each in found]


# -- decisions ---------------------------------------------------------------------------------------------------------

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+)$")
_STATUS_LINE = re.compile(r"^[-*\s]*+status\**\s*:\**\s*(.+)$", re.IGNORECASE)
_NUMBER = re.compile(r"^(?:adr[-\s]?)?\d+[.:)\s-]+", re.IGNORECASE)
_NO_LONGER = re.compile(r"superseded|deprecated|rejected|withdrawn", re.IGNORECASE)
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """The lines under one heading. `line` is that of the heading, counted from 1; 0 before the first one."""

    line: int
    depth: int
    title: str
    lines: tuple[str, ...]


def _is_adr(path: str) -> bool:
    if _NOT_A_DECISION.search(path) or not path.lower().endswith((".md", ".markdown", ".rst")):
        return False
    return bool(_ADR_FOLDER.search(path.lower()) and _ADR_NAME.search(path)) or "/adr/" in f"/{path.lower()}"


def _decision(path: str, text: str) -> list[Discovery]:
    """The one decision of an architecture decision record: its title, and what was decided."""
    parts = _parts(text)
    title = next((part for part in parts if part.title), None)
    if title is None:
        return []
    chosen = next(
        (part for part in parts if re.match(r"(?:the )?decision|what we decided", part.title, re.IGNORECASE)), None
    )
    body = _first_words((chosen or title).lines)
    if not body:
        body = next((found for part in parts if part.line > title.line and (found := _first_words(part.lines))), "")
    if not body:
        return []
    status = "superseded" if _NO_LONGER.search(_status(parts)) else "active"
    name = _NUMBER.sub("", title.title)
    line = (chosen or title).line
    return [_found("decision", name, body, "discovery", "adr", path=path, line=line, status=status)]


def _status(parts: Sequence[DocumentSection]) -> str:
    """What a record says of its own standing, in a line or under a heading."""
    for part in parts:
        if part.title.lower() == "status":
            return " ".join(part.lines)
        for line in part.lines[:10]:
            if stated := _STATUS_LINE.match(line):
                return stated[1]
    return ""


def _parts(text: str) -> list[DocumentSection]:
    """The text cut at its headings; what looks like one inside a code fence is none. Underlined headings count, too."""
    parts, lines = [DocumentSection(0, 0, "", ())], text.splitlines()
    fence, gathered = "", []
    for number, line in enumerate(lines, 1):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence else _HEADING.match(line)
        underline = not fence and gathered and re.fullmatch(r"(=|-|~){3,}\s*", line) and gathered[-1].strip()
        if heading or underline:
            named = heading[2].rstrip(" \t#") or "#" if heading else gathered.pop().strip()
            parts[-1] = replace(parts[-1], lines=tuple(gathered))
            parts.append(
                DocumentSection(number if heading else number - 1, len(heading[1]) if heading else 1, named, ())
            )
            gathered = []
        else:
            gathered.append(line)
    parts[-1] = replace(parts[-1], lines=tuple(gathered))
    return parts


def _first_words(lines: Sequence[str]) -> str:
    """The first paragraph of prose, with the list that it introduces."""
    said: list[str] = []
    for line in lines:
        if _STATUS_LINE.match(line) or re.match(r"\s*(?:date|deciders?)\s*:", line, re.IGNORECASE):
            continue
        if not line.strip() and said and not said[-1].rstrip().endswith(":"):
            break
        if line.strip() and not line.lstrip().startswith(("```", "~~~", "<!--", "|", "![")):
            said.append(line.strip())
    return _cut(" ".join(said))


def _cut(text: str) -> str:
    if len(text) <= CONTENT_CHARS_MAX:
        return text
    return text[: CONTENT_CHARS_MAX - 1].rsplit(" ", 1)[0] + "…"


# -- rules -------------------------------------------------------------------------------------------------------------

_BULLET = re.compile(r"^(\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(.+)$")
_REFERENCE = re.compile(r"^!?\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])?\s*(?:[—–:-]|\.?$)|^<?https?://\S+>?$")
"""A link, and perhaps what is found there."""
_STEP = re.compile(r"\s*\d")
"""The numbered steps of how to send a patch are no rules; in a file of rules numbers are only numbers."""
_NORMATIVE = re.compile(
    r"\b(?:must|should|shall|never|always|do not|don't|don’t|avoid|prefer|please|make sure|ensure|only|required?|use|"
    r"keep|run|add|write|include|follow|check|update|test|tests)\b",
    re.IGNORECASE,
)
WORDS_MIN = 3
"""`Python 3.9` and `Open an issue` are no rules."""


def _rules(path: str, text: str, importer: str) -> list[Discovery]:
    """The bullets of a file that is there to state rules, each under its heading."""
    found: list[Discovery] = []
    twins: Counter[str] = Counter()
    for part in _parts(text):
        for line, said, is_step in _bullets(part):
            if len(said.split()) < WORDS_MIN or _REFERENCE.match(said):
                continue
            if importer == "contributing" and (is_step or not _NORMATIVE.search(said)):
                continue
            title = part.title or escape_line(path.rpartition("/")[2])
            found.append(
                _found("rule", title, _cut(said), "discovery", importer, path=path, line=line, twin=twins[said])
            )
            twins[said] += 1
    return found


def _bullets(part: DocumentSection) -> Iterator[tuple[int, str, bool]]:
    """Each bullet of a part with its line and whether it is numbered; continued lines joined, nothing out of code fences."""
    fence, line, said, is_step = "", 0, "", False
    for number, text in enumerate(part.lines, part.line + 1):
        mark = _FENCE.match(text)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        bullet = None if fence or mark else _BULLET.match(text)
        if said and not bullet and not mark and not fence and text.strip() and text[:1] in " \t":
            said += f" {text.strip()}"
            continue
        if said:
            yield line, said, is_step
        line, said, is_step = (number, bullet[2].strip(), bool(_STEP.match(text))) if bullet else (0, "", False)
    if said:
        yield line, said, is_step


# -- issues in comments ------------------------------------------------------------------------------------------------

_MARKER = re.compile(
    r"(?:#|//|/\*|\*|--|;|<!--|%|\"\"\"|'''|{-|\(\*|\bREM)[ \t*/#!-]{0,40}\b(TODO|FIXME|XXX|HACK)\b(?:\(([^)\n]{0,60})\))?[ \t]*[:\-–]?[ \t]*(.*)"
)
_COMMENT_END = re.compile(r"(?:\*/|-->|\*\)|-}|\"\"\"|''').*$")
MARKERS = ("TODO", "FIXME", "XXX", "HACK")
MARKER_WORDS_MIN = 2
"""A bare `TODO` tells nothing."""


def _markers(path: str, text: str) -> list[Discovery]:
    """What somebody left to be done, in comments."""
    if not any(marker in text for marker in MARKERS):
        return []
    found: list[Discovery] = []
    twins: Counter[str] = Counter()
    for line, written in enumerate(text.split("\n"), 1):
        match = _MARKER.search(written)
        said = _COMMENT_END.sub("", match[3]).strip() if match else ""
        if match and len(said.split()) >= MARKER_WORDS_MIN and len(found) < MARKERS_MAX:
            content = f"{match[1]}: {_cut(said)}"
            title = f"{match[1]} in {escape_line(path.rpartition('/')[2])}"
            found.append(
                _found("issue", title, content, "discovery", "marker", path=path, line=line, twin=twins[content])
            )
            twins[content] += 1
    return found


def add_dates(found: Iterable[Discovery], blame: Callable[[str, int], tuple[str, str] | None]) -> list[Discovery]:
    """Issues with the commit and the day that each line was written in; `blame` answers None where nobody knows."""

    def one(each: Discovery) -> Discovery:
        told = blame(each.path, each.line) if each.type == "issue" and each.line else None
        return replace(each, commit=told[0], date=told[1]) if told else each

    return [one(each) for each in found]


# -- history, plans, reviews -------------------------------------------------------------------------------------------

_FIX = re.compile(
    r"^(?:fix|hotfix|bugfix)(?:\((?!deps|docs|lint|types?\b)[^)]*\))?!?:\s|\bfix(?:e[sd])?:?\s+(?:\S+/\S+)?#\d+",
    re.IGNORECASE,
)
"""`Closes #1` is as often said of a feature."""
_NO_FIX = re.compile(r"^(?:docs?|feat(?:ure)?|add|remove|update|chore|refactor|more)\b", re.IGNORECASE)
_REVERT = re.compile(r'^revert\b[: ]+"?', re.IGNORECASE)
_BREAKING = re.compile(r"^\w+(?:\([^)]*\))?!:\s|^BREAKING[ -]CHANGE\b", re.MULTILINE)
COMMIT_PATTERN = r"^(hot|bug)?fix|fix(e[sd])?:? [^ ]*#[0-9]|^revert|^[a-z]+(\([^)]*\))?!:|^BREAKING[ -]CHANGE"
"""What git is asked for, POSIX: every message that one of these may find."""
_BREAKING_BODY = re.compile(r"^BREAKING[ -]CHANGE:?\s*(.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit as far as it tells something. `date` is ISO-8601."""

    hash: str
    date: str
    subject: str
    body: str = ""


def import_commits(commits: Iterable[LoggedCommit]) -> list[Discovery]:
    """What the history tells, newest first: what was fixed or taken back, and what broke with the past on purpose."""
    found: list[Discovery] = []
    for commit in commits:
        if len(found) == COMMITS_MAX:
            break
        told = f"{commit.subject}\n\n{commit.body}".strip()
        if _BREAKING.search(told):
            stated = _BREAKING_BODY.search(commit.body)
            content = _cut(" ".join(stated[1].split())) if stated else commit.subject
            found.append(_of_commit("decision", commit, content, "breaking"))
        elif (_FIX.search(told) and not _NO_FIX.match(commit.subject)) or _REVERT.match(commit.subject):
            found.append(_of_commit("issue", commit, commit.subject, "fix"))
    return found


def _of_commit(type: DiscoveryType, commit: LoggedCommit, content: str, importer: str) -> Discovery:  # noqa: A002
    return _found(type, _cut(commit.subject), content, "git", importer, commit=commit.hash, date=commit.date)


def _found(  # one place where a confidence is given
    type: DiscoveryType,  # noqa: A002
    title: str,
    content: str,
    source: DiscoverySource,
    importer: str,
    *,
    path: str = "",
    line: int = 0,
    commit: str = "",
    date: str = "",
    status: str = "active",
    twin: int = 0,
) -> Discovery:
    made = make_discovery(type, title, content, source, path=path, line=line, commit=commit, date=date, twin=twin)
    return replace(made, confidence=CONFIDENCE[importer], status=status)
