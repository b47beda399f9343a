"""Read the nodes of Kotlin: calls with their lambdas, receivers, parameters, imports and tests of types. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode

TYPES = ("user_type", "nullable_type", "function_type", "parenthesized_type", "non_nullable_type")
ANCESTORS_MAX = 40
"""Nodes looked at above a place."""
_PACKAGE = re.compile(rb"^[ \t]*package[ \t]+([\w.`]+)", re.MULTILINE)
LEAVING = ("return_expression", "throw_expression", "labeled_expression")
"""Statements after which a block does not go on; `break` and `continue` are labeled expressions or words."""


class KotlinCall(NamedTuple):
    """A call: its whole node, what is called, how many arguments it has, and the arguments and lambda after it."""

    node: SyntaxNode
    callee: SyntaxNode
    arguments: tuple[SyntaxNode, ...]
    trailing: SyntaxNode | None

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.arguments) + (self.trailing is not None)


class KotlinImport(NamedTuple):
    """An import: the name that it brings, and the parts of what it names."""

    name: str
    parts: tuple[str, ...]


@lru_cache(maxsize=2048)
def package_of(file: SyntaxFile) -> str:
    """Return the package that a file is in."""
    found = _PACKAGE.search(file.data)
    return found[1].decode("utf-8", "replace").replace("`", "") if found else ""


@lru_cache(maxsize=1024)
def imports_of(file: SyntaxFile) -> tuple[KotlinImport, ...]:
    """Return the imports of a file; a star import has the name `*`."""
    found: list[KotlinImport] = []
    for statement in file.root.named_children:
        if statement.type != "import" or not statement.named_children:
            continue
        written = statement.named_children[0]
        parts = tuple(file.text(part) for part in written.named_children)
        if any(child.type == "*" for child in statement.children):
            name = "*"
        else:
            name = file.text(statement.named_children[-1]).rpartition(".")[2]
        found.append(KotlinImport(name, parts))
    return tuple(found)


def call_of(callee: SyntaxNode) -> KotlinCall | None:
    """Return the call whose function an expression is; the grammar reads some `f<T>(x)` as comparisons."""
    outer = callee.parent
    if outer is not None and outer.type == "call_expression" and outer.named_children[0] == callee:
        return read_call(outer)
    if outer is None or outer.type != "binary_expression" or outer.named_children[0] != callee:
        return None
    whole = outer.parent
    is_generic = (
        whole is not None
        and _operator(outer) == "<"
        and _operator(whole) == ">"
        and whole.named_children[-1].type == "parenthesized_expression"
    )
    if whole is not None and is_generic:
        return KotlinCall(whole, callee, tuple(whole.named_children[-1].named_children), None)
    return None


def _operator(node: SyntaxNode) -> str:
    found = node.child_by_field_name("operator")
    return found.type if found is not None else ""


def read_call(node: SyntaxNode) -> KotlinCall:
    """Return the parts of a call; `f(1) { }` is one call although it has two nodes."""
    callee = node.named_children[0]
    arguments, trailing = _given_arguments(node)
    outer = node.parent
    if trailing is None and outer is not None and outer.type == "call_expression" and outer.named_children[0] == node:
        after, outside = _given_arguments(outer)
        if outside is not None and not after:
            return KotlinCall(outer, callee, arguments, outside)
    inner = node.named_children[0]
    if trailing is not None and not arguments and inner.type == "call_expression":
        before, inside = _given_arguments(inner)
        if inside is None:
            return KotlinCall(node, inner.named_children[0], before, trailing)
    return KotlinCall(node, callee, arguments, trailing)


def _given_arguments(node: SyntaxNode) -> tuple[tuple[SyntaxNode, ...], SyntaxNode | None]:
    arguments: tuple[SyntaxNode, ...] = ()
    trailing = None
    for child in node.named_children[1:]:
        if child.type == "value_arguments":
            arguments = tuple(one for one in child.named_children if one.type == "value_argument")
        elif child.type == "annotated_lambda":
            trailing = next((one for one in child.named_children if one.type == "lambda_literal"), None)
    return arguments, trailing


def type_arguments(node: SyntaxNode) -> list[SyntaxNode]:
    """Return the types that a call or a type is written with."""
    holder = next((one for one in node.named_children if one.type == "type_arguments"), None)
    if holder is None:
        return []
    return [part.named_children[-1] for part in holder.named_children if part.named_child_count]


def parameters_of(function: SyntaxNode) -> list[SyntaxNode]:
    """Return the parameters of a function, or those of the primary constructor of a class."""
    if function.type == "class_declaration":
        holder = next((one for one in function.named_children if one.type == "primary_constructor"), None)
        listed = holder.named_children if holder is not None else []
        inner = next((one for one in listed if one.type == "class_parameters"), None)
        return [one for one in inner.named_children if one.type == "class_parameter"] if inner is not None else []
    holder = next((one for one in function.named_children if one.type == "function_value_parameters"), None)
    return [one for one in holder.named_children if one.type == "parameter"] if holder is not None else []


def parameter_counts(function: SyntaxNode) -> tuple[int, int]:
    """Return how many arguments a function takes at least and at most."""
    parameters = parameters_of(function)
    most = len(parameters)
    fewest = most
    for parameter in parameters:
        after = parameter.next_sibling
        if after is not None and after.type == "=":
            fewest -= 1
        before = parameter.prev_sibling
        if before is not None and before.type == "parameter_modifiers" and b"vararg" in (before.text or b""):
            fewest, most = fewest - 1, 1000
    return fewest, most


def is_override(statement: SyntaxNode) -> bool:
    """Whether a function, a property or the parameter of a constructor says that it overrides another one."""
    declared = statement.parent if statement.type == "variable_declaration" else statement
    modifiers = declared.named_children[:1] if declared is not None else []
    return any(child.type == "modifiers" and b"override" in (child.text or b"").split() for child in modifiers)


def written_type(node: SyntaxNode) -> SyntaxNode | None:
    """Return the first type that is written directly in a node."""
    return next((one for one in node.named_children if one.type in TYPES), None)


def receiver_type(declaration: SyntaxNode) -> SyntaxNode | None:
    """Return the type that an extension function or property extends."""
    for child in declaration.named_children:
        if child.type in TYPES:
            return child
        if child.type in ("function_value_parameters", "variable_declaration", "multi_variable_declaration"):
            return None
        if declaration.child_by_field_name("name") == child:
            return None
    return None


def result_type(function: SyntaxNode) -> SyntaxNode | None:
    """Return the written type of the result of a function."""
    is_after = False
    for child in function.named_children:
        if is_after and child.type in TYPES:
            return child
        is_after = is_after or child.type == "function_value_parameters"
    return None


def function_receiver(written: SyntaxNode) -> SyntaxNode | None:
    """Return the type of the receiver in a type of functions: `Cat.(Int) -> Dog`."""
    first = written.named_children[0] if written.named_child_count else None
    return first if first is not None and first.type in TYPES else None


def function_parameters(written: SyntaxNode) -> list[SyntaxNode]:
    """Return the types of the parameters in a type of functions."""
    holder = next((one for one in written.named_children if one.type == "function_type_parameters"), None)
    listed = holder.named_children if holder is not None else []
    found = [written_type(one) if one.type == "parameter" else one for one in listed]
    return [one for one in found if one is not None]


def plain_function_type(written: SyntaxNode | None) -> SyntaxNode | None:
    """Return a type of functions without `?` and parentheses around it."""
    while written is not None and written.type in ("nullable_type", "parenthesized_type"):
        written = next((one for one in written.named_children if one.type in TYPES), None)
    return written if written is not None and written.type == "function_type" else None


def lambda_parameters(function: SyntaxNode) -> SyntaxNode | None:
    """Return the parameters that a lambda is written with."""
    return next((one for one in function.named_children if one.type == "lambda_parameters"), None)


def call_of_lambda(function: SyntaxNode) -> tuple[KotlinCall, int, str] | None:
    """Return the call that gets a lambda, the position of the lambda in it, and its name there."""
    outer = function.parent
    if outer is None:
        return None
    if outer.type == "annotated_lambda" and outer.parent is not None and outer.parent.type == "call_expression":
        call = read_call(outer.parent)
        return call, -1, ""
    if outer.type == "value_argument" and outer.parent is not None and outer.parent.parent is not None:
        node = outer.parent.parent
        if node.type == "call_expression":
            call = read_call(node)
            name = outer.named_children[0] if any(child.type == "=" for child in outer.children) else None
            if outer in call.arguments:
                return call, call.arguments.index(outer), (name.text or b"").decode() if name is not None else ""
    return None


def find_smart_cast(file: SyntaxFile, written: str, node: SyntaxNode) -> SyntaxNode | None:
    """Return the type that a test around a place says an expression has."""
    at = node
    for _ in range(ANCESTORS_MAX):
        outer = at.parent
        if outer is None or at.type in ("function_declaration", "class_body", "source_file"):
            return None
        found = None
        if outer.type == "if_expression":
            found = _cast_of_if(file, written, outer, at)
        elif outer.type == "when_entry" and at.type != "type_test":
            found = _cast_of_entry(file, written, outer)
        elif outer.type == "binary_expression" and outer.named_children[-1] == at:
            wanted = {"&&": "is", "||": "!is"}.get(_operator(outer), "")
            found = _tested_type(file, written, outer.named_children[0], wanted) if wanted else None
        elif outer.type == "block":
            found = _cast_before(file, written, at)
        if found is not None:
            return found
        at = outer
    return None


def _cast_of_if(file: SyntaxFile, written: str, outer: SyntaxNode, at: SyntaxNode) -> SyntaxNode | None:
    condition = outer.child_by_field_name("condition")
    parts = [one for one in outer.named_children if "comment" not in one.type]
    if condition is None or at == condition or len(parts) < 2:
        return None
    return _tested_type(file, written, condition, "is" if parts[1] == at else "!is")


def _cast_of_entry(file: SyntaxFile, written: str, entry: SyntaxNode) -> SyntaxNode | None:
    conditions = entry.children_by_field_name("condition")
    whole = entry.parent
    if whole is None or len(conditions) != 1:
        return None
    subject = next((one for one in whole.named_children if one.type == "when_subject"), None)
    if conditions[0].type == "type_test" and subject is not None:
        named = next((one for one in subject.named_children if one.type == "variable_declaration"), None)
        text = file.text(named or subject.named_children[-1])
        is_negated = any(child.type == "!is" for child in conditions[0].children)
        return conditions[0].named_children[-1] if text == written and not is_negated else None
    return _tested_type(file, written, conditions[0], "is")


def _cast_before(file: SyntaxFile, written: str, at: SyntaxNode) -> SyntaxNode | None:
    before = at.prev_named_sibling
    for _ in range(ANCESTORS_MAX):
        if before is None:
            return None
        if before.type == "if_expression" and before.named_child_count == 2:
            condition, body = before.named_children
            last = body.named_children[-1] if body.type == "block" and body.named_child_count else body
            if last.type in LEAVING or file.text(last) in ("continue", "break"):
                found = _tested_type(file, written, condition, "!is")
                if found is not None:
                    return found
        before = before.prev_named_sibling
    return None


def _tested_type(file: SyntaxFile, written: str, condition: SyntaxNode, wanted: str) -> SyntaxNode | None:
    for test in _parts(condition, "&&" if wanted == "is" else "||"):
        if test.type == "is_expression" and any(child.type == wanted for child in test.children):
            left, right = test.child_by_field_name("left"), test.child_by_field_name("right")
            if left is not None and file.text(left) == written:
                return right
    return None


def _parts(condition: SyntaxNode, operator: str) -> Iterator[SyntaxNode]:
    waiting = [condition]
    for _ in range(ANCESTORS_MAX):
        if not waiting:
            return
        node = waiting.pop()
        if node.type == "parenthesized_expression" or (
            node.type == "binary_expression" and _operator(node) == operator
        ):
            waiting += node.named_children
        else:
            yield node
