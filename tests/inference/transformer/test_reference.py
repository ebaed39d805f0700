"""The NumPy reference: equal to plain integers, whole and with a cache, at its limits."""

from __future__ import annotations

import numpy as np
import pytest

from quod.errors import InputError
from quod.inference.transformer.program import Product, Program, quotient
from quod.inference.transformer.reference import (
    Cache,
    Reference,
    Trace,
    greedy,
    multiply,
    sample,
)
from quod.inference.transformer.rounding import (
    inverse_root,
    nearest_root_scaled,
    nearest_scaled,
    root_bits,
    round_shift,
)
from tests.inference.transformer.models import VOCABULARY
from tests.reference.transformer import PlainModel

NAMES = ("llama", "untied", "gpt2", "qwen2", "uniform")
TOKENS = np.random.default_rng(5).integers(0, VOCABULARY, 21)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_equals_plain_integers(programs: dict[str, Program], name: str) -> None:
    program = programs[name]
    count = 2 if program.model.architecture.width == 256 else 4
    plain = PlainModel(program.model, program.scales)
    expected = [plain.logits(token) for token in TOKENS[:count].tolist()]
    assert Reference(program).logits(TOKENS[:count]).tolist() == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_cache_changes_no_bit(programs: dict[str, Program], name: str) -> None:
    reference, cache = Reference(programs[name]), Cache(programs[name])
    parts = [reference.logits(part, cache) for part in np.split(TOKENS, [1, 2, 9, 20])]
    assert np.array_equal(np.concatenate(parts), reference.logits(TOKENS))
    assert cache.positions == len(TOKENS)


def test_values_that_saturate_are_counted(programs: dict[str, Program]) -> None:
    trace = Trace({}, {})
    Reference(programs["llama"]).logits(TOKENS, trace=trace)
    assert sum(trace.saturated.values()) == 0
    assert trace.values["1.hidden"].shape == (21, 96)
    product = programs["llama"].layers[0].query
    small = Product(product.matrix, None, 0, product.limit, product.input_limit)
    assert np.abs(multiply(small, np.full((1, 64), 32767))).max() == product.limit


@pytest.mark.parametrize("limit", [5, 53, 60])
def test_products_of_any_size_are_exact(programs: dict[str, Program], limit: int) -> None:
    matrix = programs["llama"].layers[0].query.matrix
    x = np.random.default_rng(1).integers(-(1 << limit // 2), 1 << limit // 2, (2, 64))
    x[0, 0] = (1 << limit - 20) if limit > 20 else 1
    expected = [
        [sum(a * b for a, b in zip(row, w, strict=True)) for w in matrix.integers().tolist()]
        for row in x.tolist()
    ]
    sums = multiply(Product(matrix, None, None, 0, 1 << limit), x)
    assert [[(s + 2**63) % 2**64 - 2**63 for s in row] for row in expected] == sums.tolist()


def test_tokens_and_positions_out_of_range_are_refused(programs: dict[str, Program]) -> None:
    reference = Reference(programs["llama"])
    with pytest.raises(InputError, match=f"token {VOCABULARY} is not in the vocabulary of"):
        reference.logits(np.array([0, VOCABULARY]))
    with pytest.raises(InputError, match=r"257 tokens exceed the context of 256"):
        reference.logits(np.zeros(257, np.int64))


def test_rounding_is_to_nearest_with_ties_upward() -> None:
    assert [round_shift(v, 2) for v in (5, 6, -6, -7, 0)] == [1, 2, -1, -2, 0]
    assert round_shift(-7, 0) == -7
    assert [nearest_scaled(v, 1) for v in (0.25, -0.25, 0.5, -0.3)] == [1, 0, 1, -1]
    assert nearest_scaled(3.0, -1) == 2


@pytest.mark.parametrize("square", [1, 2, 64, 576])
def test_scaled_roots_are_exact(square: int) -> None:
    for value in (0.1, -3.5, 2.0**-15, 1000.25):
        root = nearest_root_scaled(value, square, 20)
        numerator, denominator = abs(value).as_integer_ratio()
        scaled = numerator**2 * square * 4**20
        assert (2 * abs(root) - 1) ** 2 * denominator**2 <= 4 * scaled
        assert 4 * scaled < (2 * abs(root) + 1) ** 2 * denominator**2
        assert (root > 0) == (value > 0)
        bits = root_bits(value, square)
        assert numerator**2 * square * 4**300 < denominator**2 * 4 ** (bits + 300)
        assert numerator**2 * square * 4**300 >= denominator**2 * 4 ** (bits + 299)


def test_inverse_roots_are_unique() -> None:
    for square in [512, 513, 1023, 2**20, 2**22 - 1, 2**22, 2**40 + 7, 2**63 - 1]:
        root, shift = inverse_root(square)
        m = square >> 2 * shift if shift >= 0 else square << -2 * shift
        assert 2**20 <= m < 2**22
        assert root**2 * m <= 2**62 < (root + 1) ** 2 * m


def test_quotients_have_sixteen_bits() -> None:
    for numerator, square in ((1, 64), (1, 80), (10, 49), (1, 10**4), (7, 10**6)):
        scale = quotient(numerator, square, 30)
        assert 2**15 <= scale.multiplier <= 2**16
        # |A - n / sqrt(s)| <= 1/2 in units of the multiplier.
        exact = numerator * 2.0 ** (scale.shift - 20) / square**0.5
        assert abs(scale.multiplier - exact) <= 0.5 + 1e-6


def test_choices_of_tokens() -> None:
    logits = np.array([5, 900, 900, -3], np.int64) << 20
    assert greedy(logits) == 1
    scale = quotient(1, 1, 20)
    drawn = {sample(logits, scale, b"seed", position) for position in range(64)}
    assert drawn == {1, 2}
    assert sample(logits, scale, b"seed", 3) == sample(logits, scale, b"seed", 3)
    hot = quotient(1, 10**4, 20 + 8)
    counts = np.bincount(
        [sample(np.array([0, 1, 0]) << 20, hot, bytes([n]), n) for n in range(200)], minlength=3
    )
    assert counts.min() > 30
