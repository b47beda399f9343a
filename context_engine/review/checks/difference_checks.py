"""Compare both sides of a change: guards, locks and awaits it removes; operators, arguments and defaults it turns.

Old and new lines of a hunk are paired by their tokens, as the parser sees them; lines that the change only moves do not
count. A rule needs nothing but the difference. Its confidence was counted on commits (differences.toml): below
the threshold of a review it is a question for a second pass, not a finding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from context_engine.languages import LeafToken
from context_engine.review.checks.check import check, on_line
from context_engine.review.checks.difference_tables import (
    ARITHMETIC,
    ASSIGNMENTS,
    BOOLEAN,
    CLOSE_WORDS,
    COMPARISON,
    CONSTANTS,
    DEFINITIONS,
    ERROR_TEST,
    EXIT_WORDS,
    HANDLERS,
    LOCK_WORDS,
    LOSSES,
    MISSING,
    NEGATIONS,
    NULL_TEST,
    PERMISSION_WORDS,
    RULES,
    SIZE_TEST,
    TRANSACTION_WORDS,
    confidence_of,
)
from context_engine.review.source_versions import TESTS

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import ReviewContext, ReviewedFile
    from context_engine.text import DiffHunk

PAIR_RATIO = 0.6
"""Lines that share fewer tokens are different statements; of two tokens one is enough."""
SIMILAR_RATIO = 0.8
"""Names that share this many letters are taken for one name and its misspelling."""
HUNK_LINES_MAX = 40
"""A longer hunk rewrites its code: what it takes away is elsewhere in it in another form."""
SMALL_LINES = 12
"""Up to so many changed lines of code, without tests, a change is about the lines themselves."""
FINDINGS_MAX = 3
"""Per file: a change that turns more round is meant to."""
Tokens = Sequence[LeafToken]

NAME_CHARS_MIN = 3
"""Shorter names are in many places by chance."""
FOLLOWING_LINES = 40
"""Lines after a removed guard in which its name may still be used."""
_WORD = re.compile(r"[^\W\d]\w*")
_GUARDED_NAMES = re.compile(
    r"\b(\w{1,80}) (?:is(?: not)?|[!=]==?) (?:None|null|nil|undefined|nullptr|NULL)\b"
    r"|\b(?:None|null|nil|undefined|nullptr|NULL) [!=]==? (\w{1,80})"
)


class Suspicion(NamedTuple):
    """A rule and the line of the new version that it is about."""

    rule: str
    line: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NameContext:
    """Where the names of a hunk occur: how often in both files, and in the lines next to the changed ones."""

    old: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    neighbors: tuple[Counter[str], ...] = ()

    def is_misspelled(self, gone: str, come: str) -> bool:
        """Return whether a name that is new in the file took the place of a similar one that is still there."""
        is_new = not self.old[come] and self.new[come] == 1 and self.new[gone] > 0
        return is_new and SequenceMatcher(None, gone, come, autojunk=False).ratio() >= SIMILAR_RATIO

    def is_copied(self, gone: str, come: str, old: Sequence[str]) -> bool:
        """Return whether a line with one name on both sides got the other name from the line next to it."""
        return old.count(gone) == 2 and any(words[come] >= 2 and not words[gone] for words in self.neighbors)

    def is_exchanged(self, gone: str, come: str) -> bool:
        """Return whether one use of a name became one of another name, and both are in the file before and after."""
        is_once = self.old[gone] - self.new[gone] == 1 == self.new[come] - self.old[come]
        return is_once and self.old[come] > 0 and self.new[gone] > 0


@dataclass(frozen=True, slots=True)
class HunkDifference:
    """The removed, added and edited lines of a hunk, without those that only move.

    `place` is the line of the new version at which lines are missing.
    """

    removed: tuple[tuple[int, Tokens], ...]
    added: tuple[tuple[int, Tokens], ...]
    edited: tuple[tuple[Tokens, Tokens], ...]
    place: int
    context: NameContext
    following: str = ""
    """The text of the new version from the place on, as far as the next lines go."""

    def uses_guarded_names(self) -> bool:
        """Return whether the code after the change uses a name that the removed lines test for a missing value."""
        text = " ".join(token.text for _, tokens in self.removed for token in tokens)
        names = {first or last for first, last in _GUARDED_NAMES.findall(text)}
        if not names:
            return True
        if {"if", "else"} <= {token.text for _, tokens in self.removed[:1] for token in tokens}:
            after = " ".join(token.text for _, tokens in self.added for token in tokens)
        else:
            after = self.following
        return not names.isdisjoint(_WORD.findall(after))

    @property
    def is_removal(self) -> bool:
        """Whether it takes lines away and adds none."""
        return bool(self.removed) and not self.added and not self.edited


@check("difference")
def difference(files: Sequence[ReviewedFile], _surroundings: ReviewContext) -> Iterator[Finding]:
    """Report guards, locks and awaits that a change removes, and operators, arguments and defaults that it turns."""
    compared = [file for file in files if _is_compared(file)]
    moved = _moved_lines(files)
    size = sum(len(file.added) + len(file.removed) for file in compared if not TESTS.search(file.path))
    is_small = size <= SMALL_LINES and not _extends_tests(files)
    for file in compared:
        found = [*_find_suspicions(file, moved)]
        unique = list({(suspicion.rule, suspicion.line): suspicion for suspicion in found}.values())
        for suspicion in unique[:FINDINGS_MAX]:
            rule = RULES[suspicion.rule]
            yield on_line(
                suspicion.line,
                f"{rule.body} {suspicion.detail}".strip(),
                path=file.path,
                title=rule.title,
                confidence=confidence_of(suspicion.rule, is_small=is_small),
            )


def _is_compared(file: ReviewedFile) -> bool:
    if file.old is None or file.new is None or not file.is_whole:
        return False
    return file.new.language_name in difference.languages and not file.new.unparsed_reason


def _extends_tests(files: Sequence[ReviewedFile]) -> bool:
    """Whether the change adds to tests: then it has said that it means to change what the code does."""
    return sum(len(file.added) - len(file.removed) for file in files if TESTS.search(file.path)) > 0


def _moved_lines(files: Sequence[ReviewedFile]) -> Counter[str]:
    """Return the lines that are both removed and added somewhere in the change, by their words."""
    removed: Counter[str] = Counter()
    added: Counter[str] = Counter()
    for file in files:
        removed.update(_words(line.text) for line in file.diff.removed_lines)
        if file.new is not None:
            added.update(_words(file.new.line(number)) for number in file.added)
    return removed & added


def _words(line: str) -> str:
    return "".join(line.split())


def _find_suspicions(file: ReviewedFile, moved: Counter[str]) -> Iterator[Suspicion]:
    assert file.old
    assert file.new
    old, new = file.old.leaf_tokens(file.removed), file.new.leaf_tokens(file.added)
    old_words, new_words = (Counter(_WORD.findall(version.text)) for version in (file.old, file.new))
    for hunk in file.diff.hunks:
        removed = [line.old for line in hunk.lines if line.old and not line.new]
        added = [line.new for line in hunk.lines if line.new and not line.old]
        if not 0 < len(removed) + len(added) <= HUNK_LINES_MAX:
            continue
        yield from _find_moved_return(removed, added, old, new)
        place = min(added, default=0) or _find_place_of_removal(hunk, removed)
        lines_old = [(n, old[n]) for n in removed if n in old and not moved[_words(file.old.line(n))]]
        lines_new = [(n, new[n]) for n in added if n in new and not moved[_words(file.new.line(n))]]
        start = place - 1 if added else place  # without an added line the place is the line before
        following = "\n".join(file.new.text.split("\n")[start : start + FOLLOWING_LINES])
        neighbors = tuple(Counter(_WORD.findall(file.new.line(number))) for number in (place - 1, place + 1))
        context = NameContext(old_words, new_words, neighbors)
        difference = replace(_pair(lines_old, lines_new, place), context=context, following=following)
        found = [*_judge(difference)]
        yield from found
        if not found and (rule := judge_loss([t for _, t in lines_old], [t for _, t in lines_new])):
            yield Suspicion(rule, place, f"Removed: {_quote_tokens(lines_old[0][1])}")


def _find_place_of_removal(hunk: DiffHunk, removed: Sequence[int]) -> int:
    """Return the line of the new file before lines that were only removed, or the first one after them."""
    left = [line for line in hunk.lines if line.new]
    before = [line.new for line in left if 0 < (line.old or 0) < removed[0]]
    if before:
        return max(before)
    return left[0].new if left else 1


def _pair(old: Sequence[tuple[int, Tokens]], new: Sequence[tuple[int, Tokens]], place: int) -> HunkDifference:
    """Pair each removed line with the added line that is most like it."""
    open_new = list(new)
    removed, edited = [], []
    for number, tokens in old:
        texts = [token.text for token in tokens]
        scored = [(_ratio(texts, [token.text for token in other[1]]), -at) for at, other in enumerate(open_new)]
        best, at = max(scored, default=(0.0, 0))
        if best >= PAIR_RATIO or (best >= 0.5 and len(texts) == len(open_new[-at][1]) == 2):
            edited.append((tokens, open_new.pop(-at)[1]))
        else:
            removed.append((number, tokens))
    return HunkDifference(tuple(removed), tuple(open_new), tuple(edited), place, NameContext())


def _ratio(old: list[str], new: list[str]) -> float:
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def _judge(hunk: HunkDifference) -> Iterator[Suspicion]:
    elsewhere = Counter(token.text for _, tokens in hunk.added for token in tokens)
    for old, new in hunk.edited:
        suspicion = judge_edit(old, new, hunk.context)
        if suspicion and not _is_split(old, new, elsewhere):
            yield suspicion
    if hunk.removed and len(hunk.added) + len(hunk.edited) <= 1:
        rule = judge_removal([tokens for _, tokens in hunk.removed])
        if rule == "null-guard-removed" and not hunk.uses_guarded_names():
            rule = "condition-removed"
        if rule == "statement-removed" and not hunk.is_removal:
            rule = ""
        if rule:
            yield Suspicion(rule, hunk.place, f"Removed: {_quote_tokens(hunk.removed[0][1])}")
    for line, tokens in hunk.added:
        rule = judge_addition(tokens)
        if rule:
            yield Suspicion(rule, line)


def _quote_tokens(tokens: Tokens) -> str:
    return f"`{' '.join(token.text for token in tokens)[:100]}`."


def _is_split(old: Tokens, new: Tokens, elsewhere: Counter[str]) -> bool:
    """Return whether an edit only takes away what other added lines of the hunk contain: one statement became two."""
    before, after = Counter(token.text for token in old), Counter(token.text for token in new)
    gone = Counter({text: count for text, count in (before - after).items() if _WORD.match(text)})
    return bool(gone) and not after - before and gone <= elsewhere


# -- an edited line ----------------------------------------------------------------------------------------------------


def judge_edit(old: Tokens, new: Tokens, context: NameContext) -> Suspicion | None:
    """Return what the edit of a line turns round; None when it is more than a small edit, or harmless."""
    before, after = [token.text for token in old], [token.text for token in new]
    codes = [code for code in SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if code[0] != "equal"]
    if not codes:
        return None
    rule = _judge_swap(old, new)
    if not rule and len(codes) == 1:
        _, i1, i2, j1, j2 = codes[0]
        gone, come = old[i1:i2], new[j1:j2]
        judged = (
            judge(gone, come, old, new)
            for judge in (_judge_insertion, _judge_deletion, _judge_replacement, _judge_condition_edit)
        )
        rule = next(filter(None, judged), "")
        if not rule and len(gone) == len(come) == 1:
            rule = _judge_exchange(gone[0], come[0], old, new, context)
    if not rule and all(code[0] == "delete" for code in codes):
        gone = [token for code in codes for token in old[code[1] : code[2]]]
        is_wrapped = len(codes) == 2 and _is_unwrapped(old, codes)
        rule = "call-unwrapped" if is_wrapped else _judge_parts(gone, old, new)
    return Suspicion(rule, new[0].line, f"Before: {_quote_tokens(old)}") if rule else None


def _judge_parts(gone: Tokens, old: Tokens, new: Tokens) -> str:
    """Return what an edit removed that only takes words away; empty where they are no part of a statement."""
    words = [token for token in gone if "identifier" in token.kind or token.text in BOOLEAN or token.text == "?"]
    in_types = any("type" in kind and "identifier" not in kind for token in words for kind in token.around[:3])
    if not words or in_types or not _is_in_body(old[0]) or {token.text for token in old[:3]} & DEFINITIONS:
        return ""
    if _is_qualifier(gone, old):
        return ""
    if gone[-1].text in ASSIGNMENTS and new[0].text == old[len(gone)].text:
        return "result-dropped"
    if {"?", ":"} <= {token.text for token in gone} or {"if", "else"} <= {token.text for token in gone}:
        return "alternative-removed"
    return "part-removed"


def _is_qualifier(gone: Tokens, old: Tokens) -> bool:
    """Whether only the package or class before a constant or type is gone: it has moved to this file or its package."""
    if len(gone) != 2 or gone[1].text not in (".", "::") or gone[0].text in ("self", "this", "super", "cls"):
        return False
    after = old[old.index(gone[1]) + 1 :]
    return bool(after) and "identifier" in after[0].kind and after[0].text[:1].isupper()


def _is_in_body(token: LeafToken) -> bool:
    return any(_is_in(token, word) for word in ("body", "block", "compound"))


def _judge_swap(old: Tokens, new: Tokens) -> str:
    """Return whether two names of one line took each other's place."""
    if len(old) != len(new):
        return ""
    different = [at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one.text != other.text]
    if len(different) != 2:
        return ""
    first, second = different
    is_swap = old[first].text == new[second].text and old[second].text == new[first].text
    if not is_swap or not old[first].text[:1].isidentifier() or not _is_in(new[first], "argument"):
        return ""
    return "swapped-arguments"


