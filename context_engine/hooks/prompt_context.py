"""Context for a prompt before the agent begins: the code that a bundle begins with and what is around it, or nothing.

Nothing is given unless the answer of the search is likely and the prompt asks for code. Chat, commands for git or a
shell and questions of general knowledge ask for none, whatever words they share with a repository.

>>> asks_for_code("thanks"), asks_for_code("commit and push the fix of the parser"), asks_for_code("What is a monad?")
(False, False, False)
>>> asks_for_code("why does the retry loop of the connection pool never end?")
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import dropwhile

from context_engine.context import (
    QUOTED_FROM_REPOSITORY,
    Bundle,
    BundledFile,
    BundleRequest,
    ProjectKnowledge,
    ShownLines,
    Workspace,
    build_bundle,
    describe_mentions,
)
from context_engine.model import Answer, Query
from context_engine.search import Question
from context_engine.text import escape_line, estimate_tokens
from context_engine.tools import format_snippet

TOKENS_MAX = 250
"""Of what is given: first code, then names. Strong agents that got 900 read a fifth more (evals/agents)."""
FILES_MAX, NAMES_MAX = 3, 30
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
    """Return the code that a prompt needs, as a context bundle chooses it, and what is around its first place.

    Code in `shown` is named and not given again; what is given is recorded there.

    Raises: as `Engine.search`, such as NotIndexed.
    """
    answer = workspace.search.find(Query(prompt, 1))
    if not needs_code(prompt, answer):
        return ""
    request = BundleRequest(prompt, FILES_MAX, TOKENS_MAX, shown=shown)
    bundle = build_bundle(
        request, workspace, ProjectKnowledge(), lambda found: estimate_tokens(_format(found)) - TOKENS_MAX
    )
    for file in bundle.files:
        for snippet in file.snippets:
            shown.add(file.path, snippet.span.first, snippet.text)
    if not bundle.files:
        return _format(bundle) if bundle.shown_before else ""
    text = _format(bundle)
    return limit_lines(text, _describe_first(bundle.files[0], workspace, shown), TOKENS_MAX) or text


def _format(bundle: Bundle) -> str:
    """Return the places of a bundle under their head, and the names of those that the client was shown before."""
    parts = [HEAD]
    for file in bundle.files:
        place = escape_line(file.path)
        parts += [format_snippet(f"{place}:{one.span}", file.language, one) for one in file.snippets]
    if bundle.shown_before:
        places = [f"{escape_line(place.path)}:{place.span}" for place in bundle.shown_before]
        parts.append(f"shown above: {', '.join(places)}")
    return "\n".join(parts)


def _describe_first(file: BundledFile, workspace: Workspace, shown: ShownLines) -> Iterator[str]:
    """Yield the tests of the best place, the other lines with its name, and what else its file defines."""
    first = file.snippets[0]
    yield from describe_mentions(file.path, {first.symbol.partition(",")[0]: first.span}, workspace, shown)
    outline = workspace.symbols.outline(file.path, details=False)
    names = [f"{escape_line(one.name)} {one.span.first}" for _, one in outline.symbols if one.kind in SHOWN_KINDS]
    if len(names) > 1:
        rest = " …" if len(names) > NAMES_MAX else ""
        yield f"{escape_line(file.path)} defines: {', '.join(names[:NAMES_MAX])}{rest}"


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
