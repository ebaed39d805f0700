"""Benchmarks of whole processes: start-up, the first proof, and the memory of a proof."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Self

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.provers import (
    IN_PROCESS,
    WHOLE,
    Files,
    Runs,
    process_provers,
    process_verifiers,
)
from quod.errors import (
    DeviceError,
    InputError,
    InsecureKeyError,
    KernelError,
    MismatchError,
    OutputError,
    QuodError,
    VerificationError,
)

if TYPE_CHECKING:
    from quod.bench.peers.programs import ProverAtPath
    from quod.groth16 import ProvingKey

# The library that every start of Quod loads. (LLVM is loaded only to compile.)
_LIBRARIES = "import numpy"


OPTIMISED = {"QUOD_BACKGROUND": "0"}
"""Variables of commands that compile optimised code themselves, so that no later one differs."""

_SCRIPT = Path(sys.executable).with_name("quod")
QUOD = [str(_SCRIPT)] if _SCRIPT.is_file() else ["-m", "quod"]
"""Arguments of Python for quod as its users run it; with `-m` it starts some 8 ms later."""

_COMMANDS = re.compile(r"commands: (\d+)")
"""The number of commands that a helper ran, in its status."""
_MIN_RUNS = 3
_START_BUDGET_SECONDS = 0.060
_PROOF_BUDGET_FACTOR = 1.5
"""The time budget of a whole process, a sum of three parts.

They are the time to start Python and NumPy, `_START_BUDGET_SECONDS`, and
`_PROOF_BUDGET_FACTOR` times a proof with the key resident.
"""


def cases(
    device: str, zkey: Path, witness: Path, peer: ProverAtPath | None = None
) -> Iterator[Case]:
    """Yield start-up times, and proofs by the command with one key and witness.

    peer: a prover that is measured in place of the known ones.
    """
    from quod.formats import Zkey
    from quod.formats.names import circuit_name

    zkey_file = Zkey.open(zkey)
    circuit: dict[str, Parameter] = {
        "circuit": circuit_name(zkey),
        "curve": zkey_file.curve,
        "constraints": zkey_file.constraints,
    }
    libraries = Timed(partial(run_python, "-c", _LIBRARIES))
    resident = Timed(_resident(device, zkey, witness))
    yield Case({"what": "python -c 'import quod'"}, lambda: run_python("-c", "import quod"), "ms")
    yield Case({"what": f"python -c '{_LIBRARIES}'"}, libraries, "ms")
    with tempfile.TemporaryDirectory(prefix="quod-bench-") as directory:
        files = Files(
            zkey, witness,
            *(Path(directory) / name for name in ("vkey.json", "public.json", "proof.json")),
        )  # fmt: skip
        outputs = [str(files.proof), str(files.public)]
        prove = [*QUOD, "groth16", "prove", str(zkey), str(witness), *outputs, "-q"]
        prove += ["--device", device]

        yield Case(
            {"what": f"prove, {what_is_compiled()}", **circuit}, lambda: run_uncached(*prove), "s"
        )
        provers, absent = process_provers(zkey_file.curve, files)
        library_provers: Runs = {}
        if peer is not None:
            provers, absent = {peer.name: peer.opened(files)}, {}
            if peer.is_library:
                provers, library_provers = {}, provers
        yield Case(
            {"what": "prove, whole process", **circuit},
            lambda: run_python(*prove, variables=OPTIMISED),
            "s",
            peers=provers,
            peer_note=WHOLE,
            absent=absent,
        )
        with Helper(Path(directory) / "runtime") as helper:
            yield Case(
                {"what": "prove, with the resident helper", **circuit},
                lambda: helper.run(*prove),
                "s",
                peers=provers or library_provers,
                peer_note=WHOLE if provers else IN_PROCESS,
                absent=absent,
            )
        yield Case(
            {"what": "prove, key resident", **circuit},
            resident,
            "s",
            peers=library_provers,
            peer_note=IN_PROCESS,
        )
        yield Case(
            {"what": "prove, budget of a whole process", **circuit},
            lambda: (
                libraries.median + _PROOF_BUDGET_FACTOR * resident.median + _START_BUDGET_SECONDS
            ),
            unit="s",
            returns_figure=True,
        )
        yield Case(
            {"what": "prove, peak memory", **circuit},
            lambda: peak_bytes(*prove) / 1e6,
            unit="MB",
            returns_figure=True,
        )
        run_python(*prove)
        # Test keys are measured as well.
        allow_option = "--insecure-test-key"
        export = [*QUOD, "zkey", "export", "verificationkey", allow_option]
        run_python(*export, str(zkey), str(files.vkey))
        verify = [*QUOD, "groth16", "verify", allow_option]
        verify += [str(path) for path in (files.vkey, files.public, files.proof)]
        verifiers, absent = process_verifiers(files)
        yield Case(
            {"what": "verify, whole process", **circuit},
            lambda: run_python(*verify, variables=OPTIMISED),
            "s",
            peers=verifiers,
            peer_note=WHOLE,
            absent=absent,
        )


def what_is_compiled() -> str:
    """Describe the kernels that a process with an empty cache need not compile."""
    from quod.device.cache.prebuilt import has_shipped

    return "only shipped kernels compiled" if has_shipped() else "nothing compiled yet"


class Helper:
    """A resident helper for the commands of a measurement alone; it ends with the context.

    folder: a new folder, for its socket.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._variables = {"XDG_RUNTIME_DIR": str(folder)}
        self._runs = 0

    def run(self, *arguments: str) -> None:
        """Run a command of Quod with the helper."""
        run_python(*arguments, "--resident", variables=self._variables)
        self._runs += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the helper; raises QuodError if a command ran without it."""
        if not self._runs:
            return
        status = run_python(*QUOD, "resident", "status", variables=self._variables)
        run_python(*QUOD, "resident", "stop", variables=self._variables)
        # A helper also declines commands, which then run without it.
        commands = _COMMANDS.search(status)
        if commands is None or int(commands[1]) != self._runs:
            raise QuodError("commands ran without the resident helper, or it has ended")


class Timed:
    """A run that records its durations."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        self._seconds: list[float] = []

    def __call__(self) -> None:
        begin = perf_counter()
        self._run()
        self._seconds.append(perf_counter() - begin)

    @property
    def median(self) -> float:
        """The median in seconds, without the first run, which may compile.

        Runs until there are enough durations, if its own row was not measured.
        """
        while len(self._seconds) < 1 + _MIN_RUNS:
            self()
        return median(self._seconds[1:])


