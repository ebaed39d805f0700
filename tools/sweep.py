"""Run computations with known results and random sizes, until a time limit.

    make sweep-cuda                                               seven minutes on an NVIDIA GPU
    python -m tools.sweep --device cuda --seconds 420 --seed 7 --table
    python -m tools.sweep --device cuda --seed 7 --only 123       one case again
    python -m tools.sweep --device cuda --resume build/sweep.jsonl   goes on where that one ended
    python -m tools.sweep --device cuda --seed 7 --slice 0/4      a quarter; others beside it
    python -m tools.sweep --report build/*.jsonl --table FILE     one table of several sweeps

The cases are MSMs (resident, batched, streamed, in parts) over points with known logarithms,
transforms and whole proofs; see `sweep_cases`. A case depends only on the seed, its number and the
bounds of sizes. A failed case is reported and counted, and the sweep continues; a lost device ends
it. The exit code is 1 if a case failed or no case ran.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from quod.curve.groups import GROUPS
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from tools.sweep_cases import BLOCK, KINDS, Bounds, Case, Runner, WrongResultError, case_of

_LONGEST_MESSAGE = 300
RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"


@dataclass(frozen=True)
class Result:
    """The result of a case; `failure` is the error, or empty."""

    index: int
    kind: str
    group: str
    size: int
    seconds: float
    failure: str = ""


@dataclass
class State:
    """The progress of a sweep, also kept in a file, so that an interrupted sweep can continue.

    The first line of the file has the options that determine the cases. Then come two lines per
    case: its start, and its result.
    """

    path: Path | None
    header: dict[str, Any]
    results: list[Result] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, header: dict[str, Any]) -> State:
        """Open the state in a file, or a new one; SystemExit if the file is another sweep's."""
        state = cls(path, header)
        if path is None:
            return state
        if path.exists() and path.stat().st_size:
            state = cls.read(path)
            differing = [name for name in header if state.header.get(name) != header[name]]
            if differing:
                raise SystemExit(
                    f"{path} is a sweep with another {', '.join(differing)}; give those of its "
                    f"first line, or another file"
                )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            state._write(header)
        return state

    @classmethod
    def read(cls, path: Path) -> State:
        """Read a sweep's file; an incomplete last line is removed."""
        lines = path.read_text().splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            path.write_text("".join(lines[:-1]))
            lines.pop()
        if not lines:
            raise SystemExit(f"{path} has no sweep in it")
        state = cls(path, json.loads(lines[0]))
        for line in lines[1:]:
            row = json.loads(line)
            if "begin" in row:
                state.starts[row["begin"]] = state.starts.get(row["begin"], 0) + 1
            else:
                state.results.append(Result(**row))
        return state

    def begin(self, index: int) -> None:
        self._write({"begin": index})

    def end(self, result: Result) -> None:
        self.results.append(result)
        self._write(asdict(result))

    def _write(self, row: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def indices(first: int, count: int) -> Iterator[int]:
    """Yield the numbers of the cases of slice `first` of `count`: every `count`th block."""
    block = first
    while True:
        yield from range(block * BLOCK, (block + 1) * BLOCK)
        block += count


def run_case(runner: Runner, case: Case) -> Result:
    """Run a case; an error is part of the result."""
    begin = perf_counter()
    failure = ""
    try:
        runner.run(case)
    except WrongResultError as error:
        failure = f"WRONG: {error}"
    except Exception as error:
        traceback.print_exc()
        failure = f"{type(error).__name__}: {error}"
        # The traceback would keep the memory of the case alive.
        error.__traceback__ = None
        runner.close()
    seconds = perf_counter() - begin
    return Result(
        case.index, case.kind, case.group, case.size, round(seconds, 3),
        failure[:_LONGEST_MESSAGE],
    )  # fmt: skip


def sweep(device: AnyDevice, bounds: Bounds, state: State, options: argparse.Namespace) -> None:
    """Run cases until the time limit, the last case, or the loss of the device."""
    runner, end = Runner(device, bounds), perf_counter() + options.seconds
    done = {result.index for result in state.results}
    numbers = [options.only] if options.only is not None else indices(*options.slice)
    for index in numbers:
        if index in done:
            continue
        if options.only is None and (
            perf_counter() >= end or (options.cases is not None and len(done) >= options.cases)
        ):
            break
        case = case_of(options.seed, index, bounds)
        if state.starts.get(index, 0) >= 2:
            result = Result(
                index, case.kind, case.group, case.size, 0.0, "the process ended in it, twice"
            )
        else:
            state.begin(index)
            result = run_case(runner, case)
        state.end(result)
        done.add(index)
        print(f"{index:5} {result.seconds:8.2f} s  {case}", flush=True)
        if result.failure:
            print(
                f"      FAILED: {result.failure}\n      again: {again(options, bounds, index)}",
                flush=True,
            )
        if device.space.is_lost:
            print("the device is lost, and so the sweep ends", flush=True)
            break
    runner.close()


def again(options: argparse.Namespace, bounds: Bounds, index: int) -> str:
    """Return the command that runs one case."""
    words = f"python -m tools.sweep --device {options.device} --seed {options.seed}"
    if options.memory is not None:
        words += f" --memory {options.memory:g}"
    words += f" --largest {bounds.largest:g}"
    if options.groups != tuple(GROUPS):
        words += f" --groups {','.join(options.groups)}"
    if options.kinds != KINDS:
        words += f" --kinds {','.join(options.kinds)}"
    return f"{words} --only {index}"


def table(results: Sequence[Result]) -> list[str]:
    """Return a Markdown table with a row for each kind of case, then one for all cases."""
    lines = [
        "| kind | cases | failures | largest size | seconds |",
        "|---|---|---|---|---|",
    ]
    for kind in (*KINDS, "all"):
        rows = [result for result in results if kind in (result.kind, "all")]
        if not rows:
            continue
        failures = sum(bool(result.failure) for result in rows)
        largest = "" if kind == "all" else f"{max(result.size for result in rows):,}"
        seconds = sum(result.seconds for result in rows)
        name = f"**{kind}**" if kind == "all" else kind
        lines.append(f"| {name} | {len(rows)} | {failures} | {largest} | {seconds:.0f} |")
    return lines


def page(states: Sequence[State]) -> str:
    """Return the page of sweeps as Markdown; SystemExit unless all have one device and commit."""
    header = states[0].header
    for name in ("device", "on", "commit", "largest"):
        if len({state.header[name] for state in states}) > 1:
            raise SystemExit(f"the sweeps differ in their {name}, and have no table together")
    seeds = ", ".join(
        str(state.header["seed"])
        + (f" ({state.header['slice']})" if state.header["slice"] != "0/1" else "")
        for state in states
    )
    results = [result for state in states for result in state.results]
    lines = [
        f"# Sweep of sizes on {header['on']}", "", "Written by tools/sweep.py.", "",
        f"`python -m tools.sweep --device {header['device']}`, seed {seeds}, "
        f"commit {header['commit']}.",
        "Sizes are elements (of a batch, all of them), or constraints; "
        f"2^{header['largest']:.4g} at most.",
        "", *table(results), "",
    ]  # fmt: skip
    lines += [f"Failed: case {row.index}, {row.kind}: {row.failure}." for row in failed(results)]
    return "\n".join(lines).rstrip() + "\n"


def failed(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.failure]


def _slice(text: str) -> tuple[int, int]:
    first, _, count = text.partition("/")
    if not (first.isdecimal() and count.isdecimal() and int(first) < int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no slice such as 0/4")
    return int(first), int(count)


def _names(allowed: Sequence[str]) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        unknown = [name for name in names if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"there is no {', '.join(unknown)}; there are {', '.join(allowed)}"
            )
        return names

    return parse


def _amount(text: str) -> float:
    """Parse a number of at least 0; NaN is rejected."""
    number = float(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0, or no number")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Compute what is known beforehand, of random sizes, until the time is over."
    )
    add = parser.add_argument
    add("--device", default="cpu", help="see `quod devices`")
    add("--seconds", type=_amount, default=60.0, help="no case is begun after so many")
    add("--cases", type=int, help="no more cases than so many")
    add("--seed", type=int, default=1)
    add("--memory", type=_amount, help="GiB that the device may use, by default what is free")
    add("--largest", type=_amount, help="log2 of the largest size, by default as memory allows")
    add("--groups", type=_names(tuple(GROUPS)), default=tuple(GROUPS), help="some, by commas")
    add("--kinds", type=_names(KINDS), default=KINDS, help="some, by commas")
    add("--slice", type=_slice, default=(0, 1), help="K/N: a share of the cases")
    add("--only", type=int, help="one case, by its number")
    add("--resume", type=Path, help="where to keep what was done, and to go on")
    add(
        "--table", type=Path, nargs="?", const=RESULTS,
        help="where to write the table as markdown, by default in benchmarks/results",
    )  # fmt: skip
    add("--report", type=Path, nargs="+", help="runs nothing: a table of kept sweeps")
    return parser


def _where(device: str) -> str:
    """Return the device's name, for people."""
    from quod.bench.measure.results import machine

    facts = machine(device)
    return str(facts.get("gpu") or f"{facts['processor']}, {facts['threads']} threads")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep; return the exit code."""
    from quod.bench.measure.harness import current_commit

    args = _parser().parse_args(arguments)
    if args.report:
        states = [State.read(path) for path in args.report]
    else:
        budget = None if args.memory is None else int(args.memory * (1 << 30))
        device = open_device(args.device, memory_budget=budget)
        bounds = Bounds.of(device, args.groups, args.kinds, args.largest)
        header = {
            "device": args.device, "seed": args.seed, "slice": "{}/{}".format(*args.slice),
            "largest": bounds.largest, "constraints": bounds.constraints,
            "groups": list(bounds.groups), "kinds": list(bounds.kinds), "on": _where(args.device),
            "commit": current_commit(),
        }  # fmt: skip
        print(f"seed {args.seed}, {header['on']}, commit {header['commit']}", flush=True)
        states = [State.open(args.resume, header)]
        sweep(device, bounds, states[0], args)
    results = [result for state in states for result in state.results]
    print("\n" + "\n".join(table(results)), flush=True)
    for row in failed(results):
        print(f"FAILED: case {row.index}, {row.kind} {row.group} {row.size}: {row.failure}")
    if args.table:
        place = args.table
        if place.is_dir():
            name = f"sweep-{states[0].header['on']}-{states[0].header['device']}"
            place /= re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".md"
        place.write_text(page(states))
    if not results:
        print("no case ran", flush=True)
    return 1 if failed(results) or not results else 0


if __name__ == "__main__":
    sys.exit(main())
