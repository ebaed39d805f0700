"""The memory of keys per tier, as sums of named parts that are compared with budgets."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from quod.device.memory.budget import bytes_text
from quod.frozen import frozen
from quod.service.errors import KeyTooLargeError


class Tier(enum.Enum):
    """The memory tier of a key's fastest copy."""

    DISK = "disk"
    HOST = "host"
    DEVICE = "device"


@frozen
class Needs:
    """The memory of a key: bytes by named part.

    held: in host memory once the key is read.
    ready: in `tier`, in addition, once the key is ready to prove.
    """

    held: Mapping[str, int]
    ready: Mapping[str, int]
    tier: Tier

    def parts(self, tier: Tier, *, ready: bool = True) -> dict[str, int]:
        """Return the parts in a tier: of a ready key, or else of a key that is only held."""
        sizes = dict(self.held) if tier is Tier.HOST else {}
        return sizes | (dict(self.ready) if ready and tier is self.tier else {})

    def bytes(self, tier: Tier, *, ready: bool = True) -> int:
        """Return the sum of `parts`."""
        return sum(self.parts(tier, ready=ready).values())


def check_fits(what: str, tier: Tier, parts: Mapping[str, int], budget: int) -> None:
    """Raise KeyTooLargeError if the sum of the parts exceeds a tier's budget."""
    needed = sum(parts.values())
    if needed > budget:
        parts_text = " + ".join(f"{name} {bytes_text(size)}" for name, size in parts.items())
        location = "on the device" if tier is Tier.DEVICE else "in host memory"
        raise KeyTooLargeError(
            f"{what} needs {bytes_text(needed)} {location} ({parts_text}), and the key budget "
            f"there is {bytes_text(budget)}; raise the budget, or prove on a machine "
            "with more memory",
            parts=parts,
            budget=budget,
        )
