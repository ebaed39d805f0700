"""A pipeline slot of the prover: the memory and the host's state of one batch of proofs.

A GPU computes one batch while the host begins the next and finishes the previous one, so each
batch in progress has its own slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import NoReturn

import numpy as np

from quod.commitment.raw import Raw
from quod.commitment.raw_prover import RawCommitter
from quod.commitment.scheme import Claim, Committer
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import SubmittedStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError
from quod.field.array import Words, all_canonical, canonical, from_integers, to_integers
from quod.gkr.key import VerifyingKey
from quod.gkr.prover.boundary import Boundary
from quod.gkr.prover.plan import BatchPlan
from quod.gkr.prover.state import FIRST_POINT, VALUES
from quod.gkr.statement import Statement
from quod.sumcheck.run import words_to_elements
from quod.transcript.joined import joined
from quod.transcript.messages import ProofWriter
from quod.transcript.transcript import Transcript


class PipelineSlot:
    """Device memory and launches for at most `plan.batch` proofs at a time."""

    def __init__(self, plan: BatchPlan, key: VerifyingKey, instances: int, name: str) -> None:
        """`instances` is the number of instances of a proof, `name` the name of the stream."""
        self.device, self._plan, self.key, self._name = plan.device, plan, key, name
        self.circuit, self._instances = plan.circuit, instances
        self.boundary = Boundary(plan, instances)
        log2_size = self.circuit.log_inputs + plan.log_instances
        self._raw: RawCommitter | None = None
        self._committers: list[Committer] = []
        # A raw commitment is the inputs themselves, as a part of the proof.
        if isinstance(key.commitment, Raw):
            self._raw = RawCommitter(self.device, key.field, log2_size, count=plan.batch)
        else:
            # The prover has checked the key's bits of security, so the minimum here is 0.
            self._committers = [
                key.commitment.committer(self.device, key.field, log2_size, allow_bits=0)
                for _ in range(plan.batch)
            ]
        self._submitted: SubmittedStream | None = None
        self._writers: list[ProofWriter] = []

    @property
    def recording(self) -> Recording:
        """The launches of a batch; `begin` uploads the inputs and transcript states they read."""
        return self._plan.recording

    @cached_property
    def _sent(self) -> Words:
        """Pinned host memory for the messages of a batch, of shape (batch, words of a proof).

        It is reused, because its allocation takes longer than the copy.
        """
        shape = self._plan.batch, self._plan.sent_words
        return self.device.pinned(4 * shape[0] * shape[1]).view(np.uint32).reshape(shape)

    # --- from inputs to submitted work

    def begin(
        self, statements: Sequence[Statement], tables: Sequence[Words], before: Transcript,
        timeline: Timeline | None,
    ) -> None:  # fmt: skip
        """Commit to the inputs and submit the launches; the last proof is repeated as padding.

        tables: the inputs of each proof, uint32 of shape (instances, inputs, words).
        before: the transcript that absorbed the common part of all statements. It is copied. If the
            circuit has no public inputs, it has also absorbed their empty list.
        Raises InputError if an input is not a canonical field element.
        """
        plan = self._plan
        if not self.boundary.upload_inputs(tables):
            self._refuse_inputs(tables)
        self._set_public([*statements, *[statements[-1]] * (plan.batch - len(statements))])
        self._writers = [_writer(statement, before) for statement in statements]
        self._commit()
        self._set_states()
        self._submitted = (
            self.device.stream(self._name).replay(plan.recording).submit(timeline)
        )  # fmt: skip

    def _commit(self) -> None:
        table = self._plan.values[0]
        if self._raw is not None:
            self._raw.commit_each(table, self._writers)
            return
        size = table.nbytes // self._plan.batch
        for number, writer in enumerate(self._writers):
            inputs = table.slice(number * size, (number + 1) * size)
            self._committers[number].commit(inputs, writer)

    def _set_public(self, statements: Sequence[Statement]) -> None:
        """Upload the public inputs, ordered by proof, input and instance.

        `Statement.padded` repeats those of the last instance up to a power of two.
        """
        if not self.circuit.public:
            return
        rows = [row for statement in statements for row in zip(*statement.padded, strict=True)]
        values = from_integers(self.circuit.field, [value for row in rows for value in row])
        target = self._plan.coefficients
        self.device.upload(values, into=target.slice(target.nbytes - values.nbytes, target.nbytes))

    def _set_states(self) -> None:
        """Upload the prover states: zero elements, and the transcript states of the writers."""
        plan, field, writers = self._plan, self.key.field, self._writers
        words = np.zeros(plan.layout.words(field), np.uint32)
        states = words[plan.layout.states(field)].reshape(plan.batch, -1)
        for number in range(plan.batch):
            writer = writers[min(number, len(writers) - 1)]
            states[number] = np.frombuffer(writer.transcript.state, "<u4")
        self.device.upload(words, into=plan.states)

    # --- from submitted work to proofs

    def finish(self, first: int | None) -> list[bytes]:
        """Wait for the proofs, and return them without those of the padding.

        first: the number of the batch's first proof in error messages; None for a single proof.
        Raises InputError if an output is not 0, and DeviceError if the device wrote no proof.
        """
        submitted, self._submitted = self._submitted, None
        assert submitted is not None
        submitted.wait()
        if not self.boundary.outputs_are_zero():
            self._refuse_outputs(len(self._writers), first)
        plan, field, messages = self._plan, self.key.field, self._sent
        messages[:, -1] = UNWRITTEN
        self.device.download(plan.sent, messages)
        if not all_canonical(field.modulus, messages):
            raise not_written(self.device, "a proof")
        rows = messages.astype("<u4", copy=False)
        if self._raw is not None:
            self._raw.end()
            # A raw commitment has no opening, so the device's messages end the proof.
            pairs = zip(self._writers, rows, strict=False)
            return joined([(*writer.parts, row.data) for writer, row in pairs])
        words = np.full(plan.layout.words(field), UNWRITTEN, np.uint32)
        self.device.download(plan.states, words)
        # The elements of all prover states come first, then the transcript states.
        transcripts = plan.layout.states(field)
        state_elements = words[: transcripts.start].reshape(
            plan.batch, plan.layout.stride, field.words
        )
        if not all_canonical(field.modulus, state_elements):
            raise not_written(self.device, "a proof")
        states = words[transcripts].astype("<u4", copy=False).reshape(plan.batch, -1)
        for number, writer in enumerate(self._writers):
            writer.resume_after(rows[number].tobytes(), states[number].tobytes())
            self._committers[number].open(self._claims(state_elements[number]), writer)
        return [writer.getvalue() for writer in self._writers]

    def abandon(self) -> None:
        """Cancel submitted work, so that its memory can be used again."""
        submitted, self._submitted = self._submitted, None
        if submitted is not None:
            submitted.cancel()
            # The cancelled stream raises, and the caller already has the first error.
            with suppress(DeviceError):
                submitted.wait()
        if self._raw is not None:
            self._raw.abandon()

    def _claims(self, words: Words) -> list[Claim]:
        """Return the claims about the inputs from the words of a proof's state."""
        layout, log_inputs = self._plan.layout, self.circuit.log_inputs
        elements = words_to_elements(self.key.field, words)
        instance_point = elements[layout.instance_point :]
        points = [
            elements[start : start + log_inputs] + instance_point
            for start in (FIRST_POINT, layout.second_point)
        ]
        values = elements[VALUES : VALUES + 2]
        claims = [Claim(tuple(p), v) for p, v in zip(points, values, strict=True)]
        # Each sumcheck of the lowest layer leaves a claim.
        return claims[: len(self._plan.protocol.layer(0).sumchecks)]

    def _refuse_inputs(self, tables: Sequence[Words]) -> NoReturn:
        """Raise the error for inputs that are not all canonical elements."""
        field = self.circuit.field
        if all(canonical(field, table).all() for table in tables):
            raise not_written(self.device, "the inputs by place")
        raise InputError(f"inputs must be elements of {field.name}, below its prime")

    def _refuse_outputs(self, proofs: int, first: int | None) -> NoReturn:
        """Raise the error that names the first output that is not 0."""
        circuit, is_base = self.circuit, self._plan.gates.values_are_base[-1]
        outputs = self.boundary.outputs()
        # The outputs that must be 0, without padding.
        zeros = outputs[:proofs, : circuit.zeros, : self._instances]
        if not zeros.any():
            raise not_written(self.device, "the outputs")
        nonzero = np.argwhere(zeros.any(axis=3))
        proof, output, instance = min(
            nonzero.tolist(), key=lambda indices: (indices[0], indices[::-1])
        )
        value = to_integers(circuit.field, outputs[proof, output, instance, : circuit.field.words])[
            0
        ]
        suffix = f" of instance {instance}" if self._instances > 1 else ""
        suffix += f" of proof {first + proof}" if first is not None else ""
        # A user cannot interpret an element of the extension.
        fault = f"is {value} with these inputs, not 0" if is_base else "is not 0 with these inputs"
        others = f", and {len(nonzero) - 1} more are not" if len(nonzero) > 1 else ""
        raise InputError(f"output {output} of the circuit{suffix} {fault}{others}")


def _writer(statement: Statement, before: Transcript) -> ProofWriter:
    transcript = before.copy()
    if statement.circuit.public:
        statement.absorb_public(transcript)
    return ProofWriter(transcript)
