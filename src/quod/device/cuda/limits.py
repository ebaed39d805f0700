"""The throughput limits of NVIDIA's GPUs, from properties that their driver reports.

A multiprocessor computes 32 products of 32 by 32 to 64 bits (`IMAD.WIDE.U32`, with or without
carries) per clock, half the rate of products of 32 bits. Measured on sm_90: chains of such products
reach 31 per clock, and the product of BLS12-381's base field 97 percent of 32. By NVIDIA's
throughput table, other architectures from sm_75 on have the same unit (CUDA Programming Guide,
"Arithmetic Instructions").
"""

from __future__ import annotations

from quod.device.cuda.properties import CudaProperties
from quod.device.limits import Limits

MULTIPLY_ADDS_A_CLOCK = 32
"""Multiply-adds per multiprocessor and clock."""

MEASURED_BANDWIDTH = {"NVIDIA H200": 4.3e12}
"""Bytes read plus written per second in the fastest copy of large buffers, by the GPU's name."""

FLOP_A_CLOCK = {
    (9, 0): {"f32": 256, "f16": 4096, "bf16": 4096, "tf32": 2048, "int8": 8192, "e4m3": 8192},
}  # fmt: skip
"""Operations per multiprocessor and clock, by compute capability: 128 multiply-adds of f32, and
the tensor cores' dense products with sums in f32 (NVIDIA, "H100 Tensor Core GPU Architecture",
2022, table 2)."""

# The fraction of clock times width that copies reach, measured on an H200.
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
    arithmetic_text = f"{MULTIPLY_ADDS_A_CLOCK} a clock × {multiprocessors} × {clock / 1e6:.0f} MHz"
    measured = MEASURED_BANDWIDTH.get(properties.name)
    if measured is not None:
        return Limits(measured, multiply_adds, f"{arithmetic_text}; copies as measured", flop)
    peak = 2 * properties.memory_clock_khz * 1e3 * properties.memory_bus_bits / 8
    if not peak:
        return None
    memory_text = (
        f"{_REACHED_BANDWIDTH:.0%} of 2 × {properties.memory_clock_khz / 1e3:.0f} MHz × "
        f"{properties.memory_bus_bits} bits"
    )
    return Limits(
        _REACHED_BANDWIDTH * peak, multiply_adds, f"{arithmetic_text}; {memory_text}", flop
    )
