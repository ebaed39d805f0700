"""Elements of Fr in Filecoin's circuits: public ones, and their bits in SHA-256 messages."""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.gadgets.bellman.packing import element_bits, packed
from quod.r1cs.gadgets.bellman.sha import sha256
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem, Operand

_BYTE = 8
_TRIMMED_BITS = 254


def public_element(system: ConstraintSystem, name: str) -> Signal:
    """Declare a private input and make it public; 1 constraint.

    The private variable is what the constraints use; the public one only equals it.
    """
    element = system.private(name)
    system.output(public_name(name), element)
    return element


def public_name(name: str) -> str:
    """Return the name of the public wire that equals a private input."""
    return f"{name} (public)"


def message_bits(system: ConstraintSystem, element: Operand) -> list[Operand]:
    """Return the 256 bits of an element's 32 bytes in SHA-256's order; 256 constraints.

    The bytes are little-endian, and each byte's highest bit comes first.
    """
    return _reversed_in_bytes([*system.repeat(element_bits, element), 0])


def hash_to_element(system: ConstraintSystem, message: Sequence[Operand]) -> Signal:
    """Return SHA-256 of a message of bits as an element: 254 bits of its little-endian number.

    The two highest bits of the last byte are cleared, so that the number is below the modulus.
    1 constraint besides those of SHA-256.
    """
    bits = _reversed_in_bytes(sha256(system, message))
    return packed(system, bits[:_TRIMMED_BITS])


def _reversed_in_bytes(bits: Sequence[Operand]) -> list[Operand]:
    """Reverse the bits of each byte."""
    return [
        bit for start in range(0, len(bits), _BYTE) for bit in bits[start : start + _BYTE][::-1]
    ]