def _judge_replacement(gone: Tokens, come: Tokens, old: Tokens, new: Tokens) -> str:
    if len(gone) != 1 or len(come) != 1:
        return ""
    before, after = gone[0].text, come[0].text
    for rule, group in (
        ("comparison-turned", COMPARISON),
        ("boolean-turned", BOOLEAN),
        ("arithmetic-turned", ARITHMETIC),
    ):
        if before in group and after in group and len(old) > 1:
            return rule
    if before == "?." and after == ".":
        return "null-guard-removed"
    if before.lower() in CONSTANTS and after.lower() in CONSTANTS:
        if _is_in(come[0], "param"):
            return "default-changed"
        return "constant-turned"
    if before.isdecimal() and after.isdecimal() and len(before) < 10 and len(after) < 10:
        if _is_in(come[0], "param"):
            return "default-changed"
        if abs(int(before) - int(after)) == 1 and max(int(before), int(after)) <= 3:
            return "off-by-one"
        return ""
    if ERROR_TEST.fullmatch(before) and after in ("nil", "None", "null"):
        return "error-swallowed"
    return _judge_names(gone[0], come[0], old, new)


def _judge_names(gone: LeafToken, come: LeafToken, old: Tokens, new: Tokens) -> str:
    """Return whether a name replaces another one by a name that the line has already."""
    if "identifier" not in come.kind or gone.kind != come.kind or len(new) < 4:
        return ""
    if gone.text in {token.text for token in new}:
        return ""
    if [token.text for token in new].count(come.text) > 1 and come.text in {token.text for token in old}:
        return "name-repeated"
    return ""


