"""Compare both sides of a change: guards, locks and awaits it removes; operators, arguments and defaults it turns.

Old and new lines of a hunk are paired by their tokens, as the parser sees them; lines that the change only moves do not
count. A removal is a finding. An edit that turns something round may be the bug or its repair, so it is a question,
unless the same file writes the old form elsewhere and the new one nowhere. The parsers name the same things alike: an
argument list has `argument` in its kind in every grammar, a name `identifier`. Where languages differ in words, the
words of all are in one set.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from context_engine.languages import LeafToken
from context_engine.review.checks.check import check, on_line, read_declarations
from context_engine.review.source_versions import is_test

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile
    from context_engine.text import DiffHunk

PAIR_RATIO = 0.6
"""Lines that share fewer tokens are different statements; of two tokens one is enough."""
SIMILAR_RATIO = 0.8
"""Names that share this many letters are taken for one name and its misspelling."""
HUNK_LINES_MAX = 40
"""A longer hunk rewrites its code: what it takes away is elsewhere in it in another form."""
SMALL_LINES = 12
"""Up to so many changed lines of code, without tests, a change is about the lines themselves. In larger ones 2 of 115
hits were right (commits of twelve repositories, 2026-11-28), so these are not compared."""
QUESTION = "Is this intended?"
FINDINGS_MAX = 3
"""Per file: a change that turns more round is meant to."""
NAME_CHARS_MIN = 3
"""Shorter names are in many places by chance."""
FOLLOWING_LINES = 40
"""Lines after a removed guard in which its name may still be used."""
USERS_MAX = 3
"""A question names so many files that use the changed function."""

COMPARISON = frozenset({*"< <= > >= == != === !== is in <> ~=".split(), "is not", "not in"})
BOOLEAN = frozenset("and or && ||".split())
ARITHMETIC = frozenset("+ - * / % // += -= *= /= << >> & | ^ ++ -- .. ..= ... ..<".split())
CONSTANTS = frozenset("true false none null nil".split())
NEGATIONS = frozenset({"!", "not"})
OPERATORS = COMPARISON | BOOLEAN | ARITHMETIC | CONSTANTS | NEGATIONS
DEFINITIONS = frozenset(
    "def func function fn fun class struct interface enum trait impl import use using from package module end".split()
)
EXIT_WORDS = frozenset("return raise throw continue break panic exit abort fail bail yield goto".split())
TURNED = "turned"
"""The rule of an edit that has no direction: it is a question."""
REMOVED_WORDS = (
    ("lock-removed", frozenset("lock unlock mutex synchronized acquire semaphore rlock".split())),
    (
        "permission-removed",
        frozenset("permission permissions authorize authorized authenticated validate sanitize escape".split()),
    ),
    ("close-removed", frozenset("close dispose disconnect shutdown cleanup flush".split())),
)
LOSSES = (
    (TURNED, frozenset("try rescue catch except".split())),
    (
        "null-case-lost",
        frozenset("?? ?. None null nil undefined isset is_none is_some unwrap_or unwrap_or_default".split()),
    ),
    ("case-lost", frozenset("if elif unless case when ? && || and or".split())),
)
ERROR_TEST = re.compile(r"\b(?:err|error|e|ex|exception)\b|\b(?:Err|is_err)\b")
NULL_TEST = re.compile(r"\b(?:None|null|nil|undefined|nullptr|NULL|isset|is_none|is_some|Some|nil \?|empty|blank)\b")
SIZE_TEST = re.compile(r"\b(?:len|length|size|count|Count|Length|capacity|cap|index|idx)\b|[<>]=? ?\d")
_WORD = re.compile(r"[^\W\d]\w*")
_GUARDED_NAMES = re.compile(
    r"\b(\w{1,80}) (?:is(?: not)?|[!=]==?) (?:None|null|nil|undefined|nullptr|NULL)\b"
    r"|\b(?:None|null|nil|undefined|nullptr|NULL) [!=]==? (\w{1,80})"
)

Tokens = Sequence[LeafToken]


class DifferenceRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a rule."""

    title: str
    body: str


