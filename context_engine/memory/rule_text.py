r"""PURE. Which bullets of a file of rules are rules, what each says, and whether it is about files at all.

A bullet is a rule if it asks for something, by itself or together with the sentence that introduces its list. Examples,
commands and descriptions are none. Rules about issues, pull requests and releases are about other work than a change of
files: search finds them, and nothing shows them by itself.

>>> text = "Avoid phrasings like:\n- \"cleaner than before\"\n- \"after trying X\"\n\n# Build\n\n- Lint: `make lint`\n"
>>> [(rule.text, rule.line) for rule in find_rules(text)]
[('Avoid phrasings like: "cleaner than before"; "after trying X"', 2)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_engine.context import ADDITION, VERBS
from context_engine.text import STOP_WORDS, split_words

WORDS_MIN = 3
"""`Python 3.9` and `Open an issue` are not rules."""
ITEM_CHARS_MAX = 160
"""Characters of one item of a list that is read as one rule."""

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+)$")
_UNDERLINE = re.compile(r"(=|-|~)\1{2,}\s*")
_FENCE = re.compile(r"\s*(?P<marks>`{3,}|~{3,})\s*(?P<language>[^`\s]*)")
_BULLET = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>.+)$")
_LINK = re.compile(r"^!?\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])?\s*(?:[—–:-]|\.?$)|^<?https?://\S+>?$")
"""A link, and perhaps its description."""
_LINKS = re.compile(r"\[[^\[\]]*\]\([^()]*\)")
_QUOTATION = re.compile(r"^[\"“'‘„«]")
_CODE = re.compile(r"`[^`]*`")
_LABEL = re.compile(r"^(?:(?P<bold>\*\*|__)[^:`*_]{1,60}?[:.]?(?P=bold)[:.]?|[^:.`*_]{1,40}?:(?=\s))\s*")
"""The words before the colon of a bullet, often in bold."""
_REFERS = re.compile(r"(?:see|note|read|check|consider|remember)\b", re.IGNORECASE)
_DEMAND = re.compile(
    r"\b(?:must|mustn't|should|shouldn't|shall"
    r"|(?<![\w)] )(?:never|always)|(?:never|always)(?!\s+(?:\w*[^\Ws]s|\w+ed)\b)"
    r"|(?<!which )(?<!that )(?<!who )(?:do not|don't|don’t)(?! need| have to)|please|forbidden|mandatory|avoid"
    r"|not (?:allowed|permitted)|needs? (?:to|an?))\b",
    re.IGNORECASE,
)
"""Words that ask for something in any sentence; `never inlined` only describes."""
_LIMIT = re.compile(
    r"^\W*(?i:no|only)\s|\b(?:ONLY|NOT|NO)\b|[,;(—–-]\s*not\s"
    r"|\b(?i:prefer\w*|make sure|ensure|required|instead of|at most|at least|max(?:imum)?|minimum|enforced"
    r"|only (?:in|on|if|when|for|from|with|through|via|by|after|before))\b"
)
"""Words that ask for something unless the sentence states a fact: `No new dependencies`, `tabs, not spaces`."""
_EXPLAINS = re.compile(
    r"^\W*(?:this|these|those|that|it|they|here|there|concretely|for example|e\.g\.|i\.e\.|in other words"
    r"|usually|typically|currently|historically|because|since)\b",
    re.IGNORECASE,
)
"""How a sentence begins that explains another one."""
_STATES = re.compile(
    r"(?<!\bthat )(?<!\bwhich )(?<!\bwho )(?<!\bwhat )(?<!\bit )(?<!\bto )\b"
    r"(?:allows|behaves|collects|comes|contains|creates|defines|enables|enforces|ensures|excludes"
    r"|exposes|generates|gets|gives|helps|implements|includes|injects|keeps|lives|makes|manages"
    r"|means|owns|performs|provides|runs|serves|takes|throws|uses|verifies|wraps)\b",
    re.IGNORECASE,
)
"""Verbs that say what something does, where a rule says what to do."""
_PERMITS = re.compile(r"\b(?:can|may|might)\b", re.IGNORECASE)
_IS = re.compile(r"\b(?:is|are|was|were|has|have|can|cannot|will)\b", re.IGNORECASE)
_IMPERATIVE = VERBS | frozenset(
    "answer ask assert assume assign await batch be begin bring build call cap choose cite cleanup commit compare "
    "compose confirm consider consult cover declare default defer demonstrate derive describe design disclose "
    "document don't edit emit employ end escape examine exclude execute explain fail favor favour fetch fill flag "
    "focus follow fold give group hold identify indent inherit initialize inject inline insert inspect isolate "
    "justify land leave let link lint list lock look lower maintain map match measure minimize mirror modify name "
    "note obey omit open order organize pair pass pick pin place point post preserve prove provide publish push "
    "put quote reach rebase record redact refer register regenerate release rely repeat request require reserve "
    "resolve respect restrict review route scope search see select send separate serialize share sign "
    "specify split squash state sync tag take target think tick time touch translate treat unit-test "
    "update vary version wait watch work wire".split()
)
"""Verbs with which an instruction begins, next to those of tasks."""
_NOUNS = frozenset(
    "build cache format group lint list log map name note order record state tag target test time type".split()
)
"""Verbs that begin a description as nouns, after a label: `**Vite** - Build tool`."""
_NORMATIVE_SECTION = re.compile(
    r"\b(?:styles?|standards?|conventions?|rules?|idioms?|requirements?|naming|formatting|constraints?"
    r"|principles?|do(?:'|’)?s|don(?:'|’)?ts)\b",
    re.IGNORECASE,
)
"""All bullets of a section with such a title are rules: `Error strings: lowercase`."""
_OTHER_WORK = re.compile(
    r"\b(?:issues?|report\w*|reproduc\w+|communit\w+|code of conduct|support|questions?|help|collaborators?"
    r"|maintainers?|releas\w+|governance|backport\w*|values|reviews?|reviewing|who we|rejected|close"
    r"|vulnerabilit\w+|threat model|licen[cs]e|cla|roadmap|sponsor\w*|translat\w+|pull requests?|prs?|branch\w*"
    r"|outbound|cloud|staging|deploy\w*|why|contribute|certificate|sign-?off|set-?up|setting up|install\w*"
    r"|getting started|prerequisites|environments?|ci/cd|technolog\w+|table of contents|communication|overview"
    r"|debugging|troubleshooting|skills|responses?)\b",
    re.IGNORECASE,
)
"""Titles of sections that are about other work than a change of files."""
_OTHER_WORK_ITEM = re.compile(
    r"\b(?:pull requests?|PRs?|(?:an?|the|any|github|keep|open|file|existing) issues?|issues? (?:and|or|tracker)"
    r"|maintainers?|reviewers?|review comments?|merged?|force[- ]push\w*|discord|slack|mailing list|forum|fork"
    r"|co-authored-by|sponsor\w*|contributors?|security reports?)\b",
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(
    r"\b(?:documentation|docs|markdown|mdx|prose|readme|accessibility)\b(?!.*\b(?:code|api|comments?|docstrings?)\b)",
    re.IGNORECASE,
)
"""Titles of sections about documents; what such a section says of other changes begins with a condition."""
_CONDITION = re.compile(r"\W*(?:when|if|after|before|every|each|new|all|any|for|user-visible|public)\b", re.IGNORECASE)
_STEP = re.compile(r"\d")
_IF = (
    re.compile(
        r"\W*(?:if|when|whenever|for|before|after|on|in)\s+(?P<about>[^,:.;—–(]{3,100}?)\s*[,:;—–(]", re.IGNORECASE
    ),
    re.compile(r"\W*(?P<about>[^,:.;—–(]{3,60}?)\s+(?:needs?|must|requires?|should|shall)\b", re.IGNORECASE),
)
"""The condition of a rule, or its subject: `In tests: use t.Context()`, `Public endpoints must ...`."""
_WORK_TITLE = re.compile(
    r"(?:[\d.)]+\s*)?(?:how to|add(?:ing)?|creat(?:e|ing)|implement(?:ing)?|writ(?:e|ing)|edit(?:ing)?"
    r"|upgrad(?:e|ing)|new|migrat(?:e|ing)|port(?:ing)?)\b.*"
    r"|.*\b(?:playbook|workflow|changes?|checklist|recipe|inspection)\b.*",
    re.IGNORECASE,
)
"""Titles of sections about one kind of work: `Adding a queue`, `Schema change`."""
_ADDING = re.compile(r"(?:[\d.)]+\s*)?(?:how to\s+|you\s+|we\s+)?(?:add(?:ing)?|creat(?:e|ing)|new)\b", re.IGNORECASE)
"""Titles and conditions about something new: `Adding new tests`, `When you add a queue`."""
_ANY_WORK = frozenset(
    "add adding agents ai all any author authors bug bugs change changes changing checklist code coding commit "
    "commits committing complete considering content contributor contributors conventions create creating "
    "developers docs documentation doubt each edit editing every existing expectations feature features file "
    "files fix fixing functionality general guide guidelines how human implement implementing inspection language "
    "make making message messages modify modifying new particular playbook possible practice project quality "
    "recipe reliable requirements rules specifically standards structure style task tasks the update updating "
    "using we work workflow write writing you your".split()
)
"""Words of such titles and conditions that fit any change."""
_ANY_FILE = re.compile(
    r"\b(?:commits?|git|changelogs?|changesets?|docs?|documentation|readme|markdown|spelling|english|prose)\b",
    re.IGNORECASE,
)
"""Rules with these words are not about code alone."""


class FoundRule(NamedTuple):
    """A rule: the title of its section, its text, and the line of the file.

    `is_other_work`: it is not about changing files. `is_for_documents`, `is_for_code`: it is about such files alone.
    `topics` are groups of words; the rule is about changes that have something of each group.
    """

    title: str
    text: str
    line: int
    is_other_work: bool
    is_for_documents: bool
    is_for_code: bool
    topics: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Item:
    """A bullet: the titles around it, innermost last, the sentence that introduces its list, and its items, if any."""

    titles: tuple[str, ...]
    intro: str
    text: str
    line: int
    indent: int
    is_step: bool


def find_rules(text: str, *, is_contributing: bool = False) -> list[FoundRule]:
    """Return the rules of a file. In a guide for contributors, steps and what only describes are none."""
    items = [item for item in _read_items(text) if not (is_contributing and item.is_step)]
    found = []
    for item in _join_lists(items, is_contributing=is_contributing):
        if _is_rule(item, is_contributing=is_contributing):
            titles = any(map(_OTHER_WORK.search, item.titles))
            is_other = titles or bool(_OTHER_WORK_ITEM.search(_LINKS.sub(" ", item.text)))
            is_document = any(map(_DOCUMENTS.search, item.titles)) and not _CONDITION.match(item.text)
            title = item.titles[-1] if item.titles else ""
            is_code = not is_document and not _ANY_FILE.search(f"{title} {item.text}")
            topics = tuple(_find_topics(item, is_document=is_document))
            found.append(FoundRule(title, item.text, item.line, is_other, is_document, is_code, topics))
    return found


def _find_topics(item: _Item, *, is_document: bool) -> Iterator[tuple[str, ...]]:
    """Yield the words of the condition of a rule, and those of titles that name one kind of work or of document."""
    texts = [_CODE.sub(lambda code: code.group().replace(".", " "), _LABEL.sub("", item.text)), item.text]
    has_subject = not any(map(_begins_with_verb, texts))
    patterns = _IF if has_subject else _IF[:1]
    named = [found["about"] for pattern in patterns for text in texts if (found := pattern.match(text))][:1]
    named += [title for title in item.titles[1:] if _WORK_TITLE.fullmatch(title)]
    named += [title for title in item.titles[-1:] if is_document and not _begins_with_verb(title)]
    if any(map(_ADDING.match, named)):
        yield (ADDITION,)
    for text in named:
        words = (word.lower() for word in split_words(text))
        topic = tuple(word for word in words if len(word) > 1 and word not in _ANY_WORK and word not in STOP_WORDS)
        if topic:
            yield topic


def _is_rule(item: _Item, *, is_contributing: bool) -> bool:
    if len(item.text.split()) < WORDS_MIN or _is_fragment(item.text):
        return False
    is_style = not is_contributing and any(map(_NORMATIVE_SECTION.search, item.titles))
    return _asks(item.text) or (is_style and not _explains(_CODE.sub("x", item.text)))


def _read_items(text: str) -> Iterator[_Item]:
    """Yield all bullets outside code fences; lines that continue a bullet are joined to it."""
    reader = _ItemReader()
    for number, line in _read_prose(text):
        yield from reader.read_line(number, line)
    yield from reader.end_item()


class _ItemReader:
    """Reads the bullets of a Markdown text line by line. A bullet ends where another text begins."""

    def __init__(self) -> None:
        self._titles: list[tuple[int, str]] = []
        self._item: _Item | None = None
        self._paragraph = ""  # the sentence before a list
        self._is_open = False  # whether the next line may continue the bullet or the paragraph
        self._line_before = ""

    def read_line(self, number: int, line: str) -> Iterator[_Item]:
        """Read a line, and yield the bullet that it ends."""
        if _FENCE.match(line):
            yield from self._read_fence(line)
            return
        heading, bullet = _read_heading(line, self._line_before), _BULLET.match(line)
        if heading:
            yield from self.end_item()
            self._titles = [*((deep, name) for deep, name in self._titles if deep < heading[0]), heading]
            self._paragraph, self._is_open = "", False
        elif bullet:
            yield from self.end_item()
            self._begin_item(number, bullet)
        elif self._item and self._is_open and line.strip() and line[:1] in " \t":
            self._item = replace(self._item, text=f"{self._item.text} {line.strip()}")
        elif line.strip():
            is_continued = self._is_open and not self._item
            self._paragraph = f"{self._paragraph} {line.strip()}".strip() if is_continued else line.strip()
            yield from self.end_item()
            self._is_open = True
        else:
            self._is_open = False
        self._line_before = "" if bullet else line

    def end_item(self) -> Iterator[_Item]:
        """Yield the bullet that was being read, if there is one."""
        if self._item:
            yield self._item
        self._item = None

    def _begin_item(self, number: int, bullet: re.Match[str]) -> None:
        titles = tuple(name for _, name in self._titles)
        indent, is_step = len(bullet["indent"].expandtabs(4)), bool(_STEP.match(bullet["mark"]))
        self._item = _Item(titles, self._paragraph, bullet["text"].strip(), number, indent, is_step)
        self._is_open = True

    def _read_fence(self, line: str) -> Iterator[_Item]:
        """Read an example: an indented one belongs to its bullet, another one ends the list."""
        if not line.startswith((" ", "\t")):
            yield from self.end_item()
            self._paragraph = ""
        self._is_open = False


def _read_heading(line: str, before: str) -> tuple[int, str] | None:
    """Return depth and text of a heading; `before` is the line above, which may be underlined."""
    if heading := _HEADING.match(line):
        return len(heading[1]), heading[2].rstrip(" \t#")
    if before.strip() and _UNDERLINE.fullmatch(line):
        return 1 + "=-~".index(line[0]), before.strip()
    return None


def _read_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, of each example only the line that opens it.

    A fence with a language inside another is nested, as authors of examples mean it.
    """
    fences: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if not fences:
            yield number, line
        if fence and fences and not fence["language"] and fence["marks"].startswith(fences[-1]):
            fences.pop()
        elif fence and (not fences or fence["language"]):
            fences.append(fence["marks"])


