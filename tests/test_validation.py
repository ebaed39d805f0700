"""Each validator accepts exactly the values of its kind, and names what it refuses."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from enum import Enum, IntEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quod import validation
from quod.errors import DeviceError, InputError, QuodError


class Three(IntEnum):
    THREE = 3


class Ordering(Enum):
    NN = "nn"
    NR = "nr"


class Hostile:
    """Raises another error whatever it is asked."""

    def __index__(self) -> int:
        raise ZeroDivisionError("asked for a number")

    def __repr__(self) -> str:
        raise KeyError("shown")

    def __bool__(self) -> bool:
        raise KeyError("asked for a truth value")

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Matrix(np.ndarray[Any, Any]):
    """An array of another class than NumPy's own."""


MASKED: Any = np.ma.masked_array([1, 2], mask=[True, False])
INTEGERS = st.integers() | st.integers(-4, 12) | st.sampled_from([1 << 80, 1 << 20_000])
NUMPY_INTEGERS = st.builds(
    lambda kind, value: kind(value),
    st.sampled_from([np.int8, np.uint8, np.int64, np.uint64]),
    st.integers(0, 9),
)
ARRAYS = st.sampled_from(
    [np.array(3), np.array([3]), np.zeros(2), np.ones((2, 2)).view(Matrix), MASKED, np.array(True)]
)
OTHERS: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, False, np.True_, 2.0, float("nan"), np.float64(3), Fraction(3), "3", b"3",
        bytearray(b"3"), memoryview(b"3"), Three.THREE, Ordering.NN, Hostile(), object(), int,
        Hostile, abs, Path("x"), [1], (1,), {1}, {1: 2}, range(2),
    ]
)  # fmt: skip
VALUES = INTEGERS | NUMPY_INTEGERS | ARRAYS | OTHERS | st.text(max_size=90) | st.binary(max_size=9)


def refused(call: Callable[[], object], start: str, kind: type[QuodError] = InputError) -> str:
    """The message of the refusal: one line, short, with the argument's name first."""
    with pytest.raises(kind) as error:
        call()
    message = str(error.value)
    assert message.startswith(start)
    assert "\n" not in message
    assert len(message) < 300
    return message


def integer_of(value: object) -> int | None:
    """The number that a value stands for, by type alone, which no truth value or float does."""
    if type(value) is int or isinstance(value, Three):
        return int(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray) and not value.shape and value.dtype.kind in "iu":
        return int(value)
    return None


@given(VALUES, st.none() | st.integers(-2, 8), st.none() | st.integers(-2, 8))
@example(np.array(3), 3, 3)
@example(True, 0, 7)
@example(8, 0, 7)
@example(-1, 0, 7)
def test_whole_number(value: Any, low: int | None, high: int | None) -> None:
    number = integer_of(value)
    in_range = number is not None and (low is None or number >= low)
    if in_range and (high is None or number <= high):  # type: ignore[operator]
        result = validation.whole_number("the count", value, low, high)
        assert type(result) is int
        assert result == number
        return
    for kind in (InputError, DeviceError):
        message = refused(
            partial(validation.whole_number, "the count", value, low, high, error=kind),
            "the count must be a whole number",
            kind,
        )
        assert low is None or f" from {low} " in message
        assert high is None or f" to {high}, not " in message


@given(VALUES)
def test_whole_number_or_none(value: Any) -> None:
    if value is None:
        assert validation.whole_number_or_none("the count", value, 0) is None
    elif (number := integer_of(value)) is not None and 0 <= number <= 7:
        assert validation.whole_number_or_none("the count", value, 0, 7) == number
    else:
        refused(lambda: validation.whole_number_or_none("n", value, 0, 7), "n must be a whole")


def test_bounds_are_read_at_a_glance() -> None:
    for low, high, text in ((0, None, "0 on"), (1, (1 << 31) - 1, r"1 to 2\*\*31 - 1")):
        with pytest.raises(InputError, match=rf"from {text}, not 'x'"):
            validation.whole_number("n", "x", low, high)


@given(VALUES)
@example(1)
@example("no")
def test_flag(value: Any) -> None:
    """Numbers and text are not booleans; the text "no" would be truthy."""
    if type(value) is bool:
        assert validation.flag("inverse", value) is value
    else:
        refused(lambda: validation.flag("inverse", value), "inverse must be True or False, not ")
        refused(
            lambda: validation.flag("inverse", value, error=DeviceError), "inverse", DeviceError
        )


@given(VALUES | st.sampled_from(["NN", "NR", "nn"]))
def test_choice(value: Any) -> None:
    if type(value) is str and value in {"NN", "NR"}:
        assert validation.choice("an ordering", value, ("NN", "NR")) == value
    else:
        start = "an ordering must be NN or NR, not "
        refused(lambda: validation.choice("an ordering", value, ("NN", "NR")), start)


