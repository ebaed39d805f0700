"""The prover of layered circuits: values upwards, then two sumchecks a layer downwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.circuit.layered import LayeredCircuit
from quod.device.buffer import Buffer
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.timeline import Timeline, or_null
from quod.errors import DeviceError, InputError, MismatchError, VerificationError
from quod.field.array import from_integers, to_integers
from quod.field.moduli import Modulus
from quod.gkr.kernels import first_phase, layer_values, output_weights, second_phase
from quod.gkr.key import VerifyingKey
from quod.gkr.resident import ResidentCircuit, Runs
from quod.gkr.verifier import Claims, verify
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import SumcheckRun, elements_to_words
from quod.sumcheck.shape import Shape
from quod.transcript.elements import Plain
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter
from quod.transcript.transcript import Transcript
from quod.validation import instance

_LINEAR = SumOfProducts.product(2)
_WITH_POWERS = SumOfProducts(((1, (0, 1)), (1, (0, 0, 0, 0, 0, 2))))


class Prover:
    """A circuit on a device, for proofs of many inputs."""

    def __init__(self, device: DeviceChoice, key: VerifyingKey, circuit: LayeredCircuit) -> None:
        """MismatchError for a key of another circuit."""
        self.device: AnyDevice = resolve_device(device)
        instance("the key", key, VerifyingKey, "VerifyingKey.of(circuit, field) gives one")
        instance("the circuit", circuit, LayeredCircuit, "CircuitBuilder.finished() gives one")
        if circuit.digest != key.circuit:
            raise MismatchError("the verifying key is of another circuit")
        self.key, self.circuit = key, circuit
        self._resident = ResidentCircuit(self.device, circuit)

    def prove(self, inputs: Sequence[int], *, timeline: Timeline | None = None) -> bytes:
        """A proof that all outputs are 0 with these inputs, the public ones first.

        The inputs that are not public are in the proof: **it keeps no secret**. InputError if an
        output is not 0. The proof is verified before it is given away.
        """
        or_null(timeline)
        key, circuit = self.key, self.circuit
        p, size = circuit.field.value, 1 << circuit.log_inputs
        given: object = inputs
        if not isinstance(given, Sequence) or len(given) != size:
            raise InputError(f"the circuit takes {size} inputs")
        if any(type(value) is not int or not 0 <= value < p for value in inputs):
            raise InputError(f"the inputs of a circuit are int from 0 to {p - 1}")
        values = self._values(inputs)
        self._check_outputs(values[-1])
        writer = ProofWriter(Transcript())
        public = list(inputs[: key.public])
        key.begin(writer.transcript, circuit.field, public)
        private = [(value,) for value in inputs[key.public :]]
        writer.digested(Label.COMMITMENT, circuit.field, private)
        key.lengthen(writer.transcript)
        field = key.field
        first = writer.transcript.challenges(field, circuit.log_outputs)
        claims: Claims = [(first, (0,) * field.degree)]
        for number in reversed(range(len(circuit.layers))):
            claims = self._layer(writer, number, values[number], claims, timeline)
        proof = writer.getvalue()
        try:
            verify(key, circuit, public, proof)
        except (VerificationError, InputError) as error:
            raise DeviceError(
                f"{self.device.name} made a proof that does not verify ({error}); its memory or "
                "its driver may be faulty"
            ) from None
        return proof

    # --- values

    def _values(self, inputs: Sequence[int]) -> list[Buffer]:
        """Those of all layers, the inputs first."""
        device, field = self.device, self.circuit.field
        values = [device.upload(from_integers(field, list(inputs)))]
        recording = device.stream("values").record()
        for layer in self._resident.layers:
            runs = layer.by_output
            values.append(device.allocate(runs.entries * field.bytes))
            self._launch(
                recording, layer_values, runs.entries, runs.starts, runs.gates,
                self._resident.coefficients, values[-2], values[-1], field=field,
            )  # fmt: skip
        recording.finish().submit().wait()
        return values

    def _check_outputs(self, values: Buffer) -> None:
        field = self.circuit.field
        found = np.full((1 << self.circuit.log_outputs, field.words), 0xFFFFFFFF, np.uint32)
        self.device.download(values, found)
        wrong = np.flatnonzero(found.any(axis=1))
        if len(wrong):
            raise InputError(
                f"output {wrong[0]} of the circuit is {to_integers(field, found[wrong[0]])[0]} "
                f"with these inputs, not 0 ({len(wrong)} outputs are not)"
            )

    def _launch(
        self, recording: Any, definition: Any, count: int, *arguments: Any, **static: Any
    ) -> None:
        compiled = self.device.compile(definition, **static)
        recording.launch(compiled, -(-count // compiled.lanes), count, *arguments)

    # --- layers

    def _layer(
        self, writer: ProofWriter, number: int, below: Buffer, claims: Claims,
        timeline: Timeline | None,
    ) -> Claims:  # fmt: skip
        """Both phases of a layer; `below` are the values that its gates take."""
        circuit, field = self.circuit, self.key.field
        layer, log_below = self._resident.layers[number], circuit.log_below(number)
        weights = self._weights(writer, circuit.layers[number].log_size, claims)

        polynomial = _LINEAR if layer.powers is None else _WITH_POWERS
        run = self._run(polynomial, log_below, below)
        recording = self.device.stream("first phase").record()
        runs: list[Runs] = [layer.by_first, *([] if layer.powers is None else [layer.powers])]
        for table, own in enumerate(runs, start=1):
            self._launch(
                recording, first_phase, own.entries, own.starts, own.gates,
                self._resident.coefficients, below, weights, run.table(table), field=field,
            )  # fmt: skip
        recording.finish().submit(timeline).wait()
        x, values = self._sumcheck(writer, run, timeline)
        if layer.products is None:
            writer.elements(Label.VALUES, field, values[:1])
            return [(x, values[0])]
        writer.elements(Label.VALUES, field, values[:2])

        run = self._run(_LINEAR, log_below, below)
        at_x = self.device.allocate(4 * field.words << log_below)
        recording = self.device.stream("second phase").record()
        point = self.device.upload(elements_to_words(field, x))
        self._launch(
            recording, output_weights, 1 << log_below, log_below, point, point, at_x,
            field=field, claims=1,
        )  # fmt: skip
        own = layer.products
        self._launch(
            recording, second_phase, own.entries, own.starts, own.gates,
            self._resident.coefficients, at_x, weights, run.table(1), field=field,
        )  # fmt: skip
        recording.finish().submit(timeline).wait()
        y, others = self._sumcheck(writer, run, timeline)
        writer.elements(Label.VALUES, field, others[:1])
        return [(x, values[0]), (y, others[0])]

    def _weights(self, writer: ProofWriter, log_size: int, claims: Claims) -> Buffer:
        """The weight of each value of a layer in the one claim that its claims are combined to."""
        field = self.key.field
        factor: Plain = (0,) * field.degree
        if len(claims) == 2:
            factor = writer.transcript.challenge(field)
        points = [coordinate for point, _ in claims for coordinate in point]
        weights = self.device.allocate(4 * field.words << log_size)
        recording = self.device.stream("weights").record()
        self._launch(
            recording, output_weights, 1 << log_size, log_size,
            *(self.device.upload(elements_to_words(field, e)) for e in (points, [factor])), weights,
            field=field, claims=len(claims),
        )  # fmt: skip
        recording.finish().submit().wait()
        return weights

    def _run(self, polynomial: SumOfProducts, log_size: int, below: Buffer) -> SumcheckRun:
        """A sumcheck whose first table are the values of a layer."""
        field = self.key.field
        in_base = 0 if isinstance(field, Modulus) else 1
        run = SumcheckRun(self.device, Shape(field, polynomial, in_base, False), log_size)
        run.set_table(0, below)
        return run

    def _sumcheck(
        self, writer: ProofWriter, run: SumcheckRun, timeline: Timeline | None
    ) -> tuple[list[Plain], list[Plain]]:
        """The point of the challenges, and the tables' values there."""
        found = run.prove(run.sum(), writer.transcript.state, timeline)
        writer.absorbed(found.messages, found.state)
        return found.challenges, found.values
