"""What a key takes where: the parts of a sum that is compared with a budget."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from quod.device.memory.budget import bytes_text
from quod.frozen import frozen
from quod.service.errors import KeyTooLargeError


class Tier(enum.Enum):
    """Where the fastest copy of a key is."""

    DISK = "disk"
    HOST = "host"
    DEVICE = "device"


@frozen
class Needs:
    """The bytes of a key: `held` in host memory once it is read, `ready` in `tier` to prove.

    Each is a sum of named parts. A key that is ready is held as well.
    """

    held: Mapping[str, int]
    ready: Mapping[str, int]
    tier: Tier

    def parts(self, tier: Tier, *, ready: bool = True) -> dict[str, int]:
        """What it takes in a tier, ready or only held."""
        found = dict(self.held) if tier is Tier.HOST else {}
        return found | (dict(self.ready) if ready and tier is self.tier else {})

    def bytes(self, tier: Tier, *, ready: bool = True) -> int:
        """The sum of `parts`."""
        return sum(self.parts(tier, ready=ready).values())


def check_fits(what: str, tier: Tier, parts: Mapping[str, int], budget: int) -> None:
    """`KeyTooLargeError` if parts are more than the budget of a tier, with the sum."""
    needed = sum(parts.values())
    if needed > budget:
        listed = " + ".join(f"{name} {bytes_text(size)}" for name, size in parts.items())
        where = "on the device" if tier is Tier.DEVICE else "in host memory"
        raise KeyTooLargeError(
            f"{what} needs {bytes_text(needed)} {where} ({listed}), and the budget of keys there "
            f"is {bytes_text(budget)}; raise the budget, or prove where there is more memory",
            parts=parts,
            budget=budget,
        )
