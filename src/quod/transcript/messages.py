"""Proofs as bytes; reading or writing a message absorbs it into the transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quod.curve.array import Point
from quod.curve.group import Group
from quod.errors import InputError
from quod.field.array import Words, canonical
from quod.field.element_bytes import Plain, check_elements, decode, element_bytes, encode
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.transcript.labels import Label, check_label
from quod.transcript.points import decode_points, encode_points, point_bytes
from quod.transcript.runs import absorb_runs
from quod.transcript.transcript import Transcript
from quod.validation import shown_kind, whole_number


def truncation_error(proof: bytes, what: str, offset: int) -> InputError:
    """Return the error about a proof that ends within `what`, which begins at byte `offset`."""
    return InputError(f"the proof ends at byte {len(proof)}, within {what}", offset=offset)


def trailing_bytes_error(proof: bytes, end: int) -> InputError:
    """Return the error about a proof with more bytes than `end`."""
    return InputError(f"{len(proof) - end} bytes follow the end of the proof", offset=end)


def elements_text(field: FieldSpec, count: int) -> str:
    """Describe a message of elements in errors."""
    size = count * element_bytes(field)
    return f"{count} elements of {field.name}, which take {size} bytes"


class ProofWriter:
    """The messages of a proof while it is written; `transcript` absorbs each one."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._parts: list[bytes | memoryview] = []

    def elements(self, label: Label, field: FieldSpec, elements: Sequence[Plain]) -> None:
        """Write a message of elements of a field."""
        check_label(label)
        message = encode(field, check_elements(field, "the message", elements))
        self.encoded(label, field, message)

    def encoded(self, label: Label, field: FieldSpec, message: bytes) -> None:
        """Write a message of elements encoded by `quod.field.element_bytes.encode`."""
        self.transcript.absorb(label, message, field)
        self._parts.append(message)

    def digested(self, label: Label, field: FieldSpec, message: bytes) -> None:
        """Write a message of encoded elements; the transcript absorbs its digest."""
        self.transcript.absorb_digest(label, field, message)
        self._parts.append(message)

    def digested_words(self, label: Label, words: Words, digest: bytes) -> int:
        """Write a message of elements as words, absorbing a digest that was computed elsewhere.

        The words are read by `getvalue` and need not be complete before: a device may still write
        them. Returns the message's index, for `keep`.
        """
        self.transcript.absorb_digested(label, digest)
        self._parts.append(words.data.cast("B"))
        return len(self._parts) - 1

    def keep(self, index: int) -> None:
        """Copy message `index`, so that its words may be reused; other messages are not copied."""
        self._parts[index] = bytes(self._parts[index])

    def elements_by_runs(self, label: Label, field: FieldSpec, elements: Sequence[Plain]) -> None:
        """Write elements, absorbed as digests of runs of elements (`quod.transcript.runs`)."""
        check_label(label)
        message = encode(field, check_elements(field, "the message", elements))
        absorb_runs(self.transcript, label, field, message)
        self._parts.append(message)

    def message(self, label: Label, message: bytes, *, absorbed: bytes | None = None) -> None:
        """Write a message of bytes that are not field elements, such as digests.

        absorbed: bytes that bind the message, absorbed in its place.
        """
        self.transcript.absorb(label, message if absorbed is None else absorbed)
        self._parts.append(message)

    def points(
        self, label: Label, group: Group, points: Sequence[Point], *, compressed: bool = True
    ) -> None:
        """Write a message of points of a group."""
        self.message(label, encode_points(group, points, compressed=compressed))

    def resume_after(self, messages: bytes, state: bytes) -> None:
        """Write messages that a device has absorbed already, and resume the transcript after them.

        messages: the concatenated messages.
        state: the transcript state after all messages.
        """
        self.transcript.resume(state)
        self._parts.append(messages)

    @property
    def parts(self) -> tuple[bytes | memoryview, ...]:
        """All messages so far."""
        return tuple(self._parts)

    def getvalue(self) -> bytes:
        """Return the concatenation of all messages."""
        return b"".join(self._parts)


