"""PTX of whole kernels: golden texts, functions, loops, the Python line of each line.

After a wanted change run `QUOD_UPDATE_GOLDEN=1 pytest tests/codegen/test_ptx.py` and read the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.catalogue import find
from quod.codegen.listing import side_by_side
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx import inline as ptx_inline
from quod.codegen.ptx.machine import ptx_machine
from quod.kernel import (
    F64,
    U32,
    U64,
    Builder,
    KernelDefinition,
    Pointer,
    Value,
    examples,
    function,
    kernel,
)
from quod.kernel.ir import types
from tests.codegen.test_golden import dot_products
from tests.conftest import REPOSITORY
from tests.support.executors import run_everywhere
from tests.support.ptx_assembler import ARCHITECTURES, AssemblyError, assemble, usage

GOLDEN = Path(__file__).parent / "golden"
MACHINE = ptx_machine(128, "sm_90a")


@kernel
def warp_sums(k: Builder, n: U32, x: Pointer[U32], sums: Pointer[U64], count: Pointer[U32]) -> None:
    """Ops that a CPU has no instruction for: shuffles, votes, asynchronous copies, atomics."""
    tile = k.shared(types.u32, 4 * k.workgroup_size)
    with k.range(k.workgroup_id(), n, k.num_workgroups()) as loop:
        start = (loop.index * k.workgroup_size + k.local_id()) * 4
        k.copy_async(tile, k.local_id() * 4, x, start, 4)
        k.copy_async_commit()
        k.copy_async_wait(0)
        a, b, c, d = k.load(tile, k.local_id() * 4, 4)
        total = (a + b + c + d).cast(types.u64)
        distance = 16
        while distance:
            total = total + k.shuffle(total, k.lane_id() + distance)
            distance //= 2
        some = k.any_lane(a != 0)
        with k.if_((k.lane_id() == 0) & some):
            k.atomic_add(sums, loop.index, total)
            k.fence()
            k.atomic_max(count, 0, loop.index)


GOLDENS: list[KernelDefinition] = [
    examples.vector_add, examples.saxpy, examples.reduce_sum, examples.histogram, dot_products,
    warp_sums,
]  # fmt: skip


@pytest.mark.parametrize("definition", GOLDENS, ids=lambda definition: definition.name)
def test_golden(definition: KernelDefinition) -> None:
    text = ptx.emit(definition.trace(MACHINE), MACHINE)
    file = GOLDEN / f"{definition.name}.ptx"
    if os.environ.get("QUOD_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), "see the docstring of this file for how to update"


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("definition", GOLDENS, ids=lambda definition: definition.name)
def test_assembles(definition: KernelDefinition, arch: str) -> None:
    machine = ptx_machine(128, arch)
    cubin, log = assemble(ptx.emit(definition.trace(machine), machine), arch)
    assert cubin[:4] == b"\x7fELF"
    assert usage(log).spill_store_bytes == 0


def test_a_kernel_is_emitted_the_same_every_time() -> None:
    assert len({ptx.emit(warp_sums.trace(MACHINE), MACHINE) for _ in range(3)}) == 1


def test_documentation_shows_the_emitted_ptx() -> None:
    """To write the table again: python -m tools.listing examples.vector_add"""
    table = side_by_side(find("examples.vector_add").trace(MACHINE), MACHINE)
    assert table in (REPOSITORY / "docs" / "ptx.md").read_text()


# --- lines


def test_each_line_has_its_python_line() -> None:
    module = ptx.translate(examples.saxpy.trace(MACHINE), MACHINE)
    lines = module.text.splitlines()
    assert len(lines) == len(module.lines)
    source = Path(examples.__file__).read_text().splitlines()
    (at,) = [n for n, line in enumerate(lines, 1) if "mul.rn.f32" in line]
    where = module.source_of(at)
    assert where is not None
    assert source[where.line - 1].strip() == "y[i] = a * x[i] + y[i]"
    (at,) = [n for n, line in enumerate(lines, 1) if " bra " in line]
    where = module.source_of(at)
    assert where is not None
    assert source[where.line - 1].strip() == "with k.if_(i < n):"
    assert module.source_of(1) is None
    assert module.source_of(0) is None
    assert module.source_of(len(lines) + 1) is None


def test_an_error_of_the_assembler_leads_to_the_python_line() -> None:
    module = ptx.translate(examples.histogram.trace(MACHINE), MACHINE)
    with pytest.raises(AssemblyError) as caught:
        assemble(module.text.replace("rem.u32", "rem.b32"), "sm_90a")
    line = re.search(r"line (\d+)", str(caught.value))
    assert line is not None
    where = module.source_of(int(line.group(1)))
    assert where is not None
    source = Path(where.file).read_text().splitlines()[where.line - 1]
    assert "x[loop.index] % bins" in source


def test_hints_and_names() -> None:
    @kernel
    def add(k: Builder, mul: Pointer[U32]) -> None:
        k.resident_workgroups(3)
        mul[k.global_id()] = 1

    module = ptx.translate(add.trace(MACHINE), MACHINE)
    assert module.entry == "quod_add"
    assert ".maxntid 128\n.minnctapersm 3\n" in module.text
    _, log = assemble(module.text, "sm_90a")
    assert usage(log).registers <= 65536 // (3 * 128)


# --- device functions


@function
def mixed(k: Builder, flag: Value, number: Value, word: Value, real: Value) -> Any:
    """One of each kind of register, in and out."""
    with k.if_(flag) as branch:
        branch.yield_(number + 1, real * 2.0)
    with branch.otherwise():
        branch.yield_(number ^ 0xFF, real)
    a, b = branch.results
    return ~flag, a, word * 3 + a.cast(types.u64), b


@function
def twice(k: Builder, number: Value, pointer: Value) -> Value:
    """Calls another function, and reads through a pointer."""
    flag, a, word, real = mixed(k, number < 9, number, number.cast(types.u64) << 33, pointer[0])
    _, b, second, other = mixed(k, flag, a, word, real)
    return word + second + b.cast(types.u64) + other.cast(types.u64)


@kernel
def calls(k: Builder, x: Pointer[U32], reals: Pointer[F64], out: Pointer[U64]) -> None:
    i = k.global_id()
    out[i] = twice(k, x[i], k.pointer_add(reals, i)) + twice(k, x[i] >> 3, reals)


def test_functions_are_copied_or_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones are copied; with thresholds of nothing they are called, and compute the same."""
    x = np.random.default_rng(3).integers(0, 1 << 32, 32, np.uint32)
    x[:8] = [0, 1, 8, 9, 10, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF]
    reals = np.arange(32.0)
    arguments = [x, reals, np.zeros(32, np.uint64)]
    kernel_ = calls.trace(MACHINE)
    assert ".func" not in ptx.emit(kernel_, MACHINE)
    copied = run_everywhere(calls, 4, arguments)

    monkeypatch.setattr(ptx_inline, "INLINE_OPS", 0)
    text = ptx.emit(kernel_, MACHINE)
    assert text.count(".func") == 2
    for arch in ARCHITECTURES:
        machine = ptx_machine(128, arch)
        assemble(ptx.emit(calls.trace(machine), machine), arch)
    called = run_everywhere(calls, 4, arguments)
    np.testing.assert_array_equal(called[2], copied[2])


