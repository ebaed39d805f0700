"""Mutants of executed statements, and the comparison of two suites by the mutants they kill."""

from __future__ import annotations

import ast
import itertools
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from tools.mutants.candidates import Candidate, places_of
from tools.mutants.mutations import choose
from tools.mutants.record import Record
from tools.mutants.tree_copy import KILLED, SURVIVED, TIMEOUT, TreeCopy, Verdict

_STAGES = (20, 100)
"""Tests of the first pytest runs of a mutant, the quickest ones; the last run has all others."""

_LONGEST = 60


@dataclass(frozen=True)
class Suite:
    """A test suite: its name in the table, its tree and its record."""

    name: str
    tree: Path
    record: Record


@dataclass(frozen=True)
class Mutant:
    """A change of one candidate in one tree: the rule, both texts and the changed file."""

    number: int
    place: Candidate
    rule: str
    before: str
    after: str
    source: str


@dataclass(frozen=True)
class Result:
    """The outcome of a suite's tests for a mutant.

    `of` is the number of tests that run the statement; see `Verdict` for the other fields.
    """

    suite: str
    path: str
    line: int
    rule: str
    after: str
    outcome: str
    test: str
    ran: int
    of: int
    seconds: float

    @property
    def is_kill(self) -> bool:
        """Return whether the suite detects the mutant."""
        return self.outcome in (KILLED, TIMEOUT)


@dataclass(frozen=True)
class Choice:
    """The mutants to compare, one row a candidate, and the lines that a suite's tree lacks."""

    mutants: list[list[Mutant]]
    absent: list[Candidate]


def choose_mutants(suites: Sequence[Suite], count: int, seed: int) -> Choice:
    """Mutate the first candidates that a test of the first suite runs and that all trees have."""
    mutants: list[list[Mutant]] = []
    absent = []
    first = suites[0].record
    for number, candidate in enumerate(first.candidates):
        if len(mutants) == count:
            break
        if not first.killers(number):
            continue
        places = [suite.record.places[number] for suite in suites]
        if None in places:
            absent.append(candidate)
            continue
        mutants.append(
            [mutant_of(suite.tree, number, place, seed) for suite, place in zip(suites, places)
             if place is not None]
        )  # fmt: skip
    return Choice(mutants, absent)


def mutant_of(tree: Path, number: int, place: Candidate, seed: int) -> Mutant:
    """Mutate a candidate; the change follows from the seed, the statement and its function."""
    _, places = places_of(tree, Path(place.path))
    # The normal form of a statement may differ from one version of Python to the next.
    at = (place.line, place.text)
    statement = next(
        (row.statement for row in places if (row.candidate.line, row.candidate.text) == at), None
    )
    if statement is None:
        raise ValueError(f"{tree} is not the recorded tree: {place.path}:{place.line} differs")
    mutation = choose(statement, Random(f"{seed} {place.function} {place.statement}"))
    original = (tree / place.path).read_text()
    source = mutation.apply(original)
    compile(source, place.path, "exec", dont_inherit=True)
    before = ast.get_source_segment(original, mutation.node) or place.text
    return Mutant(number, place, mutation.rule, " ".join(before.split()), mutation.text, source)


class Runner:
    """The runs of one job: two copies of each tree, and the results of tests without a mutant."""

    def __init__(self, suites: Sequence[Suite], limit: float, *, whole_files: bool) -> None:
        self._copies = {suite.name: TreeCopy(suite.tree) for suite in suites}
        self._originals = {suite.name: TreeCopy(suite.tree) for suite in suites}
        self._limit = limit
        self._whole_files = whole_files
        self._passes: dict[tuple[str, str], bool] = {}

    def close(self) -> None:
        """Remove the copies."""
        for copy in (*self._copies.values(), *self._originals.values()):
            copy.close()

    def run(self, suite: Suite, mutant: Mutant) -> Result:
        """Run the tests of a mutant, the quickest first, for as long as the limit allows."""
        begin = time.monotonic()
        recorded = suite.record.tests
        tests = suite.record.killers(mutant.number)
        if self._whole_files:
            tests = tests + suite.record.others_of_files(tests)
        with self._copies[suite.name].changed(mutant.place.path, mutant.source):
            verdict = self._judge(suite.name, {name: recorded[name].seconds for name in tests})
        seconds = round(time.monotonic() - begin, 1)
        return Result(
            suite.name, mutant.place.path, mutant.place.line, mutant.rule, mutant.after,
            verdict.outcome, verdict.test, verdict.ran, len(tests), seconds,
        )  # fmt: skip

    def _judge(self, suite: str, tests: Mapping[str, float]) -> Verdict:
        """Run tests in stages; a failure counts if the original passes that test here."""
        remaining, ran, waiting = self._limit, 0, dict(tests)
        stages = iter(_STAGES)
        size = next(stages)
        while waiting and remaining > 0:
            stage = dict(itertools.islice(waiting.items(), size))
            begin = time.monotonic()
            verdict = self._copies[suite].test(stage, remaining)
            remaining -= time.monotonic() - begin
            if verdict.outcome == SURVIVED:
                ran += verdict.ran
                waiting = {name: waiting[name] for name in waiting if name not in stage}
                size = next(stages, len(waiting))
            elif self._original_passes(suite, verdict.test, stage):
                return Verdict(verdict.outcome, verdict.test, ran + verdict.ran)
            elif verdict.test:
                del waiting[verdict.test]
            else:
                raise RuntimeError(f"the tests of the {suite} suite do not start: {list(stage)}")
        return Verdict(SURVIVED, ran=ran)

    def _original_passes(self, suite: str, test: str, stage: Mapping[str, float]) -> bool:
        original = self._originals[suite]
        if not test:
            return original.collects(list(stage), self._limit)
        key = (suite, test)
        if key not in self._passes:
            verdict = original.test({test: stage[test]}, self._limit)
            self._passes[key] = verdict == Verdict(SURVIVED, ran=1)
        return self._passes[key]