class ProofReader:
    """The bytes of a proof while it is read; `transcript` absorbs each message."""

    def __init__(self, proof: bytes, transcript: Transcript) -> None:
        argument: object = proof
        if type(argument) is not bytes:
            raise InputError(f"a proof is bytes, not {shown_kind(argument)}")
        self.transcript = transcript
        self._proof = proof
        self.offset = 0
        """Position of the next message."""

    def copy(self) -> ProofReader:
        """Return a reader at the same position, with a copy of the transcript."""
        reader = ProofReader(self._proof, self.transcript.copy())
        reader.offset = self.offset
        return reader

    def elements(self, label: Label, field: FieldSpec, count: int) -> list[Plain]:
        """Read a message of `count` elements.

        Raises InputError if the proof is too short or an element is invalid.
        """
        elements, message = self._decoded(label, field, count)
        self.transcript.absorb(label, message, field)
        self.offset += len(message)
        return elements

    def element_words(self, label: Label, field: FieldSpec, count: int) -> Words:
        """Read a message of elements as canonical words of shape (count, words), for kernels.

        Raises InputError as `elements` does.
        """
        check_label(label)
        message = self._elements(field, count)
        words = np.frombuffer(message, "<u4").reshape(count, field.words)
        if not canonical(field.modulus, words).all():
            # It raises the error for the first invalid element.
            decode(field, message, offset=self.offset)
        self.transcript.absorb(label, message, field)
        self.offset += len(message)
        return words

    def elements_by_runs(self, label: Label, field: FieldSpec, count: int) -> list[Plain]:
        """Read elements, absorbed as digests of runs of elements (`quod.transcript.runs`).

        Raises InputError as `elements` does.
        """
        elements, message = self._decoded(label, field, count)
        absorb_runs(self.transcript, label, field, message)
        self.offset += len(message)
        return elements

    def _decoded(self, label: Label, field: FieldSpec, count: int) -> tuple[list[Plain], bytes]:
        """Return the next `count` elements and their bytes, without advancing."""
        check_label(label)
        message = self._elements(field, count)
        return decode(field, message, offset=self.offset), message

    def message(
        self, label: Label, size: int, *, absorbed: Callable[[bytes], bytes] | None = None
    ) -> bytes:
        """Read a message of `size` bytes; raise InputError if the proof is too short.

        absorbed: returns the bytes that the transcript absorbs in place of the message.
        """
        check_label(label)
        size = whole_number("the bytes", size, 0)
        message = self._next(size, f"a message of {size} bytes")
        self.transcript.absorb(label, message if absorbed is None else absorbed(message))
        self.offset += size
        return message

    def points(
        self, label: Label, group: Group, count: int, *, compressed: bool = True
    ) -> list[Point]:
        """Read a message of `count` points.

        Raises InputError if the proof is too short, or a point is not encoded canonically, not on
        the curve or not in the subgroup of prime order.
        """
        check_label(label)
        count = whole_number("the points", count, 0)
        size = count * point_bytes(group, compressed=compressed)
        message = self._next(size, f"{count} points of {group.name}, which take {size} bytes")
        points = decode_points(group, message, compressed=compressed, offset=self.offset)
        self.transcript.absorb(label, message)
        self.offset += len(message)
        return points

    def _elements(self, field: FieldSpec, count: int) -> bytes:
        """Return the bytes of `count` elements, without advancing."""
        count = whole_number("the elements", count, 0)
        return self._next(count * element_bytes(field), elements_text(field, count))

    def _next(self, size: int, what: str) -> bytes:
        data = self._proof[self.offset : self.offset + size]
        if len(data) < size:
            raise truncation_error(self._proof, what, self.offset)
        return data

    def digested_words(self, label: Label, field: Modulus, count: int) -> Words:
        """Read `count` elements as canonical words of shape (count, words), absorbing their digest.

        Raises InputError as `elements` does.
        """
        check_label(label)
        data = self._elements(field, count)
        words = np.frombuffer(data, "<u4").reshape(-1, field.words)
        is_canonical = canonical(field, words)
        if not is_canonical.all():
            index = int(np.argmin(is_canonical))
            raise InputError(
                f"element {index} is not below the modulus of {field.name}",
                offset=self.offset + index * field.bytes,
            )
        self.transcript.absorb_digest(label, field, data)
        self.offset += len(data)
        return words

    def end(self) -> None:
        """Raise InputError if bytes follow."""
        if self.offset != len(self._proof):
            raise trailing_bytes_error(self._proof, self.offset)
