"""The prover states of a batch between two sumchecks, in one buffer of device memory.

The state of a proof consists of elements of the field of challenges: the next claim, the factor of
the second claim, both claimed values, their points, and the point of the instances. The transcript
states of all proofs follow the elements of all proofs.
"""

from __future__ import annotations

from typing import Any

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.function import STATE_WORDS
from quod.hash.words import Words
from quod.kernel import U32, Pointer, Struct
from quod.kernel.ir.value import Value
from quod.transcript.chain import Chain

CLAIM, FACTOR, VALUES, FIRST = 0, 1, 2, 4
"""Indices among the elements of a proof."""


class StateSizes(Struct):
    """The sizes of a state, as kernels take them; see `StateLayout`."""

    batch: U32
    log_places: U32
    log_instances: U32


class StepMemory(Struct):
    """The buffers of the step that ends a sumcheck.

    progress, proof: the buffers of the sumcheck (`quod.sumcheck.memory`).
    states: the prover states.
    sent: the messages of all proofs.
    """

    progress: Pointer[U32]
    proof: Pointer[U32]
    states: Pointer[U32]
    sent: Pointer[U32]


class MessageRange(Struct):
    """The first word of a message in a proof, and the words of all messages of a proof."""

    first_word: U32
    sent_words: U32

    def start(self, proof: Value) -> Value:
        """The first word of the message in `sent`."""
        return proof * self.sent_words + self.first_word


@frozen
class StateLayout:
    """The offsets of a state.

    No layer has more than 2**log_places values; there are 2**log_instances instances.
    """

    batch: int
    log_places: int
    log_instances: int

    @property
    def second(self) -> int:
        """The first coordinate of the second point."""
        return FIRST + self.log_places

    @property
    def across(self) -> int:
        """The first coordinate of the point of the instances."""
        return self.second + self.log_places

    @property
    def stride(self) -> int:
        """Elements of a proof."""
        return self.across + self.log_instances

    @property
    def sizes(self) -> StateSizes:
        """The sizes that kernels take."""
        return StateSizes(self.batch, self.log_places, self.log_instances)

    def words(self, field: FieldSpec) -> int:
        """32-bit words of the buffer."""
        return self.batch * (self.stride * field.words + STATE_WORDS)

    def states(self, field: FieldSpec) -> slice:
        """The words of the transcript states."""
        return slice(self.batch * self.stride * field.words, self.words(field))


class StateMemory:
    """The prover state of one proof inside a kernel."""

    def __init__(self, f: Any, memory: Value, proof: Value, sizes: StateSizes) -> None:
        self._f, self._memory = f, memory
        self.second = sizes.log_places + FIRST
        self.across = self.second + sizes.log_places
        stride = self.across + sizes.log_instances
        self._start = proof * stride
        words = f.word_count * f.word_type.bits // 32
        self._state = sizes.batch * stride * words + proof * STATE_WORDS

    def load(self, place: Value | int) -> Any:
        """An element."""
        return self._f.carried(self._f.load(self._memory, self._start + place))

    def store(self, place: Value | int, element: Any) -> None:
        self._f.store(self._memory, self._start + place, element)

    def state(self, chain: Chain) -> Words:
        """The state of the transcript."""
        return chain.load(self._memory, self._state)

    def set_state(self, chain: Chain, state: Words) -> None:
        chain.store(self._memory, self._state, state)
