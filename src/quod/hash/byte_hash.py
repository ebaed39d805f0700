"""Hashes of bytes for transcripts and commitments, on the host and inside kernels.

The state after a message is the digest of the previous state, the header and the message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.hash.function import STATE_WORDS, header
from quod.hash.words import Load, Words
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

RUN_BYTES = 4096
"""Bytes of a run. A longer message is hashed as the digests of its runs."""

_COLLISION_BITS = 128
_BEFORE_WORDS = STATE_WORDS + 1
"""32-bit words before a message: the state and its header."""


class KernelDigest(ABC):
    """A hash of bytes inside one kernel; create it at the kernel's top."""

    is_shared: bool

    def __init__(self, k: Builder) -> None:
        self._k = k

    @abstractmethod
    def __call__(self, message: Sequence[Value]) -> Words:
        """Return the digest of a message; both are bytes in little-endian words of 32 bits."""

    @abstractmethod
    def digest_run(self, load: Load, words: int, level: Value) -> Words:
        """Return the digest of `words` words, read by `load`, and then a byte with the level."""

    @abstractmethod
    def digest_prefix(
        self, before: Sequence[Value], message: Sequence[Value], length: Value
    ) -> Words:
        """Return the digest of the words `before` and the first `length` words of a message."""

    def absorbed(self, state: Words, label: int, message: Sequence[Value]) -> Words:
        """Return the state after a message of elements."""
        begin = int.from_bytes(header(label, 4 * len(message)), "little")
        return self([*state, self._k.constant(begin, types.u32), *message])

    def absorbed_prefix(
        self, state: Sequence[Value], header: Value, message: Sequence[Value], length: Value
    ) -> Words:
        """Return the state after the first `length` words of a message."""
        return self.digest_prefix([*state, header], message, length)

    def padded(
        self, before: Sequence[Value], message: Sequence[Value], length: Value, mark: int,
        count: int,
    ) -> list[Value]:  # fmt: skip
        """Return `count` words: `before`, the first `length` of the message, `mark`, and zeros."""
        k, zero = self._k, self._k.constant(0, types.u32)
        words = [*before]
        for index in range(count - len(before)):
            end = k.select(length == index, k.constant(mark, types.u32), zero)
            words.append(k.select(length > index, message[index], end)
                         if index < len(message) else end)  # fmt: skip
        return words


@frozen
class ByteHash:
    """A hash of bytes.

    reference: returns the 32 bytes of a message's digest.
    circuit_layers: the depth of circuits, in layers, against which one hash of a sequential delay
        protects. It must not exceed the layers that a circuit needs to compute a hash.
    kernel: makes the form inside a kernel from the builder and `alone`; None for a hash that only
        the host computes.
    """

    reference: Callable[[bytes], bytes]
    circuit_layers: int
    kernel: Callable[[Builder, bool], KernelDigest] | None = None

    @property
    def field(self) -> Modulus | None:
        """None: the hash is not over a field."""
        return None

    @property
    def collision_bits(self) -> int:
        """Minus log2 of the probability that an attempt finds a collision: half a digest's bits."""
        return _COLLISION_BITS

    @property
    def run_words(self) -> int:
        """The number of 32-bit words of a run."""
        return RUN_BYTES // 4

    @property
    def has_kernel(self) -> bool:
        """True if the hash has a kernel form."""
        return self.kernel is not None

    def digest(self, data: bytes, *, are_elements: bool = False) -> bytes:
        """Return the digest of a message."""
        return self.reference(data)

    def digest_by_runs(self, data: bytes, *, are_elements: bool = False, level: int = 0) -> bytes:
        """Hash the runs of a message, then the runs of their digests, until one digest is left."""
        while True:
            starts = range(0, max(1, len(data)), RUN_BYTES)
            digests = self.digests_of_runs(
                [data[start : start + RUN_BYTES] for start in starts], level
            )
            if len(digests) == 1:
                return digests[0]
            data, level = b"".join(digests), level + 1

    def digests_of_runs(self, runs: Sequence[bytes], level: int) -> list[bytes]:
        """Return the digest of each run followed by a byte with the level."""
        level_byte = bytes([level])
        return [self.reference(run + level_byte) for run in runs]

    def absorb(
        self, state: bytes, label: int, message: bytes, *, are_elements: bool = False
    ) -> bytes:
        """Return the digest of the state, the header and the message."""
        return self.reference(state + header(label, len(message)) + message)

    def prefixed_digest(self, prefix: bytes, digest: bytes) -> bytes:
        """Return the message of the bytes `prefix` and then a digest."""
        return prefix + digest

    def in_kernel(self, k: Builder, *, alone: bool = False) -> KernelDigest:
        """Return the form inside a kernel; the hash must have one (`has_kernel`)."""
        assert self.kernel is not None
        return self.kernel(k, alone)
