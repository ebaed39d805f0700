"""The Python clients: imports, local validation, and asyncio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from quod.errors import InputError, ServiceError
from quod.service.client import AsyncClient, Client, JobState, ProofRequest
from quod.service.errors import NotFoundError, UnauthenticatedError, UnavailableError
from tests.service.queue.crashing import REPOSITORY
from tests.service.server.conftest import Start, keys, start  # noqa: F401

_USE = """
import sys
import threading
from quod.errors import QuodError
from quod.service.client import AsyncClient, Client, ProofRequest

with Client("unix:/nowhere/at all") as client:
    try:
        client.submit(ProofRequest("k", inputs={"a": 1}))
    except QuodError as error:
        print(type(error).__name__)
print({"numpy", "llvmlite", "fastapi", "pydantic", "sqlite3"} & {*sys.modules})
"""


def test_client_imports_few_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _USE], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("UnavailableError\nset()\n", "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give exactly one of wtns, path and inputs, not 0"),
        ({"wtns": b"x", "path": "y"}, "and inputs, not 2"),
        ({"wtns": "x"}, "wtns must be bytes, not a str"),
        ({"path": [b"x"]}, "path must be str, not a bytes"),
        ({"inputs": [{"a": 1}, 7]}, "inputs must be mapping, not a int"),
        ({"wtns": b"x", "priority": 10}, "the priority must be a whole number from 0 to 9"),
        ({"wtns": b"x", "deadline": "now"}, "the deadline must be seconds"),
    ],
)
def test_invalid_requests_are_rejected(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ProofRequest("k", **fields)  # type: ignore[arg-type]


def test_non_json_inputs_are_rejected() -> None:
    with Client("unix:/nowhere") as client:
        for inputs in ({"a": float("nan")}, {"a": object()}):
            with pytest.raises(InputError, match="inputs must map names to whole numbers") as told:
                client.submit(ProofRequest("k", inputs=inputs))
            assert "nan" not in str(told.value)


@pytest.mark.parametrize("address", ["", "nowhere", 7, None, "a\n:1"])
def test_invalid_addresses_are_rejected(address: object) -> None:
    with pytest.raises(InputError, match=r"unix:PATH or HOST:PORT"):
        Client(address)  # type: ignore[arg-type]


def test_missing_certificates_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Client("localhost:1", certificate=tmp_path / "none")


def test_wrong_tokens(start: Start) -> None:  # noqa: F811
    server = start()
    with server.client(token="nobody's at all, really") as client:
        with pytest.raises(UnauthenticatedError, match="unknown token"):
            client.status()
        with pytest.raises(UnauthenticatedError):
            next(client.watch("1-none"))


def test_asyncio(start: Start) -> None:  # noqa: F811
    server = start()

    async def use() -> None:
        async with AsyncClient(server.listeners.grpc[0]) as client:
            request = ProofRequest("membership", wtns=b"x" * (1 << 21))
            jobs = await asyncio.gather(*(client.prove(request) for _ in range(3)))
            assert {job.state for job in jobs} == {JobState.SUCCEEDED}
            events = [event.kind async for event in client.watch(jobs[0].id)]
            assert events[-1] == "ended"
            assert (await client.wait(jobs[0].id)) == jobs[0]
            assert len(await client.jobs()) == 3
            assert (await client.status()).state == "ready"
            [key] = await client.keys()
            await client.preload(key.identity)
            await client.evict("membership")
            await client.resume_key("membership")
            await client.resume_worker("fake")
            assert (await client.cancel(jobs[0].id)).state is JobState.SUCCEEDED
            [outcome] = await client.submit_many([ProofRequest("none", inputs={})])
            assert isinstance(outcome, NotFoundError)
            with pytest.raises(NotFoundError):
                await anext(client.watch("1-none"))
            server.pool.fail_with = "no"
            with pytest.raises(ServiceError, match="is failed"):
                await client.prove(request)

    asyncio.run(use())


def test_a_job_has_its_proof(start: Start) -> None:  # noqa: F811
    server = start()
    with server.client() as client:
        job = client.prove(ProofRequest("membership", wtns=b"x"))
        assert (job.proof, job.public) == ({"protocol": "none"}, ["7"])
        assert (str(job.state), f"{job.state}", int(job.state)) == ("succeeded", "succeeded", 2)
        several = client.prove(ProofRequest("membership", wtns=[b"x", b"y"]))
        with pytest.raises(InputError, match="has 2 proofs; read them from results"):
            _ = several.proof
        server.pool.fail_with = "no"
        failed = client.wait(client.submit(ProofRequest("membership", wtns=b"x")).id)
        with pytest.raises(ServiceError, match="is failed: INVALID_ARGUMENT: no"):
            _ = failed.public


def test_server_outage_raises_unavailable(start: Start) -> None:  # noqa: F811
    server = start(go=False)
    with server.client() as client:
        job = client.submit(ProofRequest("membership", wtns=b"x"))
        events = client.watch(job.id)
        assert next(events).kind == "queued"
        server.pool.leave.set()
        server.stop()
        with pytest.raises(UnavailableError):
            client.wait(job.id)


def test_a_server_that_ends_while_a_client_waits(start: Start) -> None:  # noqa: F811
    server = start(go=False)
    told: list[Exception] = []
    with server.client() as client:
        job = client.submit(ProofRequest("membership", wtns=b"x"))
        server.pool.drain(0)

        def wait() -> None:
            try:
                client.wait(job.id)
            except UnavailableError as error:
                told.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while not client.status().document:
            pass
        server.end()
        server.end()
        waiting.join(60)
        server.pool.leave.set()
        server.join()
    # The job is kept, whether the call had begun or not.
    assert len(told) == 1