def _judge_exchange(gone: LeafToken, come: LeafToken, old: Tokens, new: Tokens, context: NameContext) -> str:
    """Return whether one name was put where another one belongs, by where both occur in the file."""
    if gone.kind != come.kind or come.kind not in _PLAIN_NAMES or {token.text for token in old[:3]} & DEFINITIONS:
        return ""
    at = new.index(come)
    follows_dot = at > 0 and new[at - 1].text in _MEMBER_SIGNS
    if context.is_copied(gone.text, come.text, [token.text for token in old]):
        return "copied-line"
    if follows_dot or min(len(gone.text), len(come.text)) < NAME_CHARS_MIN:
        return ""
    if context.is_misspelled(gone.text, come.text):
        return "name-misspelled"
    return "name-exchanged" if context.is_exchanged(gone.text, come.text) else ""


_PLAIN_NAMES = frozenset("identifier simple_identifier property_identifier field_identifier name constant".split())
_MEMBER_SIGNS = frozenset(". ?. -> :: .".split())


def _judge_deletion(gone: Tokens, come: Tokens, old: Tokens, _new: Tokens) -> str:
    if come or not gone:
        return ""
    texts = [token.text for token in gone]
    if set(texts) & {"await", ".await"} or texts == [".", "await"]:
        return "await-removed"
    if len(texts) == 1 and texts[0] in NEGATIONS:
        return "negation-turned"
    if len(texts) == 2 and texts[0] in "+-" and texts[1] == "1":
        return "off-by-one"
    if texts == ["?"] and old[-1].kind in (";", "?"):
        return "error-check-removed"
    if texts[0] in BOOLEAN or texts[-1] in BOOLEAN:
        return "condition-part-removed"
    if texts[0] in ("??", "?:"):
        return "null-guard-removed"
    is_comma_alone = not any(text.strip(",;()[]{}") for text in texts)
    if texts == ["="] or is_comma_alone or not _is_in(gone[0], "argument"):
        return ""
    return "argument-removed" if texts[0] == "," or texts[-1] == "," else ""


