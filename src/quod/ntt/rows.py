"""Arrays of elements as limbs, interleaved over lanes: tables of twiddles and the rows of a pass.

Loading or storing an element takes one vector access per limb and no conversion. Entry e of an
array is in block ``e // lanes``; a block holds limb 0 of all its entries, then limb 1, and so on.
Each limb is a word of the field's limb type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quod.device.protocol import AnyDevice, HostDevice
from quod.field.moduli import Modulus
from quod.field.strategies.limb_counts import limb_bytes
from quod.frozen import frozen
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.field.element import Element
    from quod.field.prime import PrimeField
    from quod.kernel.builder.builder import Builder

_SHORT_LANES = 8
_WORD_BITS = 64


@frozen
class RowForm:
    """Bounds, known at compile time, of all elements of an array of limbs.

    bound: exclusive bound of the integers.
    maxima: the largest value of each limb.
    exponent: log2 of the Montgomery radix.
    """

    bound: int
    maxima: tuple[int, ...]
    exponent: int


def canonical_form(f: PrimeField, exponent: int) -> RowForm:
    """Return the form of elements below p with normalised limbs."""
    mask = (1 << f.limb_bits) - 1
    top = (f.p - 1) >> (f.limb_bits * (f.limb_count - 1))
    return RowForm(f.p, (*([mask] * (f.limb_count - 1)), top), exponent)


def common_form(elements: Sequence[Element]) -> RowForm:
    """Return the tightest form that all elements have."""
    return RowForm(
        max(element.bound for element in elements),
        tuple(max(limbs) for limbs in zip(*(element.maxima for element in elements), strict=True)),
        elements[0].exponent,
    )


def reduced_rows(f: PrimeField, elements: Sequence[Element], limit: int) -> list[Element]:
    """Reduce elements whose bound is above `limit`; normalise those whose limbs may reach 2**62."""
    result = []
    for element in elements:
        if element.bound > limit:
            element = f.reduce(element, limit)
        if f.limb_bits < 64 and max(element.maxima) >= 1 << 62:
            element = f.normalise(element)
        result.append(element)
    return result


def entry_offset(k: Builder, f: PrimeField, entry: Value) -> Value:
    """Return the offset, in limbs, of an entry's lowest limb; `entry` is a u64."""
    lanes = k.workgroup_size
    if lanes == 1:
        return entry * f.limb_count
    return (entry // lanes) * (lanes * f.limb_count) + entry % lanes


def load_limbs(k: Builder, f: PrimeField, array: Value, offset: Value, form: RowForm) -> Element:
    """Load the element whose lowest limb is at `offset`, in limbs."""
    # Imported here, as only a trace makes elements.
    from quod.field.element import Element

    lanes, array = k.workgroup_size, array.cast(f.limb_type)
    limbs = tuple(array[offset + j * lanes] for j in range(f.limb_count))
    return Element(f, limbs, form.bound, form.maxima, form.exponent)


def store_limbs(k: Builder, array: Value, offset: Value, element: Element) -> None:
    """Store an element's limbs unchanged, the lowest at `offset`, in limbs."""
    lanes, array = k.workgroup_size, array.cast(element.limbs[0].type)
    for j, limb in enumerate(element.limbs):
        array[offset + j * lanes] = limb


def lanes_of(device: AnyDevice, modulus: Modulus) -> int:
    """Return the workgroup size: eight, a vector, for fields of at most 64 bits."""
    return _SHORT_LANES if modulus.bits <= _WORD_BITS else device.lanes


def entry_bytes(device: HostDevice, modulus: Modulus) -> int:
    """Return the bytes of an element as limbs on this device."""
    return limb_bytes(device.machine(lanes_of(device, modulus)), modulus)


def array_bytes(device: HostDevice, modulus: Modulus, entries: int) -> int:
    """Return the bytes of an array of `entries` elements as limbs."""
    lanes = lanes_of(device, modulus)
    return -(-entries // lanes) * lanes * entry_bytes(device, modulus)
