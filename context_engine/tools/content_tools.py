"""The tool that checks content before it is used: generated code, data, plans, diffs, prose."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context import ASSIST_MODES
from context_engine.errors import TooLarge
from context_engine.review import CONTENT_KINDS, ValidationRequest, ValidationResult
from context_engine.secrets import RedactionOptions, describe_engines
from context_engine.text import compact_json, drop_empty, format_count
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, ObjectArg, TextArg, TextListArg
from context_engine.tools.edit_arguments import ContentArg
from context_engine.tools.reply import NOTE_CHARS, pick_fields, reply_size, take_fitting_rows
from context_engine.tools.structured_replies import DRAFT_FIELDS
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine

CONTENT_CHARS = 2_000_000
"""No single call writes a larger text."""


@tool(touches="nothing")
def validate_content(
    engine: "Engine",
    call: Call,
    content: Annotated[str, TextArg("What to check.", 0, CONTENT_CHARS)],
    content_type: Annotated[str, ChoiceArg("What it is.", CONTENT_KINDS)] = "raw_text",
    file_path: Annotated[str, TextArg("Where it belongs.")] = "",
    findings: Annotated[Mapping[str, Any] | None, ObjectArg("As next asks.", DRAFT_FIELDS)] = None,
    *,
    language: Annotated[str, TextArg("Else by file_path.", 0, 40)] = "",
    scrub_secrets: Annotated[bool, BooleanArg("Look for secrets, return it without.")] = True,
    tiers: Annotated[tuple[str, ...], TextListArg("1 parsers, 2 habits, 3 second pass.", ("1", "2", "3"))] = (
        "1",
        "2",
    ),
    schema: Annotated[Mapping[str, Any] | None, ObjectArg("A JSON Schema that data must keep to, as JSON.")] = None,
    stop_on_error: Annotated[bool, BooleanArg("No further tier after an error.")] = False,
    max_findings: Annotated[int, IntegerArg("Maximum findings.", 1, 1_000)] = 100,
    base_content: Annotated[str | None, TextArg("Older version: only new findings.", 0, CONTENT_CHARS)] = None,
    assist: Annotated[str, ChoiceArg("Tier 3: by a model, by you (next), or off.", ASSIST_MODES)] = "auto",
) -> Reply:
    """Find errors in generated code, data, diffs, plans or text: secrets, syntax, placeholders, unknown files."""
    request = ValidationRequest(
        kind=content_type,
        path=file_path.strip(),
        language=language.strip(),
        redacts=scrub_secrets,
        tiers=frozenset(map(int, tiers)),
        schema=schema,
        stops_on_error=stop_on_error,
        base=base_content,
    )
    result = engine.validation.validate(content, request)
    more: dict[str, Any] = {}
    if "3" in tiers or findings is not None:
        result, more = _run_second_pass(result, content, request, assist, findings, engine, call)
    warnings = list(more.pop("warnings", ()))
    chars_max = engine.settings.result_chars_max - reply_size(compact_json(more))
    rows = [drop_empty(row) for row in result.to_rows()]
    shown = take_fitting_rows(rows[:max_findings], chars_max=chars_max)
    if len(rows) > len(shown):
        rest = Counter(finding.severity for finding in result.findings[len(shown) :])
        left = ", ".join(format_count(number, severity) for severity, number in rest.items())
        warnings.append(f"{left} more: raise `max_findings`, or send a part of the content")
    redacted = result.redacted
    if redacted and reply_size(compact_json([shown, redacted])) > chars_max - NOTE_CHARS:
        redacted = None
        warnings.append("scrubbed_content does not fit in here: scrub_secrets returns it")
    reply = {
        "ok": True,
        "passed": result.has_passed,
        "findings": list(shown),
        "by_severity": result.by_severity,
        "tiers_run": list(result.tiers_run),
        "tiers_skipped": [{"tier": tier, "why": why} for tier, why in result.skipped],
        "secrets_scrubbed": result.secrets,
    }
    return Reply(compact_json(reply | more | drop_empty({"scrubbed_content": redacted, "warnings": warnings})))


def _run_second_pass(
    result: ValidationResult,
    content: str,
    request: ValidationRequest,
    assist: str,
    given: Mapping[str, Any] | None,
    engine: "Engine",
    call: Call,
) -> tuple[ValidationResult, dict[str, Any]]:
    """Run tier 3 with the findings of the agent, else those of a model; else return the next step for the agent."""
    from context_engine.review import ContentCritique

    critique = ContentCritique(content, request, result)
    used, more, draft = "host", {}, given
    if draft is None:
        climbed = engine.second_pass.run(critique.offer(), assist, check=critique.explain_rejection, cancel=call.cancel)
        used, draft = climbed.used, climbed.draft
        more = drop_empty({"next": climbed.next, "warnings": list(climbed.warnings)})
    more |= {"meta": {"assist_used": used}}
    if draft is None:
        reason = "call again with findings, as next says" if "next" in more else "nobody was asked"
        return replace(result, skipped=(*result.skipped, (3, reason))), more
    merged, rejected = critique.merge(draft)
    return merged, more | {"rejected": rejected}


CONTENT_BYTES_MAX = 2_000_000
"""The limit of an indexed file, too."""
SHOW_START_MAX = 4
"""Four characters distinguish types of keys and reveal nothing; the end of a key is secret."""
ROWS_SHARE = 3
"""At most one part in this many of a reply is for the places."""


@tool(touches="nothing")
def scrub_secrets(
    engine: "Engine",
    content: Annotated[str, ContentArg("The text, up to 2 MB.")],
    mode: Annotated[str, ChoiceArg("strict: hardly any false alarms.", ("strict", "broad"))] = "broad",
    *,
    replacement: Annotated[str, ChoiceArg("label names kind and hash.", ("label", "hash", "fixed"))] = "label",
    keep_structure: Annotated[bool, BooleanArg("Keep the line breaks of long keys.")] = True,
    path: Annotated[str, TextArg("Path of the text, for rules that depend on it.")] = "",
    allowlist: Annotated[tuple[str, ...], TextListArg("Values that are not secrets.", most=1_000)] = (),
    return_locations: Annotated[bool, BooleanArg("List the places.")] = True,
    show_start: Annotated[int, IntegerArg("First characters to show.", 0, SHOW_START_MAX)] = 0,
) -> Reply:
    """Find secrets in a text and replace them: API keys, tokens, passwords, private keys. Lines stay in place."""
    count = len(content.encode("utf-8", "surrogatepass"))
    if count > CONTENT_BYTES_MAX:
        raise TooLarge(
            f"content has {count:,} bytes, at most {CONTENT_BYTES_MAX:,} are searched",
            suggestion="Send it in parts, cut between lines.",
            details={"argument": "content"},
        )
    redactor = engine.redactor
    redactor.reload_rules()
    started = time.perf_counter()
    how = RedactionOptions(
        mode="strict" if mode == "strict" else "broad",
        replacement="hash" if replacement == "hash" else "fixed" if replacement == "fixed" else "label",
        keep_structure=keep_structure,
        allowed=frozenset(allowlist),
        show=show_start,
    )
    redacted = redactor.redact(content, how, path=path)
    took_ms = round((time.perf_counter() - started) * 1000, 2)
    rows: list[dict[str, Any]] = []
    for found in redacted.redactions if return_locations else ():
        secret = {"type": found.secret.title, **pick_fields(found.secret, "rule confidence line column")}
        rows.append(secret | {**pick_fields(found, "length fingerprint"), "masked": found.replacement})
    chars_max = engine.settings.result_chars_max
    shown = take_fitting_rows(rows, chars_max=chars_max // ROWS_SHARE)
    warnings = [f"{len(shown)} of {len(rows)} places are listed"] if len(shown) < len(rows) else []
    reply: dict[str, Any] = {
        "ok": True,
        "secrets_found": redacted.count > 0,
        "secrets_count": redacted.count,
        "mode": mode,
        "processing_time_ms": took_ms,
        "skipped_rules": list(redacted.skipped_rules),
        "meta": {"engines": describe_engines()},
        "detected_types": shown,
        "warnings": warnings,
        "scrubbed_content": redacted.text,
    }
    text = compact_json(reply)
    if reply_size(text) > chars_max:  # the whole content or none: half of a text could be mistaken for all of it
        why = f"scrubbed_content is left out: with it the reply has more than {chars_max:,} characters"
        reply |= {"scrubbed_content": None, "warnings": [*warnings, f"{why}; send the content in parts"]}
        text = compact_json(reply)
    return Reply(text)
