"""Work of client-controlled length runs in threads, so that the event loop stays responsive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.service.keys import KeyRepository
from quod.service.server import rpc, submission
from quod.service.server.http import proofs
from tests.service.server.conftest import Start


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[threading.Thread]]:
    """The threads that look at paths and at names of keys, and that write jobs of a list."""
    seen: dict[str, set[threading.Thread]] = {"paths": set(), "names": set(), "jobs": set()}

    def recorded(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            seen[what].add(threading.current_thread())
            return work(*arguments)

        return run

    for what, module, name in (
        ("paths", submission, "path_body"), ("jobs", proofs, "encode_answer"),
        ("jobs", rpc, "job_message"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, recorded(what, getattr(module, name)))
    monkeypatch.setattr(KeyRepository, "resolve", recorded("names", KeyRepository.resolve))
    return seen


def test_client_paths_are_resolved_off_the_event_loop(
    start: Start, tmp_path: Path, threads: dict[str, set[threading.Thread]]
) -> None:
    (tmp_path / "w.wtns").write_bytes(b"wtns")
    server = start(clients={"local": {"root": str(tmp_path)}})
    with server.http() as http:
        body = {"key": "membership", "path": "w.wtns"}
        assert http.post("/v1/proofs", json=body).status_code == 202
        answer = http.post("/v1/proofs/batch", json={"proofs": [body, body | {"path": "none"}]})
    assert [*map(list, answer.json()["outcomes"])] == [["job"], ["error"]]
    assert threads["paths"]
    assert not any(server.is_loop(thread) for thread in threads["paths"])


def test_batch_key_names_are_resolved_off_the_event_loop(
    start: Start, threads: dict[str, set[threading.Thread]]
) -> None:
    server = start()
    proofs = [{"key": f"unknown-{number}", "inputs": {}} for number in range(100)]
    with server.http() as http:
        outcomes = http.post("/v1/proofs/batch", json={"proofs": proofs}).json()["outcomes"]
    assert {outcome["error"]["status"] for outcome in outcomes} == {"NOT_FOUND"}
    assert threads["names"]
    assert not any(server.is_loop(thread) for thread in threads["names"])


def test_job_lists_are_read_off_the_event_loop(
    start: Start, threads: dict[str, set[threading.Thread]]
) -> None:
    server = start()
    with server.http() as http, server.client() as client:
        http.post("/v1/proofs", json={"key": "membership", "inputs": {}})
        # That one job is answered by the loop.
        threads["jobs"].clear()
        assert len(http.get("/v1/proofs").json()["jobs"]) == len(client.jobs()) == 1
    assert threads["jobs"]
    assert not any(server.is_loop(thread) for thread in threads["jobs"])
