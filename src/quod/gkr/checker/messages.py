"""What a proof of a layered circuit has where: it follows from the circuit, never from the proof.

Challenges are counted as the messages after which they are drawn, elements of a proof from the
first behind the commitment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.function import header
from quod.layered.circuit import LayeredCircuit
from quod.transcript.elements import DIGEST_BYTES
from quod.transcript.labels import Label
from quod.transcript.runs import DIGESTS_EACH, RUN_ELEMENTS, messages_of

NONE = 0xFFFFFFFF
"""In a row: there is no such thing."""

DIGEST_WORDS = DIGEST_BYTES // 4

Row = tuple[int, ...]
"""Numbers that a kernel reads."""


@frozen
class Point:
    """A point by the challenges that are its coordinates, and the one that multiplies its eq."""

    coordinates: tuple[int, ...]
    scale: int = NONE


@frozen
class Message:
    """A message of elements: the first, and how many."""

    first: int
    count: int


@frozen
class Check:
    """A comparison: its record among those of a proof, the last message that it takes, and what is
    said of a proof that fails it, None where that message is of no elements."""

    record: int
    message: int
    failure: str | None


@frozen
class InputClaims:
    """What is claimed of the inputs at `points`, all of them at `across`, the point of the
    instances."""

    points: tuple[Point, ...]
    across: tuple[int, ...]


class Messages(ABC):
    """All messages of a proof behind the commitment."""

    def __init__(
        self, circuit: LayeredCircuit, field: FieldSpec, *, chain: int, log_instances: int
    ) -> None:
        self.circuit, self.field, self.log_instances = circuit, field, log_instances
        self.rows: list[Row] = []
        """The header of each, and where it begins: among all words of the elements, or those of
        the digests, which the last number says."""
        self.of_elements: dict[int, Message] = {}
        """Elements by the message that absorbs them, or the last one that does."""
        self.elements = 0
        """Elements of a proof."""
        self.runs: list[Row] = []
        """Elements whose digests are absorbed: the first, how many, and the place of the digest."""
        self.digests = 0
        """Digests of a proof, with those that fill up messages."""
        self.checks: list[Check] = []
        """In the order in which a proof is read."""
        self.first_random = chain - 1
        """The challenge that is the first random coefficient."""
        self.claims = self._all_layers(*self._begin(chain))
        """Those about the inputs."""

    @property
    def most_words(self) -> int:
        """32-bit words of the longest message."""
        return max((start & 0xFFFFFF) // 4 for start, *_ in self.rows)

    @abstractmethod
    def _all_layers(self, outputs: Point, across: tuple[int, ...]) -> InputClaims:
        """The messages of all layers, from the last one to the first."""

    def _begin(self, chain: int) -> tuple[Point, tuple[int, ...]]:
        """The chain, the random coefficients, the chain again after these, and the first point with
        that of the instances."""
        circuit = self.circuit
        if circuit.randoms:
            self._apply_chain(chain)
            self._draw(circuit.randoms)
        self._apply_chain(chain)
        drawn = self._draw(circuit.log_outputs + self.log_instances)
        return Point(drawn[: circuit.log_outputs]), drawn[circuit.log_outputs :]

    def _apply_chain(self, chain: int) -> None:
        for _ in range(chain):
            self._append(Label.CHAIN, 0, 0)

    def _append(self, label: Label, words: int, place: int, *, is_digest: bool = False) -> int:
        """The number of the next message."""
        start = int.from_bytes(header(label, 4 * words), "little")
        self.rows.append((start, place, int(is_digest)))
        return len(self.rows) - 1

    def _draw(self, count: int) -> tuple[int, ...]:
        """So many challenges in a row, the first of the last message."""
        first = len(self.rows) - 1
        for _ in range(count - 1):
            self._append(Label.NEXT, 0, 0)
        return tuple(range(first, first + count))

    def _message(self, label: Label, count: int) -> int:
        """The number of the next message, of so many elements."""
        words = self.field.words
        number = self._append(label, words * count, words * self.elements)
        self._sent(number, count)
        return number

    def _many(self, label: Label, count: int) -> int:
        """The number of the last message of so many elements that are absorbed by their runs."""
        for at in range(0, count, RUN_ELEMENTS):
            digest = self.digests + at // RUN_ELEMENTS
            self.runs.append((self.elements + at, min(RUN_ELEMENTS, count - at), digest))
        number = len(self.rows)
        for _ in range(messages_of(count)):
            place = DIGEST_WORDS * self.digests
            number = self._append(label, DIGESTS_EACH * DIGEST_WORDS, place, is_digest=True)
            self.digests += DIGESTS_EACH
        self._sent(number, count)
        return number

    def _sent(self, number: int, count: int) -> None:
        self.of_elements[number] = Message(self.elements, count)
        self.elements += count


def words_of(rows: Sequence[Row]) -> NDArray[np.uint32]:
    """Rows as they are uploaded, one where there are none."""
    return np.array(rows or [(0,)], np.uint32).reshape(-1)
