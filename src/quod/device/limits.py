"""What a GPU can do at most: bytes of its memory, and multiply-adds of 32-bit words, a second.

The multiplier of NVIDIA's multiprocessors makes half as many 32 by 32 to 64 bit products
(`IMAD.WIDE.U32`, with or without carries) as it has of the narrow kind: 32 a clock. Measured on
sm_90, where chains of them run at 31 and the product of BLS12-381's base field at 97 percent of 32;
other architectures from sm_75 on have the same pipe by NVIDIA's throughput table (CUDA Programming
Guide, "Arithmetic Instructions").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from quod.device.protocol import AnyDevice
from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.cuda.properties import CudaProperties

MULTIPLY_ADDS_A_CLOCK = 32
"""Of one multiprocessor."""

MEASURED_BANDWIDTH = {"NVIDIA H200": 4.3e12}
"""By the driver's name of a GPU: the best of copies of large buffers, bytes read and written."""

# What copies reach of the memory's clock times its width; the H200's share.
_REACHED_BANDWIDTH = 0.88


@frozen
class Limits:
    """Two ceilings. `source` says where they come from, in a few words."""

    bytes_per_second: float
    multiply_adds_per_second: float
    source: str

    @property
    def ridge(self) -> float:
        """Multiply-adds a byte from which on the multiplier is the limit."""
        return self.multiply_adds_per_second / self.bytes_per_second

    def least_seconds(self, bytes: int, multiply_adds: int) -> float:
        """The time that work takes at the limit."""
        by_memory = bytes / self.bytes_per_second
        return max(by_memory, multiply_adds / self.multiply_adds_per_second)

    def limited_by(self, bytes: int, multiply_adds: int) -> Literal["memory", "multiplier"]:
        """Which of the two it is that work meets first."""
        return "multiplier" if multiply_adds > self.ridge * bytes else "memory"


def limits_of(properties: CudaProperties) -> Limits | None:
    """The limits of a GPU; None where the driver does not tell its memory's clock or width.

    What was not measured follows from what the driver says: the multiplier from the
    multiprocessors and their clock, the memory from its clock (two transfers each) and width.
    """
    multiprocessors, clock = properties.multiprocessors, properties.clock_khz * 1e3
    multiply_adds = MULTIPLY_ADDS_A_CLOCK * multiprocessors * clock
    pipe = f"{MULTIPLY_ADDS_A_CLOCK} a clock × {multiprocessors} × {clock / 1e6:.0f} MHz"
    measured = MEASURED_BANDWIDTH.get(properties.name)
    if measured is not None:
        return Limits(measured, multiply_adds, f"{pipe}; copies as measured")
    peak = 2 * properties.memory_clock_khz * 1e3 * properties.memory_bus_bits / 8
    if not peak:
        return None
    memory = (
        f"{_REACHED_BANDWIDTH:.0%} of 2 × {properties.memory_clock_khz / 1e3:.0f} MHz × "
        f"{properties.memory_bus_bits} bits"
    )
    return Limits(_REACHED_BANDWIDTH * peak, multiply_adds, f"{pipe}; {memory}")


def limits_of_device(device: AnyDevice) -> Limits | None:
    """The limits of a device of any kind; None where they are not known, as on CPUs."""
    if device.kind != "cuda":
        return None
    from quod.device.cuda.device import CudaDevice

    assert isinstance(device, CudaDevice)
    return limits_of(device.properties)
