"""Conversions between field elements and bits, in the constraints of bellman.

bellman's `AllocatedNum::to_bits_le` and `multipack`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)


def element_bits(system: ConstraintSystem, element: Operand) -> list[Signal]:
    """Return as many bits of an element as the prime has, least significant first.

    256 constraints over BLS12-381. Nothing excludes the bits of element + prime if this sum has no
    more bits than the prime, so the bits are not determined by the element; `system.bits` without a
    count excludes them.
    """
    value = signal_of(system, element)
    bits = []
    for position in range(system.prime.bit_length()):
        bits.append(system.hint_bit(value, position))
        system.boolean(bits[-1])
    system.enforce(system.zero, system.zero, system.pack(bits) - value)
    return bits


def packed(system: ConstraintSystem, bits: Sequence[Operand]) -> Signal:
    """Return a new wire with the number that bits are, least significant first; 1 constraint.

    Raises InputError for more bits than fit in one element: 254 over BLS12-381.
    """
    signals = bit_signals(system, "the bits", bits)
    if len(signals) >= system.prime.bit_length():
        raise InputError(f"{len(signals)} bits do not fit in one element of {system.field.name}")
    number = system.wire()
    system.enforce(system.pack(signals), system.one, number)
    return number


def publish_packed(system: ConstraintSystem, name: str, bits: Sequence[Operand]) -> None:
    """Make bits public as numbers, least significant first; 1 constraint for each number.

    Each number has as many bits as fit in one element: 254 over BLS12-381.

    name: the name of the public wires, with ``[index]`` if there are several.
    """
    signals = bit_signals(system, "the bits", bits)
    size = system.prime.bit_length() - 1
    chunks = [signals[start : start + size] for start in range(0, len(signals), size)]
    for index, chunk in enumerate(chunks):
        wire = system.public_wire(name if len(chunks) == 1 else f"{name}[{index}]")
        system.enforce(system.pack(chunk), system.one, wire)
