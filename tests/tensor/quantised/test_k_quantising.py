"""Quantisation to Q4_K, Q5_K and Q6_K: against ggml's bytes, scalar loops, and hostile values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from quod.errors import InputError
from quod.tensor.quantised import QuantisedMatrix, dequantise, quantise
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from tests.tensor.numbers import Array

NAMES = ("Q4_K", "Q5_K", "Q6_K")
Number = np.float32


def values(kind: str, blocks: int) -> Array:
    """Return float32 values that do not depend on a library's random numbers."""
    bits = np.arange(blocks * 256, dtype=np.uint64)
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        bits = (bits ^ bits >> np.uint64(29)) * np.uint64(factor)
    uniform = (bits >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)
    kinds: dict[str, Callable[[], Array]] = {
        "weights": lambda: uniform**3 * np.float32(0.25),
        "positive": lambda: uniform + np.float32(3),
        "integers": lambda: np.round(uniform * 3),
        "scattered": lambda: np.ldexp(uniform, (bits & np.uint64(63)).astype(np.int32) - 50),
        "offset": lambda: np.float32(-1000) + uniform * np.float32(1e-4),
        "sparse": lambda: np.where(bits >> np.uint64(57) == 0, uniform, np.float32(0)),
        "subnormal": lambda: uniform * np.float32(2.0**-130),
    }
    return kinds[kind]().astype(np.float32).reshape(blocks, 256)


GGML = {
    "weights": {"Q4_K": "82aeefc6d79d86f0", "Q5_K": "ba231f4f9d73b157", "Q6_K": "dbd293306b13fcf0"},
    "positive": {
        "Q4_K": "68e693a570ee9a7c",
        "Q5_K": "8521f1bd32e5f17f",
        "Q6_K": "7a5cb5ac18a8d6b8",
    },
    "integers": {
        "Q4_K": "55dc6544e8032f4e",
        "Q5_K": "30ff8bbb60dfe850",
        "Q6_K": "7c852be739ede0d0",
    },
    "scattered": {
        "Q4_K": "1b183b01ee6d22e0",
        "Q5_K": "521cc9215a51bb97",
        "Q6_K": "40edd4e695a25746",
    },
    "offset": {"Q4_K": "8891acb8e0df87ed", "Q5_K": "0951e0bb93dfbe29", "Q6_K": "edd592d4f64ed8a5"},
    "sparse": {"Q4_K": "782e68236c84ffca", "Q5_K": "3a48668cab4ae394", "Q6_K": "11af371ff2c9b0aa"},
    "subnormal": {
        "Q4_K": "606f558e014930f9",
        "Q5_K": "07fa8a94dd06b17c",
        "Q6_K": "53192a12b1786877",
    },
}
"""By kind of values: the first 16 digits of the SHA-256 of ggml's bytes of 32 blocks, by type.

They were computed with `quantize_row_q4_K_ref` and its neighbours of ggml d99724f2, which was
compiled for x86-64 without fused products.
"""


@pytest.mark.parametrize("kind", GGML)
def test_bytes_are_those_of_ggml(kind: str) -> None:
    blocks = {name: quantise(name, values(kind, 32)) for name in NAMES}
    digests = {
        name: hashlib.sha256(array.tobytes()).hexdigest()[:16] for name, array in blocks.items()
    }
    assert digests == GGML[kind]


def nearest(x: Number) -> int:
    return int((x + Number(12582912)).view(np.int32)) % (1 << 23) - (1 << 22)


def limited(x: Number, low: int, high: int) -> int:
    return max(low, min(high, nearest(x)))


