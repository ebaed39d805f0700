"""Inputs: exact numbers, and errors that name the input without its value."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.errors import InputError
from quod.witness.inputs import Signals, hash_of
from tests.witness.circuits import R


def numbers(value: Any) -> dict[str, list[int]]:
    return Signals(value, R, "inputs").numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 5}, {"a": [5]}),
        ({"a": "5"}, {"a": [5]}),
        ({"a": " 0xFf "}, {"a": [255]}),
        ({"a": True, "b": False}, {"a": [1], "b": [0]}),
        ({"a": -1}, {"a": [R - 1]}),
        ({"a": "-0"}, {"a": [0]}),
        ({"a": np.uint64(2**63)}, {"a": [2**63]}),
        ({"a": []}, {"a": []}),
        ({"a": [[1, 2], [3, 4]]}, {"a": [1, 2, 3, 4]}),
        ({"a": ((1, 2),)}, {"a": [1, 2]}),
        ({"a": {"x": 1, "y": {"z": [2]}}}, {"a.x": [1], "a.y.z": [2]}),
        ({"a": [{"x": 1}, {"x": 2}]}, {"a[0].x": [1], "a[1].x": [2]}),
        # What JSON of JavaScript would round.
        ('{"a": 9007199254740993}', {"a": [2**53 + 1]}),
        (b'{"a": [90071992547409930000000000000001]}', {"a": [90071992547409930000000000000001]}),
        (f'{{"a": {R - 1}, "b": -{R - 1}}}', {"a": [R - 1], "b": [1]}),
    ],
)  # fmt: skip
def test_numbers_are_exact(value: Any, expected: dict[str, list[int]]) -> None:
    assert numbers(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"a": 771.5}, {"a": "771.5"}, {"a": ""}, {"a": "77 1"}, {"a": None}, {"a": R}, {"a": -R},
        {"a": f"0x{R:x}"}, {"a": "7" * 401}, {"a": [[771], [771, 771]]}, {"a": [771, [771]]},
        {"a": b"771"}, {"a": {771: 1}}, {771: 1}, {"": 771}, [771],
        '{"a": 771.5}', '{"a": 771e3}', '{"a": NaN}', '{"a": "771}', '{"a": 771, "a": 772}',
        '{"a.b": 771, "a": {"b": 771}}', b'{"a": "\xff771"}', "[" * 100, '{"a": ' + "[" * 40,
        np.array([771]), 771, None,
    ],
)  # fmt: skip
def test_errors_show_no_input_values(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        numbers(value)
    assert str(caught.value).startswith("inputs")
    assert "77" not in str(caught.value)


def test_list_nesting_is_limited() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InputError, match='nested too deeply in "a"'):
        numbers({"a": deep})
    for _ in range(5000):
        deep = {"b": deep}
    with pytest.raises(InputError, match="nested too deeply"):
        numbers({"a": deep})


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5), st.lists(st.integers(1 - R, R - 1), max_size=5), max_size=4
    )
)
def test_json_and_mappings_are_the_same(value: dict[str, list[int]]) -> None:
    expected = {name: [number % R for number in many] for name, many in value.items()}
    assert numbers(value) == numbers(json.dumps(value)) == expected


def test_hashes_are_fnv_1a() -> None:
    # Vectors of the authors (http://www.isthe.com/chongo/src/fnv/test_fnv.c).
    assert hash_of("") == 0xCBF29CE484222325
    assert hash_of("a") == 0xAF63DC4C8601EC8C
    assert hash_of("foobar") == 0x85944171F73967E8
