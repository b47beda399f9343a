"""A content of whatever kind, looked at in tiers: secrets, what a real parser is sure of, then habits and what it claims.

    validated('x = "("', Wanted(path="a.py"), world).passed   ->   True

Errors come from tiers 0 and 1 alone. Whatever cannot be looked at is said to be skipped, and fails nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from context_engine.context.proposals import parsed as draft_of
from context_engine.review.validation.claims import misplaced_hunks, unknown_names, unresolved_imports
from context_engine.review.validation.content_parsers import faults
from context_engine.review.validation.data_parsers import (
    JSON_LINES,
    json_faults,
    loaded,
    repeated_keys,
    toml_faults,
    yaml_faults,
)
from context_engine.review.validation.forbidden_characters import conflicts, marks
from context_engine.review.validation.json_schemas import schema_remarks
from context_engine.review.validation.line_width import DEFAULT, line_length
from context_engine.review.validation.mermaid_syntax import mermaid_faults
from context_engine.review.validation.remark import Fault, Remark, added
from context_engine.review.validation.structured_content import ReadPlan, diff_remarks, finding_remarks, plan_remarks
from context_engine.review.validation.style_checks import empty_bodies, habits
from context_engine.review.validation.validation_request import Validated, Wanted
from context_engine.text.diff import GIT_DIFF_BYTES_MAX
from context_engine.text.diff import parsed as diff_of
from context_engine.text.untrusted_data import ParseError, read_toml, read_yaml

if TYPE_CHECKING:
    from context_engine.context.fact_check import Ground
    from context_engine.context.workspace import Workspace
    from context_engine.languages import Language, PathIndex
    from context_engine.review.source_versions import Parsers
    from context_engine.secrets import DetectedSecret

DATA: Mapping[str, Callable[[str], tuple[Fault, ...] | str]] = {
    "json": json_faults,
    "yaml": yaml_faults,
    "toml": toml_faults,
}
PROSE = frozenset({"markdown", "rst", "asciidoc", "text"})
DIAGRAMS_MAX = 50
"""Of one document; a longer one was written by a program."""
HEAD_BYTES = 200
"""The first line says what a script is written in."""

_DIAGRAM = re.compile(r"^[ \t]*```mermaid[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


class Scrubbed(Protocol):
    """A text without its secrets, and how many there were."""

    @property
    def text(self) -> str:
        """What may leave."""
        ...

    @property
    def count(self) -> int:
        """How many secrets went."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    """Who is asked: parsers, whoever takes secrets out of a text, and what knows plans and the workspace; None knows nothing."""

    parsers: Parsers
    find: Callable[[str, str], Sequence[DetectedSecret]]
    scrub: Callable[[str], Scrubbed]
    read_plan: ReadPlan | None = None
    ground: Callable[[], Ground] | None = None
    workspace: Workspace | None = None
    paths: Callable[[], PathIndex] | None = None
    read: Callable[[str], str | None] | None = None


def validated(content: str, wanted: Wanted, world: World) -> Validated:
    """Look at a content tier by tier. Raises: InvalidArgument (the schema is none)."""
    found = _looked_at(content, wanted, world)
    if wanted.base is None:
        return found
    then = _looked_at(wanted.base, replace(wanted, stops_on_error=False), world)
    new = added(then.remarks, wanted.base.split("\n"), found.remarks, content.split("\n"))
    return replace(found, remarks=tuple(new))


def _looked_at(content: str, wanted: Wanted, world: World) -> Validated:
    look = _Look(content.removeprefix("\ufeff").replace("\r\n", "\n"), wanted, world)
    remarks: list[Remark] = []
    run: list[int] = []
    tiers = (
        [(0, look.secrets)] * wanted.scrubs
        + [(1, look.parsers)] * (1 in wanted.tiers)
        + [(2, look.habits)] * (2 in wanted.tiers)
    )
    for number, tier in tiers:
        if wanted.stops_on_error and any(remark.severity == "error" for remark in remarks):
            look.skipped.append((number, "an earlier tier found an error"))
            continue
        remarks += tier()
        run.append(number)
    scrubbed = world.scrub(content) if wanted.scrubs else None
    if scrubbed is not None and scrubbed.count:
        remarks = [remark._replace(message=world.scrub(remark.message).text) for remark in remarks]
    return Validated(
        tuple(sorted(remarks, key=lambda remark: remark.order)),
        tuple(run),
        tuple(look.skipped),
        scrubbed.text if scrubbed is not None and scrubbed.count else None,
        scrubbed.count if scrubbed is not None else 0,
    )


@dataclass(slots=True)
class _Look:
    """One content on its way through the tiers; what a tier learned the next one knows."""

    content: str
    wanted: Wanted
    world: World
    skipped: list[tuple[int, str]] = field(default_factory=list)
    is_sound: bool = False

    @property
    def language(self) -> Language | None:
        """What it is written in, as far as anybody says."""
        known, wanted = self.world.parsers.languages, self.wanted
        if wanted.kind in DATA or wanted.kind == "markdown":
            return known.get(wanted.kind)
        if wanted.kind in ("generated_code", "raw_text"):
            if wanted.path.lower().endswith(JSON_LINES):
                return known.get("json")
            if wanted.language:
                name = wanted.language.lower()
                return known.get(name) or known.detect(f"x.{name}")  # `py` is what many call it
            return known.detect(wanted.path, self.content[:HEAD_BYTES].encode("utf-8", "replace"))
        return None

    # -- tier 0 --

    def secrets(self) -> list[Remark]:
        """Keys and passwords; what looks like one is only warned of."""
        return [
            Remark(
                0,
                "error" if each.tier == "strict" else "warning",
                "secret",
                each.rule,
                f"{each.title} in the content",
                each.line,
                each.column,
                "Take it out; use the scrubbed content, and read it from the environment.",
            )
            for each in self.world.find(self.content, self.wanted.path)
            if not each.is_allowed
        ]

    # -- tier 1 --

    def parsers(self) -> list[Remark]:
        """What a real parser says, and characters that no text should hold."""
        remarks = [*self._parsed()]
        language = self.language
        is_code = self.wanted.kind == "generated_code" or (language is not None and language.name not in PROSE)
        remarks += marks(self.content, is_code=is_code)
        for line in conflicts(self.content):
            severity = "error" if is_code and not self.is_sound else "warning"
            says = "an unresolved conflict begins here"
            remarks.append(Remark(1, severity, "conflict", "conflict-marker", says, line, 1, "Resolve it."))
        return remarks

    def _parsed(self) -> Iterator[Remark]:
        match self.wanted.kind:
            case "plan_output" | "review_finding":
                yield from self._shaped()
            case "diff":
                yield from diff_remarks(self.content)
            case "mermaid":
                yield from _syntax(mermaid_faults(self.content))
            case _:
                yield from self._written()

    def _written(self) -> Iterator[Remark]:
        """Something in a language."""
        language = self.language
        if language is None:
            if self.wanted.kind != "raw_text" or self.wanted.path or self.wanted.language:
                self._skip(
                    f"{self.wanted.language or self.wanted.path or 'the content'} is in no language that we know"
                )
            return
        if language.name == "markdown":
            yield from _diagrams(self.content)
        if language.grammar is None and language.name not in DATA:
            if language.name not in PROSE:
                self._skip(f"there is no parser for {language.name}")
            return
        check = DATA.get(self.wanted.kind)
        found = check(self.content) if check else faults(self.content, self.wanted.path, language, self.world.parsers)
        if isinstance(found, str):
            self._skip(found)
            return
        self.is_sound = not found
        yield from _syntax(found)
        if self.is_sound and self.wanted.schema is not None:
            yield from self._kept_to(_value(self.content, language.name))

    def _shaped(self) -> Iterator[Remark]:
        """A plan or findings, which are JSON with a shape."""
        try:
            value = draft_of(self.content)
        except ValueError:
            found = json_faults(self.content)
            yield from _syntax((Fault(1, 1, "it is nested too deep"),) if isinstance(found, str) else found)
            return
        self.is_sound = True
        if self.wanted.kind == "review_finding":
            yield from finding_remarks(value, self.world.ground() if self.world.ground else None)
        elif self.world.read_plan is None:
            self._skip("nobody here knows plans")
        else:
            yield from plan_remarks(value, self.world.read_plan)
        yield from self._kept_to(value)

    def _kept_to(self, value: Any) -> Iterator[Remark]:
        if self.wanted.schema is not None and value is not _UNREAD:
            yield from schema_remarks(value, self.wanted.schema)

    def _skip(self, why: str) -> None:
        self.skipped.append((1, why))

    # -- tier 2 --

    def habits(self) -> list[Remark]:
        """What a reader would stumble over, and what the content says of the workspace."""
        wanted, world, language = self.wanted, self.world, self.language
        name = language.name if language else ""
        lines = self.content.split("\n")
        is_prose = name in PROSE or language is None
        width = (
            0
            if is_prose or name in DATA
            else line_length(wanted.path, world.read)
            if world.read and wanted.path
            else DEFAULT
        )
        remarks = [*habits(lines, self._code(), name, width, is_prose=is_prose)]
        if name == "python" and not wanted.path.endswith(".pyi"):
            remarks += empty_bodies(self.content)
        if name == "json":
            remarks += (_repeated(key) for key in repeated_keys(self.content))
        return remarks + self._claims(language)

    def _code(self) -> list[str] | None:
        from context_engine.languages.strip_comments import code_only

        language = self.language
        if language is None or language.content != "code":
            return None
        data = code_only(language, self.content.encode("utf-8", "replace"), self.world.parsers.grammars)
        return None if data is None else data.decode("utf-8", "replace").split("\n")

    def _claims(self, language: Language | None) -> list[Remark]:
        world, kind = self.world, self.wanted.kind
        if kind == "diff" and world.read is not None and not [*diff_remarks(self.content)]:
            return [*misplaced_hunks(diff_of(self.content, bytes_max=GIT_DIFF_BYTES_MAX), world.read)]
        if kind in ("markdown", "raw_text") and (language is None or language.name in PROSE):
            return [*unknown_names(self.content, world.workspace)] if world.workspace is not None else []
        if language is not None and language.content == "code" and world.paths is not None:
            return [
                *unresolved_imports(self.content, self.wanted.path, language, world.parsers.grammars, world.paths())
            ]
        return []


YAML_NODES_MAX = 500_000
"""A large API description; reading it takes some seconds."""
_UNREAD: Any = object()
"""Stands for a value that cannot be had."""


def _value(content: str, language: str) -> Any:
    """The value of a sound data file."""
    match language:
        case "json":
            try:
                return loaded(content.removeprefix("\ufeff"))
            except (ValueError, RecursionError):  # one value a line, or nothing
                return _UNREAD
        case "toml":
            return _read_or_not(read_toml, content)
        case "yaml":  # tags that only its reader knows, or several documents, are not read
            return _read_or_not(partial(read_yaml, nodes_max=YAML_NODES_MAX), content)
    return _UNREAD


def _read_or_not(read: Callable[[str], Any], content: str) -> Any:
    try:
        return read(content)
    except ParseError:
        return _UNREAD


def _syntax(found: Iterable[Fault]) -> Iterator[Remark]:
    """Faults as remarks: what a parser is not sure of fails nothing."""
    for fault in found:
        if fault.is_sure:
            yield Remark(1, "error", "syntax", "syntax-error", fault.message, fault.line, fault.column, "Correct it.")
        else:
            says = f"the parser stumbles here, which it does in healthy files as well: {fault.message}"
            yield Remark(1, "warning", "syntax", "syntax-doubt", says, fault.line, fault.column, "Look at it.")


def _diagrams(content: str) -> Iterator[Remark]:
    """Diagrams in a document; a broken one is shown as text, which breaks nothing else."""
    for found in islice(_DIAGRAM.finditer(content), DIAGRAMS_MAX):
        first = content.count("\n", 0, found.start(1))
        for fault in mermaid_faults(found[1]):
            says = f"the diagram cannot be drawn: {fault.message}"
            yield Remark(
                1, "warning", "syntax", "broken-diagram", says, first + fault.line, fault.column, "Correct it."
            )


def _repeated(key: str) -> Remark:
    says = f"the key {key[:80]!r} stands twice in one object"
    return Remark(2, "warning", "data", "repeated-key", says, suggestion="Keep one: most readers take the last one.")
