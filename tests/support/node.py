"""The programs of others that tests run: snarkjs and circom2, from build/node.

`make test` installs them (`tools/setup.sh node`) and sets QUOD_TEST_NODE=required, so that a test
which needs them fails where they are missing; elsewhere it is skipped.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = REPOSITORY / "build" / "node" / "node_modules" / ".bin"


def program(name: str) -> str:
    """The path of `snarkjs` or `circom2`."""
    path = PROGRAMS / name
    if not path.exists():
        message = f"{name} is not in build/node; run tools/setup.sh node"
        if os.environ.get("QUOD_TEST_NODE") == "required":
            pytest.fail(message)
        pytest.skip(message)
    return str(path)


def run_program(
    name: str, *arguments: str | Path, directory: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `snarkjs` or `circom2`; the exit code is for the caller to look at."""
    command = [program(name), *map(str, arguments)]
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=timeout, check=False
    )
