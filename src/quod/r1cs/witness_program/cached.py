"""The cache of witness programs, in the user's cache of compiled kernels.

Cached programs are trusted like compiled kernels (`quod.device.cache.cache`). The key of a program
is a digest of everything that the program depends on: Quod's sources, the steps and their rows, and
the columns of wires. Hints are always the functions of the traced system; an entry has none.
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
from quod.r1cs.traced import Block, TracedSystem
from quod.r1cs.witness_program.instructions import Call, Program, Stretch
from quod.r1cs.witness_program.lowering import lowered
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero, Solve, Step

# The last marshal format whose bytes depend on values only, not on reference counts.
_MARSHAL = 2


def program_of(block: Block, steps: Sequence[Step]) -> Program:
    """Return the program of a block's steps, from the cache or lowered and then cached."""
    program = cached_program(block, steps)
    if program is None:
        program = lowered(block, steps)
        if sources.are_unchanged():
            parts = program_parts(program, steps, block.system.field)
            CompileCache().put(_key(block, steps), pack(*parts))
    return program


def cached_program(block: Block, steps: Sequence[Step]) -> Program | None:
    """Return the program of a block's steps if it is in the cache, else None."""
    field = block.system.field
    return read_cached(
        CompileCache(), _key(block, steps), lambda data: program_from(*unpack(data), steps, field)
    )


def _key(block: Block, steps: Sequence[Step]) -> str:
    """The cache key: a digest of everything that lowering reads."""
    system = block.system
    lowering_inputs = (
        system.prime, block.formal_wires, len(system.public_names),
        [_described(system, step) for step in steps],
    )  # fmt: skip
    return key_of("witness program", sources.digest(), _digest(lowering_inputs))


def _digest(inputs: Any) -> bytes:
    return hashlib.sha256(marshal.dumps(inputs, _MARSHAL)).digest()


def _described(system: TracedSystem, step: Step) -> tuple[object, ...]:
    """Return the parts of a step that lowering reads, as values that can be hashed."""
    if type(step) is Solve:
        rows = [system.row(side, step.row) for side in range(3)]
        return "solve", step.wire, step.side, rows
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
    program: Program, steps: Sequence[Step], field: Modulus
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return a program as a JSON value and arrays for `pack`; a hint becomes the index of a step.

    steps: the steps of the program.
    """
    step_indices = {id(step): index for index, step in enumerate(steps)}
    stretches = [
        [stretch.instructions, stretch.outputs]
        if (call := stretch.call) is None
        else [
            stretch.instructions, stretch.outputs, step_indices[id(call.hint)], call.arguments,
            call.results,
        ]
        for stretch in program.stretches
    ]  # fmt: skip
    facts = {"registers": program.registers, "stretches": stretches}
    coefficients = integers_to_words(field, program.coefficients)
    return facts, [program.instructions, program.terms, program.outputs, coefficients]


PROGRAM_ARRAYS = 4
"""The number of arrays of `program_parts`."""


def program_from(
    facts: Mapping[str, Any], arrays: Sequence[NDArray[Any]], steps: Sequence[Step], field: Modulus
) -> Program:
    """Restore a program from the result of `program_parts`.

    Raises the errors of `unpack` for malformed parts.
    """
    instructions, terms, outputs, coefficients = arrays
    return Program(
        np.asarray(instructions), np.asarray(terms), words_to_integers(field, coefficients),
        facts["registers"], np.asarray(outputs),
        tuple([_stretch(steps, *stretch) for stretch in facts["stretches"]]),
    )  # fmt: skip


def _stretch(
    steps: Sequence[Step], instructions: int, outputs: int, hint: int | None = None,
    arguments: Sequence[int] = (), results: Sequence[int] = (),
) -> Stretch:  # fmt: skip
    """Return a stretch of a program; `hint` is the index of the step that it calls, if any."""
    if hint is None:
        return Stretch(instructions, outputs)
    step = steps[hint]
    if type(step) is not Hint:
        raise ValueError(f"step {hint} is not a hint")
    return Stretch(instructions, outputs, Call(step, tuple(arguments), tuple(results)))
