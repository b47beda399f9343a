"""Mistakes that Python accepts: shared defaults, lost exceptions, comparisons that are never true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import PYTHON, CheckRule, at_capture, py

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion


@CheckRule(
    "mutable-default",
    "Mutable default argument",
    "The default is created once and shared by all calls; use None and create it inside.",
    priority=1,
    confidence=0.85,
    category="correctness",
    languages=PYTHON,
    in_tests=False,
    examples=(
        py("def add(item, basket=[]): «\n    basket.append(item)\n    return basket"),
        py("def add(item, *, seen: set = set()): «\n    seen.add(item)"),
        py("def add(item, basket=()):\n    return (*basket, item)"),
        py("def add(item, basket=None):\n    basket = basket or []"),
        py("def render(text, options={}):\n    return text.format(**options)"),
    ),
).text
def mutable_default(source: FileVersion) -> Iterator[Finding]:
    """Report a list, dict or set as a default that the function changes or returns; one that is only read is fine."""
    for found in source.matches(_DEFAULTS):
        name, body = found["name"].text, found["body"].text
        if re.search(_CHANGES.format(name=re.escape(name)), body):
            yield at_capture(found["value"])


_DEFAULTS = """
(function_definition
  parameters: (parameters [
    (default_parameter name: (identifier) @name value: [(list) (dictionary) (set)] @value)
    (typed_default_parameter name: (identifier) @name value: [(list) (dictionary) (set)] @value)
    (default_parameter name: (identifier) @name
      value: (call function: (identifier) @_made arguments: (argument_list)) @value)
    (typed_default_parameter name: (identifier) @name
      value: (call function: (identifier) @_made arguments: (argument_list)) @value)
  ])
  body: (block) @body
  (#any-of? @_made "list" "dict" "set" "defaultdict" "deque"))
"""
_CHANGES = (
    r"\b{name}(?:\.(?:append|extend|insert|add|update|pop|popitem|remove|discard|clear|sort|reverse|setdefault)\("
    r"|\[[^\]\n]*\]\s*[-+*/|&]?=(?!=)|\s*[-+|&]=)|(?m:^\s*return {name}\s*$)|self\.\w+ = {name}\b"
)


# `except:` whose body does not raise again.
bare_except = CheckRule(
    "bare-except",
    "Bare except",
    "It also catches KeyboardInterrupt and SystemExit; name what may be raised, or `Exception`.",
    priority=2,
    confidence=0.8,
    category="correctness",
    languages=PYTHON,
    in_tests=False,
    mentions=("except:",),
    examples=(
        py("try:\n    work()\nexcept: «\n    pass"),
        py("try:\n    work()\nexcept ValueError:\n    pass"),
        py("try:\n    work()\nexcept:\n    undo()\n    raise"),
    ),
).query(
    "(except_clause . (block) @body) @clause",
    lambda found: not re.search(r"(?m)^\s*raise\b|[:;]\s*raise\b|^raise\b", found["body"].text),
    capture="clause",
    first_line=True,
)


# `except Exception: pass` without a word of why.
swallowed_exception = CheckRule(
    "swallowed-exception",
    "Exception swallowed",
    "Any error here, bugs included, leaves no trace; name what is expected, or log it.",
    priority=2,
    confidence=0.7,
    category="correctness",
    languages=PYTHON,
    in_tests=False,
    mentions=("except Exception", "except BaseException"),
    examples=(
        py("try:\n    work()\nexcept Exception: «\n    pass"),
        py("try:\n    work()\nexcept Exception as e: «\n    pass"),
        py("try:\n    work()\nexcept Exception:  # the host may be gone\n    pass"),
        py("try:\n    work()\nexcept Exception:\n    # nobody listens any more\n    pass"),
        py("try:\n    work()\nexcept OSError:\n    pass"),
        py("try:\n    work()\nexcept Exception:\n    log.exception('no')"),
    ),
).query(
    """
(except_clause
  value: [(identifier) @_name (as_pattern (identifier) @_name)]
  (block . (pass_statement) .)
  (#any-of? @_name "Exception" "BaseException")) @clause
""",
    lambda found: "#" not in found["clause"].text,
    capture="clause",
    first_line=True,
)


# `x is "text"`, `x is 3`.
is_literal = CheckRule(
    "is-literal",
    "`is` with a literal",
    "`is` compares identity: whether two equal texts or numbers are one object is up to the interpreter. Use ==.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=PYTHON,
    mentions=(" is ",),
    examples=(
        py("if kind is 'file': «\n    pass"),
        py("if count is not 0: «\n    pass"),
        py("if kind is None or done is True:\n    pass"),
    ),
).query(
    "(comparison_operator [(string) (integer) (float) (tuple)] @literal) @all",
    lambda found: re.search(r"\bis\b", _without_strings(found["all"].text)),
    capture="all",
)


# `x == None` in a condition; inside a call it may build a query (SQLAlchemy).
equals_none = CheckRule(
    "equals-none",
    "`== None`",
    "A class may define its own ==; `is None` always compares with None.",
    priority=3,
    confidence=0.75,
    category="style",
    languages=PYTHON,
    in_tests=False,
    mentions=("None",),
    examples=(
        py("if found == None: «\n    pass"),
        py("if found is None:\n    pass"),
        py("rows = query.filter(User.name == None)"),
    ),
).query(
    '[(if_statement condition: (comparison_operator ["==" "!="] (none)) @it)'
    ' (elif_clause condition: (comparison_operator ["==" "!="] (none)) @it)'
    ' (while_statement condition: (comparison_operator ["==" "!="] (none)) @it)]',
)


# `x == nan`.
nan_comparison = CheckRule(
    "nan-comparison",
    "Comparison with NaN",
    "NaN equals nothing, itself included: this is never true (or always). Use math.isnan.",
    priority=1,
    confidence=0.95,
    category="correctness",
    languages=PYTHON,
    mentions=("nan", "NaN"),
    examples=(
        py("if x == float('nan'): «\n    pass"),
        py("if x != np.nan: «\n    pass"),
        py("if math.isnan(x):\n    pass"),
        py("if name == 'nan':\n    pass"),
    ),
).query(
    '(comparison_operator ["==" "!="] ) @it',
    lambda found: re.search(
        r"(?:[!=]=\s*|^)(?:float\(\s*['\"]nan['\"]\s*\)|(?:math|np|numpy)\.nan\b)", found["it"].text, re.IGNORECASE
    ),
)


# `assert (condition, message)`.
assert_tuple = CheckRule(
    "assert-tuple",
    "Assertion on a tuple",
    "A tuple that is not empty is always true: this asserts nothing. Leave the parentheses out.",
    priority=1,
    confidence=0.95,
    category="correctness",
    languages=PYTHON,
    mentions=("assert (", "assert("),
    examples=(
        py("assert (x == 1, 'wrong') «"),
        py("assert (x == 1), 'wrong'"),
        py("assert (\n    x == 1\n)"),
    ),
).query(
    "(assert_statement . (tuple (_)) @it)",
)


# `raise NotImplemented`.
raise_notimplemented = CheckRule(
    "raise-notimplemented",
    "NotImplemented raised",
    "NotImplemented is not an exception: raising it is a TypeError. NotImplementedError is meant.",
    priority=1,
    confidence=0.95,
    category="correctness",
    languages=PYTHON,
    mentions=("raise NotImplemented",),
    examples=(
        py("def area(self):\n    raise NotImplemented «"),
        py("def area(self):\n    raise NotImplemented('later') «"),
        py("def __eq__(self, other):\n    return NotImplemented"),
    ),
).query(
    '(raise_statement [(identifier) @_name (call function: (identifier) @_name)] (#eq? @_name "NotImplemented")) @it',
)


@CheckRule(
    "duplicate-key",
    "Key given twice",
    "The first value is lost.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=PYTHON,
    examples=(
        py("sizes = {\n    'small': 1,\n    'large': 2,\n    'small': 3, «\n}"),
        py("sizes = {'small': 1, 'large': {'small': 2}}"),
        py("sizes = {1: 'a', '1': 'b'}"),
    ),
).text
def duplicate_key(source: FileVersion) -> Iterator[Finding]:
    """Report the same literal twice among the keys of one dict."""
    seen: set[tuple[int, str]] = set()
    for found in source.matches("(dictionary (pair key: [(string) (integer)] @key)) @dict"):
        key = (found["dict"].start, found["key"].text)
        if key in seen and "{" not in found["key"].text:
            yield at_capture(
                found["key"], f"{found['key'].text} is a key of this dict already: the first value is lost."
            )
        seen.add(key)


@CheckRule(
    "same-condition",
    "Same condition again",
    "An earlier branch of this chain has it, so this one is never reached.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=PYTHON,
    mentions=("elif",),
    examples=(
        py("if a == 1:\n    one()\nelif b:\n    two()\nelif a == 1: «\n    three()"),
        py("if a == 1:\n    one()\nelif a == 2:\n    two()"),
        py("if take():\n    one()\nelif take():\n    two()"),
    ),
).text
def same_condition(source: FileVersion) -> Iterator[Finding]:
    """Report an `elif` with the condition of an earlier branch; a call may return something else the second time."""
    conditions: dict[int, set[str]] = {}
    for found in source.matches(
        "(if_statement condition: (_) @first alternative: (elif_clause condition: (_) @next)) @if"
    ):
        before = conditions.setdefault(found["if"].start, {found["first"].text})
        condition = found["next"].text
        if condition in before and "(" not in condition:
            yield at_capture(found["next"])
        before.add(condition)


# `x == x`; `x != x` is how NaN is found.
self_comparison = CheckRule(
    "self-comparison",
    "Compared with itself",
    "Both sides are the same, so the result never changes.",
    priority=1,
    confidence=0.85,
    category="correctness",
    languages=PYTHON,
    in_tests=False,
    examples=(
        py("if left == left: «\n    pass"),
        py("if a.size < a.size: «\n    pass"),
        py("if left == right:\n    pass"),
        py("if take() == take():\n    pass"),
        py("is_nan = x != x"),
    ),
).query(
    '(comparison_operator . [(identifier) (attribute)] @left ["==" "<" ">" "<=" ">="]'
    " . [(identifier) (attribute)] @right .) @it",
    lambda found: found["left"].text == found["right"].text,
)


# A statement that is only `a == b`.
comparison_unused = CheckRule(
    "comparison-unused",
    "Comparison without effect",
    "The result is thrown away; an assignment or an assertion was meant.",
    priority=1,
    confidence=0.8,
    category="correctness",
    languages=PYTHON,
    in_tests=False,
    examples=(
        py("def reset(self):\n    self.count == 0 «"),
        py("def reset(self):\n    self.count = 0"),
        py("graph.a >> graph.b\na in b"),
    ),
).query(
    '(block (expression_statement . (comparison_operator ["==" "!="]) @it .))',
)


# A statement right after `return`, `raise`, `continue` or `break`; a `yield` there makes a generator.
unreachable = CheckRule(
    "unreachable",
    "Never reached",
    "The statement before it always leaves this block.",
    priority=2,
    confidence=0.85,
    category="correctness",
    languages=PYTHON,
    examples=(
        py("def f():\n    return 1\n    clean() «"),
        py("for x in xs:\n    continue\n    use(x) «"),
        py("def f():\n    if a:\n        return 1\n    clean()"),
        py("def f():\n    raise NotImplementedError\n    yield"),
    ),
).query(
    "(block [(return_statement) (raise_statement) (continue_statement) (break_statement)] . (_) @next)",
    lambda found: found["next"].kind != "comment" and not re.match(r"(?:return\s+)?\(?yield\b", found["next"].text),
    capture="next",
    first_line=True,
)


# `return` directly in a `finally` block.
return_in_finally = CheckRule(
    "return-in-finally",
    "Return in finally",
    "It swallows every exception, unexpected ones too.",
    priority=1,
    confidence=0.85,
    category="correctness",
    languages=PYTHON,
    mentions=("finally",),
    examples=(
        py("def f():\n    try:\n        work()\n    finally:\n        return 1 «"),
        py("def f():\n    try:\n        work()\n    finally:\n        done()\n    return 1"),
    ),
).query(
    "(finally_clause (block (return_statement) @it))",
)


@CheckRule(
    "unawaited-sleep",
    "Blocking sleep in async function",
    "time.sleep stops every other task of the loop; asyncio.sleep is meant.",
    priority=1,
    confidence=0.85,
    category="performance",
    languages=PYTHON,
    in_tests=False,
    mentions=("time.sleep",),
    examples=(
        py("import time\nasync def wait():\n    time.sleep(1) «"),
        py("import time\ndef wait():\n    time.sleep(1)"),
        py("import time\nasync def wait():\n    def inner():\n        time.sleep(1)\n    await run(inner)"),
    ),
).text
def unawaited_sleep(source: FileVersion) -> Iterator[Finding]:
    """Report `time.sleep` whose nearest function is async."""
    if "async def" not in source.text:
        return
    functions = [found["it"] for found in source.matches("[(function_definition) (lambda)] @it")]
    for found in source.matches('(call function: (attribute) @_name (#eq? @_name "time.sleep")) @it'):
        call = found["it"]
        around = [code for code in functions if code.start <= call.start and call.stop <= code.stop]
        if around and max(around, key=lambda code: code.start).text.startswith("async"):
            yield at_capture(call)


def _without_strings(text: str) -> str:
    return re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "''", text)
