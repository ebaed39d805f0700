"""Long messages of elements: their digests are computed side by side, and absorbed three at a time.

A chain over thousands of elements would take one hash after the other. The elements are cut into
runs of RUN_ELEMENTS, the last one filled up with zeros; the digest of a run is the state of a
transcript that has absorbed it alone. Messages of DIGESTS_EACH digests follow, the last one filled
up with zero bytes.
"""

from __future__ import annotations

from quod.field.element_bytes import element_bytes
from quod.field.spec import FieldSpec
from quod.hash.function import DIGEST_BYTES
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript

RUN_ELEMENTS = 32

DIGESTS_EACH = 3
"""With the state and a header as much as SHA3-256 takes in one permutation."""


def runs_of(count: int) -> int:
    """The runs of so many elements."""
    return -(-count // RUN_ELEMENTS)


def messages_of(count: int) -> int:
    """The messages of digests for so many elements."""
    return -(-runs_of(count) // DIGESTS_EACH)


def absorb_runs(transcript: Transcript, label: Label, field: FieldSpec, data: bytes) -> None:
    """Absorb the bytes of elements, of which there is at least one."""
    size = RUN_ELEMENTS * element_bytes(field)
    digests = b""
    for at in range(0, len(data), size):
        run = Transcript(hash=transcript.hash, recursive=transcript.hash.is_algebraic)
        run.absorb(label, data[at : at + size].ljust(size, b"\0"), field)
        digests += run.state
    size = DIGESTS_EACH * DIGEST_BYTES
    for at in range(0, len(digests), size):
        group = digests[at : at + size].ljust(size, b"\0")
        transcript.absorb(label, group, transcript.hash.field)
