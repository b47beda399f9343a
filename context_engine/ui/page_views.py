"""The views of the page for which no tool has a reply. Each is a function of an Engine and of arguments.

The arguments come from the page and are checked here. The reply is redacted by the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from context_engine.edit import diff_versions
from context_engine.errors import CallError, Conflict, InvalidArgument, PreconditionFailed
from context_engine.plans import AGENT, DECISIONS, PERSON
from context_engine.repo import DiffRequest, is_sensitive
from context_engine.review import ReviewOptions, review_to_json
from context_engine.secrets import redact_file
from context_engine.server import cancel_call, gain_file, read_call_texts
from context_engine.settings import EDITORS, Settings, list_settings, user_file
from context_engine.storage import workspace_id
from context_engine.text import format_count, format_size, parse_diff
from context_engine.tools import Call, find, parse_json_text

if TYPE_CHECKING:
    from context_engine.engine import Engine
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
DIRECTIONS = ("callers", "callees", "impact")
DIFF_LINES_MAX = 5_000
"""Of a review; the findings name their lines all the same."""
EVIDENCE_CHARS_MAX = 160
LEADERS = {
    "embedding_": "embedder",
    "store_": "store_url",
    "assist_": "assist_address",
    "call_": "gain",
    "quiet_": "watch",
}
"""The beginnings of settings that change nothing while another one is off."""
OFF = ("", "false", "none", "off")
WHEN_OFF = {
    "access_scoring": "off: each file counts alike",
    "assist_address": "off: no model is asked",
    "editor": "off: no path is a link",
    "embedder": "off: no vectors are made",
    "gain": "off: no calls are counted, and none is shown here",
    "rate_limits_per_minute": "only the built-in limits hold",
    "review_programs": "off: no analyzer may run code of the project",
    "store_url": "off: the index stays on this machine",
    "verify_commands": "off: no command verifies a step",
    "watch": "off: files are looked at before each answer",
}


def view_health(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return the state of the index as `index_status` replies it, with more skipped files and notes on settings."""
    status = parse_json_text(find("index_status").call(engine, {}, Call()).text)
    files = [_pick(file, "path", "reason", "detail") for file in engine.index.store.count_skipped(SKIPPED_MAX)[1]]
    return {**status, "skipped_examples": files, "notes": _list_notes(engine), "root": str(engine.root)}


