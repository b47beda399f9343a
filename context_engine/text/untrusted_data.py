"""PURE. Read YAML and TOML that a stranger may have written: within bounds, or refused with the line.

Everything else that parses such text calls these two functions, or `read_json`. They never recurse into the text:
depth, aliases, digits and size are bounded before a value is built. A key that is given twice is refused, because two
readers would take two different values.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from context_engine.text.json_reader import (
    BYTES_MAX,
    DEPTH_MAX,
    NUMBER_CHARS_MAX,
    ParseError,
    check_depth,
    check_size,
    decode_text,
)

TOML_BYTES_MAX = 500_000
"""tomllib is written in Python: it reads as much in a second and a half."""
ALIASES_MAX = 200
NODES_MAX = 50_000
"""Values of a YAML text, aliases expanded; reading so many takes half a second."""
NODE_CHARS = 20
"""So many characters of a scalar count as one more value, or aliases of a long text would multiply it."""


def read_yaml(
    source: str | bytes,
    *,
    bytes_max: int = BYTES_MAX,
    nodes_max: int = NODES_MAX,
    plain_text: bool = False,
    last_wins: bool = False,
) -> Any:
    """Return the value of one YAML document; None for an empty one. Raises: ParseError.

    `plain_text`: every scalar stays the text that was written, as `yes`, `1.10` or a date, and `<<` is an ordinary key.
    `last_wins`: a key may be given twice, as in a file that git merged.
    """
    import yaml  # it takes 15 ms, which only callers with YAML pay

    check_size(source, bytes_max)
    builder = _YamlBuilder(nodes_max, plain_text=plain_text, last_wins=last_wins)
    try:
        for event in yaml.parse(source, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else 0
        reason = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
        if "nesting depth" in reason:  # libyaml has a bound of its own since PyYAML 6.0.4, and may meet it first
            raise ParseError(f"it is nested deeper than {DEPTH_MAX} levels", line) from None
        raise ParseError(f"not YAML: {reason}", line) from None
    except UnicodeError:
        raise ParseError("not YAML: it is not UTF-8") from None
    return builder.value


def read_toml(source: str | bytes, *, bytes_max: int = TOML_BYTES_MAX, is_ours: bool = False) -> dict[str, Any]:
    """Return the table of a TOML text; one of this package (`is_ours`) need not be held to bounds.

    Raises: ParseError.
    """
    check_size(source, bytes_max)
    text = decode_text(source, "TOML").replace("\r\n", "\n")
    if not is_ours:
        _check_toml_shape(text)
    try:
        text.encode("utf-8")
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(str(error), text) from None
    except UnicodeEncodeError:
        raise ParseError("not TOML: it is not UTF-8") from None
    except RecursionError:
        raise ParseError(f"it is nested deeper than {DEPTH_MAX} levels") from None
    except ValueError:
        raise ParseError("not TOML: a number or date has no value") from None
    check_depth(read)
    return read


# -- TOML -------------------------------------------------------------------------------------------------------------

_TOML_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|(?P<long>(?<![\w.-])[+-]?\d[\w.-]{100,}+)"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<dot>\.)|(?P<stop>[=,\n])",
    re.DOTALL,
)
"""The tokens that decide how deep a TOML text nests; strings and comments are skipped as tomllib skips them."""
_TOML_PLACE = re.compile(r"(?s)(.*) \(at (?:line (\d+), column \d+|end of document)\)")


def _check_toml_shape(text: str) -> None:
    """Bound nested brackets and the parts of a key: tomllib follows them by recursion, or again for each value."""
    depth = parts = 0
    for token in _TOML_TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            depth, parts = depth + 1, 0
        elif kind == "close":
            depth, parts = max(0, depth - 1), 0
        elif kind == "dot":
            parts += 1
        elif kind == "stop":
            parts = 0
        elif kind == "long":
            line = text.count("\n", 0, token.start()) + 1
            raise ParseError(f"a number has more than {NUMBER_CHARS_MAX} characters", line)
        if depth > DEPTH_MAX or parts > DEPTH_MAX:
            raise ParseError(f"it is nested deeper than {DEPTH_MAX} levels", text.count("\n", 0, token.start()) + 1)


def _toml_error(said: str, text: str) -> ParseError:
    place = _TOML_PLACE.fullmatch(said)
    if place is None:
        return ParseError(f"not TOML: {said}")
    return ParseError(f"not TOML: {place[1]}", int(place[2] or text.rstrip("\n").count("\n") + 1))


# -- YAML -------------------------------------------------------------------------------------------------------------

_CORE = "tag:yaml.org,2002:"
_MERGE = _CORE + "merge"


@dataclass(slots=True)
class _YamlNode:
    """A collection and its items so far, flat for a mapping; `size` counts nodes with aliases expanded."""

    is_mapping: bool
    line: int
    anchor: str | None
    items: list[Any] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    merges: list[bool] = field(default_factory=list)
    size: int = 1


class _YamlBuilder:
    """Builds one value out of YAML's events, with a stack of its own instead of recursion."""

    def __init__(self, nodes_max: int, *, plain_text: bool, last_wins: bool) -> None:
        self.value: Any = None
        self._plain_text = plain_text
        self._last_wins = last_wins
        self._nodes_max = nodes_max
        self._nodes = 0
        self._open: list[_YamlNode] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliases = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        """Use the next event. Raises: ParseError."""
        match type(event).__name__:
            case "ScalarEvent":
                self._scalar(event)
            case "SequenceStartEvent" | "MappingStartEvent":
                self._begin(event)
            case "SequenceEndEvent" | "MappingEndEvent":
                self._end()
            case "AliasEvent":
                self._alias(event)
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise ParseError("it contains more than one document", event.start_mark.line + 1)

    def _scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        is_merge = False
        value: Any = event.value
        if not self._plain_text:
            tag = _tag(event)
            is_merge = tag == _MERGE
            if not is_merge:
                value = _scalar_value(tag, value, line)
        size = 1 + len(event.value) // NODE_CHARS
        self._count(1, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, size)
        self._add(value, line, size, is_merge=is_merge)

    def _begin(self, event: Any) -> None:
        line, is_mapping = event.start_mark.line + 1, type(event).__name__ == "MappingStartEvent"
        if len(self._open) >= DEPTH_MAX:
            raise ParseError(f"it is nested deeper than {DEPTH_MAX} levels", line)
        if not self._plain_text and event.tag not in (None, "!", _CORE + ("map" if is_mapping else "seq")):
            raise ParseError(f"the tag {_short_tag(event.tag)} is not known here", line)
        self._count(1, line)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)
        self._open.append(_YamlNode(is_mapping, line, event.anchor))

    def _end(self) -> None:
        node = self._open.pop()
        value = self._mapping(node) if node.is_mapping else node.items
        if node.anchor is not None:
            self._anchors[node.anchor] = (value, node.size)
        self._add(value, node.line, node.size)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._aliases += 1
        if self._aliases > ALIASES_MAX:
            raise ParseError(f"it has more than {ALIASES_MAX} aliases", line)
        if event.anchor not in self._anchors:
            raise ParseError(f"the alias {event.anchor[:80]!r} has no anchor before it", line)
        value, size = self._anchors[event.anchor]
        self._count(size, line)
        self._add(value, line, size)

    def _count(self, size: int, line: int) -> None:
        self._nodes += size
        if self._nodes > self._nodes_max:
            raise ParseError(f"it expands to more than {self._nodes_max:,} values", line)

    def _add(self, value: Any, line: int, size: int, *, is_merge: bool = False) -> None:
        if not self._open:
            self.value = value
            return
        node = self._open[-1]
        if node.is_mapping and len(node.items) % 2 == 0:
            node.lines.append(line)
            node.merges.append(is_merge)
        node.items.append(value)
        node.size += size

    def _mapping(self, node: _YamlNode) -> dict[Any, Any]:
        """Return the mapping of a node: its own keys before those it merges, each key once."""
        own: dict[Any, Any] = {}
        merged: list[dict[Any, Any]] = []
        for key, value, line, is_merge in zip(node.items[::2], node.items[1::2], node.lines, node.merges, strict=True):
            if is_merge:
                merged += value if isinstance(value, list) else [value]  # `<<` takes a mapping or a list of them
                if not all(isinstance(mapping, dict) for mapping in merged):
                    raise ParseError("`<<` takes a mapping or a list of mappings", line)
                continue
            if isinstance(key, dict | list):
                raise ParseError("a key is a list or a mapping", line)
            if key in own and not self._last_wins:
                raise ParseError(f"the key {str(key)[:80]!r} is given twice", line)
            own[key] = value
        found: dict[Any, Any] = {}
        for mapping in reversed(merged):
            found |= mapping
        return found | own if found else own


