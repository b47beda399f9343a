"""Context for a prompt before the agent begins: the code that a bundle would show first, or nothing.

Nothing is given unless the answer of the search is likely and the prompt asks for code. Chat, commands for git or a
shell and questions of general knowledge ask for none, whatever words they share with a repository.

>>> asks_for_code("thanks"), asks_for_code("commit and push the fix of the parser"), asks_for_code("What is a monad?")
(False, False, False)
>>> asks_for_code("why does the retry loop of the connection pool never end?")
True
"""

from __future__ import annotations

from itertools import dropwhile

from context_engine.context import (
    QUOTED_FROM_REPOSITORY,
    Bundle,
    BundledFile,
    BundleRequest,
    ProjectKnowledge,
    ShownLines,
    Snippet,
    Workspace,
    build_bundle,
)
from context_engine.model import Answer, Query
from context_engine.search import Question
from context_engine.text import escape_line, estimate_tokens
from context_engine.tools import fence_for

TOKENS_MAX = 1_500
PROBABILITY_MIN = 0.6
"""Of an answer that is given. On the tuning half of the prompts all of 50 that need no code stay silent, and 80 % of
those that need some are answered (evals/injection)."""
TASK_PROBABILITY_MIN = 0.3
"""The same for a prompt that begins as a task does: its form says that it needs code. Silence stays at 0.99, and of 47
commit subjects 0.81 are answered instead of 0.57 (evals/injection)."""
TELLING_WORDS_MIN = 2
"""One word matches some file of every repository."""
HEAD = f"ctx found code for this request ({QUOTED_FROM_REPOSITORY}). Ask ctx for more before you search by hand."
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
    """Return the code for a prompt, and record it in `shown`; lines in there are not repeated.

    Only `TOKENS_MAX` limits the number of places.

    Raises: as `Engine.search`, such as NotIndexed.
    """
    if not needs_code(prompt, workspace.search.find(Query(prompt, 1))):
        return ""
    request = BundleRequest(
        prompt, tokens_max=TOKENS_MAX, with_related=False, with_memories=False, with_summaries=False, shown=shown
    )
    bundle = build_bundle(request, workspace, ProjectKnowledge(), _count_excess)
    places = []
    for file, snippet in _list_places(bundle):
        location = (file.path, snippet.span.first, snippet.text)
        if not shown.includes(*location):
            places.append((file, snippet, location))
    for _, _, location in places:
        shown.add(*location)
    return _format([(file, snippet) for file, snippet, _ in places]) if places else ""


def needs_code(prompt: str, answer: Answer) -> bool:
    """Return whether a prompt asks for code, and the search probably found it."""
    least = TASK_PROBABILITY_MIN if Question.of(prompt).is_task else PROBABILITY_MIN
    if answer.probability < least or not answer.hits:
        return False
    return asks_for_code(prompt, names_code=not _NAMING_SIGNALS.isdisjoint(answer.hits[0].why))


def _list_places(bundle: Bundle) -> list[tuple[BundledFile, Snippet]]:
    return [(file, snippet) for file in bundle.files for snippet in file.snippets]


def _count_excess(bundle: Bundle) -> int:
    """Return by how many tokens a bundle is too long."""
    return estimate_tokens(_format(_list_places(bundle))) - TOKENS_MAX


def _format(places: list[tuple[BundledFile, Snippet]]) -> str:
    parts = [HEAD]
    for file, snippet in places:
        fence = fence_for(snippet.text)
        head = f"{escape_line(file.path)}:{snippet.span} {escape_line(snippet.symbol)}".rstrip()
        parts.append(f"{head}\n{fence}{file.language}\n{snippet.text}\n{fence}")
    return "\n\n".join(parts)
