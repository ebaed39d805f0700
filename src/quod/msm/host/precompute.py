"""Precomputed multiples of bases on a CPU, so that an MSM needs fewer windows.

With the multiples 2**(j*t) * P for j below `copies`, digits at bit positions that differ by a
multiple of t share a window of buckets (Brickell, Gordon, McCurley, Wilson, EUROCRYPT '92, for one
base). The MSM then has more bases and shorter scalars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.curve.group import Group
from quod.curve.weierstrass.point import PointArithmetic
from quod.kernel.definition import kernel
from quod.kernel.ir.types import u64
from quod.kernel.ir.value import U32, U64, Pointer

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder


@kernel
def double_repeatedly(
    k: Builder,
    count: U32,
    copies: U32,
    doublings: U32,
    points: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Compute points[j * count + i] = 2**(j * doublings) * points[i], 1 <= j < copies, affine."""
    curve = PointArithmetic(k, group)
    i = k.global_id()
    with k.if_(i < count):
        base_point = curve.bounded(curve.extend(curve.load_affine(points, i)))
        with k.range(1, copies, carry=base_point) as outer:
            with k.range(0, doublings, carry=outer.carried) as inner:
                inner.next(curve.bounded(curve.double(inner.carried)))
            index = outer.index.cast(u64) * count.cast(u64) + i.cast(u64)
            k.store(
                points, index * group.point_words, *curve.to_affine_words(inner.results)
            )  # fmt: skip
            outer.next(inner.results)