def test_functions_called_once_are_inlined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx_inline, "INLINE_OPS", 0)

    @kernel
    def once(k: Builder, x: Pointer[U32], reals: Pointer[F64], out: Pointer[U64]) -> None:
        out[0] = twice(k, x[0], reals)

    traced = once.trace(MACHINE)
    # `twice` has one caller, but `mixed` is called at two places in it.
    assert [f.name for f in traced.functions if id(f) in ptx_inline.inlined_functions(traced)] == [
        "twice"
    ]


def test_inlining_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function whose copies add the most code is called instead."""
    traced = calls.trace(MACHINE)

    def copied(total: int) -> set[str]:
        monkeypatch.setattr(ptx_inline, "INLINE_TOTAL", total)
        inlined = ptx_inline.inlined_functions(traced)
        return {f.name for f in traced.functions if id(f) in inlined}

    assert copied(60) == {"mixed", "twice"}
    assert copied(59) == {"mixed"}
    assert copied(1) == set()


# --- loops


@kernel
def rotations(k: Builder, x: Pointer[U32], out: Pointer[U32]) -> None:
    """Carried values that change places, which must move as if all at once."""
    i = k.global_id()
    state = (x[i], i, k.constant(7, types.u32), i == 3)
    with k.range(0, x[i] % 9, carry=state) as loop:
        a, b, c, flag = loop.carried
        loop.next((b, c + k.select(flag, loop.index, a), a, a < b))
    with k.while_(loop.results) as other:
        a, b, c, flag = other.carried
        other.check((a & 15) > (b & 7))
        other.next((b, a >> 1, c ^ a, ~flag))
    a, b, c, flag = other.results
    k.store(out, i * 4, a, b, c, flag.cast(types.u32))


def test_carried_values_are_assigned_simultaneously() -> None:
    x = np.random.default_rng(4).integers(0, 1 << 32, 64, np.uint32)
    rows = run_everywhere(rotations, 8, [x, np.zeros(256, np.uint32)])[1].reshape(64, 4)

    def model(i: int) -> tuple[int, int, int, int]:
        a, b, c, flag = int(x[i]), i, 7, i == 3
        for step in range(int(x[i]) % 9):
            a, b, c, flag = b, (c + (step if flag else a)) % (1 << 32), a, a < b
        while (a & 15) > (b & 7):
            a, b, c, flag = b, a >> 1, c ^ a, not flag
        return a, b, c, int(flag)

    assert [tuple(map(int, row)) for row in rows] == [model(i) for i in range(64)]


def test_constant_branches_are_folded() -> None:
    @kernel
    def known(k: Builder, x: Pointer[U32]) -> None:
        with k.if_(k.constant(3, types.u32) < 4) as branch:
            branch.yield_(x[0])
        with branch.otherwise():
            branch.yield_(x[1])
        x[2] = branch.results

    text = ptx.emit(known.trace(MACHINE), MACHINE)
    assert "bra" not in text
    assert "@" not in text
    assert "+4]" not in text
