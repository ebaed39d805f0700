"""The small limbs of a machine, by name.

The name of a choice of limbs (`Machine.limbs`) is

    BITS [/64] [:FORM]

with limbs of BITS bits: 12 to 16 bits with columns of 32 bits, or with ``/64`` 28 to 30 bits with
columns of 64 bits, on machines with ``u64``. The form of a product is ``columns`` (unrolled, column
by column), ``rows`` (unrolled, row by row), ``karatsuba`` (unrolled, Karatsuba's product followed
by the reduction) or ``rolled`` (a loop over rows: small code for slow compilers). The default form
was the fastest on an H200: ``columns`` for columns of 64 bits, ``karatsuba`` for limbs of 12 or 13
bits, else ``rows``.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.kernel.errors import TraceError
from quod.kernel.machine import Machine

Form = Literal["columns", "rows", "karatsuba", "rolled"]

_SPARE_BITS = 3
"""The smallest number of spare bits of the limbs above the modulus, for unreduced sums."""

_MAX_UNCARRIED_BITS = 13
"""The largest size of limbs, in bits, for which products of 381 bits fit 32-bit columns."""

_OTHER_LIMBS = tuple(f"{bits}:rolled" for bits in (13, 15, 12, 14, 16))
"""Limbs for moduli that the machine's own choice does not support."""


@frozen
class LimbChoice:
    """A choice of limbs.

    bits: bits of a limb.
    wide: columns have 64 bits instead of 32.
    form: form of products.
    """

    bits: int
    wide: bool
    form: Form

    @classmethod
    def parse(cls, name: str) -> LimbChoice:
        """Parse a name; raise ValueError if it is invalid."""
        match = re.fullmatch(r"(\d+)(/64)?(?::(\w+))?", name)
        if match is None:
            raise ValueError(f"{name!r} is not a choice of limbs, such as 13, 29/64 or 13:rolled")
        bits, wide = int(match[1]), match[2] is not None
        low, high = (28, 30) if wide else (12, 16)
        if not low <= bits <= high:
            raise ValueError(
                f"limbs with columns of {64 if wide else 32} bits have {low} to {high} bits, not "
                f"{bits}"
            )
        form = match[3] or (
            "columns" if wide else "karatsuba" if bits <= _MAX_UNCARRIED_BITS else "rows"
        )
        for candidate in get_args(Form):
            if form == candidate == "karatsuba" and not wide and bits > _MAX_UNCARRIED_BITS:
                raise ValueError("the form karatsuba needs limbs of 12 or 13 bits")
            if form == candidate:
                return cls(bits, wide, candidate)
        raise ValueError(f"{form!r} is not one of the forms {', '.join(get_args(Form))}")

    def limbs_for(self, modulus: Modulus) -> int:
        """Return the number of limbs of an element."""
        return -(-max(modulus.bits + _SPARE_BITS, 32 * modulus.words) // self.bits)

    def holds(self, modulus: Modulus) -> bool:
        """Return whether the limbs support a modulus.

        The modulus must nearly reach the last limb, and the radix must exceed that of memory by at
        most one limb.
        """
        total_bits = self.bits * self.limbs_for(modulus)
        # Differences add multiples of the modulus. The fewer bits of the last limb it reaches, the
        # larger are these multiples. A modulus may miss the last limb by two bits, except that with
        # limbs of 30 bits it must reach five bits of it, because a word has only two spare bits.
        max_missing_bits = -5 if self.bits == 30 else 2
        return (
            total_bits - 32 * modulus.words <= self.bits
            and total_bits - self.bits <= modulus.bits + max_missing_bits
        )


def chosen(name: str) -> LimbChoice:
    """Parse a name; raise TraceError if it is invalid."""
    try:
        return LimbChoice.parse(name)
    except ValueError as error:
        raise TraceError(str(error)) from None


def limbs_for(machine: Machine, modulus: Modulus) -> str | None:
    """Return the first choice of limbs that supports a modulus, or None; the machine's is first."""
    names = filter(None, (machine.limbs, *_OTHER_LIMBS))
    return next((name for name in names if chosen(name).holds(modulus)), None)


def has_rolled_products(machine: Machine) -> bool:
    """Return whether products on a machine are loops, to limit compile time."""
    return bool(machine.limbs) and LimbChoice.parse(machine.limbs).form == "rolled"
