"""A single sumcheck over tables in device memory, with its buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.field.array import Words, canonical, from_integers, to_integers
from quod.field.element_bytes import Plain
from quod.field.moduli import Modulus
from quod.field.plain_element import PlainElement
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.function import STATE_WORDS
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.shape import Shape


@frozen(eq=False)
class Rounds:
    """The messages and challenges of a sumcheck.

    messages: the elements of all rounds as little-endian bytes.
    values: the evaluations of the tables at the challenge point.
    state: the transcript's state after the last challenge.
    """

    messages: bytes
    challenges: list[Plain]
    values: list[Plain]
    state: bytes


class SumcheckRun:
    """One sumcheck of a shape, with memory for its tables.

    Set every table, and the point if the shape has one. `sum` also fills the eq tables, so with a
    point call `sum` before `prove`.
    """

    def __init__(self, device: AnyDevice, shape: Shape, log2_size: int) -> None:
        self._device, self._plan = device, SumcheckPlan(device, shape, log2_size)
        plan, field = self._plan, shape.field
        sizes = (
            shape.in_base * field.modulus.bytes << log2_size,
            (shape.tables - shape.in_base) * 4 * field.words << log2_size,
        )
        device.check_budget("a sumcheck", plan.peak_bytes + sum(sizes))
        self._base, self._extended = (device.allocate(size) if size else None for size in sizes)
        self._equality = device.allocate(plan.equality_bytes)
        # The sentinel is not an element, so missing writes are detected.
        self._partial = device.upload(np.full(plan.partial_bytes // 4, UNWRITTEN, np.uint32))
        self._point: Buffer | None = None

    @property
    def _inputs(self) -> Inputs:
        return Inputs(self._base, self._extended)

    def table(self, number: int) -> Buffer:
        """Return the slice of device memory that has a table."""
        shape = self._plan.shape
        is_base = number < shape.in_base
        memory = self._base if is_base else self._extended
        size = 4 * (shape.field.modulus.words if is_base else shape.field.words)
        size <<= self._plan.log2_size
        index = number if is_base else number - shape.in_base
        assert memory is not None
        return memory.slice(index * size, (index + 1) * size)

    def set_table(self, number: int, values: Words | Buffer) -> None:
        """Copy the 2**log2_size entries of a table from the host or the device."""
        target = self.table(number)
        if not isinstance(values, Buffer):
            self._device.upload(values, into=target)
            return
        recording = self._device.stream("table").record()
        recording.copy(values, target)
        recording.finish().run()

    def set_point(self, point: Sequence[Plain]) -> None:
        """Set the point whose eq table weights the sum."""
        self._point = self._device.upload(elements_to_words(self._plan.field, point))

    def sum(self) -> Plain:
        """Compute the sum over the hypercube."""
        plan, field = self._plan, self._plan.field
        recording = self._device.stream("sum").record()
        if self._point is not None:
            plan.record_point(recording, self._point, self._equality)
        plan.record_sum(recording, self._inputs, self._equality, self._partial)
        recording.finish().run()
        partial_sums = np.empty((plan.sum_groups, field.words), np.uint32)
        self._device.download(self._partial.slice(0, partial_sums.nbytes), partial_sums)
        _check_canonical(self._device, field, "the parts of a sum", partial_sums)
        elements = PlainElement.from_coefficients(field, words_to_elements(field, partial_sums))
        return sum(elements, PlainElement.zero(field)).coefficients

    def prove(self, claim: Plain, state: bytes, timeline: Timeline | None) -> Rounds:
        """Run all rounds, from a claim and the transcript's state, and wait for them.

        Raises DeviceError if the device wrote no valid result.
        """
        recording = self._device.stream("sumcheck").record()
        rounds = self.record(recording)
        rounds.begin(claim, state)
        recording.finish().run(timeline)
        return rounds.rounds()

    def record(self, recording: RecordingStream) -> RecordedRounds:
        """Record all rounds; earlier launches of the recording may write the tables."""
        plan, device = self._plan, self._device
        proof, progress = device.allocate(plan.proof_bytes), device.allocate(plan.progress_bytes)
        plan.record(
            recording, self._inputs, equality=self._equality, progress=progress, proof=proof,
            folded=device.allocate(plan.folded_bytes), partial=self._partial,
        )  # fmt: skip
        # The slice of `progress` may not be aligned for kernels, so the challenges are copied.
        element_bytes = 4 * plan.field.words
        challenges = device.allocate(element_bytes * plan.log2_size)
        recording.copy(
            progress.slice(element_bytes, element_bytes * (1 + plan.log2_size)), challenges
        )
        return RecordedRounds(device, plan, proof, progress, challenges)


class RecordedRounds:
    """The rounds of a sumcheck that a recording contains.

    challenges: a buffer with the challenges, after the recording has run.
    """

    def __init__(
        self,
        device: AnyDevice,
        plan: SumcheckPlan,
        proof: Buffer,
        progress: Buffer,
        challenges: Buffer,
    ) -> None:
        self._device, self._plan, self._proof, self._progress = device, plan, proof, progress
        self.challenges = challenges

    def begin(self, claim: Plain, state: bytes) -> None:
        """Upload the claim and the transcript's state from which the recorded rounds start."""
        plan, field = self._plan, self._plan.field
        progress = np.zeros(plan.progress_bytes // 4, np.uint32)
        progress[: field.words] = elements_to_words(field, [claim]).reshape(-1)
        progress[-STATE_WORDS:] = np.frombuffer(state, "<u4")
        self._device.upload(progress, into=self._progress)
        self._device.upload(np.full(plan.proof_bytes // 4, UNWRITTEN, np.uint32), into=self._proof)

    def rounds(self) -> Rounds:
        """Return the messages and challenges, after the recording has finished.

        Raises DeviceError if the device wrote none.
        """
        plan, field, device = self._plan, self._plan.field, self._device
        progress = np.zeros(plan.progress_bytes // 4, np.uint32)
        proof = np.full(plan.proof_bytes // 4, UNWRITTEN, np.uint32)
        device.download(self._proof, proof)
        device.download(self._progress, progress)
        _check_canonical(device, field, "a sumcheck", proof)
        value_words = plan.shape.tables * field.words
        return Rounds(
            proof[:-value_words].astype("<u4").tobytes(),
            words_to_elements(field, progress[field.words : -STATE_WORDS]),
            words_to_elements(field, proof[-value_words:]),
            progress[-STATE_WORDS:].astype("<u4").tobytes(),
        )


def _check_canonical(device: AnyDevice, field: FieldSpec, what: str, words: Words) -> None:
    """Raise DeviceError unless all words are canonical elements; `what` names them in it."""
    if not canonical(field.modulus, words.reshape(-1, field.modulus.words)).all():
        raise not_written(device, what)


def elements_to_words(field: FieldSpec, elements: Sequence[Plain]) -> Words:
    """Convert elements to the stored form: an array of shape (elements, words)."""
    if isinstance(field, Modulus):
        return from_integers(field, [c for (c,) in elements])
    return from_integers(field, list(elements))


def words_to_elements(field: FieldSpec, words: Words) -> list[Plain]:
    """Convert elements from their stored form."""
    if isinstance(field, Modulus):
        return [(integer,) for integer in to_integers(field, words)]
    return to_integers(field, words)
