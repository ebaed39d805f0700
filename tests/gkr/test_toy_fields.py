"""Acceptance rates of false statements over tiny fields, against the theory.

A cheating prover gets as far as the theory allows and no further: a term that `error_terms` forgot
would be seen, and so would a prover that lies too badly for a test of anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from quod.errors import VerificationError
from quod.field import Modulus
from quod.gkr import Reduction, VerifyingKey, error_terms, verify
from quod.layered import CircuitBuilder, LayeredCircuit, Public, Random
from tests.gkr.cheating import Place, accepted
from tests.reference import gkr as reference
from tests.support.thorough import one_and_others


def circuit_of(p: int, *, products: int = 1, powers: bool = False) -> LayeredCircuit:
    """Layers of products, of which the last one takes a public input away."""
    builder = CircuitBuilder(Modulus(f"toy.{p}", p), log_inputs=1, public=1)
    for number in range(products):
        layer = builder.layer(1)
        layer.multiply(0, 0, 1)
        layer.multiply(0, 1, 1)
        layer.multiply(1, 0, 0, 3)
        layer.add(1, 1)
        if powers:
            layer.power(1, 1, 3)
        if number == products - 1:
            layer.constant(0, Public(0))
            layer.constant(1, Public(0))
    return builder.finished()


def linear_circuit(p: int) -> LayeredCircuit:
    """A layer of additions."""
    builder = CircuitBuilder(Modulus(f"toy.{p}", p), log_inputs=1, public=1)
    layer = builder.layer(1)
    for place in range(2):
        layer.add(place, place, 2)
        layer.constant(place, Public(0))
    return builder.finished()


def rate(
    circuit: LayeredCircuit, lies: Callable[[Place], bool], trials: int, *, instances: int = 1,
    both: bool = False, reduction: Reduction = Reduction.TWO_PHASE,
) -> float:  # fmt: skip
    """Return the rate of accepted false statements among the trials."""
    p, passed = circuit.field.value, 0
    key = VerifyingKey.of(circuit, circuit.field, allow_bits=0, reduction=reduction)
    generator = random.Random(f"{circuit.digest.hex()} {instances}")
    for _ in range(trials):
        inputs = [
            [generator.randrange(p) for _ in range(1 << circuit.log_inputs)]
            for _ in range(instances)
        ]
        public = [[generator.randrange(p)] for _ in range(instances)]
        while not any(map(any, (circuit.evaluate(*row)[-1] for row in zip(inputs, public)))):
            public = [[generator.randrange(p)] for _ in range(instances)]
        passed += accepted(key, circuit, inputs, public, lies, both=both)
    return passed / trials


def agrees(measured: float, least: float, most: float, trials: int) -> bool:
    """Within four standard deviations."""
    low, high = (4 * (bound * (1 - bound) / trials) ** 0.5 for bound in (least, most))
    # Else a rate of 0 would do.
    assert least - low > 0
    return least - low < measured < most + high


def of_all(terms: list[float]) -> float:
    """Return the probability that at least one of several events happens."""
    none = 1.0
    for term in terms:
        none *= 1 - term
    return 1 - none


@pytest.mark.parametrize(
    ("p", "instances"),
    one_and_others([(17, 1), (31, 1), (31, 3), (127, 4), (127, 1)]),
)
def test_false_rounds_pass_at_the_bounded_rate(p: int, instances: int) -> None:
    circuit = circuit_of(p, products=2, powers=instances == 1)
    terms = error_terms(circuit, circuit.field, instances=instances)
    most = of_all([min(1.0, float(term)) for term in terms.values()])
    measured = rate(circuit, lambda _: True, 300, instances=instances)
    assert agrees(measured, 0.5 * most, most, 300)


FORMS = {
    "products": (circuit_of(17), 1, 2),
    "products of instances": (circuit_of(17), 2, 2),
    "powers": (circuit_of(17, powers=True), 1, 4),
    "additions": (linear_circuit(17), 1, 2),
    "additions of instances": (linear_circuit(17), 2, 2),
}


@pytest.mark.parametrize("name", one_and_others(FORMS, ["powers"]))
def test_one_false_round_passes_at_the_rate_of_its_degree(name: str) -> None:
    """The bound covers all rounds."""
    circuit, instances, degree = FORMS[name]
    p, trials = circuit.field.value, 300
    terms = error_terms(circuit, circuit.field, instances=instances)
    seen: set[Place] = set()

    def nowhere(place: Place) -> bool:
        seen.add(place)
        return False

    assert rate(circuit, nowhere, 1, instances=instances) == 0
    degrees = {place: degree if place[1] == "x" else 2 for place in seen}
    assert round(terms["rounds of sumchecks"] * p) == sum(degrees.values())
    for lied, zeros in degrees.items():
        measured = rate(
            circuit, lambda place, lied=lied: place == lied, trials, instances=instances
        )
        # The outputs' point may hide what is wrong.
        most = of_all([zeros / p, float(terms["the outputs' point"])])
        assert agrees(measured, 0.9 * zeros / p, most, trials)


def test_cancelling_false_claims_pass_at_the_expected_rate() -> None:
    circuit, trials = circuit_of(17, products=2), 400
    terms = error_terms(circuit, circuit.field)
    # The claims about the inputs are not combined.
    assert round(terms["claims combined"] * 17) == 1
    most = of_all([1 / 17, float(terms["the outputs' point"])])
    assert agrees(rate(circuit, lambda _: False, trials, both=True), 0.9 / 17, most, trials)


def wide_circuit(p: int) -> LayeredCircuit:
    """Four inputs, all of which are taken: a product of two and the sum of the others."""
    builder = CircuitBuilder(Modulus(f"toy.{p}", p), log_inputs=2, public=1)
    layer = builder.layer(1)
    for place in range(2):
        layer.multiply(place, 0, 1 + place)
        layer.add(place, 3, 2 + place)
        layer.constant(place, Public(0))
    return builder.finished()


COLUMNS: dict[str, tuple[LayeredCircuit, int, int]] = {
    "products": (circuit_of(17, products=2), 4, 2),
    "powers": (circuit_of(17, powers=True), 3, 3),
    "four values": (wide_circuit(31), 2, 2),
    "sums": (linear_circuit(17), 2, 0),
}
"""A circuit, instances and the degree of its rounds, 0 where there are none."""


@pytest.mark.parametrize("name", one_and_others(COLUMNS, always=["sums"]))
def test_false_data_parallel_rounds_pass_at_the_bounded_rate(name: str) -> None:
    """Lies in values alone, and in all rounds too."""
    circuit, instances, degree = COLUMNS[name]
    p, trials, reduction = circuit.field.value, 400, Reduction.DATA_PARALLEL
    terms = error_terms(circuit, circuit.field, instances=instances, reduction=reduction)
    combined = sum(circuit.log_below(number) for number in range(len(circuit.layers)))
    assert round(terms["claims combined"] * p) == combined
    rounds = len(circuit.layers) * degree * (instances - 1).bit_length()
    assert round(terms.get("rounds of sumchecks", 0) * p) == rounds
    rates: dict[str, float] = {}
    for what, lies in {"values": False, "all": True}.items():
        rates[what] = rate(
            circuit, lambda _, lies=lies: lies, trials, instances=instances, both=True,
            reduction=reduction,
        )  # fmt: skip
    point = float(terms["the outputs' point"])
    values = of_all([1 / p] * combined)
    assert agrees(rates["values"], 0.8 * values, of_all([values, point]), trials)
    every = of_all([values, *[degree / p] * (rounds // max(1, degree))])
    assert agrees(rates["all"], 0.8 * every, of_all([every, point]), trials)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", one_and_others([name for name in COLUMNS if COLUMNS[name][2]], ["four values"])
)
def test_one_false_data_parallel_round_passes_at_its_degree_rate(name: str) -> None:
    circuit, instances, degree = COLUMNS[name]
    p, trials, reduction = circuit.field.value, 400, Reduction.DATA_PARALLEL
    terms = error_terms(circuit, circuit.field, instances=instances, reduction=reduction)
    last = (len(circuit.layers) - 1, "s", 0)
    measured = rate(
        circuit, lambda place: place == last, trials, instances=instances, reduction=reduction
    )
    most = of_all([degree / p, float(terms["the outputs' point"])])
    assert agrees(measured, 0.9 * degree / p, most, trials)


@pytest.mark.thorough
@pytest.mark.parametrize("instances", [1, 2])
def test_random_coefficients_cancel_at_the_rate_of_their_degree(instances: int) -> None:
    """Outputs (a r + b)(c r + d), which is 0 for two challenges r."""
    p, trials = 17, 400
    builder = CircuitBuilder(Modulus("toy.17", p), log_inputs=2)
    first, last = builder.layer(1), builder.layer(1)
    for place in range(2):
        first.add(place, 2 * place, Random(0))
        first.add(place, 2 * place + 1)
        last.multiply(place, 0, 1)
    circuit = builder.finished()
    terms = error_terms(circuit, circuit.field, instances=instances)
    assert round(terms["random coefficients"] * p) == 2
    key, passed = VerifyingKey.of(circuit, circuit.field, allow_bits=0), 0
    for trial in range(trials):
        # a and b number the trials, c and d give another zero.
        a, b = 1 + trial // p % (p - 1), trial % p
        inputs = [[a, b, a, (b + 1 + trial // 256) % p]] * instances
        try:
            public: list[list[int]] = [[] for _ in inputs]
            proof = reference.prove(key, circuit, inputs)
            verify(key, circuit, public, proof, instances=instances, allow_bits=0)
            passed += 1
        except VerificationError:
            pass
    assert agrees(passed / trials, 2 / p, 2 / p, trials)
