"""Measure the rows of docs/benchmarks.md and record them under benchmarks/results.

    python benchmarks/run.py                        everything, on the CPU
    python benchmarks/run.py msm ntt                these subjects
    python benchmarks/run.py --device cuda [msm]    on an NVIDIA GPU
    python benchmarks/run.py --device webgpu        on any GPU; the telling ones portable as well
    python benchmarks/run.py --device webgpu:portable       all of them, portable only
    python benchmarks/run.py --stale                which rows are of other code, as far as that is
                                                    known without a device
    python benchmarks/run.py --device cuda --only-stale --within 500
                                                    what is of other code, in slices: each row's
                                                    kernels are launched once to tell

Takes minutes, and says how long each command took. One results file a machine, by the name of its
GPU or processor; run it on an idle one. What fails is told at the end, and keeps nothing else from
being measured.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import checkout
import circuits
import filecoin
import sapling
import subjects as subjects_of

from quod.bench.measure.harness import command_line
from quod.bench.measure.report import shown_parameters
from quod.bench.measure.results import State, load_results, machine, state_of
from quod.bench.peers.provers import find_snarkjs
from quod.bench.peers.zorch import find_zorch
from quod.device.backends import backend
from quod.device.webgpu.names import is_webgpu_name

HERE = Path(__file__).resolve().parent

LIMITS: dict[str, float | None] = {"cpu": None, "cuda": 300.0, "webgpu": 180.0}
"""The time limit of one command in seconds: a driver may compile without end."""

ORDER: tuple[State, ...] = ("stale", "unknown", "current")

# Circuits of the shared fixtures: whether their key is there or has to be made.
READY = ["quod-bn254-merkle20", "quod-bn254-eddsa", "quod-bls12_381-pow5bits"]
TO_PREPARE = ["bn254-sha256", "bn254-sha256-8blocks"]


def more_circuits(subject: str) -> list[list[str]]:
    """Return the arguments for circuits that need the shared fixtures next to the checkout."""
    if subject == "verify" and sapling.available():
        return [[*sapling.prepare(), "--against", "one-by-one"]]
    notes = [sapling.WHOLE] if subject == "groth16" and sapling.available() else []
    if subject not in ("groth16", "process") or not circuits.available():
        return notes
    ready = circuits.FIXTURES.parent / "circom"
    folders = [ready / name for name in READY] + [circuits.prepare(name) for name in TO_PREPARE]
    argument_lists = notes
    for folder in folders:
        files = [
            os.path.relpath(folder / name, HERE.parent) for name in ("circuit.zkey", "witness.wtns")
        ]
        peers = ["snarkjs"] if subject == "groth16" else ["", "snarkjs", "rapidsnark"]
        if "bn254" not in folder.name:  # all that rapidsnark has
            peers = [peer for peer in peers if peer != "rapidsnark"]
        argument_lists += [[*files, *(["--against", peer] if peer else [])] for peer in peers]
    return argument_lists


def results_file(device: str) -> Path:
    """Return the path of a device's results, named after the GPU or this machine's CPU."""
    machine_facts = machine(device)
    name = str(
        machine_facts.get("gpu")
        or f"{machine_facts['processor']} {machine_facts['threads']} threads"
    )
    return HERE / "results" / (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".json")


def commands(device: str, subjects: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Yield the device, subject and arguments of each command to run."""
    table = {"cpu": subjects_of.CPU, "webgpu": subjects_of.WEBGPU}.get(
        device.partition(":")[0], subjects_of.CUDA
    )
    chosen_subjects = subjects or list(table)
    unknown = [subject for subject in chosen_subjects if subject not in table]
    if unknown:
        sys.exit(f"no such subject: {', '.join(unknown)} (there are {', '.join(table)})")
    rows = []
    for subject in chosen_subjects:
        extra_circuits = more_circuits(subject) if device == "cpu" else []
        rows += [(device, subject, arguments) for arguments in table[subject] + extra_circuits]
        if is_webgpu_name(device) and not device.endswith(":portable"):
            portable = f"{device}:portable"
            rows += [
                (portable, subject, arguments)
                for arguments in subjects_of.PORTABLE.get(subject, [])
            ]
    return rows


