"""Register the kernels that sort the digits of an MSM on a GPU, for two sizes."""

from __future__ import annotations

from typing import Any

from quod.curve.groups import GROUPS
from quod.kernel.registry import register
from quod.msm.gpu.buckets import chunks
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.device_plan import SortShape
from quod.msm.gpu.sort import binning, infinity_mask, split
from quod.msm.gpu.sort.digits import DigitShape

_GROUP = GROUPS["bls12_381.g1"]
_MAXIMUM = _GROUP.scalars.value - 1


def _register(size: str, plan: GpuMsmPlan, *, masked: bool) -> None:
    shape = SortShape.of(plan)
    digits = DigitShape.of(plan, shape.low_bits, indexed=masked, masked=masked)
    bins: dict[str, Any] = {"bins": shape.bins}
    register(f"msm.gpu.count_bins[{size}]", binning.count_bins, shape=digits, tuning=plan.sort)
    register(f"msm.gpu.scan_bins[{size}]", binning.scan_bins, tile=plan.sort.tile, **bins)
    register(f"msm.gpu.scatter_bins[{size}]", binning.scatter_bins, shape=digits, tuning=plan.sort)
    if not shape.direct:
        bins |= {"low_bits": shape.low_bits, "tuning": plan.sort}
        register(f"msm.gpu.count_buckets[{size}]", binning.count_buckets, **bins)
        register(f"msm.gpu.scatter_buckets[{size}]", binning.scatter_buckets, **bins)
    block = {"block_bits": shape.block_bits}
    register(
        f"msm.gpu.place_buckets[{size}]", chunks.place_buckets, start_bits=shape.start_bits, **block
    )
    register(
        f"msm.gpu.scan_chunks[{size}]", chunks.scan_chunks, blocks=shape.blocks,
        buckets=plan.all_buckets,
    )  # fmt: skip
    register(f"msm.gpu.make_chunks[{size}]", chunks.make_chunks, **block)


def register_sorting() -> None:
    """Register the sorting kernels of MSMs of 2**10 and 2**24 scalars over BLS12-381."""
    _register("2**10", GpuMsmPlan(_GROUP, 1 << 10, 12, 1, 22, _MAXIMUM, 8), masked=True)
    _register("2**24", GpuMsmPlan(_GROUP, 1 << 24, 22, 1, 12, _MAXIMUM, 208), masked=False)
    register("msm.gpu.mark_infinite", infinity_mask.mark_infinite, words=_GROUP.point_words)
    register(
        "msm.gpu.split_scalars", split.split_scalars, maximum=_MAXIMUM, indexed=True, masked=True
    )
    register("msm.gpu.cut_evenly", split.cut_evenly)
    register("msm.gpu.gather_scalars", split.gather_scalars, indexed=True)
