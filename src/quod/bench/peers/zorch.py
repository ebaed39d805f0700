"""zorch (pyzorch), a prover compiled for CPUs, as a peer of sumchecks.

It runs in an interpreter of its own: build/zorch/bin/python, or QUOD_ZORCH_PYTHON.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from quod.bench.measure.harness import Seconds
from quod.bench.peers.provers import last_line, opened_pipe
from quod.errors import QuodError
from quod.field.array import random_elements
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec

_DRIVER = Path(__file__).with_name("zorch_driver.py")
_VARIABLE = "QUOD_ZORCH_PYTHON"
_NAMES = {"goldilocks": "goldilocks", "bn254.fr": "bn254_sf_mont"}
"""zorch's types with the memory layout of Quod's fields."""


def why_not(field: FieldSpec, factors: int, batch: int, *, weighted: bool) -> str | None:
    """Return the reason why zorch cannot do the same work, or None."""
    if field.name not in _NAMES:
        return f"it is compared only over {' and '.join(_NAMES)}, not over {field.name}"
    if factors != 2 or batch != 1 or weighted:
        return "it is compared only for one product of two tables, without --batch and --eq"
    if find_zorch() is None:
        return (
            f"{_python()} does not exist; create it by `python3.11 -m venv build/zorch` and "
            f"`build/zorch/bin/pip install pyzorch==0.2.0`, or name another in {_VARIABLE}"
        )
    return None


def find_zorch() -> str | None:
    """Return the interpreter with zorch, or None."""
    return str(_python()) if _python().exists() else None


def _python() -> Path:
    override = os.environ.get(_VARIABLE)
    checkout = Path(__file__).resolve().parents[4]
    return Path(override) if override else checkout / "build" / "zorch" / "bin" / "python"


class Zorch:
    """Sumchecks of a random product, in a process started on first use."""

    def __init__(self, field: FieldSpec, log2_size: int) -> None:
        assert isinstance(field, Modulus)
        self._field, self._log2_size = field, log2_size
        self._process: subprocess.Popen[str] | None = None

    def __call__(self) -> Seconds:
        """Prove once; raises QuodError with zorch's message if it fails."""
        process = self._process or self._start()
        pipe = opened_pipe(process.stdin)
        pipe.write("prove\n")
        pipe.flush()
        return Seconds(self._read_line(process))

    def _start(self) -> subprocess.Popen[str]:
        """Start the process with random tables, and wait until it has compiled."""
        tables = random_elements(self._field, 2 << self._log2_size, seed=self._log2_size)
        with tempfile.TemporaryDirectory(prefix="quod-bench-") as folder:
            file = Path(folder) / "tables"
            file.write_bytes(np.ascontiguousarray(tables).tobytes())
            arguments = [_NAMES[self._field.name], str(self._log2_size), str(file)]
            # Only its own packages: neither those of this folder (-P) nor Quod's path.
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            self._process = subprocess.Popen(
                [str(_python()), "-P", str(_DRIVER), *arguments], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            )  # fmt: skip
            ready = self._read_line(self._process)
            assert ready == "ready", ready
        return self._process

    def _read_line(self, process: subprocess.Popen[str]) -> str:
        line = opened_pipe(process.stdout).readline().strip()
        if not line:  # it has ended
            raise QuodError(f"zorch failed: {last_line(process.communicate()[1])}")
        return line

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
