"""Vector clocks of subgroups against sets of predecessors, on random schedules."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.kernel import U32, Builder, Location, Pointer, Value, kernel, u32
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.clocks import Clocks
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.interpreter.memory import AccessSite, SharedBuffer
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Kernel

WORDS = 8
ROW = 4
OF_OTHERS = -1


@dataclass
class Reference:
    """Accesses that each instance knows of: all that come before its next one.

    Rows of matrices are loaded and stored for a whole subgroup, of which nobody knows it yet.
    """

    groups: list[list[int]]
    """The instances of each subgroup."""
    done: list[tuple[str, int, int]] = field(default_factory=list)
    """The kind of each access, its instance and the word."""
    known: dict[int, set[int]] = field(default_factory=dict)
    for_others: dict[int, set[int]] = field(default_factory=dict)
    told: dict[int, set[int]] = field(default_factory=dict)
    came: dict[int, set[int]] = field(default_factory=dict)
    met: dict[int, set[int]] = field(default_factory=dict)
    """Arrivals at a barrier, and those of the time before, as accesses of no word."""

    def __post_init__(self) -> None:
        self.known = {lane: set() for group in self.groups for lane in group}
        self.for_others = {number: set() for number in range(len(self.groups))}

    def races(self, lane: int, word: int, kinds: tuple[str, ...], known_accesses: set[int]) -> bool:
        """Return whether an access to the word is neither known nor of the instance itself."""
        return any(
            kind in kinds and at == word and who != lane and number not in known_accesses
            for number, (kind, who, at) in enumerate(self.done)
        )

    def add(self, kind: str, lane: int, word: int) -> None:
        self.known[lane].add(len(self.done))
        self.done.append((kind, lane, word))

    def add_for_others(self, kind: str, group: int, word: int) -> None:
        self.for_others[group].add(len(self.done))
        self.done.append((kind, OF_OTHERS, word))

    def come(self, number: int, group: int) -> bool:
        """Gives whether all are known to have come who came the time before."""
        of_all = [self.known[lane] for lane in self.groups[group]]
        knows = all(self.met.get(number, set()) <= known_accesses for known_accesses in of_all)
        self.came.setdefault(number, set()).add(len(self.done))
        for known_accesses in of_all:
            known_accesses.add(len(self.done))
        self.done.append(("come", OF_OTHERS, -1))
        told = self.told.setdefault(number, set())
        told |= self.for_others[group].union(*of_all)
        return knows

    def meet(self, number: int, waiting: list[int]) -> None:
        told, self.met[number] = self.told.pop(number), self.came.pop(number)
        for group in waiting:
            for lane in self.groups[group]:
                self.known[lane] |= told


CONFLICTS = {
    "load": ("store", "atomic"),
    "store": ("load", "store", "atomic"),
    "atomic": ("load", "store"),
}


def expected(is_wrong: bool) -> AbstractContextManager[object]:
    """Takes the error of a race or of who may come again too early, if that is expected."""
    problem = "a barrier is needed between|may come to .* again before the others"
    return pytest.raises(InterpreterError, match=problem) if is_wrong else nullcontext()


WEIGHTS = {"load": 5, "store": 5, "atomic": 2, "rows": 1, "come": 9}


class Schedule:
    """Random subgroups do random things to shared memory until nobody can go on.

    They meet at named barriers, or all of them at once.
    """

    def __init__(self, seed: int, *, at_once: bool = False) -> None:
        self.random = random.Random(seed)
        self.size = self.random.choice([2, 3])
        count = self.random.choice([2, 3, 4])
        self.groups = [list(range(n * self.size, (n + 1) * self.size)) for n in range(count)]
        self.lanes = count * self.size
        self.clocks = Clocks(self.lanes, self.size)
        self.at_once = at_once
        clocks = None if at_once else self.clocks
        self.room = SharedBuffer("room", 4 * WORDS, 4, self.lanes, 1, clocks=clocks)
        self.reference = Reference(self.groups)
        self.place = AccessSite(Location("here", 1), 0, self.lanes)
        self.values = iter(range(1000, 1 << 20, 1000))  # which no sums of ones reach
        everywhere, nobody = np.arange(0, 4 * WORDS, 4), np.zeros(WORDS, np.int64)
        self.memory = np.zeros(WORDS, np.uint32)
        self.room.store(everywhere, nobody, types.u32, [self.memory], self.place)
        self.room.barrier(None)
        members = [self.random.sample(range(count), self.random.randint(1, count)) for _ in "123"]
        self.members = [*members, list(range(count))]
        self.here: dict[int, dict[int, bool]] = {number: {} for number in range(len(self.members))}
        self.found = {True: 0, False: 0}
        self.is_over = False

    def run(self, steps: int) -> None:
        for _ in range(steps):
            waiting = {g for here in self.here.values() for g, waits in here.items() if waits}
            free = [g for g in range(len(self.groups)) if g not in waiting]
            if not free or self.is_over:
                break
            self.step(self.random.choice(free), self.random.choice(free))

    def step(self, group: int, other: int) -> None:
        may_come = [
            number
            for number, members in enumerate(self.members)
            if group in members and group not in self.here[number]
        ]
        (what,) = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        if what == "come" and self.at_once:
            self.meet()
        elif what == "come" and may_come:
            self.come(self.random.choice(may_come), group)
        elif what == "rows":
            self.rows(group, self.random.choice(["load", "store"]))
        elif what != "come":
            self.access(sorted({*self.groups[group], *self.groups[other]}), what)

    def come(self, number: int, group: int) -> None:
        waits, here = self.random.random() < 0.6, self.here[number]
        mask = np.isin(np.arange(self.lanes), self.groups[group])
        knows = self.reference.come(number, group)
        assert self.clocks.come(number, mask, waits=waits) == knows
        here[group] = waits
        if len(here) == len(self.members[number]):
            self.clocks.meet(number)
            self.reference.meet(number, [each for each, waits in here.items() if waits])
            here.clear()

    def meet(self) -> None:
        everyone = list(range(len(self.groups)))
        for group in everyone:
            self.reference.come(0, group)
        self.reference.meet(0, everyone)
        self.room.barrier(None)

    def access(self, among: list[int], kind: str) -> None:
        """One or two instances access a word each at once."""
        lanes = np.array(sorted(self.random.sample(among, self.random.randint(1, 2))))
        words = np.array([self.random.randrange(WORDS) for _ in lanes])
        is_atomic = kind == "atomic"
        value = np.full(len(lanes), 1 if is_atomic else next(self.values), np.uint32)
        changes = kind != "store" or self.random.random() < 0.9
        if not changes:
            value = self.memory[words]
        races = changes and any(
            self.reference.races(lane, word, CONFLICTS[kind], self.reference.known[lane])
            for lane, word in zip(lanes.tolist(), words.tolist(), strict=True)
        )
        location = (4 * words, lanes, types.u32)
        did: dict[str, Callable[[], object]] = {
            "load": lambda: self.room.load(*location, 1, self.place),
            "store": lambda: self.room.store(*location, [value], self.place),
            "atomic": lambda: self.room.atomic("atomic_add", *location, [value], self.place),
        }
        if not self.allows(did[kind], races):
            return
        for lane, word in zip(lanes.tolist(), words.tolist(), strict=True):
            self.reference.add(kind, lane, word)
        if kind == "store":
            self.memory[words] = value
        elif kind == "atomic":
            np.add.at(self.memory, words, value)

    def rows(self, group: int, kind: str) -> None:
        """An instance loads or stores four words for all of its subgroup."""
        lane, row = self.random.choice(self.groups[group]), self.random.randrange(WORDS // ROW)
        words, reference = range(ROW * row, ROW * (row + 1)), self.reference
        who, known_accesses = lane, reference.known[lane]
        if kind == "load":
            who = OF_OTHERS - 1
            known_accesses = set.intersection(
                *(reference.known[each] for each in self.groups[group])
            )
        races = any(reference.races(who, word, CONFLICTS[kind], known_accesses) for word in words)
        at, lanes = np.array([16 * row]), np.array([lane])
        value = np.full((1, ROW), next(self.values), np.uint32)
        did: dict[str, Callable[[], object]] = {
            "load": lambda: self.room.load_rows(at, lanes, self.place),
            "store": lambda: self.room.store_rows(at, lanes, value, self.place),
        }
        if not self.allows(did[kind], races):
            self.is_over = True
            return
        for word in words:
            reference.add_for_others(kind, group, word)
        if kind == "store":
            self.memory[list(words)] = value

    def allows(self, access: Callable[[], object], races: bool) -> bool:
        """Return whether an access is allowed, and check that the reference agrees."""
        self.found[races] += 1
        with expected(races):
            access()
        return not races


@pytest.mark.parametrize("at_once", [False, True])
def test_random_schedules_report_exactly_the_races(at_once: bool) -> None:
    """Exactly the unordered accesses are reported."""
    counts = {True: 0, False: 0}
    for seed in range(150):
        schedule = Schedule(seed, at_once=at_once)
        schedule.run(60)
        for races, count in schedule.found.items():
            counts[races] += count
    assert min(counts.values()) > 500, counts


# --- in kernels

LANES = 96
MACHINE = ptx_machine(LANES)


@dataclass
class Role:
    """Subgroups that go the same ways, and what they do in turn."""

    subgroups: range
    acts: list[tuple[str, int, int]] = field(default_factory=list)
    """An access, an instance and a word; or how to come to a barrier, its number and count."""


def random_roles(chosen: random.Random) -> list[Role]:
    """Roles whose accesses have meetings between, at new barriers and at those of before."""
    ends = chosen.choice([(0, 1, 2, 3), (0, 1, 3), (0, 2, 3)])
    roles = [Role(range(first, end)) for first, end in pairwise(ends)]
    meetings: list[list[Role]] = []
    for _ in range(chosen.randint(3, 7)):
        for role in roles:
            for _ in range(chosen.choice([0, 0, 0, 1, 2])):
                lane = 32 * chosen.choice(role.subgroups) + chosen.randrange(2)
                access = chosen.choice(["load", "load", "store", "atomic"])
                role.acts.append((access, lane, chosen.randrange(WORDS)))
        if not meetings or chosen.random() < 0.9:
            meetings.append(chosen.sample(roles, chosen.randint(2, len(roles))))
        number, met = chosen.choice([*enumerate(meetings, 1)])
        count = 32 * sum(len(role.subgroups) for role in met)
        for arrives, role in enumerate(chosen.sample(met, len(met))):
            waiting = not arrives or chosen.random() < 0.6
            role.acts.append(("wait" if waiting else "arrive", number, count))
    return roles


def is_wrong(roles: list[Role]) -> bool:
    """Return whether unordered accesses or meetings of one barrier conflict, in every schedule."""
    groups = [list(range(32 * number, 32 * number + 32)) for number in range(3)]
    reference = Reference(groups)
    remaining = {number: list(role.acts) for number, role in enumerate(roles)}
    here: dict[int, dict[int, bool]] = {}
    while any(remaining.values()):
        waiting = {each for come in here.values() for each, waits in come.items() if waits}
        ready = next(each for each, acts in remaining.items() if acts and each not in waiting)
        what, first, second = remaining[ready].pop(0)
        if what in CONFLICTS:
            if reference.races(first, second, CONFLICTS[what], reference.known[first]):
                return True
            reference.add(what, first, second)
            continue
        come = here.setdefault(first, {})
        if ready in come:
            return True
        come[ready] = what == "wait"
        for group in roles[ready].subgroups:
            if not reference.come(first, group):
                return True
        if sum(32 * len(roles[each].subgroups) for each in come) == second:
            del here[first]
            waited = [each for each, waits in come.items() if waits]
            reference.meet(first, [group for each in waited for group in roles[each].subgroups])
    return False


def act(k: Builder, room: Value, x: Value, act: tuple[str, int, int], stored: int) -> None:
    what, first, second = act
    if what == "wait":
        k.named_barrier(first, second)
    elif what == "arrive":
        k.named_barrier_arrive(first, second)
    else:
        with k.if_(k.local_id() == first):
            if what == "load":
                x[first] = room[second]
            elif what == "store":
                room[second] = k.constant(stored, u32)
            else:
                k.atomic_add(room, second, 1)


def traced(roles: list[Role]) -> Kernel:
    def made(k: Builder, x: Pointer[U32]) -> None:
        room, subgroup = k.shared(u32, LANES), k.local_id() // 32
        room[k.local_id()] = k.constant(0, u32)
        k.barrier()
        for number, role in enumerate(roles, 1):
            subgroups = role.subgroups
            with k.if_((subgroup >= subgroups.start) & (subgroup < subgroups.stop)):
                for position, each in enumerate(role.acts, 1):
                    # No store leaves what is there, sums of ones included.
                    act(k, room, x, each, 1000 * (100 * number + position))

    return kernel(made).trace(MACHINE)


def test_random_kernels() -> None:
    """Both interpreters reject exactly the incorrect kernels."""
    counts = {True: 0, False: 0}
    for seed in range(40):
        roles = random_roles(random.Random(seed))
        traced_kernel, wrong = traced(roles), is_wrong(roles)
        counts[wrong] += 1
        words = np.zeros(LANES, np.uint32)
        with expected(wrong):
            interpret(traced_kernel, 1, [words])
        with expected(wrong):
            interpret_ptx(ptx.emit(traced_kernel, MACHINE), 1, [words])
    assert min(counts.values()) > 9, counts
