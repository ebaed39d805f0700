"""The limits of NVIDIA's GPUs, from what their driver says of them.

The multiplier of NVIDIA's multiprocessors makes half as many 32 by 32 to 64 bit products
(`IMAD.WIDE.U32`, with or without carries) as it has of the narrow kind: 32 a clock. Measured on
sm_90, where chains of them run at 31 and the product of BLS12-381's base field at 97 percent of 32;
other architectures from sm_75 on have the same pipe by NVIDIA's throughput table (CUDA Programming
Guide, "Arithmetic Instructions").
"""

from __future__ import annotations

from quod.device.cuda.properties import CudaProperties
from quod.device.limits import Limits

MULTIPLY_ADDS_A_CLOCK = 32
"""Multiply-adds of one multiprocessor a clock."""

MEASURED_BANDWIDTH = {"NVIDIA H200": 4.3e12}
"""By the driver's name of a GPU: the best of copies of large buffers, bytes read and written."""

FLOP_A_CLOCK = {
    (9, 0): {"f32": 256, "f16": 4096, "bf16": 4096, "tf32": 2048, "int8": 8192, "e4m3": 8192},
}  # fmt: skip
"""Operations of one multiprocessor a clock, by compute capability: 128 multiply-adds of f32, and
the tensor cores' dense products with sums in f32 (NVIDIA, "H100 Tensor Core GPU Architecture",
2022, table 2)."""

# What copies reach of the memory's clock times its width; the H200's share.
_REACHED_BANDWIDTH = 0.88


def limits_of(properties: CudaProperties) -> Limits | None:
    """Return the limits of a GPU; None if the driver does not report its memory's clock or width.

    Bandwidth is measured for some GPUs, and else computed from the memory's clock (two transfers
    per cycle) and width. Multiply-add throughput is computed from the multiprocessors and their
    clock.
    """
    multiprocessors, clock = properties.multiprocessors, properties.clock_khz * 1e3
    multiply_adds = MULTIPLY_ADDS_A_CLOCK * multiprocessors * clock
    flop = {
        element: count * multiprocessors * clock
        for element, count in FLOP_A_CLOCK.get(properties.capability, {}).items()
    }
    pipe = f"{MULTIPLY_ADDS_A_CLOCK} a clock × {multiprocessors} × {clock / 1e6:.0f} MHz"
    measured = MEASURED_BANDWIDTH.get(properties.name)
    if measured is not None:
        return Limits(measured, multiply_adds, f"{pipe}; copies as measured", flop)
    peak = 2 * properties.memory_clock_khz * 1e3 * properties.memory_bus_bits / 8
    if not peak:
        return None
    memory = (
        f"{_REACHED_BANDWIDTH:.0%} of 2 × {properties.memory_clock_khz / 1e3:.0f} MHz × "
        f"{properties.memory_bus_bits} bits"
    )
    return Limits(_REACHED_BANDWIDTH * peak, multiply_adds, f"{pipe}; {memory}", flop)
