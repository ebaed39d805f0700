"""The circuit hash: the hash of a circuit's key before any contribution, as snarkjs computes it.

It is the BLAKE2b-512 of the key's points, uncompressed, with the length of each array before it as
a big-endian u32. In place of h, it covers tau**i * (tau**n - 1) in G1 for i below n - 1, where n is
the size of the domain.

**A quirk is part of the hash.** snarkjs reads these powers 2**14 at a time and does not shorten the
last read. From n = 2**15 on, it therefore hashes n of them, after the length n - 1. If the file has
exactly n powers, the last read runs past the section: snarkjs interprets the next bytes of the file
as a point, and computes with integers that are not below the modulus. `_bytes_past_the_end` repeats
this arithmetic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from quod.ceremony.point_bytes import uncompressed
from quod.ceremony.windows import windows
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.sums.entries import SIGN_BIT
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.formats.ptau import PowersOfTau
from quod.msm.host.sparse_sums import segment_sums

CHUNK = 1 << 14
"""The number of powers that snarkjs reads at a time."""


class CircuitHash:
    """A running circuit hash.

    Pass all arrays in the key's order: for each, `count`, then `points`; `powers` in place of h.
    """

    def __init__(self, curve: str) -> None:
        self._groups = {degree: GROUPS[f"{curve}.g{degree}"] for degree in (1, 2)}
        self._hash = hashlib.blake2b()
        # Serialising points is little work, so the host does it.
        self._host = resolve_device("cpu")

    def count(self, number: int) -> None:
        """Hash the length of an array."""
        self._hash.update(number.to_bytes(4, "big"))

    def points(self, degree: int, points: Words) -> None:
        """Hash affine points of G1 or G2, of shape (n, *group.shape)."""
        if len(points):
            self._hash.update(uncompressed(self._host, self._groups[degree], points).data)

    def powers(
        self,
        device: AnyDevice,
        ptau: PowersOfTau,
        domain_size: int,
        report: Callable[[int, int], None],
    ) -> None:
        """Hash the powers in place of h; `report` gets the number hashed so far and the total."""
        group, points = self._groups[1], ptau.tau_g1
        self.count(domain_size - 1)
        count = domain_size - 1 if domain_size <= CHUNK else domain_size
        in_section = min(count, len(points) - domain_size)
        for first, end in windows(group, in_section):
            self.points(1, _differences(device, group, points, domain_size, first, end))
            report(end, count)
        if in_section < count:
            self._hash.update(_bytes_past_the_end(group.coordinates, ptau, domain_size))

    def digest(self) -> bytes:
        """Return the hash, 64 bytes."""
        return self._hash.digest()


def _differences(
    device: AnyDevice, group: Group, points: Words, domain_size: int, first: int, end: int
) -> Words:
    """Return points[domain_size + i] - points[i] for i from `first` to `end` - 1."""
    count = end - first
    operands = np.concatenate([points[domain_size + first : domain_size + end], points[first:end]])
    entries = np.arange(2 * count, dtype=np.uint32).reshape(2, count)
    entries[1] |= np.uint32(SIGN_BIT)
    starts = np.arange(0, 2 * count, 2)
    lengths = np.full(count, 2)
    return segment_sums(device, group, operands, entries.T.reshape(-1), starts, lengths)


def _bytes_past_the_end(modulus: Modulus, ptau: PowersOfTau, domain_size: int) -> bytes:
    """Return the uncompressed point that snarkjs computes if its read runs past the section.

    It is the point in the bytes after the section, minus the last power below the domain. The
    arithmetic is that of snarkjs for unreduced operands: additions, subtractions and Montgomery
    products of integers below 2**(8 * size).
    """
    size = modulus.bytes
    section = ptau.file.sections[2]
    section_end = section.offset + section.length
    next_bytes = bytes(ptau.file.data[section_end : section_end + 2 * size])
    if len(next_bytes) < 2 * size:
        raise InputError(
            "ends after section 2 (tau_g1), but snarkjs reads the bytes after it to "
            "hash a circuit that uses all powers; write the sections in snarkjs's order",
            path=ptau.path,
        )
    p, limit = modulus.value, 1 << 8 * size
    negative_inverse = -pow(p, -1, limit) % limit

    def add(a: int, b: int) -> int:
        result = a + b
        return (result - limit - p) % limit if result >= limit else result - p * (result >= p)

    def subtract(a: int, b: int) -> int:
        result = a - b
        return (result + limit + p) % limit if result < 0 else result

    def multiply(a: int, b: int) -> int:
        product = a * b
        result = (product + product * negative_inverse % limit * p) >> 8 * size
        return (result - p) % limit if result >= p else result

    x1, y1 = (int.from_bytes(next_bytes[offset : offset + size], "little") for offset in (0, size))
    x2, y2 = (
        int.from_bytes(np.ascontiguousarray(row, "<u4").tobytes(), "little")
        for row in ptau.tau_g1[domain_size - 1]
    )
    y2 = subtract(0, y2)
    x_difference, y_difference = subtract(x2, x1), subtract(y2, y1)
    # The addition mmadd-2007-bl of the Explicit-Formulas Database.
    square = multiply(x_difference, x_difference)
    double_square = add(square, square)
    i = add(double_square, double_square)
    j = multiply(x_difference, i)
    r = add(y_difference, y_difference)
    v = multiply(x1, i)
    x3 = subtract(subtract(multiply(r, r), j), add(v, v))
    y1_j = multiply(y1, j)
    y3 = subtract(multiply(subtract(v, x3), r), add(y1_j, y1_j))
    z3 = add(x_difference, x_difference)
    # The conversion to canonical affine coordinates uses ordinary arithmetic.
    if not z3 % p:
        raise InputError(
            "has bytes after section 2 (tau_g1) that are not a point, but snarkjs "
            "reads them to hash a circuit that uses all powers; get the file again "
            "from its source",
            path=ptau.path,
        )
    inverse_radix = pow(limit, -1, p)
    scale = pow(z3 * inverse_radix, -1, p)
    x, y = x3 * inverse_radix * scale**2 % p, y3 * inverse_radix * scale**3 % p
    return x.to_bytes(size, "big") + y.to_bytes(size, "big")
