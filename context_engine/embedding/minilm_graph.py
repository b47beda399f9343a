"""PURE: all-MiniLM-L6-v2 as an ONNX graph, from its weights: numbers of tokens in, vectors of length 1 out.

Six BERT layers, the mean over the tokens and the division by the length are all inside. Two makings:

`Exact` keeps every weight as float32. It is what the other is measured against, 90 MB.
`Small` is what is used, a quarter of that and about twice as fast: weights in 7 bits, tokens in 8.

Two traps decided how `Small` multiplies. The usual dynamic quantization takes one scale for a whole batch, so that a
vector depends on its neighbors (cosines down to 0.988): here each token has a scale of its own. And processors without
VNNI add two products of 8 x 8 bits in 16 bits, which overflow: with 7 bits a weight they never do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from context_engine.text import read_json

# -- onnx writer -------------------------------------------------------------------------------------------------------

# Writes ONNX models: a graph of nodes and constants, as the protobuf bytes that onnxruntime loads.
#
# Only what a written graph needs is here: no reading, no check of shapes (onnxruntime does that when it loads), and no
# types that our graphs do not use. The same calls produce the same bytes on every machine.
#
# Field numbers are those of onnx.proto; the wire format is that of protobuf: a key (field * 8 + wire type), then a
# variable-length number, four bytes of a float, or bytes with their length.

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
        tensor = _encode_tensor(name, array)
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


def _encode_tensor(name: str, array: np.ndarray) -> bytes:
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


# -- minilm graph ------------------------------------------------------------------------------------------------------

Weights = Mapping[str, np.ndarray]

LAYERS = 6
HEADS = 12
WIDTH = 384
HEAD_WIDTH = WIDTH // HEADS
LAYER_NORM_EPSILON = 1e-12  # config.json of the model
OPSETS = {"": 21, "com.microsoft": 1}
MICROSOFT = "com.microsoft"

WEIGHT_MOST = 64
"""7 bits: 2 * 255 * 64 = 32,640 still fits into the 16 bits of one addition."""
TOKEN_ZERO = 128
"""Zero of the unsigned tokens."""
TOKEN_MOST = 127
TABLE_MOST = 127
"""The word table is only looked up, never multiplied, so it uses all 8 bits."""
FAR_AWAY = -1e9
"""Added to the scores of padding, so that its share is exactly 0."""


class Quantization(Protocol):
    """How a graph stores its large tables and multiplies with them."""

    def rows(self, graph: OnnxGraph, name: str, table: np.ndarray, numbers: str) -> str:
        """Return the rows of a table by their numbers."""
        ...

    def linear(self, graph: OnnxGraph, name: str, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """Return `x @ weight + bias` for tokens x, one for each row."""
        ...


def build_graph(weights: Weights, making: Quantization) -> bytes:
    """Return the model: input `ids`, int64, one text for each row, padded with 0; output `vectors`.

    Raises: KeyError for a weight that is missing.
    """
    graph = OnnxGraph("all-MiniLM-L6-v2")
    ids = graph.input("ids", "int64", ("texts", "tokens"))
    real = graph.node("Cast", graph.node("Greater", ids, _numbers(graph, "zero", 0)), to=1)
    absent = graph.node(
        "Mul", graph.node("Sub", _floats(graph, "one", 1.0), real), _floats(graph, "far_away", FAR_AWAY)
    )
    mask = graph.node("Unsqueeze", absent, _numbers(graph, "heads_and_rows", [1, 2]))
    x = _embed_tokens(graph, weights, making, ids)
    for layer in range(LAYERS):
        x = _layer(graph, weights, making, layer, x, ids, mask)
    graph.output("vectors", _pool(graph, x, ids, real), "float32", ("texts", WIDTH))
    return graph.model(OPSETS)


class Float32Weights:
    """Every number as it was trained."""

    def rows(self, graph: OnnxGraph, name: str, table: np.ndarray, numbers: str) -> str:
        """Look the rows up."""
        return graph.node("Gather", graph.constant(name, table), numbers)

    def linear(self, graph: OnnxGraph, name: str, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """Multiply and add."""
        product = graph.node("MatMul", x, graph.constant(name, weight))
        return graph.node("Add", product, graph.constant(f"{name}.bias", bias))


class Int8Weights:
    """Integers with a scale: one for each column of a weight, each row of the table, and each token at run time."""

    def rows(self, graph: OnnxGraph, name: str, table: np.ndarray, numbers: str) -> str:
        """Look the rows up, then multiply each by its scale."""
        scale = _scale(table, TABLE_MOST, axis=1)
        found = graph.node("Gather", graph.constant(name, _quantize(table, scale, TABLE_MOST)), numbers)
        return graph.node(
            "Mul",
            graph.node("Cast", found, to=1),
            graph.node("Gather", graph.constant(f"{name}.scale", scale), numbers),
        )

    def linear(self, graph: OnnxGraph, name: str, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """Quantize the tokens, multiply integers, then apply the scales of token and column."""
        scale = _scale(weight, WEIGHT_MOST, axis=0)
        tokens, token_scale = self._tokens(graph, x)
        product = graph.node(
            "MatMulIntegerToFloat",
            tokens,
            graph.constant(name, _quantize(weight, scale, WEIGHT_MOST)),
            _floats(graph, "one", 1.0),
            graph.constant(f"{name}.scale", scale[0]),
            graph.constant("token_zero", np.array(TOKEN_ZERO, np.uint8)),
            domain=MICROSOFT,
        )
        return graph.node("Add", graph.node("Mul", product, token_scale), graph.constant(f"{name}.bias", bias))

    def _tokens(self, graph: OnnxGraph, x: str) -> tuple[str, str]:
        """Return the tokens as integers around `TOKEN_ZERO`, and the scale of each, as a column."""
        last = _numbers(graph, "last_axis", [1])
        most = graph.node("ReduceMax", graph.node("Abs", x), last, keepdims=0)
        scale = graph.node(
            "Max",
            graph.node("Div", most, _floats(graph, "token_most", float(TOKEN_MOST))),
            _floats(graph, "least", 1e-30),
        )
        zeros = graph.node(
            "Expand", graph.constant("token_zero", np.array(TOKEN_ZERO, np.uint8)), graph.node("Shape", scale)
        )
        return graph.node("QuantizeLinear", x, scale, zeros, axis=0), graph.node("Unsqueeze", scale, last)


# -- the parts of the model ---------------------------------------------------------------------------------------


def _embed_tokens(graph: OnnxGraph, weights: Weights, making: Quantization, ids: str) -> str:
    """Add word, position and segment of each token, and normalize them: one token for each row."""
    words = making.rows(graph, "words", weights["embeddings.word_embeddings.weight"], ids)
    segment = weights["embeddings.token_type_embeddings.weight"][0]  # a text alone is all segment 0
    places = graph.constant("places", weights["embeddings.position_embeddings.weight"] + segment)
    length = graph.node("Shape", ids, start=1, end=2)
    here = graph.node("Slice", places, _numbers(graph, "start", [0]), length, _numbers(graph, "start", [0]))
    tokens = graph.node("Reshape", graph.node("Add", words, here), _numbers(graph, "flat", [-1, WIDTH]))
    return _normalize(graph, weights, "embeddings.LayerNorm", tokens)


def _layer(graph: OnnxGraph, weights: Weights, making: Quantization, layer: int, x: str, ids: str, mask: str) -> str:
    """Add one layer: attention between the tokens, then a network for each token."""
    at = f"encoder.layer.{layer}"

    def linear(part: str, tokens: str) -> str:
        weight, bias = weights[f"{at}.{part}.weight"], weights[f"{at}.{part}.bias"]
        return making.linear(graph, f"{at}.{part}", tokens, weight.T, bias)

    attended = linear("attention.output.dense", _attention(graph, weights, making, at, x, ids, mask))
    x = _normalize(graph, weights, f"{at}.attention.output.LayerNorm", graph.node("Add", x, attended))
    made = linear("output.dense", graph.node("Gelu", linear("intermediate.dense", x), domain=MICROSOFT))
    return _normalize(graph, weights, f"{at}.output.LayerNorm", graph.node("Add", x, made))


def _attention(graph: OnnxGraph, weights: Weights, making: Quantization, at: str, x: str, ids: str, mask: str) -> str:
    """Add twelve attention heads; padding gets no attention."""
    weight, bias = _asking_weights(weights, at)
    together = making.linear(graph, f"{at}.attention.self", x, weight, bias)
    shape = graph.node("Concat", graph.node("Shape", ids), _numbers(graph, "heads", [3 * HEADS, HEAD_WIDTH]), axis=0)
    heads = graph.node("Transpose", graph.node("Reshape", together, shape), perm=(0, 2, 1, 3))
    query, key, value = graph.nodes("Split", heads, results=3, axis=1, num_outputs=3)
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=(0, 1, 3, 2)))
    shares = graph.node("Softmax", graph.node("Add", scores, mask), axis=-1)
    seen = graph.node("Transpose", graph.node("MatMul", shares, value), perm=(0, 2, 1, 3))
    return graph.node("Reshape", seen, _numbers(graph, "flat", [-1, WIDTH]))


def _asking_weights(weights: Weights, at: str) -> tuple[np.ndarray, np.ndarray]:
    """Return query, key and value as one product; the scores are divided here, once, in the query."""
    parts = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([weights[f"{part}.weight"].T for part in parts], axis=1)
    bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
    shrink = np.ones(3 * WIDTH, np.float32)
    shrink[:WIDTH] = 1 / math.sqrt(HEAD_WIDTH)
    return weight * shrink, bias * shrink


def _normalize(graph: OnnxGraph, weights: Weights, name: str, x: str) -> str:
    scale, bias = (graph.constant(f"{name}.{part}", weights[f"{name}.{part}"]) for part in ("weight", "bias"))
    return graph.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)


def _pool(graph: OnnxGraph, x: str, ids: str, real: str) -> str:
    """Return the sum over the real tokens, divided by its length; a mean would have the same direction."""
    shape = graph.node("Concat", graph.node("Shape", ids), _numbers(graph, "width", [WIDTH]), axis=0)
    row = graph.node("Unsqueeze", real, _numbers(graph, "last_axis", [1]))
    total = graph.node(
        "Squeeze", graph.node("MatMul", row, graph.node("Reshape", x, shape)), _numbers(graph, "last_axis", [1])
    )
    return graph.node("LpNormalization", total, axis=-1, p=2)


# -- numbers ------------------------------------------------------------------------------------------------------


def _scale(table: np.ndarray, most: int, axis: int) -> np.ndarray:
    """Return the value of one step in each row or column: float32, with operations that every machine rounds alike."""
    return np.maximum(np.abs(table).max(axis=axis, keepdims=True) / np.float32(most), np.float32(1e-30))


def _quantize(table: np.ndarray, scale: np.ndarray, most: int) -> np.ndarray:
    return np.clip(np.rint(table / scale), -most, most).astype(np.int8)


def _numbers(graph: OnnxGraph, name: str, values: int | list[int]) -> str:
    return graph.constant(name, np.array(values, np.int64))


def _floats(graph: OnnxGraph, name: str, value: float) -> str:
    return graph.constant(name, np.array(value, np.float32))


# -- safetensors reader ------------------------------------------------------------------------------------------------

# Reads the safetensors format: eight bytes with the length of a JSON header, the header, then the numbers.
#
# The format contains nothing that could be run, and every number of the header is checked against the bytes that exist.

DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}
"""Types of the format that numpy knows; bfloat16 is not among them."""
COUNT_BYTES = 8
UNTOLD = "__metadata__"


def read_tensors(content: bytes) -> dict[str, np.ndarray]:
    """Return every tensor by its name, as views into the content. Raises: ValueError, saying what is wrong."""
    start = COUNT_BYTES + int.from_bytes(content[:COUNT_BYTES], "little")
    if not COUNT_BYTES < start <= len(content):
        raise ValueError("the header is cut off")
    header = read_json(content[COUNT_BYTES:start])  # its error is a ValueError
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    body = memoryview(content)[start:]
    return {name: _tensor(name, entry, body) for name, entry in header.items() if name != UNTOLD}


def _tensor(name: str, entry: Mapping[str, Any], body: memoryview) -> np.ndarray:
    try:
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(map(int, entry["shape"]))
        first, stop = map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the header does not describe the tensor {name}") from error
    if (
        not 0 <= first <= stop <= len(body)
        or stop - first != math.prod(shape) * dtype.itemsize
        or min(shape, default=0) < 0
    ):
        raise ValueError(f"the tensor {name} does not lie within the file")
    return np.frombuffer(body[first:stop], dtype).reshape(shape)
