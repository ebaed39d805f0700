"""A gadget as a circuit: what it computes, how many constraints it has, and that it is sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod import r1cs

Gadget = Callable[[r1cs.ConstraintSystem], Sequence[Any]]
"""Takes inputs of a system, and returns what is made public."""


def made(gadget: Gadget, curve: str = "bn254") -> r1cs.Circuit:
    """The circuit whose outputs are what the function returns."""

    def function(system: r1cs.ConstraintSystem) -> None:
        for at, signal in enumerate(gadget(system)):
            system.output(f"out[{at}]", signal)

    return r1cs.trace(function, curve)


def outputs(circuit: r1cs.Circuit, **inputs: Any) -> list[int]:
    """The outputs for inputs that satisfy all constraints."""
    values = circuit.values(inputs)
    assert not circuit.check(values), circuit.check(values)[0]
    return values[1 : 1 + circuit.public_outputs]


def sound(circuit: r1cs.Circuit, changes: int, **inputs: Any) -> None:
    """No constraint is missing that a changed value would show, nor another thing lint sees."""
    errors = [str(each) for each in circuit.tamper(changes, inputs) if each.error]
    assert not errors
    assert not circuit.lints()


def inner(circuit: r1cs.Circuit) -> int:
    """The constraints of the gadget, without those that make outputs public."""
    return circuit.constraints - circuit.public_outputs
