"""Batch computation of y from x on a curve, for decoding points and for hashing to a curve.

A square root is a power that takes one squaring per bit of the modulus, about 0.1 ms on plain
integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.array import Point
from quod.curve.encoding.points import encode_point, point_bytes
from quod.curve.group import Group
from quod.curve.weierstrass.affine import affine_group
from quod.curve.weierstrass.point import plus_a_times
from quod.device.discovery import resolve_device
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import from_integers, to_integers
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types


@kernel
def curve_ordinates(
    k: Builder, n: U32, xs: Pointer[U64], ys: Pointer[U64], has_root: Pointer[U32], *, group: Group
) -> None:
    """ys[i] = a y of the curve at xs[i] if has_root[i] = 1; has_root[i] = 0 if there is none."""
    f, i = prime_field(k, group.coordinates), k.global_id()
    with k.if_(i < n):
        x = f.bounded(f.load(xs, i))
        right_side = f.bounded(
            plus_a_times(f, group, f.square(x) * x, x) + f.constant(group.parameters.b)
        )
        y = f.bounded(f.power(right_side, (group.coordinates.value + 1) // 4))
        f.store(ys, i, y)
        has_root[i] = k.select(f.is_zero(f.square(y) - right_side), k.constant(1, types.u32), 0)


def has_quick_roots(group: Group) -> bool:
    """Return whether `ordinates` supports a group: coordinates in Fq, with q = 3 modulo 4."""
    return group.degree == 1 and group.coordinates.value % 4 == 3


def ordinates(group: Group, xs: Sequence[int]) -> list[int | None]:
    """Return one of the two y at each x, or None where the curve has no point with this x.

    group: a group with `has_quick_roots`. xs: integers below the modulus.
    """
    if not xs:
        return []
    device, modulus = resolve_device("cpu"), group.coordinates
    ys, has_root = unwritten(len(xs), modulus.words), unwritten(len(xs), 1)
    kernel = device.compile(curve_ordinates, group=group)
    device.launch(
        kernel, -(-len(xs) // kernel.lanes), len(xs), from_integers(modulus, xs), ys, has_root
    )  # fmt: skip
    check_written(device, "coordinates of points", ys)
    check_written(device, "coordinates of points", has_root)
    flags = has_root[:, 0].tolist()
    return [y if flag else None for y, flag in zip(to_integers(modulus, ys), flags, strict=True)]


def decode_compressed(group: Group, data: bytes) -> list[Point] | None:
    """Decode concatenated encodings of compressed points, as `encode_point` writes them.

    Returns None if callers must decode the points one by one: an encoding is invalid, the group has
    a cofactor other than 1, or `has_quick_roots` is false.
    """
    size, law = point_bytes(group), affine_group(group)
    if law.cofactor != 1 or not has_quick_roots(group):
        return None
    encodings = [data[start : start + size] for start in range(0, len(data), size)]
    infinity, q = encode_point(group, None), law.field.p
    sign = 1 << (8 * size - 1)
    numbers = [int.from_bytes(encoding, "little") for encoding in encodings if encoding != infinity]
    xs = [number & (sign - 1) for number in numbers]
    if any(x >= q for x in xs):
        return None
    points = iter(zip(numbers, xs, ordinates(group, xs), strict=True))
    decoded: list[Point] = []
    for encoding in encodings:
        if encoding == infinity:
            decoded.append(None)
            continue
        number, x, y = next(points)
        if not y:
            return None
        decoded.append((x, y if law.field.is_larger(y) == bool(number & sign) else q - y))
    return decoded
