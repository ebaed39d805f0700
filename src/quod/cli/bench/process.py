"""Whole processes: how long Quod takes to start, the first proof ever, and a proof's memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

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


def chain_cases(device: str, curve: str, sizes: Sequence[int]) -> Iterator[Case]:
    """What the kernels of a proof take to compile, for chains of products of these sizes."""
    for constraints in sizes:
        yield Case(
            {
                "what": "compile a proof's kernels, nothing compiled yet",
                "circuit": "chain",
                "curve": curve,
                "constraints": constraints,
            },
            partial(_compile_seconds, device, curve, constraints),
            unit="s",
            reads=True,
        )


def _compile_seconds(device: str, curve: str, constraints: int) -> float:
    code = f"from {__name__} import print_compile_seconds as run; run({device!r}, {curve!r}, "
    with tempfile.TemporaryDirectory(prefix="quod-bench-cache-") as cache:
        return float(_python("-c", f"{code}{constraints})", cache=cache))


def print_compile_seconds(device: str, curve: str, constraints: int) -> None:
    """How much longer the first opening of a key takes than the next, each with a proof.

    That is the time that kernels take to be traced and compiled, and limbs to be chosen. The key is
    made before, by the processor.
    """
    from quod.device.discovery import open_device
    from quod.groth16 import ProvingKey
    from quod.groth16.chain import ChainCircuit
    from quod.groth16.setup import make_key

    system = ChainCircuit(curve, constraints)
    witness, zkey = system.witness(), make_key(system, 1)
    opened = open_device(device)
    seconds = []
    for _ in range(2):
        begin = perf_counter()
        key = ProvingKey(zkey, opened)
        key.prove(witness)
        seconds.append(perf_counter() - begin)
        key.close()
    print(seconds[0] - seconds[1])


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


# Quod's own, and those in which drivers keep what they have compiled: NVIDIA's for CUDA and for
# Vulkan, and Mesa's.
_CACHES = (
    "QUOD_CACHE_DIR", "CUDA_CACHE_PATH", "__GL_SHADER_DISK_CACHE_PATH", "MESA_SHADER_CACHE_DIR",
)  # fmt: skip


def _peak_bytes(*arguments: str) -> int:
    """The peak resident memory of a Python process, run to its end."""
    relay = [sys.executable, "-S", "-c", _PEAK, sys.executable, *arguments]
    return int(_run(relay, arguments, None))


def _python(*arguments: str, cache: str | None = None) -> str:
    """Runs Python to its end; what it has printed."""
    return _run([sys.executable, *arguments], arguments, cache)


def _run(command: list[str], arguments: tuple[str, ...], cache: str | None) -> str:
    environment = dict(os.environ)
    if cache is not None:
        environment |= dict.fromkeys(_CACHES, cache)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise QuodError(f"python {' '.join(arguments)} failed ({done.returncode}): {last}")
    return done.stdout
