"""WGSL of whole kernels: golden texts, and differences between the two dialects.

After a wanted change run `QUOD_UPDATE_GOLDEN=1 pytest tests/codegen/test_wgsl.py` and read the
diff.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.codegen import emit
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE, WgslTarget
from quod.codegen.wgsl.module import Binding, Field
from quod.errors import KernelError
from quod.kernel import (
    U32,
    U64,
    Builder,
    KernelDefinition,
    Pointer,
    Value,
    examples,
    kernel,
    u32,
    u64,
)
from quod.kernel.interpreter.interpreter import interpret
from tests.codegen.test_golden import dot_products
from tests.support.tint import Tint

GOLDEN = Path(__file__).parent / "golden"
EXTENDED = WgslTarget(u64=True, subgroup_size=32)
BROWSER = WgslTarget(subgroup_size=32)
Errors = Callable[[str], list[str]]


@kernel
def neighbours(k: Builder, x: Pointer[U32], sums: Pointer[U64], votes: Pointer[U32]) -> None:
    """A shuffle, a ballot and a sum of 64 bits."""
    i = k.global_id()
    other = k.shuffle(x[i], k.lane_id() + 1)
    sums[i] = x[i].cast(u64) + other.cast(u64)
    votes[i] = k.ballot(other < x[i])


@pytest.mark.parametrize(
    ("definition", "target", "dialect", "name"),
    [
        (examples.vector_add, PORTABLE, "naga", "vector_add"),
        (examples.reduce_sum, PORTABLE, "naga", "reduce_sum"),
        (examples.histogram, PORTABLE, "naga", "histogram"),
        (dot_products, PORTABLE, "naga", "dot_products.portable"),
        (dot_products, EXTENDED, "naga", "dot_products.extended"),
        (neighbours, PORTABLE, "naga", "neighbours.portable"),
        (neighbours, EXTENDED, "naga", "neighbours.extended"),
        (neighbours, BROWSER, "tint", "neighbours.browser"),
    ],
)
def test_golden(
    definition: KernelDefinition, target: WgslTarget, dialect: Any, name: str, tint: Tint,
    naga: Errors,
) -> None:  # fmt: skip
    machine = target.machine()
    text = wgsl.translate(definition.trace(machine), machine, dialect=dialect).text
    file = GOLDEN / f"{name}.wgsl"
    if os.environ.get("QUOD_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), "see the docstring of this file for how to update"
    assert (naga(text) if dialect == "naga" else tint.errors(text)) == []


def test_dialects_differ_in_subgroups(tint: Tint, naga: Errors) -> None:
    machine = BROWSER.machine()
    texts = {
        dialect: wgsl.translate(neighbours.trace(machine), machine, dialect=dialect).text
        for dialect in ("naga", "tint")
    }
    assert texts["tint"].replace("enable subgroups;\n", "") == texts["naga"]
    assert naga(texts["naga"]) == tint.errors(texts["tint"]) == []
    assert "subgroups" in tint.errors(texts["naga"])[0]
    assert "subgroups" in naga(texts["tint"])[0]


def test_emitted_wgsl_is_accepted_by_browsers(tint: Tint) -> None:
    text = emit(examples.vector_add, "wgsl")
    machine = PORTABLE.machine()
    assert text == wgsl.emit(examples.vector_add.trace(machine), machine)
    assert tint.errors(text) == []


@kernel
def of_all_kinds(k: Builder, n: U32, x: Pointer[U64], wide: U64, y: Pointer[U64]) -> None:
    with k.if_(k.global_id() < n):
        y[k.global_id()] = x[k.global_id()] + wide


def test_the_block_of_parameters() -> None:
    machine = PORTABLE.machine()
    traced = of_all_kinds.trace(machine)
    module = wgsl.translate(traced, machine, dialect="naga")
    assert module.storage == 2
    assert module.bindings == (Binding(0), Binding(1))
    assert [(f.kind, f.parameter, f.word) for f in module.fields] == [
        ("value", 0, 1), ("value", 2, 2),
    ]  # fmt: skip
    assert module.pack(7, [5, 0, (9 << 32) + 8, 0]) == struct.pack("<4I", 7, 5, 8, 9)
    shared = (Binding(0, offset=True), Binding(0, offset=True))
    module = wgsl.translate(traced, machine, dialect="naga", bindings=shared)
    assert module.storage == 1
    assert [f.kind for f in module.fields] == ["value", "offset", "value", "offset"]
    assert all(isinstance(field, Field) for field in module.fields)
    words = struct.unpack("<8I", module.pack(7, [5, 64, (9 << 32) + 8, 128]))
    assert words[:6] == (7, 5, 64, 8, 9, 128)
    with pytest.raises(KernelError, match="kernel of_all_kinds has 2 pointers, not 1"):
        wgsl.translate(traced, machine, dialect="naga", bindings=[Binding(0)])


def test_each_line_knows_its_python_line() -> None:
    machine = PORTABLE.machine()
    module = wgsl.translate(of_all_kinds.trace(machine), machine, dialect="naga")
    lines = module.text.splitlines()
    assert len(lines) == len(module.lines)
    stored = next(i for i, line in enumerate(lines, 1) if "buffer1[" in line and "=" in line)
    location = module.source_of(stored)
    assert location is not None
    assert location.file == __file__
    assert "y[k.global_id()]" in Path(__file__).read_text().splitlines()[location.line - 1]
    assert module.source_of(0) is None


def test_functions_of_many_parameters(tint: Tint, naga: Errors) -> None:
    """WGSL allows 255; and parameters that are no words stay as they are."""

    def total(k: Builder, *operands: Value) -> Value:
        *words, flag = operands
        accumulated = words[0]
        for word in words[1:]:
            accumulated = accumulated + word
        return k.select(flag, accumulated, words[0])

    @kernel
    def many(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        first = x[k.global_id()]
        words = [first + n for n in range(300)]
        y[k.global_id()] = k.call("total", total, *words, first < 2)

    machine = PORTABLE.machine(8)
    traced = many.trace(machine)
    x, y = np.array([0, 1, 2, 1 << 31] * 2, np.uint32), np.zeros(8, np.uint32)
    interpret(traced, 1, [x, y])
    text = wgsl.translate(traced, machine, dialect="naga").text
    assert "array<u32, 300>" in text
    assert naga(text) == tint.errors(text) == []


def test_unset_workgroup_memory_is_reported() -> None:
    """Drivers such as lavapipe of Mesa 22.3 leave it unset; the interpreter reports it."""

    @kernel
    def unset(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, k.workgroup_size)
        y[k.global_id()] = room[k.local_id()]

    with pytest.raises(KernelError, match="what was not set"):
        interpret(unset.trace(PORTABLE.machine(8)), 1, [np.zeros(8, np.uint32)])


@kernel
def compares_shifted(k: Builder, n: U32, values: Pointer[U32]) -> None:
    """Comparisons before shifts, within expressions and among arguments."""
    i = k.global_id()
    with k.if_(i < n >> 1):
        value = values[i]
        first = k.select(value < n, k.select(value < (n >> 2), value >> 3, n >> 1), n)
        is_low, is_high = value < n, value > n
        values[i] = first + k.select(k.select(is_low, is_high, value < n >> 4), value, n)


def test_comparisons_are_not_parsed_as_templates(tint: Tint, naga: Errors) -> None:
    """WGSL parses ``a < b >> c`` and ``f(a < b, c > d)`` as template argument lists."""
    machine = PORTABLE.machine(8)
    text = wgsl.translate(compares_shifted.trace(machine), machine, dialect="naga").text
    assert naga(text) == tint.errors(text) == []
