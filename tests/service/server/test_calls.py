"""Calls over gRPC by the Python client: each does as documented."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status

from quod.errors import InputError, ServiceError
from quod.service.client import JobState, ProofRequest
from quod.service.errors import (
    AlreadyExistsError,
    DeadlinePassedError,
    KeyInUseError,
    KeySuspendedError,
    NotFoundError,
    QueueFullError,
    UnavailableError,
)
from quod.service.payload import PayloadKind, open_witness, read_body, read_header
from quod.service.protocol import quod_pb2 as pb
from quod.service.protocol.calls import CALLS, SERVICE
from tests.service.server.conftest import Start
from tests.service.server.fake_pool import RESULT
from tests.service.server.running_server import RunningServer

WITNESS = b"wtns of a witness"
KEY = "membership"


def wanted(**fields: object) -> ProofRequest:
    return ProofRequest(**({"key": KEY, "wtns": WITNESS} | fields))  # type: ignore[arg-type]


class TestProving:
    """From a request to a result."""

    def test_prove(self, server: RunningServer) -> None:
        with server.client() as client:
            job = client.prove(wanted(priority=3))
            assert (job.state, job.client, job.priority) == (JobState.SUCCEEDED, "local", 3)
            assert job.results == (json.loads(RESULT),)
            assert job.created <= (job.started or 0) <= (job.ended or 0)
            assert client.wait(job.id) == job
            assert [listed.id for listed in client.jobs()] == [job.id]

    def test_a_job_that_fails(self, server: RunningServer) -> None:
        server.pool.fail_with = "the witness is of another circuit"
        with server.client() as client:
            with pytest.raises(ServiceError, match="failed: INVALID_ARGUMENT: the witness is of"):
                client.prove(wanted())
            [job] = client.jobs()
            assert (job.state, job.code) == (JobState.FAILED, "INVALID_ARGUMENT")

    def test_workers_get_the_submitted_payloads(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "w.wtns").write_bytes(b"of a file")
        server = start(go=False, clients={"local": {"root": tmp_path}})
        server.pool.drain()
        with server.client() as client:
            client.submit(wanted(wtns=[b"one", b"two"]))
            client.submit(wanted(wtns=None, path="w.wtns"))
            client.submit(wanted(wtns=None, inputs={"a": [1 << 300, "5"]}))
        leases = server.queue.claim("test", most=9)
        witnesses = []
        for lease in leases:
            with server.queue.open_payload(lease) as file:
                header = read_header(file, lease.partitions)
                if header.kind is PayloadKind.INPUTS:
                    witnesses.append(json.loads(read_body(file, header.sections[lease.partition])))
                    continue
                with open_witness(file, header, lease.partition) as (source, section):
                    witnesses.append(read_body(source, section))
        assert witnesses == [b"one", b"two", b"of a file", {"a": [1 << 300, "5"]}]
        assert len({lease.key for lease in leases}) == 1
        assert len(leases[0].key) == 64

    def test_large_witnesses_are_sent_in_chunks(self, server: RunningServer) -> None:
        large = bytes(range(256)) * 20_000
        with server.client() as client:
            job = client.prove(wanted(wtns=[large, large[:7]]))
            assert job.partitions == 2
            assert len(job.results) == 2
            stored_job = server.queue.job(job.id)
            assert stored_job.payload_bytes == len(large) + 7 + 16 + 16

    def test_an_upload_and_a_message_are_the_same_request(self, server: RunningServer) -> None:
        large = bytes((1 << 20) + 1)
        with server.client() as client:
            job = client.submit(wanted(wtns=large, idempotency_key="7"))
            request = pb.SubmitProofRequest(
                key=KEY, witnesses=[pb.Witness(wtns=large)], idempotency_key="7"
            )
            again = raw_call(server, "SubmitProof", request)
            assert again.id == job.id

    def test_submit_many(self, start: Start) -> None:
        server = start(clients={"local": {"priority": 4, "roles": ["client"]}})
        requests = [wanted(idempotency_key=str(at)) for at in range(100)]
        requests[3] = wanted(key="none")
        requests[5] = wanted(priority=5)
        requests[7] = requests[6]
        with server.client() as client:
            outcomes = client.submit_many(requests)
            assert isinstance(outcomes[3], NotFoundError)
            assert isinstance(outcomes[5], ServiceError)
            assert "highest priority of local is 4" in str(outcomes[5])
            ids = [outcome.id for outcome in outcomes if not isinstance(outcome, Exception)]
            assert len(ids) == 98
            assert len({*ids}) == 97
            for job in ids:
                assert client.wait(job).state is JobState.SUCCEEDED
            with pytest.raises(InputError, match="up to 1000 jobs, not 1001"):
                client.submit_many([wanted()] * 1001)


class TestPromises:
    """Promises that a well-known service declares and breaks (service.md, 1.3)."""

    def test_cancel_of_waiting_and_of_running_work(self, start: Start) -> None:
        server = start(go=False)
        with server.client() as client:
            running, waiting = client.submit(wanted()), client.submit(wanted())
            assert next(e for e in client.watch(running.id, after=1)).kind == "started"
            assert client.cancel(waiting.id).state is JobState.CANCELLED
            assert client.cancel(running.id).state is JobState.CANCELLED
            server.pool.leave.set()
            third = client.prove(wanted())
            assert client.wait(running.id).state is JobState.CANCELLED
            assert client.cancel(third.id).state is JobState.SUCCEEDED

    def test_wait_ends_at_its_timeout(self, start: Start) -> None:
        server = start(go=False)
        with server.client() as client:
            job = client.submit(wanted())
            begin = time.monotonic()
            assert not client.wait(job.id, timeout=0.2).state.ended
            assert 0.2 <= time.monotonic() - begin < 20
            assert client.wait(job.id, timeout=0).id == job.id

    def test_many_waiters_use_no_threads(self, start: Start) -> None:
        server = start(go=False)
        with server.client() as client:
            job = client.submit(wanted())
            before = threading.active_count()
            call = CALLS["AwaitProof"]
            with grpc.insecure_channel(server.listeners.grpc[0]) as channel:
                wait = channel.unary_unary(
                    call.path, request_serializer=call.write_request,
                    response_deserializer=call.read_response,
                )  # fmt: skip
                waits = [wait.future(pb.AwaitProofRequest(job=job.id)) for _ in range(200)]
                assert client.wait(job.id, timeout=0.1).state is not JobState.SUCCEEDED
                # Threads of the server's are a fixed number.
                assert threading.active_count() - before < 40
                server.pool.leave.set()
                assert {future.result().state for future in waits} == {pb.JobState.SUCCEEDED}

    def test_repeated_request_is_one_job(self, start: Start) -> None:
        server = start(go=False)
        with server.client() as client:
            first = client.submit(wanted(idempotency_key="7"))
            assert client.submit(wanted(idempotency_key="7")).id == first.id
            for other in ({"wtns": b"x"}, {"priority": 1}, {"deadline": time.time() + 99}):
                with pytest.raises(AlreadyExistsError, match="idempotency key for another request"):
                    client.submit(wanted(idempotency_key="7", **other))
            assert len(client.jobs()) == 1
            # The payloads of those that were not taken are gone.
            server.queue.blob_store.drain()
            assert not list((Path(server.config.data) / "spool").iterdir())
            rows = server.queue._store.read(lambda tx: tx.rows("SELECT job FROM payload"))
            assert len(rows) == 1

    def test_jobs_survive_the_server(self, start: Start, tmp_path: Path) -> None:
        server = start(go=False, data=tmp_path / "kept")
        with server.client() as client:
            job = client.submit(wanted())
        server.pool.drain(0)
        server.stop()
        again = start(data=tmp_path / "kept")
        with again.client() as client:
            assert client.wait(job.id).state is JobState.SUCCEEDED

    def test_status_is_current(self, start: Start) -> None:
        server = start(go=False)
        with server.client() as client:
            client.submit(wanted(priority=2))
            waiting = client.submit(wanted(priority=2))
            assert next(iter(client.watch(waiting.id))).kind == "queued"
            status = client.status()
            assert (status.state, status.jobs) == ("ready", 2)
            assert status.payload_bytes == 2 * (len(WITNESS) + 24)
            assert status.document is not None
            assert status.document["queue"]["clients"][0]["client"] == "local"
            assert len(status.document["jobs"]) == 2

    def test_keys_are_loaded_and_evicted(self, server: RunningServer) -> None:
        with server.client() as client:
            [key] = client.keys()
            assert (key.names, key.curve, key.constraints) == (
                ("membership:latest",),
                "bn254",
                3980,
            )
            client.preload(KEY)
            client.evict(KEY)
            assert server.pool.calls == [
                ("preload", key.identity, None), ("evict", key.identity, None),
            ]  # fmt: skip
            with pytest.raises(KeyInUseError, match="leased"):
                client.evict(KEY, worker="fake")
            with pytest.raises(NotFoundError, match="no worker"):
                client.preload(KEY, worker="none")
            client.resume_worker("fake")
            assert server.pool.calls[-1] == ("resume", "fake", None)

    def test_suspended_keys(self, server: RunningServer) -> None:
        with server.client() as client:
            [key] = client.keys()
            server.queue.suspend(key.identity, "it kills")
            with pytest.raises(KeySuspendedError, match="suspended"):
                client.submit(wanted())
            client.resume_key(KEY)
            assert client.prove(wanted()).state is JobState.SUCCEEDED

    def test_health_follows_the_workers(self, server: RunningServer) -> None:
        health: Any = health_pb2_grpc.HealthStub(grpc.insecure_channel(server.listeners.grpc[0]))
        for name in ("", SERVICE):
            server.pool.ready = False
            changes = health.Watch(health_pb2.HealthCheckRequest(service=name), timeout=60)
            await_health(changes, "NOT_SERVING")
            server.pool.ready = True
            await_health(changes, "SERVING")
            changes.cancel()

    def test_drain(self, start: Start) -> None:
        server = start(go=False)
        health: Any = health_pb2_grpc.HealthStub(grpc.insecure_channel(server.listeners.grpc[0]))
        asked = health_pb2.HealthCheckRequest(service=SERVICE)
        changes = health.Watch(asked)
        await_health(changes, "SERVING")
        assert health.Check(asked).status == health_pb2.HealthCheckResponse.SERVING
        with server.client() as client:
            job = client.submit(wanted())
            assert next(client.watch(job.id, after=1)).kind == "started"
            server.end()
            assert next(changes).status == health_pb2.HealthCheckResponse.NOT_SERVING
            with pytest.raises(UnavailableError, match="accepts no jobs") as told:
                client.submit(wanted())
            assert told.value.retry_seconds == 60
            assert client.status().state == "draining"
            changes.cancel()
            server.pool.leave.set()
            assert server.join() is True
        assert server.pool.proofs == 1

    def test_second_signal_stops_immediately(self, start: Start) -> None:
        server = start(go=False)
        with server.client() as client:
            job = client.submit(wanted())
            assert next(client.watch(job.id, after=1)).kind == "started"
        server.end()
        server.end()
        server.pool.leave.set()
        server.join()


class TestEvents:
    """Streams of what happens to a job."""

    def test_events_from_the_start_or_a_given_number(self, server: RunningServer) -> None:
        with server.client() as client:
            job = client.prove(wanted())
            events = list(client.watch(job.id))
            assert [event.kind for event in events] == ["queued", "started", "stage", "ended"]
            assert [event.number for event in events] == [1, 2, 3, 4]
            assert list(client.watch(job.id, after=2)) == events[2:]
            assert list(client.watch(job.id, after=99)) == []

    def test_events_arrive_as_they_happen(self, start: Start) -> None:
        server = start(go=False)
        with server.client() as client:
            job = client.submit(wanted())
            events = client.watch(job.id)
            assert [next(events).kind, next(events).kind] == ["queued", "started"]
            server.pool.leave.set()
            assert [event.kind for event in events] == ["stage", "ended"]

    def test_event_streams_per_client_are_bounded(self, start: Start) -> None:
        server = start(go=False, requests={"streams": 2})
        with server.client() as client:
            job = client.submit(wanted())
            open_ones = [client.watch(job.id) for _ in range(2)]
            for stream in open_ones:
                next(stream)
            with pytest.raises(QueueFullError, match="2 streams at a time") as told:
                next(client.watch(job.id))
            assert told.value.retry_seconds == 1
            open_ones[0].close()
            for _ in range(1000):
                try:
                    assert next(client.watch(job.id)).kind == "queued"
                    break
                except QueueFullError:
                    # The server has not heard yet.
                    assert client.wait(job.id, timeout=0.01)
            else:
                pytest.fail("the place of a stream that ended was not given back")


class TestRefusals:
    """Refused requests, and the messages of the errors."""

    @pytest.mark.parametrize(
        ("request_", "error", "message"),
        [
            (wanted(key="none"), NotFoundError, "no key none:latest"),
            (wanted(key="0" * 64), NotFoundError, "no key 0000"),
            (wanted(key="NO KEY"), InputError, "the name of a key must be NAME"),
            (wanted(deadline=1.0), DeadlinePassedError, "in the past"),
            (wanted(wtns=b""), InputError, "bytes of partition 0"),
            (wanted(wtns=[]), InputError, "one witness for each partition"),
            (wanted(wtns=[b"x"] * 1025), InputError, "1 to 1024 partitions"),
        ],
    )
    def test_invalid_requests_are_rejected(
        self, quiet: RunningServer, request_: ProofRequest, error: type[Exception], message: str
    ) -> None:
        with quiet.client() as client:
            with pytest.raises(error, match=message):
                client.submit(request_)
            with pytest.raises(NotFoundError, match="no such job"):
                client.wait("1-none")
            assert client.jobs() == []

    def test_malformed_requests_are_rejected(self, quiet: RunningServer) -> None:
        both = [pb.Witness(wtns=b"x"), pb.Witness(inputs="{}")]
        for request, field in (
            (pb.SubmitProofRequest(key=KEY, witnesses=both), "witnesses"),
            (pb.SubmitProofRequest(key=KEY, witnesses=[pb.Witness()]), "witnesses"),
            (pb.SubmitProofRequest(witnesses=both[:1]), "key"),
        ):
            with pytest.raises(grpc.RpcError) as told:
                raw_call(quiet, "SubmitProof", request)
            assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            details = rpc_status.from_call(told.value).details
            bad_request = error_details_pb2.BadRequest()
            assert [
                bad_request.field_violations[0].field for d in details if d.Unpack(bad_request)
            ] == [field]
        late = pb.SubmitProofRequest(key=KEY, witnesses=both[:1])
        late.deadline.seconds = -1
        with pytest.raises(grpc.RpcError, match="time or duration must not be negative"):
            raw_call(quiet, "SubmitProof", late)

    def test_full_quota_reports_a_retry_time(self, start: Start) -> None:
        server = start(go=False, clients={"local": {"jobs": 1, "payload_bytes": 1000}})
        with server.client() as client:
            client.submit(wanted())
            with pytest.raises(QueueFullError, match="quota of jobs is 1") as told:
                client.submit(wanted())
            assert told.value.retry_seconds > 0
            with pytest.raises(QueueFullError, match="the client's limit of 1000"):
                client.submit(wanted(wtns=bytes(1001)))
            request = pb.SubmitProofRequest(key=KEY, witnesses=[pb.Witness(wtns=b"x")])
            with pytest.raises(grpc.RpcError) as raw:
                raw_call(server, "SubmitProof", request)
            trailers = dict(raw.value.trailing_metadata())
            assert int(trailers["grpc-retry-pushback-ms"]) > 0
            assert raw.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_rejected_wait_leaves_no_job(self, start: Start) -> None:
        server = start(go=False, requests={"waits": 1})
        with server.client() as client:
            job = client.submit(wanted())

            def wait() -> None:
                with server.client() as waiting_client:
                    while True:
                        try:
                            waiting_client.wait(job.id, timeout=60)
                        except QueueFullError:
                            continue
                        return

            waiting = threading.Thread(target=wait)
            waiting.start()
            with pytest.raises(QueueFullError):
                # Until the other one waits this call may.
                while client.wait(job.id, timeout=0).id == job.id:
                    pass
            with pytest.raises(QueueFullError, match="calls that wait"):
                client.prove(wanted())
            assert [listed.id for listed in client.jobs()] == [job.id]
            server.pool.leave.set()
            waiting.join(60)

    def test_many_large_requests_use_several_messages(self, server: RunningServer) -> None:
        large = bytes(900 << 10)
        requests = [wanted(wtns=large) for _ in range(8)]
        requests[3] = wanted(wtns=bytes((1 << 20) + 1))
        requests[5] = wanted(key="none", wtns=bytes((1 << 20) + 1))
        requests[6] = wanted(wtns=None, inputs={"a": ["1" * 70] * 60_000})
        with server.client() as client:
            outcomes = client.submit_many(requests)
            assert isinstance(outcomes.pop(5), NotFoundError)
            for outcome in outcomes:
                assert not isinstance(outcome, Exception)
                assert client.wait(outcome.id).state is JobState.SUCCEEDED

    def test_messages_that_are_too_long(self, start: Start) -> None:
        server = start(requests={"message_bytes": 8192, "witness_bytes": 3 << 20})
        with server.client() as client:
            with pytest.raises(ServiceError, match="RESOURCE_EXHAUSTED"):
                client.submit(wanted(wtns=bytes(9000)))
            with pytest.raises(InputError, match="more than the limit of 3145728"):
                client.submit(wanted(wtns=bytes(3 << 20)))


class TestUploads:
    """Streams of chunks that are not what was announced."""

    def upload(self, server: RunningServer, lengths: list[int], *chunks: bytes) -> pb.Job:
        begin = pb.UploadProofRequest.Begin(key=KEY, lengths=lengths)
        parts = [pb.UploadProofRequest(begin=begin)]
        parts += [pb.UploadProofRequest(piece=piece) for piece in chunks]
        job: pb.Job = raw_call(server, "UploadProof", iter(parts))
        return job

    def test_valid_uploads_are_accepted(self, server: RunningServer) -> None:
        assert self.upload(server, [3, 2], b"ab", b"", b"cde").partitions == 2

    @pytest.mark.parametrize(
        ("lengths", "chunks", "message"),
        [
            ([9], [b"ab"], "ended early: 2 of 9 bytes arrived"),
            ([3], [b"abcd"], "more than the announced 3 bytes"),
            ([], [], "1 to 1024 partitions"),
            ([0], [], "the bytes of partition 0"),
            ([1 << 62], [], "the bytes of partition 0"),
            ([1 << 40], [b"x"], "more than the limit of 17179869184"),
        ],
    )
    def test_invalid_uploads_are_rejected(
        self, server: RunningServer, lengths: list[int], chunks: list[bytes], message: str
    ) -> None:
        with pytest.raises(grpc.RpcError, match=message) as told:
            self.upload(server, lengths, *chunks)
        assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert not list((Path(server.config.data) / "spool").iterdir())

    def test_uploads_need_exactly_one_begin_message(self, server: RunningServer) -> None:
        begin = pb.UploadProofRequest(begin=pb.UploadProofRequest.Begin(key=KEY, lengths=[2]))
        for parts in ([], [pb.UploadProofRequest(piece=b"x")], [begin, begin]):
            with pytest.raises(grpc.RpcError, match="an upload") as told:
                raw_call(server, "UploadProof", iter(parts))
            assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_stalled_upload_times_out(self, start: Start) -> None:
        server = start(requests={"idle_seconds": 1.5})
        stopped = threading.Event()

        def parts() -> object:
            yield pb.UploadProofRequest(begin=pb.UploadProofRequest.Begin(key=KEY, lengths=[2]))
            yield pb.UploadProofRequest(piece=b"x")
            stopped.wait(60)

        try:
            with pytest.raises(grpc.RpcError, match=r"1 of 2 bytes arrived before a pause"):
                raw_call(server, "UploadProof", parts())
        finally:
            stopped.set()
        assert not list((Path(server.config.data) / "spool").iterdir())

    def test_disconnected_upload_is_released(self, start: Start) -> None:
        server = start(requests={"uploads": 1})
        sent, go = threading.Event(), threading.Event()

        def parts() -> object:
            yield pb.UploadProofRequest(begin=pb.UploadProofRequest.Begin(key=KEY, lengths=[2]))
            yield pb.UploadProofRequest(piece=b"x")
            sent.set()
            go.wait(60)

        call = CALLS["UploadProof"]
        with grpc.insecure_channel(server.listeners.grpc[0]) as channel:
            upload = channel.stream_unary(call.path, call.write_request, call.read_response)
            running = upload.future(parts())
            sent.wait(60)
            running.cancel()
            go.set()
        with server.client() as client:
            for _ in range(1000):
                try:
                    self.upload(server, [1], b"y")
                    break
                except grpc.RpcError as error:
                    if "1 uploads at a time" not in error.details():
                        raise
                    client.status()
            else:
                pytest.fail("the place of an upload that ended was not given back")


class TestClientsThatVanish:
    """Calls of `Prove` that are cut off."""

    @pytest.mark.parametrize("idempotency_key", ["", "7"])
    def test_prove(self, start: Start, idempotency_key: str) -> None:
        server = start(go=False)
        call = CALLS["Prove"]
        proof = pb.SubmitProofRequest(
            key=KEY, witnesses=[pb.Witness(wtns=b"x")], idempotency_key=idempotency_key
        )
        with grpc.insecure_channel(server.listeners.grpc[0]) as channel:
            prove = channel.unary_unary(call.path, call.write_request, call.read_response)
            running = prove.future(pb.ProveRequest(proof=proof))
            with server.client() as client:
                while not client.jobs():
                    client.status()
                [job] = client.jobs()
                assert next(client.watch(job.id, after=1)).kind == "started"
                running.cancel()
                if idempotency_key:
                    server.pool.leave.set()
                    assert client.wait(job.id).state is JobState.SUCCEEDED
                else:
                    assert client.wait(job.id).state is JobState.CANCELLED


def await_health(changes: Any, state: str) -> None:
    """Waits for a state of health."""
    wanted = health_pb2.HealthCheckResponse.ServingStatus.Value(state)
    assert any(change.status == wanted for change in changes)


def test_reflection(server: RunningServer) -> None:
    with grpc.insecure_channel(server.listeners.grpc[0]) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert SERVICE in database.get_services()
        assert "grpc.health.v1.Health" in database.get_services()


def raw_call(server: RunningServer, name: str, request: object) -> Any:
    call = CALLS[name]
    with grpc.insecure_channel(server.listeners.grpc[0]) as channel:
        kind = channel.stream_unary if call.request_streams else channel.unary_unary
        return kind(call.path, call.write_request, call.read_response)(request, timeout=60)
