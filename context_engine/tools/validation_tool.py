"""The tool that says whether content can be trusted before somebody uses it: generated code, data, plans, diffs, prose."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context.proposals import taken
from context_engine.context.refinement import ASSISTS
from context_engine.review.validation.critique import SCHEMA, second_pass, standing, wrong_with
from context_engine.review.validation.remark import ids
from context_engine.review.validation.validation_request import KINDS, Validated, Wanted, by_severity
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
"""A larger text is hardly written by one call."""
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
    wanted = Wanted(
        kind=content_type,
        path=file_path.strip(),
        language=language.strip(),
        scrubs=scrub_secrets,
        tiers=frozenset(map(int, tiers)),
        schema=schema,
        stops_on_error=stop_on_error,
        base=base_content,
    )
    found = engine.validation.validated(content, wanted)
    beside: dict[str, Any] = {}
    if "3" in tiers or findings is not None:
        found, beside = _second(found, content, wanted, assist, findings, engine, call)
    rows = [drop_empty(row) for row in _rows(found, content.split("\n"))]
    chars_max = engine.settings.result_chars_max - reply_size(compact_json(beside))
    shown = take_fitting_rows(rows[:max_findings], chars_max=chars_max)
    told = _told(found, len(rows), shown, chars_max)
    warnings = [*told.pop("warnings", ()), *beside.pop("warnings", ())]
    return Reply(compact_json(told | beside | drop_empty({"warnings": warnings})))


def _second(
    found: Validated,
    content: str,
    wanted: Wanted,
    assist: str,
    given: Mapping[str, Any] | None,
    engine: "Engine",
    call: Call,
) -> tuple[Validated, dict[str, Any]]:
    """Tier 3: what the agent hands in, else what a model says, else the next step for the agent."""
    used, draft, beside = "host", taken(given, SCHEMA, "findings") if given is not None else None, {}
    if draft is None:
        asked = second_pass(found.scrubbed or content, wanted.kind, wanted.path, found.remarks)
        climbed = engine.ladder.climb(asked, assist, check=lambda one: wrong_with(one, content), cancel=call.cancel)
        used, draft = climbed.used, climbed.draft
        beside = drop_empty({"next": climbed.next, "warnings": list(climbed.warnings)})
    beside |= {"meta": {"assist_used": used}}
    if draft is None:
        skipped = "" if beside.get("next") is None else "call again with findings, as next says"
        return replace(found, skipped=(*found.skipped, (3, skipped or "nobody was asked"))), beside
    stands = standing(draft, content)
    rejected = [{"place": each.place, "reason": each.reason} for each in stands.rejected]
    remarks = (*found.remarks, *sorted(stands.remarks, key=lambda remark: remark.order))
    return replace(found, remarks=remarks, tiers_run=(*found.tiers_run, 3)), beside | {"rejected": rejected}


def _rows(found: Validated, lines: Sequence[str]) -> list[Mapping[str, Any]]:
    named = zip(ids(found.remarks, lines), found.remarks, strict=True)
    return [
        {
            "id": name,
            "tier": each.tier,
            "severity": each.severity,
            "category": each.category,
            "rule_id": each.rule,
            "message": each.message,
            "line": each.line or None,
            "column": each.column or None,
            "suggestion": each.suggestion,
        }
        for name, each in named
    ]


def _told(found: Validated, total: int, shown: Sequence[Mapping[str, Any]], chars_max: int) -> dict[str, Any]:
    """The reply; the scrubbed content comes along when it has room."""
    warnings = []
    if total > len(shown):
        rest = Counter(remark.severity for remark in found.remarks[len(shown) :])
        left = ", ".join(format_count(number, severity) for severity, number in rest.items())
        warnings.append(f"{left} more: raise max_findings, or send a part of the content")
    room = chars_max - NOTE_CHARS - reply_size(compact_json(list(shown)))
    scrubbed = found.scrubbed
    if scrubbed is not None and reply_size(compact_json(scrubbed)) > room:
        scrubbed = None
        warnings.append("the scrubbed content has no room here: scrub_secrets returns it")
    return {
        "ok": True,
        "passed": found.passed,
        "findings": list(shown),
        "by_severity": by_severity(found.remarks),
        "tiers_run": list(found.tiers_run),
        "tiers_skipped": [{"tier": tier, "why": why} for tier, why in found.skipped],
        "secrets_scrubbed": found.secrets,
    } | drop_empty({"scrubbed_content": scrubbed, "warnings": warnings})
