"""The values that several packages share. Read this first.

They are frozen, compared by content and never serialized as they are (replies are built in `tools/`).
Lines are 1-based and both ends included; paths are workspace-relative POSIX.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from context_engine.text import LineSpan

ChunkKind = Literal["documentation", "symbols", "definitions", "data"]
"""What a chunk contains: prose by heading, the outline of a file, code, or constants and configuration."""

CHUNK_KINDS: tuple[ChunkKind, ...] = get_args(ChunkKind)
WHY_SHARE_MIN = 0.05
"""Parts below this share of a score are not shown."""


class RelPath(str):
    """A checked, workspace-relative POSIX path. Only `repo.paths` creates it, and no other code checks it again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one file that can be found on its own.

    `id` is stable for (path, kind, content); `title` names what is inside (`Engine.search`, `Install > Linux`);
    `tags` are lower case, sorted; `definitions` are the lines and the qualified names of those that it shows a part of.
    """

    id: str
    path: RelPath
    span: LineSpan
    kind: ChunkKind
    language: str
    title: str
    text: str
    tags: tuple[str, ...] = ()
    definitions: tuple[tuple[LineSpan, str], ...] = ()

    @property
    def symbol(self) -> str:
        """The title, or nothing where it is only the path."""
        return self.title if self.title != self.path else ""

    def name_at(self, span: LineSpan) -> str:
        """Return the name of the innermost definition around some lines.

        Without one it is the name of the chunk, if its definition starts in the lines, else the first definition that
        does, else the one whose end they show.
        """
        around = [name for lines, name in self.definitions if lines.first <= span.first and span.last <= lines.last]
        inside = [name for lines, name in self.definitions if span.first <= lines.first <= span.last]
        if self.title in inside:
            inside = [self.title]
        cut = [name for lines, name in self.definitions if lines.first < span.first <= lines.last]
        return next(iter(around[-1:] or inside or cut[-1:]), self.title)


@dataclass(frozen=True, slots=True)
class Filter:
    """What a hit must satisfy before anything is ranked. Empty means no restriction; all parts are ANDed.

    `kinds`, `languages`: any of them. `tags`: all of them. `include_paths` / `exclude_paths`: globs in gitignore
    notation (`src/**`, `*.py`, `docs/`), any included and none excluded.
    """

    kinds: tuple[ChunkKind, ...] = ()
    languages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    exclude_paths: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether everything passes."""
        return not (self.kinds or self.languages or self.tags or self.include_paths or self.exclude_paths)


QUESTION_CHARS_MAX = 65_536
"""Longest question, task or prompt that is taken: an issue with its logs."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the index. `limit` counts hits; `min_score` is relative to the best hit (0-1).

    With `files_max` the hits are those of so many best files, and `limit` only bounds their number.
    """

    text: str
    limit: int = 10
    filter: Filter = field(default_factory=Filter)
    min_score: float = 0.0
    chunks_per_file: int = 3
    files_max: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk and why it was found: `why` maps signal names to addends, and `score` is their sum.

    `project` is the repository it is from, where several were asked; its path then begins with it: `web:src/app.py`.
    `chance` is the probability that an answer needs it (0-1). `is_named`: the query names its symbol or a line of it.
    """

    chunk: Chunk
    score: float
    why: Mapping[str, float]
    stale: bool = False
    project: str = ""
    chance: float = 0.0
    is_named: bool = False

    def main_parts(self) -> dict[str, float]:
        """Return the main parts of the score, the greatest first."""
        parts = {name: round(share, 3) for name, share in self.why.items() if share >= WHY_SHARE_MIN * self.score}
        return dict(sorted(parts.items(), key=lambda pair: (-pair[1], pair[0])))


def group_by_file(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Return the hits of each path; files in the order of their first hit, hits as they come."""
    by_path: dict[str, list[Hit]] = {}
    for hit in hits:
        by_path.setdefault(hit.chunk.path, []).append(hit)
    return by_path


@dataclass(frozen=True, slots=True)
class Suggestion:
    """How to repair a finding. `replacement` is the new text of the finding's lines, if one fits."""

    description: str
    replacement: str = ""
    can_auto_fix: bool = False


