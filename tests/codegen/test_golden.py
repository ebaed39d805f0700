"""The LLVM text of small kernels, as files that show what changes.

Where a change is meant, rewrite the files and read the difference:

    QUOD_UPDATE_GOLDEN=1 python -m pytest tests/codegen/test_golden.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quod.codegen.llvm import emitter as llvm
from quod.kernel import U32, U64, Builder, KernelDefinition, Machine, Pointer, Value, function
from quod.kernel import kernel as kernel_of
from quod.kernel.examples import histogram, reduce_sum, saxpy
from tests.kernel.machines import EIGHT, ONE

GOLDEN = Path(__file__).parent / "golden"
IFMA = Machine("llvm", 8, frozenset({"u64", "ifma52"}))


@function
def accumulate(k: Builder, sum_: Value, a: Value, b: Value) -> Value:
    """The low product of 52 bits, added."""
    return k.emit("madd52_lo", (sum_, a, b))


@kernel_of
def dot_products(k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64]) -> None:
    """Rows of four words each: loads of several words, a call, a carry chain and a store."""
    i = k.global_id()
    with k.if_(i < n):
        x, y = k.load(a, i * 4, 4), k.load(b, i * 4, 4)
        total = x[0]
        for left, right in zip(x, y, strict=True):
            total = accumulate(k, total, left, right)
        low, carry = k.emit_many("add_cc", (total, x[1]))
        high = k.emit("addc", (x[2], y[3], carry))
        k.store(out, i * 2, low, high)


@pytest.mark.parametrize(
    ("definition", "machine", "triple", "name"),
    [
        (saxpy, ONE, "", "saxpy.one"),
        (saxpy, EIGHT, "", "saxpy.eight"),
        (reduce_sum, EIGHT, "", "reduce_sum.eight"),
        (histogram, EIGHT, "", "histogram.eight"),
        (dot_products, ONE, "", "dot_products.one"),
        (dot_products, IFMA, "x86_64-unknown-linux-gnu", "dot_products.ifma"),
    ],
)
def test_golden(definition: KernelDefinition, machine: Machine, triple: str, name: str) -> None:
    text = llvm.emit(definition.trace(machine), machine, triple=triple)
    file = GOLDEN / f"{name}.ll"
    if os.environ.get("QUOD_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "see the docstring of this file for how to update"


def test_emission_is_deterministic() -> None:
    texts = {llvm.emit(dot_products.trace(IFMA), IFMA) for _ in range(3)}
    assert len(texts) == 1
