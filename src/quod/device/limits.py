"""What a device can do at most a second: bytes of its memory, multiply-adds of 32-bit words."""

from __future__ import annotations

from typing import Literal

from quod.frozen import frozen


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
