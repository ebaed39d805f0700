"""Beacons: contributions whose secret is derived from a previously unknown public value.

The value is hashed 2**n times with SHA-256, so that trying many values is infeasible. The result
seeds the stream from which secrets are drawn, as in snarkjs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from quod.ceremony.chacha import ChaChaStream
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import plain_bytes, whole_number

MIN_EXPONENT, MAX_EXPONENT = 10, 63
MAX_BYTES = 255

# The number of hashes between two reports of progress.
_HASHES_PER_REPORT = 1 << 16


@frozen
class Beacon:
    """A public value, from which the secrets of a contribution are derived.

    value: the public value, 1 to 255 bytes.
    exponent: the value is hashed 2**exponent times.
    """

    value: bytes
    exponent: int

    def __post_init__(self) -> None:
        low, high = MIN_EXPONENT, MAX_EXPONENT
        exponent = whole_number("the exponent of a beacon", self.exponent, low, high)
        value = plain_bytes("the value of a beacon", self.value)
        # Store an int and immutable bytes; a NumPy exponent could overflow.
        object.__setattr__(self, "exponent", exponent)
        object.__setattr__(self, "value", value)
        if not 1 <= len(self.value) <= MAX_BYTES:
            raise InputError(
                f"the value of a beacon must have 1 to {MAX_BYTES} bytes, not {len(self.value)}"
            )

    @classmethod
    def from_hex(cls, text: str, exponent: int) -> Beacon:
        """Parse a beacon's value from hexadecimal digits, with or without 0x; raises InputError."""
        digits = text.removeprefix("0x")
        try:
            value = bytes.fromhex(digits)
        except ValueError:
            value = b""
        if not value or len(value) * 2 != len(digits):
            raise InputError(f"a beacon must be bytes in hexadecimal, not {text[:80]!r}")
        return cls(value, exponent)

    def stream(self, report: Callable[[float], None] | None = None) -> ChaChaStream:
        """Hash the value 2**exponent times, and return a random stream seeded with the result.

        report: called with the fraction of hashes done.
        """
        digest, total, done = self.value, 1 << self.exponent, 0
        sha256 = hashlib.sha256
        while done < total:
            for _ in range(min(_HASHES_PER_REPORT, total - done)):
                digest = sha256(digest).digest()
            done += _HASHES_PER_REPORT
            if report is not None:
                report(min(1.0, done / total))
        return ChaChaStream(digest)

    def followed_stream(self, timeline: Timeline) -> ChaChaStream:
        """Return `stream`, computed as a stage of a timeline with progress."""
        with timeline.stage("beacon") as stage:
            return self.stream(lambda fraction: stage.progress(round(fraction * 1000), 1000))
