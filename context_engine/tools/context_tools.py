"""Tools that prepare a task: a bundle of the code to read first, and a prompt with its references resolved."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from context_engine.context import (
    ASSIST_MODES,
    QUOTED_FROM_REPOSITORY,
    Bundle,
    BundleRequest,
    Command,
    EnhancedPrompt,
    EnhanceMode,
    KnowledgeEntry,
    LikelyFile,
    PromptReference,
    SecondPassResult,
    build_bundle,
    build_enhanced_prompt,
    build_rewrite_request,
    check_rewrite,
)
from context_engine.model import QUESTION_CHARS_MAX, Filter
from context_engine.secrets import redact
from context_engine.text import (
    CHARS_PER_TOKEN,
    compact_json,
    drop_empty,
    escape_line,
    estimate_tokens,
    fence_for,
    format_count,
    shorten_line,
)
from context_engine.tools.arguments import (
    BooleanArg,
    ChoiceArg,
    FractionArg,
    IntegerArg,
    TextArg,
    TextListArg,
    argument_error,
)
from context_engine.tools.reply import (
    Excludes,
    Includes,
    find_shown,
    join_headline,
    list_shown,
    note_lines,
    pick_fields,
    reply_size,
)
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.context import BundledFile, Snippet
    from context_engine.engine import Engine

QUERY_CHARS_MIN = 3
ORIGINAL_CHARS_MAX = 2_000
"""Of the user's prompt in the field `original`."""


