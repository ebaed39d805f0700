"""Numbers beside tensors: Python's and NumPy's, as files of models have them, and no others."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError
from quod.tensor import adamw, gemm, rms_norm, rope_table
from quod.tensor.scalars import real

X, ROW = np.ones((2, 4), np.float32), np.ones(4, np.float32)


class Index:
    """A whole number of another library."""

    def __index__(self) -> int:
        return 4


@pytest.mark.parametrize(
    "value",
    [np.float16(0.5), np.float32(0.5), np.longdouble(0.5), np.int8(-128), np.uint64(1), 10**38],
)
def test_numbers(value: Any) -> None:
    number = real("scale", value)
    assert type(number) is float
    assert number == float(value)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(np.inf), np.float64(np.nan), np.longdouble("1e400"), 10**39, -(10**400),
        np.True_, np.array(0.5), np.complex64(1), decimal.Decimal(1), "1", None,
    ],
)  # fmt: skip
def test_invalid_numbers_are_rejected(value: Any) -> None:
    with pytest.raises(InputError, match=r"^scale must be a number"):
        real("scale", value)


def test_metadata_of_a_model() -> None:
    """All numbers in the metadata of a GGUF file are NumPy scalars."""
    epsilon, base, size, count = np.float32(1e-5), np.float32(1e4), np.uint32(4), np.uint32(3)
    assert np.array_equal(
        rms_norm("cpu", X, ROW, epsilon=epsilon),  # type: ignore[arg-type]
        rms_norm("cpu", X, ROW, epsilon=float(epsilon)),
    )
    table = rope_table(count, size, base=base)  # type: ignore[arg-type]
    assert np.array_equal(table, rope_table(3, 4))
    assert rope_table(2, Index()).shape == (2, 4)  # type: ignore[arg-type]
    assert (gemm("cpu", X, X, transpose_b=True, scale=np.int32(2)) == 8).all()
    adamw("cpu", X.copy(), X, X * 0, X * 0, step=1, learning_rate=np.float32(0))  # type: ignore[arg-type]


def test_ranges_above_2_to_the_31_are_rejected() -> None:
    for count in ((1 << 31) + 1, 1 << 70):
        with pytest.raises(InputError, match=r"^positions must be a range of 2\^31 at most$"):
            rope_table(range(count), 2)
