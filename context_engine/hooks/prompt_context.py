"""Context for a prompt before the agent begins: the likeliest definition and what is around it, or nothing.

Nothing is given unless the answer of the search is likely and the prompt asks for code. Chat, commands for git or a
shell and questions of general knowledge ask for none, whatever words they share with a repository.

>>> asks_for_code("thanks"), asks_for_code("commit and push the fix of the parser"), asks_for_code("What is a monad?")
(False, False, False)
>>> asks_for_code("why does the retry loop of the connection pool never end?")
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, dropwhile

from context_engine.context import (
    QUOTED_FROM_REPOSITORY,
    ShownLines,
    Workspace,
    count_beginning,
    describe_mentions,
)
from context_engine.model import Answer, Chunk, Query
from context_engine.search import Question
from context_engine.text import LineSpan, escape_line, estimate_tokens, merge_spans
from context_engine.tools import fence_for

TOKENS_MAX, CODE_TOKENS, OUTLINE_TOKENS, POINTERS_TOKENS = 900, 500, 180, 250
"""Of what is given, of the code and the outline in it, and of what is given without code."""
PLACES_MAX = 3
CHANCE_MIN = 0.15
"""Of a place that is named. Agents had no use for what is less likely (evals/agents, evals/injection)."""
SHOWN_KINDS = frozenset(("function", "method", "class", "constructor", "interface", "struct", "trait", "macro"))
PROBABILITY_MIN = 0.6
"""Of an answer that is given. On the tuning half of the prompts all of 50 that need no code stay silent, and 80 % of
those that need some are answered (evals/injection)."""
TASK_PROBABILITY_MIN = 0.3
"""The same for a prompt that begins as a task does: its form says that it needs code. Silence stays at 0.99, and of 47
commit subjects 0.81 are answered instead of 0.57 (evals/injection)."""
TELLING_WORDS_MIN = 2
"""One word matches some file of every repository."""
HEAD = f"ctx on this request ({QUOTED_FROM_REPOSITORY}):"
REQUEST_CHARS = 200
"""Of a prompt: where it says what it asks for."""
POLITE = frozenset(
    ("ok", "okay", "so", "now", "then", "and", "please", "just", "can", "could", "would", "you", "let's")
)
COMMANDS = (
    *("git", "commit", "push", "pull", "fetch", "rebase", "squash", "stash", "cherry-pick", "tag", "merge", "amend"),
    *("undo", "check out", "checkout", "run", "rerun", "install", "uninstall", "start", "restart", "stop", "kill"),
    *("deploy", "publish", "release", "delete the", "clean the"),
    *("show me the diff", "show the diff", "show me the log", "open a pr", "open the pr", "open a pull request"),
    *("create a pr", "create a branch", "make a pr", "update the pr"),
)
GENERAL_QUESTIONS = (
    *("what is a", "what's a", "what is an", "what's an", "what is the difference", "what's the difference"),
    *("what is the best", "what's the best", "what are the best", "what are the most", "what are the pros"),
    *("what is the latest", "what are the advantages", "who", "when was", "when did", "should i"),
)
GENERAL_BEGINNINGS = ("explain ", "what does ", "is ")
GENERAL_WORDS = (" theorem ", " pattern ", " principle ", " mean ", " stand for ", " better than ")
"""A question of general knowledge begins like that, and has one of these words close to its beginning."""
GENERAL_CHARS = 48
_WITHOUT_CODE = tuple(f"{phrase} " for phrase in (*COMMANDS, *GENERAL_QUESTIONS))
_NAMING_SIGNALS = frozenset(("symbol", "mention", "named"))


def asks_for_code(prompt: str, *, names_code: bool = False) -> bool:
    """Return whether a prompt may need code. `names_code`: it names a symbol or file of the repository."""
    first = (prompt.split(maxsplit=1) or [""])[0]
    is_command = first.startswith(("!", "#")) or (first.startswith("/") and "/" not in first[1:])
    if not first or is_command:
        return False
    words = [word.strip(".,:;?!\"'") for word in prompt[:REQUEST_CHARS].lower().split()]
    request = " ".join(dropwhile(POLITE.__contains__, words)) + " "
    is_general = request.startswith(GENERAL_BEGINNINGS) and any(
        word in request[:GENERAL_CHARS] for word in GENERAL_WORDS
    )
    if not names_code and (is_general or request.startswith(_WITHOUT_CODE)):
        return False
    return names_code or len(Question.of(prompt).telling_words) >= TELLING_WORDS_MIN


def build_prompt_context(prompt: str, workspace: Workspace, shown: ShownLines) -> str:
    """Return the likeliest place for a prompt with its code, what is around it, and the lines that have its name.

    Without code if the answer is less sure than `PROBABILITY_MIN`. Code in `shown` is not given again; what is given is
    recorded there.

    Raises: as `Engine.search`, such as NotIndexed.
    """
    query = Query(prompt, PLACES_MAX**2, chunks_per_file=PLACES_MAX, files_max=PLACES_MAX)
    answer = workspace.search.find(query)
    if not needs_code(prompt, answer):
        return ""
    first, *others = [hit.chunk for hit in answer.hits if hit.chance >= CHANCE_MIN] or [answer.hits[0].chunk]
    place = _widen(first)
    others = [other for other in others if other.path != first.path or not place.contains(other.span)]
    also = list(dict.fromkeys(f"also: {_name_place(chunk, chunk.span)}" for chunk in others[: PLACES_MAX - 1]))
    if shown.includes(first.path, first.span.first, first.text):
        return limit_lines(HEAD, also, POINTERS_TOKENS)
    head, about = f"{HEAD}\n{_name_place(first, place)}", _describe_file(first, workspace)
    if answer.probability < PROBABILITY_MIN:
        return limit_lines(head, [*also, *about], POINTERS_TOKENS) or head
    head += f"\n{_quote(first, place, workspace, shown)}"
    mentions = describe_mentions(first.path, {first.symbol: place}, workspace, shown)
    return limit_lines(head, chain(also, mentions, about), TOKENS_MAX) or head


def _describe_file(chunk: Chunk, workspace: Workspace) -> Iterator[str]:
    """Yield what else the file of a chunk defines, as far as there is room."""
    outline = workspace.symbols.outline(chunk.path, details=False)
    names = [f"{escape_line(one.name)} {one.span.first}" for _, one in outline.symbols if one.kind in SHOWN_KINDS]
    if len(names) > 1:
        head = f"{escape_line(chunk.path)} defines: "
        count = count_beginning(len(names), lambda most: estimate_tokens(", ".join(names[:most])) <= OUTLINE_TOKENS)
        yield head + ", ".join(names[:count]) + (" …" if count < len(names) else "")


def _name_place(chunk: Chunk, span: LineSpan) -> str:
    return f"{escape_line(chunk.path)}:{span} {escape_line(chunk.symbol)}".rstrip()


def _widen(chunk: Chunk) -> LineSpan:
    """Return the lines of a chunk with all of the innermost definitions at its first and last line."""
    ends = []
    for line in (chunk.span.first, chunk.span.last):
        around = [span for span, _ in chunk.definitions if span.first <= line <= span.last]
        ends.append(min(around, key=lambda span: span.lines, default=chunk.span))
    return LineSpan(min(chunk.span.first, ends[0].first), max(chunk.span.last, ends[1].last))


def _quote(chunk: Chunk, place: LineSpan, workspace: Workspace, shown: ShownLines) -> str:
    """Return the place of a chunk: whole, or if that is too long its first line and the chunk, and what is left out."""
    text = workspace.files.read(chunk.path, first=place.first, last=place.last).text.rstrip("\n")
    lines = dict(enumerate(text.split("\n"), place.first))
    is_short = estimate_tokens(text) <= CODE_TOKENS
    spans = [place] if is_short else merge_spans([LineSpan(place.first, place.first), chunk.span])
    parts, following = [], place.first
    for span in spans:
        if span.first > following:
            parts.append(f"… {LineSpan(following, span.first - 1)}")
        part = "\n".join(lines[number] for number in range(span.first, span.last + 1) if number in lines)
        shown.add(chunk.path, span.first, part)
        parts.append(part)
        following = span.last + 1
    if following <= max(lines):
        parts.append(f"… {LineSpan(following, max(lines))}")
    code = "\n".join(parts)
    fence = fence_for(code)
    return f"{fence}{chunk.language}\n{code}\n{fence}"


def needs_code(prompt: str, answer: Answer) -> bool:
    """Return whether a prompt asks for code, and the search probably found it."""
    question = Question.of(prompt)
    least = PROBABILITY_MIN if question.is_short and not question.is_task else TASK_PROBABILITY_MIN
    if answer.probability < least or not answer.hits:
        return False
    return asks_for_code(prompt, names_code=not _NAMING_SIGNALS.isdisjoint(answer.hits[0].why))


def limit_lines(head: str, lines: Iterable[str], tokens_max: int) -> str:
    """Return the first lines that fit under their head; empty without any."""
    room = tokens_max - estimate_tokens(head)
    kept = [head]
    for line in lines:
        room -= estimate_tokens(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept) if len(kept) > 1 else ""
