"""The tool that redacts secrets in a text: it reports the type and place of each, and stores nothing."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import TooLarge
from context_engine.secrets import Redaction, RedactionOptions, describe_engines
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, TextArg, TextListArg
from context_engine.tools.edit_arguments import ContentArg
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import compact_json, reply_size, take_fitting_rows

if TYPE_CHECKING:
    from context_engine.engine import Engine


CONTENT_BYTES_MAX = 2_000_000
"""The limit of an indexed file, too."""
ALLOWED_MAX = 1_000
SHOW_START_MAX, SHOW_END_MAX = 4, 0
"""Four characters distinguish types of keys and reveal nothing; the end of a key is secret."""
ROWS_SHARE = 3
"""At most one part in this many of a reply is for the places."""


@tool(
    touches="nothing",
    rare=("replacement", "keep_structure", "path", "allowlist", "return_locations", "show_start", "show_end"),
)
def scrub_secrets(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    content: Annotated[str, ContentArg("The text, up to 2 MB.")],
    mode: Annotated[str, ChoiceArg("strict: hardly any false alarms.", ("strict", "broad"))] = "broad",
    replacement: Annotated[str, ChoiceArg("label names kind and hash.", ("label", "hash", "fixed"))] = "label",
    keep_structure: Annotated[bool, BooleanArg("Keep the line breaks of long keys.")] = True,
    path: Annotated[str, TextArg("Path of the text, for rules that depend on it.")] = "",
    allowlist: Annotated[tuple[str, ...], TextListArg("Values that are not secrets.", most=ALLOWED_MAX)] = (),
    return_locations: Annotated[bool, BooleanArg("List the places.")] = True,
    show_start: Annotated[int, IntegerArg("First characters to show.", 0, SHOW_START_MAX)] = 0,
    show_end: Annotated[int, IntegerArg("Ignored: the end is never shown.", 0, SHOW_END_MAX)] = 0,
) -> Reply:
    """Find secrets in a text and replace them: API keys, tokens, passwords, private keys. Lines stay in place."""
    _check_size(content)
    scrubber = engine.scrubber
    scrubber.reload_rules()
    started = time.perf_counter()
    how = RedactionOptions(
        mode="strict" if mode == "strict" else "broad",
        replacement="hash" if replacement == "hash" else "fixed" if replacement == "fixed" else "label",
        keep_structure=keep_structure,
        allowed=frozenset(allowlist),
        show=(show_start, show_end),
    )
    scrubbed = scrubber.redact(content, how, path=path)
    took_ms = round((time.perf_counter() - started) * 1000, 2)
    head = {
        "ok": True,
        "secrets_found": scrubbed.count > 0,
        "secrets_count": scrubbed.count,
        "mode": mode,
        "processing_time_ms": took_ms,
        "skipped_rules": list(scrubbed.skipped_rules),
        "meta": {"engines": describe_engines()},
    }
    rows = [_row(secret) for secret in scrubbed.redactions] if return_locations else []
    return Reply(_fitting(head, rows, scrubbed.text, engine.settings.result_chars_max))


def _check_size(content: str) -> None:
    count = len(content.encode("utf-8", "surrogatepass"))
    if count > CONTENT_BYTES_MAX:
        raise TooLarge(
            f"content has {count:,} bytes, at most {CONTENT_BYTES_MAX:,} are searched",
            suggestion="Send it in parts, cut between lines.",
            details={"argument": "content"},
        )


def _row(found: Redaction) -> dict[str, Any]:
    secret = found.secret
    return {
        "type": secret.title,
        "rule": secret.rule,
        "confidence": secret.confidence,
        "line": secret.line,
        "column": secret.column,
        "length": found.length,
        "fingerprint": found.fingerprint,
        "masked": found.replacement,
    }


def _fitting(head: dict[str, Any], rows: list[dict[str, Any]], text: str, chars_max: int) -> str:
    """Format the reply with the whole content or none: half of a text could be mistaken for all of it."""
    shown = take_fitting_rows(rows, chars_max=chars_max // ROWS_SHARE)
    places = {"detected_types": shown, "warnings": _left_out(rows, shown)}
    whole = compact_json(head | places | {"scrubbed_content": text})
    if reply_size(whole) <= chars_max:
        return whole
    left_out = f"scrubbed_content is left out: with it the reply has more than {chars_max:,} characters; send the content in parts"
    return compact_json(head | {"scrubbed_content": None} | places | {"warnings": [*places["warnings"], left_out]})


def _left_out(rows: Sequence[Any], shown: Sequence[Any]) -> list[str]:
    return [f"{len(shown)} of {len(rows)} places are listed"] if len(shown) < len(rows) else []