class Results:
    """The results so far, in a file that gets a JSON line for each at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str, int, str], Result] = {}
        if path.exists():
            # A line may be cut off where a run was killed.
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    self._keep(Result(**json.loads(line)))

    def find(self, suite: Suite, mutant: Mutant) -> Result | None:
        """Return the result of a mutant with a suite, None if there is none yet."""
        return self._rows.get((suite.name, mutant.place.path, mutant.place.line, mutant.after))

    def add(self, result: Result) -> None:
        """Keep a result, on disk as well."""
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
            self._keep(result)

    def _keep(self, row: Result) -> None:
        self._rows[row.suite, row.path, row.line, row.after] = row


def run_all(
    suites: Sequence[Suite], choice: Choice, results: Results, jobs: int, limit: float,
    *, whole_files: bool,
) -> None:  # fmt: skip
    """Run the tests of all mutants that have no result yet, several at a time."""
    work: queue.SimpleQueue[tuple[Suite, Mutant]] = queue.SimpleQueue()
    for row in choice.mutants:
        for suite, mutant in zip(suites, row):
            if results.find(suite, mutant) is None:
                work.put((suite, mutant))

    def job() -> None:
        runner = Runner(suites, limit, whole_files=whole_files)
        try:
            while True:
                suite, mutant = work.get_nowait()
                result = runner.run(suite, mutant)
                results.add(result)
                print(f"{result.suite:4} {_where(mutant)}: {_outcome_text(result)}", flush=True)
        except queue.Empty:
            pass
        finally:
            runner.close()

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(job) for _ in range(min(jobs, work.qsize()))]
        try:
            for future in futures:
                future.result()
        except BaseException:
            # The jobs end after their present mutants.
            with suppress(queue.Empty):
                while True:
                    work.get_nowait()
            raise


def table(suites: Sequence[Suite], choice: Choice, results: Results) -> tuple[list[str], bool]:
    """Return the lines of the table, and whether a later suite misses what the first one kills."""
    names = [suite.name for suite in suites]
    lines = [
        "| statement | mutation | " + " | ".join(names) + " |",
        "|---" * (2 + len(names)) + "|",
    ]
    kills, timeouts, missed = Counter[str](), Counter[str](), 0
    for row in choice.mutants:
        cells = [results.find(suite, mutant) for suite, mutant in zip(suites, row)]
        first = row[0]
        change = f"{first.rule}: {_code(first.before)} to {_code(first.after)}"
        lines.append(
            f"| {_where(first)} | {change} | "
            + " | ".join("not run" if cell is None else _outcome_text(cell) for cell in cells)
            + " |"
        )
        for name, cell in zip(names, cells):
            kills[name] += cell is not None and cell.is_kill
            timeouts[name] += cell is not None and cell.outcome == TIMEOUT
        detected = [cell is not None and cell.is_kill for cell in cells]
        missed += detected[0] and not all(detected)
    lines += [f"Absent in a tree, replaced by the next: {row.path}:{row.line} {row.text}"
              for row in choice.absent]  # fmt: skip
    counts = "; ".join(
        f"{name} kills {kills[name]}, {timeouts[name]} of them by timeout" for name in names
    )
    closing = f"{len(choice.mutants)} mutants, {len(choice.absent)} absent: {counts}"
    if len(names) > 1:
        closing += f"; {names[1]} misses {missed} that {names[0]} kills"
    return [*lines, closing], missed > 0


def _where(mutant: Mutant) -> str:
    return f"{mutant.place.path}:{mutant.place.line}"


def _outcome_text(result: Result) -> str:
    if not result.is_kill:
        return f"survives {result.ran} of {result.of} tests"
    how = "killed by timeout" if result.outcome == TIMEOUT else "killed"
    return f"{how}: {result.test or 'the tests do not start'}"


def _code(text: str) -> str:
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    return f"`{text}`".replace("|", "\\|")
