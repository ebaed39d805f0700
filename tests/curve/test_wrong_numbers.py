"""An Edwards curve is made of exact numbers; everything else is an InputError."""

from typing import Any

import pytest

from quod.curve import EDWARDS, EdwardsCurve
from quod.errors import InputError

FIELDS = ("name", "fq", "fr", "a", "d", "generator", "cofactor")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 3}, {"fq": 7}, {"fr": 7}, {"a": -1.0}, {"d": "2"}, {"cofactor": "8"},
        {"generator": None}, {"generator": (1, 2, 3)}, {"generator": (1.0, 2)},
    ],
)  # fmt: skip
def test_what_makes_no_edwards_curve(wrong: dict[str, Any]) -> None:
    known: Any = EDWARDS["jubjub"]
    given = {name: getattr(known, name) for name in FIELDS}
    assert EdwardsCurve(**given).generator == known.generator
    with pytest.raises(InputError):
        EdwardsCurve(**(given | wrong))
