"""Inversion in kernels against inversion on integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice, KernelForm
from quod.device.protocol import AnyDevice
from quod.field.any_field import field_arithmetic
from quod.field.moduli import MODULI, Modulus
from quod.field.spec import FieldSpec
from quod.field.strategies.inversion import Inversion32, Inversion52, Inversion64
from quod.kernel import U32, U64, Builder, Machine, Pointer, kernel
from tests.field.models import (
    SOME_SPECS,
    Coefficients,
    Model,
    hostile_integers,
    packed,
    random_integers,
    spec_name,
    unpacked,
)
from tests.support.thorough import one_and_others


@kernel
def inverses(
    k: Builder, n: U32, a: Pointer[U64], plain: Pointer[U64], far: Pointer[U64], *, spec: FieldSpec
) -> None:
    """1/x, and 1/(13x - x), whose operand is far above p."""
    f = field_arithmetic(k, spec)
    i = k.global_id()
    with k.if_(i < n):
        x = f.load(a, i)
        f.store(plain, i, f.inverse(x))
        f.store(far, i, f.inverse(f.times(x, 13) - x))


def operands(spec: FieldSpec) -> list[Coefficients]:
    hostile = hostile_integers(spec.modulus)
    numbers = hostile + random_integers(spec.modulus, 2000, 3)
    if spec.degree == 1:
        return [(number,) for number in numbers]
    edge = [0, 1, spec.modulus.value - 1]
    return [*zip(numbers, reversed(numbers), strict=True), *itertools.product(edge, edge)]


@pytest.mark.parametrize("spec", SOME_SPECS, ids=spec_name)
def test_inverse(device: CpuDevice, spec: FieldSpec) -> None:
    check_inverses(device, spec, operands(spec))


@pytest.mark.parametrize(
    ("modulus", "executor"),
    one_and_others(
        [(MODULI["bn254.fr"], "ir"), (MODULI["bn254.fr"], "ptx"), (MODULI["bls12_381.fq"], "ir"),
         (MODULI["bls12_377.fq"], "ir")],
    ),
    ids=lambda part: part if isinstance(part, str) else part.name,
)  # fmt: skip
def test_inverse_in_words_of_32_bits(modulus: Modulus, executor: KernelForm) -> None:
    numbers = hostile_integers(modulus) + random_integers(modulus, 200, 4)
    powers = [1 << i for i in (29, 30, 31, 32, 59, 60, 63, 64)]
    values: list[Coefficients] = [(number,) for number in numbers + powers]
    check_inverses(EmulatedDevice(executor=executor), modulus, values)


def check_inverses(device: AnyDevice, spec: FieldSpec, values: list[Coefficients]) -> None:
    model = Model(spec)
    a = packed(spec, values)
    plain, far = np.zeros_like(a), np.zeros_like(a)
    groups = -(-len(values) // device.lanes)
    device.launch(device.compile(inverses, spec=spec), groups, len(values), a, plain, far)
    twelfth = model.inverse(model.constant(12))
    for value, first, second in zip(
        values, unpacked(spec, plain), unpacked(spec, far), strict=True
    ):
        wanted = model.inverse(value)
        assert first == wanted, value
        assert second == model.multiply(wanted, twelfth), value


@pytest.mark.parametrize("modulus", MODULI.values(), ids=lambda modulus: modulus.name)
def test_round_count_exceeds_the_worst_case(modulus: Modulus) -> None:
    """The rounds allowed for exceed those of the inputs that took the most among many."""
    k = Builder(Machine("llvm", 1, frozenset()))
    most = max(division_steps(modulus.value, x) for x in random_integers(modulus, 300, 9))
    for inversion in (
        Inversion52(k, modulus, 1, -(-(modulus.bits + 5) // 52)),
        Inversion64(k, modulus, 1, modulus.words // 2),
        Inversion32(k, modulus, 1, modulus.words // 2),
    ):
        assert inversion.rounds * 2 * inversion.half_steps > most
        assert inversion.size > inversion.rounds


def division_steps(f: int, g: int) -> int:
    """Steps until g = 0."""
    theta, steps = 0, 0
    while g:
        if g & 1 and theta >= 0:
            theta, f, g = -theta, g, (g - f) >> 1
        else:
            theta, g = theta + 1, (g + (g & 1) * f) >> 1
        steps += 1
    assert abs(f) == 1
    return steps


def test_modulus_without_spare_bits_is_rejected() -> None:
    k = Builder(Machine("llvm", 1, frozenset()))
    modulus = MODULI["bls12_381.fr"]
    with pytest.raises(ValueError, match="leaves no room in 4 limbs"):
        Inversion52(k, modulus, 1, 4)
    with pytest.raises(ValueError, match="leaves no room in 3 limbs"):
        Inversion64(k, modulus, 1, 3)
