"""The log of a process: uniform lines from every source, without values."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from quod.service.logs import LineFormatter, log_line

EVERYTHING = """
import asyncio, gc, logging, threading, warnings
from quod.service.logs import write_log

write_log("info", as_json=True)
warnings.warn("the witness is 314159")

def broken():
    raise ValueError("the witness is 314159")

thread = threading.Thread(target=broken)
thread.start()
thread.join()

class Broken:
    def __del__(self):
        broken()

Broken()

async def leave_a_task():
    async def broken_task():
        broken()
    asyncio.ensure_future(broken_task())
    await asyncio.sleep(0.01)
    gc.collect()

asyncio.run(leave_a_task())
logging.getLogger("grpc._server").error("the call %s got %s", "Prove", "314159")
broken()
"""


def test_python_output_is_logged_without_values() -> None:
    run = subprocess.run([sys.executable, "-c", EVERYTHING], capture_output=True, text=True)
    lines = [json.loads(line) for line in run.stderr.splitlines()]
    assert [line["message"] for line in lines] == [
        "a library issued a warning",
        "a thread ended with an error",
        "an error in a destructor or callback was ignored",
        "Task exception was never retrieved",
        "the call %s got %s",
        "the process ended with an error",
    ]
    assert lines[0]["place"].endswith(":6")
    assert {line["error"]["kind"] for line in lines if "error" in line} == {"ValueError"}
    assert "314159" not in run.stderr


def test_lines_of_other_processes(caplog: pytest.LogCaptureFixture) -> None:
    formatter = LineFormatter(as_json=True)
    record = logging.makeLogRecord({
        "name": "quod.inner", "levelname": "WARNING", "msg": "100 % of it", "job": "1-a",
    })  # fmt: skip
    written = formatter.format(record)
    log_line(written.encode() + b"\n", {"worker": "gpu 0"})
    log_line(b"terminate called without an active exception\xff\n", {"worker": "gpu 0"})
    log_line(b"[1]\n", {"worker": "gpu 0"})
    log_line(b"\n", {"worker": "gpu 0"})
    structured, raw, listed = [json.loads(formatter.format(entry)) for entry in caplog.records]
    assert structured == json.loads(written) | {"worker": "gpu 0"}
    assert caplog.records[0].levelno == logging.WARNING
    assert raw["text"] == "terminate called without an active exception\ufffd"
    assert (raw["message"], raw["worker"]) == ("a line on standard error", "gpu 0")
    assert listed["text"] == "[1]"
