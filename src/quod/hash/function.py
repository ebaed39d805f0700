"""Interfaces of the hashes of transcripts and commitments, and the header of messages.

The state of a transcript is a digest; absorbing a message gives the next state. A message of bytes
has a header of four bytes: its length, three bytes little-endian, and its label
(`quod.transcript.Label`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from quod.errors import InputError

if TYPE_CHECKING:
    from quod.field.moduli import Modulus
    from quod.hash.words import Load, Words
    from quod.kernel.builder.builder import Builder
    from quod.kernel.ir.value import Value

DIGEST_BYTES = 32
STATE_WORDS = DIGEST_BYTES // 4
"""32-bit words of a digest, and so of the state of a transcript."""

DIGEST_LABEL = 14
"""The label of a run of elements in a digest; no message of a transcript has it."""

MAX_BYTES = (1 << 24) - 1
"""The largest length of a message in bytes. For a longer message its digest is absorbed."""


def check_length(length: int) -> None:
    """Raise InputError for a message that is too long."""
    if length > MAX_BYTES:
        raise InputError(f"a message has at most {MAX_BYTES} bytes, not {length}; take its digest")


def header(label: int, length: int) -> bytes:
    """Return the four bytes before a message; raise InputError if it is too long."""
    check_length(length)
    return length.to_bytes(3, "little") + bytes([label])


class HashFunction(Protocol):
    """A hash on the host, and the maker of its form inside kernels; digests are DIGEST_BYTES long.

    `are_elements` means that bytes are encoded elements of `field`, which a hash over the field
    absorbs as elements.
    """

    @property
    def field(self) -> Modulus | None:
        """The prime field of a hash over a field; None for a hash of bytes."""

    @property
    def collision_bits(self) -> int:
        """Minus log2 of the probability that one attempt finds a collision."""

    @property
    def run_words(self) -> int:
        """The number of 32-bit words of a run, whose digest `digest_by_runs` hashes."""

    @property
    def circuit_layers(self) -> int:
        """The depth of circuits, in layers, against which one hash of a delay protects."""

    def digest(self, data: bytes, *, are_elements: bool) -> bytes:
        """Return the digest of a message."""

    def digest_by_runs(self, data: bytes, *, are_elements: bool, level: int) -> bytes:
        """Hash the runs of a message, then the runs of their digests, until one digest is left."""

    def digests_of_runs(self, runs: Sequence[bytes], level: int) -> list[bytes]:
        """Return the digest of each run on a level; hashes over a field need runs of one length."""

    def absorb(self, state: bytes, label: int, message: bytes, *, are_elements: bool) -> bytes:
        """Return the state after a message."""

    def prefixed_digest(self, prefix: bytes, digest: bytes) -> bytes:
        """Return the message that consists of the bytes `prefix` and then a digest."""

    @property
    def has_kernel(self) -> bool:
        """True if the hash has a kernel form."""

    def in_kernel(self, k: Builder, *, alone: bool) -> KernelHash:
        """Construct the kernel form at a kernel's top, if `has_kernel`.

        alone: each instance has its own state.
        """


class KernelHash(Protocol):
    """A hash inside one kernel: states and messages are 32-bit words."""

    @property
    def is_shared(self) -> bool:
        """True if all instances of a workgroup share one state."""

    def absorbed(self, state: Words, label: int, message: Sequence[Value]) -> Words:
        """Return the state after a message of elements."""

    def absorbed_prefix(
        self, state: Sequence[Value], header: Value, message: Sequence[Value], length: Value
    ) -> Words:
        """Return the state after `header` and the first `length` words of a message."""

    def digest_run(self, load: Load, words: int, level: Value) -> Words:
        """Return the digest of `words` words of elements, read by `load`, on a level."""
