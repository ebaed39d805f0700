"""Assertions for tests of circuits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quod.formats import Witness
    from quod.r1cs.circuit import Circuit
    from quod.r1cs.inputs import Inputs

__all__ = ["assert_fails", "assert_satisfied"]


def assert_satisfied(circuit: Circuit, inputs: Inputs) -> Witness:
    """Compute the witness for the inputs, check that it satisfies all constraints, and return it.

    Raises AssertionError with every constraint that fails, InputError for inputs that do not match
    the circuit.
    """
    witness = circuit.witness(inputs, check=False)
    if failures := circuit.check(witness):
        raise AssertionError("\n".join(map(str, failures)))
    return witness


def assert_fails(circuit: Circuit, inputs: Inputs, name: str = "") -> None:
    """Assert that the inputs fail a constraint; raises AssertionError otherwise.

    name: a namespace that must contain a failing constraint, directly or in a nested namespace.
    Raises InputError for inputs that do not match the circuit.
    """
    failures = circuit.check(circuit.witness(inputs, check=False))
    if not failures:
        raise AssertionError("the inputs satisfy all constraints")
    if name and not any(f"{failure.namespace}/".startswith(f"{name}/") for failure in failures):
        raise AssertionError(
            f"no constraint of {name} fails, but others:\n" + "\n".join(map(str, failures))
        )
