"""Unusual circuits, proved in batches of instances, against the model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quod.field import EXTENSIONS, NAMED, FieldSpec, Modulus
from quod.gkr import Prover, Reduction, Verifier, VerifyingKey, verify
from quod.layered import CircuitBuilder, Public, Random
from tests.reference import gkr as reference
from tests.support.thorough import one_and_others

Made = tuple[CircuitBuilder, list[int], list[int]]


def no_gates(field: Modulus) -> Made:
    builder = CircuitBuilder(field, 1)
    for _ in range(2):
        builder.layer(1)
    return builder, [1, 2], []


def constants_alone(field: Modulus) -> Made:
    """Public inputs that nothing takes, too."""
    builder = CircuitBuilder(field, 1, public=2)
    layer = builder.layer(1)
    layer.constant(0, Public(1))
    layer.constant(0, -3)
    return builder, [1, 2], [5, 3]


def random_constants(field: Modulus) -> Made:
    """Values of the extension whose products cancel."""
    builder = CircuitBuilder(field, 1)
    builder.layer(1).constant(0, Random(3))
    last = builder.layer(1)
    last.multiply(0, 0, 1)
    last.multiply(0, 1, 0, -1)
    return builder, [1, 2], []


def gates_that_cancel(field: Modulus) -> Made:
    """Return a circuit with repeated gates, and some with the coefficient 0."""
    builder = CircuitBuilder(field, 1)
    layer = builder.layer(1)
    for sign in (1, -1):
        for _ in range(5):
            layer.multiply(1, 0, 0, sign)
    for exponent in range(1, 6):
        layer.power(0, 1, exponent, 0)
    return builder, [3, 4], []


def unused_coefficients(field: Modulus) -> Made:
    """A challenge among them, which is drawn for nothing."""
    builder = CircuitBuilder(field, 1)
    for coefficient in (5, Random(2), 77):
        builder.coefficient(coefficient)
    layer = builder.layer(1)
    layer.add(0, 1)
    layer.add(0, 1, -1)
    return builder, [3, 4], []


def narrow_and_wide(field: Modulus) -> Made:
    builder = CircuitBuilder(field, 4)
    narrow = builder.layer(1)
    narrow.add(0, 15)
    narrow.add(0, 15, -1)
    builder.layer(5).multiply(31, 0, 1)
    builder.layer(1).add(0, 31)
    return builder, list(range(16)), []


def public_factor_of_zero(field: Modulus) -> Made:
    builder = CircuitBuilder(field, 1, public=1)
    layer = builder.layer(1)
    layer.multiply(0, 0, 1, Public(0))
    layer.power(1, 0, 2, Public(0))
    layer.constant(1, Public(0))
    return builder, [3, 4], [0]


def sums_alone(field: Modulus) -> Made:
    """Return layers of which most values are not taken, and one that is not taken at all."""
    builder = CircuitBuilder(field, 3)
    builder.layer(3).add(5, 7)
    middle = builder.layer(2)
    middle.add(3, 5, 2)
    middle.add(3, 5, -2)
    builder.layer(2).constant(1, 0)
    builder.layer(1).add(1, 3)
    return builder, list(range(8)), []


def gates_in_no_claim(field: Modulus) -> Made:
    """Outputs that nobody takes, with gates of all kinds."""
    builder = CircuitBuilder(field, 1, public=1)
    layer = builder.layer(3)
    for place in range(1, 8):
        layer.power(place, place % 2, 1 + place % 5)
        layer.multiply(place, 0, 1)
        layer.constant(place, Public(0))
    layer.multiply(0, 0, 1)
    builder.layer(1).add(0, 0)
    return builder, [0, 4], [9]


CIRCUITS: list[Callable[[Modulus], Made]] = [
    no_gates, constants_alone, random_constants, gates_that_cancel, unused_coefficients,
    narrow_and_wide, public_factor_of_zero, sums_alone, gates_in_no_claim,
]  # fmt: skip

FIELDS: list[FieldSpec] = [
    *(EXTENSIONS[name] for name in ("m31.3", "baby_bear.4", "koala_bear.4")),
    NAMED["bls12_381.fr"], Modulus("toy.17", 17),
]  # fmt: skip


def check(field: FieldSpec, made_circuit: Made, reduction: Reduction, instances: int = 3) -> None:
    """Three proofs, two at a time, of so many instances each, by both verifiers."""
    builder, inputs, public = made_circuit
    circuit = builder.finished()
    key = VerifyingKey.of(circuit, field, allow_bits=0, reduction=reduction)
    # Inputs that are 0 do for all of them.
    zeros = [0] * len(inputs)
    most = [*[inputs] * (instances - 1), zeros]
    statements = [[inputs] * instances, most, [inputs] * instances]
    public_rows = [[public] * instances] * 3
    forms: dict[str, int] = {"instances": instances, "batch": 2, "allow_bits": 0}
    proofs = Prover("cpu", key, circuit, **forms).prove_many(statements, public_rows, check=False)
    for rows, proof in zip(statements, proofs, strict=True):
        assert proof == reference.prove(key, circuit, rows, public_rows[0])
        verify(key, circuit, public_rows[0], proof, instances=instances, allow_bits=0)
    Verifier("cpu", key, circuit, **forms).verify_many(public_rows, proofs)


@pytest.mark.parametrize("reduction", Reduction)
@pytest.mark.parametrize(
    "make",
    one_and_others(
        CIRCUITS,
        [make for make in CIRCUITS if make not in (gates_that_cancel, gates_in_no_claim)],
    ),
)
def test_odd_circuits_agree_with_the_model(
    make: Callable[[Modulus], Made], reduction: Reduction
) -> None:
    check(EXTENSIONS["m31.4"], make(NAMED["m31"]), reduction)


@pytest.mark.parametrize("make", [sums_alone, gates_in_no_claim])
def test_single_data_parallel_instance_agrees_with_the_model(
    make: Callable[[Modulus], Made],
) -> None:
    """A single instance has no sumcheck rounds."""
    check(EXTENSIONS["m31.4"], make(NAMED["m31"]), Reduction.DATA_PARALLEL, 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "field",
    [pytest.param(field, id=field.name,
                  marks=() if field.name == "toy.17" else pytest.mark.thorough)
     for field in FIELDS],
)  # fmt: skip
def test_other_fields_agree_with_the_model(field: FieldSpec) -> None:
    check(field, gates_that_cancel(field.modulus), Reduction.TWO_PHASE)


@pytest.mark.thorough
@pytest.mark.parametrize("field", [FIELDS[-1]], ids=lambda field: field.name)
def test_other_fields_agree_in_data_parallel_proofs(field: FieldSpec) -> None:
    check(field, gates_that_cancel(field.modulus), Reduction.DATA_PARALLEL)
