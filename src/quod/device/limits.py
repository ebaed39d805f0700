"""Throughput limits of devices: bytes of memory and 32-bit multiply-adds a second."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from quod.frozen import frozen

_UNKNOWN: Mapping[str, float] = MappingProxyType({})


@frozen
class Limits:
    """Throughput limits of a device.

    source: short description of where the figures come from.
    flop_per_second: floating-point operations by operand type, with f32 sums, if known; a
    multiply-add counts as two. "int8" stands for integer operations with 32-bit sums.
    """

    bytes_per_second: float
    multiply_adds_per_second: float
    source: str
    flop_per_second: Mapping[str, float] = _UNKNOWN

    def of_floats(self, element: str) -> Limits | None:
        """Return the limits for multiply-adds of floats of a type; None if they are unknown."""
        flop = self.flop_per_second.get(element)
        return None if flop is None else Limits(self.bytes_per_second, flop / 2, self.source)

    @property
    def ridge(self) -> float:
        """Multiply-adds per byte above which the multiplier is the limit."""
        return self.multiply_adds_per_second / self.bytes_per_second

    def least_seconds(self, bytes: int, multiply_adds: int) -> float:
        """Return the least time of work that moves `bytes` and multiplies and adds so often."""
        by_memory = bytes / self.bytes_per_second
        return max(by_memory, multiply_adds / self.multiply_adds_per_second)

    def limited_by(self, bytes: int, multiply_adds: int) -> Literal["memory", "multiplier"]:
        """Return the resource that limits such work."""
        return "multiplier" if multiply_adds > self.ridge * bytes else "memory"