def _resident(device: str, zkey: Path, witness: Path) -> Callable[[], object]:
    """Return a function that proves in this process and opens the key on its first call."""
    keys: list[ProvingKey] = []

    def run() -> None:
        if not keys:
            from quod.groth16 import ProvingKey

            keys.append(ProvingKey.from_zkey(zkey, device=device))
        keys[0].prove(witness)

    return run


def chain_cases(device: str, curve: str, sizes: Sequence[int]) -> Iterator[Case]:
    """Yield the compile time of a proof's kernels, for chains of products of these sizes."""
    for constraints in sizes:
        yield Case(
            {
                "what": f"compile a proof's kernels, {what_is_compiled()}",
                "circuit": "chain",
                "curve": curve,
                "constraints": constraints,
            },
            partial(_compile_seconds, device, curve, constraints),
            unit="s",
            returns_figure=True,
        )


def _compile_seconds(device: str, curve: str, constraints: int) -> float:
    code = f"from {__name__} import print_compile_seconds as run; run({device!r}, {curve!r}, "
    return float(run_uncached("-c", f"{code}{constraints})"))


def print_compile_seconds(device: str, curve: str, constraints: int) -> None:
    """Print how much longer the first key opening and proof take than the second.

    This is the time to trace and compile kernels and to choose limbs. The CPU makes the key before.
    """
    from quod.bench.chain import ChainCircuit
    from quod.device.discovery import open_device
    from quod.groth16 import ProvingKey
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


# A process inherits its parent's memory as its own peak, so a nearly empty process reads the peak
# of the measured one.
_PEAK = """
import os, subprocess, sys
with open(os.devnull, "w") as nowhere:
    child = subprocess.Popen(sys.argv[1:], stdout=nowhere, stderr=nowhere)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), flush=True)
os._exit(os.waitstatus_to_exitcode(status) & 255)
"""


# The environment variables of caches: Quod's own, and the compile caches of drivers (NVIDIA's for
# CUDA and Vulkan, and Mesa's).
_CACHES = (
    "QUOD_CACHE_DIR", "CUDA_CACHE_PATH", "__GL_SHADER_DISK_CACHE_PATH", "MESA_SHADER_CACHE_DIR",
)  # fmt: skip


def peak_bytes(*arguments: str) -> int:
    """Run a Python process; return its peak resident memory in bytes."""
    relay = [sys.executable, "-S", "-c", _PEAK, sys.executable, *arguments]
    return int(_run(relay, arguments, None))


def run_python(
    *arguments: str, cache: str | None = None, variables: Mapping[str, str] | None = None
) -> str:
    """Run Python, with further environment variables; return its output."""
    return _run([sys.executable, *arguments], arguments, cache, variables)


def run_uncached(*arguments: str) -> str:
    """Run Python with an empty cache of compiled kernels; return its output."""
    # A background process may store a kernel while the folder is removed.
    with tempfile.TemporaryDirectory(
        prefix="quod-bench-cache-", ignore_cleanup_errors=True
    ) as cache:
        return run_python(*arguments, cache=cache)


# A failing command's exit code becomes the bench's.
_ERRORS = (
    InputError, MismatchError, OutputError, VerificationError, DeviceError, KernelError,
    InsecureKeyError,
)  # fmt: skip


def _run(
    command: list[str],
    arguments: tuple[str, ...],
    cache: str | None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a command, with the caches in a folder of its own if one is given; return its output."""
    environment = {**os.environ, **(variables or {})}
    # Installed packages have bytecode, and a checkout keeps it after the first run.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if cache is not None:
        environment |= dict.fromkeys(_CACHES, cache)
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode != 0:
        last_line = (finished.stderr.strip().splitlines() or ["no message"])[-1]
        error_type = next((e for e in _ERRORS if e.exit_code == finished.returncode), QuodError)
        raise error_type(
            f"python {' '.join(arguments)} failed ({finished.returncode}): {last_line}"
        )
    return finished.stdout
