"""Traced circuits of Quod's own, in the user's cache.

Entries are keyed by the digest of all of Quod's sources. They are in the cache of compiled kernels
and are trusted like these (`quod.device.cache.cache`). The dependencies of functions outside Quod
are unknown: each process traces their circuits, and only the witness programs are cached
(`quod.r1cs.witness_program.cached`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.errors import InputError
from quod.formats.curves import curve_named
from quod.frozen import fields_of
from quod.r1cs.circuit import Circuit, trace
from quod.r1cs.packed import pack, read_cached, unpack
from quod.r1cs.repetition.parts import Part, Parts, Side
from quod.r1cs.repetition.schedule import Schedule, ShortcutCalls, Stage
from quod.r1cs.shape import Counts
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.cached import PROGRAM_ARRAYS, program_from, program_parts
from quod.r1cs.witness_program.steps import Input
from quod.r1cs.witnesses import WitnessProgram

# The arrays of a part, without the waves of its copies.
_PART_ARRAYS = 13


def builtin_circuit(module: str, name: str, curve: str) -> Circuit:
    """Return the prepared circuit of a function in one of Quod's modules.

    The function must have no hints. A cached circuit does not import the module; it is traced when
    a message or a profile needs the names and lines of constraints. Raises InputError if the module
    is not part of Quod.
    """
    if module.partition(".")[0] != "quod":
        raise InputError(f"{module} is not a module of Quod; trace its circuits instead")
    curve = curve_named(curve).name
    cache = CompileCache()
    key = key_of("circuit", sources.digest(), module, name, curve)
    cached = read_cached(cache, key, lambda data: _read(data, module, name, curve))
    if cached is not None:
        return cached
    circuit = _trace(module, name, curve)
    circuit.prepare()
    if sources.are_unchanged():
        cache.put(key, _serialise(circuit))
    return circuit


def _trace(module: str, name: str, curve: str) -> Circuit:
    return trace(getattr(import_module(module), name), curve)


def _serialise(circuit: Circuit) -> bytes:
    """Serialise a prepared circuit, without the names and lines of its constraints."""
    schedule = circuit.program.schedule
    parts = schedule.parts
    arrays: list[NDArray[Any]] = [parts.coefficients]
    for part, starts in zip(parts.parts, schedule.starts, strict=True):
        arrays += [starts, part.rows, part.table, part.first_row, part.first_wire]
        for side in part.sides:
            arrays += [side.row_ptr, side.column, side.number]
    stages = []
    for stage in schedule.stages:
        program, program_arrays = program_parts(stage.program, (), circuit.field)
        stages.append([stage.part, stage.wave, program])
        arrays += program_arrays
    for calls in schedule.shortcuts:
        arrays += [calls.arguments, calls.results, calls.waves]
    inputs = [
        [
            declaration.name,
            declaration.wires,
            declaration.bits,
            declaration.single,
            declaration.public,
            declaration.kind,
        ]
        for declaration in circuit.inputs.values()
    ]
    facts = {
        "counts": list(fields_of(circuit.counts).values()), "inputs": inputs,
        "parts": len(parts.parts), "stages": stages,
        "shortcuts": [[calls.part, calls.name, calls.parameters] for calls in schedule.shortcuts],
    }  # fmt: skip
    return pack(facts, arrays)


def _read(data: bytes, module: str, name: str, curve: str) -> Circuit:
    """Restore a circuit from the result of `_serialise`."""
    facts, all_arrays = unpack(data)
    field, counts = curve_named(curve).fr, Counts(*facts["counts"])
    arrays = iter(all_arrays)
    coefficients = next(arrays)
    parts, starts = [], []
    for _ in range(facts["parts"]):
        starts.append(next(arrays))
        rows, table, first_row, first_wire, *sides = islice(arrays, _PART_ARRAYS)
        a, b, c = (Side(*sides[index : index + 3]) for index in (0, 3, 6))
        parts.append(Part(rows, (a, b, c), table, first_row, first_wire))
    stages = [
        Stage(part, wave, program_from(program, list(islice(arrays, PROGRAM_ARRAYS)), (), field))
        for part, wave, program in facts["stages"]
    ]
    shortcuts = [
        ShortcutCalls(
            part, name_of_shortcut, tuple(parameters), next(arrays), next(arrays), next(arrays)
        )
        for part, name_of_shortcut, parameters in facts["shortcuts"]
    ]
    inputs = {
        name_of_input: Input(
            name_of_input, wires, bits=bits, single=single, public=public, kind=kind
        )
        for name_of_input, wires, bits, single, public, kind in facts["inputs"]
    }
    schedule = Schedule(
        Parts(coefficients, tuple(parts), counts.public, counts.wires, counts.constraints),
        tuple(stages), tuple(starts), tuple(shortcuts),
    )  # fmt: skip
    return _CachedCircuit(
        lambda: _trace(module, name, curve).traced, curve, counts, inputs, schedule
    )


class _CachedCircuit(Circuit):
    """A circuit that is traced on first use of its constraint system."""

    def __init__(
        self, trace_system: Callable[[], ConstraintSystem], curve: str, counts: Counts,
        inputs: Mapping[str, Input], schedule: Schedule,
    ) -> None:  # fmt: skip
        self._source = trace_system
        self._describe(curve, counts, inputs)
        self.parts = schedule.parts
        self.program = WitnessProgram(self, schedule)
