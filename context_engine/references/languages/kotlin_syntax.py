"""Read the nodes of Kotlin: calls with their lambdas, receivers, parameters and tests of types. PURE."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.nodes import NO_NODE, ancestors, children, get, has

TYPES = ("user_type", "nullable_type", "function_type", "parenthesized_type", "non_nullable_type")
TYPE = "@" + "|".join(TYPES)
"""The step to the first type that is written directly in a node."""
ANCESTORS_MAX = 40
"""Nodes looked at above or before a place."""


class KotlinCall(NamedTuple):
    """A call: what is called, its arguments and the lambda after them."""

    callee: SyntaxNode
    arguments: tuple[SyntaxNode, ...]
    trailing: SyntaxNode = NO_NODE

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.arguments) + bool(self.trailing)

    @property
    def holder(self) -> SyntaxNode:
        """The object whose method is called."""
        return get(self.callee, ".") if self.callee.type == "navigation_expression" else NO_NODE

    @property
    def name(self) -> SyntaxNode:
        """The name of what is called."""
        return get(self.callee, "$") if self.callee.type == "navigation_expression" else self.callee


def call_of(callee: SyntaxNode) -> KotlinCall | None:
    """Return the call whose function an expression is."""
    outer = get(callee, "<call_expression")
    return read_call(outer) if get(outer, ".") == callee else None


def _operator(node: SyntaxNode) -> str:
    return get(node, "operator").type if node.type == "binary_expression" else ""


def read_call(node: SyntaxNode) -> KotlinCall:
    """Return the parts of a call; `f(1) { }` is one call although it has two nodes."""
    callee, outer = get(node, "."), get(node, "<call_expression")
    arguments, trailing = _given_arguments(node)
    after, outside = _given_arguments(outer)
    if not trailing and get(outer, ".") == node and outside and not after:
        return KotlinCall(callee, arguments, outside)
    before, inside = _given_arguments(callee)
    if trailing and not arguments and callee.type == "call_expression" and not inside:
        return KotlinCall(get(callee, "."), before, trailing)
    return KotlinCall(callee, arguments, trailing)


def _given_arguments(node: SyntaxNode) -> tuple[tuple[SyntaxNode, ...], SyntaxNode]:
    arguments = children(get(node, "@value_arguments"), "value_argument")
    return tuple(arguments), get(node, "@annotated_lambda", "@lambda_literal")


def call_of_lambda(function: SyntaxNode) -> tuple[KotlinCall, int, SyntaxNode] | None:
    """Return the call that gets a lambda, the position of the lambda in it, and its name there."""
    after, outer = get(function, "<annotated_lambda", "<call_expression"), get(function, "<value_argument")
    if after:
        return read_call(after), -1, NO_NODE
    node = get(outer, "<", "<call_expression")
    call = read_call(node) if node else None
    if call is None or outer not in call.arguments:
        return None
    return call, call.arguments.index(outer), get(outer, ".") if has(outer, "=") else NO_NODE


def parameters_of(function: SyntaxNode) -> list[SyntaxNode]:
    """Return the parameters of a function, or those of the primary constructor of a class."""
    if function.type == "class_declaration":
        return children(get(function, "@primary_constructor", "@class_parameters"), "class_parameter")
    return children(get(function, "@function_value_parameters"), "parameter")


def receiver_type(declaration: SyntaxNode) -> SyntaxNode:
    """Return the type that an extension function or property extends: one before its name."""
    named = "identifier|function_value_parameters|variable_declaration|multi_variable_declaration"
    first = get(declaration, f"{TYPE}|{named}")
    return first if first.type in TYPES else NO_NODE


def result_type(function: SyntaxNode) -> SyntaxNode:
    """Return the written type of the result of a function."""
    start = get(function, "@function_value_parameters").end_byte
    after = [one for one in children(function, *TYPES) if one.start_byte >= start > 0]
    return after[0] if after else NO_NODE


def function_type(written: SyntaxNode) -> SyntaxNode:
    """Return a type of functions without `?` and parentheses around it."""
    while written.type in ("nullable_type", "parenthesized_type"):
        written = get(written, TYPE)
    return written if written.type == "function_type" else NO_NODE


def function_parameters(written: SyntaxNode) -> list[SyntaxNode]:
    """Return the types of the parameters in a type of functions."""
    listed = get(written, "@function_type_parameters").named_children
    found = [get(one, TYPE) if one.type == "parameter" else one for one in listed]
    return [one for one in found if one]


def last_expression(node: SyntaxNode) -> SyntaxNode:
    """Return the expression that a block, or a lambda, gives; any other node gives itself."""
    while node.type in ("block", "lambda_literal"):
        inner = [one for one in node.named_children if "comment" not in one.type and one.type != "lambda_parameters"]
        node = inner[-1] if inner else NO_NODE
    return node


def find_smart_cast(file: SyntaxFile, written: str, node: SyntaxNode) -> SyntaxNode:
    """Return the type that an `if`, an `&&` or a `when` around a place says an expression has."""
    at = node
    for outer in islice(ancestors(node), ANCESTORS_MAX):
        found = NO_NODE
        if at.type in ("function_declaration", "class_body", "source_file"):
            break
        if outer.type == "if_expression" and outer.named_children[1:2] == [at]:
            found = _tested_type(file, written, get(outer, "condition"))
        elif _operator(outer) == "&&" and get(outer, "$") == at:
            found = _tested_type(file, written, get(outer, "."))
        elif outer.type == "when_entry" and at.type != "type_test":
            subject, test = get(outer, "<", "@when_subject"), get(outer, "condition")
            named = get(subject, "@variable_declaration") or get(subject, "$")
            is_met = test.type == "type_test" and not has(test, "!is") and file.text(named) == written
            found = get(test, "$") if is_met else NO_NODE
        if found:
            return found
        at = outer
    return NO_NODE


def _tested_type(file: SyntaxFile, written: str, condition: SyntaxNode) -> SyntaxNode:
    """Return the type that an expression has where a condition is met."""
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        if node.type == "parenthesized_expression" or _operator(node) == "&&":
            waiting += node.named_children
        elif node.type == "is_expression" and has(node, "is") and file.text(get(node, "left")) == written:
            return get(node, "right")
    return NO_NODE
