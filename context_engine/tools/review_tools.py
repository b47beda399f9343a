"""Tools that review a change: a diff as text, or what git says has changed.

What checks find; then, perhaps, a second look.

They change nothing: what is kept for a second look is a copy of the reply, of which the newest two hundred stay.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine import __version__
from context_engine.context.refinement import ASSISTS, Climbed
from context_engine.errors import HostError, InvalidArgument, NextStep, TooLarge
from context_engine.review.finding import CATEGORIES
from context_engine.review.review_options import FAIL_ON, ReviewOptions
from context_engine.text.diff import DIFF_BYTES_MAX
from context_engine.tools.arguments import (
    BooleanArg,
    ChoiceArg,
    FractionArg,
    IntegerArg,
    ObjectArg,
    TextArg,
    TextListArg,
)
from context_engine.tools.edit_arguments import ContentArg
from context_engine.tools.review_arguments import INSTRUCTIONS_CHARS, PATTERNS_MAX, options_of
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import compact_json, drop_empty, reply_size, take_fitting_rows

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.review.review_run import ReviewedChange
    from context_engine.review.second_pass import MergedReview
    from context_engine.review.verdict import ReviewResult

FORMATS = ("json", "markdown", "sarif", "rdjson")
ID_CHARS = 100
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
Assist = Annotated[str, ChoiceArg("Who looks again.", ASSISTS)]
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
    return _reviewed(engine, call, "review_changes", change, options_of(fields), assist, format, began)


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
    wanted = options_of(options)
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
        alone = Climbed(warnings=(f"no second look can be taken: {error.message}",))
        return _reply(engine, name, reviewed, shape, began, git_info=git_info, climbed=alone)
    climbed, again = _climbed(engine, call, review_id, assist)
    reviewed = again.result if again else reviewed
    return _reply(
        engine, name, reviewed, shape, began, git_info=git_info, again=again, climbed=climbed, review_id=review_id
    )


def _climbed(engine: "Engine", call: Call, review_id: str, assist: str) -> "tuple[Climbed, MergedReview | None]":
    """How far a model takes the review, and what it says then."""
    second = engine.reviews.second_passes.offer("review_changes", review_id)
    climbed = engine.ladder.climb(second, assist, check=engine.reviews.wrong_with(review_id), cancel=call.cancel)
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
    climbed: Climbed | None = None,
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
