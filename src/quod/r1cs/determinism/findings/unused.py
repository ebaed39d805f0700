"""Findings from the constraint graph: signals without effect, and signals without an input."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from quod.r1cs.determinism.findings.kinds import FREE, UNUSED, UNUSED_PUBLIC
from quod.r1cs.determinism.findings.names import listed
from quod.r1cs.determinism.findings.projection import Occurrences, Projection
from quod.r1cs.determinism.lints import Finding
from quod.r1cs.determinism.rows import Rows


def graph_findings(
    rows: Rows, occurrences: Occurrences, undetermined: Collection[int],
    reported: Collection[int] = (),
) -> Iterator[Finding]:  # fmt: skip
    """Yield signals that no input limits, then inputs and other signals without effect.

    undetermined: the wires that the inputs may leave undetermined, as far as that is known.
    reported: wires that other findings are about.
    """
    outputs = _outputs(rows)
    free = set[int]()
    if not rows.lost_inputs:
        tied = Projection(rows, occurrences, rows.inputs, first=outputs)
        removed = set(tied.removed.values())
        free = {
            wire
            for wire in range(1, rows.wires)
            if not tied.counts[wire] and wire not in removed and wire not in rows.inputs
        }
    used = Projection(rows, occurrences, {*rows.inputs, *outputs, *free}, spared=outputs)
    explained = set(reported)
    if not rows.lost_inputs:
        effective = {wire for wire in free if used.counts[wire] or wire in outputs}
        yield from _free_wires(rows, sorted(effective.difference(reported)))
        explained |= effective
        if undetermined:
            yield from _free_sets(rows, tied, {*undetermined} - free, explained)
    yield from _unused(rows, occurrences, used, outputs, explained)


def _outputs(rows: Rows) -> set[int]:
    """Return the outputs of a system, and its targets unless these are all wires."""
    asks_all = len(rows.targets) + len(rows.inputs) == rows.wires - 1
    return {*rows.public, *(() if asks_all else rows.targets)} - rows.inputs


def _free_wires(rows: Rows, wires: list[int]) -> Iterator[Finding]:
    """Yield signals that may have any value."""
    if wires:
        row = next((row for row in range(rows.count) if wires[0] in rows.wires_of(row)), None)
        reason = f"may have any value, whatever the inputs are{_FITTING if row is not None else ''}"
        place = "" if row is None else f"; {rows.place(row)}"
        yield Finding(FREE, f"{listed(rows, wires)} {reason}{place}")


_FITTING = ": other signals can be chosen to fit"


def _free_sets(
    rows: Rows, tied: Projection, undetermined: set[int], explained: set[int]
) -> Iterator[Finding]:  # fmt: skip
    """Yield sets of undetermined signals that constraints connect with each other alone.

    explained: wires that findings are about; those of the sets are added.
    """
    rows_of: dict[int, list[int]] = {}
    for row in range(rows.count):
        if row not in tied.removed:
            for wire in rows.wires_of(row) & undetermined:
                rows_of.setdefault(wire, []).append(row)
    sets = Sets()
    is_seen, free = set[int](), set[int]()
    for start in sorted(rows_of):
        if start in is_seen:
            continue
        is_seen.add(start)
        wires, is_connected = [start], False
        for wire in wires:
            for row in rows_of[wire]:
                others = rows.wires_of(row)
                is_connected |= not others <= undetermined
                fresh = (others & undetermined) - is_seen
                is_seen |= fresh
                wires += fresh
        if not is_connected:
            free.update(wires)
            sets.merge([_INDEX.sub("", rows.name(start)), *wires])
    # A removed constraint connects sets, as it determines a signal from them.
    for row, wire in reversed(tied.removed.items()) if free else ():
        others = rows.wires_of(row) - {wire}
        if members := others & free:
            if others == members:
                free.add(wire)
                members.add(wire)
            sets.merge(members)
    for wires in sets.groups(sorted(free)):
        if not explained.issuperset(wires):
            explained.update(wires)
            values = "a value of its own" if len(wires) == 1 else "values of their own"
            place = rows.place(next(rows_of[wire][0] for wire in wires if wire in rows_of))
            reason = f"may have {values}, whatever the inputs are{_FITTING}"
            yield Finding(FREE, f"{listed(rows, wires)} {reason}; {place}")


def _unused(
    rows: Rows, occurrences: Occurrences, used: Projection, outputs: set[int],
    explained: Collection[int],
) -> Iterator[Finding]:  # fmt: skip
    """Yield public inputs, and then sets of other signals, without effect.

    explained: wires that findings are about; what shares a constraint with them follows from these.
    """
    unused = {
        wire for wire in range(1, rows.wires) if not used.counts[wire] and wire not in outputs
    }
    inputs = unused & rows.inputs
    results = _results(rows, used, inputs)
    for kind, wires in ((UNUSED_PUBLIC, inputs & rows.public), (UNUSED, inputs - rows.public)):
        for wire in sorted(wires & results.keys()):
            reason = f"affects only {listed(rows, results[wire])}, which nothing uses"
            yield Finding(kind, f"{rows.name(wire)} {reason}")
        yield from _absent(rows, kind, sorted(wires - results.keys()))
    results_of_inputs = {wire for wires in results.values() for wire in wires}
    row_of = {wire: row for row, wire in used.removed.items()}
    for group in _groups(rows, used, unused - inputs):
        is_new = not any(
            rows.wires_of(row_of[wire]).intersection(explained) for wire in group if wire in row_of
        )
        if is_new and (len(group) > 1 or results_of_inputs.isdisjoint(group)):
            reason = f"{_verb('has', group)} no effect: no output and no assertion depends on "
            reason += "it" if len(group) == 1 else "them"
            row = next(row_of[wire] for wire in group if wire in row_of)
            yield Finding(UNUSED, f"{listed(rows, group)} {reason}; {rows.place(row)}")
    yield from _absent(
        rows, UNUSED, sorted(wire for wire in unused - inputs if not occurrences.counts[wire])
    )


def _absent(rows: Rows, kind: str, wires: list[int]) -> Iterator[Finding]:
    """Yield wires without a constraint."""
    if wires:
        yield Finding(kind, f"{listed(rows, wires)} {_verb('occurs', wires)} in no constraint")


def _verb(singular: str, wires: Sequence[int]) -> str:
    """Return a verb in the number of its subject."""
    plural = {"has": "have", "occurs": "occur"}
    return singular if len(wires) == 1 else plural[singular]


def _results(rows: Rows, used: Projection, inputs: set[int]) -> dict[int, list[int]]:
    """Return the results of the removed constraints in which each input occurs."""
    results: dict[int, list[int]] = {}
    if inputs:
        for row, result in used.removed.items():
            for wire in rows.wires_of(row) & inputs:
                results.setdefault(wire, []).append(result)
    return results


def _groups(rows: Rows, used: Projection, unused: set[int]) -> list[list[int]]:
    """Return sets of signals that removed constraints connect, or with names but for indices.

    The results that nothing else uses come first.
    """
    sets, ordered = Sets(), dict[int, None]()
    for row, result in used.removed.items():
        wires = [result, *sorted(rows.wires_of(row).intersection(unused) - {result})]
        ordered.update(dict.fromkeys(wires))
        sets.merge([_INDEX.sub("", rows.name(result)), *wires])
    return sets.groups(ordered)


_INDEX = re.compile(r"\[\d+\]| \d+$")


class Sets:
    """Disjoint sets of wires, and of keys that wires have in common."""

    def __init__(self) -> None:
        self._parents: dict[int | str, int | str] = {}

    def _root(self, key: int | str) -> int | str:
        while (parent := self._parents.setdefault(key, key)) != key:
            self._parents[key] = self._parents[parent]
            key = parent
        return key

    def merge(self, keys: Iterable[int | str]) -> None:
        """Merge the sets of some wires and keys."""
        first, *others = keys
        for key in others:
            self._parents[self._root(key)] = self._root(first)

    def groups(self, wires: Iterable[int]) -> list[list[int]]:
        """Return the sets of some wires, in their order."""
        groups: dict[int | str, list[int]] = {}
        for wire in wires:
            groups.setdefault(self._root(wire), []).append(wire)
        return list(groups.values())
