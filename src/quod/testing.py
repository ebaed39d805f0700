"""Assertions for tests of circuits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quod.formats import Witness
    from quod.r1cs.circuit import Circuit
    from quod.r1cs.inputs import Inputs

__all__ = ["assert_deterministic", "assert_fails", "assert_satisfied"]


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


def assert_deterministic(
    circuit: Circuit, *, targets: Sequence[str] | None = None, waived: Sequence[str] = (),
    seconds: float = 60.0,
) -> None:  # fmt: skip
    """Assert that a circuit's inputs determine its outputs, or the signals named by `targets`.

    waived: names of targets that need not be determined; a name that ends in ``*`` stands for all
        that begin so. Raises InputError for a name of no target that is ambiguous or unknown.
    Raises AssertionError if there are no targets, and else with the verdict on each target that is
    not determined: ambiguous, with inputs and values of two witnesses, or unknown; then with the
    findings. See `Circuit.check`.
    """
    from quod.r1cs.determinism.waivers import Waiver, unwaived, waivers_of

    if targets is None and not circuit.system.outputs:
        raise AssertionError("the circuit has no outputs; name targets")
    report = circuit.check(targets=targets, seconds=seconds)
    if not report.verdicts:
        raise AssertionError("all signals are inputs; name other targets")
    waivers = waivers_of(report, [Waiver(name, "", "") for name in waived])
    if failures := unwaived(report, waivers):
        lines = [line for verdict in failures for line in report.lines_of(verdict)]
        lines += [f"finding: {finding}" for finding in report.findings]
        raise AssertionError("\n".join(lines))
