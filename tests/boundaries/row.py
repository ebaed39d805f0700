"""Rows of the table of boundaries: a call, arguments that it accepts, and hostile values."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from quod import curve
from quod.curve import CURVES
from quod.device import Buffer, open_device
from quod.field import NAMED, from_integers, integers_to_words

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
DATA = Path(__file__).parents[1] / "data" / "formats" / "bn254"
DEVICE = open_device("cpu")
FOLDER = tempfile.TemporaryDirectory(prefix="quod-boundaries-")
MODULUS = NAMED["bn254.fr"]
G1 = curve.GROUPS["bn254.g1"]
GENERATOR = CURVES["bn254"].g1.generator
POINTS = curve.from_points(G1, [GENERATOR, None])
SCALARS = integers_to_words(MODULUS, [1, 2])
VECTOR = from_integers(MODULUS, [1, 2])


class Hostile:
    """Raises another error whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __index__(self) -> int:
        raise ZeroDivisionError("asked for a number")


WRONG: dict[str, Any] = {
    "negative": -1, "huge": 1 << 80, "text": "no such", "a list": [None], "hostile": Hostile(),
}  # fmt: skip
"""tests/test_validation.py has all kinds of values; these show that a validator is there."""


def is_foreign(value: object) -> bool:
    """Return whether foreign data or memory may replace a value: not for Quod's classes."""
    return isinstance(value, Buffer) or not type(value).__module__.startswith("quod.")


class Row(NamedTuple):
    """A call, arguments that it accepts, and by argument the names of `WRONG` that it accepts."""

    call: Callable[..., Any]
    right: dict[str, Any]
    accepts: dict[str, str]


def row(
    call: Callable[..., Any], accepts: dict[str, str] | None = None, /, **right: Any
) -> Row:  # fmt: skip
    """A row: `accepts` maps an argument to names of `WRONG`, by spaces."""
    return Row(call, right, accepts or {})
