"""A limit on the hashes that a verification computes because of a file's contents.

A beacon's value is hashed 2**n times, and the first challenge is a hash of all powers of the
ceremony, even if the file has few of them. So a small file can require years of work.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.ceremony.details import Details
from quod.errors import InputError
from quod.validation import whole_number

MAX_HASHES = 1 << 28
"""The default limit on hashes: some minutes of one core."""


def check_hashes(
    path: str, details: Iterable[Details], max_hashes: object, first_challenge: int = 0
) -> None:
    """Raise InputError if a file's beacons and first challenge need more than `max_hashes` hashes.

    first_challenge: the number of blocks that the first challenge hashes.
    """
    limit = whole_number("max_hashes", max_hashes)
    beacons = sum(1 << detail.beacon.exponent for detail in details if detail.beacon is not None)
    total = beacons + first_challenge
    if total > limit:
        exponent = (total - 1).bit_length()
        cause = "beacons" if beacons >= first_challenge else "first challenge"
        raise InputError(
            f"needs more than {limit:,} hashes for its {cause}; if you trust its source, "
            f"allow them with --max-hashes {exponent} (in Python "
            f"max_hashes=2**{exponent})",
            path=path,
        )
