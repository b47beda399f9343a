"""PURE. Writes ONNX models: a graph of nodes and constants, as the protobuf bytes that onnxruntime loads.

Only what a written graph needs is here: no reading, no check of shapes (onnxruntime does that when it loads), and no
types that our graphs do not use. The same calls produce the same bytes on every machine.

Field numbers are those of onnx.proto; the wire format is that of protobuf: a key (field * 8 + wire type), then a
variable-length number, four bytes of a float, or bytes with their length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

IR_VERSION = 10
"""The version of operator set 21."""
ELEMENTS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}
"""TensorProto.DataType by numpy's name for it."""

_NUMBER, _BYTES, _FLOAT = 0, 2, 5
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _STRING_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 3, 7

Attribute = float | int | str | Sequence[int]
Shape = Sequence[int | str]
"""Sizes; a word means that the size is known only when the model runs."""


class OnnxGraph:
    """A graph that grows node by node. Each call returns the name of its result, which later calls take."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[bytes] = []
        self._constants: dict[str, bytes] = {}
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []

    def input(self, name: str, element: str, shape: Shape) -> str:
        """Add an input of the model."""
        self._inputs.append(_value(name, element, shape))
        return name

    def output(self, name: str, result: str, element: str, shape: Shape) -> None:
        """Add an output with this name: the result of a node."""
        self._nodes.append(_node("Identity", [result], [name], "", {}))
        self._outputs.append(_value(name, element, shape))

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add numbers. Raises: ValueError if the name is used for other numbers."""
        tensor = _tensor(name, array)
        if self._constants.setdefault(name, tensor) != tensor:
            raise ValueError(f"{name} stands for other numbers already")
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """Add one operation with one result."""
        return self.nodes(operator, *inputs, domain=domain, results=1, **attributes)[0]

    def nodes(
        self, operator: str, *inputs: str, results: int, domain: str = "", **attributes: Attribute
    ) -> tuple[str, ...]:
        """Add one operation with several results."""
        number = len(self._nodes)
        names = tuple(
            f"{operator}_{number}_{result}" if results > 1 else f"{operator}_{number}" for result in range(results)
        )
        self._nodes.append(_node(operator, inputs, names, domain, attributes))
        return names

    def model(self, opsets: Mapping[str, int]) -> bytes:
        """Return the whole model. `opsets`: the version of each domain whose operators it uses, "" for ONNX itself."""
        graph = b"".join(
            [
                *(encode_field(1, node) for node in self._nodes),
                encode_field(2, self._name),
                *(encode_field(5, constant) for constant in self._constants.values()),
                *(encode_field(11, value) for value in self._inputs),
                *(encode_field(12, value) for value in self._outputs),
            ]
        )
        versions = (
            encode_field(8, encode_field(1, domain) + encode_field(2, version)) for domain, version in opsets.items()
        )
        return b"".join(
            [encode_field(1, IR_VERSION), encode_field(2, "context-engine"), encode_field(7, graph), *versions]
        )


def encode_field(number: int, value: float | str | bytes) -> bytes:
    """Return one field of a message; a string or an inner message is bytes with their length.

    >>> encode_field(1, 150).hex(), encode_field(2, "testing").hex()
    ('089601', '120774657374696e67')
    """
    if isinstance(value, float):
        return encode_varint(number << 3 | _FLOAT) + np.float32(value).tobytes()
    if isinstance(value, int):
        return encode_varint(number << 3 | _NUMBER) + encode_varint(value)
    if isinstance(value, str):
        content = value.encode()
    else:
        content = value
    return b"".join([encode_varint(number << 3 | _BYTES), encode_varint(len(content)), content])


def encode_varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; a negative one is 2**64 minus its absolute value.

    >>> encode_varint(300).hex(), encode_varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    value &= (1 << 64) - 1
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _node(
    operator: str, inputs: Iterable[str], results: Iterable[str], domain: str, attributes: Mapping[str, Attribute]
) -> bytes:
    parts = [
        *(encode_field(1, name) for name in inputs),
        *(encode_field(2, name) for name in results),
        encode_field(4, operator),
    ]
    parts += [encode_field(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join([*parts, encode_field(7, domain)])


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        content, kind = encode_field(2, value), _FLOAT_ATTRIBUTE
    elif isinstance(value, int):
        content, kind = encode_field(3, value), _INT_ATTRIBUTE
    elif isinstance(value, str):
        content, kind = encode_field(4, value), _STRING_ATTRIBUTE
    else:
        content, kind = b"".join(encode_field(8, item) for item in value), _INTS_ATTRIBUTE
    return encode_field(1, name) + content + encode_field(20, kind)


def _tensor(name: str, array: np.ndarray) -> bytes:
    """Return numbers, little-endian whatever the machine's own order is."""
    content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    sizes = (encode_field(1, size) for size in array.shape)
    return b"".join(
        [*sizes, encode_field(2, ELEMENTS[array.dtype.name]), encode_field(8, name), encode_field(9, content)]
    )


def _value(name: str, element: str, shape: Shape) -> bytes:
    """Return a typed name: ValueInfoProto, TypeProto, TensorShapeProto, nested."""
    sizes = b"".join(
        encode_field(1, encode_field(2, size) if isinstance(size, str) else encode_field(1, size)) for size in shape
    )
    return encode_field(1, name) + encode_field(
        2, encode_field(1, encode_field(1, ELEMENTS[element]) + encode_field(2, sizes))
    )