def _join_lists(items: Sequence[_Item], *, is_contributing: bool) -> Iterator[_Item]:
    """Yield the bullets; those that only say something together with the sentence before them become one rule."""
    at = 0
    while at < len(items):
        item = items[at]
        end = at
        while end < len(items) and (items[end].intro, items[end].titles) == (item.intro, item.titles):
            end += 1
        intro = _last_sentence(item.intro)
        members = [other for other in items[at:end] if other.indent == item.indent]
        is_one = intro.endswith(":") and _asks(intro)
        if is_one and not any(_is_rule(other, is_contributing=is_contributing) for other in members):
            yield replace(item, text=_join(intro, members))
        else:
            yield from _join_nested(items[at:end])
        at = end


def _join_nested(items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield the bullets of a list; one that ends with a colon takes the bullets below it in."""
    at = 0
    while at < len(items):
        item, end = items[at], at + 1
        while end < len(items) and items[end].indent > item.indent:
            end += 1
        if item.text.endswith(":") and end > at + 1:
            yield replace(item, text=_join(item.text, items[at + 1 : end]))
            at = end
        else:
            yield item
            at += 1


def _join(intro: str, items: Sequence[_Item]) -> str:
    """Return a sentence with its list, as one line."""
    return f"{intro} {'; '.join(item.text[:ITEM_CHARS_MAX].rstrip(' ;.') for item in items)}"


def _last_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+", text)[-1]


def _is_fragment(text: str) -> bool:
    """Return whether a bullet is a link, a quotation, a question, or a label with code and no words of its own.

    >>> [_is_fragment(text) for text in ('"cleaner than before"', "Build: `make build`", "Use `make` for builds")]
    [True, True, False]
    """
    if _LINK.match(text) or _QUOTATION.match(text) or text.endswith(("?", ":")):
        return True
    bare = _LABEL.sub("", text)
    return bare.startswith("`") and len(re.findall(r"[^\W\d_]{2,}", _CODE.sub(" ", bare))) < WORDS_MIN - 1


def _asks(text: str) -> bool:
    """Return whether a text asks for something: by a modal verb, or because it begins with an instruction.

    >>> [_asks(text) for text in ("Use tabs.", "**Naming**: keep it short", "Owns the queues", "Tabs, never spaces")]
    [True, True, False, True]
    """
    prose = _CODE.sub("x", text)
    if _DEMAND.search(prose):
        return True
    label = _LABEL.match(prose)
    bare = prose[label.end() :].lstrip(" -–—") if label else prose
    is_sentence = label is None or len(label.group().split()) >= WORDS_MIN
    if (is_sentence and _begins_with_verb(prose)) or _begins_with_instruction(bare, is_labelled=label is not None):
        return True
    is_fact = _explains(prose) or _IS.search(_first_clause(prose))
    return not is_fact and bool(_LIMIT.search(prose) or _LIMIT.search(bare))


def _begins_with_instruction(text: str, *, is_labelled: bool) -> bool:
    """Return whether one of the sentences is an instruction; one that only refers to more to read is none."""
    first, *others = re.split(r"(?<=[.!?])\s+", text)
    if _begins_with_verb(first) and not (is_labelled and first.lower().split(" ", 1)[0] in _NOUNS):
        return True
    is_glossary = is_labelled or text.startswith("x")  # of a name or command, which the other sentences describe
    return not is_glossary and any(_begins_with_verb(other) and not _REFERS.match(other) for other in others)


def _explains(text: str) -> bool:
    """Return whether a text explains something, or says what something does.

    >>> [_explains(text) for text in ("This helps to make sure that:", "CI runs it", "Names in lower case")]
    [True, True, False]
    """
    clause = _first_clause(text)
    return bool(_EXPLAINS.match(text) or _STATES.search(clause) or _PERMITS.search(clause))


def _first_clause(text: str) -> str:
    return re.split(r"[.:;—–(]", text.lstrip("*_` "), maxsplit=1)[0]


def _begins_with_verb(text: str) -> bool:
    """Return whether a text begins with an instruction, perhaps after a condition such as "When you add one, "."""
    first = re.match(r"\W*([A-Za-z'’-]+)(?!\s+(?:is|are|was|has|have|can|will|runs?)\b)", text)
    if first and first[1].lower() in _IMPERATIVE:
        return True
    condition = re.match(
        r"[^\w]*(?:if|when|for|in|before|after|on|to)\b[^,:]{1,80}[,:] +([A-Za-z]+)", text, re.IGNORECASE
    )
    return bool(condition) and condition[1].lower() in _IMPERATIVE
