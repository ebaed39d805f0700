"""Benchmarks of the server's calls: submissions per second and the overhead of proving.

The server is another process, whose workers do nothing or finish at once; the client is this
process. Each figure is reported with the time of a page sync.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

import grpc

from quod.bench.chain import ChainCircuit
from quod.bench.measure.harness import Case, Parameter
from quod.bench.service.queue import sync_us
from quod.errors import QuodError, ServiceError
from quod.groth16.setup import make_key, write_key
from quod.service.client import AsyncClient, Client, ProofRequest
from quod.service.keys import KeyRepository

_KEY = "chain"
_WITNESS = bytes(128_000)
_SMALL = ProofRequest(_KEY, inputs={"root": "1" * 77, "leaf": "2" * 77})
_JOBS = 2000
"""The number of jobs in a run."""

_PROOFS = 300


def cases(folder: Path) -> Iterator[Case]:
    """Yield single and grouped submissions, and the latency of `Prove`."""
    with tempfile.TemporaryDirectory(prefix="quod-bench-", dir=folder) as temporary:
        folder_of_run = Path(temporary)
        yield Case(
            {"what": "fdatasync of a page"},
            partial(sync_us, folder_of_run),
            "us",
            returns_figure=True,
        )
        write_key(make_key(ChainCircuit("bn254", 10), 1), folder_of_run / "key")
        KeyRepository(folder_of_run / "keys", create=True).add(
            folder_of_run / "key", names=[_KEY], allow_insecure=True
        )
        with _server(folder_of_run, "idle") as address:
            for clients in (1, 64):
                # The baseline of gRPC in Python on this machine.
                run = partial(_bare_us, address, clients)
                yield _case("bare call", run, clients=clients, group=1)
            for clients in (1, 16, 64):
                run = partial(_submit_us, address, clients, 1)
                yield _case("SubmitProof", run, clients=clients, group=1)
            for group in (100, 1000):
                run = partial(_submit_us, address, 1, group)
                yield _case("SubmitProofs", run, clients=1, group=group)
        with _server(folder_of_run, "instant") as address:
            runs: list[list[float]] = []
            for percentile in (50, 99):
                run = partial(_prove_us, address, percentile, runs)
                yield _case(f"Prove, p{percentile}", run, clients=1, group=1)


def _case(what: str, run: Callable[[], float], **labels: Parameter) -> Case:
    return Case({"what": what, **labels}, run, "us", returns_figure=True)


@contextmanager
def _server(folder: Path, kind: str) -> Iterator[str]:
    """Start a server process; yield its address."""
    command = [sys.executable, "-m", "quod.bench.service.submit_server", str(folder), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise ServiceError("the server did not start; see its message above")
            yield line.split()[0]
        finally:
            process.terminate()


def _bare_us(address: str, clients: int) -> float:
    """Return the microseconds per call of the health check, which does no work."""

    async def client(check: Any) -> None:
        for _ in range(_JOBS // clients):
            await check(b"")

    async def all_clients() -> float:
        async with grpc.aio.insecure_channel(address) as channel:
            # An empty message is encoded as zero bytes.
            check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            await check(b"")
            begin = perf_counter()
            await asyncio.gather(*(client(check) for _ in range(clients)))
            return (perf_counter() - begin) / (_JOBS // clients * clients) * 1e6

    return asyncio.run(all_clients())


def _submit_us(address: str, clients: int, group: int) -> float:
    """Return the microseconds per job with `clients` concurrent callers."""

    async def client(remote: AsyncClient, rounds: int) -> None:
        for _ in range(rounds):
            if group == 1:
                await remote.submit(_SMALL)
                continue
            for outcome in await remote.submit_many([_SMALL] * group):
                if isinstance(outcome, QuodError):
                    raise outcome

    async def all_clients() -> float:
        rounds = max(_JOBS // (clients * group), 2)
        async with AsyncClient(address) as remote:
            await client(remote, 1)
            begin = perf_counter()
            await asyncio.gather(*(client(remote, rounds) for _ in range(clients)))
            return (perf_counter() - begin) / (clients * rounds * group) * 1e6

    return asyncio.run(all_clients())


def _prove_us(address: str, percentile: int, runs: list[list[float]]) -> float:
    """Return a percentile of the latency of one proof, in microseconds.

    The 50th percentile measures a new run of sequential proofs; others use the latencies of the
    last run.
    """
    if percentile == 50 or not runs:
        runs.append(_proofs(address))
    return quantiles(runs[-1], n=100)[percentile - 1] * 1e6


def _proofs(address: str) -> list[float]:
    request = ProofRequest(_KEY, wtns=_WITNESS)
    latencies = []
    with Client(address) as client:
        for index in range(_PROOFS + 20):
            begin = perf_counter()
            client.prove(request)
            if index >= 20:
                latencies.append(perf_counter() - begin)
    return latencies
