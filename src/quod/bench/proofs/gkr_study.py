"""A study of the GPU prover of layered circuits: the gain of each optimisation.

The tables of a layer are summed under locks, by atomic additions, or over gates sorted by entry.
Sumcheck rounds take two passes over memory, one pass, or shared memory. Proofs run one by one, on
streams, in batches, and with host work concurrent with the device. All variants must give the same
result, which is checked before they are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.bench.proofs.gkr import keccak, random_layers
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import RecordingStream
from quod.errors import DeviceError, InputError
from quod.field.array import Words, random_elements
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.gkr.checker.device_verifier import Verifier
from quod.gkr.key import VerifyingKey
from quod.gkr.prover.gates import GateTable, LayerSizes
from quod.gkr.prover.pipeline_slot import PipelineSlot
from quod.gkr.prover.prover import Prover
from quod.gkr.prover.two_phase.gate_tables import TwoPhaseGates
from quod.gkr.prover.two_phase.kernels import first_phase
from quod.gkr.prover.two_phase.plan import TwoPhasePlan
from quod.gkr.statement import Statement
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.layered.circuit import LayeredCircuit
from quod.sumcheck.finish import finish_rounds, parts_at_once
from quod.sumcheck.memory import SumcheckProgress
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.rounds import PassForm, evaluate_inputs
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import InputTables, SumcheckMemory, SumcheckSizes
from quod.sumcheck.tables import Folded, fold

# The words of an unreduced sum.
_SUM_WORDS = 2


def _gate(
    k: Builder, mixed: MixedField, i: Any, log_size: Any, count: Any, gates: Any, below: Any,
    weights: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the entry to which gate i of all proofs adds, and the summand."""
    proof, gate = i // count, i % count
    first_input, second_input, output = k.load(gates, gate * 3, 3)
    # `bounded` gives an element the standard bounds that loops and branches require.
    value = mixed.base.bounded(mixed.base.load(below, (proof << log_size) + second_input))
    weight = mixed.extended.load(weights, (proof << log_size) + output)
    summand = mixed.extended.bounded(mixed.multiply(weight, value))
    return (proof << log_size) + first_input, summand


