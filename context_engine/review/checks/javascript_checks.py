"""Mistakes that JavaScript and TypeScript accept: promises without await, lost errors, focused tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import SCRIPT, CheckExample, CheckRule, at_capture, js, on_line, ts

if TYPE_CHECKING:
    from context_engine.languages import CaptureMatch
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion


# `xs.forEach(async ...)`.
async_foreach = CheckRule(
    "async-foreach",
    "Async callback in forEach",
    "forEach does not wait: errors are lost, and the code after it runs first. Use for...of with await, or Promise.all"
    " over map.",
    priority=1,
    confidence=0.85,
    category="correctness",
    languages=SCRIPT,
    mentions=("forEach",),
    examples=(
        js("files.forEach(async (file) => { «\n  await save(file);\n});"),
        js("await Promise.all(files.map(async (file) => save(file)));"),
        js("files.forEach((file) => save(file));"),
    ),
).query(
    """
(call_expression
  function: (member_expression property: (property_identifier) @_name (#eq? @_name "forEach"))
  arguments: (arguments . [(arrow_function) (function_expression)] @it))
""",
    lambda found: found["it"].text.startswith("async"),
    first_line=True,
)


# `catch (e) {}` without even a comment.
empty_catch = CheckRule(
    "empty-catch",
    "Empty catch",
    "An error here leaves no trace; handle it, or say in a comment why it may be ignored.",
    priority=2,
    confidence=0.7,
    category="correctness",
    languages=SCRIPT,
    in_tests=False,
    mentions=("catch",),
    examples=(
        js("try {\n  work();\n} catch (e) {} «"),
        js("try {\n  work();\n} catch {\n  // the file may be gone\n}"),
        js("try {\n  work();\n} catch (e) {\n  report(e);\n}"),
    ),
).query(
    "(catch_clause body: (statement_block) @body) @clause",
    lambda found: not found["body"].text.strip("{} \t\n"),
    capture="clause",
    first_line=True,
)


# `x === NaN`.
nan_comparison = CheckRule(
    "nan-comparison-js",
    "Comparison with NaN",
    "NaN equals nothing, itself included: this is never true (or always). Use Number.isNaN.",
    priority=1,
    confidence=0.95,
    category="correctness",
    languages=SCRIPT,
    mentions=("NaN",),
    examples=(
        js("if (x === NaN) stop(); «"),
        js("if (Number.NaN != x) stop(); «"),
        js("if (Number.isNaN(x)) stop();"),
        js("if (name === 'NaN') stop();"),
    ),
).query(
    '(binary_expression operator: ["==" "===" "!=" "!=="]) @it',
    lambda found: re.search(r"(?:[!=]=\s*|^)(?:Number\.)?NaN\s*(?:$|[!=]=)", found["it"].text),
)


@CheckRule(
    "focused-test",
    "Focused test",
    "Only this test runs; all others are silently skipped.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=SCRIPT,
    mentions=(".only", "fit(", "fdescribe("),
    examples=(
        CheckExample("src/cart.test.ts", "it.only('adds', () => {}); «"),
        CheckExample("src/cart.test.ts", "describe.only('cart', () => {}); «"),
        CheckExample("src/cart.test.ts", "fit('adds', () => {}); «"),
        CheckExample("src/cart.test.ts", "it('adds', () => {});"),
        js("layout.fit('page');\nquery.only('id');"),
        js("fit('page', box);"),
    ),
).text
def focused_test(source: FileVersion) -> Iterator[Finding]:
    """Report `it.only`, `fit`, `fdescribe` in a test file."""
    if not re.search(r"(?:\.(?:test|spec|cy)\.|__tests__/|(?:^|/)tests?/)", source.path):
        return
    for found in source.matches("(program (expression_statement (call_expression function: (_) @name) @it))"):
        yield from _report_focused(found)
    for found in source.matches("(statement_block (expression_statement (call_expression function: (_) @name) @it))"):
        yield from _report_focused(found)


def _report_focused(found: CaptureMatch) -> Iterator[Finding]:
    if re.fullmatch(r"(?:it|test|describe|suite|context|bench)\.only|fit|fdescribe", found["name"].text):
        yield on_line(found["it"].first, f"`{found['name'].text}`: only this runs; all others are silently skipped.")


# `debugger;`.
debugger = CheckRule(
    "debugger",
    "Debugger statement",
    "It stops the program wherever developer tools are open.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=SCRIPT,
    in_tests=False,
    mentions=("debugger",),
    examples=(
        js("function f() {\n  debugger; «\n}"),
        js("const debugger_ = attach();"),
    ),
).query(
    "(debugger_statement) @it",
)


# `if (a = b)` where the right side is a plain value; loops assign on purpose.
assignment_condition = CheckRule(
    "assignment-condition",
    "Assignment as condition",
    "One `=` assigns; if a comparison is meant write ===, else put it into a second pair of parentheses.",
    priority=1,
    confidence=0.75,
    category="correctness",
    languages=SCRIPT,
    mentions=("if (", "if("),
    examples=(
        js("if (mode = 'fast') run(); «"),
        js("if ((match = pattern.exec(text))) use(match);"),
        js("while (node = node.next) use(node);"),
        js("if (mode === 'fast') run();"),
    ),
).query(
    "(if_statement condition: (parenthesized_expression . (assignment_expression"
    " right: [(string) (number) (true) (false) (null) (identifier) (undefined)]) @it .))",
)


# `typeof x === "strng"`.
typeof_literal = CheckRule(
    "typeof-literal",
    "typeof compared with an unknown type",
    "typeof never gives this text, so the comparison is never true.",
    priority=1,
    confidence=0.95,
    category="correctness",
    languages=SCRIPT,
    mentions=("typeof",),
    examples=(
        js("if (typeof x === 'strnig') use(x); «"),
        js("if (typeof x === 'array') use(x); «"),
        js("if (typeof x === 'string' || typeof y === \"bigint\") use(x);"),
    ),
).query(
    '(binary_expression left: (unary_expression operator: "typeof")'
    ' operator: ["==" "===" "!=" "!=="] right: (string) @type) @it',
    lambda found: found["type"].text.strip("'\"") not in _TYPES,
)


_TYPES = frozenset("undefined object boolean number bigint string symbol function".split())


@CheckRule(
    "duplicate-key-js",
    "Key given twice",
    "The first value is lost.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=SCRIPT,
    examples=(
        js("const sizes = {\n  small: 1,\n  'small': 2, «\n};"),
        js("const sizes = { small: 1, large: { small: 2 } };"),
        js("const key = { [a]: 1, [a]: 2 };"),
    ),
).text
def duplicate_key(source: FileVersion) -> Iterator[Finding]:
    """Report the same name twice among the keys of one object."""
    seen: set[tuple[int, str]] = set()
    for found in source.matches("(object (pair key: [(property_identifier) (string) (number)] @key)) @object"):
        key = (found["object"].start, found["key"].text.strip("'\""))
        if key in seen:
            yield at_capture(
                found["key"], f"{found['key'].text} is a key of this object already: the first value is lost."
            )
        seen.add(key)


# `x === x`; `x !== x` is how NaN was found in old days.
self_comparison = CheckRule(
    "self-comparison-js",
    "Compared with itself",
    "Both sides are the same, so the result never changes.",
    priority=1,
    confidence=0.85,
    category="correctness",
    languages=SCRIPT,
    in_tests=False,
    examples=(
        js("if (left === left) go(); «"),
        js("if (left === right) go();"),
        js("const isNaN = x !== x;"),
    ),
).query(
    "(binary_expression left: [(identifier) (member_expression)] @left"
    ' operator: ["==" "===" "<" ">" "<=" ">="] right: [(identifier) (member_expression)] @right) @it',
    lambda found: found["left"].text == found["right"].text,
)


# A statement right after `return`, `throw`, `continue` or `break`; functions and `var` are hoisted.
unreachable = CheckRule(
    "unreachable-js",
    "Never reached",
    "The statement before it always leaves this block.",
    priority=2,
    confidence=0.85,
    category="correctness",
    languages=SCRIPT,
    examples=(
        js("function f() {\n  return 1;\n  clean(); «\n}"),
        js("function f() {\n  throw new Error();\n  clean(); «\n}"),
        js("function f() {\n  return inner();\n  function inner() {}\n}"),
        js("function f() {\n  return 1; // one\n  // two\n}"),
        js("function f() {\n  return g();\n  var late;\n}"),
    ),
).query(
    "(statement_block [(return_statement) (throw_statement) (continue_statement) (break_statement)] . (_) @next)",
    lambda found: found["next"].kind not in _HOISTED,
    capture="next",
    first_line=True,
)


_HOISTED = frozenset({
    *("comment", "function_declaration", "generator_function_declaration", "variable_declaration", "empty_statement"),
    *("class_declaration", "interface_declaration", "type_alias_declaration", "function_signature"),
})  # fmt: skip


@CheckRule(
    "console-log",
    "Debug output",
    "It appears in the console of every user.",
    priority=2,
    confidence=0.6,
    category="maintainability",
    languages=SCRIPT,
    in_tests=False,
    mentions=("console.",),
    examples=(
        ts("export function load() {\n  console.log('here'); «\n}"),
        ts("export function load() {\n  console.error('cannot load');\n}"),
        CheckExample("scripts/build.js", "console.log('built');"),
    ),
).text
def console_log(source: FileVersion) -> Iterator[Finding]:
    """Report `console.log` outside of scripts and command lines."""
    if re.search(r"(?:^|/)(?:scripts?|bin|cli|tools?|examples?|bench\w*|docs)/|\.config\.", source.path):
        return
    for found in source.matches(
        "(expression_statement (call_expression function: (member_expression) @_name"
        ' (#any-of? @_name "console.log" "console.debug")) @it)'
    ):
        yield at_capture(found["it"])