def _judge_insertion(gone: Tokens, come: Tokens, _old: Tokens, new: Tokens) -> str:
    if gone or not come or len(new) < 3:
        return ""
    texts = [token.text for token in come]
    if len(texts) == 1 and texts[0] in NEGATIONS:
        return "negation-turned"
    return "off-by-one" if len(texts) == 2 and texts[0] in ("+", "-") and texts[1] == "1" else ""


def _judge_condition_edit(gone: Tokens, come: Tokens, old: Tokens, new: Tokens) -> str:
    """Return whether a branch or a loop got another condition; a renamed name is not one."""
    is_condition = {old[0].text, new[0].text} <= {"if", "elif", "while", "unless", "until", "}"} and new[0].text == old[
        0
    ].text
    is_rename = len(gone) == len(come) == 1 and "identifier" in gone[0].kind
    if is_condition and gone and not is_rename and len(gone) + len(come) <= 12:
        return "condition-changed"
    return ""


def _is_unwrapped(old: Tokens, codes: Sequence[tuple[str, int, int, int, int]]) -> bool:
    """Whether the two deletions are a call around something, and its closing bracket."""
    (_, i1, i2, _, _), (_, k1, k2, _, _) = codes
    return old[i2 - 1].text == "(" and old[k1].text == ")" and k2 - k1 <= 3 and i2 - i1 <= 6