RULES: Mapping[str, DifferenceRule] = msgspec.toml.decode(
    read_declarations("differences.toml"), type=dict[str, DifferenceRule]
)


class Suspicion(NamedTuple):
    """A rule and the line of the new version that it is about.

    `forms` are the edited tokens and their neighbors, before and after, where an edit turns something round.
    """

    rule: str
    line: int
    detail: str = ""
    forms: tuple[str, str] = ("", "")


@check("difference")
def difference(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report what a change removes, and ask about the operators, arguments and defaults that it turns."""
    whole = [(file, *file.versions) for file in files if file.versions]
    compared = [row for row in whole if row[2].language_name in difference.languages and not row[2].unparsed_reason]
    size = sum(len(file.added) + len(file.removed) for file, _, _ in compared if not file.is_test)
    # A change that adds to tests has said that it means to change what the code does.
    added_tests = sum(len(file.added) - len(file.removed) for file in files if file.is_test)
    if size > SMALL_LINES or added_tests > 0:
        return
    moved = _moved_lines(files)
    for file, old, new in compared:
        found = {(one.rule, one.line): one for one in _find_suspicions(file, old, new, moved)}
        for suspicion in [*found.values()][:FINDINGS_MAX]:
            rule, line, detail, forms = suspicion
            sibling = _find_sibling(file, new, *forms) if rule == TURNED else 0
            if rule == TURNED and not sibling:
                question = f"{detail} {_name_users(file, new, line, surroundings)}"
                yield on_line(line, question.strip(), path=file.path, title=QUESTION, priority=3, confidence=0.5)
                continue
            known = RULES[rule]
            where = (f"{file.path}:{sibling}: {new.line(sibling).strip()[:100]}",) if sibling else ()
            yield on_line(line, f"{known.body} {detail}".strip(), path=file.path, title=known.title, evidence=where)


def _find_sibling(file: ReviewedFile, new: FileVersion, before: str, after: str) -> int:
    """Return an unchanged line with the old form of an edit; 0 without one, or if another line has the new form."""
    unchanged = [(number, _words(line)) for number, line in enumerate(new.lines, 1) if number not in file.added]
    if any(after in text for _, text in unchanged):
        return 0
    return next((number for number, text in unchanged if before in text), 0)


def _name_users(file: ReviewedFile, new: FileVersion, line: int, surroundings: ReviewContext) -> str:
    """Return which other files use the function around a line, tests first; empty if none is known to."""
    around = new.enclosing(line)
    if around is None or not surroundings.is_known or len(around.name) < NAME_CHARS_MIN:
        return ""
    paths = [path for path in surroundings.files_with_words([around.name]).get(around.name, ()) if path != file.path]
    users = sorted(paths, key=lambda path: (not is_test(path), path))[:USERS_MAX]
    return f"{around.name} is used by {', '.join(users)}." if users else ""


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


def _find_suspicions(
    file: ReviewedFile, old: FileVersion, new: FileVersion, moved: Counter[str]
) -> Iterator[Suspicion]:
    old_tokens, new_tokens = old.leaf_tokens(file.removed), new.leaf_tokens(file.added)
    old_words, new_words = (Counter(_WORD.findall(version.text)) for version in (old, new))
    for hunk in file.diff.hunks:
        removed = [line.old for line in hunk.lines if line.old and not line.new]
        added = [line.new for line in hunk.lines if line.new and not line.old]
        if not 0 < len(removed) + len(added) <= HUNK_LINES_MAX:
            continue
        place = min(added, default=0) or _find_place_of_removal(hunk, removed)
        before, after = (
            [tokens[n] for n in lines if n in tokens] for lines, tokens in ((removed, old_tokens), (added, new_tokens))
        )
        if len(removed) == len(added) == len(before) == len(after) == 1 and _moves_into_loop(before[0], after[0]):
            yield Suspicion("return-in-loop", added[0])
        for number in added:
            if number in new_tokens and _CONTRADICTION.search("\n".join(new.lines[number - 1 : number + 1])):
                yield Suspicion("condition-contradicts", number)
        lines_old = [old_tokens[n] for n in removed if n in old_tokens and not moved[_words(old.line(n))]]
        lines_new = [(n, new_tokens[n]) for n in added if n in new_tokens and not moved[_words(new.line(n))]]
        start = place - 1 if added else place  # without an added line the place is the line before
        following = "\n".join(new.lines[start : start + FOLLOWING_LINES])
        neighbors = [Counter(_WORD.findall(new.line(number))) for number in (place - 1, place + 1)]
        context = NameContext(old_words, new_words, neighbors)
        found = [*_judge(lines_old, lines_new, place, following, context)]
        yield from found
        if not found and (rule := judge_loss(lines_old, [tokens for _, tokens in lines_new])):
            yield Suspicion(rule, place, f"Removed: {_quote_tokens(lines_old[0])}")


def _find_place_of_removal(hunk: DiffHunk, removed: Sequence[int]) -> int:
    """Return the line of the new file before lines that were only removed, or the first one after them."""
    left = [line for line in hunk.lines if line.new]
    before = [line.new for line in left if 0 < (line.old or 0) < removed[0]]
    return max(before) if before else left[0].new if left else 1


def _moves_into_loop(before: Tokens, after: Tokens) -> bool:
    """Whether a return is deeper in loops than before and else the same."""
    if _texts(before) != _texts(after) or before[0].text != "return":
        return False
    loops = [sum("for" in kind or "while" in kind for kind in tokens[0].around) for tokens in (before, after)]
    return loops[1] > loops[0]


def _texts(tokens: Tokens) -> list[str]:
    return [token.text for token in tokens]


def _quote_tokens(tokens: Tokens) -> str:
    return f"`{' '.join(_texts(tokens))[:100]}`."


def _judge(
    old: Sequence[Tokens], new: Sequence[tuple[int, Tokens]], place: int, following: str, context: NameContext
) -> Iterator[Suspicion]:
    """Yield what is suspicious about a hunk, whose lines are paired: each removed one with the most similar added one.

    `place` is the line of the new version at which lines are missing, `following` its text from there on.
    """
    added = list(new)
    removed, edited = [], []
    for tokens in old:
        texts = _texts(tokens)
        ratios = [SequenceMatcher(None, texts, _texts(other), autojunk=False).ratio() for _, other in added]
        scored = [(ratio, -at) for at, ratio in enumerate(ratios)]
        best, at = max(scored, default=(0.0, 0))
        if best >= PAIR_RATIO or (best >= 0.5 and len(texts) == len(added[-at][1]) == 2):
            edited.append((tokens, added.pop(-at)[1]))
        else:
            removed.append(tokens)
    elsewhere = Counter(text for _, tokens in added for text in _texts(tokens))
    for before, after in edited:
        suspicion = judge_edit(before, after, context)
        if suspicion and not _is_split(before, after, elsewhere):
            yield suspicion
    if removed and len(added) + len(edited) <= 1:
        rule = judge_removal(removed)
        after = " ".join(text for _, tokens in added for text in _texts(tokens))
        if rule == "null-guard-removed" and not _uses_guarded_names(removed, after, following):
            rule = "condition-removed"
        is_debug = _DEBUG.match(" ".join(_texts(removed[0])))
        if rule and (rule != "statement-removed" or not (added or edited or is_debug)):
            yield Suspicion(rule, place, f"Removed: {_quote_tokens(removed[0])}")
    for line, tokens in added:
        if _DEBUG.match(" ".join(_texts(tokens))):
            yield Suspicion("debug-output", line)


_CONTRADICTION = re.compile(
    r"\b(\w{1,80}) is None and \1[.\[]|\b(\w{1,80}) ===? (?:null|nil|undefined) && \2(?:[.\[]|->)"
    r"|(?<![\w.])([\w.]{1,80}) (?:is|===?) (?:None|null|nil|undefined)\)?\s*[:{]\s*\n[^\n]*?(?<![\w.])\3(?:[.\[]|->)"
)
"""A value is missing where the condition, or the first line of its block, uses it."""
_DEBUG = re.compile(
    r"(?:dbg !|var_dump \(|print_r \(|binding \. pry|byebug\b"
    r"|(?:console \. (?:log|debug)|fmt \. Print(?:ln|f)?|e?print(?:ln|f)? ?!?|puts|System \. out \. print(?:ln)?"
    r"|Console \. WriteLine)"
    r" ?\(? ?['\"`] ?(?i:debug|here|xxx)\b)"
)


def _uses_guarded_names(removed: Sequence[Tokens], added: str, following: str) -> bool:
    """Whether the code after the change uses a name that the removed lines test for a missing value."""
    text = " ".join(text for tokens in removed for text in _texts(tokens))
    names = {first or last for first, last in _GUARDED_NAMES.findall(text)}
    after = added if {"if", "else"} <= {*_texts(removed[0])} else following
    return not names or not names.isdisjoint(_WORD.findall(after))


def _is_split(old: Tokens, new: Tokens, elsewhere: Counter[str]) -> bool:
    """Whether an edit only takes away what other added lines of the hunk contain: one statement became two."""
    before, after = Counter(_texts(old)), Counter(_texts(new))
    gone = Counter({text: count for text, count in (before - after).items() if _WORD.match(text)})
    return bool(gone) and not after - before and gone <= elsewhere


# -- an edited line ----------------------------------------------------------------------------------------------------


class NameContext(NamedTuple):
    """How often names occur in both files, and in the lines next to the changed ones of a hunk."""

    old: Counter[str]
    new: Counter[str]
    neighbors: Sequence[Counter[str]]


def judge_edit(old: Tokens, new: Tokens, context: NameContext) -> Suspicion | None:
    """Return what the edit of a line turns round; None when it is more than a small edit, or harmless."""
    before, after = _texts(old), _texts(new)
    codes = [code for code in SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if code[0] != "equal"]
    if not codes:
        return None
    is_swap = _is_swap(old, new)
    rule = TURNED if is_swap else ""
    if not rule and len(codes) == 1:
        _, i1, i2, j1, j2 = codes[0]
        rule = _judge_part(old[i1:i2], new[j1:j2], old, new, context)
    if not rule and all(code[0] == "delete" for code in codes):
        gone = [token for code in codes for token in old[code[1] : code[2]]]
        rule = TURNED if _is_unwrapped(old, codes) else _judge_parts(gone, old, new)
    if rule != TURNED:
        return Suspicion(rule, new[0].line, f"Before: {_quote_tokens(old)}") if rule else None
    detail = f"Was {_quote_tokens(old)[:-1]}, is {_quote_tokens(new)}"
    if not is_swap and any(
        code[0] != "replace" for code in codes
    ):  # conditions with and without a negation are in every file
        return Suspicion(rule, new[0].line, detail)
    (_, i1, _, j1, _), (_, _, i2, _, j2) = codes[0], codes[-1]
    forms = "".join(before[max(0, i1 - 2) : i2 + 1]), "".join(after[max(0, j1 - 2) : j2 + 1])
    return Suspicion(rule, new[0].line, detail, forms)


def _is_swap(old: Tokens, new: Tokens) -> bool:
    """Whether two names of one line took each other's place in a list of arguments."""
    pairs = list(zip(old, new, strict=False)) if len(old) == len(new) else []
    different = [(one, other) for one, other in pairs if one.text != other.text]
    if len(different) != 2:
        return False
    (one, other), (two, another) = different
    is_swap = one.text == another.text and two.text == other.text
    return is_swap and one.text[:1].isidentifier() and _is_in(other, "argument")


def _judge_part(gone: Tokens, come: Tokens, old: Tokens, new: Tokens, context: NameContext) -> str:
    rule = _judge_deletion(gone, old) if not come else ""
    if len(gone) == len(come) == 1:
        rule = _judge_replacement(gone[0], come[0], old, new, context)
    if rule:
        return rule
    texts = _texts([*gone, *come])
    is_condition = old[0].text == new[0].text and old[0].text in ("if", "elif", "while", "unless", "until", "}")
    is_rename = len(gone) == len(come) == 1 and "identifier" in gone[0].kind
    turns = all(text.lower() in OPERATORS or text.isdecimal() for text in texts)
    if turns and len(texts) <= 4 and min(len(old), len(new)) > 2:
        return TURNED
    return TURNED if is_condition and gone and not is_rename and len(texts) <= 12 else ""


def _judge_deletion(gone: Tokens, old: Tokens) -> str:
    texts = _texts(gone)
    if {"await", ".await"} & {*texts} or texts == [".", "await"]:
        return "await-removed"
    if texts == ["?"] and old[-1].kind in (";", "?"):
        return "error-check-removed"
    if texts[0] in BOOLEAN or texts[-1] in BOOLEAN:
        return "condition-part-removed"
    if texts[0] in ("??", "?:"):
        return "null-guard-removed"
    is_comma_alone = not any(text.strip(",;()[]{}") for text in texts)
    is_argument = texts != ["="] and not is_comma_alone and _is_in(gone[0], "argument")
    return "argument-removed" if is_argument and "," in (texts[0], texts[-1]) else ""


def _judge_replacement(gone: LeafToken, come: LeafToken, old: Tokens, new: Tokens, context: NameContext) -> str:
    if gone.text == "?." and come.text == ".":
        return "null-guard-removed"
    if ERROR_TEST.fullmatch(gone.text) and come.text in ("nil", "None", "null"):
        return "error-swallowed"
    return _judge_exchange(gone, come, old, new, context)


_PLAIN_NAMES = frozenset("identifier simple_identifier property_identifier field_identifier name constant".split())


def _judge_exchange(gone: LeafToken, come: LeafToken, old: Tokens, new: Tokens, context: NameContext) -> str:
    """Return whether one name was put where another one belongs, by where both occur in the file."""
    if gone.kind != come.kind or come.kind not in _PLAIN_NAMES or {*_texts(old[:3])} & DEFINITIONS:
        return ""
    one, other, at = gone.text, come.text, new.index(come)
    is_next_to_other = any(words[other] >= 2 and not words[one] for words in context.neighbors)
    if is_next_to_other and _texts(old).count(one) == 2:
        return "copied-line"
    follows_dot = at > 0 and new[at - 1].text in (".", "?.", "->", "::")
    if follows_dot or min(len(one), len(other)) < NAME_CHARS_MIN:
        return ""
    lost, won = context.old[one] - context.new[one], context.new[other] - context.old[other]
    is_new = not context.old[other] and context.new[other] == 1 and context.new[one] > 0
    if is_new and SequenceMatcher(None, one, other, autojunk=False).ratio() >= SIMILAR_RATIO:
        return "name-misspelled"
    return TURNED if lost == won == 1 and context.old[other] > 0 and context.new[one] > 0 else ""


def _is_unwrapped(old: Tokens, codes: Sequence[tuple[str, int, int, int, int]]) -> bool:
    """Whether two deletions are a call around something, and its closing bracket."""
    if len(codes) != 2:
        return False
    (_, i1, i2, _, _), (_, k1, k2, _, _) = codes
    return old[i2 - 1].text == "(" and old[k1].text == ")" and k2 - k1 <= 3 and i2 - i1 <= 6


def _judge_parts(gone: Tokens, old: Tokens, new: Tokens) -> str:
    """Return what an edit removed that only takes words away; empty where they are no part of a statement."""
    words = [token for token in gone if "identifier" in token.kind or token.text in BOOLEAN or token.text == "?"]
    in_types = any("type" in kind and "identifier" not in kind for token in words for kind in token.around[:3])
    if not words or in_types or not _is_in_body(old[0]) or {*_texts(old[:3])} & DEFINITIONS:
        return ""
    if _is_qualifier(gone, old):
        return ""
    if gone[-1].text in ("=", ":=") and new[0].text == old[len(gone)].text:
        return "result-dropped"
    return "part-removed"


def _is_qualifier(gone: Tokens, old: Tokens) -> bool:
    """Whether only the package or class before a constant or type is gone: it has moved to this file or its package."""
    if len(gone) != 2 or gone[1].text not in (".", "::") or gone[0].text in ("self", "this", "super", "cls"):
        return False
    after = old[old.index(gone[1]) + 1 :]
    return bool(after) and "identifier" in after[0].kind and after[0].text[:1].isupper()


def _is_in_body(token: LeafToken) -> bool:
    return any(_is_in(token, word) for word in ("body", "block", "compound"))


def _is_in(token: LeafToken, word: str) -> bool:
    return any(word in kind for kind in token.around)


# -- removed lines -----------------------------------------------------------------------------------------------------


def judge_removal(removed: Sequence[Tokens]) -> str:
    """Return what lines that were taken away guarded or ended; empty when nothing is known of them.

    Each line has a token. The first rule that fits counts, so the surest come first.
    """
    first = _texts(removed[0])
    words = {text for tokens in removed for text in _texts(tokens)}
    if {*first[:3]} & DEFINITIONS:
        return ""
    parts = {part.lower() for word in words for part in re.findall(r"[A-Z]?[a-z]+", word)}  # as in `releaseLock`
    if len(removed) <= 6 and (rule := next((rule for rule, known in REMOVED_WORDS if parts & known), "")):
        return rule
    if {*first[:3]} & {"if", "unless", "when", "guard", "elif"} or first[-1] in ("if", "unless"):
        return _judge_condition(removed, words)
    if first[0] in ("with", "using", "defer"):
        return "resource-removed"
    if len(removed) == 1 and (rule := _judge_single(first)):
        return rule
    if len(removed) <= 8 and any(tokens[0].text in ("if", "unless", "elif") for tokens in removed[1:]):
        return _judge_condition(removed, words)
    return "statement-removed" if len(removed) <= 3 and len(first) > 2 and _is_in_body(removed[0][0]) else ""


def _judge_single(words: Sequence[str]) -> str:
    match words[0]:
        case "break" if len(words) <= 2:
            return "break-removed"
        case "return" | "continue":
            return TURNED
        case "raise" | "throw":
            return "error-swallowed"
        case "super" | "base" | "parent" if "(" in words:
            return "super-removed"
    return "await-removed" if "await" in words else ""


def _judge_condition(removed: Sequence[Tokens], words: set[str]) -> str:
    text = " ".join(text for tokens in removed for text in _texts(tokens))
    if ERROR_TEST.search(text) and words & EXIT_WORDS:
        return "error-check-removed"
    if NULL_TEST.search(text):
        return "null-guard-removed"
    if SIZE_TEST.search(text):
        return "bounds-check-removed"
    return "guard-removed" if words & EXIT_WORDS else "condition-removed"


def judge_loss(removed: Sequence[Tokens], added: Sequence[Tokens]) -> str:
    """Return what a rewritten piece of code no longer distinguishes; empty when it distinguishes something new."""
    if not removed or not added or not _is_in_body(removed[0][0]):
        return ""
    before, after = (
        Counter(token.text for tokens in lines for token in tokens if "string" not in token.kind)
        for lines in (removed, added)
    )
    lost = {rule: sum(before[word] - after[word] for word in words) for rule, words in LOSSES}
    if min(lost.values()) < 0:
        return ""
    lost["null-case-lost"] -= max(0, _count_plain_constants(removed) - _count_plain_constants(added))
    return next((rule for rule, count in lost.items() if count > 0), "")


def _count_plain_constants(lines: Sequence[Tokens]) -> int:
    """Count the missing values that are compared with nothing: defaults, results and types handle no case."""
    count = 0
    for tokens in lines:
        texts = ["", *(token.text for token in tokens if "string" not in token.kind), ""]
        for before, text, after in zip(texts, texts[1:], texts[2:], strict=False):
            is_tested = before in COMPARISON | {"not", "case", "when"} or after in COMPARISON | {"=>", "->", "?"}
            count += text in ("None", "null", "nil", "undefined") and not is_tested
    return count
