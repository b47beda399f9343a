"""Mistakes that JavaScript and TypeScript let pass: promises nobody waits for, errors that vanish, tests left switched off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import SCRIPT, CheckExample, CheckRule, at_capture, js, on_line, ts

if TYPE_CHECKING:
    from context_engine.languages import CaptureMatch
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion


@CheckRule(
    "async-foreach",
    "Async callback in forEach",
    "forEach does not wait: errors are lost and what follows runs first. Use for...of with await, or Promise.all over map.",
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
).text
def async_foreach(source: FileVersion) -> Iterator[Finding]:
    """`xs.forEach(async ...)`."""
    for found in source.matches(_FOREACH):
        if found["it"].text.startswith("async"):
            yield on_line(found["it"].first)


_FOREACH = """
(call_expression
  function: (member_expression property: (property_identifier) @_name (#eq? @_name "forEach"))
  arguments: (arguments . [(arrow_function) (function_expression)] @it))
"""


@CheckRule(
    "empty-catch",
    "Empty catch",
    "Whatever goes wrong here leaves no trace; handle it, or say in a comment why it may be ignored.",
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
).text
def empty_catch(source: FileVersion) -> Iterator[Finding]:
    """`catch (e) {}` without even a comment."""
    for found in source.matches("(catch_clause body: (statement_block) @body) @clause"):
        if not found["body"].text.strip("{} \t\n"):
            yield on_line(found["clause"].first)


@CheckRule(
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
).text
def nan_comparison(source: FileVersion) -> Iterator[Finding]:
    """`x === NaN`."""
    for found in source.matches('(binary_expression operator: ["==" "===" "!=" "!=="]) @it'):
        if re.search(r"(?:[!=]=\s*|^)(?:Number\.)?NaN\s*(?:$|[!=]=)", found["it"].text):
            yield at_capture(found["it"])


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
    """`it.only`, `fit`, `fdescribe` in a test file."""
    if not re.search(r"(?:\.(?:test|spec|cy)\.|__tests__/|(?:^|/)tests?/)", source.path):
        return
    for found in source.matches("(program (expression_statement (call_expression function: (_) @name) @it))"):
        yield from _report_focused(found)
    for found in source.matches("(statement_block (expression_statement (call_expression function: (_) @name) @it))"):
        yield from _report_focused(found)


def _report_focused(found: CaptureMatch) -> Iterator[Finding]:
    if re.fullmatch(r"(?:it|test|describe|suite|context|bench)\.only|fit|fdescribe", found["name"].text):
        yield on_line(found["it"].first, f"`{found['name'].text}`: only this runs; all others are silently skipped.")


@CheckRule(
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
).text
def debugger(source: FileVersion) -> Iterator[Finding]:
    """`debugger;`."""
    for found in source.matches("(debugger_statement) @it"):
        yield at_capture(found["it"])


@CheckRule(
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
).text
def assignment_condition(source: FileVersion) -> Iterator[Finding]:
    """`if (a = b)` where the right side is a plain value; loops assign on purpose."""
    for found in source.matches(
        "(if_statement condition: (parenthesized_expression . (assignment_expression"
        " right: [(string) (number) (true) (false) (null) (identifier) (undefined)]) @it .))"
    ):
        yield at_capture(found["it"])


@CheckRule(
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
).text
def typeof_literal(source: FileVersion) -> Iterator[Finding]:
    """`typeof x === "strng"`."""
    for found in source.matches(
        '(binary_expression left: (unary_expression operator: "typeof") operator: ["==" "===" "!=" "!=="] right: (string) @type) @it'
    ):
        if found["type"].text.strip("'\"") not in _TYPES:
            yield at_capture(found["it"])


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
    """The same name twice among the keys of one object."""
    seen: set[tuple[int, str]] = set()
    for found in source.matches("(object (pair key: [(property_identifier) (string) (number)] @key)) @object"):
        key = (found["object"].start, found["key"].text.strip("'\""))
        if key in seen:
            yield at_capture(
                found["key"], f"{found['key'].text} is a key of this object already: the first value is lost."
            )
        seen.add(key)


@CheckRule(
    "self-comparison-js",
    "Compared with itself",
    "Both sides are the same, so the outcome is fixed.",
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
).text
def self_comparison(source: FileVersion) -> Iterator[Finding]:
    """`x === x`; `x !== x` is how NaN was found in old days."""
    for found in source.matches(
        "(binary_expression left: [(identifier) (member_expression)] @left"
        ' operator: ["==" "===" "<" ">" "<=" ">="] right: [(identifier) (member_expression)] @right) @it'
    ):
        if found["left"].text == found["right"].text:
            yield at_capture(found["it"])


@CheckRule(
    "unreachable-js",
    "Never reached",
    "What stands before it on this level always leaves.",
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
).text
def unreachable(source: FileVersion) -> Iterator[Finding]:
    """A statement right after `return`, `throw`, `continue` or `break`; functions and `var` are hoisted."""
    for found in source.matches(
        "(statement_block [(return_statement) (throw_statement) (continue_statement) (break_statement)] . (_) @next)"
    ):
        if found["next"].kind not in _HOISTED:
            yield on_line(found["next"].first)


_HOISTED = frozenset({
    *("comment", "function_declaration", "generator_function_declaration", "variable_declaration", "empty_statement"),
    *("class_declaration", "interface_declaration", "type_alias_declaration", "function_signature"),
})  # fmt: skip


@CheckRule(
    "console-log",
    "Debug output",
    "It will be in everybody's console.",
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
    """`console.log` outside of scripts and command lines."""
    if re.search(r"(?:^|/)(?:scripts?|bin|cli|tools?|examples?|bench\w*|docs)/|\.config\.", source.path):
        return
    for found in source.matches(
        '(expression_statement (call_expression function: (member_expression) @_name (#any-of? @_name "console.log" "console.debug")) @it)'
    ):
        yield at_capture(found["it"])


ALL = (
    async_foreach,
    empty_catch,
    nan_comparison,
    focused_test,
    debugger,
    assignment_condition,
    typeof_literal,
    duplicate_key,
    self_comparison,
    unreachable,
    console_log,
)
