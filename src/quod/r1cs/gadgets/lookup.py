"""Selection of one of several signals or constants, by an index or by the bits of an index."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.r1cs import portable_hints
from quod.r1cs.gadgets.signals import bit_signals, max_comparison_bits, signals
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import in_order, whole_number

hide_frames_of(__file__)
_MAX_BITS = 16
"""The limit of bits of an index, for tables of a reasonable size."""


def choose(system: ConstraintSystem, bits: Sequence[Operand], values: Sequence[Operand]) -> Signal:
    """Select one of 2**n values by the bits of its index; 2**n - 1 constraints.

    bits: the bits of the index, least significant first.
    Raises InputError for a signal that is not known to be a bit.
    """
    selectors = bit_signals(system, "the bits", bits, least=1)
    candidates = signals(system, "the values", values)
    if len(candidates) != 1 << len(selectors):
        raise InputError(f"{len(selectors)} bits choose of {1 << len(selectors)} values")
    for bit in selectors:
        pairs = zip(candidates[::2], candidates[1::2], strict=True)
        candidates = [system.select(bit, if_one, if_zero) for if_zero, if_one in pairs]
    return candidates[0]


def one_hot(system: ConstraintSystem, index: Operand, count: int) -> list[Signal]:
    """Return `count` bits of which only the one at the index is 1; count + 1 constraints.

    Constrains the index to be below the count.
    """
    count = whole_number("count", count, 1, 1 << _MAX_BITS)
    position = signal_of(system, index)
    hot = system.hint(portable_hints.one_hot, [position, count], count)
    for flag_index, flag in enumerate(hot):
        system.enforce(flag, position - flag_index, system.zero)
    system.assert_equal(system.sum(hot), 1)
    # The flags other than the one at the index are 0, so the one at the index is 1.
    for flag in hot:
        system.declare_upper_bound(flag, 1)
    return hot


def choose_at(system: ConstraintSystem, index: Operand, values: Sequence[Operand]) -> Signal:
    """Select the value at an index, which is constrained to be in range.

    Costs 2 constraints per value, and 1 for the sum of the flags.
    """
    candidates = signals(system, "the values", values, least=1)
    flags = one_hot(system, index, len(candidates))
    result = system.sum(
        system.multiply(flag, value) for flag, value in zip(flags, candidates, strict=True)
    )
    bounds = [system.upper_bound(value) for value in candidates]
    known_bounds = [bound for bound in bounds if bound is not None]
    return (
        system.declare_upper_bound(result, max(known_bounds))
        if len(known_bounds) == len(bounds)
        else result
    )


def look_up(
    system: ConstraintSystem, bits: Sequence[Operand], tables: Sequence[Sequence[int]]
) -> list[Signal]:
    """Select from each table of 2**n constants the entry whose index has the given n bits.

    bits: the bits of the index, least significant first.
    Costs one constraint per table, and 2**(n-1) - n for the products of all bits but the first,
    which all tables share. Raises InputError for a signal that is not known to be a bit.
    """
    selectors = bit_signals(system, "the bits", bits, least=1)
    first, *others = selectors
    if len(others) >= _MAX_BITS:
        raise InputError(f"a table is chosen from by at most {_MAX_BITS} bits")
    rows = [list(in_order("a table", table)) for table in in_order("the tables", tables)]
    coefficients = [interpolated(row, len(selectors), system.prime) for row in rows]
    products = [system.one]
    for bit in others:
        products += [system.multiply(product, bit) for product in products]
    selected = []
    for row, terms in zip(rows, coefficients, strict=True):
        slope, base = (system.sum(products, terms[start::2]) for start in (1, 0))
        selected.append(base + system.multiply(slope, first))
        max_number = max(number % system.prime for number in row)
        # Comparisons take no larger numbers, such as coordinates of points.
        if max_number.bit_length() <= max_comparison_bits(system):
            system.declare_upper_bound(selected[-1], max_number)
    return selected


def interpolated(values: Sequence[int], bits: int, prime: int) -> list[int]:
    """Decompose a table of 2**bits values into a weighted sum of products of bits.

    Returns weights below the prime; weights[i] is the weight of the product of those bits that are
    set in i. The sum is the value whose index has these bits.
    """
    if len(values) != 1 << bits:
        raise InputError(f"{bits} bits choose of a table of {1 << bits} numbers")
    weights = [whole_number("a number of a table", value) % prime for value in values]
    for bit_index in range(bits):
        for index in range(len(weights)):
            if index >> bit_index & 1:
                weights[index] = (weights[index] - weights[index ^ 1 << bit_index]) % prime
    return weights