def _is_in(token: LeafToken, word: str) -> bool:
    return any(word in kind for kind in token.around)


# -- removed lines -----------------------------------------------------------------------------------------------------


def judge_removal(removed: Sequence[Tokens]) -> str:
    """Return what lines that were taken away guarded or ended; empty when nothing is known of them.

    Each line has a token. The first rule that fits counts, so the surest come first.
    """
    first = [token.text for token in removed[0]]
    words = {token.text for tokens in removed for token in tokens}
    if set(first[:3]) & DEFINITIONS:
        return ""
    if len(removed) <= 6 and (rule := _find_removed_word(words)):
        return rule
    if "try" in words and words & HANDLERS:
        return "error-handler-removed"
    begins_condition = set(first[:3]) & {"if", "unless", "when", "guard", "elif"}
    if begins_condition or first[-1] in ("if", "unless"):
        return _judge_condition(removed, words)
    if first[0] in ("with", "using", "defer"):
        return "resource-removed"
    if len(removed) == 1 and (rule := _judge_single(first)):
        return rule
    if len(removed) <= 8 and any(tokens[0].text in ("if", "unless", "elif") for tokens in removed[1:]):
        return _judge_condition(removed, words)
    return "statement-removed" if len(removed) <= 3 and len(first) > 2 and _is_in_body(removed[0][0]) else ""


def _find_removed_word(words: set[str]) -> str:
    """Return the rule whose words are among these, or are parts of them as in `releaseLock`; empty for none."""
    parts = {part.lower() for word in words for part in re.findall(r"[A-Z]?[a-z]+", word)}
    return next((rule for rule, known in _REMOVED_WORDS if parts & known), "")


def _judge_single(words: Sequence[str]) -> str:
    """Return what one line that was taken away did for the flow of control; empty when nothing."""
    if words[0] == "break" and len(words) <= 2:
        return "break-removed"
    if words[0] in ("return", "continue"):
        return "return-removed"
    if words[0] in ("raise", "throw"):
        return "error-swallowed"
    if words[0] in ("super", "base", "parent") and "(" in words:
        return "super-removed"
    return "await-removed" if "await" in words else ""


