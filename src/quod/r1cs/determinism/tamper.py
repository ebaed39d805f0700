"""A search for under-constrained wires: changed witnesses that a circuit accepts.

A wire that is not an input gets other values in three ways: all other wires keep their values; the
wires that depend on it are recomputed; or only those that constraints determine are recomputed, as
a prover need not run hints. No such witness may satisfy all constraints unless the wire is declared
free (`ConstraintSystem.free`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

from quod.errors import QuodError
from quod.frozen import frozen
from quod.r1cs.checks import UnsatisfiedError, failing_rows, failures_of
from quod.r1cs.inputs import Inputs, input_values
from quod.r1cs.names import wire_name
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.replay import replayed, run
from quod.r1cs.witness_program.steps import Solve, wires_of


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
        raise UnsatisfiedError(failures_of(system, honest, rows), len(system.row_paths))
    wires = [wire for step in system.steps for wire in wires_of(step)]
    generator = random.Random(seed)
    accepted = []
    for wire in wires if count >= len(wires) else generator.sample(wires, count):
        for after in _trial_values(honest[wire], system.prime, generator):
            for changed in _changed(system, honest, wire, after):
                if not failing_rows(system, changed):
                    accepted.append(_accepted(system, wire, honest, changed))
    return list(dict.fromkeys(accepted))


def _changed(
    system: ConstraintSystem, honest: list[int], wire: int, after: int
) -> Iterator[list[int]]:
    """Yield the witnesses with a changed wire: three, or two if no hint gives another value."""
    single_change = list(honest)
    single_change[wire] = after
    yield single_change
    for run_hints in (True, False):
        changed, hints_agree = list(honest), True
        for step in system.steps:
            step_wires = wires_of(step)
            if type(step) is Solve or run_hints:
                # If a hint fails for changed values, its wires keep their values.
                with suppress(QuodError):
                    run(system, step, changed)
            if wire in step_wires:
                changed[wire] = after
            elif type(step) is not Solve:
                hints_agree &= all(changed[each] == honest[each] for each in step_wires)
        yield changed
        if hints_agree:
            return


def _trial_values(before: int, prime: int, generator: random.Random) -> list[int]:
    """Return values to try: those that mistakes most often accept, and a random one.

    They are x + 1, 1 - x (the other bit) and -x; equal ones, and x itself, are left out.
    """
    candidates = (before + 1, 1 - before, -before, generator.randrange(prime))
    return [
        after for after in dict.fromkeys(each % prime for each in candidates) if after != before
    ]


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
