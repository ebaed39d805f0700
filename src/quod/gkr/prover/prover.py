"""The prover of layered circuits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np

from quod.circuit.layered import LayeredCircuit
from quod.commitment.scheme import Claim, Committer
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.timeline import Timeline, or_null
from quod.device.written import UNWRITTEN, not_written
from quod.errors import DeviceError, InputError
from quod.field.array import Words, canonical, from_integers, to_integers
from quod.gkr.checker.device_verifier import Verifier
from quod.gkr.key import VerifyingKey
from quod.gkr.prover.batch import BatchPlan
from quod.gkr.prover.boundary import Boundary
from quod.gkr.prover.columns.plan import ColumnPlan
from quod.gkr.prover.columns.resident import ResidentColumns
from quod.gkr.prover.plan import ProofPlan
from quod.gkr.prover.resident import ResidentCircuit
from quod.gkr.prover.standing import FIRST, VALUES
from quod.gkr.reduction import Reduction
from quod.gkr.statement import Statement, by_instance, checked_key, checked_lists
from quod.sumcheck.run import words_to_elements
from quod.transcript.messages import ProofWriter
from quod.validation import flag, plain_array, whole_number


class Prover:
    """A circuit on a device, for proofs of as many `instances` each, `batch` of them at a time."""

    def __init__(
        self, device: DeviceChoice, key: VerifyingKey, circuit: LayeredCircuit, *,
        instances: int = 1, batch: int = 1,
    ) -> None:  # fmt: skip
        """MismatchError for a key of another circuit, InputError for too few bits, DeviceError
        where memory is short."""
        self.device: AnyDevice = resolve_device(device)
        more = checked_key(key, circuit, instances)
        batch = whole_number("the batch", batch, 1, 1 << 16)
        self.key, self.circuit, self.instances = key, circuit, int(instances)
        self._plan = _plan(self.device, key, circuit, log_instances=more, batch=batch)
        self._boundary = Boundary(self._plan, self.instances)
        self._committers: list[Committer] = [
            key.commitment.committer(self.device, key.field, circuit.log_inputs + more)
            for _ in range(batch)
        ]

    def prove(
        self, inputs: Sequence[object] | Words, public: Sequence[object] = (), *,
        check: bool = True, timeline: Timeline | None = None,
    ) -> bytes:  # fmt: skip
        """A proof that the outputs of all instances are 0.

        `inputs` are those of the instance, a list of int, or of several a list of such lists; or an
        array of elements (`quod.field.from_integers`) of shape (instances, inputs, words), of one
        instance (inputs, words) too. The same holds for the public inputs, which are lists. **It
        keeps no secret**: with the raw commitment the inputs are in the proof. InputError if an
        output is not 0. With `check` the proof is verified on the same device before it is given
        away, by a `Verifier` that the first such proof makes.
        """
        (proof,) = self.prove_many([inputs], [public], check=check, timeline=timeline)
        return proof

    def prove_many(
        self, inputs: Sequence[Sequence[object] | Words], public: Sequence[Sequence[object]], *,
        check: bool = True, timeline: Timeline | None = None,
    ) -> list[bytes]:  # fmt: skip
        """Proofs, each as `prove` makes it, of so many inputs and public inputs."""
        or_null(timeline)
        flag("check", check)
        given, known = checked_lists("the inputs", inputs, public)
        statements = [Statement(self.key, self.circuit, row, self.instances) for row in known]
        tables = [self._table(row) for row in given]
        proofs: list[bytes] = []
        batch = self._plan.batch
        for at in range(0, len(tables), batch):
            first = at if len(tables) > 1 else None
            some = slice(at, at + batch)
            proofs += self._prove(statements[some], tables[some], first, timeline)
        if check:
            with or_null(timeline).stage("check"):
                self._check(statements, proofs, timeline)
        return proofs

    def _prove(
        self, statements: list[Statement], tables: list[Words], first: int | None,
        timeline: Timeline | None,
    ) -> list[bytes]:  # fmt: skip
        """Proofs of at most a batch, the number of the first one, and None of a single one; the
        rest of the batch is as the last one."""
        plan, writers = self._plan, []
        if not self._boundary.bring(tables):
            self._refuse_inputs(tables)
        self._set_public([*statements, *[statements[-1]] * (plan.batch - len(statements))])
        size = plan.values[0].nbytes // plan.batch
        for number, statement in enumerate(statements):
            writer = ProofWriter(self.key.transcript())
            statement.begin(writer.transcript)
            table = plan.values[0].slice(number * size, (number + 1) * size)
            self._committers[number].commit(table, writer)
            writers.append(writer)
        claims = self._run(writers, timeline)
        if not self._boundary.outputs_are_zero():
            self._refuse_outputs(len(tables), first)
        for committer, own, writer in zip(self._committers, claims, writers, strict=False):
            committer.open(own, writer)
        return [writer.getvalue() for writer in writers]

    def _check(
        self, statements: list[Statement], proofs: list[bytes], timeline: Timeline | None
    ) -> None:
        for error in self._verifier.errors_of(statements, proofs, timeline):
            if error is not None:
                raise DeviceError(
                    f"{self.device.name} made a proof that does not verify ({error}); its memory "
                    "or its driver may be faulty"
                )

    @cached_property
    def _verifier(self) -> Verifier:
        """Made for the first proof that is checked, with memory of its own."""
        return Verifier(
            self.device, self.key, self.circuit, instances=self.instances, batch=self._plan.batch
        )

    def _table(self, inputs: object) -> Words:
        """The inputs of each instance in the form of memory."""
        circuit, words = self.circuit, self.circuit.field.words
        size = 1 << circuit.log_inputs
        if isinstance(inputs, (list, tuple)):
            rows = by_instance("inputs", inputs, self.instances)
            table = np.concatenate([self._elements(row) for row in rows])
        else:
            table, shape = plain_array("the inputs", inputs), (self.instances, size, words)
            single = self.instances == 1 and table.shape == shape[1:]
            if table.dtype != np.uint32 or not (single or table.shape == shape):
                raise InputError(
                    f"the inputs of {self.instances} instances are uint32 of shape {shape}, not "
                    f"{table.dtype} of {table.shape}"
                )
            table = np.ascontiguousarray(table)
        return table.reshape(self.instances, size, words)

    def _elements(self, row: object) -> Words:
        p, size = self.circuit.field.value, 1 << self.circuit.log_inputs
        if not isinstance(row, (list, tuple)) or len(row) != size:
            raise InputError(f"the inputs of an instance are a list of {size} int")
        if any(type(value) is not int or not 0 <= value < p for value in row):
            raise InputError(f"the inputs of a circuit are int from 0 to {p - 1}")
        return from_integers(self.circuit.field, list(row))

    def _set_public(self, statements: list[Statement]) -> None:
        if not self.circuit.public:
            return
        rows = [row for statement in statements for row in zip(*statement.padded, strict=True)]
        values = from_integers(self.circuit.field, [value for row in rows for value in row])
        target = self._plan.coefficients
        self.device.upload(values, into=target.slice(target.nbytes - values.nbytes, target.nbytes))

    def _run(self, writers: list[ProofWriter], timeline: Timeline | None) -> list[list[Claim]]:
        """All sumchecks; what is left to show about the inputs of each proof."""
        plan, field, device = self._plan, self.key.field, self.device
        layout = plan.layout
        standing = np.zeros(layout.words(field), np.uint32)
        behind = layout.states(field)
        states = standing[behind].reshape(plan.batch, -1)
        for number in range(plan.batch):
            writer = writers[min(number, len(writers) - 1)]
            states[number] = np.frombuffer(writer.transcript.state, "<u4")
        device.upload(standing, into=plan.standing)
        device.stream("gkr").replay(plan.recording).submit(timeline).wait()
        sent = np.full((plan.batch, plan.sent_words), UNWRITTEN, np.uint32)
        device.download(plan.sent, sent)
        device.download(plan.standing, standing)
        elements = standing[: behind.start].reshape(plan.batch, layout.stride, field.words)
        for words in (sent, elements):
            if not canonical(field.modulus, words.reshape(-1, field.modulus.words)).all():
                raise not_written(device, "a proof")
        for number, writer in enumerate(writers):
            state = states[number].astype("<u4").tobytes()
            writer.absorbed(sent[number].astype("<u4").tobytes(), state)
        return [self._claims(own) for own in elements[: len(writers)]]

    def _claims(self, standing: Words) -> list[Claim]:
        """Those about the inputs, of the elements where a proof stands."""
        layout, below = self._plan.layout, self.circuit.log_inputs
        elements = words_to_elements(self.key.field, standing)
        across = elements[layout.across :]
        points = [elements[at : at + below] + across for at in (FIRST, layout.second)]
        values = elements[VALUES : VALUES + 2]
        claims = [Claim(tuple(p), v) for p, v in zip(points, values, strict=True)]
        two = self.key.reduction is Reduction.PLACES and "multiply" in self.circuit.kinds[0]
        return claims if two else claims[:1]

    def _refuse_inputs(self, tables: list[Words]) -> NoReturn:
        """Raises what is wrong with inputs that are not all elements."""
        field = self.circuit.field
        if all(canonical(field, table).all() for table in tables):
            raise not_written(self.device, "the inputs by place")
        raise InputError(f"inputs are elements of {field.name}, below its prime")

    def _refuse_outputs(self, proofs: int, first: int | None) -> NoReturn:
        """Raises which outputs are not 0, in proofs from a number on."""
        circuit, is_base = self.circuit, self._plan.gates.values_are_base[-1]
        found = self._boundary.outputs()
        zeros = found[:proofs, : circuit.zeros, : self.instances]
        if not zeros.any():
            raise not_written(self.device, "the outputs")
        wrong = np.argwhere(zeros.any(axis=3))
        proof, output, number = min(wrong.tolist(), key=lambda place: (place[0], place[::-1]))
        value = to_integers(circuit.field, found[proof, output, number, : circuit.field.words])[0]
        which = f" of instance {number}" if self.instances > 1 else ""
        which += f" of proof {first + proof}" if first is not None else ""
        # An element of the extension says nothing to anybody.
        what = f"is {value} with these inputs, not 0" if is_base else "is not 0 with these inputs"
        more = f", and {len(wrong) - 1} more are not" if len(wrong) > 1 else ""
        raise InputError(f"output {output} of the circuit{which} {what}{more}")


def _plan(
    device: AnyDevice, key: VerifyingKey, circuit: LayeredCircuit, *, log_instances: int, batch: int
) -> BatchPlan:
    """Proofs as the key's reduction has them."""
    if key.reduction is Reduction.COLUMNS:
        return ColumnPlan(
            ResidentColumns(device, circuit, key.field), chain=key.chain, hash=key.hash,
            log_instances=log_instances, batch=batch,
        )  # fmt: skip
    return ProofPlan(
        ResidentCircuit(device, circuit, key.field), chain=key.chain, hash=key.hash,
        log_instances=log_instances, batch=batch,
    )  # fmt: skip
