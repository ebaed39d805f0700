"""A runtime folder for each test, and the end of the helper that it starts."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quod.cli import entry
from quod.resident import client, frames

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"


class Folder:
    """A working folder for commands, whose helper has its socket in the same folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runtime = path / "run" / "quod"
        for name in ("circuit.zkey", "witness.wtns", "verification_key.json"):
            (path / name).write_bytes((EXAMPLE / name).read_bytes())

    def start(self, *words: str, **settings: object) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "quod", *words], cwd=self.path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings,
        )  # fmt: skip

    def run(self, *words: str, **settings: object) -> tuple[int, str, str]:
        """Run a command; return its exit code and the text of both streams, without times."""
        process = self.start(*words, **settings)
        stdout, stderr = process.communicate(timeout=300)
        return process.returncode, stdout, _comparable(stderr)

    def run_here(self, *words: str) -> tuple[int, str, str]:
        """Run a command in this process, as `run` does; quick, as the modules are loaded."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.path),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            code = entry.run(words)
        return code, stdout.getvalue(), _comparable(stderr.getvalue())

    def prove(self, *options: str, **settings: object) -> tuple[int, str, str]:
        """Prove with a seed, through the helper unless an option says otherwise."""
        files = ("circuit.zkey", "witness.wtns", "proof.json", "public.json")
        return self.run(
            "groth16", "prove", *files, "--seed", "1", "--resident", *options, **settings
        )

    @property
    def outputs(self) -> tuple[bytes, bytes]:
        """The proof and its public inputs, which are removed."""
        files = self.path / "proof.json", self.path / "public.json"
        content = files[0].read_bytes(), files[1].read_bytes()
        for file in files:
            file.unlink()
        return content

    def helper(self) -> int:
        """The process of the helper."""
        return int(re.search(r"process (\d+)", self.status())[1])

    def status(self) -> str:
        """The answer of `quod resident status`; empty if there is no helper."""
        return client.ask(frames.STATUS) or ""


def _comparable(text: str) -> str:
    """Text without times, and without the lines on compilation, which is reported where it is."""
    lines = [line for line in text.splitlines() if not line.startswith("compiling")]
    return re.sub(r"[0-9.]+ s\b", "T s", "\n".join(lines))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """A folder with its own helper, which ends with the test."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("QUOD_RESIDENT", raising=False)
    folder = Folder(tmp_path)
    yield folder
    with contextlib.suppress(OSError, frames.FrameError):
        if folder.status():
            process = folder.helper()
            client.ask(frames.STOP)
            end_process(process)


def end_process(process: int) -> None:
    """Wait for the end of a process that is no child, and kill it after a while."""
    for _ in range(500):
        if not is_alive(process):
            return
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def is_alive(process: int) -> bool:
    """Return whether a process runs: one that has ended may still wait for its parent."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
