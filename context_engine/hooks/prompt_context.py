"""Context for a prompt before the agent begins: the code that a bundle would show first, or nothing.

Nothing is given unless the answer of the search is likely and the prompt asks for code. Chat, commands for git or a
shell and questions of general knowledge ask for none, whatever words they share with a repository.

>>> asks_for_code("thanks"), asks_for_code("commit and push the fix of the parser"), asks_for_code("What is a monad?")
(False, False, False)
>>> asks_for_code("why does the retry loop of the connection pool never end?")
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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
    estimate_max_tokens,
)
from context_engine.model import Answer, Query
from context_engine.search import find_telling_words, is_task
from context_engine.text import escape_line
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

_POLITE = re.compile(
    r"\A\W*(?:(?:ok(?:ay)?|so|now|then|and|please|just|can you|could you|would you|let'?s)\W+)*", re.IGNORECASE
)
_COMMAND = re.compile(
    r"(?:git|commit|push|pull|fetch|rebase|squash|stash|cherry-?pick|tag|merge|amend|undo|check ?out|run|rerun"
    r"|install|uninstall|start|restart|stop|kill|deploy|publish|release|delete the|clean the"
    r"|(?:open|create|make|update) (?:a |the )?(?:pr|pull request|branch|tag|release)"
    r"|show (?:me )?(?:the )?(?:diff|log|status))\b",
    re.IGNORECASE,
)
_GENERAL = re.compile(
    r"(?:what(?:'s| is| are) (?:an? |the (?:difference|most|best|latest|advantages?|pros)\b)"
    r"|what does \S{1,40}(?: \S{1,40})? (?:mean|st\w{3} for)|who |when (?:was|did)|should i |which \w{1,40} should"
    r"|explain (?:an? |the )?(?:\w{1,40} )?(?:pattern|theorem|principle)|is \w{1,40} better)",
    re.IGNORECASE,
)
_SLASH_COMMAND = re.compile(r"/[\w:-]{1,60}(?=\s|\Z)|[!#]")
_NAMING_SIGNALS = frozenset(("symbol", "mention", "named"))


def asks_for_code(prompt: str, *, names_code: bool = False) -> bool:
    """Return whether a prompt may need code. `names_code`: it names a symbol or file of the repository."""
    text = prompt.strip()
    if not text or _SLASH_COMMAND.match(text):
        return False
    if names_code:
        return True
    request = _POLITE.sub("", text, count=1)
    if _COMMAND.match(request) or _GENERAL.match(request):
        return False
    return len(find_telling_words(text)) >= TELLING_WORDS_MIN


def build_prompt_context(prompt: str, workspace: Workspace, shown: ShownLines) -> str:
    """Return the code for a prompt within `TOKENS_MAX`, and record it in `shown`; lines in there are not repeated.

    Raises: as `Engine.search`, such as NotIndexed.
    """
    if not needs_code(prompt, workspace.search.find(Query(prompt, 1))):
        return ""
    request = BundleRequest(
        prompt, tokens_max=TOKENS_MAX, with_related=False, with_memories=False, with_summaries=False, shown=shown
    )
    bundle = build_bundle(request, workspace, ProjectKnowledge(), _count_excess)
    places = [place for place in _list_places(bundle) if not shown.includes(*place.location)]
    for place in places:
        shown.add(*place.location)
    return _format(places) if places else ""


def needs_code(prompt: str, answer: Answer) -> bool:
    """Return whether a prompt asks for code, and the search probably found it."""
    least = TASK_PROBABILITY_MIN if is_task(prompt) else PROBABILITY_MIN
    if answer.probability < least or not answer.hits:
        return False
    return asks_for_code(prompt, names_code=not _NAMING_SIGNALS.isdisjoint(answer.hits[0].why))


class _GivenPlace(NamedTuple):
    """A snippet with its file."""

    file: BundledFile
    snippet: Snippet

    @property
    def location(self) -> tuple[str, int, str]:
        """The path, the first line and the text."""
        return self.file.path, self.snippet.span.first, self.snippet.text


def _list_places(bundle: Bundle) -> list[_GivenPlace]:
    return [_GivenPlace(file, snippet) for file in bundle.files for snippet in file.snippets]


def _count_excess(bundle: Bundle) -> int:
    """Return by how many tokens a bundle is too long."""
    return estimate_max_tokens(_format(_list_places(bundle))) - TOKENS_MAX


def _format(places: Iterable[_GivenPlace]) -> str:
    return "\n\n".join([HEAD, *map(_format_place, places)])


def _format_place(place: _GivenPlace) -> str:
    path, span, text = place.file.path, place.snippet.span, place.snippet.text
    fence = fence_for(text)
    head = f"{escape_line(path)}:{span} {escape_line(place.snippet.symbol)}".rstrip()
    return f"{head}\n{fence}{place.file.language}\n{text}\n{fence}"
