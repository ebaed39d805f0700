"""The prover of the raw scheme: the device computes a table's digest and canonical elements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from quod.commitment.scheme import Claim, check_claims
from quod.commitment.tables import table_of_elements
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import SubmittedStream
from quod.errors import DeviceError
from quod.field.any_field import field_arithmetic
from quod.field.array import all_canonical
from quod.field.integers import Integers
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.hash.table import Hash
from quod.hash.words import message_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.transcript.digests import RecordedDigest
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter

_PAGE_WORDS = 1 << 10


@kernel
def send_elements(
    k: Builder, n: U32, table: Pointer[U32], message: Pointer[U32], *, modulus: Modulus
) -> None:
    """Convert n elements to the canonical integers of a message."""
    f, i = field_arithmetic(k, modulus, inlined=True), k.global_id()
    with k.if_(i < n):
        k.store(message, i * modulus.words, *message_words(f, f.load(table, i)))


class _Recorded:
    """Recorded work on a buffer of `count` tables, for transcripts of one hash."""

    def __init__(
        self, device: AnyDevice, tables: Buffer, message: Buffer, hash: Hash, count: int
    ) -> None:
        self.table, self.hash = tables, hash
        self.digest = RecordedDigest(device, hash, message, count)

    def is_of(self, table: Buffer, hash: Hash) -> bool:
        """True if the work is on this buffer; the reference keeps its address from being reused."""
        recorded = self.table
        return (
            hash is self.hash
            and table.space is recorded.space
            and table.address == recorded.address
        )


class RawCommitter:
    """A prover that sends whole tables, `count` at a time.

    Tables are downloaded concurrently with other work, until `open`. After `end` the caller must
    copy the proofs before it commits to further tables.
    """

    def __init__(
        self, device: AnyDevice, field: FieldSpec, log2_size: int, *, count: int = 1
    ) -> None:
        self._device, self._field, self._log2_size = device, field, log2_size
        self._count = count
        modulus, size = field.modulus, count * field.modulus.bytes << log2_size
        self._words = device.pinned(size).view(np.uint32).reshape(count, -1, modulus.words)
        self._message: Buffer | None = None
        if modulus.montgomery_radix != 1:
            device.check_budget("a commitment", size)
            self._message = device.allocate(size)
        self._work: tuple[_Recorded, Recording, Recording] | None = None
        self._download: SubmittedStream | None = None
        # The writer and message index of the table that is still in this prover's memory; `_keep`
        # copies it, so that the memory can take the next table.
        self._pending_message: tuple[ProofWriter, int] | None = None

    def commit(self, table: Buffer | Integers, writer: ProofWriter) -> None:
        """Send the table."""
        elements = table_of_elements(self._device, self._field, self._log2_size, table)
        self._keep()
        (message_index,) = self.commit_each(elements, [writer])
        self._pending_message = writer, message_index

    def commit_each(self, tables: Buffer, writers: Sequence[ProofWriter]) -> list[int]:
        """Send a table by each writer; return the indices of the messages.

        tables: `count` concatenated tables, as many as the committer has memory for.
        writers: at most `count`; their transcripts must use the same hash.
        """
        self._wait_for_download()
        hash = writers[0].transcript.hash
        if self._work is None or not self._work[0].is_of(tables, hash):
            self._work = self._record(tables, hash)
        recorded, hashing, sending = self._work
        hashed = self._device.stream("commitment").replay(hashing).submit()
        # Mark one word per page as unwritten: downloads write whole pages, and marking all words
        # takes too long.
        self._words.reshape(-1)[::_PAGE_WORDS] = UNWRITTEN
        hashed.wait()
        digests = recorded.digest.digests(self._field.modulus)
        self._download = self._device.stream("inputs").replay(sending).submit()
        return [
            writer.digested_words(Label.COMMITMENT, words, digest)
            for writer, words, digest in zip(writers, self._words, digests, strict=False)
        ]

    def open(self, claims: Sequence[Claim], writer: ProofWriter) -> None:
        """Finish the download of the table; an opening has no message."""
        check_claims(self._field, self._log2_size, claims)
        self._keep()

    def end(self) -> None:
        """Finish the downloads; raises DeviceError if the device has not written all elements."""
        self._wait_for_download()
        if not all_canonical(self._field.modulus, self._words):
            raise not_written(self._device, "a table")

    def abandon(self) -> None:
        """Drop unfinished downloads, so that the tables may be written to."""
        with suppress(DeviceError):
            self._wait_for_download()

    def _keep(self) -> None:
        """Finish the download of the table that `commit` sent last, and copy its message."""
        if self._pending_message is not None:
            writer, message_index = self._pending_message
            self.end()
            writer.keep(message_index)
            self._pending_message = None

    def _wait_for_download(self) -> None:
        """Wait until the download of a table is complete."""
        download, self._download = self._download, None
        if download is not None:
            download.wait()

    def _record(self, table: Buffer, hash: Hash) -> tuple[_Recorded, Recording, Recording]:
        """Record the hashing of tables on the device, and their download to the host."""
        device, message = self._device, self._message or table
        recorded = _Recorded(device, table, message, hash, self._count)
        hashing = device.stream("commitment").record()
        if self._message is not None:
            hashing.fill(message, UNWRITTEN)
            compiled = device.compile(send_elements, modulus=self._field.modulus)
            count = self._count << self._log2_size
            hashing.launch(compiled, -(-count // compiled.lanes), count, table, message)
        recorded.digest.record(hashing)
        sending = device.stream("inputs").record()
        sending.download(message, self._words)
        return recorded, hashing.finish().recording, sending.finish().recording
