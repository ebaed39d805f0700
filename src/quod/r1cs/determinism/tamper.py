"""Changed witnesses that a circuit accepts all the same: a search for what is under-constrained.

A wire that is no input gets other values: with all others as they were, with what follows from it
computed anew, and with what follows by constraints alone, as a prover need not ask hints. No such
witness may satisfy all constraints, but where the wire is declared free (`ConstraintSystem.free`).
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

    `wire` names what was changed from `before` to `after`. `public` has the public values that
    changed with it: then the circuit proves what is not so. Without any, the circuit has several
    witnesses for one statement, which is an error unless the wire was declared `free`.
    """

    wire: str
    before: int
    after: int
    public: tuple[str, ...]
    free: bool

    @property
    def error(self) -> bool:
        """Whether the circuit says less than it should."""
        return bool(self.public) or not self.free

    def __str__(self) -> str:
        with_it = f", and with it {', '.join(self.public)}" if self.public else ""
        return f"{self.wire} may be {self.after} in place of {self.before}{with_it}"


def tampered(system: ConstraintSystem, count: int, inputs: Inputs, *, seed: int) -> list[Accepted]:
    """What is accepted of changes to `count` wires, chosen by the seed; see `Circuit.tamper`."""
    given = input_values(system.inputs, inputs, system.prime)
    right = replayed(system, given)
    if rows := failing_rows(system, right):
        # What fails already would hide every change.
        raise UnsatisfiedError(failures_of(system, right, rows), len(system.row_paths))
    wires = [wire for step in system.steps for wire in wires_of(step)]
    chance = random.Random(seed)
    found = []
    for wire in wires if count >= len(wires) else chance.sample(wires, count):
        for after in _others(right[wire], system.prime, chance):
            for changed in _changed(system, right, wire, after):
                if not failing_rows(system, changed):
                    found.append(_accepted(system, wire, right, changed))
    return list(dict.fromkeys(found))


def _changed(
    system: ConstraintSystem, right: list[int], wire: int, after: int
) -> Iterator[list[int]]:
    """The three witnesses with a change, or fewer where they are the same."""
    alone = list(right)
    alone[wire] = after
    yield alone
    for are_asked in (True, False):
        changed, is_again = list(right), True
        for step in system.steps:
            own = wires_of(step)
            if type(step) is Solve or are_asked:
                # A hint that can make nothing of other values leaves its own as they were.
                with suppress(QuodError):
                    run(system, step, changed)
            if wire in own:
                changed[wire] = after
            elif type(step) is not Solve:
                is_again &= all(changed[each] == right[each] for each in own)
        yield changed
        if is_again:
            return


def _others(before: int, prime: int, chance: random.Random) -> list[int]:
    """A random value, and those that mistakes let through most: the next, a bit's other, -x."""
    given = (before + 1, 1 - before, -before, chance.randrange(prime))
    return [after for after in dict.fromkeys(each % prime for each in given) if after != before]


def _accepted(
    system: ConstraintSystem, wire: int, right: list[int], changed: list[int]
) -> Accepted:
    names = tuple(
        name for at, name in enumerate(system.public_names, start=1) if changed[-at] != right[-at]
    )
    is_free = wire in system.free_wires
    return Accepted(wire_name(system, wire), right[wire], changed[wire], names, is_free)