@tool(
    touches="nothing",
    always_load=True,
    instead="search_code",
    aliases={"get_context_for_prompt": {"format": "json", "limit": 10, "include": ()}},
)
def get_context(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("Task or question.", 3, QUESTION_CHARS_MAX)],
    token_budget: Annotated[int, IntegerArg("Reply size in tokens.", 500, 100_000)] = 8_000,
    *,
    limit: Annotated[int, IntegerArg("Maximum files.", 1, 20), "max_files"] = 10,
    include_related: Annotated[bool, BooleanArg("Tests, imports, what changes together.")] = True,
    include_memories: Annotated[bool, BooleanArg("Memories of the team.")] = True,
    include_summaries: Annotated[bool, BooleanArg("What each file defines.")] = True,
    min_relevance: Annotated[float, FractionArg("Minimum share of the best score.")] = 0.3,
    include: Annotated[tuple[str, ...], TextListArg("Only files like src/**, *.py."), "include_paths"] = (),
    exclude: Annotated[tuple[str, ...], TextListArg("Globs to leave out."), "exclude_paths"] = (),
    external_sources: Annotated[tuple[str, ...], TextListArg("URLs: find where files mention them.", most=10)] = (),
    plan_id: Annotated[str, TextArg("Add what its current step needs.")] = "",
    bypass_cache: Annotated[bool, BooleanArg("Ignored: nothing is cached.")] = False,  # noqa: ARG001 - an old argument
    format: Annotated[str, ChoiceArg("Of the reply.", ("json", "markdown"))] = "markdown",  # noqa: A002 - the name that callers know
) -> Reply:
    """Get what a task needs at once: symbols to read first, related files, tests, memories.

    Example: {"query": "add a timeout to the pool"}
    """
    if len(query.strip()) < QUERY_CHARS_MIN:
        raise argument_error("query", f"has fewer than {QUERY_CHARS_MIN} characters", "Say the task in a few words.")
    team = engine.memory.get_project_knowledge()
    chars_max = engine.settings.result_chars_max
    write = render_bundle_json if format == "json" else render_bundle_markdown
    shown_query = shorten_line(query, 0, token_budget * CHARS_PER_TOKEN // 10)  # the caller knows the rest
    meta = ReplyMeta(shown_query, token_budget, token_budget)
    counted: list[tuple[Bundle, int]] = []

    def excess(candidate: "Bundle") -> int:
        """Return by how many tokens the reply would be too long."""
        text = redact(write(candidate, meta)).text
        counted[:] = [(candidate, estimate_tokens(text))]
        return max(counted[0][1] - token_budget, -(-(reply_size(text) - chars_max) // CHARS_PER_TOKEN))

    words, facts = _describe_step(engine, plan_id) if plan_id else ("", ())
    wish = BundleRequest(
        f"{query}{words}",
        limit,
        min(token_budget, chars_max // CHARS_PER_TOKEN),
        Filter(include_paths=include, exclude_paths=exclude),
        min_relevance,
        include_related,
        include_memories,
        include_summaries,
        external_sources,
        facts,
        find_shown(call, query, token_budget, limit, include, exclude),
    )
    best = build_bundle(wish, engine, team, excess)
    for file in best.files:
        for snippet in file.snippets:
            call.shown.add(file.path, snippet.span.first, snippet.text)
    tokens = counted[0][1] if counted[0][0] is best else estimate_tokens(redact(write(best, meta)).text)
    return Reply(write(best, meta._replace(tokens=tokens)))


@tool(touches="nothing", instead="get_context")
def enhance_prompt(
    engine: "Engine",
    call: Call,
    prompt: Annotated[str, TextArg("The prompt to enhance.", 1, QUESTION_CHARS_MAX)],
    mode: Annotated[EnhanceMode, ChoiceArg("light adds up to 600 tokens, rich 2000.", ("light", "rich"))] = "light",
    draft: Annotated[str, TextArg("Your own version, to check.", most=2 * QUESTION_CHARS_MAX)] = "",
    *,
    include_paths: Includes = (),
    exclude_paths: Excludes = (),
    assist: Annotated[str, ChoiceArg("LLM refinement: by a model, by you (next), or off.", ASSIST_MODES)] = "auto",
) -> Reply:
    """Enhance a prompt with facts of this repository: find its names (path:line), likely files, rules, test commands.

    Your words are not changed.
    """
    chosen = Filter(include_paths=include_paths, exclude_paths=exclude_paths)
    made = build_enhanced_prompt(prompt, mode, chosen, engine, engine.memory.get_project_knowledge())
    reply: dict[str, Any] = {
        "enhanced_prompt": _shorten_prompt(made.text, prompt),
        "original": shorten_line(prompt, 0, ORIGINAL_CHARS_MAX),
        "changed": made.is_changed,
        "sections": _sections(made),
        "references": [_reference(reference) for reference in made.references],
    }
    warnings = list(made.warnings)
    if draft:
        own = check_rewrite(draft, made, mode, engine)
        warnings += own.warnings
        reply["meta"] = {"assist_used": "none" if own.objections else "host"}
        reply["rejected"] = [objection._asdict() for objection in own.objections]
        if not own.objections:
            reply |= {"enhanced_prompt": _shorten_prompt(own.text, prompt), "changed": own.text != prompt}
    elif made.is_changed:
        second = engine.second_pass.run(
            build_rewrite_request(made, mode),
            assist,
            check=lambda text: check_rewrite(text, made, mode, engine).problem,
            cancel=call.cancel,
        )
        warnings += second.warnings
        reply["meta"] = {"assist_used": second.used} | drop_empty({"model": count_model_tokens(second)})
        if second.draft is None:
            reply |= drop_empty({"next": second.next})
        else:
            best = check_rewrite(second.draft, made, mode, engine)
            warnings += best.warnings
            reply["enhanced_prompt"] = _shorten_prompt(best.text, prompt)
    if call.is_brief:  # the prompt has what its sections and references list
        reply = {name: reply[name] for name in ("enhanced_prompt", "rejected", "next") if name in reply}
    return Reply(compact_json(reply | drop_empty({"warnings": warnings})))


def _shorten_prompt(text: str, prompt: str) -> str:
    """Return an enhanced prompt with the beginning of a prompt too long to be repeated; the caller knows the rest."""
    if len(prompt) <= 10_000:
        return text
    return text.replace(prompt, shorten_line(prompt, 0, ORIGINAL_CHARS_MAX), 1)


def _describe_step(engine: "Engine", plan_id: str) -> tuple[str, tuple[str, ...]]:
    """Return the words of the step in progress, else of the next one, and a line about it; nothing when none is left.

    Raises: PlanNotFound.
    """
    loaded = engine.plans.repository.load(plan_id)
    now = loaded.execution
    uid = (*now.current, now.next, *now.ready)[0] if now and (now.current or now.ready) else ""
    for number, step in enumerate(loaded.plan.steps, 1):
        if step.uid == uid:
            criteria = "; ".join(step.acceptance_criteria)
            done_when = f"; done when: {criteria}" if criteria else ""
            fact = f"{loaded.plan.id}, step {number}: {step.title}{done_when}"
            return f"\n{step.title} {' '.join(sorted(step.files))}", (fact,)
    return "", ()


def _sections(made: EnhancedPrompt) -> dict[str, Any]:
    """Return what was added, by section."""
    return {
        "objective": made.objective,
        "references": made.list_texts("references"),
        "likely_files": [drop_empty(pick_fields(file, "path place")) for file in made.list_items(LikelyFile)],
        "related": made.list_texts("related"),
        "constraints": [_memory_row(memory, "id type title") for memory in made.list_items(KnowledgeEntry)],
        "validation": [pick_fields(one, "kind source") | {"command": one.text} for one in made.list_items(Command)],
        "open_questions": made.list_texts("open_questions"),
        "done_when": made.list_texts("done_when"),
    }


def _memory_row(one: "KnowledgeEntry", names: str) -> dict[str, Any]:
    return drop_empty({**pick_fields(one, names), "where": one.place})


def _reference(reference: PromptReference) -> dict[str, Any]:
    places = [drop_empty(pick_fields(one, "path symbol") | {"line": one.line or None}) for one in reference.places]
    row = {**pick_fields(reference, "text kind"), "resolved": places, "ambiguous": reference.is_ambiguous}
    near = list(reference.near) if reference.is_missing else []
    return row | drop_empty({"nearest": near, "note": reference.note})


def count_model_tokens(climbed: SecondPassResult) -> dict[str, int]:
    """Return the token counts of a model call; empty if they are unknown."""
    return climbed.tokens._asdict() if climbed.tokens else {}


class ReplyMeta(NamedTuple):
    """Facts about the reply itself: the question, the token budget, the tokens used."""

    query: str
    budget: int
    tokens: int


def render_bundle_json(bundle: "Bundle", meta: "ReplyMeta") -> str:
    """Render the bundle as one JSON object."""
    known = [(one.is_memory, _memory_row(one, "id type title content score")) for one in bundle.remembered]
    left_out = _left_out(bundle)
    metadata = {
        "total_files": len(bundle.files),
        "total_snippets": sum(len(file.snippets) for file in bundle.files),
        "total_tokens": meta.tokens,
        "token_budget": meta.budget,
        "truncated": bool(left_out),
        **pick_fields(bundle, "engine freshness"),
        "sources": dict(bundle.sources),
    }
    fields = {
        "summary": _summary(bundle),
        "query": meta.query,
        "files": list(map(_file_row, bundle.files)),
        "memories": [row for is_memory, row in known if is_memory],
        "discoveries": [row for is_memory, row in known if not is_memory],
        "external_hints": [
            {"url": source.address, "mentioned_in": list(source.mentioned), "fetched": False}
            for source in bundle.external
        ],
        "hints": list(bundle.hints),
        "metadata": metadata | drop_empty({"left_out": left_out, "absent": list(bundle.absent)}),
    }
    note = f"Memories and discoveries are {QUOTED_FROM_REPOSITORY}." if bundle.remembered else ""
    return compact_json(fields | _notes(bundle) | drop_empty({"note": note}))


def _file_row(file: "BundledFile") -> dict[str, Any]:
    snippets = []
    for snippet in file.snippets:
        row = pick_fields(snippet, "relevance tokens symbol") | {"goes_on_at_line": snippet.goes_on or None}
        lines = f"{snippet.span.first}-{snippet.span.last}"
        snippets.append({"text": snippet.text, "lines": lines} | drop_empty(row))
    return {
        **pick_fields(file, "path language relevance"),
        **drop_empty({"summary": file.summary}),
        "snippets": snippets,
        "related": [drop_empty(related._asdict()) for related in file.related],
    }


def render_bundle_markdown(bundle: "Bundle", meta: "ReplyMeta") -> str:
    """Render the bundle as Markdown."""
    notes, head = note_lines(_notes(bundle)), join_headline(_summary(bundle), bundle.engine, bundle.freshness)
    parts = [*notes, head] if bundle.warnings else [head, *notes]
    parts += map(_file_section, bundle.files)
    remembered = []
    for one in bundle.remembered:
        title = f"{escape_line(one.title)}: " if one.title and one.title not in one.content else ""
        remembered.append(f"{one.type} {one.id} ({escape_line(one.place)}): {title}{one.content}")
    parts += _bullet_section(f"Remembered, {QUOTED_FROM_REPOSITORY}", remembered)
    sources = [
        f"{one.address}: {'mentioned in ' * bool(one.mentioned)}{', '.join(one.mentioned) or 'no file mentions it'}"
        for one in bundle.external
    ]
    parts += _bullet_section("Named sources, not fetched", sources)
    parts += _bullet_section("Facts", map(escape_line, bundle.hints))
    footer = f"{meta.tokens:,} of {meta.budget:,} tokens"
    if left := note_lines(_left_out(bundle)):
        footer += f" · left out: {' · '.join(left)}"
    return "\n\n".join([*parts, footer])


def _summary(bundle: "Bundle") -> str:
    """Summarize the bundle and name the place to begin."""
    if not bundle.files:
        return "nothing new was found" if bundle.shown_before else "nothing was found"
    first = bundle.files[0]
    symbol = first.snippets[0].symbol if len(first.snippets) == 1 else ""
    places = sum(len(file.snippets) for file in bundle.files)
    where = f"{escape_line(first.path)}{f' ({symbol})' if symbol else ''}"
    return f"{format_count(places, 'place')} in {format_count(len(bundle.files), 'file')}; begin with {where}"


def _notes(bundle: "Bundle") -> dict[str, Any]:
    shown = [f"{escape_line(place.path)}:{place.span}" for place in bundle.shown_before]
    notes = {"shown_before": list_shown(shown), "warnings": list(bundle.warnings), "reason": bundle.reason}
    return drop_empty(notes)


def _left_out(bundle: "Bundle") -> Mapping[str, Any]:
    left = bundle.left_out
    return drop_empty({"next_files": list(left.files), "unreadable": list(left.unreadable)})


# -- as Markdown ------------------------------------------------------------------------------------------------------


def _file_section(file: "BundledFile") -> str:
    parts = [f"## {escape_line(file.path)} · {file.relevance}{f' · {file.summary}' if file.summary else ''}"]
    parts += [format_snippet(f"lines {snippet.span}", file.language, snippet) for snippet in file.snippets]
    related = []
    for item in file.related:
        place = f"{item.path}:{item.line}" if item.line else item.path
        related.append(f"- {escape_line(': '.join(filter(None, (place, item.why, item.text))))}")
    return "\n\n".join([*parts, *(["\n".join(related)] if related else [])])


def format_snippet(place: str, language: str, snippet: "Snippet") -> str:
    """Format the lines of a snippet in a fence, under its place, its symbol, and where it goes on."""
    symbol = f" · {snippet.symbol}" if snippet.symbol else ""
    more = f" · goes on at line {snippet.goes_on}" if snippet.goes_on else ""
    fence = fence_for(snippet.text)
    return f"{place}{symbol}{more}\n{fence}{language}\n{snippet.text}\n{fence}"


def _bullet_section(title: str, lines: Iterable[str]) -> list[str]:
    rows = "\n".join(f"- {line}" for line in lines)
    return [f"## {title}\n\n{rows}"] if rows else []
