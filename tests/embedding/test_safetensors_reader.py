"""The safetensors reader: gives back what was written, and refuses whatever does not fit together."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from context_engine.embedding.minilm_graph import read_tensors

NAMES = {"f4": "F32", "f8": "F64", "i8": "I64", "i1": "I8", "u1": "U8"}

some_array = st.sampled_from(sorted(NAMES)).flatmap(
    lambda kind: arrays.arrays(
        np.dtype(kind).newbyteorder("<"), arrays.array_shapes(min_dims=0, max_dims=3, max_side=4)
    )
)
some_file = st.dictionaries(st.text(max_size=5).filter(lambda name: name != "__metadata__"), some_array, max_size=4)


def written(given: dict[str, np.ndarray], **entries: object) -> bytes:
    """The file as the format's own description has it."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, array in given.items():
        content = array.tobytes()
        offsets = [len(body), len(body) + len(content)]
        header[name] = {"dtype": NAMES[array.dtype.str[1:]], "shape": list(array.shape), "data_offsets": offsets}
        body += content
    told = json.dumps(header | entries).encode()
    return len(told).to_bytes(8, "little") + told + body


@given(some_file)
def test_what_was_written_is_read(given: dict[str, np.ndarray]) -> None:
    read = read_tensors(written(given))
    assert read.keys() == given.keys()
    for name, array in given.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


@given(some_file.filter(lambda each: any(array.size for array in each.values())), st.data())
def test_a_file_that_is_cut_off_is_refused(given: dict[str, np.ndarray], data: st.DataObject) -> None:
    whole = written(given)
    with pytest.raises(ValueError, match=r"."):
        read_tensors(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=60))
def test_whatever_is_no_such_file_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_tensors(content)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]},
        {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
        {"dtype": "F32", "shape": None, "data_offsets": [0, 4]},
        [],
    ],
    ids=str,
)
def test_an_entry_that_does_not_fit_names_its_tensor(entry: object) -> None:
    with pytest.raises(ValueError, match="bad one"):
        read_tensors(written({"good": np.ones(3, "<f4")}, **{"bad one": entry}))