WHOLE_TEXT = LineSpan(0, 0)
FROM_RULE = -1
"""Priority or confidence of a finding that leaves it to its rule."""
SEVERITIES = ("error", "error", "warning", "info")
"""By priority."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or may be, at a place of a text: what checks, parsers, validation and models report.

    `source` names the reporter: `builtin`, `invariant`, an analyzer, a tier of the validation, `host` or `model`.
    `priority` goes from 0 (must not be merged) to 3 (a hint). `span` is 0-0 for the text as a whole, `column` 0 for the
    whole line. `quote` is the first line of the span. `id` stays the same while the line moves.
    """

    rule: str = ""
    source: str = ""
    title: str = ""
    body: str = ""
    priority: int = FROM_RULE
    category: str = ""
    confidence: float = FROM_RULE
    path: str = ""
    span: LineSpan = WHOLE_TEXT
    quote: str = ""
    id: str = ""
    is_on_changed_line: bool = False
    is_new: bool = True
    evidence: tuple[str, ...] = ()
    suggestion: Suggestion | None = None
    related: tuple[str, ...] = ()
    column: int = 0

    @property
    def line(self) -> int:
        """The first line; 0 for the text as a whole."""
        return self.span.first

    @property
    def severity(self) -> str:
        """`error`, `warning` or `info`, by the priority."""
        return SEVERITIES[self.priority]

    @property
    def advice(self) -> str:
        """What to do, in words; empty without a suggestion."""
        if self.suggestion:
            return self.suggestion.description
        return ""

    @property
    def order(self) -> tuple[int, float, str, int, str, str]:
        """Sort key: most pressing first, then by confidence, path, line, rule and id."""
        return (self.priority, -self.confidence, self.path, self.span.first, self.rule, self.id)


