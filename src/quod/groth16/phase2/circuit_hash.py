"""The hash of a circuit's key before any contribution, as snarkjs computes it.

BLAKE2b-512 of the points of the key, uncompressed, each array after its length as a big-endian u32,
and of tau**i * (tau**n - 1) in G1 for i below n - 1, n the size of the domain, in place of h.

**A quirk that is part of the hash**: snarkjs reads these powers 2**14 at a time and does not shorten
the last read, so that from n = 2**15 on it hashes n of them, after n - 1 as their length. Where n is
all the powers that a file has, the last read runs past the section: what follows in the file is taken
for a point, and arithmetic goes on with integers that are not below the modulus. `_past_the_end`
repeats that arithmetic.
"""  # noqa: E501

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
"""Powers that snarkjs reads at a time."""


class CircuitHash:
    """The hash of a circuit; feed points in the order of the module's docstring."""

    def __init__(self, curve: str) -> None:
        self._groups = {degree: GROUPS[f"{curve}.g{degree}"] for degree in (1, 2)}
        self._hash = hashlib.blake2b()
        # Bytes of points are little work, and are hashed here.
        self._host = resolve_device("cpu")

    def count(self, number: int) -> None:
        """The length of an array."""
        self._hash.update(number.to_bytes(4, "big"))

    def points(self, degree: int, points: Words) -> None:
        """Points of G1 or G2, affine of shape (n, *group.shape)."""
        if len(points):
            self._hash.update(uncompressed(self._host, self._groups[degree], points).data)

    def powers(
        self,
        device: AnyDevice,
        ptau: PowersOfTau,
        domain_size: int,
        report: Callable[[int, int], None],
    ) -> None:
        """Hash the powers in place of h; `report` gets the number done and the total."""
        group, points = self._groups[1], ptau.tau_g1
        self.count(domain_size - 1)
        hashed = domain_size - 1 if domain_size <= CHUNK else domain_size
        in_section = min(hashed, len(points) - domain_size)
        for first, last in windows(group, in_section):
            self.points(1, _differences(device, group, points, domain_size, first, last))
            report(last, hashed)
        if in_section < hashed:
            self._hash.update(_past_the_end(group.coordinates, ptau, domain_size))

    def digest(self) -> bytes:
        """The 64 bytes."""
        return self._hash.digest()


def _differences(
    device: AnyDevice, group: Group, points: Words, domain_size: int, first: int, last: int
) -> Words:
    """points[domain_size + i] - points[i] for i from `first` to before `last`."""
    count = last - first
    both = np.concatenate([points[domain_size + first : domain_size + last], points[first:last]])
    entries = np.arange(2 * count, dtype=np.uint32).reshape(2, count)
    entries[1] |= np.uint32(SIGN_BIT)
    starts = np.arange(0, 2 * count, 2)
    lengths = np.full(count, 2)
    return segment_sums(device, group, both, entries.T.reshape(-1), starts, lengths)


def _past_the_end(modulus: Modulus, ptau: PowersOfTau, domain_size: int) -> bytes:
    """The uncompressed bytes of what snarkjs computes where its read runs past the section.

    Bytes behind the section minus the last power below the domain, as its additions, subtractions
    and Montgomery products of integers below W = 2**(8 * size) treat operands that are not reduced.
    """
    size = modulus.bytes
    section = ptau.file.sections[2]
    end = section.offset + section.length
    following = bytes(ptau.file.data[end : end + 2 * size])
    if len(following) < 2 * size:
        raise InputError(
            "ends after section 2 (tau_g1), but snarkjs reads the bytes after it to "
            "hash a circuit that uses all powers; write the sections in snarkjs's order",
            path=ptau.path,
        )
    p, limit = modulus.value, 1 << 8 * size
    inverse = -pow(p, -1, limit) % limit

    def add(a: int, b: int) -> int:
        total = a + b
        return (total - limit - p) % limit if total >= limit else total - p * (total >= p)

    def subtract(a: int, b: int) -> int:
        total = a - b
        return (total + limit + p) % limit if total < 0 else total

    def multiply(a: int, b: int) -> int:
        product = a * b
        total = (product + product * inverse % limit * p) >> 8 * size
        return (total - p) % limit if total >= p else total

    x1, y1 = (int.from_bytes(following[at : at + size], "little") for at in (0, size))
    x2, y2 = (
        int.from_bytes(np.ascontiguousarray(row, "<u4").tobytes(), "little")
        for row in ptau.tau_g1[domain_size - 1]
    )
    y2 = subtract(0, y2)
    run, rise = subtract(x2, x1), subtract(y2, y1)
    square = multiply(run, run)
    square = add(square, square)
    i = add(square, square)
    j = multiply(run, i)
    r = add(rise, rise)
    v = multiply(x1, i)
    x3 = subtract(subtract(multiply(r, r), j), add(v, v))
    y1_j = multiply(y1, j)
    y3 = subtract(multiply(subtract(v, x3), r), add(y1_j, y1_j))
    z3 = add(run, run)
    # Back to integers and affine coordinates, with ordinary arithmetic.
    if not z3 % p:
        raise InputError(
            "has bytes after section 2 (tau_g1) that are not a point, but snarkjs "
            "reads them to hash a circuit that uses all powers; get the file again "
            "from its source",
            path=ptau.path,
        )
    leave = pow(limit, -1, p)
    scale = pow(z3 * leave, -1, p)
    x, y = x3 * leave * scale**2 % p, y3 * leave * scale**3 % p
    return x.to_bytes(size, "big") + y.to_bytes(size, "big")