@kernel
def add_under_locks(
    k: Builder,
    n: U32,
    log_size: U32,
    count: U32,
    gates: Pointer[U32],
    below: Pointer[U32],
    weights: Pointer[U32],
    locks: Pointer[U32],
    table: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Add one gate per instance, waiting for the lock of the gate's entry."""
    mixed, i = MixedField(k, field), k.global_id()
    f = mixed.extended
    with k.if_(i < n):
        entry, summand = _gate(k, mixed, i, log_size, count, gates, below, weights)
        with k.while_(k.constant(1, types.u32)) as loop:
            loop.check(loop.carried != 0)
            is_locked = k.atomic_compare_exchange(locks, entry, 0, 1) == 0
            with k.if_(is_locked):
                k.fence()
                f.store(table, entry, f.bounded(f.load(table, entry) + summand))
                k.fence()
                k.atomic_exchange(locks, entry, 0)
            loop.next(k.select(is_locked, k.constant(0, types.u32), 1))


@kernel
def add_atomically(
    k: Builder,
    n: U32,
    log_size: U32,
    count: U32,
    gates: Pointer[U32],
    below: Pointer[U32],
    weights: Pointer[U32],
    sums: Pointer[U64],
    *,
    field: FieldSpec,
) -> None:
    """Add one gate per instance to 64-bit sums of coefficients, which are reduced later."""
    mixed, i = MixedField(k, field), k.global_id()
    with k.if_(i < n):
        entry, summand = _gate(k, mixed, i, log_size, count, gates, below, weights)
        for coefficient, word in enumerate(mixed.extended.to_words(summand)):
            k.atomic_add(sums, entry * field.degree + coefficient, word.cast(types.u64))


@kernel
def reduce_sums(
    k: Builder, n: U32, sums: Pointer[U64], table: Pointer[U32], *, modulus: Modulus
) -> None:
    """Reduce n 64-bit sums modulo the field's prime."""
    i = k.global_id()
    with k.if_(i < n):
        table[i] = (sums[i] % modulus.value).cast(types.u32)


@kernel
def fold_tables(
    k: Builder,
    n: U32,
    batch: U32,
    log_size: U32,
    round_number: U32,
    source: Pointer[U32],
    progress: Pointer[U32],
    target: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Fold the tables of a round in a separate pass: n entries, by table and sumcheck."""
    mixed, i = MixedField(k, field), k.global_id()
    f = mixed.extended
    with k.if_(i < n):
        remaining = log_size - 1 - round_number
        row, index = i >> remaining, i & ((k.constant(1, types.u32) << remaining) - 1)
        sumcheck_progress = SumcheckProgress(f, progress, batch, row % batch, log_size)
        tables = Folded(mixed, source, batch, row, remaining + 1)
        low = tables.load(0, index)
        high = tables.load(0, index + (k.constant(1, types.u32) << remaining))
        f.store(target, i, fold(mixed, low, high, sumcheck_progress.challenge(round_number)))


class _Study:
    """Recordings of the variants on one device; `field` has the challenges."""

    def __init__(self, device: AnyDevice, field: FieldSpec, proofs: int, log_size: int) -> None:
        if field.modulus.words > 1 or field.modulus.montgomery_radix != 1:
            raise InputError(
                f"the study does not support {field.name}; choose a field such as m31.3"
            )
        self._device, self._field = device, field
        self._proofs, self._log_size = proofs, log_size

    def _recorded(self, record: Callable[[RecordingStream], None]) -> Recording:
        recording = self._device.stream("study").record()
        record(recording)
        return recording.finish().recording

    def _run(self, recording: Recording) -> None:
        self._device.stream("study").replay(recording).run()

    def _launch(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch with one instance for each of `count` elements."""
        compiled = self._device.compile(definition, **static)
        recording.launch(compiled, -(-count // compiled.lanes), count, *arguments)

    def _cases(
        self, what: str, recordings: dict[str, Recording], result: Buffer, reset: Callable[[], None]
    ) -> Iterator[Case]:
        """Yield the variants, which must leave the same `result`; `reset` restores their inputs."""
        expected: Words | None = None
        for variant, recording in recordings.items():
            reset()
            self._run(recording)
            downloaded = np.empty(result.nbytes // 4, np.uint32)
            self._device.download(result, downloaded)
            if expected is not None and not np.array_equal(downloaded, expected):
                raise DeviceError(f"{self._device.name}: {what} by {variant} differ")
            expected = downloaded
            parameters: dict[str, Parameter] = {
                "what": what, "way": variant, "field": self._field.name, "proofs": self._proofs,
                "log2": self._log_size,
            }  # fmt: skip

            def run(recording: Recording = recording) -> None:
                self._run(recording)

            yield Case(parameters, run, "us/proof", operations=self._proofs)

    # --- tables of a layer

    def tables(self) -> Iterator[Case]:
        """Yield tables of a layer's first sumcheck, with two products per entry."""
        device, field, log_size = self._device, self._field, self._log_size
        count, entries = 2 << log_size, self._proofs << log_size
        circuit = random_layers(field.modulus, 1, log_size, {"multiply": count})
        resident = TwoPhaseGates(device, circuit, field)
        sorted_gates, multiply_gates = (
            resident.layers[0].by_first,
            circuit.layers[0].gates["multiply"],
        )
        gates = device.upload(np.stack([*multiply_gates.inputs, multiply_gates.output], axis=1))
        below = device.upload(random_elements(field.modulus, entries, seed=1))
        weights = device.upload(random_elements(field, entries, seed=2))
        table = device.allocate(4 * field.words * entries)
        locks = device.allocate(4 * entries)
        sums = device.allocate(4 * _SUM_WORDS * field.words * entries)
        no_values = device.upload(np.zeros(1, np.uint32))
        arguments = (self._proofs * count, log_size, count, gates, below, weights)

        def by_locks(recording: RecordingStream) -> None:
            recording.fill(table)
            self._launch(recording, add_under_locks, *arguments, locks, table, field=field)

        def by_atomics(recording: RecordingStream) -> None:
            recording.fill(sums)
            self._launch(recording, add_atomically, *arguments, sums, field=field)
            self._launch(
                recording, reduce_sums, entries * field.degree, sums, table,
                modulus=field.modulus,
            )  # fmt: skip

        def by_runs(recording: RecordingStream) -> None:
            coefficients = device.upload(resident.integer_coefficients)
            self._launch(
                recording, first_phase, entries, 0, LayerSizes(log_size, log_size, 0),
                GateTable(
                    1, 0, 0, 0, sorted_gates.starts, sorted_gates.gates, coefficients, no_values
                ),
                below, weights, table, form=sorted_gates.form,
            )  # fmt: skip

        variants = {"a lock an entry": by_locks, "atomics": by_atomics, "sorted runs": by_runs}
        recordings = {variant: self._recorded(record) for variant, record in variants.items()}
        yield from self._cases("tables of a layer", recordings, table, lambda: None)

    # --- rounds

    def rounds(self) -> Iterator[Case]:
        """Yield all rounds of sumchecks of products of two tables, all in the extension field."""
        device, field, batch, n = self._device, self._field, self._proofs, self._log_size
        shape = Shape(field, SumOfProducts.product(2), in_base=0, has_point=False)
        tables = device.upload(random_elements(field, 2 * batch << n, seed=3))
        plans = {
            "a launch a round": SumcheckPlan(
                device, shape, n, batch=batch, log_capacity=1, depth=1
            ),
            "last rounds in shared memory": SumcheckPlan(
                device, shape, n, batch=batch, in_place=False
            ),
            "the first of them in place": SumcheckPlan(
                device, shape, n, batch=batch, in_place=True
            ),
        }
        launch_plan = plans["a launch a round"]
        progress, proof = (
            device.allocate(launch_plan.progress_bytes),
            device.allocate(launch_plan.proof_bytes),
        )
        partial = device.allocate(max(plan.partial_bytes for plan in plans.values()))
        equality = device.allocate(launch_plan.equality_bytes)
        folded = [
            device.allocate(max(4 * field.words * batch << n, launch_plan.folded_bytes))
            for _ in range(2)
        ]
        start = random_elements(field.modulus, launch_plan.progress_bytes // 4, seed=4)

        def in_two_passes(recording: RecordingStream) -> None:
            source = tables
            for round_index in range(n):
                remaining = n - round_index
                round_plan = SumcheckPlan(
                    device, shape, remaining, batch=batch, log_capacity=1, depth=1
                )
                groups = round_plan.sum_groups
                lanes = round_plan.finish_lanes
                recording.launch(
                    device.compile(
                        evaluate_inputs, lanes=round_plan.pass_lanes,
                        form=PassForm(shape, 1, 1, in_blocks=device.host_memory),
                    ),
                    batch * groups, SumcheckSizes(batch, remaining, round_plan.log_low), groups,
                    InputTables(equality, source, equality), equality, partial,
                )  # fmt: skip
                recording.launch(
                    device.compile(
                        finish_rounds, lanes=lanes, shape=shape, depth=1,
                        at_once=parts_at_once(groups, lanes),
                    ),
                    batch, batch, n, round_index, groups, partial,
                    SumcheckMemory(equality, progress, proof),
                )  # fmt: skip
                target = folded[round_index % 2]
                self._launch(
                    recording, fold_tables, 2 * batch << (remaining - 1), batch, n, round_index,
                    source, progress, target, field=field,
                )  # fmt: skip
                source = target
            size = 2 * batch * 4 * field.words
            recording.copy(source.slice(0, size), proof.slice(proof.nbytes - size, proof.nbytes))

        recordings = {"two passes a round": self._recorded(in_two_passes)}
        for variant, plan in plans.items():

            def as_planned(recording: RecordingStream, plan: SumcheckPlan = plan) -> None:
                plan.record(
                    recording, Inputs(None, tables), equality=equality, progress=progress,
                    proof=proof, folded=folded[0], partial=partial,
                )  # fmt: skip

            recordings[variant] = self._recorded(as_planned)

        def reset_progress() -> None:
            device.upload(start, into=progress)

        yield from self._cases("rounds", recordings, proof, reset_progress)

    # --- whole proofs

    def schedules(self, circuit: LayeredCircuit, name: str, proofs: int) -> Iterator[Case]:
        """Yield proofs batched in one launch, and proofs with launches of their own."""
        device, field = self._device, self._field
        key = VerifyingKey.of(circuit, field, allow_bits=0)
        gates = TwoPhaseGates(device, circuit, field)
        tables = [
            random_elements(field.modulus, 1 << circuit.log_inputs, seed=seed)[None]
            for seed in range(proofs)
        ]
        statements = [Statement(key, circuit, (), 1, allow_bits=0)] * proofs
        transcript = key.transcript()
        statements[0].begin(transcript)

        def new_slot(batch: int) -> PipelineSlot:
            plan = TwoPhasePlan(
                gates, delay_messages=key.chain, hash=key.hash, log_instances=0, batch=batch
            )
            return PipelineSlot(plan, key, 1, "proof")

        batched_slots, single_slots = [new_slot(proofs)], [new_slot(1) for _ in range(proofs)]

        def prove(slots: list[PipelineSlot], concurrent_slots: int) -> list[bytes]:
            proofs_per_slot, proof_list = proofs // len(slots), []
            for first in range(0, len(slots), concurrent_slots):
                running_slots = slots[first : first + concurrent_slots]
                for slot_index, slot in enumerate(running_slots, start=first):
                    batch = slice(slot_index * proofs_per_slot, (slot_index + 1) * proofs_per_slot)
                    slot.begin(statements[batch], tables[batch], transcript, None)
                proof_list += [proof for slot in running_slots for proof in slot.finish(None)]
            return proof_list

        def launch(slots: list[PipelineSlot], concurrent_slots: int) -> None:
            for first in range(0, len(slots), concurrent_slots):
                streams = [device.stream("proof") for _ in slots[first : first + concurrent_slots]]
                submitted = [
                    stream.replay(slot.recording).submit()
                    for stream, slot in zip(streams, slots[first:], strict=False)
                ]
                for stream in submitted:
                    stream.wait()

        variants = {"one after another": (single_slots, 1), "on streams": (single_slots, proofs),
                "side by side": (batched_slots, 1)}  # fmt: skip
        expected = prove(batched_slots, 1)
        Verifier(device, key, circuit, batch=proofs, allow_bits=0).verify_many(
            [()] * proofs, expected
        )
        for what, run in (("proofs", prove), ("launches of proofs", launch)):
            for variant, arguments in variants.items():
                if prove(*arguments) != expected:
                    raise DeviceError(f"{device.name}: proofs {variant} differ")
                parameters: dict[str, Parameter] = {
                    "what": what, "way": variant, "field": field.name, "proofs": proofs,
                    "circuit": name,
                }  # fmt: skip
                yield Case(parameters, partial(run, *arguments), "us/proof", operations=proofs)

    def pipelines(self, proofs: int) -> Iterator[Case]:
        """Yield batches of Keccak-f, with and without host work concurrent with the device."""
        circuit, draw = keccak(self._field.modulus)
        key = VerifyingKey.of(circuit, self._field, allow_bits=0)
        inputs, batch = [draw(1)[0]] * proofs, max(1, proofs // 8)
        for variant, in_progress in (("one batch in progress", 1), ("two batches in progress", 2)):
            prover = Prover(
                self._device, key, circuit, batch=batch, in_progress=in_progress, allow_bits=0
            )
            prover.prove_many(inputs[:batch], [()] * batch)
            parameters: dict[str, Parameter] = {
                "what": "batches", "way": variant, "field": self._field.name, "proofs": proofs,
                "circuit": "keccak",
            }  # fmt: skip

            def run(prover: Prover = prover) -> None:
                prover.prove_many(inputs, [()] * proofs, check=False)

            yield Case(parameters, run, "us/proof", operations=proofs)


def study_cases(
    device: DeviceChoice, field: FieldSpec, *, proofs: int = 1024, log_size: int = 11,
    fused: int = 64, log_gates: int = 12,
) -> Iterator[Case]:  # fmt: skip
    """Yield the whole study.

    proofs, log_size: the number of proofs, and the log2 of values per layer, for tables and rounds;
        `proofs` also for the pipelines of Keccak-f.
    fused: the number of proofs in each schedule of the circuits of ten layers.
    log_gates: the log2 of the number of gates of the first of these circuits, and of each layer of
        the second.
    """
    study = _Study(resolve_device(device), field, proofs, log_size)
    yield from study.tables()
    yield from study.rounds()
    for name, log_values, gates_per_kind in (
        ("ten layers, 2^12 gates", max(1, log_gates - 4), (1 << log_gates) // 20),
        ("ten layers of 2^12 gates", log_gates - 1, 1 << (log_gates - 1)),
    ):
        gate_counts = dict.fromkeys(("add", "multiply"), gates_per_kind)
        circuit = random_layers(field.modulus, 10, log_values, gate_counts)
        yield from study.schedules(circuit, name, fused)
    yield from study.pipelines(proofs)