def without_absent_peers(arguments: list[str]) -> list[str] | None:
    """Return the arguments for this machine; None if only the missing peer would be measured."""
    for name, program in (
        ("snarkjs", find_snarkjs()), ("rapidsnark", shutil.which("rapidsnark")),
        ("pyzorch", find_zorch()), ("torch", find_spec("torch")),
        ("numpy", find_spec("threadpoolctl")),
    ):  # fmt: skip
        if name in arguments and program is None:
            say(f"left out, for {name} is not there: quod bench {' '.join(arguments)}")
            return None
    if "--database" in arguments and "PGHOST" not in os.environ:
        say(f"left out, for PGHOST names no Postgres: quod bench {' '.join(arguments)}")
        return None
    if "cuda" in arguments and backend("cuda").why_not() is not None:
        at = arguments.index("--against")
        return arguments[:at] + arguments[at + 2 :]
    return arguments


def run(command: list[str], limit: float | None) -> str:
    """Run a command of Quod; return its failure, or an empty text."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "quod", *command], cwd=HERE.parent, timeout=limit,
            env=checkout.environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"took longer than {limit:g} s"
    return f"exit code {done.returncode}" if done.returncode else ""


def state_of_command(command: Sequence[str], rows: Sequence[dict[str, Any]]) -> State:
    """Return the state of all that a command measures, compared with the current code; see
    `state_of`.
    """
    text = command_line(command)
    states = {state_of(row) for row in rows if row["command"] == text}
    return next((state for state in ORDER if state in states), "stale")


def show_states(device: str | None) -> None:
    """Yield the rows of all results files, or of one device's, with their state."""
    count: Counter[State] = Counter()
    for path in sorted((HERE / "results").glob("*.json")):
        for row in load_results(path)["rows"]:
            if device is not None and row["device"].partition(":")[0] != device.partition(":")[0]:
                continue
            state = state_of(row)
            count[state] += 1
            if state != "current":
                what = f"{row['subject']} {shown_parameters(row['parameters'])}"
                print(f"{state:8} {row['device']:16} {what}")
    print(", ".join(f"{count[state]} {state}" for state in reversed(ORDER)))
    if count["unknown"]:
        print("unknown: the sources differ; --only-stale has the device tell whether kernels do")


def _seconds(text: str) -> float:
    """Parse a number of at least 0; NaN is rejected."""
    seconds = float(text)
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"{text} s are no time")
    return seconds


def main() -> None:
    """Run the benchmarks of the requested subjects, then write the page."""
    parser = argparse.ArgumentParser(description="Measure what docs/benchmarks.md shows.")
    parser.add_argument("--device", help="cpu, cuda or webgpu; by default cpu")
    parser.add_argument(
        "--stale", action="store_true", help="list the rows that may be of other code, no more"
    )  # fmt: skip
    parser.add_argument(
        "--only-stale", action="store_true", help="measure the rows of other code only"
    )  # fmt: skip
    parser.add_argument(
        "--within", type=_seconds, default=float("inf"), metavar="SECONDS",
        help="begin no command after so long; with --only-stale the next run goes on from there",
    )  # fmt: skip
    parser.add_argument("subjects", nargs="*", help="by default all")
    parsed = parser.parse_args()
    if parsed.stale:
        show_states(parsed.device)
        return
    device = parsed.device or "cpu"
    wanted = commands(device, parsed.subjects)
    record = results_file(device)
    record.parent.mkdir(exist_ok=True)
    rows = load_results(record)["rows"] if parsed.only_stale and record.exists() else []
    options = ["--record", os.path.relpath(record, HERE.parent)]
    options += ["--only-stale"] if parsed.only_stale else []
    failures: list[str] = []
    postponed: list[str] = []
    begin = perf_counter()
    for on, subject, listed in wanted:
        arguments = without_absent_peers(listed)
        if arguments is None:
            continue
        command = ["bench", subject, *arguments, *([] if on == "cpu" else ["--device", on])]
        shown = command_line(command)
        if state_of_command(command, rows) == "current":
            say(f"{shown}: current")
            continue
        if perf_counter() - begin > parsed.within:
            postponed.append(shown)
            continue
        say(shown)
        if subject == "filecoin":
            filecoin.prepare(arguments[arguments.index("--proof") + 1], on)
        start = perf_counter()
        wrong = run([*command, *options], LIMITS[on.partition(":")[0]])
        say(f"{shown}: {perf_counter() - start:.1f} s")
        if wrong:
            failures.append(f"{shown}: {wrong}")
    subprocess.run([sys.executable, str(HERE / "report.py")], check=True)
    say(f"{perf_counter() - begin:.0f} s in all")
    if postponed:
        say("\n".join([f"{len(postponed)} left for another run:", *postponed]))
    if failures:
        sys.exit("\n".join([f"{len(failures)} of {len(wanted)} failed:", *failures]))


def say(text: str) -> None:
    """Print a line about the run on standard error, unbuffered."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
