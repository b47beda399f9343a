"""PURE. Context for a prompt before the agent begins: the places that it most likely needs, or nothing.

Nothing is given unless the answer of the search is likely and the prompt asks for code. Chat, commands for git or a
shell and questions of general knowledge ask for none, whatever words they share with a repository.

>>> asks_for_code("thanks"), asks_for_code("commit and push the fix of the parser"), asks_for_code("What is a monad?")
(False, False, False)
>>> asks_for_code("why does the retry loop of the connection pool never end?")
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from context_engine.context import PRICE_POWER, QUOTED_FROM_REPOSITORY, ShownLines, estimate_max_tokens, is_task
from context_engine.model import Answer, Hit
from context_engine.search import find_telling_words
from context_engine.text import LineSpan, escape_line
from context_engine.tools import excerpt_hit, fence_for

TOKENS_MAX = 1_500
PROBABILITY_MIN = 0.6
"""Of an answer that is given. On the tuning half of the prompts all of 50 that need no code stay silent, and 80 % of
those that need some are answered (evals/injection)."""
TASK_PROBABILITY_MIN = 0.3
"""The same for a prompt that begins as a task does: its form says that it needs code. Silence stays at 0.99, and of 47
commit subjects 0.81 are answered instead of 0.57 (evals/injection)."""
TELLING_WORDS_MIN = 2
"""One word matches some file of every repository."""
FILES_MAX = 4
PLACES_PER_FILE = 3
CHANCE_MIN = 0.15
"""Further places below this chance cost more than they bring (evals/injection)."""
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


class GivenPlace(NamedTuple):
    """A place as it is shown."""

    path: str
    first: int
    text: str


class GivenContext(NamedTuple):
    """The text for an agent, and the places in it; both are empty when nothing is given."""

    text: str
    places: tuple[GivenPlace, ...]


NOTHING = GivenContext("", ())


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


def build_prompt_context(
    prompt: str, answer: Answer, shown: ShownLines, *, tokens_max: int = TOKENS_MAX
) -> GivenContext:
    """Return the code for a prompt within a budget, without what the session was shown."""
    least = TASK_PROBABILITY_MIN if is_task(prompt) else PROBABILITY_MIN
    if answer.probability < least or not answer.hits:
        return NOTHING
    if not asks_for_code(prompt, names_code=not _NAMING_SIGNALS.isdisjoint(answer.hits[0].why)):
        return NOTHING
    places = _select_places(answer.hits, prompt, shown, tokens_max - estimate_max_tokens(HEAD))
    if not places:
        return NOTHING
    return GivenContext("\n\n".join([HEAD, *(text for _, text in places)]), tuple(place for place, _ in places))


def _select_places(hits: Sequence[Hit], prompt: str, shown: ShownLines, room: int) -> list[tuple[GivenPlace, str]]:
    """Return the best place of each file, then those with the most chance for their price, by rank, with texts."""
    rows = []
    firsts = {hit.chunk.path: rank for rank, hit in reversed(list(enumerate(hits)))}.values()
    for rank, hit in enumerate(hits):
        span, excerpt = excerpt_hit(hit, prompt, rank)
        place = GivenPlace(hit.chunk.path, span.first, excerpt)
        if shown.includes(place.path, place.first, place.text) or (rank not in firsts and hit.chance < CHANCE_MIN):
            continue
        text = _format_place(hit, place)
        rows.append((rank, hit.chance, estimate_max_tokens(text) + 2, place, text))
    kept = []
    for row in sorted(rows, key=lambda row: (row[0] not in firsts, -row[1] / row[2] ** PRICE_POWER, row[0])):
        if row[2] <= room:
            kept.append(row)
            room -= row[2]
    return [(place, text) for _, _, _, place, text in sorted(kept, key=lambda row: row[0])]


def _format_place(hit: Hit, place: GivenPlace) -> str:
    span = LineSpan(place.first, place.first + place.text.count("\n"))
    fence, name = fence_for(place.text), hit.chunk.name_at(span)
    head = f"{escape_line(place.path)}:{span} {escape_line(name if name != hit.chunk.path else '')}".rstrip()
    return f"{head}\n{fence}{hit.chunk.language}\n{place.text}\n{fence}"
