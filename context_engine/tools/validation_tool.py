"""The tool that checks content before it is used: generated code, data, plans, diffs, prose."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context.proposals import taken
from context_engine.context.refinement import ASSISTS
from context_engine.review.validation.critique import SCHEMA, explain_rejection, make_second_pass, validate_critique
from context_engine.review.validation.validation_request import (
    KINDS,
    ValidationRequest,
    ValidationResult,
    count_severities,
    make_ids,
    sort_findings,
    tier_of,
)
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, ObjectArg, TextArg, TextListArg
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import (
    NOTE_CHARS,
    compact_json,
    drop_empty,
    format_count,
    reply_size,
    take_fitting_rows,
)

if TYPE_CHECKING:
    from context_engine.engine import Engine


CONTENT_CHARS = 2_000_000
"""No single call writes a larger text."""
FINDINGS_MAX = 1_000
TIERS = ("1", "2", "3")


@tool(
    touches="nothing",
    rare=(
        "language",
        "scrub_secrets",
        "tiers",
        "schema",
        "stop_on_error",
        "max_findings",
        "base_content",
        "assist",
    ),
)
def validate_content(
    engine: "Engine",
    call: Call,
    content: Annotated[str, TextArg("What to check.", 0, CONTENT_CHARS)],
    content_type: Annotated[str, ChoiceArg("What it is.", KINDS)] = "raw_text",
    file_path: Annotated[str, TextArg("Where it belongs.")] = "",
    language: Annotated[str, TextArg("Else by file_path.", 0, 40)] = "",
    scrub_secrets: Annotated[bool, BooleanArg("Look for secrets, return it without.")] = True,
    tiers: Annotated[tuple[str, ...], TextListArg("1 parsers, 2 habits, 3 a second pass.", TIERS)] = ("1", "2"),
    schema: Annotated[Mapping[str, Any] | None, ObjectArg("A JSON Schema that data must keep to.")] = None,
    stop_on_error: Annotated[bool, BooleanArg("No further tier after an error.")] = False,
    max_findings: Annotated[int, IntegerArg("Findings told.", 1, FINDINGS_MAX)] = 100,
    base_content: Annotated[str | None, TextArg("Older version: only new findings.", 0, CONTENT_CHARS)] = None,
    assist: Annotated[str, ChoiceArg("Tier 3: by a model, by you (next), or off.", ASSISTS)] = "auto",
    findings: Annotated[Mapping[str, Any] | None, ObjectArg("As next asks.")] = None,
) -> Reply:
    """Find what is wrong in generated code, data, diffs, plans or text: secrets, syntax, placeholders, unknown files."""
    request = ValidationRequest(
        kind=content_type,
        path=file_path.strip(),
        language=language.strip(),
        scrubs=scrub_secrets,
        tiers=frozenset(map(int, tiers)),
        schema=schema,
        stops_on_error=stop_on_error,
        base=base_content,
    )
    result = engine.validation.validate(content, request)
    more: dict[str, Any] = {}
    if "3" in tiers or findings is not None:
        result, more = _run_second_pass(result, content, request, assist, findings, engine, call)
    rows = [drop_empty(row) for row in _make_rows(result, content.split("\n"))]
    chars_max = engine.settings.result_chars_max - reply_size(compact_json(more))
    shown = take_fitting_rows(rows[:max_findings], chars_max=chars_max)
    reply = _make_reply(result, len(rows), shown, chars_max)
    warnings = [*reply.pop("warnings", ()), *more.pop("warnings", ())]
    return Reply(compact_json(reply | more | drop_empty({"warnings": warnings})))


def _run_second_pass(
    result: ValidationResult,
    content: str,
    request: ValidationRequest,
    assist: str,
    given: Mapping[str, Any] | None,
    engine: "Engine",
    call: Call,
) -> tuple[ValidationResult, dict[str, Any]]:
    """Run tier 3: with the findings of the agent, else with those of a model; else return the next step for the agent."""
    used, more = "host", {}
    draft = None if given is None else taken(given, SCHEMA, "findings")
    if draft is None:
        second = make_second_pass(result.scrubbed or content, request.kind, request.path, result.findings)
        climbed = engine.ladder.climb(
            second, assist, check=lambda answer: explain_rejection(answer, content), cancel=call.cancel
        )
        used, draft = climbed.used, climbed.draft
        more = drop_empty({"next": climbed.next, "warnings": list(climbed.warnings)})
    more |= {"meta": {"assist_used": used}}
    if draft is None:
        reason = "nobody was asked" if more.get("next") is None else "call again with findings, as next says"
        return replace(result, skipped=(*result.skipped, (3, reason))), more
    critique = validate_critique(draft, content)
    rejected = [{"place": item.place, "reason": item.reason} for item in critique.rejected]
    merged = (*result.findings, *sort_findings(critique.findings))
    return replace(result, findings=merged, tiers_run=(*result.tiers_run, 3)), more | {"rejected": rejected}


def _make_rows(result: ValidationResult, lines: Sequence[str]) -> list[Mapping[str, Any]]:
    ids = make_ids(result.findings, lines)
    return [
        {
            "id": finding_id,
            "tier": tier_of(finding),
            "severity": finding.severity,
            "category": finding.category,
            "rule_id": finding.rule,
            "message": finding.title,
            "line": finding.line or None,
            "column": finding.column or None,
            "suggestion": finding.advice,
        }
        for finding_id, finding in zip(ids, result.findings, strict=True)
    ]


def _make_reply(
    result: ValidationResult, total: int, shown: Sequence[Mapping[str, Any]], chars_max: int
) -> dict[str, Any]:
    """Return the reply; the scrubbed content is in it when there is room."""
    warnings = []
    if total > len(shown):
        rest = Counter(finding.severity for finding in result.findings[len(shown) :])
        left = ", ".join(format_count(number, severity) for severity, number in rest.items())
        warnings.append(f"{left} more: raise max_findings, or send a part of the content")
    room = chars_max - NOTE_CHARS - reply_size(compact_json(list(shown)))
    scrubbed = result.scrubbed
    if scrubbed is not None and reply_size(compact_json(scrubbed)) > room:
        scrubbed = None
        warnings.append("the scrubbed content does not fit in here: scrub_secrets returns it")
    return {
        "ok": True,
        "passed": result.has_passed,
        "findings": list(shown),
        "by_severity": count_severities(result.findings),
        "tiers_run": list(result.tiers_run),
        "tiers_skipped": [{"tier": tier, "why": why} for tier, why in result.skipped],
        "secrets_scrubbed": result.secrets,
    } | drop_empty({"scrubbed_content": scrubbed, "warnings": warnings})
