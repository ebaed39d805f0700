"""A server that is killed in the middle of a job proves it after its next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from quod.filecoin.parameters import read_verifying_key
from quod.filecoin.proving import verify_proof
from tests.filecoin.made_parameters import WINDOW
from tests.filecoin.test_proving import statement_of
from tests.service.filecoin.curio_client import COMPLETED, CurioClient, decoded
from tests.service.filecoin.messages import window_request

SECONDS = 300


def started(
    folder: Path, params: Path, **variables: str
) -> tuple[subprocess.Popen[str], CurioClient]:
    """Start `quod serve`; return its process, once it listens, and a client."""
    words = [sys.executable, "-m", "quod", "serve", "--data", str(folder)]
    process = subprocess.Popen(
        [*words, "--filecoin", str(params), "--insecure-test-key"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=os.environ | variables,
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline().split()
    assert address, "the server did not start"
    return process, CurioClient(address[1])


def running_job(client: CurioClient) -> str:
    """Submit a job; return its id once it is running."""
    job = client.submit(window_request(7))
    deadline = time.monotonic() + SECONDS
    while not (running := decoded(client.ask("GetStatus")[1][0])[5]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert running == [job.encode()]
    return job


def test_killed_in_the_middle_of_a_job(params: Path, data: Path) -> None:
    process, client = started(data / "killed", params)
    try:
        job = running_job(client)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        client.close()
    process, client = started(data / "killed", params)
    try:
        result = client.await_proof(job)
        assert result[2] == [COMPLETED]
        key = read_verifying_key(WINDOW, params, allow_insecure=True)
        assert verify_proof(key, statement_of(7), result[3][0])
    finally:
        process.terminate()
        assert process.wait(SECONDS) == 0
        client.close()


def test_a_second_signal(params: Path, data: Path, tmp_path: Path) -> None:
    """It ends a server whose proof would take another minute, as its kernels are not compiled."""
    tmp_path.chmod(0o700)
    process, client = started(data / "hurried", params, QUOD_CACHE_DIR=str(tmp_path))
    running_job(client)
    client.close()
    begin = time.monotonic()
    for _ in range(2):
        process.terminate()
        time.sleep(0.5)
    assert process.wait(SECONDS) == 0
    assert time.monotonic() - begin < 20
