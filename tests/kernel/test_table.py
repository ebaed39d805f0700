"""Tables: constant arrays of a kernel, indexed at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE
from quod.device.protocol import AnyDevice
from quod.field import Modulus, from_integers, prime_field, to_integers
from quod.field.moduli import BN254_FR, M31
from quod.kernel import (
    U32,
    Builder,
    Pointer,
    TraceError,
    Value,
    VerificationFailure,
    f32,
    function,
    i64,
    kernel,
    u8,
    u16,
    u32,
)
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import refuses
from tests.support.executors import run_everywhere
from tests.support.ptx_assembler import assemble
from tests.support.tint import Tint

WIDE = [0, -1, 1 << 62, -(1 << 63), (1 << 63) - 1]
FLOATS = [0.5, -1.25, float("inf")]
HALVES = [0xFFFF, 1, 0x1234]


@kernel
def look_up(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
    """Tables of several types, through a function and beside one another."""
    wide, floats = k.table(i64, WIDE), k.table(f32, FLOATS)
    halves, octets = k.table(u16, HALVES), k.table(u8, range(250, 256))  # type: ignore[arg-type]

    @function
    def taken(k: Builder, table: Value, at: Value) -> Value:
        return table[at]

    i = k.global_id()
    at = x[i]
    number = taken(k, wide, at % len(WIDE))
    with k.if_(at % 2 == 0) as branch:
        branch.yield_(halves[at % 3] + octets[at % 6])
    with branch.otherwise():
        branch.yield_(k.bitcast(floats[at % 3], u32))
    y[i] = branch.results ^ number.cast(u32) ^ (number >> 32).cast(u32)


def expected(at: int) -> int:
    number = WIDE[at % 5] & (1 << 64) - 1
    odd = int(np.float32(FLOATS[at % 3]).view(np.uint32))
    even = HALVES[at % 3] + 250 + at % 6
    return (odd if at % 2 else even) ^ (number & 0xFFFFFFFF) ^ number >> 32


def test_tables_on_every_executor() -> None:
    x = np.random.default_rng(5).integers(0, 1 << 32, 64, np.uint32)
    (_, words) = run_everywhere(look_up, 8, [x, np.zeros_like(x)], lowered=True)
    assert words.tolist() == [expected(at) for at in x.tolist()]


def test_tables_on_devices(device: AnyDevice) -> None:
    x = np.arange(64, dtype=np.uint32)
    y = np.zeros_like(x)
    device.launch(device.compile(look_up, lanes=8), 8, x, y)
    assert y.tolist() == [expected(at) for at in x.tolist()]


def test_text_and_targets(tint: Tint, naga: Callable[[str], list[str]]) -> None:
    traced = look_up.trace(EIGHT)
    again = parse(to_text(traced))
    verify(again, EIGHT)
    assert to_text(again) == to_text(traced)
    machine = ptx_machine(64)
    assert assemble(ptx.emit(look_up.trace(machine), machine), "sm_90a")
    portable = PORTABLE.machine(64)
    text = wgsl.translate(look_up.trace(portable), portable, dialect="tint").text
    assert "array<u32, 2>(131071u, 4660u);" in text
    assert tint.errors(text) == naga(text) == []


@kernel
def constants(k: Builder, x: Pointer[U32], y: Pointer[U32], *, modulus: Modulus) -> None:
    """y[i] = the square of i as an element, plus the one that x[i] picks."""
    f = prime_field(k, modulus)
    i = k.global_id()
    table = f.table([n * n for n in range(16)])
    f.store(y, i, f.load(table, x[i]) + f.load(table, i))


@pytest.mark.parametrize("modulus", [M31, BN254_FR], ids=lambda m: m.name)
def test_elements_in_a_table(modulus: Modulus) -> None:
    x = np.arange(15, -1, -1, dtype=np.uint32)
    y = np.zeros((16, modulus.words), np.uint32)
    (_, elements) = run_everywhere(constants, 2, [x, y], modulus=modulus)
    assert to_integers(modulus, elements) == [n * n + (15 - n) ** 2 for n in range(16)]
    assert from_integers(modulus, [4])[0].tolist() != []


def test_invalid_tables_are_rejected() -> None:
    def stored(k: Builder, x: Pointer[U32]) -> None:
        k.table(u32, [1])[0] = x[0]  # here

    def added(k: Builder, x: Pointer[U32]) -> None:
        k.atomic_add(k.table(u32, [1]), 0, 1)  # here

    def none(k: Builder, x: Pointer[U32]) -> None:
        k.table(u32, [])  # here

    def too_large(k: Builder, x: Pointer[U32]) -> None:
        k.table(u8, [1, 256])  # here

    def negative(k: Builder, x: Pointer[U32]) -> None:
        k.table(u32, [1, -1])  # here

    def inside(k: Builder, x: Pointer[U32]) -> None:
        with k.if_(x[0] == 0):
            k.table(u32, [1])  # here

    def unknown(k: Builder, x: Pointer[U32]) -> None:
        k.table(u32, [x[0]])  # type: ignore[list-item]  # here

    read = "a table is only read: copy it to shared or private memory to change it"
    for body, message in (
        (stored, read),
        (added, read),
        (none, "a table holds at least one element, not 0"),
        (too_large, "256 does not fit u8"),
        (negative, "-1 does not fit u32"),
        (inside, "a table is declared at the top of a kernel, outside any region or function"),
        (unknown, "a Value is no number; a table holds numbers that are known while tracing"),
    ):
        refuses(body, TraceError, message)


def test_out_of_bounds_access_is_reported() -> None:
    @kernel
    def beyond(k: Builder, y: Pointer[U32]) -> None:
        y[k.local_id()] = k.table(u32, [1, 2, 3])[k.local_id()]

    with pytest.raises(
        InterpreterError, match=r"instance 3 .* loads element 3 of the table of lin"
    ):
        interpret(beyond.trace(EIGHT), 1, [np.zeros(8, np.uint32)])


def test_verification() -> None:
    head = "kernel @k(%p: ptr<u32, global>) workgroup 8 shared 0 {\n"
    wrong: dict[str, Any] = {
        '%0: ptr<u32, constant> = table 2 [data = "01000000"]': "a table of 2 u32 has 16 digits",
        '%0: ptr<u32, constant> = table 1 [data = "0100000g"]': "a table of 1 u32 has 8 digits",
        '%0: ptr<u32, shared> = table 1 [data = "01000000"]': "table gives a pointer to constant",
        '%0: ptr<u32, constant> = table 1 [data = "01000000"]\n%1: u32 = const 0\n'
        "store %0, %1, %1": "a table is only read",
    }
    for body, message in wrong.items():
        with pytest.raises(VerificationFailure, match=message):
            verify(parse(f"{head}{body}\nyield\n}}"), EIGHT)
