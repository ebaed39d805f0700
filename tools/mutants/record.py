"""Coverage by test: which tests run each candidate, with the outcome and duration of each test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.mutants import probes
from tools.mutants.candidates import Candidate, locate

ROOT = Path(__file__).resolve().parents[2]
_STARTUP = Path(__file__).resolve().parent / "startup"


@dataclass(frozen=True)
class CaseResult:
    """The outcome of a test, "passed", "skipped" or "failed", and its duration in seconds."""

    outcome: str
    seconds: float


@dataclass(frozen=True)
class Record:
    """The coverage of candidates by one run of a test suite.

    candidates: the drawn statements.
    places: each of them in the recorded tree; None where that tree does not have it.
    tests: the tests that ran, by id.
    covering: for each candidate, the ids of the tests that run it.
    """

    candidates: list[Candidate]
    places: list[Candidate | None]
    tests: dict[str, CaseResult]
    covering: list[list[str]]

    def killers(self, number: int) -> list[str]:
        """Return the passed tests that run a candidate, the quickest first."""
        return self._quickest_passed(self.covering[number])

    def others_of_files(self, tests: Sequence[str]) -> list[str]:
        """Return the other passed tests in the files of some, the quickest first."""
        files = {_file(name) for name in tests}
        others = [name for name in self.tests if _file(name) in files]
        return self._quickest_passed(set(others) - set(tests))

    def _quickest_passed(self, tests: Iterable[str]) -> list[str]:
        passed = [name for name in tests if self.tests[name].outcome == "passed"]
        return sorted(passed, key=lambda name: (self.tests[name].seconds, name))

    def write(self, path: Path) -> None:
        """Write the record as JSON; tests are numbered where they cover."""
        numbers = {name: number for number, name in enumerate(self.tests)}
        document = {
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "places": [place and asdict(place) for place in self.places],
            "tests": [[name, test.outcome, test.seconds] for name, test in self.tests.items()],
            "covering": [[numbers[name] for name in names] for names in self.covering],
        }
        path.write_text(json.dumps(document))

    def write_durations(self, path: Path) -> None:
        """Write seconds, a tab and the id of each test, the slowest first."""
        rows = sorted(self.tests.items(), key=lambda row: -row[1].seconds)
        path.write_text("".join(f"{test.seconds:.3f}\t{name}\n" for name, test in rows))

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read the record that `write` wrote."""
        document = json.loads(path.read_text())
        names = [name for name, _, _ in document["tests"]]
        return cls(
            [Candidate(**row) for row in document["candidates"]],
            [row and Candidate(**row) for row in document["places"]],
            {name: CaseResult(outcome, seconds) for name, outcome, seconds in document["tests"]},
            [[names[number] for number in row] for row in document["covering"]],
        )


def prepare(tree: Path, candidates: Sequence[Candidate], folder: Path) -> None:
    """Plant probes for a tree into a folder, and keep there what `merge` needs."""
    folder.mkdir(parents=True, exist_ok=True)
    places = locate(tree, candidates)
    probes.plant(tree, places, folder)
    rows = [[asdict(row), place and asdict(place)] for row, place in zip(candidates, places)]
    (folder / "candidates.json").write_text(json.dumps(rows))


def run_suite(
    tree: Path, folder: Path, arguments: Sequence[str], *, cache: Path, limit: float | None
) -> int | None:
    """Run pytest on a tree with the probes of a folder; return its exit code, None at the limit.

    `cache` is the folder for compiled kernels.
    """
    outer = os.environ.get("PYTHONPATH")
    paths = [str(_STARTUP), str(tree.resolve() / "src"), *([outer] if outer else []), str(ROOT)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "QUOD_CACHE_DIR": str(cache.resolve()),
        probes.FOLDER: str(folder.resolve()),
    }
    command = [sys.executable, "-m", "pytest", "-p", "tools.mutants.recording_plugin", *arguments]
    process = subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def merge(folder: Path) -> Record:
    """Merge the files of all processes of a run, which may have been killed."""
    rows = json.loads((folder / "candidates.json").read_text())
    tests: dict[str, CaseResult] = {}
    lines: defaultdict[str, set[int]] = defaultdict(set)
    fixtures: dict[str, list[str]] = {}
    for row in _written(folder / probes.TESTS):
        if "fixture" in row:
            lines[row["fixture"]].update(row["lines"])
            continue
        name = row["test"]
        tests[name] = CaseResult(row["outcome"], row["seconds"])
        lines[name].update(row["lines"])
        fixtures[name] = row["fixtures"]
    for file in (folder / probes.HITS).iterdir():
        # A process that was killed may have left half a line, at the end or, where a later process
        # had the same number, before that process's lines.
        for line in file.read_text().splitlines(keepends=True):
            digits, _, owner = line[:-1].partition(" ")
            if line.endswith("\n") and digits.isdecimal():
                lines[owner].add(int(digits))
    covering: list[list[str]] = [[] for _ in rows]
    for name in tests:
        for number in lines[name].union(*(lines[key] for key in fixtures[name])):
            covering[number].append(name)
    return Record(
        [Candidate(**row) for row, _ in rows],
        [place and Candidate(**place) for _, place in rows],
        tests,
        covering,
    )


def union(records: Sequence[Record]) -> Record:
    """Join the records of runs with the same candidates, of which each ran a part of the suite."""
    first = records[0]
    tests: dict[str, CaseResult] = {}
    covering: list[set[str]] = [set() for _ in first.candidates]
    for record in records:
        if (record.candidates, record.places) != (first.candidates, first.places):
            raise ValueError("the records are of different candidates or trees")
        tests.update(record.tests)
        for every, names in zip(covering, record.covering):
            every.update(names)
    return Record(first.candidates, first.places, tests, [sorted(names) for names in covering])


def summary(record: Record) -> str:
    """Summarise a record in a few lines."""
    outcomes = [test.outcome for test in record.tests.values()]
    counts = ", ".join(f"{outcomes.count(word)} {word}" for word in sorted(set(outcomes)))
    covered = sum(bool(names) for names in record.covering)
    absent = record.places.count(None)
    seconds = sum(test.seconds for test in record.tests.values())
    return (
        f"{len(record.tests)} tests ({counts}) in {seconds / 60:.1f} minutes of workers\n"
        f"{len(record.candidates)} candidates: {covered} run by a test, {absent} not in this tree"
    )


def _file(test: str) -> str:
    return test.partition("::")[0]


def _written(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.iterdir()):
        yield from _complete(file.read_text().splitlines(keepends=True))


def _complete(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.endswith("\n"):
            yield json.loads(line)