@given(VALUES | st.sampled_from(["nn", "nr", "NN"]))
def test_member(value: Any) -> None:
    if type(value) is str and value in {"nn", "nr"}:
        assert validation.member("an ordering", value, Ordering).value == value
    else:
        start = "an ordering must be nn or nr, not "
        refused(lambda: validation.member("an ordering", value, Ordering), start)


@given(VALUES, st.sampled_from([int, str, bytes, np.ndarray, Hostile, dict]))
@example(dict, dict)
def test_instance(value: Any, kind: type) -> None:
    if kind in type(value).__mro__:
        assert validation.instance("the key", value, kind, "open one") is value
    else:
        start = f"the key must be of the type {kind.__name__}, not "
        message = refused(lambda: validation.instance("the key", value, kind, "open one"), start)
        assert message.endswith("; open one")
        assert ("the class " in message) == isinstance(value, type)


@given(VALUES | st.lists(st.integers()) | st.just("ab") | st.sets(st.integers()))
def test_in_order(value: Any) -> None:
    if isinstance(value, list | tuple | range | np.ndarray):
        assert validation.in_order("the bits", value) is value
    else:
        refused(lambda: validation.in_order("the bits", value), "the bits must be a list, not ")


@given(VALUES)
@example(np.ones((2, 2)))
def test_plain_array(value: Any) -> None:
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        result = validation.plain_array("points", value)
        assert type(result) is np.ndarray
        assert np.shares_memory(result, value)
        assert result is value or type(value) is not np.ndarray
    else:
        message = refused(lambda: validation.plain_array("points", value), "points must be a ")
        assert ("mask" in message) == isinstance(value, np.ma.MaskedArray)


@given(VALUES, st.none() | st.integers(0, 9))
@example(b"1234", 3)
def test_exact_bytes(value: Any, size: int | None) -> None:
    if type(value) is bytes and size in (None, len(value)):
        assert validation.exact_bytes("the seed", value, size) is value
    else:
        message = refused(
            lambda: validation.exact_bytes("the seed", value, size), "the seed must be "
        )
        assert type(value) is not bytes or message.endswith(f"{size} bytes, not {len(value)}")


@given(VALUES)
def test_plain_bytes(value: Any) -> None:
    if isinstance(value, bytes | bytearray | memoryview):
        result = validation.plain_bytes("the proof", value)
        assert type(result) is bytes
        assert result == value
    else:
        refused(lambda: validation.plain_bytes("the proof", value), "the proof is bytes, not ")


@given(VALUES | st.sampled_from([lambda: 0, abs, print]))
def test_check_function(value: Any) -> None:
    if isinstance(value, FunctionType | BuiltinFunctionType):
        validation.check_function("the callback", value)
    else:
        start = "the callback is a function, not "
        refused(lambda: validation.check_function("the callback", value), start)


@given(VALUES)
@example(os.fspath(Path("a")))
def test_file_path(value: Any) -> None:
    if isinstance(value, str | Path):
        assert validation.file_path(value) == str(value)
    else:
        refused(lambda: validation.file_path(value), "the path of a file must be text or a Path")


@given(VALUES)
def test_capability_checks_survive_hostile_values(value: Any) -> None:
    """A value whose attributes raise has no capability; Quod's own errors pass through."""
    assume(not isinstance(value, Hostile) or not validation.offers(value, "compile"))
    assert not validation.is_device(value)

    class Closed:
        @property
        def compile(self) -> None:
            raise DeviceError("the device is closed")

    with pytest.raises(DeviceError, match="closed"):
        validation.is_device(Closed())


def test_a_device_is_an_object_that_compiles_and_launches() -> None:
    class Device:
        compile = launch = None

    assert validation.is_device(Device())
    assert not validation.is_device(Device)
    assert not validation.offers(Hostile(), "compile")


@given(VALUES)
def test_shown(value: Any) -> None:
    """A value in a message is short, on one line, and never asked for its own representation."""
    text = validation.shown(value)
    assert len(text) <= 80
    assert "\n" not in text


def _thrown_away(module: ast.Module) -> Iterator[int]:
    """Lines that check a number and go on with what was given, which may be NumPy's."""
    for node in ast.walk(module):
        match node:
            case ast.Expr(
                ast.Call(ast.Name("whole_number" | "whole_number_or_none"), [_, argument, *_])
            ):
                counted = isinstance(argument, ast.Call) and ast.unparse(argument.func) == "len"
                if not counted and not isinstance(argument, ast.BinOp):
                    yield node.lineno


def test_validated_values_are_used() -> None:
    """A number that is only validated may be one that wraps around."""
    assert list(
        _thrown_away(ast.parse("whole_number('n', n, 1)\nn = whole_number('n', n, 1)"))
    ) == [1]
    source = Path(validation.__file__).parent
    lines = {
        f"{path.relative_to(source)}:{line}"
        for path in source.rglob("*.py")
        if re.search(r"^ *whole_number", text := path.read_text(), re.MULTILINE)
        for line in _thrown_away(ast.parse(text))
    }
    assert lines == set()
