r"""PURE. A question - three words, a task, an issue, a trace, a log - as weighted words, and all that it names.

A short one weighs all its words alike. In a long one the title weighs most, then what identifies (compound and quoted
names, error messages), then prose; templates, trailers, numbers and addresses weigh nothing.

>>> task = Question.of("Why does `login()` fail at src/auth.py:12 with a KeyError? \n1. drop `foo`\n- [ ] test")
>>> [(name.text, name.kind, name.line) for name in task.names]
[('login()', 'symbol', 0), ('src/auth.py:12', 'path', 12), ('KeyError', 'error', 0), ('foo', 'symbol', 0)]
>>> task.objective, task.items
('Why does `login()` fail at src/auth.py:12 with a KeyError?', ['drop `foo`', 'test'])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from context_engine.search.named_places import Mention, MentionKind, find_paths, find_places, path_endings
from context_engine.text import STOP_WORDS, compound_term, expand_words, shorten_prose, split_identifier, split_words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SHORT_CHARS_MAX = 240
"""A question of one line up to here is short."""
LEAD_CHARS_MAX = 600
"""The beginning of the prose."""
FOCUS_CHARS_MAX = 1_500
WORDS_MAX = 64
"""Words of a long question that count: those with the greatest weights."""
LINES_MAX = 1_000
"""Lines that are read at the beginning of a question, and at its end."""
KEPT_MAX = 16
"""Questions whose analysis is kept: several parts of one call ask for it."""

NAMES_MAX = 24
"""A question that names more is a listing; the first names show what it is about."""
NAME_CHARS_MAX, OBJECTIVE_CHARS_MAX = 200, 200
ITEMS_MAX, ITEM_CHARS_MAX = 8, 160

TITLE_CHARS_MAX = 160
"""A first line that is longer is cut after its first sentence: it is an issue in one line."""
CHATTER = frozenset(
    "able about actual actually after again all already also although any anyone anything back basically because "
    "been before being both bug but cannot case cases could currently description doing done each either else "
    "even ever every example expected few find found get gets getting give given going got had happen happened "
    "happening happens has have having hello help hi however if instead issue issues just keep know latest let "
    "like look looks made make makes making many may maybe might more most much need needed needs new no not "
    "nothing now off often ok one only other otherwise out over own perhaps please possible previously probably "
    "problem question really recently reproduce same see seem seems seen several should similar simply since so "
    "some someone something steps still such sure than thank thanks their them then there therefore they thing "
    "things think though thought through too tried try trying two unfortunately unless until up use used uses "
    "using very via want wanted way we well while whole will without wonder work worked working works would wrong "
    "yes yet your".split()
)
"""Words of issues that say nothing about code; a title has none to lose. Without them 2 % more commit messages find a
changed file first (evals/wide)."""

TITLE, NAMED, LEAD, PROSE, CODE, LOG, NOISE = 1.0, 0.8, 0.4, 0.3, 0.25, 0.15, 0.0
"""Weights of words by where they are: 269 commit messages find a changed file first in 69 % of cases, with equal ones
in 62 % (evals/places)."""


class TaskText:
    """A text that may name code - a task, a step of a plan, a draft - and what it names, when that is asked for."""

    def __init__(self, text: str) -> None:
        """Take a text of any length."""
        self.text = text

    @property
    def is_task(self) -> bool:
        """Whether it begins as a task of a developer does, with a verb that asks for a change of code.

        It may be in quotes, as `opencode run` puts it.

        >>> [TaskText(text).is_task for text in ("Please fix the loop", "fix(core): keep it", '"Adding one"', "hm")]
        [True, True, True, False]
        """
        match = _FIRST_WORD.match(self.text.lstrip(_QUOTES))
        word = match[1].lower() if match else ""
        plain = {word, *(word.removesuffix(ending) for ending in ("s", "es", "d", "ed", "ing"))}
        plain |= {f"{form}e" for form in plain} | {form[:-1] for form in plain if form[-1:] == form[-2:-1]}
        return not _VERBS.isdisjoint(plain)

    @property
    def objective(self) -> str:
        """The first sentence."""
        text = _FENCE.sub("\n", _drop_lead_in(self.text)).strip()
        first = re.split(r"(?<=[.!?])\s|\n", text, maxsplit=1)[0].strip()
        return shorten_prose(first, OBJECTIVE_CHARS_MAX)

    @property
    def items(self) -> list[str]:
        """The items of its lists, outside code fences."""
        items = (match[1].rstrip() for match in _ITEM.finditer(_FENCE.sub("\n", self.text)))
        return list(dict.fromkeys(shorten_prose(item, ITEM_CHARS_MAX) for item in items))[:ITEMS_MAX]

    @property
    def quoted(self) -> list[str]:
        """The texts in backticks."""
        return _QUOTED.findall(self.text)

    @cached_property
    def every_name(self) -> list[Mention]:
        """All paths and symbols that it names, once each, in its order."""
        return _find_mentions(self.text)

    @property
    def names(self) -> list[Mention]:
        """The first of its names that are spelled as only code is."""
        return [mention for mention in self.every_name if not mention.is_dotted][:NAMES_MAX]

    @property
    def dotted_names(self) -> list[Mention]:
        """The first names that only dots mark: members and modules (typer.Argument), but also products (Asp.Net)."""
        return [mention for mention in self.every_name if mention.is_dotted][:NAMES_MAX]


class Question(TaskText):
    """A question as search and context read it.

    `words` are the unstemmed parts of its words with their weights, `hashes` and `weights` its terms. `symbol`: the
    compound name when the whole question is one symbol, `spelled` the same as written; `mentioned`: (compound name,
    weight 0-1) of words that look like symbols inside a longer question; `members`: (owner, member) as compound names
    where the title or the lead names both, `Pool#drain`; `lifted`: roles (`test`, `docs`...) that it asks for by name;
    `places`: files and lines that it names, the nearest to a failure first; `scopes`: names of folders, packages or
    files that its title says it is about; `focus`: the text that vectors compare, the whole of a short question.
    """

    def __init__(self, text: str) -> None:
        """Read what search asks for."""
        super().__init__(text)
        stripped = text.strip()
        passages = _split_passages(stripped)
        title = passages[0].text if passages else ""
        weighed = _weigh_words(passages)
        self.words = _greatest_of((part, weight) for word, weight in weighed.items() for part in split_identifier(word))
        groups = zip(expand_words(list(weighed)), weighed.values(), strict=True)
        self._terms = _greatest_of((term, weight) for group, weight in groups for term in group)
        spelled = split_words(stripped) if _SYMBOL.fullmatch(stripped) else []
        self.spelled = spelled[-1] if spelled else ""
        self.symbol = compound_term(self.spelled)
        self.mentioned = [] if self.symbol else _find_mentioned(weighed)
        self.members = _find_members(passages)
        self.lifted = frozenset(match.lastgroup or "" for match in _ROLE_WORDS.finditer(title.lower()))
        self.places = find_places(stripped)
        self.scopes = find_scopes(title)
        telling = (text for weight, text in passages if weight >= LEAD)
        self.focus = title if len(passages) == 1 else "\n".join(telling)[:FOCUS_CHARS_MAX]

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """The hashes of its terms. Imported here, because a list of tools reads questions and needs no numbers."""
        from context_engine.index import term_hashes

        return term_hashes(self._terms)

    @cached_property
    def weights(self) -> npt.NDArray[np.float32]:
        """The weight of each term."""
        import numpy as np

        return np.fromiter(self._terms.values(), np.float32, len(self._terms))

    @staticmethod
    @lru_cache(KEPT_MAX)
    def of(text: str) -> Question:
        """Return the question of a text; the last ones are kept."""
        return Question(text)

    def is_naming(self, name: str) -> bool:
        """Return whether a symbol is asked for by its plain name.

        >>> [Question.of(text).is_naming("drain_all") for text in ("drain_all", "why does drainAll wait", "drain all")]
        [True, True, False]
        """
        term = compound_term(name)
        named = (self.symbol, *(term for term, _ in self.mentioned), *(member for _, member in self.members))
        return bool(term) and term in named

    @property
    def is_short(self) -> bool:
        """Whether it is a title alone: all its words weigh alike."""
        return bool((self.weights >= TITLE).all())

    @property
    def telling_words(self) -> list[str]:
        """The words that may say something about code, in lower case."""
        words = dict.fromkeys(word.lower() for word in self.words)
        return [word for word in words if word not in STOP_WORDS and word not in CHATTER and len(word) > 1]


def _greatest_of(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the greatest weight of each text, in order of first appearance."""
    found: dict[str, float] = {}
    for text, weight in pairs:
        found[text] = max(weight, found.get(text, 0.0))
    return found


