"""Measures what docs/benchmarks.md shows and records it under benchmarks/results.

    python benchmarks/run.py                        everything, on the CPU
    python benchmarks/run.py msm ntt                these subjects
    python benchmarks/run.py --device cuda [msm]    on an NVIDIA GPU
    python benchmarks/run.py --device webgpu        on any GPU; the telling ones portable as well
    python benchmarks/run.py --device webgpu:portable       all of them, portable only

Takes minutes. One results file a machine, by the name of its GPU or processor; run it on an idle
one. What fails is told at the end, and keeps nothing else from being measured.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import circuits
import subjects as subjects_of

from quod.cli.bench.groth16 import find_snarkjs
from quod.cli.bench.harness import machine
from quod.device.discovery import why_no_gpu
from quod.device.webgpu_names import is_webgpu_name

HERE = Path(__file__).resolve().parent

_WEBGPU_LIMIT = 180.0
"""Seconds of one command, lest a driver that compiles without end keeps all others from running."""

# Circuits of the shared fixtures: whether their key is there or has to be made.
READY = ["quod-bn254-merkle20", "quod-bn254-eddsa", "quod-bls12_381-pow5bits"]
TO_PREPARE = ["bn254-sha256", "bn254-sha256-8blocks"]


def more_circuits(subject: str) -> list[list[str]]:
    """Arguments for the circuits that only a checkout with the shared fixtures has."""
    if subject not in ("groth16", "process") or not circuits.available():
        return []
    ready = circuits.FIXTURES.parent / "circom"
    folders = [ready / name for name in READY] + [circuits.prepare(name) for name in TO_PREPARE]
    against = ["--against", "snarkjs"] if subject == "groth16" else []
    return [
        [os.path.relpath(folder / name, HERE.parent) for name in ("circuit.zkey", "witness.wtns")]
        + against
        for folder in folders
    ]


def results_file(device: str) -> Path:
    """Where a device's results go: named after the GPU, or this machine's processor."""
    here = machine(device)
    name = str(here.get("gpu") or f"{here['processor']} {here['threads']} threads")
    return HERE / "results" / (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".json")


def commands(device: str, subjects: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Device, subject and arguments of what is to be run."""
    table = {"cpu": subjects_of.CPU, "webgpu": subjects_of.WEBGPU}.get(
        device.partition(":")[0], subjects_of.CUDA
    )
    wanted = subjects or list(table)
    unknown = [subject for subject in wanted if subject not in table]
    if unknown:
        sys.exit(f"no such subject: {', '.join(unknown)} (there are {', '.join(table)})")
    found = []
    for subject in wanted:
        more = more_circuits(subject) if device == "cpu" else []
        found += [(device, subject, arguments) for arguments in table[subject] + more]
        if is_webgpu_name(device) and not device.endswith(":portable"):
            portable = f"{device}:portable"
            found += [(portable, subject, rest) for rest in subjects_of.PORTABLE.get(subject, [])]
    return found


def without_absent_peers(arguments: list[str]) -> list[str] | None:
    """The arguments for this machine; None if there is nothing to measure without the peer."""
    if "snarkjs" in arguments and find_snarkjs() is None:
        print("left out: snarkjs is not there (tools/setup.sh node)", file=sys.stderr)
        return None
    if "cuda" in arguments and why_no_gpu() is not None:
        at = arguments.index("--against")
        return arguments[:at] + arguments[at + 2 :]
    return arguments


def run(command: list[str], limit: float | None) -> str:
    """What went wrong with a command of Quod, or nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "quod", *command], cwd=HERE.parent, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {limit:g} s"
    return f"exit code {done.returncode}" if done.returncode else ""


def main() -> None:
    """Run the benchmarks of the subjects that were asked for, then write the page."""
    parser = argparse.ArgumentParser(description="Measure what docs/benchmarks.md shows.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or webgpu")
    parser.add_argument("subjects", nargs="*", help="by default all")
    given = parser.parse_args()
    device = given.device
    wanted = commands(device, given.subjects)
    record = results_file(device)
    record.parent.mkdir(exist_ok=True)
    kept_in = os.path.relpath(record, HERE.parent)
    failures = []
    for on, subject, listed in wanted:
        arguments = without_absent_peers(listed)
        if arguments is None:
            continue
        command = ["bench", subject, *arguments, "--record", kept_in]
        if on != "cpu":
            command += ["--device", on]
        wrong = run(command, _WEBGPU_LIMIT if is_webgpu_name(on) else None)
        if wrong:
            failures.append(f"quod {shlex.join(command)}: {wrong}")
    subprocess.run([sys.executable, str(HERE / "report.py")], check=True)
    if failures:
        sys.exit("\n".join([f"{len(failures)} of {len(wanted)} failed:", *failures]))


if __name__ == "__main__":
    main()
