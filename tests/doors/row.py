"""What the rows of the table of public calls are made of: values that are right, and wrong ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quod import curve
from quod.curve import CURVES
from quod.device import open_device
from quod.field import NAMED, from_integers, integers_to_words

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
POWERS = Path(__file__).parents[1] / "data" / "formats" / "bn254" / "powers.ptau"
DEVICE = open_device("cpu")
QUEUE = tempfile.TemporaryDirectory(prefix="quod-door-")
MODULUS = NAMED["bn254.fr"]
G1 = curve.GROUPS["bn254.g1"]
GENERATOR = CURVES["bn254"].g1.generator
POINTS = curve.from_points(G1, [GENERATOR, None])
SCALARS = integers_to_words(MODULUS, [1, 2])
VECTOR = from_integers(MODULUS, [1, 2])


class Hostile:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __index__(self) -> int:
        raise ZeroDivisionError("asked for a number")


WRONG: dict[str, Any] = {
    "None": None, "a float": 2.5, "true": True, "negative": -1, "huge": 1 << 80, "text": "no such",
    "bytes": b"no such", "a list": [None], "a set": {1}, "a mapping": {}, "a class": int,
    "floats": np.zeros(2), "a mask": np.ma.masked_array(SCALARS, mask=True), "hostile": Hostile(),
    "an object": object(),
}  # fmt: skip


class Row(NamedTuple):
    """A callable with right arguments; `fine` are names of wrong values that an argument takes."""

    call: Callable[..., Any]
    right: dict[str, Any]
    fine: dict[str, tuple[str, ...]] = {}  # noqa: RUF012


OPTIONAL = ("None",)
ANY_INT = ("None", "negative", "huge")
MSM = {"device": DEVICE, "group": G1, "bases": POINTS, "scalars": SCALARS, "options": None}
MSM_FINE = {"options": OPTIONAL, "timeline": OPTIONAL}
