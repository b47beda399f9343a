"""Validate content of any kind in tiers: secrets, errors of a real parser, then style and the claims of the content.

    engine.validation.validate('x = "("', ValidationRequest(path="a.py")).has_passed   ->   True

Tiers 0 and 1 report errors, and tier 2 does for imports that the workspace refutes. Parts that cannot be checked are
reported as skipped. No content is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from context_engine.context import RepositoryFacts, parse_draft
from context_engine.errors import ContextEngineError
from context_engine.languages import blank_comments_and_strings
from context_engine.model import syntax_finding
from context_engine.review.checks.file_checks import find_conflicts, find_hidden_characters, find_undefined_names
from context_engine.review.content_parsers import (
    JSON_LINES,
    find_json_errors,
    find_repeated_keys,
    find_syntax_errors,
    load_values,
)
from context_engine.review.finding import mark_new, redact_finding
from context_engine.review.source_versions import FileVersion, Parsers
from context_engine.review.validation.mermaid_syntax import find_mermaid_errors
from context_engine.review.validation.structured_content import (
    check_diff,
    check_findings,
    check_plan,
    find_schema_errors,
)
from context_engine.review.validation.style_checks import LINE_LENGTH, check_style, find_empty_bodies, find_omissions
from context_engine.review.validation.validation_request import (
    ValidationRequest,
    ValidationResult,
    complete_findings,
    report,
)
from context_engine.review.validation.workspace_claims import (
    find_misplaced_hunks,
    find_unknown_names,
    find_unresolved_imports,
)
from context_engine.text import GIT_DIFF_BYTES_MAX, parse_diff

if TYPE_CHECKING:
    from context_engine.context import Workspace
    from context_engine.languages import Grammars, Language, Languages
    from context_engine.model import Finding
    from context_engine.repo import Root
    from context_engine.secrets import Redactor

NAMED_LANGUAGES = ("json", "yaml", "toml", "markdown")
"""Kinds of content that name its language, whatever its path."""
DIAGRAMS_MAX = 50
"""Per document; a longer one was written by a program."""
NEAR_PATHS_MAX = 3

_MARKDOWN = re.compile(r"^(?:#{1,6} |[-*+] |\d{1,3}[.)] )", re.MULTILINE)
_DIAGRAM = re.compile(r"^[ \t]*```mermaid[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


class ValidationService:
    """Validates content against what is known of a workspace. Keeps nothing of it."""

    def __init__(
        self,
        languages: Languages,
        grammars: Grammars,
        redactor: Redactor,
        workspace: Workspace | None = None,
        root: Root | None = None,
    ) -> None:
        """Create the service. It needs a workspace to check the claims of content, and a root to check plans."""
        self.parsers = Parsers(languages, grammars)
        self.redactor = redactor
        self.workspace = workspace
        self.root = root

    def validate(self, content: str, request: ValidationRequest) -> ValidationResult:
        """Validate a content tier by tier. Raises: InvalidArgument (the schema is not a JSON Schema)."""
        result = self._run_tiers(content, request)
        if request.base is None:
            return result
        before = self._run_tiers(request.base, replace(request, stops_on_error=False))
        keys = ([f"{finding.rule} {finding.quote}" for finding in one.findings] for one in (result, before))
        new = [finding for finding, is_new in zip(result.findings, mark_new(*keys), strict=True) if is_new]
        return replace(result, findings=tuple(new))

    def read(self, path: str) -> str | None:
        """Return the text of a workspace file; None when it is absent or must not be read."""
        if self.workspace is None:
            return None
        try:
            return self.workspace.files.read(path).text
        except ContextEngineError:
            return None

    def facts(self) -> RepositoryFacts | None:
        """Return the facts that the findings of a review are checked against."""
        workspace = self.workspace
        if workspace is None:
            return None
        return RepositoryFacts(
            has_path=lambda path: self.read(path) is not None,
            text=self.read,
            near_paths=lambda path: workspace.search.complete_path(path, limit=NEAR_PATHS_MAX)[0],
        )

    def _run_tiers(self, content: str, request: ValidationRequest) -> ValidationResult:
        is_prose_plan = request.kind == "plan_output" and _is_markdown(content)
        kind = "markdown" if is_prose_plan else request.kind
        check = _ContentCheck(content.removeprefix("\ufeff").replace("\r\n", "\n"), replace(request, kind=kind), self)
        if is_prose_plan:
            check.skipped.append(
                (1, "it is Markdown, so only its diagrams and links are checked, not the fields of a plan")
            )
        wanted = request.tiers | {0} if request.redacts else request.tiers - {0}
        findings: list[Finding] = []
        run: list[int] = []
        for number, tier in enumerate((check.find_secrets, check.parse, check.check_style)):
            if number not in wanted:
                continue
            if request.stops_on_error and any(finding.severity == "error" for finding in findings):
                check.skipped.append((number, "an earlier tier found an error"))
                continue
            findings += tier()
            run.append(number)
        result = ValidationResult(complete_findings(findings, content), tuple(run), tuple(check.skipped))
        redacted = self.redactor.redact(content) if request.redacts else None
        if redacted is None or not redacted.count:
            return result
        clean = [redact_finding(finding, lambda text: self.redactor.redact(text).text) for finding in result.findings]
        return replace(result, findings=tuple(clean), redacted=redacted.text, secrets=redacted.count)


class _ContentCheck:
    """One content on its way through the tiers; a tier builds on what the tier before it learned."""

    def __init__(self, content: str, request: ValidationRequest, service: ValidationService) -> None:
        self.content = content
        self.request = request
        self.service = service
        self.skipped: list[tuple[int, str]] = []
        self.is_sound = False
        self.data = content.encode("utf-8", "replace")
        self.language = self._find_language()
        self.source = FileVersion(request.path, self.data, service.parsers, self.language)
        self.lines = content.split("\n")

    def _find_language(self) -> Language | None:
        languages, request = self.service.parsers.languages, self.request
        if request.kind in NAMED_LANGUAGES:
            return languages.get(request.kind)
        if request.kind not in ("generated_code", "raw_text"):
            return None
        if request.path.lower().endswith(JSON_LINES):
            return languages.get("json")
        if request.language:
            name = request.language.lower()
            return languages.get(name) or languages.detect(f"x.{name}")  # many call it `py`
        return languages.detect(request.path, self.data)

    # -- tier 0 --

    def find_secrets(self) -> Iterator[Finding]:
        """Report keys and passwords; what only looks like one is a warning."""
        for secret in self.service.redactor.find(self.content, self.request.path):
            if not secret.is_allowed:
                severity = "error" if secret.tier == "strict" else "warning"
                place = (secret.line, secret.column)
                message = f"{secret.title} in the content"
                yield report(secret.rule, message, place, family="secret", severity=severity)

    # -- tier 1 --

    def parse(self) -> Iterator[Finding]:
        """Report what a real parser says, and characters and marks that no finished text has."""
        match self.request.kind:
            case "plan_output" | "review_finding":
                yield from self._check_structure()
            case "diff":
                yield from check_diff(self.content)
            case "mermaid":
                yield from _report_syntax(find_mermaid_errors(self.content))
            case _:
                yield from self._parse_language()
        language = self.language
        is_code = self.request.kind == "generated_code" or (language is not None and not _is_prose(language))
        yield from _report_hidden(self.lines, is_code=is_code)
        severity = "error" if is_code and not self.is_sound else "warning"
        for conflict in find_conflicts(self.lines):
            message = "an unresolved conflict begins here"
            yield report("conflict-marker", message, (conflict[0], 1), severity=severity)

    def _parse_language(self) -> Iterator[Finding]:
        language, request, parsers = self.language, self.request, self.service.parsers
        if language is None:
            if request.kind != "raw_text" or request.path or request.language:
                self._skip(f"{request.language or request.path or 'the content'} is in no language that we know")
            return
        if _is_prose(language):
            yield from _find_broken_diagrams(self.content)
        if not (language.grammar or language.parser):
            if not _is_prose(language):
                self._skip(f"there is no parser for {language.name}")
            return
        path = "" if request.kind in NAMED_LANGUAGES else request.path
        errors = find_syntax_errors(self.content, path, language, parsers)
        if isinstance(errors, str):
            self._skip(errors)
            return
        yield from _report_syntax(errors)
        self.is_sound = not errors
        if self.is_sound:
            for key, line in find_repeated_keys(self.content, language, parsers):
                yield report("repeated-key", f"the key {key[:80]!r} occurs twice in one object", (line, int(line > 0)))
            has_schema = request.schema is not None and language.content == "data"
            for value in load_values(self.content, language) if has_schema else ():
                yield from find_schema_errors(value, request.schema or {})

    def _check_structure(self) -> Iterator[Finding]:
        try:
            value = parse_draft(self.content)
        except ValueError as problem:
            try:
                errors = find_json_errors(self.content)
            except RecursionError:
                errors = (syntax_finding(1, 1, str(problem)),)
            yield from _report_syntax(errors)
            return
        self.is_sound = True
        if self.request.kind == "review_finding":
            yield from check_findings(value, self.service.facts())
        elif self.service.root is None:
            self._skip("plans are not known here")
        else:
            yield from check_plan(value, self.service.root)
        if self.request.schema is not None:
            yield from find_schema_errors(value, self.request.schema)

    def _skip(self, reason: str) -> None:
        self.skipped.append((1, reason))

    # -- tier 2 --

    def check_style(self) -> Iterator[Finding]:
        """Report what a reader would stumble over, and claims about the workspace that are wrong."""
        language = self.language
        if language is None or _is_prose(language):  # prose may say what is left to do, and where
            yield from find_omissions(self.lines)
        else:
            width = 0 if language.content == "data" else LINE_LENGTH
            yield from check_style(self.lines, self._code_lines(), language.name, width)
        if not self.request.path.endswith(".pyi"):
            yield from find_empty_bodies(self.source.python)
            for name, uses in find_undefined_names(self.source).items():
                yield report("undefined-name", f"nothing here defines {name[:80]}", (min(uses), 1))
        yield from self._check_claims()

    def _code_lines(self) -> list[str]:
        """Return the lines without strings and comments; none where the language is not known well enough."""
        if self.language is None or not self.source.is_code:
            return []
        data = blank_comments_and_strings(self.language, self.data, self.service.parsers.grammars)
        return data.decode("utf-8", "replace").split("\n") if data is not None else []

    def _check_claims(self) -> Iterable[Finding]:
        service, language, workspace = self.service, self.language, self.service.workspace
        kind = self.request.kind
        if workspace is None or (kind == "diff" and [*check_diff(self.content)]):
            return ()
        if kind == "diff":
            return find_misplaced_hunks(parse_diff(self.content, bytes_max=GIT_DIFF_BYTES_MAX), service.read)
        if kind in ("markdown", "raw_text") and (language is None or _is_prose(language)):
            return find_unknown_names(self.content, workspace)
        if not self.source.is_code:
            return ()
        return find_unresolved_imports(self.source, workspace.symbols.paths(), service.read)


def _is_prose(language: Language) -> bool:
    return language.content == "documentation"


def _report_syntax(errors: Iterable[Finding]) -> Iterator[Finding]:
    for error in errors:
        if error.confidence == 1:
            yield report("syntax-error", error.title, (error.line, error.column))
        else:
            message = f"the parser reports an error here, as it does in healthy files as well: {error.title}"
            yield report("syntax-doubt", message, (error.line, error.column))


def _report_hidden(lines: Sequence[str], *, is_code: bool) -> Iterator[Finding]:
    """Report hidden characters. Changing the direction of text is fine in prose, and in a string that ends it."""
    for hidden in find_hidden_characters(lines):
        place = (hidden.line, hidden.column)
        if hidden.is_opener:
            is_error = is_code and hidden.is_open
            message = f"{hidden.name} changes the order in which this line is shown{' and is never ended' * is_error}"
            advice = f"Delete it, or write it as an escape: \\u{ord(hidden.character):04x}."
            severity = "error" if is_error else "warning"
            yield report("bidi-character", message, place, advice=advice, severity=severity)
        elif hidden.character == "\0":
            yield report("nul-character", "a NUL character, which no text has", place)
        elif hidden.character == "\ufffd":
            yield report("replacement-character", "a character that was lost in decoding", place)
        elif not hidden.is_bidi:
            yield report("hidden-character", f"{hidden.name} is invisible", place)


def _find_broken_diagrams(content: str) -> Iterator[Finding]:
    """Report the diagrams of a document that cannot be drawn; they are shown as text, which breaks nothing else."""
    for found in islice(_DIAGRAM.finditer(content), DIAGRAMS_MAX):
        first = content.count("\n", 0, found.start(1))
        for error in find_mermaid_errors(found[1]):
            message = f"the diagram cannot be drawn: {error.title}"
            yield report("broken-diagram", message, (first + error.line, error.column))


def _is_markdown(text: str) -> bool:
    try:
        parse_draft(text)
    except ValueError:
        return not text.lstrip().startswith(("{", "[", "```json", "<think>")) and bool(_MARKDOWN.search(text))
    return False