def run_with_minimum(x: Array, largest: int, first: float, steps: int) -> tuple[Number, Number]:
    """Return the scale and minimum of a run, by loops over its values."""
    squares = Number(0)
    for value in x:
        squares += value * value
    weights = [np.sqrt(squares / Number(32)) + abs(value) for value in x]
    low, high = min(Number(0), x.min()), x.max()
    if low == high:
        return Number(0), -low
    weight_sum = value_sum = Number(0)
    for weight, value in zip(weights, x, strict=True):
        weight_sum, value_sum = weight_sum + weight, value_sum + weight * value

    def error(integers: list[int], scale: Number, minimum: Number) -> Number:
        total = Number(0)
        for weight, value, integer in zip(weights, x, integers, strict=True):
            difference = scale * Number(integer) + minimum - value
            total += weight * (difference * difference)
        return total

    inverse = Number(largest) / (high - low)
    best = Number(1) / inverse, low
    best_error = error([limited(inverse * (value - low), 0, largest) for value in x], *best)
    for step in range(steps + 1):
        top = Number(first) + Number(0.1) * Number(step) + Number(largest)
        base = best[1]
        inverse = top / (high - base)
        integers = [limited(inverse * (value - base), 0, largest) for value in x]
        ones = twos = mixed = Number(0)
        for weight, value, integer in zip(weights, x, integers, strict=True):
            product = weight * Number(integer)
            ones, twos, mixed = (
                ones + product, twos + product * Number(integer), mixed + product * value,
            )  # fmt: skip
        determinant = weight_sum * twos - ones * ones
        if determinant > 0:
            scale = (weight_sum * mixed - value_sum * ones) / determinant
            minimum = (twos * value_sum - ones * mixed) / determinant
            if minimum > 0:
                scale, minimum = mixed / twos, Number(0)
            if (new_error := error(integers, scale, minimum)) < best_error:
                best, best_error = (scale, minimum), new_error
    return best[0], -best[1]


@pytest.mark.parametrize(("name", "search"), [("Q4_K", (15, -1.0, 20)), ("Q5_K", (31, -0.5, 15))])
@pytest.mark.parametrize("kind", ["weights", "integers"])
def test_scales_are_those_of_scalar_loops(
    name: str, search: tuple[int, float, int], kind: str
) -> None:
    x = values(kind, 3)[-1]
    runs = [run_with_minimum(run, *search) for run in x.reshape(8, 32)]
    block = quantise(name, x)
    limit = Number(63)
    top, low = (max(column) / limit for column in zip(*runs, strict=True))
    assert block[:4].view(np.float16).tolist() == [np.float16(top), np.float16(low)]
    scale, minimum = (Number(np.float16(number)) for number in (top, low))
    inverse = limit / max(run[0] for run in runs), limit / max(run[1] for run in runs)
    exact = []
    for run, (run_scale, run_minimum) in zip(x.reshape(8, 32), runs, strict=True):
        d = scale * Number(nearest(inverse[0] * run_scale))
        m = minimum * Number(nearest(inverse[1] * run_minimum))
        assert d > 0
        exact += [d * Number(limited((value + m) / d, 0, search[0])) - m for value in run]
    assert np.array_equal(dequantise(name, block), np.array(exact, np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_error_of_values(name: str) -> None:
    """A value is off by at most half a step and what its run's scale and minimum were rounded."""
    x = values("weights", 64)
    run, steps = {"Q4_K": (32, 15), "Q5_K": (32, 31), "Q6_K": (16, 62)}[name]
    runs = x.reshape(64, -1, run)
    width = np.maximum(runs.max(2), 0) - np.minimum(runs.min(2), 0)
    if name == "Q6_K":
        width = 2 * np.abs(runs).max(2)
    bound = (0.75 * width / steps + width.max(1, keepdims=True) / 63)[..., None]
    assert (np.abs(dequantise(name, quantise(name, x)).reshape(runs.shape) - runs) <= bound).all()


@pytest.mark.parametrize("name", NAMES)
def test_shapes(name: str) -> None:
    nbytes = QUANTISED_TYPES[name].bytes
    assert quantise(name, np.zeros((0, 512), np.float32)).shape == (0, 2 * nbytes)
    x = values("weights", 2100)
    together = quantise(name, x.reshape(3, 350, 512))
    assert together.shape == (3, 350, 2 * nbytes)
    # Blocks do not depend on the blocks that are quantised with them.
    assert np.array_equal(together.reshape(2100, nbytes)[::300], quantise(name, x[::300]))
    matrix = QuantisedMatrix("cpu", name, quantise(name, x[:8]))
    assert np.array_equal(matrix.dequantise(), dequantise(name, quantise(name, x[:8])))


@pytest.mark.parametrize("name", NAMES)
def test_refused_values(name: str) -> None:
    for value, message in (
        (np.nan, "finite"), (-np.inf, "finite"), (3e8, "beyond f16"), (-3e38, "beyond f16"),
    ):  # fmt: skip
        x = values("weights", 2)
        x[1, 77] = value
        with pytest.raises(InputError, match=message):
            quantise(name, x)
    with pytest.raises(InputError, match="whole blocks of 256"):
        quantise(name, np.zeros((2, 128), np.float32))
