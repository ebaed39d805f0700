"""Propagation with lemmas: repeated parts of a system are proved once.

The system's own propagation has only the rows that no repeated block contains. A block takes the
facts about its interface to the template, whose propagation yields facts about the interface; the
result is a lemma, which other blocks with the same template and the same facts use.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from time import monotonic

from quod.frozen import frozen
from quod.r1cs.determinism.arithmetic import Range
from quod.r1cs.determinism.blocks import Block, repeated_blocks
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation, TimeIsUp
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.rules import Lemma, Rule, Step

MIN_ROWS = 3000
"""The number of rows of the smallest system that is worth the search for blocks."""
_MIN_SHARE = 0.4
"""The share of the rows that blocks must cover."""
_MAX_WORK = 40_000, 0.1
"""The rows of all propagations in templates, and their share of the system's, from which on lemmas
cost more than they save: facts reach the blocks one at a time then."""

_Facts = tuple[bytes, tuple[Range | None, ...]]
Propagate = Callable[[Propagation, float], None]


class LemmaPropagation:
    """Propagation in a system whose repeated blocks are replaced by lemmas.

    propagate: the propagation with all rules.
    lemmas: those that the steps of `facts` use.
    """

    def __init__(self, rows: Rows, deadline: float, propagate: Propagate) -> None:
        self._rows, self._deadline, self._propagate = rows, deadline, propagate
        self.blocks, self._templates = repeated_blocks(rows)
        self.covered = sum(block.core_end - block.first for block in self.blocks)
        self.lemmas: list[Lemma] = []
        self._work = 0
        self._max_work = max(_MAX_WORK[0], _MAX_WORK[1] * rows.count)
        self._forms: dict[int, NormalForm] = {}
        self._results: dict[tuple[int, _Facts, bool], _Result] = {}

    @property
    def is_worthwhile(self) -> bool:
        """True if the blocks cover much of the system."""
        return self.covered >= _MIN_SHARE * self._rows.count

    def run(self) -> Propagation:
        """Propagate; raises TimeIsUp, also if lemmas cost more than they save."""
        is_covered = bytearray(self._rows.count)
        for block in self.blocks:
            is_covered[block.first : block.core_end] = b"\1" * (block.core_end - block.first)
        others = [row for row in range(self._rows.count) if not is_covered[row]]
        self.form = NormalForm(self._rows, others)
        self.facts = Propagation(self._rows, self.form, self._deadline)
        self._blocks_of: dict[int, list[int]] = {}
        for number, block in enumerate(self.blocks):
            for wire in self._templates[block.template].interface:
                self._blocks_of.setdefault(block.wires[wire - 1], []).append(number)
        self.facts.run(derives_ranges=False)
        self._run_blocks(is_thorough=False)
        steps = -1
        while steps < len(self.facts.steps) and not self.facts.are_targets_determined():
            steps = len(self.facts.steps)
            self._propagate(self.facts, self._deadline)
            self._run_blocks(is_thorough=True)
        return self.facts

    def _run_blocks(self, is_thorough: bool) -> None:
        """Use each block, and again each one whose facts have changed."""
        queue = list(range(len(self.blocks)))
        heapify(queue)
        is_queued = bytearray(b"\1" * len(queue))
        applied: dict[int, _Facts] = {}
        self.facts.changed.clear()
        while queue:
            number = heappop(queue)
            is_queued[number] = 0
            block = self.blocks[number]
            facts = self._facts_of(block)
            if applied.get(number) != facts:
                self._use(block, facts, is_thorough)
                # The block itself has nothing to conclude from its conclusions.
                applied[number] = self._facts_of(block)
                self.facts.run(derives_ranges=is_thorough)
            for wire in self.facts.changed:
                for each in self._blocks_of.get(wire, ()):
                    if not is_queued[each]:
                        is_queued[each] = 1
                        heappush(queue, each)
            self.facts.changed.clear()
            if monotonic() > self._deadline or self._work > self._max_work:
                raise TimeIsUp

    def _facts_of(self, block: Block) -> _Facts:
        """Return the facts about the interface of a block."""
        facts = self.facts
        wires = [block.wires[wire - 1] for wire in self._templates[block.template].interface]
        determined = bytes([facts.determined[wire] for wire in wires])
        return determined, tuple([facts.ranges[wire] for wire in wires])

    def _use(self, block: Block, premises: _Facts, is_thorough: bool) -> None:
        """Conclude the facts about the interface of a block that follow from those before."""
        key = block.template, premises, is_thorough
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = self._proved(block.template, premises, is_thorough)
        if result.determined or result.ranges:
            wires = (0, *block.wires)
            number = result.number, result.number
            step = Step(Rule.LEMMA, ((block.first, 1),), block.wires, number)
            self.facts.steps.append(step)
            self.facts.determine([wires[wire] for wire in result.determined])
            self.facts.assume({wires[wire]: bounds for wire, bounds in result.ranges.items()})

    def _proved(self, number: int, premises: _Facts, is_thorough: bool) -> _Result:
        """Propagate in a template; add a lemma if that yields a fact about its interface."""
        template = self._templates[number]
        interface = template.interface
        inputs = [wire for wire, is_input in zip(interface, premises[0]) if is_input]
        bounds = {wire: each for wire, each in zip(interface, premises[1]) if each is not None}
        rows = Rows(
            self._rows.prime, template.wires, template.matrices, frozenset(inputs), interface,
            lambda wire: f"wire {wire}", lambda row: f"constraint {row}",
        )  # fmt: skip
        self._work += rows.count
        form = self._forms.get(number)
        if form is None:
            form = self._forms[number] = NormalForm(rows)
        facts = Propagation(rows, form, self._deadline, bounds)
        if is_thorough:
            self._propagate(facts, self._deadline)
        else:
            facts.run(derives_ranges=False)
        determined = [
            wire
            for wire, is_input in zip(interface, premises[0])
            if facts.determined[wire] and not is_input
        ]
        ranges = {
            wire: each
            for wire in interface
            if (each := facts.ranges[wire]) is not None and each != bounds.get(wire)
        }
        if determined or ranges:
            self.lemmas.append(Lemma(rows, form, bounds, facts.steps))
        return _Result(len(self.lemmas) - 1, determined, ranges)


@frozen(eq=False)
class _Result:
    """A lemma's number, and what it concludes about the interface of its template."""

    number: int
    determined: list[int]
    ranges: dict[int, Range]
