"""The views of the page for which no tool has a reply. Each is a function of an Engine and of arguments.

The arguments come from the page and are checked here. The reply is redacted by the caller.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from context_engine.edit import diff_versions
from context_engine.errors import CallError, Conflict, InvalidArgument
from context_engine.plans import AGENT, DECISIONS, PERSON
from context_engine.repo import DiffRequest, is_sensitive
from context_engine.review import ReviewOptions, review_to_json
from context_engine.secrets import redact_file
from context_engine.settings import Settings, list_settings, user_file
from context_engine.text import parse_diff
from context_engine.tools import Call, find, parse_json_text

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.review import ReviewSession
    from context_engine.text import FileDiff

Arguments = Mapping[str, Any]
EDGES_MAX = 20_000
"""More than the page draws fluidly."""
DEPTH_MAX = 4
EDITS_MAX = 200
SKIPPED_MAX = 500
REVIEW_S = 30
SESSIONS_SHOWN_MAX = 50
HASH_CHARS = 12
DIRECTIONS = ("callers", "callees", "references", "implementations", "impact")
DIFF_LINES_MAX = 5_000
"""Of a review; the findings name their lines all the same."""
EVIDENCE_CHARS_MAX = 160


# -- index ------------------------------------------------------------------------------------------------------------


def view_health(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return the state of the index as `index_status` replies it, with more skipped files and notes on settings."""
    status = parse_json_text(find("index_status").call(engine, {}, Call()).text)
    files = [
        {"path": file.path, "reason": file.reason, "detail": file.detail}
        for file in engine.index.skipped(SKIPPED_MAX)[1]
    ]
    notes = [{"problem": problem, "advice": advice} for problem, advice in engine.settings.notes()]
    return {**status, "skipped_examples": files, "notes": notes, "root": str(engine.root)}


# -- symbols ----------------------------------------------------------------------------------------------------------


