"""Room for HTTP requests: input uploads, quotas for pending uploads, waiting calls."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from quod.service.payload import PayloadKind, read_body, read_header
from tests.service.server.conftest import Start
from tests.service.server.test_http import BYTES, INPUTS, KEY, refused


def test_inputs_as_an_upload(start: Start) -> None:
    server = start(go=False, requests={"message_bytes": 4096})
    server.pool.drain()
    text = b'{"a": [' + b'"1", ' * 5000 + b'"2"]}'
    with server.http() as http:
        for path in ("/v1/proofs", "/v1/prove"):
            query = {"key": KEY, "kind": "inputs", "timeout": "0"}
            answer = http.post(path, params=query, content=text, headers=BYTES)
            assert answer.status_code == 202
    for lease in server.queue.claim("test", most=9):
        with server.queue.open_payload(lease) as file:
            header = read_header(file, 1)
            assert header.kind is PayloadKind.INPUTS
            assert read_body(file, header.sections[0]) == text


def test_uploads_under_way_count_for_the_quota(start: Start) -> None:
    server = start(clients={"local": {"payload_bytes": 1000}})
    path = server.listeners.http[0].removeprefix("unix:")
    spool = Path(server.config.data) / "spool"
    with socket.socket(socket.AF_UNIX) as slow, server.http() as http:
        slow.connect(path)
        slow.sendall(
            b"POST /v1/proofs?key=membership HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/octet-stream\r\nContent-Length: 700\r\n\r\nx"
        )
        while not list(spool.iterdir()):
            pass
        other = http.post("/v1/proofs?key=membership", content=bytes(700), headers=BYTES)
        assert refused(other)[:2] == (429, "QUEUE_FULL")
        slow.sendall(bytes(699))
        assert slow.recv(4096).startswith(b"HTTP/1.1 202 ")


@pytest.mark.parametrize("raw", [False, True])
def test_rejected_wait_leaves_no_job(start: Start, raw: bool) -> None:
    server = start(go=False, requests={"waits": 1})
    with server.http() as http:
        job = http.post("/v1/proofs", json=INPUTS).json()["id"]

        def wait() -> None:
            with server.http() as session:
                while session.get(f"/v1/proofs/{job}?timeout=60").status_code == 429:
                    pass

        waiting = threading.Thread(target=wait)
        waiting.start()
        options: dict[str, Any] = {"content": b"w", "headers": BYTES} if raw else {"json": INPUTS}
        options |= {"params": {"key": KEY, "timeout": 0}}
        # Until the other one waits this call may.
        while (answer := http.post("/v1/prove", **options)).status_code != 429:
            assert answer.status_code == 202
            http.delete(f"/v1/proofs/{answer.json()['id']}")
        states = [listed["state"] for listed in http.get("/v1/proofs").json()["jobs"]]
        assert [state for state in states if state != "cancelled"] == ["running"]
        server.pool.leave.set()
        waiting.join(60)
