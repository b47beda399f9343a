"""The ONNX writer: its bytes follow the wire format, and onnxruntime computes what numpy computes from what was written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.minilm_graph import ELEMENTS, OnnxGraph, encode_field, encode_varint

OPSET = {"": 21}


def number_at(content: bytes, at: int) -> tuple[int, int]:
    """A variable-length number, and where what follows it begins."""
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        at, shift, last = at + 1, shift + 7, content[at] < 0x80
        if last:
            return value, at


def fields_of(content: bytes) -> list[tuple[int, int | float | bytes]]:
    """A message as (field, value), read as the format's description says and no other way."""
    found: list[tuple[int, int | float | bytes]] = []
    at = 0
    while at < len(content):
        key, at = number_at(content, at)
        if key & 7 == 0:
            value, at = number_at(content, at)
        elif key & 7 == 5:
            (value,) = struct.unpack_from("<f", content, at)
            at += 4
        else:
            assert key & 7 == 2
            size, at = number_at(content, at)
            value, at = content[at : at + size], at + size
            assert len(value) == size
        found.append((key >> 3, value))
    return found


def run(graph: OnnxGraph, **given: np.ndarray) -> list[Any]:
    """What onnxruntime makes of the graph."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra minilm is not installed")
    return onnxruntime.InferenceSession(graph.model(OPSET), providers=["CPUExecutionProvider"]).run(None, given)


# -- the wire format ----------------------------------------------------------------------------------------------


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_number_reads_back(value: int) -> None:
    assert number_at(encode_varint(value), 0) == (value % 2**64, len(encode_varint(value)))


@given(st.integers(0, 2**63 - 1))
def test_a_number_takes_a_byte_for_seven_bits(value: int) -> None:
    assert len(encode_varint(value)) == max(1, -(-value.bit_length() // 7))


@given(
    st.lists(
        st.tuples(
            st.integers(1, 536_870_911),
            st.integers(0, 2**63 - 1) | st.binary(max_size=300) | st.floats(width=32, allow_nan=False),
        ),
        max_size=9,
    )
)
def test_a_message_reads_back_field_by_field(given: list[tuple[int, Any]]) -> None:
    assert fields_of(b"".join(encode_field(number, value) for number, value in given)) == given


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_string_is_its_bytes(text: str) -> None:
    assert fields_of(encode_field(3, text)) == [(3, text.encode())]


# -- what runs ----------------------------------------------------------------------------------------------------


def test_a_toy_attention_over_two_tokens_is_what_numpy_computes() -> None:
    rng = np.random.default_rng(1)
    table, weight = rng.normal(size=(5, 4)).astype("f4"), rng.normal(size=(4, 4)).astype("f4")
    graph = OnnxGraph("toy")
    ids = graph.input("ids", "int64", ("tokens",))
    x = graph.node("Gather", graph.constant("table", table), ids)
    scores = graph.node(
        "MatMul", graph.node("MatMul", x, graph.constant("weight", weight)), graph.node("Transpose", x, perm=(1, 0))
    )
    graph.output("seen", graph.node("MatMul", graph.node("Softmax", scores, axis=-1), x), "float32", ("tokens", 4))

    (seen,) = run(graph, ids=np.array([3, 1]))

    tokens = table[[3, 1]]
    shares = np.exp(tokens @ weight @ tokens.T)
    np.testing.assert_allclose(seen, shares / shares.sum(1, keepdims=True) @ tokens, atol=1e-5)


@pytest.mark.parametrize("element", sorted(ELEMENTS))
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)], ids=str)
def test_a_constant_comes_out_as_it_went_in(element: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(element)
    graph = OnnxGraph("constant")
    graph.output("same", graph.constant("array", array), element, shape)
    (same,) = run(graph)
    assert same.dtype == array.dtype
    np.testing.assert_array_equal(same, array)


@pytest.mark.parametrize(
    ("operator", "attributes", "expected"),
    [
        ("LeakyRelu", {"alpha": 0.25}, lambda x: np.where(x < 0, x * np.float32(0.25), x)),
        ("ReduceMax", {"keepdims": 0}, np.max),
        ("Flatten", {"axis": -1}, lambda x: x),
        ("Transpose", {"perm": (1, 0)}, np.transpose),
        ("Gelu", {"approximate": "tanh"}, lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ],
)
def test_every_type_of_attribute_arrives(
    operator: str, attributes: dict[str, Any], expected: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = np.array([[-2, 1, 3], [4, -5, 6]], np.float32)
    graph = OnnxGraph("attribute")
    result = graph.node(operator, graph.input("x", "float32", ("rows", 3)), **attributes)
    graph.output("y", result, "float32", ("a", "b")[: np.ndim(expected(x))])
    np.testing.assert_allclose(run(graph, x=x)[0], expected(x), atol=1e-5)


def test_a_node_may_have_several_results() -> None:
    x = np.arange(6, dtype=np.float32)
    graph = OnnxGraph("split")
    thirds = graph.nodes("Split", graph.input("x", "float32", (6,)), results=3, axis=0, num_outputs=3)
    for number, third in enumerate(thirds):
        graph.output(f"third {number}", third, "float32", (2,))
    np.testing.assert_array_equal(run(graph, x=x), [[0, 1], [2, 3], [4, 5]])


def test_the_order_of_bytes_on_this_machine_does_not_show() -> None:
    def model(order: str) -> bytes:
        graph = OnnxGraph("order")
        graph.output("same", graph.constant("array", np.arange(4).astype(f"{order}i4")), "int32", (4,))
        return graph.model(OPSET)

    assert model("<") == model(">")


def test_one_name_never_stands_for_two_constants() -> None:
    graph = OnnxGraph("names")
    assert graph.constant("one", np.ones(2)[:1].astype("f4")) == graph.constant("one", np.ones(1, "f4")) == "one"
    with pytest.raises(ValueError, match="one stands for other numbers"):
        graph.constant("one", np.ones(2, "f4"))
