"""Tools that review a change: a diff as text, what git says has changed, or a large pull request in the background.

They change no file of the user. For a second pass, a copy of the reply is stored; the newest two hundred are kept. A
session reviews a change in units, in the background, and can be watched, paused and resumed.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from context_engine import __version__
from context_engine.context import ASSIST_MODES, SecondPassResult
from context_engine.errors import HostError, InvalidArgument, NextStep, TooLarge
from context_engine.model import Progress
from context_engine.review import CATEGORIES, FAIL_ON, PRIORITIES, ReviewOptions, ReviewRequest
from context_engine.text import DIFF_BYTES_MAX, compact_json, drop_empty
from context_engine.timestamps import format_timestamp
from context_engine.tools.arguments import (
    BooleanArg,
    ChoiceArg,
    FractionArg,
    IntegerArg,
    ObjectArg,
    TextArg,
    TextListArg,
    bind,
)
from context_engine.tools.edit_arguments import ContentArg
from context_engine.tools.reply import (
    NOTE_CHARS,
    add_rows,
    keep_fitting,
    pick_fields,
    reply_size,
    take_fitting_rows,
)
from context_engine.tools.structured_replies import COUNT, DRAFT_FIELDS, NUMBER, TEXT, list_of
from context_engine.tools.text_form import format_reply
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.review import MergedReview, ReviewedChange, ReviewResult, ReviewSession

ID_CHARS = 100
PATTERNS_MAX = 200
WORKERS_MAX = 4
"""Python threads share one core for most of a review; more of them wait for each other."""
OPTIONS = (
    *("categories", "confidence_threshold", "max_findings", "changed_lines_only", "exclude_patterns"),
    *("custom_instructions", "invariants_path", "analyzers", "fail_on", "allow_ids", "time_budget_s"),
)
"""The arguments of `review_changes` that every review has; other tools take them as one object."""
OPTION_FIELDS = {"fail_on": TEXT, "max_findings": COUNT, "confidence_threshold": NUMBER, "time_budget_s": COUNT}
OPTION_FIELDS |= dict.fromkeys(("categories", "exclude_patterns", "analyzers"), list_of(TEXT))

Format = Annotated[str, ChoiceArg("Of the reply.", ("text", "json", "markdown", "sarif", "rdjson"))]
Assist = Annotated[str, ChoiceArg("Who looks again.", ASSIST_MODES)]
SessionId = Annotated[str, TextArg("Its id.")]
WaitS = Annotated[int, IntegerArg("Wait so many seconds.", 0, 55)]


@tool(touches="nothing", view="review")
def review_changes(
    engine: "Engine",
    call: Call,
    diff: Annotated[str, ContentArg("Unified diff.")] = "",
    fail_on: Annotated[str, ChoiceArg("From which priority on it fails.", tuple(map(str.lower, FAIL_ON)))] = "none",
    *,
    file_contexts: Annotated[Mapping[str, Any], ObjectArg("Path to its new content, as JSON.")] = {},
    base_ref: Annotated[str, TextArg("What the diff starts from.")] = "",
    categories: Annotated[tuple[str, ...], TextListArg("Only these.", CATEGORIES)] = (),
    confidence_threshold: Annotated[float, FractionArg("Least confidence.")] = 0.7,
    max_findings: Annotated[int, IntegerArg("Maximum findings.", 1, 100)] = 20,
    changed_lines_only: Annotated[bool, BooleanArg("P0 is shown anywhere.")] = True,
    exclude_patterns: Annotated[tuple[str, ...], TextListArg("Globs to leave out.", most=PATTERNS_MAX)] = (),
    custom_instructions: Annotated[str, TextArg("For a second pass.", 0, 4_000)] = "",
    invariants_path: Annotated[str, TextArg("File of rules; else .review-invariants.yml.")] = "",
    analyzers: Annotated[tuple[str, ...], TextListArg("auto, none, or names such as ruff.")] = ("auto",),
    allow_ids: Annotated[tuple[str, ...], TextListArg("Ids of known findings.", most=1_000)] = (),
    time_budget_s: Annotated[int, IntegerArg("Seconds.", 1, 600)] = 30,
    format: Format = "",  # noqa: A002 - the name in the contract
    assist: Assist = "auto",
    findings: Annotated[Mapping[str, Any] | None, ObjectArg("Your own, by next.schema.", DRAFT_FIELDS)] = None,
    review_id: Annotated[str, TextArg("Of the review they belong to.", 0, ID_CHARS)] = "",
    submission_id: Annotated[str, TextArg("As in next.", 0, ID_CHARS)] = "",
) -> Reply:
    """Review a diff: bugs, secrets, broken callers, unsafe calls. Only what is new on changed lines."""
    given, began = locals(), time.perf_counter()  # the arguments by name, the options among them
    if findings is not None or review_id:
        if not review_id:
            step = "Send both as the reply of the review says under next, or neither."
            raise InvalidArgument("findings need the review_id that they belong to", suggestion=step)
        if findings is None:
            stored = engine.reviews.second_passes.load(review_id).result
            offer = engine.reviews.second_passes.offer("review_changes", review_id)
            added = _AddedReview(review_id, SecondPassResult(next=offer.next()))
            return _review_reply(engine, "review_changes", stored, format, began, added, with_brief=True)
        merged = engine.reviews.second_passes.merge_draft(
            review_id, findings, source="host", submission_id=submission_id
        )
        added = _AddedReview(review_id, merged=merged)
        return _review_reply(engine, "review_changes", merged.result, format, began, added)
    _check_diff(diff)
    options = _build_options(**{name: given[name] for name in OPTIONS})
    if wrong := [path for path, text in file_contexts.items() if not isinstance(text, str)]:
        step = 'Write {"path": "its new content"}.'
        raise InvalidArgument(f"file_contexts: the content of {wrong[0]!r} is not a text", suggestion=step)
    change = engine.reviews.read_diff(diff, contexts=file_contexts, base_ref=base_ref)
    result, added = _review(engine, call, change, options, assist)
    return _review_reply(engine, "review_changes", result, format, began, added, with_brief=assist == "host")


def _check_diff(diff: str) -> None:
    if not diff.strip():
        step = NextStep("review_git_diff", "to let git make it")
        raise InvalidArgument("diff is empty", suggestion="Send a unified diff.", next_steps=step)
    if len(diff.encode("utf-8", "replace")) > DIFF_BYTES_MAX:
        raise TooLarge(
            f"the diff has more than {DIFF_BYTES_MAX:,} bytes",
            suggestion="Review it commit by commit.",
            next_steps=NextStep("review_git_diff", "for each commit"),
        )


def parse_review_options(fields: Mapping[str, Any]) -> ReviewOptions:
    """Read the options of a review from an object. Raises: InvalidArgument, which lists every wrong one."""
    known = [parameter for parameter in review_changes.parameters if parameter.name in OPTIONS]
    return _build_options(**bind(known, dict(fields)))


def _build_options(categories: Any, analyzers: tuple[str, ...], fail_on: str, **others: Any) -> ReviewOptions:
    return ReviewOptions(
        **others,
        categories=tuple(categories or CATEGORIES),
        analyzers=analyzers[0] if analyzers in (("auto",), ("none",)) else analyzers,  # ty: ignore[invalid-argument-type] - one of the two words
        fail_on=fail_on if fail_on == "none" else fail_on.upper(),
    )


@tool(touches="nothing", view="review")
def review_git_diff(
    engine: "Engine",
    call: Call,
    target: Annotated[str, TextArg("staged, unstaged, head, a ref, a commit, a..b or a...b.")] = "staged",
    base: Annotated[str, TextArg("Compared with this.")] = "",
    *,
    include_patterns: Annotated[tuple[str, ...], TextListArg("Globs to keep.", most=PATTERNS_MAX)] = (),
    context_lines: Annotated[int, IntegerArg("Around each hunk.", 0, 50)] = 3,
    include_untracked: Annotated[bool, BooleanArg("New files too.")] = False,
    options: Annotated[Mapping[str, Any], ObjectArg("As of review_changes.", OPTION_FIELDS)] = {},
    format: Format = "",  # noqa: A002 - the name in the contract
    assist: Assist = "auto",
) -> Reply:
    """Review what git says has changed: the stage, the work tree, a branch or a commit."""
    from context_engine.repo import DiffRequest

    began = time.perf_counter()
    parsed_options = parse_review_options(options)
    request = DiffRequest(target, base, context_lines, include_untracked)
    diff, change = engine.reviews.read_git_change(request, include_patterns=include_patterns)
    git_info = {
        **pick_fields(diff, "target base merge_base command"),
        "files_changed": len(change.files),
        "stats": {side: sum(len(getattr(file, side)) for file in change.files) for side in ("added", "removed")},
        "renames": [{"from": file.old_path, "to": file.path} for file in change.files if file.kind == "renamed"],
    }
    result, added = _review(engine, call, change, parsed_options, assist)
    with_brief = assist == "host"
    return _review_reply(engine, "review_git_diff", result, format, began, added, git_info, with_brief=with_brief)


# -- the review and its second pass -----------------------------------------------------------------------------------


class _AddedReview(NamedTuple):
    """What a model or the caller added to a review; empty without a second pass."""

    review_id: str = ""
    second_pass: SecondPassResult | None = None
    merged: "MergedReview | None" = None


def _review(
    engine: "Engine", call: Call, change: "ReviewedChange", options: ReviewOptions, assist: str
) -> "tuple[ReviewResult, _AddedReview]":
    """Review a change, store it for a second pass, and let a model make that pass where there is one."""
    reviews = engine.reviews
    result = reviews.review(change, options, cancel=call.cancel)
    if assist == "off":
        return result, _AddedReview()
    try:
        review_id = reviews.keep_for_second_pass(result, options, change)
    except HostError as error:  # a full disk or a read-only workspace: the review itself is done
        warning = f"no second pass is possible: {error.message}"
        return result, _AddedReview(second_pass=SecondPassResult(warnings=(warning,)))
    offer = reviews.second_passes.offer("review_changes", review_id)
    second_pass = engine.second_pass.run(offer, assist, check=reviews.make_draft_check(review_id), cancel=call.cancel)
    if second_pass.draft is None:
        return result, _AddedReview(review_id, second_pass)
    merged = reviews.second_passes.merge_draft(
        review_id, second_pass.draft, source="model", submission_id=offer.submission_id
    )
    return merged.result, _AddedReview(review_id, second_pass, merged)


def _review_reply(
    engine: "Engine",
    tool_name: str,
    result: "ReviewResult",
    shape: str,
    began: float,
    added: _AddedReview,
    git_info: Mapping[str, Any] | None = None,
    *,
    with_brief: bool = False,
) -> Reply:
    """Return the reply of a review; `with_brief` it has the brief of a second pass, which else can be asked for."""
    from context_engine.review import format_finding, format_review, render_review, review_to_json

    if shape not in ("text", "json"):
        return Reply(render_review(result, shape, version=__version__))
    second_pass, merged = added.second_pass or SecondPassResult("host" if added.merged else "none"), added.merged
    rejected = merged.rejected[:20] if merged else ()
    warnings = [*second_pass.warnings, *(merged.warnings if merged else ())]
    is_offered = bool(second_pass.next) and not with_brief
    further = f"review_changes with only review_id {added.review_id} lets you look again"
    more: dict[str, Any] = {
        "review_id": added.review_id,
        "rejected": [pick_fields(rejection, "place reason") for rejection in rejected],
        "next": further if is_offered else second_pass.next,
    }
    chars_max = engine.settings.result_chars_max
    if shape == "text":
        if is_offered:
            del more["review_id"]  # the next step names it
        rest = format_reply(compact_json(drop_empty(more | {"warnings": warnings})))
        lines = [*format_review(result), *(line for one in result.findings for line in format_finding(one))]
        return Reply("\n".join([*keep_fitting(lines, chars_max - NOTE_CHARS - reply_size(rest)), rest]).rstrip("\n"))
    review = review_to_json(result)
    review = drop_empty(review | {"warnings": [*review["warnings"], *warnings]})
    meta = {
        "tool": tool_name,
        "ms": round((time.perf_counter() - began) * 1_000),
        "assist_used": second_pass.used,
        "tokens": second_pass.tokens and second_pass.tokens._asdict(),
        "stages_ms": {stage: round(ms, 1) for stage, ms in result.ms},
    }
    more = drop_empty(more | {"meta": drop_empty(meta)})
    room = chars_max - reply_size(compact_json([more, git_info]))
    review = add_rows(review, "findings", review.pop("findings", ()), room, least=1)
    head: dict[str, Any] = {"git_info": git_info, "review": review} if git_info else review
    return Reply(compact_json({"ok": True} | head | more))


# -- sessions ---------------------------------------------------------------------------------------------------------


@tool(touches="records")
def reactive_review_pr(
    engine: "Engine",
    call: Call,
    commit_hash: Annotated[str, TextArg("Branch or commit to review.")],
    base_ref: Annotated[str, TextArg("Compared with this.")],
    wait_s: WaitS = 0,
    *,
    changed_files: Annotated[tuple[str, ...], TextListArg("Only these files.", most=5_000)] = (),
    title: Annotated[str, TextArg("Of the pull request.")] = "",
    author: Annotated[str, TextArg("Who wrote it.")] = "",
    additions: Annotated[int | None, IntegerArg("Accepted: git counts them.", 0, 10**9)] = None,  # noqa: ARG001 - an argument of the upstream spec
    deletions: Annotated[int | None, IntegerArg("Accepted: git counts them.", 0, 10**9)] = None,  # noqa: ARG001 - an argument of the upstream spec
    max_workers: Annotated[int | None, IntegerArg("Units at a time; else the cores, 4 at most.", 1, 16)] = None,
    options: Annotated[Mapping[str, Any], ObjectArg("As of review_changes.", OPTION_FIELDS)] = {},
    resume_if_same: Annotated[bool, BooleanArg("Go on with an unfinished one.")] = True,
) -> Reply:
    """Review a large pull request in the background; get_review_status shows findings as they come."""
    began = time.monotonic()
    request = ReviewRequest(commit_hash, base_ref, changed_files, parse_review_options(options), title, author)
    sessions = engine.reviews.sessions
    workers = max_workers or min(WORKERS_MAX, os.cpu_count() or 1)
    started = sessions.start(request, workers=workers, resume_if_same=resume_if_same)
    session = started.session
    if wait_s:
        session = sessions.wait(session.id, wait_s, cancel=call.cancel, report=_report_progress(call))
    reply = {
        "ok": True,
        "session_id": session.id,
        "status": session.status,
        "total_units": session.progress.units_total,
        "reused_from_cache": started.cached,
        "resumed": started.is_same,
        "elapsed_ms": round((time.monotonic() - began) * 1_000),
    }
    units = [{"files": list(unit.paths), "est_cost": unit.cost} for unit in session.units]
    notes = {"warnings": list(sessions.outcome(session.id).get("warnings") or session.request.warnings)}
    reply |= drop_empty(notes | _session_notes(session))
    return Reply(compact_json(add_rows(reply, "units", units, engine.settings.result_chars_max)))


@tool(touches="nothing")
def get_review_status(
    engine: "Engine",
    call: Call,
    session_id: SessionId,
    cursor: Annotated[str, TextArg("Only what came since.")] = "",
    wait_s: WaitS = 0,
    *,
    include_findings: Annotated[bool, BooleanArg("With findings.")] = True,
    limit: Annotated[int, IntegerArg("Findings.", 1, 200)] = 50,
    brief: Annotated[bool, BooleanArg("When over: a brief for a second look of yours.")] = False,
) -> Reply:
    """Progress and findings of a review session; wait_s waits for news."""
    sessions = engine.reviews.sessions
    if wait_s:
        sessions.wait(session_id, wait_s, after=cursor, cancel=call.cancel, report=_report_progress(call))
    session = sessions.status(session_id)
    outcome, next_step = sessions.outcome(session_id), None
    counts = Counter(finding["priority"] for finding in sessions.findings(session_id))
    if brief and outcome:
        next_step = engine.reviews.second_passes.offer("review_changes", session_id).next()
    fields: dict[str, Any] = {
        "ok": True,
        "session": drop_empty(
            pick_fields(session, "id status")
            | pick_fields(session.request, "commit base title author")
            | {"created_at": format_timestamp(session.created_at), "updated_at": format_timestamp(session.updated_at)}
            | pick_fields(session, "error pause_reason")
        ),
        "progress": session.progress._asdict(),
        "findings_count": {name: counts[number] for number, name in enumerate(PRIORITIES)},
        **{name: outcome.get(name) for name in ("verdict", "overall_correctness", "coverage")},
        "reasons": [f"unit {at}: {unit.error}" for at, unit in enumerate(session.units, 1) if unit.error],
        "warnings": list(outcome.get("warnings") or session.request.warnings),
        "next": next_step or _next_step(session),
    }
    reply = {name: value for name, value in fields.items() if value not in (None, "", [])}
    if not include_findings:
        return Reply(compact_json(reply))
    found, next_cursor = sessions.page(session_id, cursor, limit)
    room = engine.settings.result_chars_max - len(compact_json(reply))
    shown = take_fitting_rows(found, chars_max=room, least=1)
    if len(shown) < len(found):  # the others come with the next call
        _, next_cursor = sessions.page(session_id, cursor, len(shown))
    return Reply(compact_json(reply | {"findings": shown, "next_cursor": next_cursor or None}))


@tool(touches="records")
def pause_review(engine: "Engine", session_id: SessionId, *, reason: Annotated[str, TextArg("Why.")] = "") -> Reply:
    """Pause a review session until resume_review; units under way end."""
    reviews = engine.reviews
    return _session_state_reply(engine, reviews.sessions.pause(session_id, reviews.workspace.redact(reason)))


@tool(touches="records")
def resume_review(engine: "Engine", session_id: SessionId) -> Reply:
    """Resume a paused or interrupted review session; nothing finished is repeated."""
    return _session_state_reply(engine, engine.reviews.sessions.resume(session_id))


@tool(touches="nothing")
def get_review_telemetry(engine: "Engine", session_id: SessionId) -> Reply:
    """Measured times, cache hits and findings of a review session."""
    sessions = engine.reviews.sessions
    head = {"ok": True, "session_id": session_id, "status": sessions.status(session_id).status}
    return Reply(compact_json(head | sessions.telemetry(session_id)))


def _session_state_reply(engine: "Engine", session: "ReviewSession") -> Reply:
    """Return the reply for a session that was paused or resumed."""
    head = {"ok": True, "session_id": session.id, "status": session.status, "progress": session.progress._asdict()}
    running = [(number, unit) for number, unit in enumerate(session.units, 1) if unit.state == "running"]
    rows = [{"unit": number, "files": list(unit.paths)} for number, unit in running]
    head |= drop_empty(_session_notes(session))
    return Reply(compact_json(add_rows(head, "in_flight", rows, engine.settings.result_chars_max)))


def _session_notes(session: "ReviewSession") -> dict[str, Any]:
    return {"problem": session.error, "pause_reason": session.pause_reason, "next": _next_step(session)}


def _next_step(session: "ReviewSession") -> str:
    """Return what the caller can do next; empty if nothing is left."""
    if session.status == "completed":
        return ""
    waiting = "get_review_status with wait_s waits for findings."
    return "resume_review goes on with what is not done." if session.needs_resume else waiting


def _report_progress(call: Call) -> Callable[[int, int], None]:
    """Return a function that reports the progress of a session as the progress of the call."""

    def report(files_done: int, files_total: int) -> None:
        if call.progress:
            call.progress(Progress("reviewing", files_done, files_total))

    return report