def view_graph(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return the edges around a symbol: callers, callees, or all that a change affects."""
    target, relation = _text(arguments, "symbol"), _choice(arguments, "relation", DIRECTIONS)
    depth = _number(arguments, "depth", 1, DEPTH_MAX)
    began = time.perf_counter()
    traced = engine.symbols.trace(target, relation, depth=depth, limit=EDGES_MAX)  # ty: ignore[invalid-argument-type] - checked
    found = engine.symbols.find(target, limit=1)
    edges = [
        {
            "source": edge.source,
            "target": edge.target,
            "path": edge.path,
            "line": edge.line,
            "evidence": edge.evidence.strip()[:EVIDENCE_CHARS_MAX],
            "depth": edge.depth,
            "certainty": edge.certainty,
            "uses": edge.uses,
        }
        for edge in traced.edges
    ]
    definition = found.definitions[0] if found.definitions else None
    return {
        "target": definition.qualified if definition else target,
        "path": definition.path if definition else "",
        "line": definition.span.first if definition else 0,
        "kind": definition.kind if definition else "",
        "signature": definition.signature if definition else "",
        "relation": relation,
        "edges": edges,
        "tests": list(traced.tests),
        "notes": list(traced.notes),
        "possible": traced.possible,
        "truncated": traced.truncated,
        "ms": round((time.perf_counter() - began) * 1_000),
    }


# -- edits ------------------------------------------------------------------------------------------------------------


def view_edits(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return the edits that can be undone or redone, newest first."""
    rows = [
        {
            "id": edit.undo_id,
            "at": edit.at,
            "session": edit.session,
            "undone": edit.is_undone,
            "files": [{"path": path, "change": change} for path, change in edit.files],
        }
        for edit in engine.edits.history(EDITS_MAX)
    ]
    return {"edits": rows}


def view_edit(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return the diff of each file of an edit, as far as its versions are known."""
    files: list[dict[str, Any]] = []
    lines_left = DIFF_LINES_MAX
    for version in engine.edits.past_versions(_text(arguments, "id")):
        row: dict[str, Any] = {
            "path": version.path,
            "old_path": version.path,
            "kind": "modified",
            "note": "",
            "hunks": [],
        }
        diff = diff_versions("file", version.before, version.after)
        if not version.is_known:
            row["note"] = "not shown: another program changed the file since"
        elif diff:
            parsed = replace(parse_diff(diff).files[0], old_path=version.path, new_path=version.path)
            row = _diff_file(parsed, lines_left) | {"kind": parsed.kind}
            lines_left -= sum(len(hunk["lines"]) for hunk in row["hunks"])
        elif version.before != version.after:
            row["note"] = "not shown: binary, empty or long"
        files.append(row)
    return {"files": files}


# -- reviews ----------------------------------------------------------------------------------------------------------


def view_sessions(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return the stored reviews, newest first."""
    rows = [
        {
            "id": session.id,
            "status": session.status,
            "title": session.request.title,
            "commit": session.request.commit[:HASH_CHARS],
            "base": session.request.base[:HASH_CHARS],
            "at": session.created_at,
            "findings": len(engine.reviews.sessions.findings(session.id)),
        }
        for session in engine.reviews.sessions.newest(SESSIONS_SHOWN_MAX)
    ]
    return {"sessions": rows}


def view_session(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return a stored review with the diff that it is about, as `view_review` does for a new one."""
    session_id = _text(arguments, "id")
    session = engine.reviews.sessions.status(session_id)
    request = session.request
    review = dict(engine.reviews.sessions.outcome(session_id))
    review = review or _describe_running(session, engine.reviews.sessions.findings(session_id))
    try:
        text = engine.reviews.workspace.diffs.read_diff(DiffRequest(f"{request.base}...{request.commit}")).text
    except CallError as error:
        text = ""
        review["warnings"] = [*review["warnings"], f"its diff cannot be read any more: {error.message}"]
    return {"review": review, "files": _diff_files(text, request.paths)}


def view_review(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return the findings of a change, and its diff without files that may hold secrets."""
    request = DiffRequest(_text(arguments, "target"), _text(arguments, "base", ""), include_untracked=True)
    taken, change = engine.reviews.read_git_change(request)
    result = engine.reviews.review(change, ReviewOptions(max_findings=100, time_budget_s=REVIEW_S))
    git = {"target": taken.target, "base": taken.base, "commit": taken.commit, "base_commit": taken.base_commit}
    return {"git": git, "review": review_to_json(result), "files": _diff_files(taken.text)}


def _describe_running(session: ReviewSession, findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a review that is not finished in the fields of a finished one."""
    done = [path for unit in session.units if unit.state == "done" for path in unit.paths]
    count = sum(len(unit.paths) for unit in session.units)
    return {
        "findings": list(findings),
        "headline": session.status,
        "coverage": {"files": count, "files_reviewed": len(done), "files_skipped": []},
        "warnings": list(session.request.warnings),
    }


def _diff_files(diff: str, paths: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the files of a diff, or only these; of a long diff only the beginning."""
    lines_left = DIFF_LINES_MAX
    files: list[dict[str, Any]] = []
    for file in parse_diff(diff).files:
        if not paths or file.path in paths:
            files.append(_diff_file(file, lines_left))
            lines_left -= sum(len(hunk["lines"]) for hunk in files[-1]["hunks"])
    return files


def _diff_file(file: FileDiff, lines_max: int) -> dict[str, Any]:
    """Return a file of a diff without its secrets; of a long one only the beginning."""
    row: dict[str, Any] = {"path": file.path, "old_path": file.old_path, "kind": file.kind, "note": "", "hunks": []}
    if file.is_binary:
        return row | {"note": "binary"}
    if is_sensitive(file.path) or is_sensitive(file.old_path or file.path):
        return row | {"note": "not shown: files of this name often contain secrets"}
    count = sum(len(hunk.lines) for hunk in file.hunks)
    if count > max(lines_max, 0):
        return row | {"note": f"not shown: {count:,} lines, and the page shows {DIFF_LINES_MAX:,}"}
    texts = [line.text for hunk in file.hunks for line in hunk.lines]
    redacted = iter(redact_file("\n".join(texts), file.path).split("\n"))
    row["hunks"] = [
        {
            "section": hunk.section,
            "lines": [[line.mark, line.old, line.new, next(redacted, "")] for line in hunk.lines],
        }
        for hunk in file.hunks
    ]
    return row


# -- plans ------------------------------------------------------------------------------------------------------------


def decide_plan(engine: Engine, arguments: Arguments, *, is_person: bool) -> dict[str, Any]:
    """Record a decision about a plan: about its pending request, or a new one for the plan as it is now.

    `version` is the one that was looked at. Raises: Conflict if the plan has changed since.
    """
    plan_id, action = _text(arguments, "plan_id"), _choice(arguments, "action", DECISIONS)
    approvals = engine.plans.approvals
    loaded = engine.plans.repository.load(plan_id)
    looked_at = _number(arguments, "version", 1, 1_000_000)
    if loaded.version.version != looked_at:
        raise Conflict(
            f"the plan is at version {loaded.version.version}, not {looked_at}",
            suggestion="Look at the newest version, then decide.",
            details={"current": loaded.version.version},
        )
    pending = [approval.id for approval in loaded.approvals if approval.status == "pending"]
    request_id = _text(arguments, "request_id", "") or next(iter(pending), "")
    if not request_id:
        request_id = approvals.request(plan_id, actor=PERSON).approval.id
    outcome = approvals.respond(
        request_id,
        action,
        comment=_text(arguments, "comment", ""),
        modifications=_text(arguments, "changes", ""),
        by=PERSON if is_person else AGENT,
    )
    return {"ok": True, "request": outcome.approval.id, "status": outcome.approval.status}


# -- settings ---------------------------------------------------------------------------------------------------------


def view_settings(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return every setting with its value, its meaning, and where the value comes from."""
    sources = Settings.find_sources(engine.root)
    rows = [
        {
            "name": name,
            "value": _as_text(getattr(engine.settings, name)),
            "default": _as_text(default),
            "source": sources.get(name, "default"),
            "meaning": known.meaning,
            "repository": known.repository,
        }
        for name, (default, known) in list_settings().items()
    ]
    notes = [{"problem": problem, "advice": advice} for problem, advice in engine.settings.notes()]
    return {"settings": rows, "user_file": str(user_file()), "notes": notes}


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


# -- arguments --------------------------------------------------------------------------------------------------------


def _text(arguments: Arguments, name: str, default: str | None = None) -> str:
    """Return a text. Raises: InvalidArgument."""
    value = arguments.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise InvalidArgument(f"{name} must be a text", details={"argument": name})
    return value.strip()


def _choice(arguments: Arguments, name: str, choices: tuple[str, ...]) -> str:
    value = _text(arguments, name)
    if value not in choices:
        raise InvalidArgument(f"{name} is one of {', '.join(choices)}", details={"argument": name})
    return value


def _number(arguments: Arguments, name: str, least: int, most: int) -> int:
    value = arguments.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidArgument(f"{name} is a number from {least} to {most:,}", details={"argument": name})
    return value
