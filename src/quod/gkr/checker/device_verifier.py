"""The fast verifier of layered circuits: it verifies batches of proofs on a device.

It gives the same verdicts as `quod.gkr.verify`, with which it shares statements and the description
of the protocol. It shares no computation with the prover.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from quod.commitment.ligero.checker.openings import OpeningChecker
from quod.commitment.ligero.scheme import Ligero
from quod.commitment.ligero.verifier import LigeroCommitment
from quod.commitment.raw import Raw, RawCommitment
from quod.commitment.scheme import Claim, Commitment
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, VerificationError
from quod.field.array import from_integers
from quod.field.element_bytes import Plain, decode, element_bytes
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.checker.data_parallel.plan import DataParallelCheckPlan
from quod.gkr.checker.messages import Check, Message
from quod.gkr.checker.plan import CheckPlan
from quod.gkr.checker.records import FAILED, FIRST_CHECK, FIRST_WRONG, PASSED, READ, STATE
from quod.gkr.checker.two_phase.plan import TwoPhaseCheckPlan
from quod.gkr.key import VerifyingKey
from quod.gkr.reduction import by_reduction
from quod.gkr.statement import Statement, checked_key, checked_lists
from quod.hash.function import STATE_WORDS
from quod.layered.circuit import LayeredCircuit
from quod.security import MIN_BITS
from quod.sumcheck.run import words_to_elements
from quod.transcript.messages import (
    ProofReader,
    elements_text,
    trailing_bytes_error,
    truncation_error,
)
from quod.validation import shown_kind, whole_number

Words = NDArray[np.uint32]

Refusal = VerificationError | InputError
"""The error for a proof that is not accepted."""


class Verifier:
    """A verifier on a device for proofs of `instances` instances of a circuit, in batches.

    The constructor allocates all memory, `peak_bytes`: 8 to 16 bytes per gate and, per proof of a
    batch, the proof's size and about the size of one layer's weights. A lock serialises threads.
    """

    def __init__(
        self, device: DeviceChoice, key: VerifyingKey, circuit: LayeredCircuit, *,
        instances: int = 1, batch: int = 1, allow_bits: int = MIN_BITS,
    ) -> None:  # fmt: skip
        """Allocate all memory.

        Raises MismatchError for a key of another circuit, InputError if soundness is below the bits
        of the key or `allow_bits`, and DeviceError if memory is short.
        """
        self.device: AnyDevice = resolve_device(device)
        self._log_instances = checked_key(key, circuit, instances, allow_bits)
        self.key, self.circuit, self.instances = key, circuit, int(instances)
        plan_type: Callable[..., CheckPlan] = by_reduction(
            key.reduction, places=TwoPhaseCheckPlan, columns=DataParallelCheckPlan
        )
        self._plan: CheckPlan = plan_type(
            self.device, key, circuit, log_instances=self._log_instances,
            batch=whole_number("the batch", batch, 1, 1 << 16),
            evaluates_inputs=isinstance(key.commitment, Raw),
        )  # fmt: skip
        self._turn = Lock()
        self._openings: OpeningChecker | None = None
        if isinstance(key.commitment, Ligero):
            size = circuit.log_inputs + self._log_instances
            self._openings = OpeningChecker(self.device, key.commitment.shape(key.field, size))
        self.peak_bytes = self._plan.peak_bytes
        """Bytes of device memory."""
        if self._openings is not None:
            self.peak_bytes += self._openings.peak_bytes
        messages = self._plan.messages
        self._checks = list(messages.checks)
        failure, last_message = (
            "the committed table has a different value at a point",
            len(messages.rows) - 1,
        )
        first_verdict = self._plan.claim_record - FIRST_CHECK
        self._checks += [
            Check(first_verdict + claim, last_message, failure)
            for claim in range(len(messages.claims.points))
        ]

    def verify(
        self, public: Sequence[object], proof: bytes, *, timeline: Timeline | None = None
    ) -> None:
        """Verify a proof as `quod.gkr.verify` does; raises the same errors."""
        (error,) = self.errors([public], [proof], timeline=timeline)
        if error is not None:
            raise error

    def verify_many(
        self, publics: Sequence[Sequence[object]], proofs: Sequence[bytes], *,
        timeline: Timeline | None = None,
    ) -> None:  # fmt: skip
        """Verify proofs, each with its public inputs; raise the error of the first invalid one.

        The message names the index of that proof.
        """
        for number, error in enumerate(self.errors(publics, proofs, timeline=timeline)):
            if error is not None:
                numbered_error = type(error)(f"proof {number}: {error}")
                if isinstance(error, InputError) and isinstance(numbered_error, InputError):
                    numbered_error.offset = error.offset
                raise numbered_error

    def errors(
        self, publics: Sequence[Sequence[object]], proofs: Sequence[bytes], *,
        timeline: Timeline | None = None,
    ) -> list[Refusal | None]:  # fmt: skip
        """Return for each proof the error of `verify`, or None if it is valid.

        Raises InputError for malformed public inputs, and for a proof that is not bytes.
        """
        proof_list, public_rows = checked_lists("the proofs", proofs, publics)
        for number, proof in enumerate(proof_list):
            if type(proof) is not bytes:
                name = f"proof {number}" if len(proof_list) > 1 else "a proof"
                raise InputError(f"{name} must be bytes, not {shown_kind(proof)}")
        log_instances = self._log_instances
        statements = [
            Statement(self.key, self.circuit, row, self.instances, checked=log_instances)
            for row in public_rows
        ]
        return self.errors_of(statements, proof_list, timeline)

    def errors_of(
        self, statements: Sequence[Statement], proofs: Sequence[bytes],
        timeline: Timeline | None = None,
    ) -> list[Refusal | None]:  # fmt: skip
        """Return the errors of proofs of statements about this circuit, as `errors` does."""
        verdicts: list[Refusal | None] = []
        batch = self._plan.batch
        for index in range(0, len(proofs), batch):
            readings = [
                self._read(statement, proof)
                for statement, proof in zip(
                    statements[index : index + batch], proofs[index : index + batch], strict=True
                )
            ]
            with self._turn:
                errors = iter(self._run([r for r in readings if isinstance(r, _Reading)], timeline))
            verdicts += [next(errors) if isinstance(r, _Reading) else r for r in readings]
        return verdicts

    def _read(self, statement: Statement, proof: bytes) -> _Reading | Refusal:
        """Read the commitment of a proof and check its length on the host."""
        messages, key = self._plan.messages, self.key
        reader = ProofReader(proof, key.transcript())
        statement.begin(reader.transcript)
        try:
            size = self.circuit.log_inputs + self._log_instances
            commitment = key.commitment.read(reader, key.field, size, allow_bits=0)
        except (InputError, VerificationError) as error:
            return error
        start, bytes_each = reader.offset, element_bytes(key.field)
        stop = start + messages.elements * bytes_each
        if len(proof) < stop:
            message = next(
                candidate for candidate in messages.of_elements.values()
                if start + (candidate.first + candidate.count) * bytes_each > len(proof)
            )  # fmt: skip
            return truncation_error(
                proof, elements_text(key.field, message.count), start + message.first * bytes_each
            )
        if self._plan.evaluates_inputs and len(proof) > stop:
            return trailing_bytes_error(proof, stop)
        return _Reading(statement, commitment, reader.transcript.state, proof, start, stop)

    # --- on the device

    def _run(self, readings: Sequence[_Reading], timeline: Timeline | None) -> list[Refusal | None]:
        """Return the verdicts on at most a batch of proofs, padded with the last proof."""
        if not readings:
            return []
        plan, device = self._plan, self.device
        # A random multiple of four, so that records of earlier runs are no verdicts.
        ticket = 4 * secrets.randbelow(1 << 29)
        self._upload([*readings, *[readings[-1]] * (plan.batch - len(readings))], ticket)
        records = np.full((plan.batch, plan.record_words), UNWRITTEN, np.uint32)
        device.upload(records, into=plan.records)
        device.stream("check").replay(plan.recording).run(timeline)
        records = np.full_like(records, UNWRITTEN)
        device.download(plan.records, records)
        records = records[: len(readings)]
        record_indices = [FIRST_CHECK + check.verdict_index for check in self._checks]
        verdicts = records[:, record_indices] - np.uint32(ticket)
        is_verdict = (verdicts == PASSED) | (verdicts == FAILED)
        if not is_verdict.all() or (records[:, READ] != ticket).any():
            raise not_written(device, "the check of a proof")
        first_wrong = records[:, FIRST_WRONG].tolist()
        if max(first_wrong) > len(plan.messages.rows):
            raise not_written(device, "the check of a proof")
        errors: list[Refusal | None] = [
            self._refusal(reading, first, row)
            for reading, first, row in zip(readings, first_wrong, verdicts == FAILED, strict=True)
        ]
        if not plan.evaluates_inputs:
            self._check_claims(readings, records, errors, timeline)
        return errors

    def _upload(self, readings: Sequence[_Reading], ticket: int) -> None:
        plan, device = self._plan, self.device
        states = b"".join(reading.state for reading in readings)
        run_start = np.concatenate([np.array([ticket], np.uint32), np.frombuffer(states, "<u4")])
        device.upload(run_start, into=plan.run_start)
        for number, reading in enumerate(readings):
            count = (reading.stop - reading.start) // 4
            words = np.frombuffer(reading.proof, "<u4", count, reading.start)
            device.upload(words, into=plan.proof_elements(number))
        if plan.evaluates_inputs:
            tables = []
            for reading in readings:
                assert isinstance(reading.commitment, RawCommitment)
                tables.append(reading.commitment.table)
            device.upload(np.concatenate(tables), into=plan.inputs)
        if self.circuit.public:
            padded = [row for r in readings for row in zip(*r.statement.padded, strict=True)]
            values = [value for row in padded for value in row]
            device.upload(from_integers(self.circuit.field, values), into=plan.public)

    def _refusal(
        self, reading: _Reading, first_wrong: int, failed: NDArray[np.bool_]
    ) -> Refusal | None:
        """Return the first error in the order of the messages."""
        for check, fails in zip(self._checks, failed.tolist(), strict=True):
            if first_wrong <= check.message:
                break
            if fails and check.failure is not None:
                return VerificationError(check.failure)
            if fails:
                first_wrong = check.message
                break
        message = self._plan.messages.of_elements.get(first_wrong)
        if message is None:
            return None
        try:
            reading.elements(self.key.field, message)
        except InputError as error:
            return error
        raise not_written(self.device, "the check of a proof")

    def _check_claims(
        self, readings: Sequence[_Reading], records: Words, errors: list[Refusal | None],
        timeline: Timeline | None,
    ) -> None:  # fmt: skip
        """Check the claims about the inputs of all proofs without errors so far.

        Openings of Ligero are checked on the device, others by the commitment's verifier.
        """
        plan, field = self._plan, self.key.field
        claims = plan.messages.claims
        challenges, claimed = (
            np.full((plan.batch, count, field.words), UNWRITTEN, np.uint32)
            for count in (len(plan.messages.rows), len(claims.points))
        )
        self.device.download(plan.challenges, challenges)
        self.device.download(plan.claimed, claimed)
        for number, reading in enumerate(readings):
            if errors[number] is not None:
                continue
            input_claims = []
            for point, value in zip(
                claims.points, words_to_elements(field, claimed[number]), strict=True
            ):
                coordinates = challenges[number, [*point.coordinates, *claims.instance_point]]
                input_claims.append(Claim(tuple(words_to_elements(field, coordinates)), value))
            state = records[number, STATE : STATE + STATE_WORDS].astype("<u4").tobytes()
            reader = ProofReader(reading.proof, self.key.transcript(state))
            reader.offset = reading.stop
            try:
                if self._openings is None:
                    reading.commitment.check(input_claims, reader)
                else:
                    assert isinstance(reading.commitment, LigeroCommitment)
                    self._openings.check(reading.commitment, input_claims, reader, timeline)
                reader.end()
            except (InputError, VerificationError) as error:
                errors[number] = error


@frozen(eq=False)
class _Reading:
    """A proof whose commitment was read: the transcript state after it, and the remaining bytes."""

    statement: Statement
    commitment: Commitment
    state: bytes
    proof: bytes
    start: int
    stop: int

    def elements(self, field: FieldSpec, message: Message) -> list[Plain]:
        """Return the elements of a message; raise InputError if they are not canonical."""
        bytes_each = element_bytes(field)
        start = self.start + message.first * bytes_each
        return decode(field, self.proof[start : start + message.count * bytes_each], offset=start)