# -- symbols and roles ------------------------------------------------------------------------------------------------

_SYMBOL = re.compile(r"[\w$]+(?:(?:::|\.|#|->|/)[\w$]+)*(?:\(\))?[?!]?")
_COMPOUND = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_ROLE_WORDS = re.compile(
    r"\b(?:(?P<test>test(?:s|ed|ing)?|specs?|fixtures?|mock(?:s|ed|ing)?)"
    r"|(?P<docs>doc(?:s|umentation)?|readme|guide|tutorial|changelog)"
    r"|(?P<example>examples?|samples?|demo)|(?P<bench>bench(?:mark)?s?)"
    r"|(?P<compat>compat(?:ib\w+)?|legacy|deprecat\w+|backports?)"
    r"|(?P<vendor>vendor(?:s|ed|ing)?|third.party)|(?P<generated>generated))\b"
)


def is_compound(word: str) -> bool:
    """Return whether a word is spelled like a name of code: `snake_case` or `CamelCase`."""
    return "_" in word.strip("_") or bool(_COMPOUND.search(word))


_SCOPES = re.compile(
    r"\w+\(([^()\n]{1,60})\)!?:"  # fix(http2): ...
    r"|\[([\w./ -]{1,40})\]"  # [core] ...
    r"|([\w.`-]+(?:[/+,] ?[\w.`-]+){0,4})!?:\s"  # ignore/walk: ..., lexer, parser: ...
)
_SCOPE_NOUN = re.compile(
    r"\b(?:in|of|for|from|to) (?:the )?`?([\w.-]{2,40})`? "
    r"(?:package|module|crate|folder|directory|plugin|library|binary|command|subcommand|namespace)\b"
)
_KINDS_OF_COMMITS = frozenset(
    "fix feat feature chore doc docs test tests refactor perf build ci style revert bug bugfix hotfix release deps wip"
    " internal misc security breaking performance improvement note warning error".split()
)