def syntax_finding(line: int, column: int, message: str, *, confidence: float = 1.0) -> Finding:
    """Return the finding of a parser. A confidence below 1 means that healthy files have such errors, too."""
    return Finding(
        rule="syntax-error",
        source="parser",
        title=message,
        priority=0,
        category="syntax",
        confidence=confidence,
        span=LineSpan(line, line),
        column=column,
    )


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is not in the index, and the reason in one word (`binary`, `ignored`, `too_large`...)."""

    path: str
    reason: str
    detail: str = ""

    def __str__(self) -> str:
        """Return the path and why it is not in the index."""
        return f"{self.path} ({': '.join(filter(None, (self.reason.replace('_', ' '), self.detail)))})"

    @property
    def order(self) -> tuple[bool, str]:
        """The key by which examples are sorted: what is only ignored comes last."""
        return self.reason == "ignored", self.path


class ChangeObjections(NamedTuple):
    """The objections to a change: urgent findings of a review, and the new ones of a linter, one sentence each.

    `linter` is empty when it reads none of the files; `problem` says why it did not run to its end.
    """

    objections: Sequence[str] = ()
    linter: str = ""
    lint: Sequence[str] = ()
    problem: str = ""


class CommitFileChange(NamedTuple):
    """A file that a commit added, changed, renamed (`was` is its old name) or deleted (`is_gone`)."""

    path: str  # relative to the top of the repository
    was: str = ""
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """One step of a repository's history. `at` is when it was committed, in seconds since 1970.

    `body` is the rest of its message; only readers of messages fill it, and those leave `files` out.
    """

    hash: str
    at: int
    author: str
    subject: str
    files: tuple[CommitFileChange, ...] = ()
    body: str = ""


# -- answers of the Engine ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a long operation: `done` of `total` files, and its stage (`scanning`, `indexing`, `merging`)."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one indexing run did. Counts are files unless named otherwise; `seconds` is wall time."""

    added: int
    changed: int
    removed: int
    unchanged: int
    files: int  # in the index now
    chunks: int
    symbols: int
    skipped: dict[str, int]  # reason -> count, in the whole workspace
    skipped_examples: tuple[Skipped, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """The state of search by meaning. `chunks` are (embedded by the provider, all); (0, 0) while they are unknown."""

    static: str  # "ready" | "off" | why not
    model: str  # the provider in addition to static vectors, with its model; "" for none
    state: str  # "ready" | "incomplete" | "failing: why"
    suggestion: str  # the next step unless it is ready
    chunks: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Status:
    """What is indexed, how fresh it is, and where it is stored."""

    root: str
    state: Literal["absent", "building", "ready"]
    building_share: float  # 0-1 while building
    files: int
    chunks: int
    symbols: int
    languages: dict[str, int]  # files per language, most first
    branch: str | None
    commit: str | None
    stale: tuple[str, ...]  # files edited, added or deleted since they were indexed
    skipped: dict[str, int]  # reason -> count
    skipped_examples: tuple[Skipped, ...]
    engine: str  # "hybrid" | "lexical"
    embeddings: EmbeddingStatus
    generation: str
    disk_bytes: int
    cache_folder: str
    indexed_at: str | None  # UTC ISO-8601
    watcher: str  # "running" | "off" | why it cannot run
    last_error: str | None
    versions: dict[str, str]  # product, schema, python, libraries


@dataclass(frozen=True, slots=True)
class Answer:
    """Ranked hits, and how complete and fresh they are."""

    hits: tuple[Hit, ...]
    engine: str  # what ranked: "hybrid" (words and vectors) | "lexical" (words alone)
    freshness: str  # "fresh" | "3 files edited since index" | "index building 63 %"
    total: int  # chunks that passed the filter and match the query
    reason: str  # why `hits` is empty; "" when it is not
    near_tags: tuple[str, ...]  # known tags close to an unknown one that was asked for
    weakness: str = ""  # why `hits` are few and probably about something else; "" when they are not
    probability: float = 0.0  # that `hits` have what was asked for, 0-1; 0 where it is not known
    missing: str = ""  # why vectors of the provider that the user chose took no part, or not all of them


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A search through the text of the files as it is now. A line matches if it contains any of `queries`.

    `queries` are plain text, or with `regex` patterns of Rust's syntax. `under` is a folder or file as the caller typed
    it; `includes` and `excludes` are gitignore globs, relative to the workspace, or to `under` with `globs_from_under`.
    """

    queries: tuple[str, ...]
    regex: bool = False
    case_sensitive: bool = False
    under: str = "."
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    globs_from_under: bool = False


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file with matching lines: how many, and how many for each query; one line may match several."""

    path: RelPath
    size_bytes: int
    lines: int
    by_query: tuple[int, ...]
    defines: bool = False  # a line of it defines the query; only known on request
    encoding: str = ""  # as replies name it; empty for UTF-8


@dataclass(frozen=True, slots=True)
class Scan:
    """What a text search found, exactly, without any of the text. `files` are sorted by path."""

    files: tuple[TextFile, ...]
    files_searched: int
    engine: str  # "ripgrep" | "python"
    is_complete: bool  # False when a file vanished or could not be read during the search
    under: str  # the checked folder or file, "" for the whole workspace
    reason: str  # why `files` is empty; "" when it is not
    next_step: str

    @property
    def lines(self) -> int:
        """Lines that match any of the queries."""
        return sum(file.lines for file in self.files)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line as it is shown, cut around its match if it is long. `column` is 0 for a line of context.

    `query` is the number of the query that found it, if the queries were searched one by one.
    """

    number: int
    column: int
    text: str
    query: int = 0


@dataclass(frozen=True, slots=True)
class TextPart:
    """The matches of a file to read: `take` of them after the first `skip`."""

    path: RelPath
    skip: int
    take: int


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a symbol is defined."""

    name: str
    qualified: str  # Outer.inner.name
    kind: str
    path: RelPath
    span: LineSpan
    signature: str
    doc: str  # first line of the doc comment
    language: str


@dataclass(frozen=True, slots=True)
class Found:
    """Definitions that match a name, best first; `total` counts those beyond the limit too."""

    definitions: tuple[Definition, ...]
    total: int
    near: tuple[str, ...]  # close names when nothing matched
    freshness: str


@dataclass(frozen=True, slots=True)
class FileOutline:
    """The symbols of one file, nested by `depth`."""

    path: RelPath
    language: str
    lines: int
    symbols: tuple[tuple[int, Definition], ...]  # (depth, definition) in file order
    imports: tuple[tuple[str, int], ...]  # (raw target, line)
    problems: tuple[tuple[int, str], ...]  # (line, message)


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of a trace: `source` reaches `target` at path:line (evidence is that line's text)."""

    source: str
    target: str
    path: RelPath
    line: int
    evidence: str
    depth: int  # 1 = direct
    kind: str = ""  # call, type, read, import or definition; base: the target overrides the source
    certainty: str = "exact"  # or "likely": one candidate by name, "possible": one of several
    uses: int = 1  # an impact has one step for all uses in one definition
    via: str = ""  # the method of an interface that is called, where the target implements it
    origin: str = ""  # "scip": the tool that said so, where it was not the text
    source_at: str = ""  # path:line of the definition that has each name, as far as it is known
    target_at: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """Who calls, is called by, imports or is imported by something."""

    target: str
    direction: str
    edges: tuple[Edge, ...]
    truncated: bool
    notes: tuple[str, ...]  # what the answer cannot include (dynamic calls, unresolved imports, several definitions)
    freshness: str
    possible: int = 0  # uses of the name that may mean something else
    tests: tuple[str, ...] = ()  # test files on the way, the nearest first


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as a caller reads it, with secrets redacted; size and hash are those of the file."""

    path: RelPath
    text: str
    language: str
    lines: int  # of the whole file
    span: LineSpan  # the lines of `text`
    sha256: str
    size_bytes: int
    encoding: str  # as replies name it; empty for UTF-8
    modified_at: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One line of a directory listing."""

    name: str
    depth: int
    is_folder: bool
    size_bytes: int
    hidden_items: int  # > 0: this many more items in this folder were cut; name is ""
    note: str = ""  # what it is if it is not a text of this workspace: binary, linked, sensitive...


Direction = Literal[
    "callers", "callees", "references", "implementations", "hierarchy", "imports", "importers", "impact", "unused"
]
