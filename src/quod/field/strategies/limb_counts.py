"""Numbers of limbs of long fields in registers, and the bytes of an element as limbs on a CPU.

The strategies of `quod.field.strategies` use them while a kernel is traced. Tables of limbs need
them in every process, also in those that find their kernels in the cache and trace nothing.
"""

from __future__ import annotations

from quod.field.moduli import Modulus
from quod.kernel.machine import Capability, Machine

LIMB_BYTES = 8
"""The bytes of a limb of a long field on a CPU."""


def bits_for_29(modulus: Modulus) -> int:
    """Return the bits that limbs of up to 29 bits hold: those of 32p, and at least the words'.

    Inversion needs 32p.
    """
    return max(modulus.bits + 5, 32 * modulus.words)


def limbs_of_29(modulus: Modulus) -> int:
    """Return the number of limbs of up to 29 bits (`strategies.limbs29`)."""
    return -(-bits_for_29(modulus) // 29)


def limbs_of_52(modulus: Modulus) -> int:
    """Return the number of limbs of 52 bits (`strategies.ifma52`).

    They hold 16p, which inversion needs, and at least the bits of memory.
    """
    return -(-max(modulus.bits + 4, 32 * modulus.words) // 52)


def is_full(modulus: Modulus) -> bool:
    """Return whether the sum of two elements, or a product's row, may exceed the words."""
    return 2 * modulus.value > modulus.montgomery_radix


def limbs_of_64(modulus: Modulus) -> int:
    """Return the number of limbs of 64 bits (`strategies.limbs64`)."""
    return modulus.words // 2 + is_full(modulus)


def limb_bytes(machine: Machine, modulus: Modulus) -> int:
    """Return the bytes of an element as limbs in a CPU's kernels.

    They are more than an element takes if the vector's strategy does not suit the modulus: its
    elements are then in limbs of 64 bits, which are fewer.
    """
    if modulus.bits <= 64:
        return modulus.bytes
    if machine.has(Capability.IFMA52):
        return LIMB_BYTES * limbs_of_52(modulus)
    if machine.has(Capability.WORD_PRODUCTS):
        return LIMB_BYTES * limbs_of_29(modulus)
    return LIMB_BYTES * limbs_of_64(modulus)
