"""PURE. What a task asks for: to add, to fix, to rename..., and which names it speaks of without any mark of code.

>>> parse_intent("rename function foo to bar")
TaskIntent(kind='rename', names=('foo',), new_name='bar')
>>> parse_intent("fix(router): handle trailing slashes").kind, parse_intent("Add tests for the parser").kind, parse_intent("Sorting").kind
('fix', 'test', 'change')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from context_engine.context.references import Mention, mentions

TaskKind = Literal[
    "add", "fix", "refactor", "rename", "remove", "upgrade", "test", "docs", "perf", "security", "change"
]

_VERBS: Mapping[TaskKind, str] = {
    "rename": "rename",
    "remove": "remove delete drop deprecate strip revert",
    "upgrade": "upgrade bump migrate modernise modernize",
    "fix": "fix repair correct resolve prevent handle avoid stop guard bugfix hotfix",
    "refactor": "refactor simplify extract move split restructure clean cleanup reuse merge unify inline tidy replace",
    "add": "add allow support implement introduce create expose enable extend provide feat feature",
    "perf": "optimise optimize perf speed accelerate",
    "docs": "document docs doc explain",
    "test": "test tests cover",
    "security": "harden secure sanitise sanitize security",
}
"""The word that a task begins with, in its plain form; a commit's prefix (`fix(core):`) is one as well."""
_SUBJECTS: tuple[tuple[TaskKind, re.Pattern[str]], ...] = (
    ("docs", re.compile(r"\b(?:docs?|documentation|readme|docstrings?|changelog|typos?)\b", re.IGNORECASE)),
    ("test", re.compile(r"\b(?:unit |integration |regression )?(?:tests?|coverage)\b", re.IGNORECASE)),
    ("security", re.compile(r"\b(?:CVE-\d+|vulnerab\w+|injection|XSS|CSRF|traversal|exploit)\b", re.IGNORECASE)),
    ("perf", re.compile(r"\b(?:performance|faster|slow(?:er)?|speed|latency|memory usage)\b", re.IGNORECASE)),
)
"""What a task is about says more than its verb, when the verb is one of those that fit anything."""
_FITS_ANYTHING = frozenset({"add", "fix", "refactor", "change", "upgrade", "remove"})
_TROUBLE = re.compile(
    r"\b(?:bug|crash(?:es|ing)?|fails?|failing|failure|broken|wrong|incorrect|regression|error when|raises? when)\b",
    re.IGNORECASE,
)
_NOUN = (
    r"(?:function|method|class|module|variable|constant|field|property|attribute|option|setting|flag|command|tool|type|struct"
    r"|interface|trait|enum|macro|parameter|argument|endpoint|route|column|table|file)"
)
_NAME = r"`?(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)(?:\(\))?`?"
_NAME_PATTERNS = (
    re.compile(rf"(?<![\w.]){_NOUN} {_NAME}", re.IGNORECASE),
    re.compile(rf"(?:^|[\s(]){_NAME} {_NOUN}\b", re.IGNORECASE),
)
_RENAME = re.compile(
    rf"\brenam(?:e|es|ed|ing)\s+(?:the\s+)?(?:{_NOUN}\s+)?{_NAME}(?:\s+{_NOUN})?(?:\s+(?:to|into|as|->|=>)\s+`?(?P<new>[\w$.:#]+?)(?:\(\))?`?(?=[\s.,;]|$))?",
    re.IGNORECASE,
)
_REMOVE = re.compile(
    rf"\b(?:remove|delete|drop)\s+(?:the\s+)?(?:unused\s+|deprecated\s+|old\s+)*(?:{_NOUN}\s+)?{_NAME}\s*(?:$|[.,;])",
    re.IGNORECASE,
)
_PLAIN = frozenset(
    "a an the to for of in on with from that this these those some all any new old same other default optional missing is are be "
    "unused deprecated everywhere again only also too every no name names its their our your first last each when where which it and or not no if by as at".split()
)
"""Words that stand beside a noun and are no name."""
_IS_NOUN = re.compile(_NOUN, re.IGNORECASE).fullmatch
_PREFIX = re.compile(r"^(?P<kind>[a-z]+)(?:\([^)]*\))?!?:\s*", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+")


class TaskIntent(NamedTuple):
    """What a task wants done, the names it speaks of in plain words, and what a rename leads to."""

    kind: TaskKind
    names: tuple[str, ...] = ()
    new_name: str = ""


def parse_intent(task: str) -> TaskIntent:
    """What a task asks for. Nothing is looked up; a name may turn out to be no name of this repository."""
    renamed = _RENAME.search(task)
    if renamed and renamed["name"].lower() not in _PLAIN:
        return TaskIntent("rename", (renamed["name"],), (renamed["new"] or "").rstrip("."))
    return TaskIntent(_parse_kind(task), tuple(dict.fromkeys(_find_plain_names(task))))


def find_mentions(task: str, asked: TaskIntent) -> list[Mention]:
    """Everything that a task names: what is marked as code or spelled like it, and what only its words say to be a name.

    >>> [each.text for each in find_mentions("Give the parse function a timeout in src/io.py", parse_intent("Give the parse function a timeout"))]
    ['src/io.py', 'parse']
    """
    found = mentions(task)
    known = {each.name for each in found} | {asked.new_name}
    sure = asked.kind in ("rename", "remove")
    plain = [
        Mention(name, "symbol", name.replace("::", "."), certain=sure) for name in asked.names if name not in known
    ]
    return [each for each in found if not asked.new_name or each.name != asked.new_name] + plain


def strip_commit_prefix(task: str) -> str:
    """A task without the prefix that commits carry.

    >>> strip_commit_prefix("fix(core): keep the order"), strip_commit_prefix("Keep the order: it matters")
    ('keep the order', 'Keep the order: it matters')
    """
    prefix = _PREFIX.match(task)
    is_kind = prefix and (
        _kind_of_verb(prefix["kind"]) != "change" or prefix["kind"].lower() in ("chore", "style", "ci", "build")
    )
    return task[prefix.end() :] if prefix and is_kind else task


def _parse_kind(task: str) -> TaskKind:
    """By its first verb, unless what it is about says more."""
    prefix = _PREFIX.match(task)
    first = _WORD.search(task if not prefix else prefix["kind"])
    kind = _kind_of_verb(first.group()) if first else "change"
    if prefix and kind == "change":
        rest = _WORD.search(task, prefix.end())
        kind = _kind_of_verb(rest.group()) if rest else "change"
    if kind in _FITS_ANYTHING:
        told = next((subject for subject, pattern in _SUBJECTS if pattern.search(_headline(task))), None)
        if told and not (told == "test" and kind == "fix"):
            return told
    return "fix" if kind == "change" and _TROUBLE.search(task) else kind


def _headline(task: str) -> str:
    return task.strip().split("\n", 1)[0]


def _kind_of_verb(word: str) -> TaskKind:
    """The kind of a verb in any of its forms.

    >>> _kind_of_verb("Fixes"), _kind_of_verb("adding"), _kind_of_verb("Removed"), _kind_of_verb("The")
    ('fix', 'add', 'remove', 'change')
    """
    forms = {word.lower(), *(word.lower().removesuffix(ending) for ending in ("s", "es", "d", "ed", "ing"))}
    forms |= {f"{form}e" for form in forms} | {form[:-1] for form in forms if form[-1:] == form[-2:-1]}
    return next((kind for kind, verbs in _VERBS.items() if forms & set(verbs.split())), "change")


def _find_plain_names(task: str) -> Iterator[str]:
    """Names that nothing marks but the word beside them."""
    for pattern in (*_NAME_PATTERNS, _REMOVE):
        for match in pattern.finditer(task):
            if (
                match["name"].lower() not in _PLAIN
                and not _IS_NOUN(match["name"])
                and _kind_of_verb(match["name"]) == "change"
            ):
                yield match["name"]
