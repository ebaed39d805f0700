"""Throughput limits of devices: memory bandwidth and multiply-adds per second."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from quod.frozen import frozen

_UNKNOWN: Mapping[str, float] = MappingProxyType({})


@frozen
class Limits:
    """Throughput limits of a device.

    bytes_per_second: the memory bandwidth.
    multiply_adds_per_second: the throughput of 32-bit integer multiply-adds.
    source: a short description of the source of the figures.
    flop_per_second: the floating-point operations per second by operand type, with f32
        accumulation; a multiply-add counts as two. "int8" is integer operations with 32-bit
        accumulation. Unknown types are missing.
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
        """The intensity, in multiply-adds per byte, above which arithmetic is the limit."""
        return self.multiply_adds_per_second / self.bytes_per_second

    def least_seconds(self, bytes: int, multiply_adds: int) -> float:
        """Return the minimum time of work with these bytes moved and multiply-adds, in seconds."""
        memory_seconds = bytes / self.bytes_per_second
        return max(memory_seconds, multiply_adds / self.multiply_adds_per_second)

    def limited_by(self, bytes: int, multiply_adds: int) -> Literal["memory", "multiplier"]:
        """Return the resource that limits work with these bytes moved and multiply-adds."""
        return "multiplier" if multiply_adds > self.ridge * bytes else "memory"
