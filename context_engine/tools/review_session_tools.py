"""Tools for reviews that last: a change is reviewed in units, in the background, and can be watched, paused and resumed."""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.model import Progress
from context_engine.review import session_lifecycle
from context_engine.review.finding import PRIORITIES
from context_engine.review.review_request import ReviewRequest
from context_engine.storage.timestamps import format_timestamp
from context_engine.tools.arguments import BooleanArg, IntegerArg, ObjectArg, TextArg, TextListArg
from context_engine.tools.review_arguments import options_of
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import compact_json, drop_empty, take_fitting_rows

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.review.review_sessions import ReviewSessions, SessionView

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
    request = ReviewRequest(commit_hash, base_ref, changed_files, options_of(options), title, author)
    sessions = engine.reviews.sessions
    started = sessions.start(
        request, workers=max_workers or min(WORKERS_MAX, os.cpu_count() or 1), resume_if_same=resume_if_same
    )
    seen = started.view
    if wait_s:
        seen = sessions.wait(seen.session.id, wait_s, cancel=call.cancel, tell=_teller(call))
    told = {
        "ok": True,
        "session_id": seen.session.id,
        "status": seen.status,
        "total_units": seen.progress.units_total,
        "reused_from_cache": started.known,
        "resumed": started.is_same,
        "elapsed_ms": round((time.monotonic() - began) * 1_000),
    }
    units = [{"files": list(unit.paths), "est_cost": unit.cost} for unit in seen.units]
    rest = {"warnings": _warnings(sessions, seen), "problem": seen.problem, "next": _next_step(seen)}
    return Reply(compact_json(told | drop_empty(rest) | {"units": _fitting(engine, units)}))


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
        sessions.wait(session_id, wait_s, after=cursor, cancel=call.cancel, tell=_teller(call))
    seen = sessions.status(session_id)
    found = sessions.findings(session_id)
    told: dict[str, Any] = {
        "ok": True,
        "session": _session(seen, sessions),
        "progress": _progress(seen),
        "findings_count": _counts(found),
        "verdict": seen.outcome.get("verdict"),
        "overall_correctness": seen.outcome.get("overall_correctness"),
        "coverage": seen.outcome.get("coverage"),
        "reasons": [f"unit {unit.number}: {unit.error}" for unit in seen.units if unit.state == "failed"],
        "warnings": _warnings(sessions, seen),
        "next": engine.reviews.second_passes.offer("review_changes", session_id).next()
        if brief and seen.outcome
        else _next_step(seen),
    }
    told = {name: value for name, value in told.items() if value not in (None, "", [])}
    if not include_findings:
        return Reply(compact_json(told))
    page = sessions.page(session_id, cursor, limit)
    room = engine.settings.result_chars_max - len(compact_json(told))
    shown = take_fitting_rows(page.findings, chars_max=room, least=1)
    if len(shown) < len(page.findings):  # what has no room comes with the next call
        page = sessions.page(session_id, cursor, len(shown))
    return Reply(compact_json(told | {"findings": shown, "next_cursor": page.cursor or None}))


@tool(touches="records", rare=("reason",))
def pause_review(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    session_id: SessionId,
    reason: Annotated[str, TextArg("Why.")] = "",
) -> Reply:
    """Pause a review session until resume_review; units under way end."""
    return _standing(engine, engine.reviews.sessions.pause(session_id, engine.reviews.scrub(reason)))


@tool(touches="records")
def resume_review(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    session_id: SessionId,
) -> Reply:
    """Resume a paused or interrupted review session; nothing finished is repeated."""
    return _standing(engine, engine.reviews.sessions.resume(session_id))


@tool(touches="nothing")
def get_review_telemetry(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    session_id: SessionId,
) -> Reply:
    """Measured times, cache hits and findings of a review session."""
    seen = engine.reviews.sessions.status(session_id)
    measured = engine.reviews.sessions.telemetry(session_id)
    return Reply(compact_json({"ok": True, "session_id": session_id, "status": seen.status, **measured}))


def _standing(engine: "Engine", seen: "SessionView") -> Reply:
    """Where a session stands after it was paused or resumed."""
    told = {"ok": True, "session_id": seen.session.id, "status": seen.status, "progress": _progress(seen)}
    in_flight = [{"unit": unit.number, "files": list(unit.paths)} for unit in seen.units if unit.state == "running"]
    rest = {"problem": seen.problem, "next": _next_step(seen)}
    return Reply(compact_json(told | {"in_flight": _fitting(engine, in_flight)} | drop_empty(rest)))


def _session(seen: "SessionView", sessions: "ReviewSessions") -> dict[str, Any]:
    session, request = seen.session, sessions.request(seen.session)
    ended = [unit.ended_at for unit in seen.units if unit.ended_at]
    told = {
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
    return drop_empty(told)


def _progress(seen: "SessionView") -> dict[str, int]:
    far = seen.progress
    return {
        "units_done": far.units_done,
        "units_failed": far.units_failed,
        "units_total": far.units_total,
        "files_done": far.files_done,
        "files_total": far.files_total,
        "percentage": far.percentage,
    }


def _counts(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counted = Counter(each["priority"] for each in found)
    return {name: counted[number] for number, name in enumerate(PRIORITIES)}


def _warnings(sessions: "ReviewSessions", seen: "SessionView") -> list[str]:
    return list(seen.outcome.get("warnings") or sessions.request(seen.session).warnings)


def _next_step(seen: "SessionView") -> str:
    """What is left to do for whoever asked."""
    if seen.status == "completed":
        return ""
    if seen.status in session_lifecycle.AT_REST or seen.status == "queued":
        return "resume_review goes on with what is not done."
    return "get_review_status with wait_s waits for findings."


def _teller(call: Call) -> Callable[[session_lifecycle.SessionProgress], None]:
    """Progress of a session as progress of a call."""

    def tell(far: session_lifecycle.SessionProgress) -> None:
        if call.progress:
            call.progress(Progress("reviewing", far.files_done, far.files_total))

    return tell


def _fitting(engine: "Engine", rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return take_fitting_rows(rows, chars_max=engine.settings.result_chars_max)
