"""Arguments as clients really send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine import tools
from context_engine.errors import InvalidArgument
from context_engine.tools.arguments import (
    BooleanArg,
    IntegerArg,
    ObjectArg,
    Parameter,
    TextListArg,
    bind,
    to_snake_case,
)

PARAMETERS = tools.find("codebase_retrieval").parameters


def bound(**arguments: Any) -> dict[str, Any]:
    return bind(PARAMETERS, {"query": "q", **arguments})


KINDS = (Parameter("force", BooleanArg("f"), False), Parameter("arguments", ObjectArg("f"), {}))


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        *(({"top_k": sent}, {"limit": 5}) for sent in (5, "5", 5.0, " 5 ")),
        *(({name: 7}, {"limit": 7}) for name in ("topK", "top_k", "top-k", "TopK")),
        ({"top_k": None}, {"limit": 10}),
        *(({"languages": sent}, {"languages": ("go", "python")}) for sent in (["go", "python"], '["go","python"]')),
        *(({"languages": sent}, {"languages": ("go", "python")}) for sent in ("go,python", "go, python ,")),
        ({"languages": [7, "10-20"]}, {"languages": ("7", "10-20")}),
        ({"include_paths": "src/*.{ts,tsx},docs/**"}, {"include": ("src/*.{ts,tsx}", "docs/**")}),
        ({"include_paths": "[ab]*.py"}, {"include": ("[ab]*.py",)}),
    ],
)
def test_an_argument_is_read_as_clients_send_it(sent: dict[str, Any], read: dict[str, Any]) -> None:
    assert bound(**sent).items() >= read.items()


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        *(({"force": sent}, {"force": True, "arguments": {}}) for sent in (True, "true", "True", "1", 1, "yes")),
        *(({"arguments": sent}, {"force": False, "arguments": {"a": 1}}) for sent in ({"a": 1}, ' {"a":1}\n')),
        ('{"force": "on", "arguments": "{}"}', {"force": True, "arguments": {}}),
    ],
)
def test_flags_and_objects_may_come_as_text(sent: Any, read: dict[str, Any]) -> None:
    assert bind(KINDS, sent) == read


@pytest.mark.parametrize("sent", ["", "a=1", [1], 3, "[1]", "{" * 100_000, '{"a":' * 100_000])
def test_what_is_no_object_is_refused(sent: object) -> None:
    with pytest.raises(InvalidArgument, match="arguments must be an object"):
        bind(KINDS, {"arguments": sent})


@pytest.mark.parametrize(
    ("sent", "problem", "corrected"),
    [
        ({"query": "q", "topk_": 3}, "unknown argument 'topk_'", {"query": "q", "limit": 3}),
        ({"goal": "users", "title": "t"}, "unknown argument 'goal', 'title'; query is missing", {"query": "users"}),
        ({"query": "q", "foo": 1, "bar": 2}, "unknown argument 'foo', 'bar'", {"query": "q"}),
        ({"topK": 2}, "query is missing", {"top_k": 2, "query": "..."}),
        ({"quary": "x" * 61}, "unknown argument 'quary'; query is missing", {"query": "..."}),
    ],
)
def test_wrong_names_are_answered_with_the_corrected_call(
    sent: dict[str, Any], problem: str, corrected: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        bind(PARAMETERS, sent)
    assert caught.value.message == problem
    assert json.loads(caught.value.suggestion.removeprefix("Send ")) == corrected
    assert len(str(caught.value.as_dict())) < 200 + len(problem)


def test_the_same_argument_twice_is_refused_unless_both_agree() -> None:
    assert bound(top_k=3, topK=3)["limit"] == 3
    with pytest.raises(InvalidArgument, match="given twice"):
        bound(top_k=3, topK=4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("top_k", 51, "top_k is 51"),
        ("top_k", 2.5, "whole number"),
        ("top_k", "many", "whole number"),
        ("top_k", [1], "a list"),
        ("top_k", True, "a flag"),
        ("min_score", float("nan"), "number"),
        ("query", "", "query is empty"),
        ("query", {"a": 1}, "an object"),
        ("query", "x" * 65_537, "at most 65,536"),
        ("profile", "fst", "profile is 'fst'"),
        ("languages", 3, "list of texts"),
        ("languages", [[3]], "list of texts"),
        ("languages", [True], "list of texts"),
        ("languages", ["x"] * 101, "has 101 entries"),
        ("languages", "x" * 1_000_000, "1,000,000 characters"),
        ("languages", ["x" * 2_001], "at most 2,000"),
        ("query", "\ud800", "half a character"),
        ("query", 10**100, "must be a text, not a number"),
        ("top_k", 10**100, "top_k is a huge number"),
        ("top_k", "9" * 400, "whole number"),
        ("top_k", float("inf"), "whole number"),
        ("chunk_types", ["definition"], "chunk_types is 'definition'"),
    ],
)
def test_a_wrong_value_is_refused_in_words_that_name_the_argument(name: str, value: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        bound(**{name: value})


def test_every_wrong_argument_is_told_at_once_with_its_own_way_on() -> None:
    with pytest.raises(InvalidArgument) as caught:
        bind(PARAMETERS, {"topk_": 3, "min_score": 2, "profile": "balancd"})
    assert caught.value.message == ("unknown argument 'topk_'; query is missing; profile is 'balancd'; min_score is 2")
    assert caught.value.suggestion == (
        'Send {"limit":3,"query":"..."} '
        "It must be one of fast, balanced, rich. Did you mean balanced? It must be between 0 and 1."
    )
    assert caught.value.details == {"argument": "topk_"}


def test_one_wrong_argument_among_many_unknown_ones_does_not_make_the_rest_missing() -> None:
    with pytest.raises(InvalidArgument) as caught:
        bind(PARAMETERS, {**{f"unknown_{number}": 1 for number in range(150)}, "query": "q"})
    assert "is missing" not in caught.value.message
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["top_k", "profile", "min_score", "query", "languages", "chunk_types"])
def test_an_error_never_repeats_what_is_huge(name: str) -> None:
    for value in ("x" * 1_000_000, 10**5_000, ["x" * 1_000_000] * 101, {"x" * 1_000_000: 1}):
        with pytest.raises(InvalidArgument) as caught:
            bound(**{name: value})
        assert len(str(caught.value.as_dict())) < 1_000
    with pytest.raises(InvalidArgument) as caught:
        bound(**{"x" * 1_000_000: 1})
    assert len(str(caught.value.as_dict())) < 1_000


@pytest.mark.parametrize(("sent", "used"), [(0, 1), (-5, 1), (101, 100), ("1000", 100), (15, 15)])
def test_cortex_search_clamps_its_limit(sent: object, used: int) -> None:
    assert bind(tools.find("cortex_search").parameters, {"query": "q", "limit": sent})["limit"] == used


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": "  \n"}, {"query": None}])
def test_cortex_search_calls_an_empty_query_malformed(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        bind(tools.find("cortex_search").parameters, arguments)
    assert tools.is_malformed(caught.value)
    with pytest.raises(InvalidArgument) as other:
        bind(PARAMETERS, arguments)
    assert not tools.is_malformed(other.value)


@given(st.from_regex(r"[a-z]{2,6}(_[a-z]{2,6}){0,3}", fullmatch=True))
def test_snake_case_stays_and_its_camel_case_comes_back(name: str) -> None:
    head, *rest = name.split("_")
    camel = head + "".join(part.capitalize() for part in rest)
    assert to_snake_case(name) == name
    assert to_snake_case(camel) == name


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["query", "topK", "tags", "min_score", "profile", "nonsense"]), ANYTHING))
def test_whatever_is_sent_is_either_bound_or_refused_as_an_argument(arguments: dict[str, Any]) -> None:
    try:
        values = bind(PARAMETERS, {"query": "q", **arguments})
    except InvalidArgument:
        return
    assert set(values) == {each.name for each in PARAMETERS}
    assert 1 <= values["limit"] <= 50


def test_the_schema_states_the_default() -> None:
    described = Parameter("limit", IntegerArg("Rows.", 1, 50), 10).schema()
    assert described == {"type": "integer", "minimum": 1, "maximum": 50, "description": "Rows.", "default": 10}
    assert Parameter("force", BooleanArg("All."), True).schema()["default"] is True
    assert "default" not in Parameter("force", BooleanArg("All."), False).schema()
    assert "default" not in Parameter("tags", TextListArg("Tags."), ()).schema()


def test_an_older_name_of_an_argument_is_accepted_and_named_in_its_errors() -> None:
    limit = Parameter("limit", IntegerArg("Rows.", 1, 50), 10, ("top_k",))
    assert bind([limit], {"topK": 3}) == bind([limit], {"limit": 3}) == {"limit": 3}
    with pytest.raises(InvalidArgument, match="top_k is 99"):
        bind([limit], {"top_k": 99})
    with pytest.raises(InvalidArgument, match="given twice"):
        bind([limit], {"top_k": 3, "limit": 4})
