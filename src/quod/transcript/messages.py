"""Proofs as bytes whose every byte is absorbed: to read or to write a message is to absorb it."""

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


class ProofWriter:
    """Collects the messages of a prover; `transcript` absorbs each."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._parts: list[bytes | memoryview] = []

    def elements(self, label: Label, field: FieldSpec, elements: Sequence[Plain]) -> None:
        """A message of elements of a field."""
        check_label(label)
        message = encode(field, check_elements(field, "the message", elements))
        self.encoded(label, field, message)

    def encoded(self, label: Label, field: FieldSpec, message: bytes) -> None:
        """A message of elements of a field, each below p, as `quod.transcript.elements.encode` has
        them."""
        self.transcript.absorb(label, message, field)
        self._parts.append(message)

    def digested(self, label: Label, field: FieldSpec, message: bytes) -> None:
        """The same, of which a digest is absorbed."""
        self.transcript.absorb_digest(label, field, message)
        self._parts.append(message)

    def digested_words(self, label: Label, words: Words, digest: bytes) -> int:
        """The same as words, of which the digest was made elsewhere; `getvalue` reads them, so that
        they may be set until then. Gives the message's place, for `keep`."""
        self.transcript.absorb_digested(label, digest)
        self._parts.append(words.data.cast("B"))
        return len(self._parts) - 1

    def keep(self, place: int) -> None:
        """Copies a message that was written as words, which may be set to others from here on.

        Others stay: what they are made of may be on its way.
        """
        self._parts[place] = bytes(self._parts[place])

    def many_elements(self, label: Label, field: FieldSpec, elements: Sequence[Plain]) -> None:
        """Elements that are absorbed by their runs (`quod.transcript.runs`)."""
        check_label(label)
        message = encode(field, check_elements(field, "the message", elements))
        absorb_runs(self.transcript, label, field, message)
        self._parts.append(message)

    def message(self, label: Label, message: bytes, *, absorbed: bytes | None = None) -> None:
        """A message of bytes that are no field elements, such as digests.

        The transcript may take others in their place, which bind them.
        """
        self.transcript.absorb(label, message if absorbed is None else absorbed)
        self._parts.append(message)

    def points(
        self, label: Label, group: Group, points: Sequence[Point], *, compressed: bool = True
    ) -> None:
        """A message of points of a group."""
        self.message(label, encode_points(group, points, compressed=compressed))

    def absorbed(self, message: bytes, state: bytes) -> None:
        """Messages that a device has absorbed, and the state whose challenge it drew last."""
        self.transcript.resume(state)
        self._parts.append(message)

    @property
    def parts(self) -> tuple[bytes | memoryview, ...]:
        """All messages so far."""
        return tuple(self._parts)

    def getvalue(self) -> bytes:
        """All messages, one after the other."""
        return b"".join(self._parts)


class ProofReader:
    """Gives the messages of a proof; `transcript` absorbs each, as its prover's did."""

    def __init__(self, proof: bytes, transcript: Transcript) -> None:
        given: object = proof
        if type(given) is not bytes:
            raise InputError(f"a proof is bytes, not {shown_kind(given)}")
        self.transcript = transcript
        self._proof = proof
        self.offset = 0
        """Where the next message begins."""

    def copy(self) -> ProofReader:
        """Another reader, with a transcript of its own, that goes on from here."""
        found = ProofReader(self._proof, self.transcript.copy())
        found.offset = self.offset
        return found

    def elements(self, label: Label, field: FieldSpec, count: int) -> list[Plain]:
        """A message of so many elements; InputError if the proof ends before, or one is none."""
        elements, message = self._decoded(label, field, count)
        self.transcript.absorb(label, message, field)
        self.offset += len(message)
        return elements

    def element_words(self, label: Label, field: FieldSpec, count: int) -> Words:
        """The same as words of shape (count, words), of integers below p, for kernels."""
        check_label(label)
        message = self._elements(field, count)
        words = np.frombuffer(message, "<u4").reshape(count, field.words)
        if not canonical(field.modulus, words).all():
            decode(field, message, offset=self.offset)
        self.transcript.absorb(label, message, field)
        self.offset += len(message)
        return words

    def many_elements(self, label: Label, field: FieldSpec, count: int) -> list[Plain]:
        """So many elements, absorbed by their runs (`quod.transcript.runs`). InputError as for a
        message of them."""
        elements, message = self._decoded(label, field, count)
        absorb_runs(self.transcript, label, field, message)
        self.offset += len(message)
        return elements

    def _decoded(self, label: Label, field: FieldSpec, count: int) -> tuple[list[Plain], bytes]:
        check_label(label)
        message = self._elements(field, count)
        return decode(field, message, offset=self.offset), message

    def message(
        self, label: Label, size: int, *, absorbed: Callable[[bytes], bytes] | None = None
    ) -> bytes:
        """A message of so many bytes; InputError if the proof ends before.

        `absorbed` gives what the transcript takes in their place.
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
        """A message of so many points.

        InputError if the proof ends before, and for one that is not encoded as a writer does it,
        not on the curve or not in the subgroup of prime order.
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
        """The bytes of so many elements."""
        count = whole_number("the elements", count, 0)
        size = count * element_bytes(field)
        return self._next(size, f"{count} elements of {field.name}, which take {size} bytes")

    def _next(self, size: int, what: str) -> bytes:
        data = self._proof[self.offset : self.offset + size]
        if len(data) < size:
            raise InputError(
                f"the proof ends at byte {len(self._proof)}, within {what}", offset=self.offset
            )
        return data

    def digested_words(self, label: Label, field: Modulus, count: int) -> Words:
        """So many elements, of which a digest is absorbed: words of shape (count, words), of
        integers below p. InputError as for a message of them."""
        check_label(label)
        data = self._elements(field, count)
        words = np.frombuffer(data, "<u4").reshape(-1, field.words)
        below = canonical(field, words)
        if not below.all():
            place = int(np.argmin(below))
            raise InputError(
                f"element {place} is not below the modulus of {field.name}",
                offset=self.offset + place * field.bytes,
            )
        self.transcript.absorb_digest(label, field, data)
        self.offset += len(data)
        return words

    def end(self) -> None:
        """InputError if there is more."""
        if self.offset != len(self._proof):
            raise InputError(
                f"the proof ends here, and {len(self._proof) - self.offset} bytes follow",
                offset=self.offset,
            )