def judge_loss(removed: Sequence[Tokens], added: Sequence[Tokens]) -> str:
    """Return what a rewritten piece of code no longer distinguishes; empty when it distinguishes something new."""
    if not removed or not added or not _is_in_body(removed[0][0]):
        return ""
    before = Counter(token.text for tokens in removed for token in tokens if "string" not in token.kind)
    after = Counter(token.text for tokens in added for token in tokens if "string" not in token.kind)
    lost = [sum(before[word] - after[word] for word in words) for _, words in LOSSES]
    if min(lost) < 0:
        return ""
    values = _count_plain_constants(removed) - _count_plain_constants(added)
    lost = [count - values[rule] for (rule, _), count in zip(LOSSES, lost, strict=True)]
    return next((rule for (rule, _), count in zip(LOSSES, lost, strict=True) if count > 0), "")


def _count_plain_constants(lines: Sequence[Tokens]) -> Counter[str]:
    """Count the missing values that are compared with nothing: defaults, results and types handle no case."""
    count: Counter[str] = Counter()
    for tokens in lines:
        texts = ["", *(token.text for token in tokens if "string" not in token.kind), ""]
        for at, text in enumerate(texts):
            is_tested = texts[at - 1] in _BEFORE_TESTED or (at + 1 < len(texts) and texts[at + 1] in _AFTER_TESTED)
            if text in MISSING and not is_tested:
                count["null-case-lost"] += 1
    return count


_BEFORE_TESTED = COMPARISON | {"not", "case", "when"}
_AFTER_TESTED = COMPARISON | {"=>", "->", "?"}


_REMOVED_WORDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("lock-removed", LOCK_WORDS),
    ("transaction-removed", TRANSACTION_WORDS),
    ("permission-removed", PERMISSION_WORDS),
    ("close-removed", CLOSE_WORDS),
)


def _judge_condition(removed: Sequence[Tokens], words: set[str]) -> str:
    """Return what a condition that was taken away tested, and whether its body left the function."""
    text = " ".join(token.text for tokens in removed for token in tokens)
    if ERROR_TEST.search(text) and words & EXIT_WORDS:
        return "error-check-removed"
    if NULL_TEST.search(text):
        return "null-guard-removed"
    if SIZE_TEST.search(text):
        return "bounds-check-removed"
    return "guard-removed" if words & EXIT_WORDS else "condition-removed"


# -- added lines, and lines in another order ---------------------------------------------------------------------------


def judge_addition(tokens: Tokens) -> str:
    """Return what is wrong with an added line by itself; empty when nothing is."""
    text = " ".join(token.text for token in tokens)
    found = _CONTRADICTION.search(text)
    if found:
        return "condition-contradicts"
    return "debug-output" if _DEBUG.match(text) else ""


_CONTRADICTION = re.compile(
    r"\b(\w{1,80}) (?:is None and|(?:===?) (?:null|nil|undefined|None) &&) \1 (?:[.<>\[]|->|[<>]=)"
)
_DEBUG = re.compile(
    r"(?:dbg !|var_dump \(|print_r \(|binding \. pry|byebug\b"
    r"|(?:console \. (?:log|debug)|fmt \. Print(?:ln|f)?|e?print(?:ln|f)? ?!?|puts|System \. out \. print(?:ln)?"
    r"|Console \. WriteLine)"
    r" ?\(? ?['\"`] ?(?i:debug|here|xxx)\b)"
)


def _find_moved_return(
    removed: Sequence[int], added: Sequence[int], old: dict[int, list[LeafToken]], new: dict[int, list[LeafToken]]
) -> Iterator[Suspicion]:
    """Report a return that is deeper than before and else the same."""
    if len(removed) != 1 or len(added) != 1 or removed[0] not in old or added[0] not in new:
        return
    before, after = old[removed[0]], new[added[0]]
    if [token.text for token in before] != [token.text for token in after] or before[0].text != "return":
        return
    loops = [sum("for" in kind or "while" in kind for kind in tokens[0].around) for tokens in (before, after)]
    if loops[1] > loops[0]:
        yield Suspicion("return-in-loop", added[0])
