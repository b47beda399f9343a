"""Tools that review a change: a diff as text, or what git says has changed.

What checks find; then, perhaps, a second look.

They change nothing: what is kept for a second look is a copy of the reply, of which the newest two hundred stay.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine import __version__
from context_engine.context.refinement import ASSIST_MODES, SecondPassResult
from context_engine.errors import HostError, InvalidArgument, NextStep, TooLarge
from context_engine.model import Progress
from context_engine.review import session_lifecycle
from context_engine.review.finding import CATEGORIES, PRIORITIES
from context_engine.review.review_options import FAIL_ON, ReviewOptions
from context_engine.review.review_request import ReviewRequest
from context_engine.storage.timestamps import format_timestamp
from context_engine.text.diff import DIFF_BYTES_MAX
from context_engine.tools.arguments import (
    BooleanArg,
    ChoiceArg,
    FractionArg,
    IntegerArg,
    ObjectArg,
    Parameter,
    TextArg,
    TextListArg,
    bind,
)
from context_engine.tools.edit_arguments import ContentArg
from context_engine.tools.reply import compact_json, drop_empty, reply_size, take_fitting_rows
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.review.review_run import ReviewedChange
    from context_engine.review.review_sessions import ReviewSessions, SessionView
    from context_engine.review.second_pass import MergedReview
    from context_engine.review.verdict import ReviewResult

FORMATS = ("json", "markdown", "sarif", "rdjson")
ID_CHARS = 100
PATTERNS_MAX = 200
INSTRUCTIONS_CHARS = 4_000
REJECTED_MAX = 20

Categories = Annotated[tuple[str, ...], TextListArg("Only these.", CATEGORIES)]
Threshold = Annotated[float, FractionArg("Least confidence.")]
MaxFindings = Annotated[int, IntegerArg("Findings told.", 1, 100)]
Excluded = Annotated[tuple[str, ...], TextListArg("Globs to leave out.", most=PATTERNS_MAX)]
Instructions = Annotated[str, TextArg("For a second pass.", 0, INSTRUCTIONS_CHARS)]
Invariants = Annotated[str, TextArg("File of rules; else .review-invariants.yml.")]
Analyzers = Annotated[tuple[str, ...], TextListArg("auto, none, or names such as ruff.")]
FailOn = Annotated[str, ChoiceArg("From which priority on it fails.", tuple(each.lower() for each in FAIL_ON))]
Known = Annotated[tuple[str, ...], TextListArg("Ids of findings that are known.", most=1_000)]
Budget = Annotated[int, IntegerArg("Seconds.", 1, 600)]
Format = Annotated[str, ChoiceArg("Of the reply.", FORMATS)]
Assist = Annotated[str, ChoiceArg("Who looks again.", ASSIST_MODES)]
Draft = Annotated[Mapping[str, Any] | None, ObjectArg("Your own, by next.schema.")]
ReviewId = Annotated[str, TextArg("Of the review they belong to.", 0, ID_CHARS)]
Submission = Annotated[str, TextArg("As in next.", 0, ID_CHARS)]

ASKED_RARELY = (
    *(
        "categories",
        "confidence_threshold",
        "max_findings",
        "changed_lines_only",
        "exclude_patterns",
        "custom_instructions",
    ),
    *("invariants_path", "analyzers", "allow_ids", "time_budget_s", "assist", "findings", "review_id", "submission_id"),
)


@tool(touches="nothing", rare=(*ASKED_RARELY, "file_contexts", "base_ref", "format"))
def review_changes(
    engine: "Engine",
    call: Call,
    diff: Annotated[str, ContentArg("Unified diff.")] = "",
    file_contexts: Annotated[Mapping[str, Any], ObjectArg("Path to its new content.")] = {},
    base_ref: Annotated[str, TextArg("What the diff starts from.")] = "",
    categories: Categories = (),
    confidence_threshold: Threshold = 0.7,
    max_findings: MaxFindings = 20,
    changed_lines_only: Annotated[bool, BooleanArg("P0 is told wherever it is.")] = True,
    exclude_patterns: Excluded = (),
    custom_instructions: Instructions = "",
    invariants_path: Invariants = "",
    analyzers: Analyzers = ("auto",),
    fail_on: FailOn = "none",
    allow_ids: Known = (),
    time_budget_s: Budget = 30,
    format: Format = "json",  # noqa: A002 - the word of the contract
    assist: Assist = "auto",
    findings: Draft = None,
    review_id: ReviewId = "",
    submission_id: Submission = "",
) -> Reply:
    """Review a diff: bugs, secrets, broken callers, unsafe calls. Only what is new on changed lines."""
    began = time.perf_counter()
    if findings is not None or review_id:
        again = _again(engine, findings, review_id, submission_id)
        return _reply(engine, "review_changes", again.result, format, began, again=again, review_id=review_id)
    if not diff.strip():
        raise InvalidArgument(
            "diff is empty",
            suggestion="Send a unified diff.",
            next_steps=NextStep("review_git_diff", "to let git make it"),
        )
    if len(diff.encode("utf-8", "replace")) > DIFF_BYTES_MAX:
        raise TooLarge(
            f"the diff has more than {DIFF_BYTES_MAX:,} bytes",
            suggestion="Review it commit by commit.",
            next_steps=NextStep("review_git_diff", "for each commit"),
        )
    fields = {
        "categories": categories,
        "confidence_threshold": confidence_threshold,
        "max_findings": max_findings,
        "changed_lines_only": changed_lines_only,
        "exclude_patterns": exclude_patterns,
        "custom_instructions": custom_instructions,
        "invariants_path": invariants_path,
        "analyzers": analyzers,
        "fail_on": fail_on,
        "allow_ids": allow_ids,
        "time_budget_s": time_budget_s,
    }
    change = engine.reviews.read_diff(diff, contexts=_texts(file_contexts), base_ref=base_ref)
    return _reviewed(engine, call, "review_changes", change, parse_options(fields), assist, format, began)


@tool(touches="nothing", rare=("include_patterns", "context_lines", "include_untracked", "options", "format", "assist"))
def review_git_diff(
    engine: "Engine",
    call: Call,
    target: Annotated[str, TextArg("staged, unstaged, head, a ref, a commit, a..b or a...b.")] = "staged",
    base: Annotated[str, TextArg("Compared with this.")] = "",
    include_patterns: Annotated[tuple[str, ...], TextListArg("Globs to keep.", most=PATTERNS_MAX)] = (),
    context_lines: Annotated[int, IntegerArg("Around each hunk.", 0, 50)] = 3,
    include_untracked: Annotated[bool, BooleanArg("New files too.")] = False,
    options: Annotated[Mapping[str, Any], ObjectArg("As of review_changes.")] = {},
    format: Format = "json",  # noqa: A002 - the word of the contract
    assist: Assist = "auto",
) -> Reply:
    """Review what git says has changed: the stage, the work tree, a branch or a commit."""
    from context_engine.repo.git_diffs import DiffRequest

    began = time.perf_counter()
    wanted = parse_options(options)
    asked = DiffRequest(target, base, context_lines, include_untracked)
    taken, change = engine.reviews.read_git_change(asked, include_patterns=include_patterns)
    about = {
        "target": taken.target,
        "base": taken.base,
        "merge_base": taken.merge_base,
        "command": taken.command,
        "files_changed": len(change.files),
        "stats": {
            "added": sum(len(file.added) for file in change.files),
            "removed": sum(len(file.removed) for file in change.files),
        },
        "renames": [{"from": each.old_path, "to": each.path} for each in change.files if each.kind == "renamed"],
    }
    return _reviewed(engine, call, "review_git_diff", change, wanted, assist, format, began, git_info=about)


def _reviewed(
    engine: "Engine",
    call: Call,
    name: str,
    change: "ReviewedChange",
    options: ReviewOptions,
    assist: str,
    shape: str,
    began: float,
    git_info: Mapping[str, Any] | None = None,
) -> Reply:
    """Review a change, keep it for a second look, and let a model have that look where there is one."""
    reviewed = engine.reviews.review(change, options, cancel=call.cancel)
    if assist == "off":
        return _reply(engine, name, reviewed, shape, began, git_info=git_info)
    try:
        review_id = engine.reviews.keep_for_second_pass(reviewed, options, change)
    except HostError as error:  # a full disk, a workspace that nobody may write to: the review itself is done
        alone = SecondPassResult(warnings=(f"no second look can be taken: {error.message}",))
        return _reply(engine, name, reviewed, shape, began, git_info=git_info, climbed=alone)
    climbed, again = _climbed(engine, call, review_id, assist)
    reviewed = again.result if again else reviewed
    return _reply(
        engine, name, reviewed, shape, began, git_info=git_info, again=again, climbed=climbed, review_id=review_id
    )


def _climbed(
    engine: "Engine", call: Call, review_id: str, assist: str
) -> "tuple[SecondPassResult, MergedReview | None]":
    """How far a model takes the review, and what it says then."""
    second = engine.reviews.second_passes.offer("review_changes", review_id)
    climbed = engine.second_pass.run(second, assist, check=engine.reviews.wrong_with(review_id), cancel=call.cancel)
    if climbed.draft is None:
        return climbed, None
    taken = engine.reviews.second_passes.merge_draft(
        review_id, climbed.draft, source="model", submission_id=second.submission_id
    )
    return climbed, taken


def _again(engine: "Engine", findings: Any, review_id: str, submission_id: str) -> "MergedReview":
    """What a review says with the findings that the caller hands in."""
    if findings is None or not review_id:
        raise InvalidArgument(
            "findings and review_id belong together",
            suggestion="Send both as the reply of the review says under next, or neither.",
        )
    return engine.reviews.second_passes.merge_draft(review_id, findings, source="host", submission_id=submission_id)


def _reply(
    engine: "Engine",
    name: str,
    reviewed: "ReviewResult",
    shape: str,
    began: float,
    *,
    git_info: Mapping[str, Any] | None = None,
    again: "MergedReview | None" = None,
    climbed: SecondPassResult | None = None,
    review_id: str = "",
) -> Reply:
    """A review as it is answered."""
    if shape != "json":
        return Reply(rendered(reviewed, shape))
    from context_engine.review.review_replies import review_to_json

    told = review_to_json(reviewed)
    used = climbed.used if climbed else "host" if again else "none"
    tokens = climbed.tokens._asdict() if climbed and climbed.tokens else None
    rejected = again.rejected if again else ()
    more = {
        "review_id": review_id,
        "rejected": [{"place": each.place, "reason": each.reason} for each in rejected[:REJECTED_MAX]],
        "next": climbed.next if climbed else None,
    }
    told["warnings"] += [*(climbed.warnings if climbed else ()), *(again.warnings if again else ())]
    meta = {"tool": name, "ms": round((time.perf_counter() - began) * 1_000), "assist_used": used, "tokens": tokens}
    meta["stages_ms"] = {stage: round(ms, 1) for stage, ms in reviewed.ms}
    head = {"ok": True, **({"git_info": git_info} if git_info else {})}
    whole = head | {"review": told} if git_info else head | told
    whole |= drop_empty(more) | {"meta": drop_empty(meta)}
    return Reply(_fitting(whole, told, engine.settings.result_chars_max))


def rendered(reviewed: "ReviewResult", shape: str) -> str:
    """A review as people or other programs read it."""
    from context_engine.review.rdjson import render_rdjson
    from context_engine.review.review_markdown import render_markdown
    from context_engine.review.sarif import render_sarif

    if shape == "sarif":
        return render_sarif(reviewed, version=__version__)
    return render_rdjson(reviewed) if shape == "rdjson" else render_markdown(reviewed)


def _fitting(whole: dict[str, Any], told: dict[str, Any], chars_max: int) -> str:
    """The reply with as many findings as have room; the others are counted."""
    rows: Sequence[Mapping[str, Any]] = told["findings"]
    told["findings"] = []
    room = chars_max - reply_size(compact_json(whole))
    told["findings"] = take_fitting_rows(rows, chars_max=room, least=1)
    if len(told["findings"]) < len(rows):
        told["findings_left_out"] = len(rows) - len(told["findings"])
    return compact_json(whole)


def _texts(contexts: Mapping[str, Any]) -> Mapping[str, str]:
    """Paths and their texts. Raises: InvalidArgument."""
    wrong = [path for path, text in contexts.items() if not isinstance(text, str)]
    if wrong:
        raise InvalidArgument(
            f"file_contexts: the content of {wrong[0]!r} is no text", suggestion='Write {"path": "its new content"}.'
        )
    return contexts


ANALYZERS = ("auto", "none")

OPTIONS = (
    Parameter("categories", TextListArg("Only these kinds.", CATEGORIES), ()),
    Parameter("confidence_threshold", FractionArg("Least confidence."), 0.7),
    Parameter("max_findings", IntegerArg("Findings told.", 1, 100), 20),
    Parameter("changed_lines_only", BooleanArg("P0 is told wherever it is."), True),
    Parameter("exclude_patterns", TextListArg("Not these files: globs.", most=PATTERNS_MAX), ()),
    Parameter("custom_instructions", TextArg("For a second pass.", 0, INSTRUCTIONS_CHARS), ""),
    Parameter("invariants_path", TextArg("Rules; else .review-invariants.yml."), ""),
    Parameter("analyzers", TextListArg("auto, none, or names such as ruff."), ("auto",)),
    Parameter(
        "fail_on", ChoiceArg("From which priority on it fails.", tuple(each.lower() for each in FAIL_ON)), "none"
    ),
    Parameter("allow_ids", TextListArg("Findings that are known.", most=1_000), ()),
    Parameter("time_budget_s", IntegerArg("Seconds.", 1, 600), 30),
)


def parse_options(fields: Mapping[str, Any]) -> ReviewOptions:
    """The options that an object of arguments means. Raises: InvalidArgument, naming what is wrong with which."""
    given = bind(OPTIONS, dict(fields))
    analyzers = given.pop("analyzers")
    fail_on = given.pop("fail_on")
    categories = given.pop("categories") or CATEGORIES
    return ReviewOptions(
        **given,
        categories=tuple(categories),
        analyzers=analyzers[0] if analyzers in (("auto",), ("none",)) else analyzers,
        fail_on=fail_on if fail_on == "none" else fail_on.upper(),
    )


WAIT_S_MAX = 55
"""Most clients give a call a minute."""
FILES_NAMED_MAX = 5_000
WORKERS_MAX = 4
"""Python threads share one core for most of a review; more of them wait for each other."""

SessionId = Annotated[str, TextArg("Its id.")]
WaitS = Annotated[int, IntegerArg("Wait so many seconds.", 0, WAIT_S_MAX)]


@tool(
    touches="records",
    rare=(*("changed_files", "title", "author", "additions", "deletions", "max_workers", "options", "resume_if_same"),),
)
def reactive_review_pr(
    engine: "Engine",
    call: Call,
    commit_hash: Annotated[str, TextArg("Branch or commit to review.", 1)],
    base_ref: Annotated[str, TextArg("Compared with this.", 1)],
    changed_files: Annotated[tuple[str, ...], TextListArg("Only these files.", most=FILES_NAMED_MAX)] = (),
    title: Annotated[str, TextArg("Of the pull request.")] = "",
    author: Annotated[str, TextArg("Who wrote it.")] = "",
    additions: Annotated[int | None, IntegerArg("Accepted: git counts them.", 0, 10**9)] = None,  # noqa: ARG001 - a name of the seed
    deletions: Annotated[int | None, IntegerArg("Accepted: git counts them.", 0, 10**9)] = None,  # noqa: ARG001 - a name of the seed
    max_workers: Annotated[int | None, IntegerArg("Units at a time; else the cores, 4 at most.", 1, 16)] = None,
    options: Annotated[Mapping[str, Any], ObjectArg("As of review_changes.")] = {},
    wait_s: WaitS = 0,
    resume_if_same: Annotated[bool, BooleanArg("Go on with an unfinished one.")] = True,
) -> Reply:
    """Review a large pull request in the background; get_review_status shows findings as they come."""
    began = time.monotonic()
    request = ReviewRequest(commit_hash, base_ref, changed_files, parse_options(options), title, author)
    sessions = engine.reviews.sessions
    started = sessions.start(
        request, workers=max_workers or min(WORKERS_MAX, os.cpu_count() or 1), resume_if_same=resume_if_same
    )
    seen = started.view
    if wait_s:
        seen = sessions.wait(seen.session.id, wait_s, cancel=call.cancel, tell=_report_progress(call))
    reply = {
        "ok": True,
        "session_id": seen.session.id,
        "status": seen.status,
        "total_units": seen.progress.units_total,
        "reused_from_cache": started.known,
        "resumed": started.is_same,
        "elapsed_ms": round((time.monotonic() - began) * 1_000),
    }
    units = [{"files": list(unit.paths), "est_cost": unit.cost} for unit in seen.units]
    rest = {"warnings": _session_warnings(sessions, seen), "problem": seen.problem, "next": _next_session_step(seen)}
    return Reply(compact_json(reply | drop_empty(rest) | {"units": _fit_rows(engine, units)}))


@tool(touches="nothing", rare=("include_findings", "limit", "brief"))
def get_review_status(
    engine: "Engine",
    call: Call,
    session_id: SessionId,
    include_findings: Annotated[bool, BooleanArg("With findings.")] = True,
    cursor: Annotated[str, TextArg("Only what came since.")] = "",
    limit: Annotated[int, IntegerArg("Findings.", 1, 200)] = 50,
    wait_s: WaitS = 0,
    brief: Annotated[bool, BooleanArg("When over: a brief for a second look of yours.")] = False,
) -> Reply:
    """Progress and findings of a review session; wait_s waits for news."""
    sessions = engine.reviews.sessions
    if wait_s:
        sessions.wait(session_id, wait_s, after=cursor, cancel=call.cancel, tell=_report_progress(call))
    seen = sessions.status(session_id)
    found = sessions.findings(session_id)
    reply: dict[str, Any] = {
        "ok": True,
        "session": _session_row(seen, sessions),
        "progress": _progress_row(seen),
        "findings_count": _count_priorities(found),
        "verdict": seen.outcome.get("verdict"),
        "overall_correctness": seen.outcome.get("overall_correctness"),
        "coverage": seen.outcome.get("coverage"),
        "reasons": [f"unit {unit.number}: {unit.error}" for unit in seen.units if unit.state == "failed"],
        "warnings": _session_warnings(sessions, seen),
        "next": engine.reviews.second_passes.offer("review_changes", session_id).next()
        if brief and seen.outcome
        else _next_session_step(seen),
    }
    reply = {name: value for name, value in reply.items() if value not in (None, "", [])}
    if not include_findings:
        return Reply(compact_json(reply))
    page = sessions.page(session_id, cursor, limit)
    room = engine.settings.result_chars_max - len(compact_json(reply))
    shown = take_fitting_rows(page.findings, chars_max=room, least=1)
    if len(shown) < len(page.findings):  # what has no room comes with the next call
        page = sessions.page(session_id, cursor, len(shown))
    return Reply(compact_json(reply | {"findings": shown, "next_cursor": page.cursor or None}))


@tool(touches="records", rare=("reason",))
def pause_review(
    engine: "Engine",
    session_id: SessionId,
    reason: Annotated[str, TextArg("Why.")] = "",
) -> Reply:
    """Pause a review session until resume_review; units under way end."""
    return _session_state_reply(engine, engine.reviews.sessions.pause(session_id, engine.reviews.scrub(reason)))


@tool(touches="records")
def resume_review(
    engine: "Engine",
    session_id: SessionId,
) -> Reply:
    """Resume a paused or interrupted review session; nothing finished is repeated."""
    return _session_state_reply(engine, engine.reviews.sessions.resume(session_id))


@tool(touches="nothing")
def get_review_telemetry(
    engine: "Engine",
    session_id: SessionId,
) -> Reply:
    """Measured times, cache hits and findings of a review session."""
    seen = engine.reviews.sessions.status(session_id)
    measured = engine.reviews.sessions.telemetry(session_id)
    return Reply(compact_json({"ok": True, "session_id": session_id, "status": seen.status, **measured}))


def _session_state_reply(engine: "Engine", seen: "SessionView") -> Reply:
    """Where a session stands after it was paused or resumed."""
    reply = {"ok": True, "session_id": seen.session.id, "status": seen.status, "progress": _progress_row(seen)}
    in_flight = [{"unit": unit.number, "files": list(unit.paths)} for unit in seen.units if unit.state == "running"]
    rest = {"problem": seen.problem, "next": _next_session_step(seen)}
    return Reply(compact_json(reply | {"in_flight": _fit_rows(engine, in_flight)} | drop_empty(rest)))


def _session_row(seen: "SessionView", sessions: "ReviewSessions") -> dict[str, Any]:
    session, request = seen.session, sessions.request(seen.session)
    ended = [unit.ended_at for unit in seen.units if unit.ended_at]
    reply = {
        "id": session.id,
        "status": seen.status,
        "commit": request.commit,
        "base": request.base,
        "title": request.title,
        "author": request.author,
        "created_at": format_timestamp(session.created_at),
        "updated_at": format_timestamp(max([session.updated_at, *ended])),
        "error": seen.problem,
    }
    return drop_empty(reply)


def _progress_row(seen: "SessionView") -> dict[str, int]:
    far = seen.progress
    return {
        "units_done": far.units_done,
        "units_failed": far.units_failed,
        "units_total": far.units_total,
        "files_done": far.files_done,
        "files_total": far.files_total,
        "percentage": far.percentage,
    }


def _count_priorities(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counted = Counter(each["priority"] for each in found)
    return {name: counted[number] for number, name in enumerate(PRIORITIES)}


def _session_warnings(sessions: "ReviewSessions", seen: "SessionView") -> list[str]:
    return list(seen.outcome.get("warnings") or sessions.request(seen.session).warnings)


def _next_session_step(seen: "SessionView") -> str:
    """What is left to do for whoever asked."""
    if seen.status == "completed":
        return ""
    if seen.status in session_lifecycle.AT_REST or seen.status == "queued":
        return "resume_review goes on with what is not done."
    return "get_review_status with wait_s waits for findings."


def _report_progress(call: Call) -> Callable[[session_lifecycle.SessionProgress], None]:
    """Progress of a session as progress of a call."""

    def tell(far: session_lifecycle.SessionProgress) -> None:
        if call.progress:
            call.progress(Progress("reviewing", far.files_done, far.files_total))

    return tell


def _fit_rows(engine: "Engine", rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return take_fitting_rows(rows, chars_max=engine.settings.result_chars_max)
