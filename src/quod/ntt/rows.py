"""Elements kept as bare limbs, lane beside lane: tables of twiddles and the rows of a pass.

Reading and writing such an element is one vector a limb, with no change of form. Entry e of an
array stands in block ``e // lanes``; a block holds limb 0 of all its entries, then limb 1, and so
on, each limb a word of the type that the field has for limbs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from quod.device.protocol import AnyDevice, HostDevice
from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

_SHORT_LANES = 8
_WORD_BITS = 64


@frozen
class RowForm:
    """What is known of every element of an array of limbs."""

    bound: int
    maxima: tuple[int, ...]
    exponent: int


def canonical_form(f: PrimeField, exponent: int) -> RowForm:
    """The form of elements below p with limbs of full width."""
    mask = (1 << f.limb_bits) - 1
    top = (f.p - 1) >> (f.limb_bits * (f.limb_count - 1))
    return RowForm(f.p, (*([mask] * (f.limb_count - 1)), top), exponent)


def common_form(elements: Sequence[Element]) -> RowForm:
    """A form that all of the elements have."""
    return RowForm(
        max(element.bound for element in elements),
        tuple(max(limbs) for limbs in zip(*(element.maxima for element in elements), strict=True)),
        elements[0].exponent,
    )


def reduced_rows(f: PrimeField, elements: Sequence[Element], limit: int) -> list[Element]:
    """The elements, reduced and normalised where they leave too little room to go on with.

    An element stays as it is up to the bound `limit`, and while its limbs have some bits to spare.
    """
    result = []
    for element in elements:
        if element.bound > limit:
            element = f.reduce(element, limit)
        if f.limb_bits < 64 and max(element.maxima) >= 1 << 62:
            element = f.normalise(element)
        result.append(element)
    return result


def entry_offset(k: Builder, f: PrimeField, entry: Value) -> Value:
    """The limb at which an entry begins; `entry` is a u64."""
    lanes = k.workgroup_size
    if lanes == 1:
        return entry * f.limb_count
    return (entry // lanes) * (lanes * f.limb_count) + entry % lanes


def load_limbs(k: Builder, f: PrimeField, array: Value, offset: Value, form: RowForm) -> Element:
    """The element whose lowest limb is the one at `offset`."""
    lanes, array = k.workgroup_size, array.cast(f.limb_type)
    limbs = tuple(array[offset + j * lanes] for j in range(f.limb_count))
    return Element(f, limbs, form.bound, form.maxima, form.exponent)


def store_limbs(k: Builder, array: Value, offset: Value, element: Element) -> None:
    """Stores the limbs as they are."""
    lanes, array = k.workgroup_size, array.cast(element.limbs[0].type)
    for j, limb in enumerate(element.limbs):
        array[offset + j * lanes] = limb


def lanes_of(device: AnyDevice, modulus: Modulus) -> int:
    """Instances a workgroup: eight where elements are words, of which any processor has vectors."""
    return _SHORT_LANES if modulus.bits <= _WORD_BITS else device.lanes


def entry_bytes(device: HostDevice, modulus: Modulus) -> int:
    """Bytes of an element as limbs on this device."""
    return _entry_bytes(device.machine(lanes_of(device, modulus)), modulus)


@functools.cache
def _entry_bytes(machine: Machine, modulus: Modulus) -> int:
    f = prime_field(Builder(machine), modulus)
    return f.limb_count * f.limb_type.bytes


def array_bytes(device: HostDevice, modulus: Modulus, entries: int) -> int:
    """Bytes of an array of limbs."""
    lanes = lanes_of(device, modulus)
    return -(-entries // lanes) * lanes * entry_bytes(device, modulus)
