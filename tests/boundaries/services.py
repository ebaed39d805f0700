"""The proving service: queue, keys, workers and clients, by values of clients and operators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from quod import witness
from quod.bench.chain import ChainCircuit
from quod.formats import write_r1cs
from quod.service import client, keys, queue, worker
from tests.boundaries.row import DEVICE, EXAMPLE, FOLDER, Row, row

KEYS = f"{FOLDER.name}/keys"
WASM = EXAMPLE / "circuit.wasm"


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of the queue, keys, witnesses, workers and clients."""
    repository = keys.KeyRepository(KEYS, create=True)
    repository.add(EXAMPLE / "circuit.zkey", wasm=WASM, names=["known"])
    yield from _queue()
    yield from _keys(repository)
    yield from _witnesses(repository)
    yield from _workers(repository)
    yield from _clients()


def _queue() -> Iterator[tuple[str, Row]]:
    text = dict.fromkeys(
        ("client", "key", "payload", "idempotency_key", "worker", "stage", "reason"), "text"
    )

    def texts(*names: str) -> dict[str, str]:
        return {name: text[name] for name in names}

    yield "open_queue", row(
        queue.open_queue, {"folder": "text"}, folder=f"{FOLDER.name}/other", database=None,
        schema="quod", sweep_seconds=None,
    )  # fmt: skip
    yield "Submission", row(
        queue.Submission, texts("client", "key", "payload", "idempotency_key"), client="a", key="k",
        digest=bytes(32), payload="", idempotency_key="", priority=0, deadline=None, partitions=1,
    )  # fmt: skip
    quota = queue.Quota(1, 1)
    yield "Quota", row(queue.Quota, jobs=1, payload_bytes=1)
    yield "Limits", row(
        queue.Limits, quota=quota, clients={}, jobs=1, payload_bytes=1, kept_jobs=1, max_attempts=1,
        lease_seconds=1.0, suspend_after=1, keep_seconds=1.0, result_bytes=1, stage_events=1,
        ballast_bytes=4096,
    )  # fmt: skip
    yield "BlobStore", row(queue.BlobStore, {"folder": "text"}, folder=f"{FOLDER.name}/spool")
    jobs = queue.open_queue(FOLDER.name, sweep_seconds=None)
    job: dict[str, Any] = {"job": "1-" + "0" * 16}
    yield "spool write", row(jobs.blob_store.write, payload="text")
    yield "spool open", row(jobs.blob_store.open, name="0" * 32)
    yield "submit", row(jobs.submit, submission=None)
    yield "submit_many", row(jobs.submit_many, submissions=[])
    yield "begin_submit", row(jobs.begin_submit, submissions=[])
    for call in (jobs.cancel, jobs.job, jobs.results):
        yield call.__name__, row(call, **job, client=None)
    yield "events", row(jobs.events, **job, client=None, after=0, most=1)
    yield "wait", row(jobs.wait, **job, client=None, after=None, timeout=0)
    yield "watch", row(jobs.watch, **job, callback=print)
    yield "find", row(jobs.find, client="a", idempotency_key="k")
    yield "jobs", row(jobs.jobs, {"client": "text"}, client=None, most=1, before=None)
    yield "claim", row(jobs.claim, texts("worker"), worker="w", keys=None, most=1, wait=0)
    yield "renew", row(jobs.renew, texts("stage"), leases=[], stage="")
    yield "finish", row(jobs.finish, lease=None, result=b"")
    yield "fail", row(jobs.fail, lease=None, code="C", message="", retry=True)
    yield "lose", row(jobs.lose, lease=None, code="C", message="")
    yield "release", row(jobs.release, lease=None)
    yield "attempts", row(jobs.attempts, **job)
    yield "suspend", row(jobs.suspend, texts("key", "reason"), key="k", reason="r")
    yield "resume", row(jobs.resume, texts("key"), key="k")


