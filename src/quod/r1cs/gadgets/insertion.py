"""Insertion of an element into a list, and selection from a list, by the bits of an index.

The constraints are those of `storage-proofs-core/src/gadgets/insertion.rs` of Filecoin's
rust-fil-proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.errors import InputError
from quod.r1cs.gadgets.bellman.booleans import conjunction, negated, scaled
from quod.r1cs.gadgets.signals import bit_signals, signals
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)


def pick(system: ConstraintSystem, bit: Operand, if_one: Operand, if_zero: Operand) -> Signal:
    """Return a new wire: `if_one` if the bit is 1, `if_zero` if it is 0; one constraint.

    Raises InputError for a signal that is not known to be a bit.
    """
    (condition,) = bit_signals(system, "the condition", (bit,))
    base = signal_of(system, if_zero)
    result = system.wire()
    system.enforce(base - if_one, condition, base - result)
    return result


def insert(
    system: ConstraintSystem, element: Operand, others: Sequence[Operand], index: Sequence[Operand]
) -> list[Signal]:
    """Insert an element into a list at an index; return the list of 2, 4 or 8 elements.

    others: the other elements in order: 1, 3 or 7.
    index: the bits of the index, least significant first: 1, 2 or 3.
    2, 8 or 22 constraints. Raises InputError for other lengths, and for a signal of the index that
    is not known to be a bit.
    """
    bits = bit_signals(system, "the index", index)
    elements = signals(system, "the other elements", others)
    if len(bits) not in _INSERTIONS or len(elements) != (1 << len(bits)) - 1:
        raise InputError(
            "insertion needs n bits of an index and 2^n - 1 other elements, n from 1 to 3, not "
            f"{len(bits)} bits and {len(elements)} elements"
        )
    return _INSERTIONS[len(bits)](system, signal_of(system, element), elements, bits)


def select(
    system: ConstraintSystem, elements: Sequence[Operand], index: Sequence[Operand]
) -> Signal:
    """Select one of 2**n elements by the n bits of its index; 2**n - 1 constraints.

    index: the bits, least significant first; the elements are halved by the most significant first.
    Raises InputError for another number of elements, and for a signal that is not known to be a
    bit.
    """
    bits = bit_signals(system, "the index", index)
    candidates = signals(system, "the elements", elements)
    if len(candidates) != 1 << len(bits):
        raise InputError(f"{len(bits)} bits select from {1 << len(bits)} elements")
    for bit in reversed(bits):
        half = len(candidates) // 2
        pairs = zip(candidates[:half], candidates[half:], strict=True)
        candidates = [pick(system, bit, if_one, if_zero) for if_zero, if_one in pairs]
    return candidates[0]


def _insert_2(
    system: ConstraintSystem, a: Signal, others: list[Signal], bits: list[Signal]
) -> list[Signal]:
    (b,), (b0,) = others, bits
    return [pick(system, b0, b, a), pick(system, b0, a, b)]


def _insert_4(
    system: ConstraintSystem, a: Signal, others: list[Signal], bits: list[Signal]
) -> list[Signal]:
    (b, c, d), (b0, b1) = others, bits
    return [
        pick(system, b1, b, pick(system, b0, b, a)),
        pick(system, b1, c, pick(system, b0, a, b)),
        pick(system, b1, pick(system, b0, d, a), c),
        pick(system, b1, pick(system, b0, a, d), d),
    ]


def _insert_8(
    system: ConstraintSystem, a: Signal, others: list[Signal], bits: list[Signal]
) -> list[Signal]:
    (b, c, d, e, f, g, h), (b0, b1, b2) = others, bits
    neither = scaled(system, conjunction(system, negated(b0), negated(b1)), 1)
    both = scaled(system, conjunction(system, b0, b1), 1)
    return [
        pick(system, b2, b, pick(system, neither, a, b)),
        pick(system, b2, c, pick(system, b1, c, pick(system, b0, a, b))),
        pick(system, b2, d, pick(system, b1, pick(system, b0, d, a), c)),
        pick(system, b2, e, pick(system, both, a, d)),
        pick(system, b2, pick(system, neither, a, f), e),
        pick(system, b2, pick(system, b1, g, pick(system, b0, a, f)), f),
        pick(system, b2, pick(system, b1, pick(system, b0, h, a), g), g),
        pick(system, b2, pick(system, both, a, h), h),
    ]


_Insertion = Callable[[ConstraintSystem, Signal, list[Signal], list[Signal]], list[Signal]]
_INSERTIONS: dict[int, _Insertion] = {1: _insert_2, 2: _insert_4, 3: _insert_8}
