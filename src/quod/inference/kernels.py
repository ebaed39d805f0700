"""The kernels of inference by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.inference.network import dense_sums
from quod.inference.transformer.kernels.arithmetic import Planes
from quod.inference.transformer.kernels.attention import attend, rotate_and_store
from quod.inference.transformer.kernels.product import Result, group_sums, product
from quod.inference.transformer.kernels.rows import activate, embed, normalise
from quod.kernel.registry import register

_ONE, _TWO, _WIDE = Planes(1, 16), Planes(2, 8), Planes(2, 12)

register("inference.perceptron_sums", dense_sums)
register("inference.embed", embed, bits=8, group=32, positions=False)
register("inference.normalise.rms", normalise, centred=False, planes=_ONE)
register("inference.normalise.layer", normalise, centred=True, planes=_TWO)
register("inference.group_sums", group_sums, group=32)
register(
    "inference.rotate_and_store", rotate_and_store, heads=9, kv_heads=3, head_pairs=32, rotary=True
)
for _name, _tile in (("", 1), ("_tile", 4)):
    register(
        f"inference.attend{_name}", attend, heads=9, kv_heads=3, head_width=64, planes=_ONE,
        tile=_tile,
    )  # fmt: skip
register("inference.activate", activate, gated=True, planes=_WIDE)
for _name, _bits, _planes, _tile, _result in (
    ("4_bits", 4, _ONE, 1, Result.ROUND),
    ("4_bits_tile", 4, _ONE, 4, Result.ROUND),
    ("4_bits_wide", 4, _WIDE, 1, Result.ADD),
    ("8_bits", 8, _ONE, 1, Result.SUM),
    ("16_bits", 16, _TWO, 1, Result.ROUND),
):
    register(
        f"inference.product.{_name}", product, bits=_bits, group=32, planes=_planes, tile=_tile,
        parts=8, result=_result, has_bias=False, has_sums=_tile > 1,
    )  # fmt: skip
