"""The messages of a proof as rows for kernels; they depend on the circuit, never on the proof.

`quod.gkr.protocol` has their order and sizes. A challenge has the index of the message after which
it is drawn. Element 0 of a proof is the first element after the commitment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.protocol import Challenges, Delay, Rounds, StepsInOrder, Values, protocol_steps
from quod.gkr.reduction import Reduction
from quod.hash.function import DIGEST_BYTES, header
from quod.layered.circuit import LayeredCircuit
from quod.transcript.labels import Label
from quod.transcript.runs import DIGESTS_EACH, RUN_ELEMENTS, messages_of

NONE = 0xFFFFFFFF
"""An absent index in a row."""

DIGEST_WORDS = DIGEST_BYTES // 4

Row = tuple[int, ...]
"""Numbers that a kernel reads."""


@frozen
class Point:
    """A point, as indices of challenges.

    coordinates: the indices of the challenges that are the coordinates.
    scale: the index of the challenge that multiplies eq at the point; `NONE` if none does.
    """

    coordinates: tuple[int, ...]
    scale: int = NONE


@frozen
class Message:
    """A message of elements: the index of the first element, and the number of elements."""

    first: int
    count: int


@frozen
class Check:
    """A comparison.

    verdict_index: the index of the verdict among those of a proof.
    message: the index of the last message that the comparison reads.
    failure: the error message for a proof that fails the check; None for the check that all
        elements of the message are valid.
    """

    verdict_index: int
    message: int
    failure: str | None


@frozen
class InputClaims:
    """Claims about the inputs.

    points: a point of the input variables per claim.
    instance_point: the point of the instance variables, common to all claims.
    """

    points: tuple[Point, ...]
    instance_point: tuple[int, ...]


class Messages(ABC):
    """All messages of a proof after the commitment, in the order of the protocol."""

    reduction: ClassVar[Reduction]

    def __init__(
        self,
        circuit: LayeredCircuit,
        field: FieldSpec,
        *,
        delay_messages: int,
        log_instances: int,
    ) -> None:
        """`delay_messages` is `VerifyingKey.chain`: the number of empty messages of a delay."""
        self.circuit, self.field, self.log_instances = circuit, field, log_instances
        self.protocol = protocol_steps(circuit, self.reduction, log_instances)
        self._order, self._delay_messages = StepsInOrder(self.protocol), delay_messages
        # Whether a challenge has been drawn after the last message.
        self._has_challenge = False
        self.rows: list[Row] = []
        """A row per message: its header, its first word, and whether it consists of digests.

        The first word is an index into the words of the proof's elements, or of its digests.
        """
        self.of_elements: dict[int, Message] = {}
        """The elements of a message, by the index of the message.

        Elements that several messages absorb as digests have the index of the last one.
        """
        self.elements = self.protocol.elements
        """The number of elements of a proof."""
        self.runs: list[Row] = []
        """Runs of elements whose digest is absorbed: first element, count, index of the digest."""
        self.digests = 0
        """The number of digests of a proof, including padding of messages."""
        self.checks: list[Check] = []
        """The checks in the order in which a proof is read."""
        self.first_random = 0
        """The index of the challenge for the circuit's random coefficient 0; 0 if it has none."""
        self.claims = self._all_layers(*self._begin())
        """The claims about the inputs."""
        self._order.end()

    @property
    def most_words(self) -> int:
        """The number of 32-bit words of the longest message."""
        # The low 24 bits of a header are the message's length in bytes.
        return max((header_word & 0xFFFFFF) // 4 for header_word, *_ in self.rows)

    @abstractmethod
    def _all_layers(self, outputs: Point, instance_point: tuple[int, ...]) -> InputClaims:
        """Add the messages of all layers, from the outputs down; return the claims about inputs."""

    def _begin(self) -> tuple[Point, tuple[int, ...]]:
        """Append the steps before the layers; return the points of outputs and instances."""
        steps = self.protocol
        first_delay, last_delay = steps.delays
        if steps.randoms.count:
            self._delay(first_delay)
            self.first_random = self._challenges(steps.randoms)[0]
        self._delay(last_delay)
        return Point(self._challenges(steps.outputs)), self._challenges(steps.instances)

    # --- steps of the protocol

    def _delay(self, step: Delay) -> None:
        """Append the empty messages of a sequential hash delay, which slows down grinding."""
        self._order.take(step)
        for _ in range(self._delay_messages):
            self._append(step.label, 0, 0)

    def _challenges(self, step: Challenges) -> tuple[int, ...]:
        """Append the empty messages between challenges; return the indices of the challenges."""
        self._order.take(step)
        indices = []
        for _ in range(step.count):
            if self._has_challenge:
                self._append(step.label, 0, 0)
            indices.append(len(self.rows) - 1)
            self._has_challenge = True
        return tuple(indices)

    def _rounds(self, step: Rounds) -> range:
        """Append the messages of rounds; return the indices of their challenges."""
        self._order.take(step)
        begin = len(self.rows)
        for round_index in range(step.variables):
            self._message(step.label, step.first + round_index * step.degree, step.degree)
        # Without rounds no message separates the next challenge from the last one.
        self._has_challenge = self._has_challenge or step.variables > 0
        return range(begin, len(self.rows))

    def _values(self, step: Values) -> int:
        """Append the messages of values; return the index of the last message."""
        self._order.take(step)
        append = self._digest_messages if step.by_runs else self._message
        return append(step.label, step.first, step.count)

    # --- messages

    def _append(self, label: Label, words: int, first_word: int, *, is_digest: bool = False) -> int:
        """Append a message, and return its index."""
        header_word = int.from_bytes(header(label, 4 * words), "little")
        self.rows.append((header_word, first_word, int(is_digest)))
        self._has_challenge = False
        return len(self.rows) - 1

    def _message(self, label: Label, first: int, count: int) -> int:
        """Append a message of `count` elements, and return its index."""
        words = self.field.words
        index = self._append(label, words * count, words * first)
        self.of_elements[index] = Message(first, count)
        return index

    def _digest_messages(self, label: Label, first: int, count: int) -> int:
        """Append the messages that absorb elements by digests of runs; return the last index."""
        for start in range(0, count, RUN_ELEMENTS):
            digest = self.digests + start // RUN_ELEMENTS
            self.runs.append((first + start, min(RUN_ELEMENTS, count - start), digest))
        index = len(self.rows)
        for _ in range(messages_of(count)):
            word = DIGEST_WORDS * self.digests
            index = self._append(label, DIGESTS_EACH * DIGEST_WORDS, word, is_digest=True)
            self.digests += DIGESTS_EACH
        self.of_elements[index] = Message(first, count)
        return index


def words_of(rows: Sequence[Row]) -> NDArray[np.uint32]:
    """Convert rows to an array to upload; a single 0 if there are none."""
    return np.array(rows or [(0,)], np.uint32).reshape(-1)
