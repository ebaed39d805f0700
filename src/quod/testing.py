"""What tests of circuits say about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quod.formats import Witness
    from quod.r1cs.circuit import Circuit
    from quod.r1cs.inputs import Inputs

__all__ = ["assert_fails", "assert_satisfied"]


def assert_satisfied(circuit: Circuit, inputs: Inputs) -> Witness:
    """The witness for these inputs; AssertionError with every constraint that it does not satisfy.

    InputError for inputs that are not the circuit's.
    """
    witness = circuit.witness(inputs, check=False)
    if failures := circuit.check(witness):
        raise AssertionError("\n".join(map(str, failures)))
    return witness


def assert_fails(circuit: Circuit, inputs: Inputs, name: str = "") -> None:
    """AssertionError unless these inputs fail a constraint; with `name` one of that namespace.

    A constraint of a namespace within counts as well. InputError for inputs that are not the
    circuit's.
    """
    failures = circuit.check(circuit.witness(inputs, check=False))
    if not failures:
        raise AssertionError("the inputs satisfy all constraints")
    if name and not any(f"{own.namespace}/".startswith(f"{name}/") for own in failures):
        raise AssertionError(
            f"no constraint of {name} fails, but others:\n" + "\n".join(map(str, failures))
        )