def _tag(event: Any) -> str:
    """Return the tag of a scalar: its own, or the one that follows from its form."""
    import yaml

    if event.tag is not None and event.tag != "!":
        return event.tag
    if not event.implicit[0]:
        return f"{_CORE}str"
    known = yaml.SafeLoader.yaml_implicit_resolvers
    choices = known.get(event.value[:1], []) + known.get(None, [])
    return next((tag for tag, pattern in choices if pattern.match(event.value)), f"{_CORE}str")


def _scalar_value(tag: str, text: str, line: int) -> Any:
    """Return the value of a scalar by its tag; an invalid date stays text."""
    kind = tag.removeprefix(_CORE)
    if kind in ("str", "value"):
        return text
    if kind not in ("null", "bool", "int", "float", "timestamp"):
        raise ParseError(f"the tag {_short_tag(tag)} is not known here", line)
    if len(text) > NUMBER_CHARS_MAX:
        raise ParseError(f"a number has more than {NUMBER_CHARS_MAX} characters", line)
    from yaml import ScalarNode
    from yaml.constructor import SafeConstructor

    try:
        return getattr(SafeConstructor(), f"construct_yaml_{kind}")(ScalarNode(tag, text))
    except (ValueError, KeyError, AttributeError, OverflowError, IndexError):
        if kind == "timestamp":
            return text
        raise ParseError(f"{text[:40]!r} is not a value of the type {kind}", line) from None


def _short_tag(tag: str) -> str:
    return repr(tag.replace(_CORE, "!!")[:80])
