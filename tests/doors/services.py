"""The proving service in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quod import witness
from quod.bench.chain import ChainCircuit
from quod.formats import write_r1cs
from quod.service import client as service_client
from quod.service import keys as service_keys
from quod.service import queue as service_queue
from quod.service import worker as service_worker
from tests.doors.row import DEVICE, EXAMPLE, OPTIONAL, QUEUE, Row


def rows_of_the_queue() -> Iterator[tuple[str, Row]]:
    """The queue of the service, of which one is open in a folder that goes with the process."""
    folder = QUEUE.name
    yield "open_queue", Row(
        service_queue.open_queue,
        {"folder": f"{folder}/other", "database": None, "schema": "quod", "limits": None,
         "sweep_seconds": None, "clock": None},
        {"folder": ("text",), "database": OPTIONAL, "limits": OPTIONAL, "clock": OPTIONAL,
         "sweep_seconds": ("None", "a float")},
    )  # fmt: skip
    yield "Submission", Row(
        service_queue.Submission,
        {"client": "a", "key": "k", "digest": bytes(32), "payload": "", "idempotency_key": "",
         "priority": 0, "deadline": None, "partitions": 1},
        {"client": ("text",), "key": ("text",), "payload": ("text",), "idempotency_key": ("text",),
         "deadline": ("None", "a float")},
    )  # fmt: skip
    yield "Quota", Row(service_queue.Quota, {"jobs": 1, "payload_bytes": 1})
    yield "Limits", Row(
        service_queue.Limits,
        {"quota": service_queue.Quota(), "clients": {}, "jobs": 1, "payload_bytes": 1,
         "kept_jobs": 1, "max_attempts": 1, "lease_seconds": 1.0, "suspend_after": 1,
         "keep_seconds": 1.0, "result_bytes": 1, "stage_events": 1, "ballast_bytes": 4096},
        {"clients": ("a mapping",), "lease_seconds": ("a float",), "keep_seconds": ("a float",)},
    )  # fmt: skip
    yield "Spool", Row(service_queue.Spool, {"folder": f"{folder}/spool"}, {"folder": ("text",)})
    queue = service_queue.open_queue(folder, sweep_seconds=None)
    lease = {"lease": None}
    job = {"job": "1-" + "0" * 16}
    own = {**job, "client": None}
    optional = {"client": OPTIONAL}
    yield (
        "spool write",
        Row(queue.spool.write, {"payload": "text"}, {"payload": ("bytes", "a mapping")}),
    )
    yield "spool open", Row(queue.spool.open, {"name": "0" * 32})
    yield "queue submit", Row(queue.submit, {"submission": None})
    yield "queue submit_many", Row(queue.submit_many, {"submissions": []})
    yield "queue begin_submit", Row(queue.begin_submit, {"submissions": []})
    for call in (queue.cancel, queue.job, queue.results):
        yield f"queue {call.__name__}", Row(call, own, optional)
    yield "queue events", Row(queue.events, {**own, "after": 0, "most": 1}, optional)
    yield "queue wait", Row(
        queue.wait, {**own, "after": None, "timeout": 0}, {**optional, "after": OPTIONAL}
    )  # fmt: skip
    yield "queue watch", Row(queue.watch, {**job, "callback": print}, {"callback": ("a class",)})
    yield "queue find", Row(queue.find, {"client": "a", "idempotency_key": "k"})
    yield "queue jobs", Row(
        queue.jobs, {"client": None, "most": 1, "before": None},
        {"client": ("None", "text"), "before": OPTIONAL},
    )  # fmt: skip
    yield "queue claim", Row(
        queue.claim, {"worker": "w", "keys": None, "most": 1, "wait": 0},
        {"worker": ("text",), "keys": OPTIONAL, "wait": ("a float",)},
    )  # fmt: skip
    yield "queue renew", Row(queue.renew, {"leases": [], "stage": ""}, {"stage": ("text",)})
    yield "queue finish", Row(queue.finish, {**lease, "result": b""})
    yield "queue fail", Row(queue.fail, {**lease, "code": "C", "message": "", "retry": True})
    yield "queue lose", Row(queue.lose, {**lease, "code": "C", "message": ""})
    yield "queue release", Row(queue.release, lease)
    yield "queue attempts", Row(queue.attempts, job)
    yield (
        "queue suspend",
        Row(queue.suspend, {"key": "k", "reason": "r"}, {"key": ("text",), "reason": ("text",)}),
    )
    yield "queue resume", Row(queue.resume, {"key": "k"}, {"key": ("text",)})


def rows_of_the_keys() -> Iterator[tuple[str, Row]]:
    """A repository of keys in the same folder, and those that are loaded."""
    folder = f"{QUEUE.name}/keys"
    repository = service_keys.KeyRepository(folder, create=True)
    zkey = EXAMPLE / "circuit.zkey"
    repository.add(zkey, names=["known"])
    keys = service_keys.ResidentKeys(repository, DEVICE)
    known, switch = {"key": "known"}, ("true",)
    yield "KeyRepository", Row(
        service_keys.KeyRepository, {"folder": folder, "create": True},
        {"folder": ("text",), "create": switch},
    )  # fmt: skip
    yield "repository add", Row(
        repository.add,
        {"zkey": zkey, "verification_key": EXAMPLE / "verification_key.json",
         "wasm": None, "names": [], "move": False, "allow_insecure": False},
        {"wasm": OPTIONAL, "verification_key": OPTIONAL, "move": switch, "allow_insecure": switch},
    )  # fmt: skip
    yield "repository point", Row(
        repository.point, {"name": "other", **known, "move": True}, {"move": switch}
    )  # fmt: skip
    for call in (repository.resolve, repository.record, repository.remove):
        yield f"repository {call.__name__}", Row(call, known)
    yield "repository check", Row(repository.check, {**known, "deep": False}, {"deep": switch})
    yield "repository read", Row(repository.read, {**known, "name": "circuit.wasm"})
    yield "repository read_zkey", Row(repository.read_zkey, known)
    yield "ResidentKeys", Row(
        service_keys.ResidentKeys,
        {"repository": repository, "device": DEVICE, "host_bytes": None, "device_bytes": None},
        {"host_bytes": ("None", "huge"), "device_bytes": ("None", "huge")},
    )  # fmt: skip
    for call in (keys.lease, keys.preload):
        yield f"keys {call.__name__}", Row(
            call, {**known, "timeout": 60}, {"timeout": ("None", "a float")}
        )  # fmt: skip
    yield "keys evict", Row(keys.evict, known)
    yield "keys warm", Row(keys.warm, {"keys": ["known"]})


def rows_of_witnesses() -> Iterator[tuple[str, Row]]:
    """Witness calculators and what they may take."""
    yield "WitnessLimits", Row(
        witness.WitnessLimits,
        {"seconds": 1.0, "memory_bytes": 1 << 20, "compile_seconds": 9, "compile_bytes": 1 << 30},
        {"seconds": ("a float",)},
    )  # fmt: skip
    calculator = witness.WitnessCalculator.open(EXAMPLE / "circuit.wasm")
    yield "WitnessCalculator", Row(
        witness.WitnessCalculator,
        {"wasm": (EXAMPLE / "circuit.wasm").read_bytes(), "name": "n", "curve": "bn254",
         "variables": 3993, "limits": None, "symbols": None},
        {"name": ("text",), "curve": OPTIONAL, "variables": OPTIONAL, "limits": OPTIONAL,
         "symbols": ("text", *OPTIONAL)},
    )  # fmt: skip
    yield "WitnessCalculator.open", Row(
        calculator.open, {"path": EXAMPLE / "circuit.wasm", "limits": None}, {"limits": OPTIONAL}
    )  # fmt: skip
    inputs = (EXAMPLE / "input.json").read_bytes()
    yield "calculate", Row(
        calculator.calculate, {"inputs": inputs, "where": "w"}, {"where": ("text",)}
    )  # fmt: skip
    yield "witness", Row(
        calculator.witness, {"inputs": inputs, "where": "w"}, {"where": ("text",)}
    )  # fmt: skip
    yield "checked", Row(calculator.checked, {"wtns": calculator.calculate(inputs)})
    r1cs = Path(QUEUE.name) / "c.r1cs"
    one = ChainCircuit("bn254", 1)
    a, b, c = one.matrices
    write_r1cs(
        r1cs, curve="bn254", wires=one.wires, public_outputs=0, public_inputs=1, private_inputs=0,
        a=a, b=b, c=c,
    )  # fmt: skip
    yield "check_witness", Row(
        witness.check_witness,
        {"r1cs": r1cs, "witness": one.witness(), "symbols": None, "device": "cpu"},
        {"symbols": ("None", "text"), "device": ("text",)},
    )  # fmt: skip
    yield "failures", Row(
        witness.check_witness(r1cs, one.witness()).failures, {"most": None},
        {"most": ("None", "huge")},
    )  # fmt: skip
    repository = service_keys.KeyRepository(f"{QUEUE.name}/keys", create=True)
    yield "RegisteredCalculators", Row(
        service_keys.RegisteredCalculators,
        {"repository": repository, "limits": None, "most": 1, "warm": []},
        {"limits": OPTIONAL, "most": ("huge",)},
    )  # fmt: skip
    wasm = EXAMPLE / "circuit.wasm"
    repository.remove("known")
    repository.add(EXAMPLE / "circuit.zkey", wasm=wasm, names=["known"])
    registered = service_keys.RegisteredCalculators(repository)
    yield "registered", Row(registered, {"key": "known", "inputs": inputs})
    yield "registered prepare", Row(registered.prepare, {"key": "known"})


def rows_of_clients() -> Iterator[tuple[str, Row]]:
    """Clients of a server that is not there."""
    yield "ProofRequest", Row(
        service_client.ProofRequest,
        {"key": "k", "wtns": b"x", "path": None, "inputs": None, "idempotency_key": "7",
         "priority": 1, "deadline": 1.0},
        {"key": ("text",), "wtns": ("bytes",), "path": ("None",), "inputs": ("None",),
         "idempotency_key": ("text",), "deadline": ("None", "a float")},
    )  # fmt: skip
    for name in ("Client", "AsyncClient"):
        yield (
            name,
            Row(
                getattr(service_client, name),
                {"address": "unix:none", "token": "t", "certificate": None},
                {"token": ("None", "text"), "certificate": ("None", "true")},
            ),
        )


def rows_of_the_workers() -> Iterator[tuple[str, Row]]:
    """Workers of the queue and the keys above, which are not started."""
    queue = service_queue.open_queue(f"{QUEUE.name}/of workers", sweep_seconds=None)
    repository = service_keys.KeyRepository(f"{QUEUE.name}/keys", create=True)
    right: dict[str, Any] = {
        "device": "cpu", "host_bytes": None, "device_bytes": None, "memory_bytes": None,
        "warm": ("known",), "ahead": 1, "checks": 1, "lanes": 1, "patience_seconds": 1,
        "arbiter_constraints": 1,
    }  # fmt: skip
    bytes_fine, number = ("None", "huge"), ("a float",)
    yield "WorkerSettings", Row(
        service_worker.WorkerSettings, right,
        {"device": ("text",), "host_bytes": bytes_fine, "device_bytes": bytes_fine,
         "memory_bytes": bytes_fine, "lanes": OPTIONAL, "patience_seconds": number,
         "arbiter_constraints": ("huge",)},
    )  # fmt: skip
    pool = service_worker.LocalPool(queue, repository)
    yield "LocalPool", Row(
        service_worker.LocalPool,
        {"queue": queue, "repository": repository, "workers": [service_worker.WorkerSettings()]},
    )  # fmt: skip
    yield "ProcessPool", Row(
        service_worker.ProcessPool,
        {"queue": queue, "repository": repository, "workers": [service_worker.WorkerSettings()],
         "command": ["false"]},
    )  # fmt: skip
    for call in (pool.preload, pool.evict):
        yield (
            f"workers {call.__name__}",
            Row(call, {"key": "known", "worker": None}, {"worker": OPTIONAL}),
        )
    yield "workers resume", Row(pool.resume, {"worker": "cpu"})
    yield "read_result", Row(service_worker.read_result, {"data": b"{}"})


def rows() -> Iterator[tuple[str, Row]]:
    """Of the queue, keys, witnesses, workers and clients."""
    yield from rows_of_the_queue()
    yield from rows_of_the_keys()
    yield from rows_of_witnesses()
    yield from rows_of_the_workers()
    yield from rows_of_clients()
