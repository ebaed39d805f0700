"""Fq6 and Fq12 in kernels against the reference tower."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.device.cpu.device import CpuDevice
from quod.field.array import from_integers, to_integers
from quod.field.named_extensions import M31_3
from quod.field.tower import TowerField, frobenius_factors, signed_digits
from quod.field.tower_lanes import LaneTower
from quod.kernel import U32, U64, Builder, Pointer, kernel
from tests.field.models import hostile_integers
from tests.reference.field import fields_of
from tests.reference.pairing import frobenius
from tests.support.executors import run_everywhere

OPERATIONS = (
    "multiply", "square", "inverse", "conjugate", "line_013", "line_023", "frobenius1",
    "frobenius2", "frobenius3",
)  # fmt: skip
CYCLOTOMIC = ("cyclotomic_square", "power_1", "power_long", "power_minus")
LONG = 0xF00000000000009F
COUNT = 19


def computed(
    tower: TowerField | LaneTower, operation: str, x: Any, y: Any, line: Sequence[Any]
) -> Any:
    """`line` has the coefficients of w^0, w^2, w^4 and w^1 of y."""
    a0, a1, a2, a3 = line
    return {
        "multiply": lambda: tower.multiply(x, y),
        "square": lambda: tower.square(x),
        "inverse": lambda: tower.inverse(x),
        "conjugate": lambda: tower.conjugate(x),
        "line_013": lambda: tower.multiply_by_line(x, [(0, a0), (1, a1), (3, a2)]),
        "line_023": lambda: tower.multiply_by_line(x, [(0, a0), (2, a1), (3, a3)]),
        "frobenius1": lambda: tower.frobenius(x, 1),
        "frobenius2": lambda: tower.frobenius(x, 2),
        "frobenius3": lambda: tower.frobenius(x, 3),
        "cyclotomic_square": lambda: tower.cyclotomic_square(x),
        "power_1": lambda: tower.cyclotomic_power(x, 1),
        "power_long": lambda: tower.cyclotomic_power(x, LONG),
        "power_minus": lambda: tower.cyclotomic_power(x, -6),
    }[operation]()


def expected(curve: PairingCurve, operation: str, x: Any, y: Any) -> Any:
    fq12, zero = fields_of(curve).fq12, (0, 0)
    (a0, a1, a2), (a3, _, _) = y
    models: dict[str, Callable[[], Any]] = {
        "multiply": lambda: fq12.mul(x, y),
        "square": lambda: fq12.mul(x, x),
        "inverse": lambda: fq12.inv(x) if x != fq12.zero else x,
        "conjugate": lambda: fq12.conjugate(x),
        "line_013": lambda: fq12.mul(x, fq12.from_powers_of_w([a0, a1, zero, a2, zero, zero])),
        "line_023": lambda: fq12.mul(x, fq12.from_powers_of_w([a0, zero, a1, a3, zero, zero])),
        "frobenius1": lambda: frobenius(curve, x, 1),
        "frobenius2": lambda: frobenius(curve, x, 2),
        "frobenius3": lambda: frobenius(curve, x, 3),
        "cyclotomic_square": lambda: fq12.mul(x, x),
        "power_1": lambda: x,
        "power_long": lambda: fq12.pow(x, LONG),
        "power_minus": lambda: fq12.inv(fq12.pow(x, 6)),
    }
    return models[operation]()


def tower_of(k: Builder, curve: PairingCurve) -> TowerField:
    spec = curve.tower.fq2
    return TowerField(k, spec, curve.tower.fq6_non_residue)


@kernel
def tower_operations(
    k: Builder,
    n: U32,
    a: Pointer[U64],
    b: Pointer[U64],
    out: Pointer[U64],
    *,
    curve: str,
    operations: tuple[str, ...],
) -> None:
    """out[i, j] = operation j on a[i] and b[i]."""
    tower = tower_of(k, CURVES[curve])
    i = k.global_id()
    with k.if_(i < n):
        x, y = tower.load(a, i), tower.load(b, i)
        for j, operation in enumerate(operations):
            (a0, a1, a2), (a3, _, _) = y
            result = computed(tower, operation, x, y, (a0, a1, a2, a3))
            tower.store(out, i * len(operations) + j, result)


def flat(a: Any) -> list[int]:
    return [c for half in a for part in half for c in part]


def nested(integers: list[int]) -> Any:
    pairs = list(zip(integers[::2], integers[1::2], strict=True))
    return tuple(pairs[:3]), tuple(pairs[3:])


def operands(curve: PairingCurve) -> list[Any]:
    """Zero, one, all coefficients at the edge, and mixtures of hostile coefficients."""
    source = random.Random(5)
    hostile = hostile_integers(curve.fq)
    top = curve.fq.value - 1
    edge = [[0] * 12, [1] + [0] * 11, [top] * 12, [0] * 11 + [top]]
    return [nested(c) for c in edge + [source.choices(hostile, k=12) for _ in range(COUNT - 4)]]


def cyclotomic(curve: PairingCurve, a: Any) -> Any:
    """a^((q^6 - 1)(q^2 + 1)), or 1 for 0."""
    fq12 = fields_of(curve).fq12
    if a == fq12.zero:
        return fq12.one
    easy = fq12.mul(fq12.conjugate(a), fq12.inv(a))
    return fq12.mul(frobenius(curve, easy, 2), easy)


def arguments(curve: PairingCurve, x: list[Any], y: list[Any], results: int) -> list[Any]:
    a, b = (
        from_integers(curve.fq, [c for value in values for c in flat(value)]).view(np.uint64)
        for values in (x, y)
    )
    return [len(x), a, b, np.zeros((len(x) * results * 12, a.shape[1]), np.uint64)]


def check(
    curve: PairingCurve, operations: tuple[str, ...], x: list[Any], y: list[Any], out: Any
) -> None:
    coefficients = to_integers(curve.fq, out.view(np.uint32))
    for i, (first, second) in enumerate(zip(x, y, strict=True)):
        for j, operation in enumerate(operations):
            at = 12 * (i * len(operations) + j)
            wanted = expected(curve, operation, first, second)
            assert nested(coefficients[at : at + 12]) == wanted, (operation, first, second)


each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.name)


@pytest.mark.parametrize(
    "curve",
    [pytest.param(curve, id=name, marks=() if name == "bn254" else pytest.mark.thorough)
     for name, curve in CURVES.items()],
)  # fmt: skip
@pytest.mark.parametrize("operations", [OPERATIONS, CYCLOTOMIC], ids=["all", "cyclotomic"])
def test_operations(device: CpuDevice, curve: PairingCurve, operations: tuple[str, ...]) -> None:
    x = operands(curve)
    if operations == CYCLOTOMIC:
        x = [cyclotomic(curve, a) for a in x]
    y = [*x[1:], x[0]]
    buffers = arguments(curve, x, y, len(operations))
    compiled = device.compile(tower_operations, curve=curve.name, operations=operations)
    device.launch(compiled, -(-len(x) // device.lanes), *buffers)
    check(curve, operations, x, y, buffers[-1])


@pytest.mark.thorough
def test_interpreter_agrees() -> None:
    curve = CURVES["bn254"]
    operations = ("multiply", "frobenius1", "cyclotomic_square")
    x = operands(curve)[:8]
    y = [*x[1:], x[0]]
    buffers = arguments(curve, x, y, len(operations))
    out = run_everywhere(tower_operations, 1, buffers, curve=curve.name, operations=operations)[-1]
    indices = [j for j, name in enumerate(operations) if name != "cyclotomic_square"]
    rows = out.reshape(len(x), len(operations), 12, -1)[:, indices]
    check(curve, operations[:2], x, y, np.ascontiguousarray(rows))


@each_curve
def test_frobenius_factors(curve: PairingCurve) -> None:
    spec = curve.tower.fq2
    for power in range(1, 4):
        factors = frobenius_factors(spec, curve.tower.fq6_non_residue, power)
        assert tuple(factors) == curve.tower.frobenius_coefficients(power)


def test_signed_digits() -> None:
    for number in [*range(1, 600), LONG, (1 << 64) - 1]:
        digits = signed_digits(number)
        value = 0
        for digit in digits:
            value = 2 * value + digit
        assert value == number
        assert digits[0] == 1
        assert not any(a and b for a, b in itertools.pairwise(digits))


def test_tower_requires_a_quadratic_extension() -> None:
    with pytest.raises(ValueError, match="quadratic"):
        TowerField(None, M31_3, (9, 1))  # type: ignore[arg-type]
