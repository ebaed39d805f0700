"""Whole processes: how long Quod takes to start, the first proof ever, and a proof's memory."""

from __future__ import annotations

import os
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
            lambda: _peak_bytes(*prove) / 1e6,
            unit="MB",
            reads=True,
        )


# A process counts what the one that started it had in memory as its own peak, so the peak is read
# by a process that has next to nothing.
_PEAK = """
import os, subprocess, sys
with open(os.devnull, "w") as nowhere:
    child = subprocess.Popen(sys.argv[1:], stdout=nowhere, stderr=nowhere)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), flush=True)
os._exit(os.waitstatus_to_exitcode(status) & 255)
"""


def _peak_bytes(*arguments: str) -> int:
    """The peak resident memory of a Python process, run to its end."""
    relay = [sys.executable, "-S", "-c", _PEAK, sys.executable, *arguments]
    return int(_run(relay, arguments, None))


def _python(*arguments: str, cache: str | None = None) -> None:
    """Runs Python to its end."""
    _run([sys.executable, *arguments], arguments, cache)


def _run(command: list[str], arguments: tuple[str, ...], cache: str | None) -> str:
    environment = dict(os.environ) | ({} if cache is None else {"QUOD_CACHE_DIR": cache})
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise QuodError(f"python {' '.join(arguments)} failed ({done.returncode})")
    return done.stdout
