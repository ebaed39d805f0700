"""Long messages of elements, absorbed by digests of their runs.

A hash chain over thousands of elements would be sequential. So the elements are divided into runs
of RUN_ELEMENTS, the last one padded with zeros, whose digests are computed in parallel. The digest
of a run is the state of a new transcript that has absorbed the run. Messages of DIGESTS_EACH
digests are absorbed, the last one padded with zero bytes.
"""

from __future__ import annotations

from quod.field.element_bytes import element_bytes
from quod.field.spec import FieldSpec
from quod.hash.function import DIGEST_BYTES
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript

RUN_ELEMENTS = 32

DIGESTS_EACH = 3
"""The digests per message: with the state and a header they fill one block of SHA3-256."""


def runs_of(count: int) -> int:
    """Return the number of runs of `count` elements."""
    return -(-count // RUN_ELEMENTS)


def messages_of(count: int) -> int:
    """Return the number of messages of digests for `count` elements."""
    return -(-runs_of(count) // DIGESTS_EACH)


def absorb_runs(transcript: Transcript, label: Label, field: FieldSpec, data: bytes) -> None:
    """Absorb the bytes of at least one element by the digests of their runs."""
    size = RUN_ELEMENTS * element_bytes(field)
    digests = b""
    for start in range(0, len(data), size):
        run = Transcript(hash=transcript.hash, recursive=transcript.hash.is_algebraic)
        run.absorb(label, data[start : start + size].ljust(size, b"\0"), field)
        digests += run.state
    size = DIGESTS_EACH * DIGEST_BYTES
    for start in range(0, len(digests), size):
        group = digests[start : start + size].ljust(size, b"\0")
        transcript.absorb(label, group, transcript.hash.field)
