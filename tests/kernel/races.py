"""Runs kernels of three subgroups in both interpreters, which find the same races or none."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.kernel import U32, Builder, Pointer, Value, kernel, u32
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import Kernel

LANES = 96
WORDS = 128
MACHINE = ptx_machine(LANES, "sm_90")
PAIR = 64

Body = Callable[[Builder, Value, Value], None]


def traced(body: Body) -> Kernel:
    """A kernel of three subgroups with some words that are set."""

    def made(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, WORDS)
        room[k.local_id()] = k.local_id()
        with k.if_(k.local_id() < WORDS - LANES):
            room[k.local_id() + LANES] = k.local_id()
        k.barrier()
        body(k, room, x)

    return kernel(made).trace(MACHINE)


def run(body: Body, problem: str = "a barrier is needed between") -> None:
    """In both interpreters; raises the problem if each of them finds it."""
    traced_kernel = traced(body)
    errors = []
    for run_it in (
        lambda: interpret(traced_kernel, 1, [np.zeros(LANES, np.uint32)]),
        lambda: interpret_ptx(ptx.emit(traced_kernel, MACHINE), 1, [np.zeros(LANES, np.uint32)]),
    ):
        try:
            run_it()
        except InterpreterError as error:
            errors.append(error)
    if errors:
        assert len(errors) == 2, errors[0]
        assert all(re.search(problem, str(error)) for error in errors), errors
        raise errors[0]
