"""Traced circuits of Quod's own, in the user's cache.

Entries are keyed by the digest of all of Quod's sources. They are in the cache of compiled kernels
and are trusted like these (`quod.device.cache.cache`). The dependencies of functions outside Quod
are unknown: each process traces their circuits, and only the witness programs are cached
(`quod.r1cs.witness_program.cached`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.errors import InputError
from quod.formats.curves import curve_named
from quod.frozen import fields_of
from quod.r1cs.circuit import Circuit, trace
from quod.r1cs.packed import pack, read_cached, unpack
from quod.r1cs.repetition.parts import Side
from quod.r1cs.shape import Counts, Shape
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.cached import program_from, program_parts
from quod.r1cs.witness_program.instructions import Program
from quod.r1cs.witness_program.steps import Input
from quod.r1cs.witnesses import WitnessProgram


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
    program, arrays = program_parts(circuit.program.runner.program, circuit.system)
    counts = circuit.counts
    inputs = [
        [
            declaration.name,
            declaration.wires,
            declaration.bits,
            declaration.single,
            declaration.public,
        ]
        for declaration in circuit.inputs.values()
    ]
    shape = circuit.shape
    for side in shape.sides:
        arrays += [side.row_ptr, side.column, side.number]
    facts = {"counts": list(fields_of(counts).values()), "inputs": inputs, "program": program}
    return pack(facts, [*arrays, shape.coefficients])


def _read(data: bytes, module: str, name: str, curve: str) -> Circuit:
    """Restore a circuit from the result of `_serialise`."""
    facts, arrays = unpack(data)
    # Four arrays of the program, three for each of A, B and C, and the coefficients.
    *arrays, coefficients = arrays
    a, b, c = (Side(*arrays[index : index + 3]) for index in (4, 7, 10))
    program = program_from(facts["program"], arrays[:4], (), curve_named(curve).fr)
    inputs = {
        name_of_input: Input(name_of_input, wires, bits=bits, single=single, public=public)
        for name_of_input, wires, bits, single, public in facts["inputs"]
    }
    shape = Shape(coefficients, (a, b, c))
    counts = Counts(*facts["counts"])
    return _CachedCircuit(
        lambda: _trace(module, name, curve).traced, curve, counts, inputs, shape, program
    )


class _CachedCircuit(Circuit):
    """A circuit that is traced on first use of its constraint system."""

    def __init__(
        self, trace_system: Callable[[], ConstraintSystem], curve: str, counts: Counts,
        inputs: Mapping[str, Input], shape: Shape, program: Program,
    ) -> None:  # fmt: skip
        self._source = trace_system
        self._describe(curve, counts, inputs)
        self.shape = shape
        self.program = WitnessProgram(self, program)
