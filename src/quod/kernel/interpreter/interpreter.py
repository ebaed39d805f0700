"""The interpreter, which defines the semantics of kernels.

It runs a traced kernel with NumPy, one workgroup after the other, with all instances of a workgroup
in lockstep: one array per value, and a mask of active instances. Undefined behaviour is an error:
accesses out of bounds or unaligned, reads of unset shared memory, races in shared memory, barriers
and subgroup ops that not every instance reaches, asynchronous copies used before a wait, and
endless loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.memory import Buffer, Pointers
from quod.kernel.interpreter.program import Program, program
from quod.kernel.interpreter.roles import Parts
from quod.kernel.interpreter.run import Frame, Lanes, Mask, Run
from quod.kernel.interpreter.tiles import check_arrived
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ops.semantics import NUMPY_TYPES, Array

Argument = Array | int | float | bool | np.generic


def interpret(
    kernel: Kernel,
    groups: int,
    arguments: Sequence[Argument],
    *,
    iteration_limit: int = 1 << 24,
    groups_at_once: int = 1,
    waiting: Callable[[], None] | None = None,
) -> None:
    """Run `groups` workgroups of a kernel.

    A pointer parameter takes a C-contiguous NumPy array of its element type, of any shape, which
    the kernel reads and changes in place; other parameters take numbers. InterpreterError, naming
    the Python line, for undefined behaviour and for a loop of more than `iteration_limit`
    iterations.

    groups_at_once: workgroups that run in lockstep, in whole clusters. More is faster, but only
        for kernels whose workgroups do not wait for one another.
    waiting: called where instances wait for preceding launches.
    """
    if groups < 0:
        raise InterpreterError(f"a grid cannot have {groups} workgroups", kernel.location)
    if len(arguments) != len(kernel.parameters):
        raise InterpreterError(
            f"{kernel.name} takes {len(kernel.parameters)} arguments, not {len(arguments)}",
            kernel.location,
        )
    if groups % kernel.cluster:
        raise InterpreterError(
            f"a grid of {groups} workgroups is not made of clusters of {kernel.cluster}",
            kernel.location,
        )
    groups_at_once = -(-groups_at_once // kernel.cluster) * kernel.cluster
    compiled = program(kernel)
    if compiled.roles is not None:
        groups_at_once = 1
    buffers: list[Buffer] = []
    bound = [
        _bind(kernel, name, parameter.type, argument, buffers)
        for name, parameter, argument in zip(
            kernel.parameters, kernel.block.arguments, arguments, strict=True
        )
    ]
    with np.errstate(all="ignore"):
        for first_group in range(0, groups, groups_at_once):
            count = min(groups_at_once, groups - first_group)
            run = Run(
                kernel, first_group, count, groups, list(buffers), iteration_limit,
                compiled.granule, waiting,
            )  # fmt: skip
            if compiled.roles is None:
                _run_body(compiled, run, bound, run.everyone)
            else:
                run.parts = parts = Parts(run, compiled.roles)
                parts.go(partial(_run_body, compiled, run, bound))
            check_arrived(run)


def _run_body(compiled: Program, run: Run, bound: Sequence[int | np.generic], mask: Mask) -> None:
    frame: Frame = compiled.body.frame(run.lanes)
    for slot, lanes in zip(compiled.body.arguments, bound, strict=True):
        frame[slot] = _spread(lanes, run.lanes)
    compiled.body.run(frame, run, mask)


def _bind(
    kernel: Kernel, name: str, type_: Type, argument: Argument, buffers: list[Buffer]
) -> int | np.generic:
    """Bind an argument: the index of its buffer for a pointer, else the number."""
    if isinstance(type_, PointerType):
        expected = np.dtype(NUMPY_TYPES[type_.element])
        if not isinstance(argument, np.ndarray) or argument.dtype != expected:
            actual = argument.dtype if isinstance(argument, np.ndarray) else type(argument).__name__
            raise InterpreterError(
                f"argument {name} must be an array of {expected}, not {actual}", kernel.location
            )
        if not argument.flags.c_contiguous:
            raise InterpreterError(f"argument {name} must be C-contiguous", kernel.location)
        buffers.append(Buffer(name, argument))
        return len(buffers) - 1
    problem = f"argument {name} must be a number that fits {type_}, not {argument!r}"
    if isinstance(argument, np.ndarray):
        raise InterpreterError(problem, kernel.location)
    try:
        with np.errstate(all="ignore"):
            number = np.asarray(argument).astype(NUMPY_TYPES[type_])
        overflowed = np.isinf(number) and not np.isinf(argument)
        is_exact = not overflowed if type_.kind == "float" else int(number) == argument
    except (OverflowError, ValueError, TypeError):
        is_exact = False
    if not is_exact:
        raise InterpreterError(problem, kernel.location)
    return NUMPY_TYPES[type_](number)


def _spread(bound: int | np.generic, lanes: int) -> Lanes:
    if isinstance(bound, int):
        return Pointers(bound, np.zeros(lanes, np.int64))
    return np.full(lanes, bound)


__all__ = ["Argument", "InterpreterError", "interpret"]