def find_scopes(title: str) -> list[str]:
    """Return the names of folders, packages or files that a title puts before its colon, or calls by such a noun.

    >>> find_scopes("fix(http2): close streams"), find_scopes("ignore/walk: be quiet"), find_scopes("[core] be quick")
    (['http2'], ['ignore', 'walk'], ['core'])
    >>> find_scopes("fix: typo in the server package"), find_scopes("why is it slow?")
    (['server'], [])
    """
    match = _SCOPES.match(title)
    names = re.split(r"[/+, `]+", match[match.lastindex or 0]) if match else []
    found = dict.fromkeys([*names, *_SCOPE_NOUN.findall(title)])
    return [name for name in found if len(name) > 1 and not name.isdigit() and name.lower() not in _KINDS_OF_COMMITS]


def _find_mentioned(weighed: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return words that look like names of code: compound ones surely, `Capitalized` ones of the title perhaps."""
    found: dict[str, float] = {}
    for word, weight in weighed.items():
        if is_compound(word):
            found[compound_term(word)] = weight
        elif weight == TITLE and word[:1].isupper() and len(word) > 2:
            found.setdefault(compound_term(word), 0.5)
    return list(found.items())


_MEMBER = re.compile(r"(?<![\w./-])([A-Za-z_]\w*)(?:::|\.|#|->)([A-Za-z_]\w*)(?![\w/-]|\.\w)")
MEMBERS_MAX = 4


def _find_members(passages: Sequence[_Passage]) -> list[tuple[str, str]]:
    r"""Return the first members that a long question names with their owner, in its title or lead.

    >>> issue = "Pool leaks\n\n`Pool#drain_all` and Valve::open keep `src/pool.py` open."
    >>> Question.of(issue).members
    [('pool', 'drainall'), ('valve', 'open')]
    """
    if len(passages) == 1:
        return []
    text = "\n".join(passage.text for passage in passages if passage.weight in (TITLE, LEAD))
    named = islice(dict.fromkeys(match.groups() for match in _MEMBER.finditer(text)), MEMBERS_MAX)
    return [(compound_term(owner), compound_term(member)) for owner, member in named if member not in path_endings()]


# -- passages and their weights ---------------------------------------------------------------------------------------


class _Passage(NamedTuple):
    """A text of one kind, with the weight of its words."""

    weight: float
    text: str


_BACKPORT = re.compile(r"^(?:\[[^\]\n]{0,40}(?:backport|\d)[^\]\n]{0,60}\]\s*)+", re.IGNORECASE)
_ESCAPES = re.compile(r"https?://[^\s<>\"'`)]+|\(?#\d+\)?|\x1b\[[\d;]*[A-Za-z]|<!--(?:[^-]|-(?!->))*+(?:-->|\Z)")
"""Addresses, numbers of issues, colors and comments."""
_SENTENCE_END = re.compile(r"[.!?:](?=\s)| (?=#{1,4} )")
_LINE = re.compile(
    r"(?P<fence>```|~~~)"
    r"|(?P<heading>#{1,6} |\*\*[^*\n]{1,60}\*\*:?$)"
    r"|(?P<noise>[A-Z][\w-]{1,30}-by: |(?:change-id|pr-url|cherry[ -]picked from|closes?|fixes|resolves|refs?|see also)"
    r"\b[: ]{1,2}(?:\W|#?\d|$)|[-*] \[[ x]\] |-{3,}$|={3,}$|\|[ :|-]+\|?$|</?\w[^>\n]{0,200}>$"
    r"|(?:\W{0,6}(?:os|version|platform|browser|operating system|compiler|node|python|java|ruby|go|rust|[\w.-]{1,20} "
    r"version)\W{0,4}:))"
    r"|(?P<diff>diff --git |index [\da-f]{7,}|@@ -|--- |\+\+\+ )"
    r"|(?P<trace>at |File \"|from \S+:\d|#\d+ |goroutine \d|\d{1,3}: |\.\.\. \d+ (?:more|common))"
    r"|(?P<error>(?:e {1,6})?[\w.:]{0,80}(?:error|exception|panic|failure|fault)\b[\[(:]|panic: |fatal: |caused by: "
    r"|thread '.{0,60}' panicked|.{0,40}\b(?:failed|unexpected|undefined|cannot)\b)"
    r"|(?P<log>\[?\d{2,4}[-/:.]\d{1,2}[-/:.]|\[?(?:debug|info|trace|verbose|warn|notice)\b[\]:| ])",
    re.IGNORECASE,
)
"""The kinds of lines, by their beginning."""
_CODE_LINE = re.compile(
    r"[^(){}\[\]=]*[(){}\[\]=].*;$|.*[{}]$|[)}\]]+[;,]*$|#(?:include|define|ifn?def|if|else|endif)\b"
)
"""A line of code that was pasted without a fence."""
_WEIGHTS = {"noise": NOISE, "diff": NOISE, "trace": LOG, "error": NAMED, "log": LOG}
_FORM_HEADING = re.compile(
    r"(?P<untold>environment|versions?\b|system info|checklist|before submitting|platform|your setup"
    r"|additional context)|(?:(?:steps )?(?:to )?reproduc\w*|(?:expected|actual|current|observed)\b.{0,30}"
    r"|what happened.{0,20}|(?:bug )?description|describe the .{0,20}|motivation|modifications?|results?|summary"
    r"|overview|screenshots?|logs?)\Z",
    re.IGNORECASE,
)
"""Headings of issue forms: they say nothing, but what is below them does, unless it is `untold`."""


def _split_passages(text: str) -> list[_Passage]:
    """Return the passages of a question, first its title."""
    cleaned = _BACKPORT.sub("", _drop_lead_in(text))
    if len(cleaned) <= SHORT_CHARS_MAX and "\n" not in cleaned:
        return [_Passage(TITLE, cleaned or text)]
    cleaned = _ESCAPES.sub(" ", cleaned)
    lines = [line for line in map(str.strip, cleaned.split("\n")) if line]
    if len(lines) > 2 * LINES_MAX:
        lines[LINES_MAX:-LINES_MAX] = []
    return list(_weigh_lines(lines))


def _weigh_lines(lines: list[str]) -> Iterator[_Passage]:
    """Yield the lines with the weights of their words; the first line that says something is the title."""
    has_title = is_code = is_untold = False
    lead_left = LEAD_CHARS_MAX
    for line in lines:
        match = _LINE.match(line)
        kind = match.lastgroup if match else None
        if kind == "fence":
            is_code = not is_code
        elif kind == "heading":
            heading = line.strip("#*: ")
            form = _FORM_HEADING.match(heading)
            is_untold = bool(form and form["untold"])
            if not form:
                yield _Passage(LEAD if has_title else TITLE, heading)
                has_title = True
        elif is_untold or kind in ("noise", "diff"):
            continue
        elif not has_title and kind not in ("trace", "log"):
            has_title = True
            end = _find_title_end(line)
            yield _Passage(TITLE, line[:end])
            yield _Passage(LEAD, line[end : end + lead_left])
            yield _Passage(PROSE, line[end + lead_left :])
            lead_left -= len(line) - end
        elif kind:
            yield _Passage(_WEIGHTS[kind], line)
        elif is_code or _CODE_LINE.match(line):
            yield _Passage(CODE, line)
        else:
            yield _Passage(LEAD if lead_left > 0 else PROSE, line)
            lead_left -= len(line)


def _find_title_end(line: str) -> int:
    if len(line) <= TITLE_CHARS_MAX:
        return len(line)
    end = _SENTENCE_END.search(line, 10, TITLE_CHARS_MAX)
    return end.end() if end else TITLE_CHARS_MAX


_QUOTED = re.compile(r"`([^`\n]{1,100})`")


def _weigh_words(passages: list[_Passage]) -> dict[str, float]:
    """Return the words that count with their weights: the greatest first, and the words of one in their order."""
    if len(passages) == 1:
        asked = split_words(passages[0].text)
        return dict.fromkeys([word for word in asked if word.lower() not in STOP_WORDS] or asked, TITLE)
    texts: dict[float, list[str]] = {NAMED: []}
    for weight, text in passages:
        texts.setdefault(weight, []).append(text)
        if weight in (LEAD, PROSE):
            texts[NAMED] += _QUOTED.findall(text)
    weighed: dict[str, float] = {}
    for weight in sorted(texts, reverse=True):
        new = dict.fromkeys(split_words("\n".join(texts[weight])), weight)
        weighed = weighed | new | weighed  # a word keeps its greatest weight and its first place
    telling: dict[str, float] = {}
    for word, weight in weighed.items():
        if _counts(word, weight):
            telling[word] = NAMED if weight in (LEAD, PROSE) and is_compound(word) else weight
    kept = set(sorted(telling, key=lambda word: -telling[word])[:WORDS_MAX])
    return {word: weight for word, weight in telling.items() if word in kept}


_HASH = re.compile(r"(?=[a-f]*\d)[\da-f]{7,}|\w{40,}")


def _counts(word: str, weight: float) -> bool:
    """Return whether a word of a long question counts: it is not a number, address, hash or stop word."""
    lowered = word.lower()
    is_chatter = lowered in STOP_WORDS or (weight < TITLE and lowered in CHATTER)
    return len(word) > 1 and not word[0].isdigit() and not is_chatter and not _HASH.fullmatch(word)


# -- how a question begins --------------------------------------------------------------------------------------------

_LEAD_IN_END = re.compile(r":[\s*_]*\Z|\b(?:this|these|following|below|here)\b", re.IGNORECASE)
_LEAD_IN_WORDS = frozenset(
    "above address apply below change changes code codebase comment commit consider described description details "
    "do error feature fix following github gitlab go handle implement input instructions log message my open "
    "output patch perform pr project prompt pull repo report reported repository request requirement requirements "
    "resolve says solve spec stack statement story summary task text ticket todo trace traceback update user "
    "write".split()
)
"""Words that announce a text, besides stop words and `CHATTER`."""


def _drop_lead_in(text: str) -> str:
    r"""Return a text without a first line that only announces the rest.

    >>> _drop_lead_in("Please fix the following issue:\n\nPool leaks"), _drop_lead_in("Fix this leak:\nPool leaks")
    ('Pool leaks', 'Fix this leak:\nPool leaks')
    """
    line, _, rest = text.lstrip().partition("\n")
    is_announcing = len(line) <= TITLE_CHARS_MAX and _LEAD_IN_END.search(line)
    if not is_announcing or not rest.strip():
        return text
    words = {word.lower() for word in re.findall(r"[^\W_]+|_", line)}
    return text if words - STOP_WORDS - CHATTER - _LEAD_IN_WORDS else rest.lstrip()


_FIRST_WORD = re.compile(
    r"^(?:[-*+\u2022]|\d+[.)])?\s*(?:\[[ xX]?\])?\s*"
    r"(?:(?:please|then|also|and|now|finally|next|first|so|just|kindly)[, ]+"
    r"|(?:can|could|would|will) you (?:please )?|(?:we|you|i) (?:need|want|have|would like)(?: you)? to "
    r"|(?:it|we|you) (?:should|must) "
    r"|let'?s |make sure (?:that )?(?:you |to )?|ensure (?:that )?(?=you )|help me (?:to )?)*"
    r"(?:`?[\w./-]{1,40}(?:\([^)\n]{0,40}\))?`?!?:\s+)?([A-Z]*)",
    re.IGNORECASE,
)
"""The first word of a request behind what is polite, and behind a subject as commits have it: `fix(core): `."""
_VERBS = frozenset(
    "add allow apply avoid bump cache change check clean convert copy create cut debug decrease define delete "
    "deprecate detect disable document drop enable ensure expose export extend extract find fix format "
    "generate guard handle hide ignore implement import improve include increase inline introduce investigate "
    "keep limit load log make mark merge migrate mock move normalise normalize optimise optimize parse port "
    "prevent print profile raise read reduce refactor reject remove rename reorder replace report reproduce "
    "resolve restore retry return reuse revert rewrite run save set show simplify skip sort speed split start "
    "stop store strip support switch test throw tighten trim try turn type unify update upgrade use validate "
    "verify warn wrap write".split()
)
"""Verbs that ask for a change of code."""
_QUOTES = " \t\r\n\"'\u201c\u2018"

# -- names of code ----------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^[ \t]*(?:[-*+\u2022]|\d{1,2}[.)])[ \t]+(?:\[[ xX]?\][ \t]+)?(\S[^\n]*)", re.MULTILINE)
_NAME = re.compile(
    r"(?<![\w./@$-])(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*)(?P<call>\(\))?(?![\w/-])"
)
_ABBREVIATIONS = frozenset(("e.g", "i.e", "a.k.a", "etc", "vs"))


def _find_mentions(text: str) -> list[Mention]:
    """Return everything that a text names, once each, in its order; symbols within paths do not count."""
    readable = _ESCAPES.sub(_blank_escape, text)
    paths, between, done = find_paths(readable), [], 0
    for path in paths:
        between += [readable[done : path.start], " " * len(path.text)]
        done = path.start + len(path.text)
    found = [*paths, *_find_symbols("".join([*between, readable[done:]]))]
    fences = [match.span() for match in _FENCE.finditer(text)]
    mentions: dict[tuple[str, str, int], Mention] = {}
    for mention in sorted(mention for mention in found if len(mention.name) <= NAME_CHARS_MAX):
        if any(first <= mention.start < last for first, last in fences):
            mention = mention._replace(certain=False)
        key = mention.kind, mention.name, mention.line
        known = mentions.setdefault(key, mention)
        if known.is_dotted or (mention.certain and not known.certain):
            mentions[key] = mention
    return list(mentions.values())


def _blank_escape(escape: re.Match[str]) -> str:
    """Return spaces for an address, a color or a comment; the number of an issue may be that of a frame."""
    return escape[0] if "#" in escape[0][:2] else " " * len(escape[0])


def _find_symbols(text: str) -> Iterator[Mention]:
    """Yield names of errors, names in backticks or that are called, and those that no natural language spells so.

    Plurals of abbreviations do not count: `URLs`.
    """
    for match in _NAME.finditer(text):
        name = match["name"]
        is_code = text[match.start() - 1 : match.end() + 1] == f"`{match[0]}`"
        is_error = name.isidentifier() and name[0].isupper() and name not in ("Error", "Exception")
        is_error = is_error and name.endswith(("Error", "Exception"))
        is_joined = any(mark in name for mark in ("::", "#", "->")) or "_" in name.strip("_")
        is_marked = is_code or is_joined or is_error or bool(match["call"])
        is_named = is_marked or (is_compound(name) and not name[:-1].isupper())
        if (is_named or "." in name) and name.lower() not in _ABBREVIATIONS and len(name.strip("_$")) > 1:
            kind: MentionKind = "error" if is_error else "symbol"
            certain, meant = is_code or (is_joined and not is_error), name.replace("->", ".")
            yield Mention(match.start(), match[0], kind, meant, certain=certain, is_dotted=not is_named)
