"""What the door lets in: exact numbers and truth values, whatever library they are of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod import validation
from quod.errors import DeviceError, InputError


class Three(IntEnum):
    THREE = 3


class Ordering(Enum):
    NN = "nn"
    NR = "nr"


class Odd:
    """Says something else each time it is asked."""

    def __index__(self) -> int:
        raise ZeroDivisionError("asked")

    def __repr__(self) -> str:
        raise KeyError("shown")

    def __bool__(self) -> bool:
        raise KeyError("asked")


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3), Three.THREE])
def test_whole_numbers_become_int(value: Any) -> None:
    found = validation.whole_number("n", value, 0, 3)
    assert type(found) is int
    assert found == 3


NO_WHOLE_NUMBERS: list[Any] = [
    True, np.True_, 3.0, np.float64(3), "3", b"3", None, Fraction(3), [3], np.array([3]),
    np.array([3, 4]), float("nan"), Odd(), int, -1, 8, 1 << 20_000, -(1 << 20_000), np.int64(9),
]  # fmt: skip


def test_what_is_no_whole_number() -> None:
    for value in NO_WHOLE_NUMBERS:
        with pytest.raises(InputError, match=r"^the count must be a whole number from 0 to 7"):
            validation.whole_number("the count", value, 0, 7)
        with pytest.raises(DeviceError) as refused:
            validation.whole_number("the count", value, 0, 7, error=DeviceError)
        assert len(str(refused.value)) < 160
        assert "\n" not in str(refused.value)


def test_bounds_are_read_at_a_glance() -> None:
    for low, high, text in ((0, None, "0 on"), (1, (1 << 31) - 1, r"1 to 2\*\*31 - 1")):
        with pytest.raises(InputError, match=rf"from {text}, not 'x'"):
            validation.whole_number("n", "x", low, high)
    assert validation.whole_number("n", 1 << 999, 0) == 1 << 999
    assert validation.whole_number_or_none("n", None, 0) is None


def test_truth_values_are_exact() -> None:
    assert validation.flag("inverse", True) is True
    assert validation.flag("inverse", False) is False
    for value in ("no", "", 0, 1, None, 2.5, [], np.True_, np.array(True), Odd()):
        with pytest.raises(InputError, match=r"^inverse must be True or False, not "):
            validation.flag("inverse", value)


def test_words_kinds_and_arrays() -> None:
    assert validation.choice("an ordering", "NN", ("NN", "NR")) == "NN"
    for value in ("", "nn", None, ["NN"], np.array(["NN", "NR"]), Odd()):
        with pytest.raises(InputError, match=r"^an ordering must be NN or NR, not "):
            validation.choice("an ordering", value, ("NN", "NR"))
    assert validation.member("an ordering", "nr", Ordering) is Ordering.NR
    for value in ("", "NN", None, ["nn"], Ordering.NN, Odd()):
        with pytest.raises(InputError, match=r"^an ordering must be nn or nr, not "):
            validation.member("an ordering", value, Ordering)
    assert validation.instance("n", 5, int, "write one") == 5
    with pytest.raises(InputError, match=r"of the type int, not the class dict; write one$"):
        validation.instance("n", dict, int, "write one")
    masked: Any = np.ma.masked_array([1, 2], mask=[True, False])
    with pytest.raises(InputError, match=r"with a mask"):
        validation.plain_array("points", masked)
    own = np.ones((2, 2))
    assert validation.plain_array("points", own) is own
    plain = validation.plain_array("points", np.asmatrix(own))
    assert type(plain) is np.ndarray
    assert np.shares_memory(plain, own)
    for value in ([1], None, memoryview(b"1"), "x"):
        with pytest.raises(InputError, match=r"^points must be a NumPy array, not "):
            validation.plain_array("points", value)


def _thrown_away(module: ast.Module) -> Iterator[int]:
    """Lines that check a number and go on with what was given, which may be NumPy's."""
    for node in ast.walk(module):
        match node:
            case ast.Expr(
                ast.Call(ast.Name("whole_number" | "whole_number_or_none"), [_, given, *_])
            ):
                counted = isinstance(given, ast.Call) and ast.unparse(given.func) == "len"
                if not counted and not isinstance(given, ast.BinOp):
                    yield node.lineno


def test_what_is_checked_is_what_is_used() -> None:
    """A number that was only looked at may be one that wraps around."""
    assert list(
        _thrown_away(ast.parse("whole_number('n', n, 1)\nn = whole_number('n', n, 1)"))
    ) == [1]
    source = Path(validation.__file__).parent
    found = {
        f"{path.relative_to(source)}:{line}"
        for path in source.rglob("*.py")
        for line in _thrown_away(ast.parse(path.read_text()))
    }
    assert found == set()
