"""Too little memory is code 7 and one line, whoever notices it: Python, LLVM or the C library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quod.cli import app as app_module
from quod.cli import entry
from quod.device.memory.address_space import memory_limit
from tests.support.thorough import one_and_others

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
PROVE = ["groth16", "prove", str(EXAMPLE / "circuit.zkey"), str(EXAMPLE / "witness.wtns"), "p", "q"]

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces `ulimit -v`")


def limited(
    script: str, kilobytes: int, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A shell command with little address space; `quod` in it is the command."""
    quod = f'quod() {{ {sys.executable} -m quod "$@"; }}; ulimit -v {kilobytes}; {script}'
    return subprocess.run(
        ["sh", "-c", quod], cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, **environment},
    )  # fmt: skip


@linux
@pytest.mark.parametrize(
    "kilobytes",
    one_and_others([60_000, 90_000, 150_000, 250_000, 330_000, 350_000], [60_000, 250_000]),
)
def test_memory_shortage_is_one_line_with_exit_code_7(kilobytes: int, tmp_path: Path) -> None:
    # With an empty cache LLVM works, and is the one that runs out.
    cache = str(tmp_path / "cache")
    done = limited(f"quod {' '.join(PROVE)}", kilobytes, tmp_path, QUOD_CACHE_DIR=cache)
    assert (done.returncode, done.stdout) == (7, ""), done.stderr
    *progress, last = done.stderr.splitlines()
    assert last.startswith("quod: error: ")
    assert all(line.startswith("compiling kernels, ") for line in progress)
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


@linux
def test_commands_that_need_little_run_under_a_limit(tmp_path: Path) -> None:
    done = limited(f"quod inspect {PROVE[2]}", 250_000, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "bn254" in done.stdout
    done = limited("quod inspect missing", 250_000, tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


GUARDED = """
import os, signal, sys, time
from quod.cli import guard
def run():
    {body}
    return 0
sys.exit(guard.run_guarded(run))
"""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return 6", 6),
        ("os.abort()", 7),
        ("os._exit(127)", 7),
        ("os._exit(1)", 7),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_exit_codes_of_limited_commands(body: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GUARDED.format(body=body)], capture_output=True, check=False
    )
    assert done.returncode == code
    assert done.stderr.count(b"\n") == (code == 7)


# Not one sleep: a handler waits for the end of one that begins just after its signal.
LONG = "[time.sleep(0.1) for _ in range(6000)]"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_guarded_command_can_be_terminated(number: signal.Signals) -> None:
    body = f"signal.signal({number:d}, lambda *_: sys.exit(0)); print(flush=True); {LONG}"
    process = subprocess.Popen(
        [sys.executable, "-c", GUARDED.format(body=body)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 7  # as of a process that ends by itself


LIMITED = f"""
import resource, time
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
from quod.cli import entry
entry._dispatch = lambda *_: (print(flush=True), {LONG})
entry.main(["devices"])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_terminated_limited_command_reports_the_signal(number: signal.Signals, code: int) -> None:
    # Five times: the signal comes while the process that passes it on begins to wait.
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", LIMITED], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (code, b"")


def test_thread_start_failure_exits_with_code_7(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(**_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(app_module, "app", command)
    assert entry.run(["devices"]) == 7
    assert "no thread could be started" in capsys.readouterr().err


def test_memory_limit_is_none_by_default() -> None:
    assert memory_limit() is None
