"""The cache of witness programs, in the user's cache of compiled kernels.

Cached programs are trusted like compiled kernels (`quod.device.cache.cache`). The key of a program
is a digest of everything that the program depends on: Quod's sources, and the rows, steps and
inputs of the traced system. Hints are always the functions of the traced system; an entry has none.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.field.array import integers_to_words, words_to_integers
from quod.field.moduli import Modulus
from quod.r1cs.packed import pack, read_cached, unpack
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.instructions import Call, Program
from quod.r1cs.witness_program.lowering import lowered
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero, Solve, Step

# The last marshal format whose bytes depend on values only, not on reference counts.
_MARSHAL = 2


def program_of(system: ConstraintSystem) -> Program:
    """Return the program of a system's steps, from the cache or lowered and then cached."""
    cache, key = CompileCache(), _key(system)
    program = _read_cached(cache, key, system)
    if program is None:
        program = lowered(system)
        if sources.are_unchanged():
            cache.put(key, pack(*program_parts(program, system)))
    return program


def cached_program(system: ConstraintSystem) -> Program | None:
    """Return the program of a system's steps if it is in the cache, else None."""
    return _read_cached(CompileCache(), _key(system), system)


def _read_cached(cache: CompileCache, key: str, system: ConstraintSystem) -> Program | None:
    hints = [step for step in system.steps if type(step) is Hint]
    return read_cached(cache, key, lambda data: program_from(*unpack(data), hints, system.field))


def _key(system: ConstraintSystem) -> str:
    """The cache key: a digest of everything that lowering reads."""
    lowering_inputs = (
        system.prime, len(system.wire_paths), len(system.public_names),
        [(declaration.bits, declaration.wires) for declaration in system.inputs.values()],
        [_described(step) for step in system.steps],
        list(system.columns), list(system.values), list(system.ends),
    )  # fmt: skip
    return key_of("witness program", sources.digest(), _digest(lowering_inputs))


def _digest(inputs: Any) -> bytes:
    return hashlib.sha256(marshal.dumps(inputs, _MARSHAL)).digest()


def _described(step: Step) -> tuple[object, ...]:
    """Return the parts of a step that lowering reads, as values that can be hashed."""
    if type(step) is Solve:
        return "solve", step.wire, step.row, step.side
    if type(step) is Bit:
        return "bit", step.wire, step.position, step.signal.wires, step.signal.coefficients
    if type(step) is InverseOrZero:
        return "inverse", step.wire, step.signal.wires, step.signal.coefficients
    assert type(step) is Hint
    return (
        "hint",
        step.wires,
        [(argument.wires, argument.coefficients) for argument in step.arguments],
    )


def program_parts(
    program: Program, system: ConstraintSystem
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return a program as a JSON value and arrays for `pack`; hints become indices of hints."""
    hint_indices = {
        id(step): index for index, step in enumerate(s for s in system.steps if type(s) is Hint)
    }
    facts = {
        "registers": program.registers, "element_wires": program.element_wires,
        "bit_wires": program.bit_wires, "elements": program.elements,
        "stretches": program.stretches,
        "calls": [[hint_indices[id(c.hint)], c.arguments, c.results] for c in program.calls],
    }  # fmt: skip
    coefficients = integers_to_words(system.field, program.coefficients)
    return facts, [program.instructions, program.terms, program.outputs, coefficients]


def program_from(
    facts: Mapping[str, Any], arrays: Sequence[NDArray[Any]], hints: Sequence[Hint], field: Modulus
) -> Program:
    """Restore a program from the result of `program_parts`.

    hints: the hints of the system, in order.
    Raises the errors of `unpack` for malformed parts.
    """
    instructions, terms, outputs, coefficients = arrays
    calls = [
        Call(hints[number], tuple(arguments), tuple(results))
        for number, arguments, results in facts["calls"]
    ]
    return Program(
        np.asarray(instructions), np.asarray(terms), words_to_integers(field, coefficients),
        facts["registers"], np.asarray(outputs), tuple(facts["element_wires"]),
        tuple(facts["bit_wires"]), facts["elements"], tuple(facts["stretches"]), tuple(calls),
    )  # fmt: skip