def _keys(repository: keys.KeyRepository) -> Iterator[tuple[str, Row]]:
    key_name: dict[str, Any] = {"key": "known"}
    bytes_of = {"host_bytes": "huge", "device_bytes": "huge"}
    yield "KeyRepository", row(keys.KeyRepository, {"folder": "text"}, folder=KEYS, create=True)
    # The arguments of files are looked at in the order of the signature, and reading a key is slow.
    yield "add", row(
        lambda names, move, allow_insecure: repository.add(
            EXAMPLE / "no such", names=names, move=move, allow_insecure=allow_insecure
        ),
        names=[], move=False, allow_insecure=False,
    )  # fmt: skip
    yield "add files", row(
        lambda zkey, verification_key: repository.add(zkey, verification_key=verification_key),
        zkey=EXAMPLE / "circuit.zkey", verification_key=EXAMPLE / "verification_key.json",
    )  # fmt: skip
    yield "point", row(repository.point, name="other", **key_name, move=True)
    for call in (repository.resolve, repository.record, repository.remove):
        yield call.__name__, row(call, **key_name)
    yield "check", row(repository.check, **key_name, deep=False)
    yield "read", row(repository.read, **key_name, name="circuit.wasm")
    yield "read_zkey", row(repository.read_zkey, **key_name)
    yield "ResidentKeys", row(
        keys.ResidentKeys, bytes_of, repository=repository, device=DEVICE, host_bytes=None,
        device_bytes=None,
    )  # fmt: skip
    resident = keys.ResidentKeys(repository, DEVICE)
    for call in (resident.lease, resident.preload):
        yield f"resident {call.__name__}", row(call, **key_name, timeout=60)
    yield "resident evict", row(resident.evict, **key_name)
    yield "resident warm", row(resident.warm, keys=["known"])


def _witnesses(repository: keys.KeyRepository) -> Iterator[tuple[str, Row]]:
    """Witness calculators and their inputs."""
    inputs, text = (EXAMPLE / "input.json").read_bytes(), {"where": "text"}
    calculator = witness.WitnessCalculator.open(WASM)
    yield "WitnessLimits", row(
        witness.WitnessLimits, seconds=1.0, memory_bytes=1 << 20, compile_seconds=9,
        compile_bytes=1 << 30,
    )  # fmt: skip
    yield "WitnessCalculator", row(
        witness.WitnessCalculator, {"name": "text", "symbols": "text"}, wasm=WASM.read_bytes(),
        name="n", curve="bn254", variables=3993, symbols=None,
    )  # fmt: skip
    yield "WitnessCalculator.open", row(calculator.open, path=WASM)
    yield "calculate", row(calculator.calculate, text, inputs=inputs, where="w")
    yield "witness", row(calculator.witness, text, inputs=inputs, where="w")
    r1cs, chain = Path(FOLDER.name) / "c.r1cs", ChainCircuit("bn254", 1)
    write_r1cs(
        r1cs, curve="bn254", wires=chain.wires, public_outputs=0, public_inputs=1,
        private_inputs=0, **dict(zip("abc", chain.matrices)),
    )  # fmt: skip
    yield "check_witness", row(
        witness.check_witness, {"symbols": "text", "device": "text"}, r1cs=r1cs,
        witness=chain.witness(), symbols=None, device="cpu",
    )  # fmt: skip
    yield "failures", row(
        witness.check_witness(r1cs, chain.witness()).failures, {"most": "huge"}, most=None
    )  # fmt: skip
    yield "RegisteredCalculators", row(
        keys.RegisteredCalculators, {"most": "huge"}, repository=repository, most=1,
        warm=[],
    )  # fmt: skip
    registered = keys.RegisteredCalculators(repository)
    yield "registered", row(registered, key="known", inputs=inputs)
    yield "registered prepare", row(registered.prepare, key="known")


def _workers(repository: keys.KeyRepository) -> Iterator[tuple[str, Row]]:
    """Workers that are not started."""
    huge = ("host_bytes", "device_bytes", "memory_bytes", "reverification_constraints")
    yield "WorkerSettings", row(
        worker.WorkerSettings, {"device": "text", **dict.fromkeys(huge, "huge")}, device="cpu",
        **dict.fromkeys(huge[:3]), warm=("known",), ahead=1, checks=1, lanes=1, patience_seconds=1,
        reverification_constraints=1,
    )  # fmt: skip
    jobs = queue.open_queue(f"{FOLDER.name}/of workers", sweep_seconds=None)
    yield "ProcessPool", row(partial(worker.ProcessPool, jobs, repository), command=["false"])
    local = worker.LocalPool(jobs, repository)
    for call in (local.preload, local.evict):
        yield f"pool {call.__name__}", row(call, key="known", worker=None)
    yield "pool resume", row(local.resume, worker="cpu")
    yield "read_result", row(worker.read_result, data=b"{}")


def _clients() -> Iterator[tuple[str, Row]]:
    """Clients of a server that is not there."""
    yield "ProofRequest", row(
        client.ProofRequest, {"key": "text", "idempotency_key": "text"}, key="k", wtns=b"x",
        path=None, inputs=None, idempotency_key="7", priority=1, deadline=1.0,
    )  # fmt: skip
    for kind in (client.Client, client.AsyncClient):
        yield kind.__name__, row(
            kind, {"token": "text"}, address="unix:none", token="t", certificate=None
        )  # fmt: skip
