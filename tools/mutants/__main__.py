"""Compare what two test suites detect: mutate executed lines of src/quod and run their tests.

A mutant is the package with one small change in one statement. A suite kills it if a test that runs
the statement fails. Three steps:

    python -m tools.mutants draw --seed 1 --out candidates.json
    python -m tools.mutants record --candidates candidates.json --out old.json -- -n 2 tests
    python -m tools.mutants run --record old.json --record new.json --count 60 --out results.jsonl

`draw` chooses statements at random, `record` runs a test suite and notes which tests run each of
them, `run` changes those that the old suite runs, one at a time, and runs their tests. See the help
of each command.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.mutants import candidates as drawn
from tools.mutants import record as recorded
from tools.mutants.run import Results, Suite, choose_mutants, run_all, table

_SUITES = ("old", "new")

_RECORD = """\
Run a test suite and write which tests run each candidate, as JSON.

Arguments after -- go to pytest, which runs in the tree with this Python, pytest-xdist included. The
probes change neither sources nor line numbers. The record includes child processes, for the test
that started them, unless the test replaces PYTHONPATH. The lines of a shared fixture count for all
tests that use it.

A program that caches a result runs the line only in the first test of a process that needs it: a
kernel is traced once a process, and not at all if the cache on disk has its code. Therefore the run
has a new, empty cache of compiled kernels unless --cache names another.

Each process appends to files below --raw as it goes. If the run is killed, `merge` makes the
record of what was written.
"""

_RUN = """\
Mutate executed statements and run their tests, with one suite or two.

The first candidates that a passed test of the first record runs get one mutation each. The mutation
follows from --seed, the statement and its function, so both trees get the same one. A copy of each
tree runs the tests of the statement, the fastest first, until one fails or --limit is over. A
failure counts only if the test passes in a copy without the mutation. A test that hangs kills its
mutant by timeout; reaching the limit between tests does not.

Each mutant has a copy of the user's cache of compiled kernels, so that its code does not enter the
cache; a mutant of src/quod/device starts with an empty cache. QUOD_CACHE_DIR names another cache.
With an empty cache each mutant compiles all its kernels, so run the suite once before.

Each result is appended to --out at once, and is not computed again: remove the file after a new
record. The table goes to standard output. The exit code is 1 if the second suite misses a mutant
that the first one kills.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    options = _parser().parse_args(arguments)
    code: int = options.command(options)
    return code


def _draw(options: argparse.Namespace) -> int:
    chosen = drawn.draw(options.tree, options.candidates, options.seed)
    drawn.write(options.out, chosen)
    print(f"{len(chosen)} candidates in {options.out}")
    return 0


def _record(options: argparse.Namespace) -> int:
    raw: Path = options.raw or options.out.with_suffix(".raw")
    if raw.exists():
        sys.exit(f"{raw} exists; remove it, or make the record of it with `merge`")
    recorded.prepare(options.tree, drawn.read(options.candidates), raw)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as empty:
        code = recorded.run_suite(
            options.tree, raw, options.pytest, cache=options.cache or Path(empty),
            limit=options.limit,
        )  # fmt: skip
    if code is None:
        print(f"the suite was stopped after {options.limit:g} seconds")
    options.raw = [raw]
    return _merge(options)


def _merge(options: argparse.Namespace) -> int:
    record = recorded.union([recorded.merge(folder) for folder in options.raw])
    record.write(options.out)
    if options.durations:
        record.write_durations(options.durations)
    print(recorded.summary(record))
    return 0


def _run(options: argparse.Namespace) -> int:
    if len(options.record) > len(_SUITES):
        sys.exit("give one record or two")
    trees = (options.old_tree, options.new_tree)
    suites = [
        Suite(name, tree, recorded.Record.read(path))
        for name, tree, path in zip(_SUITES, trees, options.record)
    ]
    choice = choose_mutants(suites, options.count, options.seed)
    results = Results(options.out)
    run_all(
        suites, choice, results, options.jobs, options.limit, whole_files=options.whole_files
    )  # fmt: skip
    lines, is_worse = table(suites, choice, results)
    print("", *lines, sep="\n")
    return int(is_worse)


def _parser() -> argparse.ArgumentParser:
    raw_text = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=raw_text
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    draw = commands.add_parser(
        "draw", help="choose statements at random", description=drawn.__doc__
    )
    draw.set_defaults(command=_draw)
    draw.add_argument(
        "--seed", type=int, required=True, help="the draw follows from it and the tree"
    )
    draw.add_argument("--candidates", type=int, default=600, metavar="N", help="how many (600)")
    draw.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    _add_tree(draw)

    record = commands.add_parser(
        "record", help="run a suite and note which tests run each candidate",
        description=_RECORD, formatter_class=raw_text,
    )  # fmt: skip
    record.set_defaults(command=_record)
    record.add_argument("--candidates", type=Path, required=True, help="the file that `draw` wrote")
    record.add_argument("--out", type=Path, required=True, help="the record to write")
    record.add_argument("--raw", type=Path, help="folder for the files of the processes (OUT.raw)")
    record.add_argument(
        "--durations", type=Path, help="write seconds, a tab and the id of each test"
    )
    record.add_argument("--limit", type=float, metavar="SECONDS", help="stop the suite after them")
    record.add_argument(
        "--cache", type=Path, help="folder for compiled kernels (a new one, removed afterwards)"
    )
    record.add_argument("pytest", nargs="*", metavar="-- PYTEST ARGS", help="arguments of pytest")
    _add_tree(record)

    merge = commands.add_parser(
        "merge", help="make the record of a run that was killed, or of several runs",
        description="Write one record of what runs of `record` left below --raw, also killed ones. "
        "Runs over parts of a suite join if they have the same candidates.",
    )  # fmt: skip
    merge.set_defaults(command=_merge)
    merge.add_argument(
        "--raw", type=Path, required=True, action="append", help="the folder of a run; repeatable"
    )
    merge.add_argument("--out", type=Path, required=True, help="the record to write")
    merge.add_argument(
        "--durations", type=Path, help="write seconds, a tab and the id of each test"
    )

    run = commands.add_parser(
        "run", help="mutate executed statements and run their tests",
        description=_RUN, formatter_class=raw_text,
    )  # fmt: skip
    run.set_defaults(command=_run)
    run.add_argument(
        "--record", type=Path, required=True, action="append",
        help="the old suite's record; a second one is the new suite's, of the same candidates",
    )  # fmt: skip
    run.add_argument("--old-tree", type=Path, default=recorded.ROOT, help="checkout of the first")
    run.add_argument("--new-tree", type=Path, default=recorded.ROOT, help="checkout of the second")
    run.add_argument("--count", type=int, default=60, metavar="N", help="how many mutants (60)")
    run.add_argument("--seed", type=int, default=1, help="chooses the mutation of a statement (1)")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants at a time (1)")
    run.add_argument(
        "--limit", type=float, default=120, metavar="SECONDS",
        help="for the tests of one mutant in one suite (120)",
    )  # fmt: skip
    run.add_argument(
        "--whole-files", action="store_true",
        help="then run the other tests of the same files too: they may use what the first test of "
        "a process computed and kept, such as a traced kernel",
    )  # fmt: skip
    run.add_argument("--out", type=Path, required=True, help="the file of results, JSON lines")
    return parser


def _add_tree(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tree", type=Path, default=recorded.ROOT, help="the checkout (by default this one)"
    )


if __name__ == "__main__":
    sys.exit(main())
