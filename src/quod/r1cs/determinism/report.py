"""The determinism check: a verdict for each target of a system, with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import inf
from time import monotonic
from typing import Literal

from quod.errors import InputError
from quod.formats.wtns import Witness
from quod.frozen import frozen
from quod.r1cs.determinism.arguments.comparisons import run_comparisons
from quod.r1cs.determinism.arguments.denominators import find_denominators
from quod.r1cs.determinism.arguments.one_hot import run_one_hot
from quod.r1cs.determinism.arguments.points import find_points
from quod.r1cs.determinism.certificate_checker import check_certificate
from quod.r1cs.determinism.cores import Core, cores_of, eliminate
from quod.r1cs.determinism.counterexample import pair_lines, witnesses_of
from quod.r1cs.determinism.findings import findings_of
from quod.r1cs.determinism.lemmas import MIN_ROWS, LemmaPropagation
from quod.r1cs.determinism.lints import Finding
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation, TimeIsUp
from quod.r1cs.determinism.rows import Rows, check_witness
from quod.r1cs.determinism.rules import Lemma, Step
from quod.r1cs.determinism.search.pairs import Pair, Search
from quod.validation import shown
from quod.wording import counted

UNIQUE: Literal["unique"] = "unique"
AMBIGUOUS: Literal["ambiguous"] = "ambiguous"
UNKNOWN: Literal["unknown"] = "unknown"
Kind = Literal["unique", "ambiguous", "unknown"]

Progress = Callable[[str], None]


@frozen(eq=False)
class Verdict:
    """The verdict on one target.

    wire, name: the target.
    kind: `unique`, `ambiguous` or `unknown`.
    values: its two values in the counterexample, if it is ambiguous.
    core: the constraints of the core that contains it, unless it is unique.
    nearest: the names of some signals in its constraints that are not unique either, if it is
        unknown.
    """

    wire: int
    name: str
    kind: Kind
    values: tuple[int, int] | None = None
    core: tuple[int, ...] = ()
    nearest: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.values is not None:
            return f"{self.name}: ambiguous, {self.values[0]} or {self.values[1]}"
        if self.kind == UNKNOWN:
            if not self.core:
                return f"{self.name}: unknown"
            size = counted(len(self.core), "connected constraint")
            text = f"{self.name}: unknown, in a group of {size}"
            if self.nearest:
                text += f"; not shown to be unique either: {', '.join(self.nearest)}"
            return text
        return f"{self.name}: {self.kind}"


@frozen(eq=False)
class Report:
    """The result of a check.

    verdicts: one for each target.
    certificate: the steps that prove the unique targets; the checker has replayed them.
    lemmas: those that steps refer to.
    findings: likely mistakes, with their reasons.
    has_all_findings: False if there may be others, as the system is large or the time was up.
    pairs: counterexamples by the ambiguous target.
    timed_out: whether the time limit ended the check.
    error: the reason why there are no targets, if nothing was decided.
    """

    rows: Rows
    verdicts: tuple[Verdict, ...]
    certificate: tuple[Step, ...]
    pairs: dict[int, Pair]
    timed_out: bool
    seconds: float
    lemmas: tuple[Lemma, ...] = ()
    findings: tuple[Finding, ...] = ()
    has_all_findings: bool = True
    error: str = ""

    def __str__(self) -> str:
        lines = [line for verdict in self.verdicts for line in self.lines_of(verdict)]
        lines += [f"finding: {finding}" for finding in self.findings]
        return "\n".join(lines) if lines else "no targets, so nothing is decided; no findings"

    def __repr__(self) -> str:
        kinds = (UNIQUE, AMBIGUOUS, UNKNOWN)
        counts = [f"{len(self.of_kind(kind))} {kind}" for kind in kinds if self.of_kind(kind)]
        findings = counted(len(self.findings), "finding")
        return f"<Report: {', '.join(counts) or 'no targets'}; {findings}>"

    def lines_of(self, verdict: Verdict) -> list[str]:
        """Return a verdict as text, if it is ambiguous with the inputs and signals that differ."""
        pair = self.pairs.get(verdict.wire)
        if pair is None:
            return [str(verdict)]
        return [
            str(verdict),
            *(f"  {line}" for line in pair_lines(self.rows, pair, verdict.wire)),
        ]

    def witnesses(self, target: str | None = None) -> tuple[Witness, Witness]:
        """Return two witnesses with equal inputs in which an ambiguous target differs.

        target: its name; by default that of the first ambiguous target.
        Raises InputError if no such target is ambiguous.
        """
        for verdict in self.of_kind(AMBIGUOUS):
            if target in (None, verdict.name):
                return witnesses_of(self.pairs[verdict.wire], self.rows.curve)
        raise InputError(
            "no target is ambiguous"
            if target is None
            else f"{target!r} is no ambiguous target of this check"
        )

    def of_kind(self, kind: Kind) -> list[Verdict]:
        """Return the verdicts of one kind."""
        return [verdict for verdict in self.verdicts if verdict.kind == kind]

    @property
    def is_unique(self) -> bool:
        """True if there are targets, and every one is unique."""
        return bool(self.verdicts) and all(verdict.kind == UNIQUE for verdict in self.verdicts)


def empty_report(rows: Rows, reason: str) -> Report:
    """Return the report of a check that decides nothing, and why."""
    return Report(rows, (), (), {}, False, 0.0, has_all_findings=False, error=reason)


def check(
    rows: Rows, *, witness: Sequence[int] | None = None, seconds: float = 60.0, seed: int = 0,
    progress: Progress = lambda text: None,
) -> Report:  # fmt: skip
    """Decide for each target whether the inputs determine it.

    witness: the values of all wires of a witness, from which the search starts.
    Targets that no rule and no search decides within the time limit are `unknown`. If the source
    has inputs without a wire, no target is `ambiguous`. Raises InputError if the witness does not
    satisfy a constraint, and for a time limit that is negative or infinite.
    """
    if type(seconds) not in {int, float} or not 0 <= seconds < inf:
        raise InputError(f"the time limit must be 0 seconds or more, not {shown(seconds)}")
    begin = monotonic()
    deadline = begin + seconds
    if witness is not None:
        check_witness(rows, witness)
    progress(f"reading {counted(rows.count, 'constraint')}")
    if rows.count >= MIN_ROWS and (report := _check_with_lemmas(rows, begin, seconds, progress)):
        return report
    form = NormalForm(rows)
    facts = _Facts(rows, form, deadline)
    progress("deriving signals from the inputs")
    timed_out = is_interrupted = False
    try:
        propagate(facts, deadline)
    except TimeIsUp:
        timed_out = is_interrupted = True
    progress(f"checking a proof of {counted(len(facts.steps), 'step')}")
    determined = check_certificate(rows, form, facts.steps)
    core_of: dict[int, tuple[int, ...]] = {}
    pairs: dict[int, Pair] = {}
    undecided = {wire for wire in rows.targets if not determined[wire]}
    if undecided and not timed_out:
        cores = [core for core in cores_of(facts) if not undecided.isdisjoint(core.nodes)]
        search = Search(facts, deadline, seed, witnesses=[] if witness is None else [witness])
        for number, core in enumerate(cores):
            core_rows = tuple(core.rows(facts))
            progress(
                f"searching for two witnesses in {counted(len(core_rows), 'constraint')}, part "
                f"{number + 1} of {len(cores)}"
            )
            core_of.update(dict.fromkeys(core.nodes, core_rows))
            if not rows.lost_inputs:
                _search(search, core, undecided, pairs)
        timed_out = monotonic() > deadline
    open_wires = {wire for wire in range(1, rows.wires) if not determined[wire]}
    neighbours = _neighbours(rows, undecided - pairs.keys(), core_of, open_wires)
    verdicts = [
        _verdict(
            rows, wire, bool(determined[wire]), pairs.get(wire), core_of.get(wire, ()),
            neighbours.get(wire, ()),
        )
        for wire in rows.targets
    ]  # fmt: skip
    certificate = tuple(facts.steps)
    findings, has_all = _findings(rows, None if is_interrupted else facts, deadline, progress)
    return Report(
        rows, tuple(verdicts), certificate, pairs, timed_out, monotonic() - begin, (), findings,
        has_all,
    )  # fmt: skip


def counterexample(
    rows: Rows, *, witnesses: Sequence[Sequence[int]] = (), seconds: float = 60.0, seed: int = 0
) -> Pair | None:
    """Search for two witnesses with equal inputs and different targets, and prove nothing.

    This takes less time than `check`, whose verdicts it does not replace: None is no verdict.
    witnesses: each the values of all wires; the search starts from them. Raises InputError if one
        does not satisfy a constraint.
    """
    deadline = monotonic() + seconds
    for witness in witnesses:
        check_witness(rows, witness)
    facts = Propagation(rows, NormalForm(rows), deadline)
    try:
        facts.run()
    except TimeIsUp:
        return None
    search = Search(facts, deadline, seed, witnesses=witnesses)
    for core in cores_of(facts):
        targets = sorted({*rows.targets}.intersection(core.nodes))
        if targets and (pair := search.pair(core, targets)) is not None:
            return pair
    return None


class _Facts(Propagation):
    """Propagation that goes on for findings, once the targets are decided."""

    _is_for_findings = False

    def are_targets_determined(self) -> bool:
        return not self._is_for_findings and super().are_targets_determined()

    def complete(self, deadline: float) -> bool:
        """Derive all facts; return False if the system is too large, or the time is up."""
        if not self.are_targets_determined():
            return True
        if self.rows.count > _MAX_FINDING_ROWS:
            return False
        self._is_for_findings = True
        try:
            propagate(self, deadline)
        except TimeIsUp:
            return False
        return True


_MAX_FINDING_ROWS = 50_000
"""The number of rows up to which propagation goes on for findings; it takes as long as the check
of a system with lemmas."""


def _findings(
    rows: Rows, facts: _Facts | None, deadline: float, progress: Progress
) -> tuple[tuple[Finding, ...], bool]:
    """Return the findings, and whether they are all; without facts they are not."""
    progress("looking for likely mistakes")
    is_complete = facts is not None and facts.complete(deadline)
    return tuple(findings_of(rows, facts if is_complete else None)), is_complete


def _check_with_lemmas(
    rows: Rows, begin: float, seconds: float, progress: Progress
) -> Report | None:
    """Return the report of a system in which lemmas prove that all targets are unique, or None."""
    propagation = LemmaPropagation(rows, begin + _LEMMA_SHARE * seconds, propagate)
    if not propagation.is_worthwhile:
        return None
    progress(f"deriving signals in {counted(len(propagation.blocks), 'repeated block')}")
    try:
        facts = propagation.run()
    except TimeIsUp:
        return None
    if not facts.are_targets_determined():
        return None
    progress(f"checking {len(propagation.lemmas)} lemmas and {len(facts.steps)} steps")
    determined = check_certificate(rows, propagation.form, facts.steps, propagation.lemmas)
    verdicts = [_verdict(rows, wire, bool(determined[wire]), None, ()) for wire in rows.targets]
    deadline = begin + seconds
    # Lemmas say nothing about the wires within their occurrences.
    is_small = rows.count <= _MAX_FINDING_ROWS
    all_facts = _Facts(rows, NormalForm(rows), deadline) if is_small else None
    findings, has_all = _findings(rows, all_facts, deadline, progress)
    return Report(
        rows, tuple(verdicts), tuple(facts.steps), {}, False, monotonic() - begin,
        tuple(propagation.lemmas), findings, has_all,
    )  # fmt: skip


_LEMMA_SHARE = 0.5
"""The share of the time limit within which lemmas must prove all targets to be unique."""


def propagate(facts: Propagation, deadline: float) -> None:
    """Propagate, and eliminate the linear parts of cores, until no target can be determined."""
    facts.run()
    progress = True
    while progress and not facts.are_targets_determined():
        run_one_hot(facts)
        find_denominators(facts)
        run_comparisons(facts)
        if progress := find_points(facts):
            continue
        for core in cores_of(facts):
            if monotonic() > deadline:
                raise TimeIsUp
            progress |= eliminate(facts, core)


def _search(search: Search, core: Core, undecided: set[int], pairs: dict[int, Pair]) -> None:
    """Add counterexamples for targets of a core, until none of them has one."""
    targets = sorted(undecided.intersection(core.nodes))
    while targets:
        pair = search.pair(core, targets)
        if pair is None:
            return
        ambiguous = [wire for wire in targets if pair.first[wire] != pair.second[wire]]
        pairs.update(dict.fromkeys(ambiguous, pair))
        targets = [wire for wire in targets if wire not in pairs]


def _verdict(
    rows: Rows, wire: int, is_unique: bool, pair: Pair | None, core: Sequence[int],
    neighbours: Iterable[int] = (),
) -> Verdict:  # fmt: skip
    name = rows.name(wire)
    if is_unique:
        return Verdict(wire, name, UNIQUE)
    if pair is not None:
        values = pair.first[wire], pair.second[wire]
        return Verdict(wire, name, AMBIGUOUS, values, tuple(core))
    nearest = tuple(map(rows.name, islice(neighbours, _MAX_NEAREST)))
    return Verdict(wire, name, UNKNOWN, None, tuple(core), nearest)


_MAX_NEAREST = 4


def _neighbours(
    rows: Rows, targets: set[int], core_of: dict[int, tuple[int, ...]], open_wires: set[int]
) -> dict[int, dict[int, None]]:  # fmt: skip
    """Return the open wires that share a constraint with each target, in order."""
    neighbours: dict[int, dict[int, None]] = {wire: {} for wire in targets}
    for row in sorted({row for wire in targets for row in core_of.get(wire, ())}):
        wires = sorted(rows.wires_of(row) & open_wires)
        for wire in wires:
            if wire in neighbours and len(neighbours[wire]) < _MAX_NEAREST:
                neighbours[wire].update(dict.fromkeys(each for each in wires if each != wire))
    return neighbours
