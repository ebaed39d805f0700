"""The line about kernels that compile: on terminals, for programs, unless it is turned off."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import quod
from quod.device import Device
from quod.device.cache.compilations import Compilations, compilations
from tests.device import kernels


@pytest.fixture
def on_at_first() -> Iterator[None]:
    """The line is on before a test and after it."""
    quod.progress(True)
    yield
    quod.progress(True)


# Nothing is compiled: no verdict depends on what is in a cache.
COMPILE = """
import sys
import quod
from quod.device.cache.compilations import compilations
{before}
with compilations.running():
    with compilations.running():
        pass
print("done")
"""


def on_a_terminal(script: str) -> str:
    """The bytes that a program writes to its terminal as standard error, as text."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux tells that the other side has closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(timeout=600) == 0
    return shown.decode()


def test_notice_is_one_line_that_is_erased() -> None:
    shown = on_a_terminal(COMPILE.format(before=""))
    *drawn, erased, end = shown.split("\r")[1:]
    assert [line.rstrip() for line in drawn] == [
        "quod: compiling kernels, once: 0 done, 1 in progress",
        "quod: compiling kernels, once: 0 done, 2 in progress",
        "quod: compiling kernels, once: 1 done, 1 in progress",
    ]
    assert (erased.strip(), len(erased), end) == ("", len(drawn[-1]), "")


def test_progress_false_disables_the_notice() -> None:
    assert on_a_terminal(COMPILE.format(before="quod.progress(False)")) == ""


def test_service_workers_disable_the_notice(on_at_first: None) -> None:
    from quod.service.worker.worker import Worker

    worker = Worker.__new__(Worker)
    worker._thread = threading.Thread(target=lambda: None)
    worker.start()
    assert not compilations._notifies


def test_servers_disable_the_notice(on_at_first: None) -> None:
    from quod.service.server.running import run

    nothing: Any = None
    with pytest.raises(AttributeError):  # There is no configuration.
        asyncio.run(run(nothing, nothing, nothing, asyncio.Event(), asyncio.Event()))
    assert not compilations._notifies


def test_progress_true_enables_the_notice_again() -> None:
    shown = on_a_terminal(COMPILE.format(before="quod.progress(False); quod.progress(True)"))
    assert "0 done, 1 in progress" in shown


def test_no_notice_without_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILE.format(before="")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize(
    "stream",
    [None, SimpleNamespace(), SimpleNamespace(isatty=lambda: True)],
    ids=["none", "no stream", "not writable"],
)
def test_invalid_stderr_is_ignored(stream: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    counts = Compilations()
    with counts.running():
        pass
    assert counts.done == 1


def test_disabling_the_notice_erases_it(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    stream = SimpleNamespace(isatty=lambda: True, write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", stream)
    counts = Compilations()
    with counts.running():
        counts.set_notice(False)
    assert len(written) == 2
    assert re.fullmatch(r"\r +\r", written[1])


def test_a_watcher_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    stream = SimpleNamespace(isatty=lambda: True, write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", stream)
    counts = Compilations()
    with counts.watched(lambda done, asked: None), counts.running():
        pass
    assert written == []


def test_quiet_commands_show_no_notice(on_at_first: None) -> None:
    from quod.cli import entry

    entry.run(["groth16", "verify", "none.json", "none.json", "none.json", "--quiet"])
    assert not compilations._notifies


def test_devices_count_compilations(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On processors and NVIDIA's GPUs; drivers of WebGPU keep their own caches."""
    if device.name.startswith(("webgpu", "emulated")):
        pytest.skip("Quod's cache has no code of this device")
    from quod.device import open_device

    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path))
    requested = compilations.requested
    with open_device(device.name) as fresh:
        array = fresh.upload(np.ones(4, np.uint32))
        fresh.launch(fresh.compile(kernels.increment), 1, 4, array)
        fresh.download(array, np.zeros(4, np.uint32))
    assert compilations.requested > requested
    assert compilations.requested == compilations.done
