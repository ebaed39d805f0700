"""Measures what docs/benchmarks.md shows and records it under benchmarks/results.

    python benchmarks/run.py                        everything, on the CPU
    python benchmarks/run.py msm ntt                these subjects
    python benchmarks/run.py --device cuda [msm]    on an NVIDIA GPU

Takes minutes. One results file a machine; run it on an idle one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import circuits

from quod.cli.bench.groth16 import find_snarkjs
from quod.cli.bench.harness import machine

HERE = Path(__file__).resolve().parent
EXAMPLE = "examples/membership"

COMMANDS: dict[str, list[list[str]]] = {
    "field": [[]],
    "msm": [
        ["--curve", "bls12_381", "--log2", "12", "--log2", "14", "--against", "arkworks"],
        ["--curve", "bls12_381", "--log2", "16", "--log2", "18", "--log2", "20"],
        ["--curve", "bls12_381", "--log2", "16", "--scalars", "bits"],
        ["--curve", "bls12_381", "--log2", "16", "--scalars", "equal"],
        ["--curve", "bls12_381", "--log2", "16", "--scalars", "giant"],
        ["--curve", "bls12_381", "--group", "g2", "--log2", "14", "--log2", "16"],
        ["--curve", "bn254", "--log2", "14", "--log2", "16"],
    ],
    "ntt": [
        ["--curve", "bn254", "--log2", "14", "--log2", "16", "--log2", "18", "--log2", "20"],
        ["--curve", "bls12_381", "--log2", "16", "--log2", "20"],
    ],
    "groth16": [[f"{EXAMPLE}/circuit.zkey", f"{EXAMPLE}/witness.wtns", "--against", "snarkjs"]],
    "process": [[f"{EXAMPLE}/circuit.zkey", f"{EXAMPLE}/witness.wtns"]],
}

CUDA_COMMANDS: dict[str, list[list[str]]] = {
    "field": [[]],
    "msm": [
        ["--curve", "bls12_381", *(f"--log2={size}" for size in (16, 18, 20, 22, 24))],
        *(
            ["--curve", "bls12_381", "--log2", "20", "--scalars", kind]
            for kind in ("bits", "equal", "giant")
        ),
        ["--curve", "bls12_381", "--group", "g2", "--log2", "16", "--log2", "20"],
        ["--curve", "bn254", "--log2", "20", "--log2", "24"],
        ["--curve", "bls12_377", "--log2", "20", "--log2", "22"],
    ],
    "ntt": [
        ["--curve", "bls12_381", *(f"--log2={size}" for size in (20, 22, 24, 26, 28))],
        ["--curve", "bn254", "--log2", "20", "--log2", "24"],
    ],
    "groth16": [
        ["--curve", "bn254", *(f"--constraints={n}" for n in (100_000, 800_000, 3_200_000))],
        ["--curve", "bn254", "--constraints", "16000000"],
        ["--curve", "bls12_381", "--constraints", "800000"],
    ],
    "process": [[f"{EXAMPLE}/circuit.zkey", f"{EXAMPLE}/witness.wtns"]],
}

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


def main() -> None:
    """Run the benchmarks of the subjects that were asked for, then write the page."""
    parser = argparse.ArgumentParser(description="Measure what docs/benchmarks.md shows.")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("subjects", nargs="*", help="by default all")
    given = parser.parse_args()
    commands = COMMANDS if given.device == "cpu" else CUDA_COMMANDS
    subjects = given.subjects or list(commands)
    unknown = [subject for subject in subjects if subject not in commands]
    if unknown:
        sys.exit(f"no such subject: {', '.join(unknown)} (there are {', '.join(commands)})")
    record = results_file(given.device)
    record.parent.mkdir(exist_ok=True)
    for subject in subjects:
        more = more_circuits(subject) if given.device == "cpu" else []
        for arguments in commands[subject] + more:
            if "snarkjs" in arguments and find_snarkjs() is None:
                print("left out: snarkjs is not there (tools/setup.sh node)", file=sys.stderr)
                continue
            kept_in = os.path.relpath(record, HERE.parent)
            command = ["bench", subject, *arguments, "--record", kept_in]
            if given.device != "cpu":
                command += ["--device", given.device]
            subprocess.run([sys.executable, "-m", "quod", *command], cwd=HERE.parent, check=True)
    subprocess.run([sys.executable, str(HERE / "report.py")], check=True)


if __name__ == "__main__":
    main()