def view_graph(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return the edges around a symbol: callers, callees, or all that a change affects."""
    target, relation = _text(arguments, "symbol"), _choice(arguments, "relation", DIRECTIONS)
    depth = _number(arguments, "depth", 1, DEPTH_MAX)
    traced = engine.symbols.trace(target, relation, depth=depth, limit=EDGES_MAX)  # ty: ignore[invalid-argument-type] - checked
    found = engine.symbols.find(target, limit=1).definitions
    named = {"target": target, "path": "", "line": 0, "kind": ""}
    if found:
        named = {"target": found[0].qualified, "line": found[0].span.first, **_pick(found[0], "path", "kind")}
    edges = [
        {
            **_pick(edge, "source", "path", "line", "depth", "certainty", "uses", "source_at", "target_at"),
            "target": edge.target.removesuffix(f" ({edge.target_at})"),
            "evidence": edge.evidence.strip()[:EVIDENCE_CHARS_MAX],
        }
        for edge in traced.edges
    ]
    return {
        **named,
        **_pick(traced, "possible", "truncated"),
        "relation": relation,
        "edges": edges,
        "tests": list(traced.tests),
        "notes": list(traced.notes),
    }


def view_call(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return the whole question and reply of a call."""
    return read_call_texts(gain_file(engine.settings), _number(arguments, "id", 1, 2**53))


def request_cancel(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Let the server of a running call of this workspace cancel it, as its client can. Raises: CallError."""
    if not cancel_call(gain_file(engine.settings), workspace_id(engine.root), _text(arguments, "id")):
        raise PreconditionFailed("the call has ended before")
    return {"ok": True}


# -- edits and reviews ------------------------------------------------------------------------------------------------


def view_edits(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return the edits that can be undone or redone, newest first."""
    rows = []
    for edit in engine.edits.history(EDITS_MAX):
        files = [{"path": path, "change": change} for path, change in edit.files]
        rows.append({"id": edit.undo_id, "undone": edit.is_undone, "files": files, **_pick(edit, "at", "session")})
    return {"edits": rows}


def view_edit(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return the diff of each file of an edit, as far as its versions are known."""
    files: list[dict[str, Any]] = []
    lines_left = DIFF_LINES_MAX
    for path, versions in engine.edits.past_versions(_text(arguments, "id")).items():
        diff = diff_versions("file", *versions) if versions else ""
        row: dict[str, Any] = {"path": path, "kind": "modified", "note": "", "hunks": []}
        if versions is None:
            row["note"] = "not shown: another program changed the file since"
        elif diff:
            parsed = replace(parse_diff(diff)[0], old_path=path, new_path=path)
            row = _diff_file(parsed, lines_left) | {"kind": parsed.kind}
            lines_left -= _count_lines(row)
        elif versions[0] != versions[1]:
            row["note"] = "not shown: binary, empty or long"
        files.append(row)
    return {"files": files}


def view_sessions(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return the stored reviews, newest first."""
    rows = [
        {
            **_pick(session, "id", "status"),
            "title": session.request.title,
            "commit": session.request.commit[:HASH_CHARS],
            "base": session.request.base[:HASH_CHARS],
            "at": session.created_at,
            "findings": len(engine.reviews.sessions.findings(session.id)),
            **_pick(session.progress, "files_done", "files_total"),
        }
        for session in engine.reviews.sessions.newest(SESSIONS_SHOWN_MAX)
    ]
    return {"sessions": rows}


def view_session(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return a stored review with the diff that it is about, as `view_review` does for a new one."""
    session_id, sessions = _text(arguments, "id"), engine.reviews.sessions
    session = sessions.status(session_id)
    request = session.request
    review: dict[str, Any] = dict(sessions.outcome(session_id))
    if not review:  # it is not finished
        done, total = session.progress.files_done, session.progress.files_total
        review = {
            "findings": list(sessions.findings(session_id)),
            "headline": session.status,
            "coverage": {"files": total, "files_reviewed": done, "files_skipped": []},
            "warnings": list(request.warnings),
        }
    try:
        diffs = engine.reviews.workspace.diffs.read_diff(DiffRequest(f"{request.base}...{request.commit}")).files
    except CallError as error:
        diffs = ()
        review["warnings"] = [*review["warnings"], f"its diff cannot be read any more: {error.message}"]
    return {"review": review, "files": _diff_files(diffs, request.paths)}


def view_review(engine: Engine, arguments: Arguments) -> dict[str, Any]:
    """Return the findings of a change, and its diff without files that may hold secrets."""
    request = DiffRequest(_text(arguments, "target"), _text(arguments, "base", ""), include_untracked=True)
    taken, change = engine.reviews.read_git_change(request)
    result = engine.reviews.review(change, ReviewOptions(max_findings=100, time_budget_s=REVIEW_S))
    return {"review": review_to_json(result), "files": _diff_files(taken.files)}


def _diff_files(diffs: Iterable[FileDiff], paths: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the files of a diff, or only these; of a long diff only the beginning."""
    lines_left = DIFF_LINES_MAX
    files: list[dict[str, Any]] = []
    for file in diffs:
        if not paths or file.path in paths:
            files.append(_diff_file(file, lines_left))
            lines_left -= _count_lines(files[-1])
    return files


def _count_lines(row: Mapping[str, Any]) -> int:
    return sum(len(hunk["lines"]) for hunk in row["hunks"])


def _diff_file(file: FileDiff, lines_max: int) -> dict[str, Any]:
    """Return a file of a diff without its secrets; of a long one only the beginning."""
    row: dict[str, Any] = {**_pick(file, "path", "kind"), "note": "", "hunks": []}
    texts = [line.text for hunk in file.hunks for line in hunk.lines]
    if file.is_binary:
        row["note"] = "binary"
    elif is_sensitive(file.path) or is_sensitive(file.old_path or file.path):
        row["note"] = "not shown: files of this name often contain secrets"
    elif len(texts) > max(lines_max, 0):
        row["note"] = f"not shown: {len(texts):,} lines, and the page shows {DIFF_LINES_MAX:,}"
    else:
        redacted = iter(redact_file("\n".join(texts), file.path).split("\n"))
        for hunk in file.hunks:
            lines = [[line.mark, line.old, line.new, next(redacted, "")] for line in hunk.lines]
            row["hunks"].append({"section": hunk.section, "lines": lines})
    return row


# -- plans and settings -----------------------------------------------------------------------------------------------


def decide_plan(engine: Engine, arguments: Arguments, *, is_person: bool) -> dict[str, Any]:
    """Record a decision about a plan: about its pending request, or a new one for the plan as it is now.

    `version` is the one that was looked at. Raises: Conflict if the plan has changed since.
    """
    plan_id, action = _text(arguments, "plan_id"), _choice(arguments, "action", DECISIONS)
    approvals = engine.plans.approvals
    loaded = engine.plans.repository.load(plan_id)
    looked_at, current = _number(arguments, "version", 1, 1_000_000), loaded.version.version
    if current != looked_at:
        raise Conflict(
            f"the plan is at version {current}, not {looked_at}",
            suggestion="Look at the newest version, then decide.",
            details={"current": current},
        )
    pending = [approval.id for approval in loaded.approvals if approval.status == "pending"]
    request_id = pending[0] if pending else approvals.request(plan_id, actor=PERSON).approval.id
    approval = approvals.respond(
        request_id,
        action,
        comment=_text(arguments, "comment", ""),
        modifications=_text(arguments, "changes", ""),
        by=PERSON if is_person else AGENT,
    ).approval
    return {"ok": True, "request": approval.id, "status": approval.status}


def view_settings(engine: Engine, _arguments: Arguments) -> dict[str, Any]:
    """Return every setting with its value, its meaning, where the value comes from, and what it changes here."""
    sources, effects = Settings.find_sources(engine.root), _describe_effects(engine)
    rows = [
        {
            "name": name,
            "value": _as_text(getattr(engine.settings, name)),
            "default": _as_text(default),
            "source": sources.get(name, "default"),
            "effect": effects.get(name, ""),
            **_pick(known, "meaning", "repository"),
        }
        for name, (default, known) in list_settings().items()
    ]
    return {"settings": rows, "user_file": str(user_file()), "notes": _list_notes(engine)}


def _describe_effects(engine: Engine) -> dict[str, str]:
    """Return what settings change in this workspace, by name, as far as that can be counted or is nothing at all."""
    settings, status = engine.settings, engine.status()
    made, chunks = status.embeddings.chunks
    effects = {
        "cache_folder": f"{format_size(status.disk_bytes)} of this workspace in {engine.cache_folder}",
        "data_folder": f"in {gain_file(settings).parent}",
        "index_bytes_max": f"leaves out {format_count(status.skipped.get('too_large', 0), 'file')}",
        "access_scoring": f"files that count a little more: {len(engine.usage.ranking_scores()):,}",
        "editor": f"a path opens {EDITORS[settings.editor]}",
        "embedder": f"{made or status.chunks:,} of {chunks or status.chunks:,} chunks have vectors",
    }
    if status.embeddings.static not in ("ready", "off"):
        effects["embedder"] = status.embeddings.static
    for name in list_settings():
        leader = next((leader for start, leader in LEADERS.items() if name.startswith(start)), name)
        if name != leader and _as_text(getattr(settings, leader)) in (*OFF, "static"):
            effects[name] = f"not used: {leader} is {_as_text(getattr(settings, leader)) or 'empty'}"
        elif name in WHEN_OFF and _as_text(getattr(settings, name)) in OFF:
            effects[name] = WHEN_OFF[name]
    return effects


def _list_notes(engine: Engine) -> list[dict[str, str]]:
    return [{"problem": problem, "advice": advice} for problem, advice in engine.notes()]


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


# -- arguments and rows -----------------------------------------------------------------------------------------------


def _pick(value: object, *names: str) -> dict[str, Any]:
    """Return these attributes of a value as a row."""
    return {name: getattr(value, name) for name in names}


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
