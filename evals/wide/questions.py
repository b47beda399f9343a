"""PURE. What may be asked of a repository: subjects and messages of commits, and first sentences of doc comments.

A commit is asked of a tree before it and answered by the source files of that tree that it changed. A sentence is
answered by its function, in a tree from which the comment was removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256

from context_engine.index.file_roles import role_of
from context_engine.languages import ATTRIBUTE, Grammars, Language, Symbol, find_lines_above, outline_file
from context_engine.model import Commit
from evals.localisation.replay import NOT_SOURCE, is_task
from training.mine import is_telling, plain, sentence

SOURCES_MAX = 5
FUNCTIONS = frozenset({"function", "method", "constructor"})
WORDS_MIN = 4
"""A shorter sentence ("Returns the name.") is about any function, and an address is no sentence."""
BODY_WORDS_MIN = 8
TAGS = ("@", "\\")
"""A comment that begins with a parameter says nothing about its function."""
BODY_CHARS_MAX = 2_000
_BOT = re.compile(r"\[bot\]|dependabot|renovate|greenkeeper|weblate|pre-commit-ci|github.actions", re.IGNORECASE)
_CHORE = re.compile(
    r"^\W*(ci|chores?|docs?|style|tests?|build|readme|format(ting)?|fmt|cleanup|whitespace|wip|auto[- ]?format|translat\w+)\b"
    r"|^(\W*:\w+:|[^\x00-\x7f])|\bv?\d+\.\d+\.\d+\b|\b(bump|dependenc(y|ies)|lockfile)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\s*\(?#\d+\)?\s*$")
_TRAILER = re.compile(
    r"^[A-Z][\w-]{1,30}(-by)?: |^(closes?|fix(es)?|refs?|see|pr)\b:? .{0,40}#?\d+\W*$|^cherry.picked", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DocQuestion:
    """A sentence about a function, and its place. `bare` is its file without the comment, line by line as before."""

    sentence: str
    path: str
    first: int
    last: int
    bare: bytes


# -- commits ----------------------------------------------------------------------------------------------------------


def is_asked(commit: Commit) -> bool:
    """Whether a commit says what it changes in the program; releases, dependencies, chores and emoji do not.

    >>> from context_engine.model import CommitFileChange
    >>> subjects = ["Keep the order of headers", ":bookmark: release the new parser", "Prepare for 2.1.0 at last",
    ...             "docs: say how headers are kept"]
    >>> [is_asked(Commit("", 0, "Ann", subject, (CommitFileChange("a.py"),))) for subject in subjects]
    [True, False, False, False]
    """
    return is_task(commit) and not _CHORE.search(commit.subject) and not _BOT.search(commit.author)


def plain_subject(subject: str) -> str:
    """Return a subject without the number of its pull request.

    >>> plain_subject("Keep the order of headers (#12)")
    'Keep the order of headers'
    """
    return _NUMBER.sub("", subject)


def plain_body(body: str) -> str:
    r"""Return the prose of a commit's body: no trailers, links or lists of squashed commits; empty if it says little.

    >>> plain_body("Headers were sorted by name, which broke clients that\nrely on their order.\n\nSigned-off-by: Ann")
    'Headers were sorted by name, which broke clients that\nrely on their order.'
    """
    lines = [re.sub(r"https?://\S+", "", line).strip() for line in body.splitlines()]
    kept = [
        line for line in lines if not _TRAILER.match(line) and not line.startswith(("* ", "<!--", "```", "#", "---"))
    ]
    text = re.sub(r"\n{2,}", "\n", "\n".join(kept)).strip()[:BODY_CHARS_MAX]
    return text if len(text.split()) >= BODY_WORDS_MIN else ""


def changed_sources(commit: Commit, sources: Collection[str]) -> list[str]:
    """Return the source files of the tree that a commit changed, or none where they are too many for one thing."""
    changed = [change.path for change in commit.files if change.path in sources]
    return changed if len(changed) <= SOURCES_MAX else []


# -- doc comments -----------------------------------------------------------------------------------------------------


def is_source(path: str, language: Language | None) -> bool:
    """Whether a file belongs to the program itself."""
    return language is not None and language.content == "code" and role_of(path, "code") not in NOT_SOURCE


def find_doc_questions(path: str, data: bytes, language: Language, grammars: Grammars) -> Iterator[DocQuestion]:
    """Yield the questions that the functions of one file give, in an order that no alphabet decides."""
    symbols = outline_file(language, data, grammars, details=True).symbols
    told = [(sentence(symbol.doc), symbol) for symbol in symbols if symbol.kind in FUNCTIONS and symbol.doc]
    for question, symbol in sorted(told, key=lambda pair: draw(pair[0])):
        if len(question.split()) < WORDS_MIN or not is_telling(question) or question.startswith(TAGS):
            continue
        bare = remove_comment(language, data, symbol)
        after = outline_file(language, bare, grammars).symbols
        same = [(each.name, each.line) for each in after] == [(each.name, each.line) for each in symbols]
        if same and letters(question) not in letters(bare):
            yield DocQuestion(question, path, symbol.first, symbol.last, bare)


def draw(text: str) -> bytes:
    """Return a key to sort by that has nothing to do with the meaning of the text."""
    return sha256(text.encode("utf-8", "replace")).digest()


def remove_comment(language: Language, data: bytes, symbol: Symbol) -> bytes:
    r"""Return a file with blank lines in place of the comment above a function and of its docstring.

    >>> from context_engine.languages import Languages
    >>> add = Symbol("add", "function", first=2, last=2, start=9, stop=24, parent=-1, line=2, doc="Adds.")
    >>> remove_comment(Languages.builtin()["go"], b"// Adds.\nfunc add(a int) {}", add)
    b'\nfunc add(a int) {}'
    """
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for row in range(find_lines_above(language.comments, lines, symbol.first).first - 1, symbol.first - 1):
        if not ATTRIBUTE.match(lines[row]):
            lines[row] = ""
    code = _without_docstring(symbol.doc, "\n".join(lines[symbol.first - 1 :]))
    return "\n".join([*lines[: symbol.first - 1], code]).encode("utf-8", "surrogateescape")


def _without_docstring(doc: str, code: str) -> str:
    first = doc.partition("\n")[0]
    if not first or first not in code:
        return code
    quoted = re.compile(rf"[ \t]*\w?(\"\"\"|'''|\"|')\s*{re.escape(first)}.*?\1", re.DOTALL)
    return quoted.sub(lambda found: "\n" * found[0].count("\n"), code, count=1)


def letters(text: str | bytes) -> str:
    """Return the lower-case letters of a text: what two copies of a sentence share."""
    return plain(text if isinstance(text, str) else text.decode("utf-8", "replace"))
