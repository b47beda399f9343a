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
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from context_engine.embedding.onnx_writer import OnnxGraph

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
