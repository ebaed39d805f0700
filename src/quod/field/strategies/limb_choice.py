"""Which small limbs a machine holds elements in, by name.

The name of a choice of limbs (`Machine.limbs`) is

    BITS [/64] [:FORM]

with limbs of BITS bits. Columns are words of 32 bits, for which a limb has 12 to 16, or with
``/64`` of 64, for which it has 28 to 30; that needs a machine with ``u64``. The form of a product
is ``columns`` (unrolled, a column after the other), ``rows`` (unrolled, a row after the other),
``apart`` (unrolled, the reduction behind the product, by Karatsuba's method) or ``rolled`` (a loop
over rows: small text, for slow compilers). Without a form it is what was fastest on an H200:
``columns`` in words of 64 bits, ``apart`` with limbs of 12 or 13 bits, else ``rows``.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.kernel.errors import TraceError
from quod.kernel.machine import Machine

Form = Literal["columns", "rows", "apart", "rolled"]

_ROOM_BITS = 3
"""Bits that limbs have above the modulus at least: sums are not reduced at once."""

_WHOLE_COLUMNS = 13
"""The most bits of limbs whose products of 381 bits have columns of 32."""

_OTHER_LIMBS = tuple(f"{bits}:rolled" for bits in (13, 15, 12, 14, 16))
"""What holds moduli that the limbs of a machine do not take."""


@frozen
class LimbChoice:
    """A choice of limbs: their bits, whether columns have 64, and the form of products."""

    bits: int
    wide: bool
    form: Form

    @classmethod
    def parse(cls, name: str) -> LimbChoice:
        """The choice of that name; ValueError for what is none."""
        match = re.fullmatch(r"(\d+)(/64)?(?::(\w+))?", name)
        if match is None:
            raise ValueError(f"{name!r} is no choice of limbs, such as 13, 29/64 or 13:rolled")
        bits, wide = int(match[1]), match[2] is not None
        low, high = (28, 30) if wide else (12, 16)
        if not low <= bits <= high:
            raise ValueError(
                f"limbs in words of {64 if wide else 32} bits have {low} to {high} bits, not {bits}"
            )
        form = match[3] or ("columns" if wide else "apart" if bits <= _WHOLE_COLUMNS else "rows")
        for known in get_args(Form):
            if form == known == "apart" and not wide and bits > _WHOLE_COLUMNS:
                raise ValueError("products apart from their reduction have limbs of 12 or 13 bits")
            if form == known:
                return cls(bits, wide, known)
        raise ValueError(f"{form!r} is none of the forms {', '.join(get_args(Form))}")

    def limbs_for(self, modulus: Modulus) -> int:
        """Limbs of an element."""
        return -(-max(modulus.bits + _ROOM_BITS, 32 * modulus.words) // self.bits)

    def holds(self, modulus: Modulus) -> bool:
        """Whether the modulus reaches the last limb, or nearly, and the radix is at most a limb
        larger than that of memory."""
        whole = self.bits * self.limbs_for(modulus)
        # Differences are raised by multiples of the modulus, of which there are more the further it
        # falls short. Below zero it must be longer: a limb of 30 bits leaves sums two.
        most_short = -5 if self.bits == 30 else 2
        return (
            whole - 32 * modulus.words <= self.bits
            and whole - self.bits <= modulus.bits + most_short
        )


def chosen(name: str) -> LimbChoice:
    """The choice of that name; TraceError for what is none."""
    try:
        return LimbChoice.parse(name)
    except ValueError as error:
        raise TraceError(str(error)) from None


def limbs_for(machine: Machine, modulus: Modulus) -> str | None:
    """The limbs that the machine names, or the first others, if they hold a modulus."""
    names = filter(None, (machine.limbs, *_OTHER_LIMBS))
    return next((name for name in names if chosen(name).holds(modulus)), None)


def has_rolled_products(machine: Machine) -> bool:
    """Whether products of field elements are loops there, for compilers that take long."""
    return bool(machine.limbs) and LimbChoice.parse(machine.limbs).form == "rolled"
