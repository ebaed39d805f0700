"""The large circuits of the shared fixtures, compiled, with test keys, under build/bench.

The sources and inputs lie in ../shared/fixtures/circuits where the checkout has that beside it.
circom2, circomlib and snarkjs are those of build/node; the key is made by Quod's own set-up.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
FIXTURES = CHECKOUT.parent / "shared" / "fixtures" / "circuits"
MODULES = CHECKOUT / "build" / "node" / "node_modules"
KEY_SEED = "1"


def available() -> bool:
    """Report whether the circuits and the programs that compile them are present."""
    return FIXTURES.is_dir() and (MODULES / ".bin" / "circom2").exists()


def prepare(name: str) -> Path:
    """Return the folder with circuit.zkey and witness.wtns of a circuit; make missing files."""
    folder = CHECKOUT / "build" / "bench" / name
    if (folder / "circuit.zkey").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for source in (FIXTURES / name).iterdir():
        shutil.copyfile(source, folder / source.name)
    # circom2 runs in a sandbox that sees nothing above its working folder.
    shutil.copytree(MODULES / "circomlib", folder / "circomlib", dirs_exist_ok=True)
    _run(
        folder,
        MODULES / ".bin" / "circom2",
        "circuit.circom",
        "--r1cs",
        "--wasm",
        "--O2",
        "-l",
        ".",
    )
    wasm = folder / "circuit_js" / "circuit.wasm"
    snarkjs = MODULES / ".bin" / "snarkjs"
    _run(folder, snarkjs, "wtns", "calculate", wasm, "input.json", "witness.wtns")
    setup = ("-m", "quod", "groth16", "test-key", "circuit.r1cs", "circuit.zkey")
    _run(folder, sys.executable, *setup, "--seed", KEY_SEED, "--insecure-test-key")
    shutil.rmtree(folder / "circomlib")
    return folder


def _run(folder: Path, *command: str | Path) -> None:
    subprocess.run([str(part) for part in command], cwd=folder, check=True, stdout=sys.stderr)
