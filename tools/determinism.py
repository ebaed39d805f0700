"""Table of the verdicts of `quod r1cs check` for every .r1cs file of a folder.

A circuit is decided if all of its outputs are unique or at least one is ambiguous. A circuit
without outputs has nothing to decide; it is counted separately. Run it with circomlib's templates,
compiled one a file: `python -m tools.determinism FOLDER --time 60`. With `--copies N` each
circuit is a system of N copies, which measures the check of repeated constraints.

`python -m tools.determinism --removed` removes each constraint of each of Quod's gadgets instead,
of large ones `--sample` random constraints, and counts the verdicts; the last column has the
numbers of the first unknown ones. See
`tests.r1cs.determinism.removal.verdict_without`. Names select gadgets.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import process_time
from typing import NamedTuple

from quod.formats import R1cs
from quod.r1cs.determinism.report import AMBIGUOUS, UNKNOWN, check
from quod.r1cs.determinism.rows import Matrix, Rows
from quod.r1cs.determinism.sources import rows_of_file
from tests.r1cs.determinism.all_gadgets import GADGETS, gadget_rows, gadget_witnesses
from tests.r1cs.determinism.removal import NEEDED, REDUNDANT, verdict_without

NO_OUTPUTS = "no outputs"
_WITNESSES = 6
"""The number of witnesses of a gadget from which searches start."""


class Result(NamedTuple):
    """The verdict of a circuit: unique, ambiguous, unknown or no outputs; its targets by kind."""

    name: str
    constraints: int
    verdict: str
    targets: Counter[str]
    seconds: float


def result_of(path: Path, seconds: float, copies: int = 1) -> Result:
    """Check the outputs of a file within a time limit; `seconds` of the result is CPU time."""
    begin = process_time()
    rows = repeated(rows_of_file(R1cs.open(path, any_prime=True)), copies)
    verdicts = check(rows, seconds=seconds).verdicts
    targets = Counter[str](verdict.kind for verdict in verdicts)
    kinds = [kind for kind in (AMBIGUOUS, UNKNOWN) if targets[kind]]
    verdict = kinds[0] if kinds else "unique" if targets else NO_OUTPUTS
    return Result(path.stem, rows.count, verdict, targets, process_time() - begin)


def repeated(rows: Rows, count: int) -> Rows:
    """Return a system of independent copies of another one."""
    step = rows.wires - 1

    def moved(wires: Iterable[int]) -> list[int]:
        fixed = list(wires)
        return [wire + copy * step if wire else 0 for copy in range(count) for wire in fixed]

    a, b, c = (
        Matrix(
            [end + copy * len(each.wires) for copy in range(count) for end in each.ends],
            moved(each.wires), list(each.coefficients) * count,
        )
        for each in rows.matrices
    )  # fmt: skip
    return Rows(
        rows.prime, 1 + count * step, (a, b, c), frozenset(moved(rows.inputs)),
        tuple(moved(rows.targets)), rows.name, rows.place, rows.lost_inputs * count,
    )  # fmt: skip


def summary(results: Sequence[Result]) -> str:
    """Return the share of decided circuits among those with outputs."""
    counts = Counter(result.verdict for result in results)
    decided = counts["unique"] + counts[AMBIGUOUS]
    asked = len(results) - counts[NO_OUTPUTS]
    texts = [f"{count} {verdict}" for verdict, count in sorted(counts.items())]
    share = f"{100 * decided / asked:.1f} %" if asked else "none"
    return f"{len(results)} circuits: {', '.join(texts)}; decided {decided} of {asked}: {share}"


def print_removals(names: Sequence[str], seconds: float, sample: int) -> Counter[str]:
    """Print the verdicts about gadgets without each constraint; return their counts."""
    total = Counter[str]()
    kinds = (AMBIGUOUS, NEEDED, REDUNDANT, UNKNOWN)
    print(f"| gadget | constraints | removed | {' | '.join(kinds)} | CPU s | first |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names or GADGETS:
        begin = process_time()
        rows = gadget_rows(name)
        count = rows.count - len(rows.targets)
        removed = sorted(random.Random(1).sample(range(count), min(sample, count)))
        witnesses = gadget_witnesses(name, _WITNESSES)
        verdicts = {row: verdict_without(rows, row, seconds, witnesses) for row in removed}
        counts = Counter(verdicts.values())
        total += counts
        unknown = [str(row) for row, verdict in verdicts.items() if verdict == UNKNOWN]
        columns = [f"{counts[kind]:,}" for kind in kinds]
        print(
            f"| {name} | {count:,} | {len(removed):,} | {' | '.join(columns)} | "
            f"{process_time() - begin:.1f} | {' '.join(unknown[:10])} |",
            flush=True,
        )
    decided = total.total() - total[UNKNOWN]
    counts_text = ", ".join(f"{total[kind]:,} {kind}" for kind in kinds)
    print(
        f"{total.total():,} removed: {counts_text}; decided {100 * decided / total.total():.1f} %"
    )
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="a folder with subfolders; or gadgets")
    parser.add_argument("--removed", action="store_true", help="remove constraints of gadgets")
    parser.add_argument("--sample", type=int, default=100, help="constraints of each gadget")
    parser.add_argument("--time", type=float, default=60.0, help="seconds for each circuit")
    parser.add_argument("--copies", type=int, default=1, help="copies of each circuit")
    parser.add_argument("--undecided", action="store_true", help="print only unknown circuits")
    options = parser.parse_args(arguments)
    if options.copies < 1:
        parser.error("--copies needs a number from 1 on")
    if options.removed:
        if unknown := set(options.names) - GADGETS.keys():
            parser.error(f"no gadget is {min(unknown)!r}; choose from {', '.join(GADGETS)}")
        print_removals(options.names, options.time, options.sample)
        return
    if len(options.names) != 1:
        parser.error("give one folder")
    results = []
    print("| circuit | constraints | verdict | unique | ambiguous | unknown | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(Path(options.names[0]).rglob("*.r1cs")):
        result = result_of(path, options.time, options.copies)
        results.append(result)
        if not options.undecided or result.verdict == UNKNOWN:
            columns = [str(result.targets[kind]) for kind in ("unique", AMBIGUOUS, UNKNOWN)]
            print(
                f"| {result.name} | {result.constraints:,} | {result.verdict} | "
                f"{' | '.join(columns)} | {result.seconds:.2f} |",
                flush=True,
            )
    print(summary(results))


if __name__ == "__main__":
    main()
