"""A search for under-constrained wires: changed witnesses that a circuit accepts.

The inputs keep their values. A wire that they do not determine gets another value, and every wire
that depends on it, or on which it depends, is solved from the constraints again: all wires of a
hint move together, as a prover need not run hints. No such witness may satisfy all constraints
unless the wire is declared free (`ConstraintSystem.free`).
"""

from __future__ import annotations

import random

from quod.frozen import frozen
from quod.r1cs.checks import UnsatisfiedError, failing_rows, failures_of
from quod.r1cs.determinism.arguments.denominators import find_denominators
from quod.r1cs.determinism.arguments.one_hot import run_one_hot
from quod.r1cs.determinism.cores import cores_of
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.search.pairs import Search
from quod.r1cs.determinism.sources import ALL, rows_of_circuit
from quod.r1cs.inputs import Inputs, input_values
from quod.r1cs.names import wire_name
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.replay import by_wire, in_order, replayed
from quod.r1cs.witness_program.steps import wires_of


@frozen
class Accepted:
    """A changed witness that satisfies all constraints.

    wire: the name of the changed wire.
    before, after: its values.
    public: names of the public values that changed with it. If there are any, the circuit proves
        false statements; if there are none, a statement has several witnesses.
    free: whether the wire is declared free, so that several witnesses are no error.
    """

    wire: str
    before: int
    after: int
    public: tuple[str, ...]
    free: bool

    @property
    def error(self) -> bool:
        """True if the circuit is under-constrained."""
        return bool(self.public) or not self.free

    def __str__(self) -> str:
        with_it = f", and with it {', '.join(self.public)}" if self.public else ""
        return f"{self.wire} may be {self.after} in place of {self.before}{with_it}"


def tampered(system: ConstraintSystem, count: int, inputs: Inputs, *, seed: int) -> list[Accepted]:
    """Change `count` wires, chosen by the seed, and return the changes that the circuit accepts.

    Raises UnsatisfiedError if the unchanged witness fails. See `Circuit.tamper`.
    """
    wire_values = input_values(system.inputs, inputs, system.prime)
    honest = replayed(system, wire_values)
    if rows := failing_rows(system, honest):
        # A constraint that fails without a change would hide every accepted change.
        raise UnsatisfiedError(failures_of(system, honest.__getitem__, rows), len(system.row_paths))
    wires = [wire for step in system.steps for wire in wires_of(step)]
    if count < len(wires):
        wires = random.Random(seed).sample(wires, count)
    facts = _facts(system)
    public = len(system.public_names)
    node_of = {wire: wire + public if wire > 0 else -wire for wire in wires}
    core_of = {node: core for core in cores_of(facts) for node in core.nodes}
    values = facts.form.values(in_order(system, honest))
    # To solve equations after conflicts would take twenty times as long for all wires.
    search = Search(facts, float("inf"), seed, solves_equations=False)
    accepted = []
    witnesses = set[tuple[int, ...]]()
    # Public wires come last: a change of one is reported at the wire that it stems from.
    for wire in sorted(wires, key=lambda wire: (wire < 0, abs(wire))):
        node = node_of[wire]
        if facts.determined[node]:
            continue
        pair = search.changed(core_of[node], [node], [node], values)
        if pair is not None and (changed := tuple(pair.second)) not in witnesses:
            witnesses.add(changed)
            accepted.append(_accepted(system, wire, honest, by_wire(system, changed)))
    return accepted


def _facts(system: ConstraintSystem) -> Propagation:
    """Return the facts about all wires of a circuit."""
    rows = rows_of_circuit(system, targets=[ALL])
    facts = Propagation(rows, NormalForm(rows))
    facts.run()
    run_one_hot(facts)
    find_denominators(facts)
    return facts


def _accepted(
    system: ConstraintSystem, wire: int, honest: list[int], changed: list[int]
) -> Accepted:
    """Describe a changed witness that the circuit accepts."""
    names = tuple(
        name
        for index, name in enumerate(system.public_names, start=1)
        if changed[-index] != honest[-index]
    )
    is_free = wire in system.free_wires
    return Accepted(wire_name(system, wire), honest[wire], changed[wire], names, is_free)
