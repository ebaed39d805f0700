"""Stated costs of products are those of the kernels of NVIDIA GPUs."""

from __future__ import annotations

from typing import Literal

import pytest

from quod.codegen.ptx.machine import ptx_machine
from quod.curve.groups import GROUPS
from quod.field.any_field import field_arithmetic
from quod.field.cost import prepared_product_cost, product_cost, square_cost
from quod.field.moduli import MODULI, Modulus
from quod.field.spec import FieldSpec
from quod.field.strategies.limbs32 import Limbs32
from quod.kernel import U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, walk

MACHINE = ptx_machine(32)


@kernel
def one(
    k: Builder, a: Pointer[U64], *, spec: FieldSpec, what: Literal["product", "square", "prepared"]
) -> None:
    """A product, a square, or a product with a prepared factor."""
    field = field_arithmetic(k, spec)
    x, y = field.load(a, 0), field.load(a, 1)
    if what == "prepared":
        assert isinstance(field, Limbs32)
        field.store(a, 0, field.multiply_prepared(x, k.load(a, 0, 2 * field.word_count)))
    else:
        field.store(a, 0, field.multiply(x, y) if what == "product" else field.square(x))


def word_products(spec: FieldSpec, what: str) -> int:
    """Words that are multiplied by words: each has one operation for its lower half."""
    kernel = one.trace(MACHINE, spec=spec, what=what)
    of_function: dict[str, int] = {}

    def count(block: Block) -> int:
        total = 0
        for op in walk(block):
            if op.name == "call":
                total += of_function[op.attributes["function"].name]
            elif op.name in ("mul", "mad_lo_cc", "madc_lo_cc"):
                total += op.results[0].type == types.u32
        return total

    for function in kernel.functions:
        of_function[function.name] = count(function.block)
    return count(kernel.block)


def spec_of(modulus: Modulus, degree: int) -> FieldSpec:
    if degree == 1:
        return modulus
    return GROUPS[f"{modulus.name.split('.')[0]}.g2"].field


@pytest.mark.parametrize(
    ("name", "degree"),
    [*((name, 1) for name in MODULI), *((name, 2) for name in MODULI if name.endswith(".fq"))],
)
def test_costs_match_traced_kernels(name: str, degree: int) -> None:
    modulus = MODULI[name]
    spec = spec_of(modulus, degree)
    assert product_cost(modulus, degree) == word_products(spec, "product")
    assert square_cost(modulus, degree) == word_products(spec, "square")


@pytest.mark.parametrize("name", MODULI)
def test_costs_of_prepared_products(name: str) -> None:
    modulus = MODULI[name]
    assert prepared_product_cost(modulus) == word_products(modulus, "prepared")
