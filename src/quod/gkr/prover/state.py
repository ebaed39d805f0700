"""The prover states of a batch between two sumchecks, in one buffer of device memory.

The state of a proof consists of elements of the field of challenges: the next claim, the challenge
that multiplies the second claim when two are combined, both claimed values, their points, and the
point in the instance variables. The transcript states of all proofs follow the elements of all
proofs.
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

CLAIM, FACTOR, VALUES, FIRST_POINT = 0, 1, 2, 4
"""Indices of elements of a proof's state.

VALUES is the first of two claimed values; the first point begins at FIRST_POINT.
"""


class StateSizes(Struct):
    """The sizes of prover states that are passed to kernels; see `StateLayout`."""

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
    """The position of a message in the buffer `sent`, which has the messages of all proofs.

    first_word: the index of its first 32-bit word among the messages of a proof.
    sent_words: the number of 32-bit words of all messages of a proof.
    """

    first_word: U32
    sent_words: U32

    def start(self, proof_index: Value) -> Value:
        """Return the index of the message's first word in `sent`."""
        return proof_index * self.sent_words + self.first_word


@frozen
class StateLayout:
    """The layout of prover states: offsets in elements within the state of a proof.

    batch: the number of proofs.
    log_places: log2 of the largest number of wires of a layer or of the inputs.
    log_instances: log2 of the number of instances of the circuit.
    """

    batch: int
    log_places: int
    log_instances: int

    @property
    def second_point(self) -> int:
        """The offset of the second point, in elements."""
        return FIRST_POINT + self.log_places

    @property
    def instance_point(self) -> int:
        """The offset of the point in the instance variables, in elements."""
        return self.second_point + self.log_places

    @property
    def stride(self) -> int:
        """The number of elements of one proof's state, without its transcript state."""
        return self.instance_point + self.log_instances

    @property
    def sizes(self) -> StateSizes:
        """The sizes that are passed to kernels."""
        return StateSizes(self.batch, self.log_places, self.log_instances)

    def words(self, field: FieldSpec) -> int:
        """Return the size of the buffer in 32-bit words."""
        return self.batch * (self.stride * field.words + STATE_WORDS)

    def states(self, field: FieldSpec) -> slice:
        """Return the slice of the buffer's words that has the transcript states."""
        return slice(self.batch * self.stride * field.words, self.words(field))


class StateMemory:
    """The prover state of one proof inside a kernel."""

    def __init__(self, f: Any, memory: Value, proof_index: Value, sizes: StateSizes) -> None:
        """Locate a proof's state: f is the field in the kernel, memory the buffer of states."""
        self._f, self._memory = f, memory
        self.second_point = sizes.log_places + FIRST_POINT
        self.instance_point = self.second_point + sizes.log_places
        stride = self.instance_point + sizes.log_instances
        self._start = proof_index * stride
        element_words = f.word_count * f.word_type.bits // 32
        self._transcript_offset = sizes.batch * stride * element_words + proof_index * STATE_WORDS

    def load(self, offset: Value | int) -> Any:
        """Load an element by its offset, such as `VALUES` or `second_point`."""
        return self._f.bounded(self._f.load(self._memory, self._start + offset))

    def store(self, offset: Value | int, element: Any) -> None:
        """Store an element at an offset."""
        self._f.store(self._memory, self._start + offset, element)

    def load_transcript(self, chain: Chain) -> Words:
        """Load the transcript's state."""
        return chain.load(self._memory, self._transcript_offset)

    def store_transcript(self, chain: Chain, state: Words) -> None:
        """Store the transcript's state."""
        chain.store(self._memory, self._transcript_offset, state)
