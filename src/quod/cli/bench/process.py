"""Whole processes: how long Quod takes to start, the first proof ever, and a proof's memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from quod.cli.bench.harness import Case, Parameter
from quod.errors import QuodError


def cases(device: str, zkey: Path, witness: Path) -> Iterator[Case]:
    """Start-up, and proofs by the command with one key and witness."""
    from quod.formats import Zkey

    circuit: dict[str, Parameter] = {
        "circuit": zkey.resolve().parent.name,
        "constraints": Zkey.open(zkey).constraints,
    }
    yield Case({"what": "python -c 'import quod'"}, lambda: _python("-c", "import quod"), "ms")
    with tempfile.TemporaryDirectory(prefix="quod-bench-") as directory:
        outputs = [str(Path(directory) / name) for name in ("proof.json", "public.json")]
        prove = ["-m", "quod", "groth16", "prove", str(zkey), str(witness), *outputs, "-q"]
        prove += ["--device", device]

        def first() -> None:
            with tempfile.TemporaryDirectory(prefix="quod-bench-cache-") as cache:
                _python(*prove, cache=cache)

        yield Case({"what": "prove, nothing compiled yet", **circuit}, first, "s")
        yield Case({"what": "prove, later process", **circuit}, lambda: _python(*prove), "s")
        yield Case(
            {"what": "prove, peak memory", **circuit},
            lambda: _python(*prove) / 1e6,
            unit="MB",
            reads=True,
        )


def _python(*arguments: str, cache: str | None = None) -> int:
    """Runs Python to its end; its peak memory in bytes."""
    environment = dict(os.environ) | ({} if cache is None else {"QUOD_CACHE_DIR": cache})
    # Only os.wait4 tells the memory of one child, so no Popen.communicate here.
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise QuodError(f"python {' '.join(arguments)} failed ({process.returncode})")
    return _bytes(usage)


def _bytes(usage: resource.struct_rusage) -> int:
    """The peak resident memory; macOS counts it in bytes, others in kilobytes."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
