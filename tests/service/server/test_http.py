"""The service over HTTP: responses, and rejected cross-site requests."""

from __future__ import annotations

import base64
import json
import socket
import threading
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from quod.service.errors import UnavailableError
from quod.service.server.clients import hashed_token
from tests.service.server.conftest import Start
from tests.service.server.fake_pool import RESULT
from tests.service.server.running_server import RunningServer
from tests.service.worker.conftest import eventually

KEY = "membership"
INPUTS = {"key": KEY, "inputs": {"a": 1}}
BYTES = {"content-type": "application/octet-stream"}


def refused(response: httpx.Response) -> tuple[int, str, str]:
    error = response.json()["error"]
    return response.status_code, error["reason"], error["message"]


class TestProving:
    """From a request to a result."""

    def test_prove_from_json(self, server: RunningServer) -> None:
        with server.http() as http:
            answer = http.post("/v1/prove", json=INPUTS | {"priority": 2, "timeout": 60})
            assert answer.status_code == 200
            job = answer.json()
            assert (job["state"], job["priority"], job["client"]) == ("succeeded", 2, "local")
            assert job["results"] == [json.loads(RESULT)]
            assert http.get(f"/v1/proofs/{job['id']}").json() == job
            listed = http.get("/v1/proofs").json()["jobs"]
            assert [entry["id"] for entry in listed] == [job["id"]]
            assert "results" not in listed[0]

    def test_prove_from_bytes(self, server: RunningServer) -> None:
        with server.http() as http:
            answer = http.post("/v1/prove", params={"key": KEY}, content=b"wtns", headers=BYTES)
            assert answer.json()["results"] == [json.loads(RESULT)]

    def test_submit_then_wait(self, start: Start) -> None:
        server = start(go=False)
        with server.http() as http:
            answer = http.post("/v1/proofs", json=INPUTS, headers={"Idempotency-Key": "7"})
            assert answer.status_code == 202
            place = answer.headers["location"]
            again = http.post("/v1/proofs", json=INPUTS | {"idempotency_key": "7"})
            assert again.json()["id"] == answer.json()["id"]
            other = http.post("/v1/proofs", json=INPUTS | {"idempotency_key": "7", "priority": 1})
            assert refused(other)[:2] == (409, "ALREADY_EXISTS")
            assert http.get(place, params={"timeout": 0.1}).status_code == 202
            server.pool.leave.set()
            assert http.get(place, params={"timeout": 60}).json()["state"] == "succeeded"

    def test_submit_many(self, server: RunningServer) -> None:
        with server.http() as http:
            proofs = [INPUTS, {"key": "none", "path": "x"}, {"key": KEY}, INPUTS]
            answer = http.post("/v1/proofs/batch", json={"proofs": proofs}).json()["outcomes"]
            assert [*map(list, answer)] == [["job"], ["error"], ["error"], ["job"]]
            assert answer[1]["error"]["reason"] == "NOT_FOUND"
            assert answer[2]["error"]["field"] == "witnesses"
            many = http.post("/v1/proofs/batch", json={"proofs": [INPUTS] * 1001})
            assert refused(many) == (
                400, "INVALID_ARGUMENT",
                "a call submits up to 1000 jobs, not 1001; use several calls",
            )  # fmt: skip

    def test_workers_get_the_submitted_payloads(self, start: Start, tmp_path: Path) -> None:
        server = start(go=False)
        server.pool.drain()
        (tmp_path / "w.wtns").write_bytes(b"file")
        wtns = [{"wtns": base64.b64encode(b"a").decode()}, {"wtns": "YmM="}]
        with server.http() as http:
            for body in (
                {"key": KEY, "path": str(tmp_path / "w.wtns")},
                {"key": KEY, "witnesses": wtns},
                {"key": KEY, "inputs": {"a": (1 << 300) + 1}},
            ):
                assert http.post("/v1/proofs", json=body).status_code == 202
        bodies = []
        for lease in server.queue.claim("test", most=9):
            with server.queue.open_payload(lease) as file:
                bodies.append(file.read().split(b"\0")[-1])
        assert bodies == [str(tmp_path / "w.wtns").encode()[1:], b"\0abc"[1:], b"\0abc"[1:],
                         b'{"a":%d}' % ((1 << 300) + 1)]  # fmt: skip

    def test_cancel(self, start: Start) -> None:
        server = start(go=False)
        with server.http() as http:
            job = http.post("/v1/proofs", json=INPUTS).json()["id"]
            assert http.delete(f"/v1/proofs/{job}").json()["state"] == "cancelled"

    def test_disconnect_during_prove_cancels_the_job(self, start: Start) -> None:
        server = start(go=False)
        path = server.listeners.http[0].removeprefix("unix:")
        body = json.dumps(INPUTS).encode()
        with socket.socket(socket.AF_UNIX) as plain, server.http() as http:
            plain.connect(path)
            plain.sendall(
                b"POST /v1/prove HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            while not (jobs := http.get("/v1/proofs").json()["jobs"]):
                pass
            plain.close()
            place = f"/v1/proofs/{jobs[0]['id']}"
            assert http.get(place, params={"timeout": 60}).json()["state"] == "cancelled"

    def test_truncated_bodies_are_rejected(self, server: RunningServer) -> None:
        path = server.listeners.http[0].removeprefix("unix:")
        for kind in (b"application/json", b"application/octet-stream"):
            with socket.socket(socket.AF_UNIX) as plain:
                plain.connect(path)
                plain.sendall(
                    b"POST /v1/proofs?key=membership HTTP/1.1\r\nHost: localhost\r\n"
                    b"Content-Type: %s\r\nContent-Length: 99\r\n\r\n{" % kind
                )
        with server.http() as http:
            assert http.get("/v1/proofs").json() == {"jobs": []}
            assert http.post("/v1/prove", json=INPUTS).json()["state"] == "succeeded"
        server.stop()
        assert not list((Path(server.config.data) / "spool").iterdir())


class TestEvents:
    """Server-sent events."""

    def test_resumption(self, server: RunningServer) -> None:
        with server.http() as http:
            job = http.post("/v1/prove", json=INPUTS).json()["id"]
            stream = http.get(f"/v1/proofs/{job}/events")
            assert stream.headers["content-type"].startswith("text/event-stream")
            events = [event for event in stream.text.split("\n\n") if event.startswith("id:")]
            assert [event.split("\n")[0] for event in events] == [f"id: {n}" for n in (1, 2, 3, 4)]
            assert json.loads(events[3].split("data: ")[1])["data"] == {"state": "succeeded"}
            for after, header in (("2", {}), ("0", {"Last-Event-ID": "2"})):
                resumed = http.get(
                    f"/v1/proofs/{job}/events", params={"after": after}, headers=header
                )
                assert [
                    event for event in resumed.text.split("\n\n") if event[:3] == "id:"
                ] == events[2:]
            assert not http.get(f"/v1/proofs/{job}/events?after=4").text.strip(":\n")

    def test_event_stream_resumes_after_the_last_event(self, start: Start) -> None:
        server = start(go=False)
        with server.http() as http:
            job = http.post("/v1/proofs", json=INPUTS).json()["id"]
            last = ""
            with http.stream("GET", f"/v1/proofs/{job}/events") as stream:
                for line in stream.iter_lines():
                    if line.startswith("id: "):
                        last = line[4:]
                    if last == "2":
                        break
            server.pool.leave.set()
            resumed = http.get(f"/v1/proofs/{job}/events", headers={"Last-Event-ID": last})
            assert [line for line in resumed.text.split("\n") if line.startswith("event:")] == [
                "event: stage", "event: ended",
            ]  # fmt: skip

    @pytest.mark.parametrize("last", ["-1", "x", "1" * 30, "1.5", "²"])
    def test_invalid_event_numbers_are_rejected(self, quiet: RunningServer, last: str) -> None:
        with quiet.http() as http:
            answer = http.get("/v1/proofs/1-a/events", headers={"Last-Event-ID": last.encode()})
            assert refused(answer)[:2] == (400, "INVALID_ARGUMENT")

    def test_refused_before_they_begin(self, start: Start) -> None:
        server = start(go=False, requests={"streams": 1})
        with server.http() as http:
            assert refused(http.get("/v1/proofs/1-none/events"))[0] == 404
            job = http.post("/v1/proofs", json=INPUTS).json()["id"]
            with http.stream("GET", f"/v1/proofs/{job}/events") as stream:
                lines = stream.iter_lines()
                next(lines)
                answer = http.get(f"/v1/proofs/{job}/events")
                assert refused(answer)[:2] == (429, "QUEUE_FULL")
                assert answer.headers["retry-after"] == "1"

    def test_stages_for_the_page(self, server: RunningServer) -> None:
        with server.http() as http:
            http.post("/v1/prove", json=INPUTS)
            while (after := http.get("/status").json()["stages_after"]) < 2:
                pass
            with http.stream("GET", "/status/stages", params={"after": after - 1}) as stream:
                text = next(line for line in stream.iter_lines() if line.startswith("data: "))
            [stage] = json.loads(text[6:])["stages"]
            assert (stage["worker"], stage["stage"]) == ("fake", "check")


class TestOtherSites:
    """Requests that a page of another site has a browser send."""

    @pytest.mark.parametrize(
        "host",
        ["evil.example", "localhost.evil.example", "", "localhost:x", "127.0.0.1@evil", "[::"],
    )
    def test_host(self, quiet: RunningServer, host: str) -> None:
        with quiet.http() as http:
            for path in ("/health/live", "/v1/keys", "/metrics", "/openapi.json"):
                answer = http.get(path, headers={"Host": host})
                assert refused(answer)[:2] == (403, "PERMISSION_DENIED")

    def test_two_hosts(self, server: RunningServer) -> None:
        path = server.listeners.http[0].removeprefix("unix:")
        with socket.socket(socket.AF_UNIX) as plain:
            plain.connect(path)
            plain.sendall(b"GET /v1/keys HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n")
            assert plain.recv(99).split()[1] in (b"400", b"403")

    def test_configured_hosts_are_accepted(self, start: Start) -> None:
        server = start(listen={"hosts": ["Prover.example"]})
        with server.http() as http:
            for host in ("prover.example", "PROVER.example:8080", "localhost:1", "[::1]:9"):
                assert http.get("/health/live", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize(
        "headers",
        [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "https://localhost"},
         {"Origin": "http://localhost:81"}, {"Sec-Fetch-Site": "cross-site"},
         {"Sec-Fetch-Site": "same-site"}],
    )  # fmt: skip
    def test_origin(self, quiet: RunningServer, headers: dict[str, str]) -> None:
        with quiet.http() as http:
            answer = http.post("/v1/proofs", json=INPUTS, headers=headers)
            assert refused(answer)[:2] == (403, "PERMISSION_DENIED")
            assert http.get("/v1/proofs").json() == {"jobs": []}

    def test_same_origin_requests_are_accepted(self, server: RunningServer) -> None:
        with server.http() as http:
            same_origin = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
            assert http.post("/v1/proofs", json=INPUTS, headers=same_origin).status_code == 202

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
    def test_simple_browser_content_types_are_rejected(
        self, quiet: RunningServer, kind: str | None
    ) -> None:
        with quiet.http() as http:
            headers = {} if kind is None else {"content-type": kind}
            answer = http.post("/v1/proofs", content=json.dumps(INPUTS).encode(), headers=headers)
            assert refused(answer)[1:] == (
                "INVALID_ARGUMENT", "Content-Type: the content type must be application/json",
            )  # fmt: skip

    def test_no_cors(self, quiet: RunningServer) -> None:
        with quiet.http() as http:
            ask = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
            for headers in (ask, ask | {"Origin": "http://localhost"}):
                answer = http.options("/v1/proofs", headers=headers)
                assert answer.status_code >= 400
                assert not [name for name in answer.headers if "access-control" in name]


class TestBodies:
    """Bodies that are no valid request."""

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b"", "the body is not JSON"),
            (b"{", "the body is not JSON"),
            (b"[" * 100_000, "the body is not JSON"),
            (b'{"key": "membership"}', "witnesses: give inputs"),
            (b'{"inputs": {}}', "key: Field required"),
            (b'{"key": 7, "inputs": {}}', "key: "),
            (b'{"key": "membership", "inputs": {}, "secret_x": 1}', "secret_x: unknown"),
            (b'{"key": "membership", "inputs": {}, "path": "x"}', "one of inputs, path and wtns"),
            (b'{"key": "membership", "inputs": {}, "deadline": NaN}', "NaN is not a JSON number"),
            (b'{"key": "membership", "inputs": [1]}', "inputs: must be an object"),
            (b'{"key": "membership", "inputs": {"a": 1}, "inputs": {"a": 2}}', "two equal keys"),
            (b'{"key": "membership", "key": "other", "inputs": {}}', "two equal keys"),
            (b'{"key": "membership", "wtns": "!"}', "wtns: "),
            (b'{"key": "membership", "inputs": {}, "priority": 10}', "priority: "),
            (
                b'{"key": "membership", "witnesses": [{"path": "a"}, {"inputs": {}}]}',
                "the same kind",
            ),
            (b'{"key": "membership", "witnesses": [{}]}', "witnesses: give"),
        ],
    )
    def test_json(self, quiet: RunningServer, body: bytes, message: str) -> None:
        with quiet.http() as http:
            answer = http.post(
                "/v1/proofs", content=body, headers={"content-type": "application/json"}
            )
            assert refused(answer)[:2] == (400, "INVALID_ARGUMENT")
            assert message in refused(answer)[2]

    def test_responses_never_contain_witness_values(self, quiet: RunningServer) -> None:
        secret = "314159265358979"
        with quiet.http() as http:
            for inputs in (f'"{secret}"', f"[{secret}]", secret, f'{{"{secret}": {secret}'):
                body = f'{{"key": "membership", "inputs": {inputs}}}'
                answer = http.post(
                    "/v1/proofs", content=body, headers={"content-type": "application/json"}
                )
                assert answer.status_code == 400
                assert secret not in answer.text

    def test_oversized_bodies_are_rejected(self, start: Start) -> None:
        server = start(requests={"message_bytes": 4096, "witness_bytes": 5000})
        with server.http() as http:
            for answer in (
                http.post("/v1/proofs", json=INPUTS | {"inputs": {"a": "9" * 5000}}),
                http.post("/v1/proofs?key=membership", content=bytes(5001), headers=BYTES),
                http.post(
                    "/v1/proofs", content=iter([b"[1"] + [b",1" * 999] * 9),
                    headers={"content-type": "application/json"},
                ),
            ):  # fmt: skip
                assert answer.status_code == 400
                assert "4096 bytes" in answer.text or "5000" in answer.text

    def test_uploads_require_content_length(self, quiet: RunningServer) -> None:
        with quiet.http() as http:
            answer = http.post("/v1/proofs?key=membership", content=iter([b"x"]), headers=BYTES)
            assert refused(answer)[2] == "Content-Length: an upload needs a Content-Length"
            for query in ("?priority=11&key=membership", "?key=membership&deadline=x", ""):
                answer = http.post(f"/v1/proofs{query}", content=b"x", headers=BYTES)
                assert refused(answer)[:2] == (400, "INVALID_ARGUMENT")

    def test_paths_and_methods(self, quiet: RunningServer) -> None:
        with quiet.http() as http:
            assert refused(http.get("/v1/nothing"))[:2] == (404, "NOT_FOUND")
            assert refused(http.get("/../../etc/passwd"))[:2] == (404, "NOT_FOUND")
            assert refused(http.put("/v1/proofs", json={}))[0] == 405


def health_is(http: httpx.Client, code: int) -> bool:
    return http.get("/health/ready").status_code == code


class TestSeenFromOutside:
    """Health, metrics, status, the document."""

    def test_liveness_and_readiness_differ(self, server: RunningServer) -> None:
        with server.http() as http:
            assert http.get("/health/ready").json() == {"state": "ready"}
            server.pool.ready = False
            assert http.get("/health/ready").status_code == 503
            assert http.get("/health/ready").json() == {"state": "starting"}
            assert http.get("/health/live").status_code == 200

    def test_a_server_without_its_queue_is_not_ready(
        self, server: RunningServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, down = server.queue._store, threading.Event()
        read = store.read

        def failing(work: Any) -> Any:
            if down.is_set():
                raise UnavailableError("the database does not answer", retry_seconds=1.0)
            return read(work)

        monkeypatch.setattr(store, "read", failing)
        with server.http() as http:
            for is_down, code, state in ((True, 503, "unavailable"), (False, 200, "ready")):
                (down.set if is_down else down.clear)()
                eventually(partial(health_is, http, code))
                assert http.get("/health/ready").json() == {"state": state}
                assert http.get("/health/live").status_code == 200

    def test_draining(self, start: Start) -> None:
        server = start(go=False)
        with server.http() as http:
            job = http.post("/v1/proofs", json=INPUTS).json()["id"]
            with http.stream("GET", f"/v1/proofs/{job}/events") as stream:
                for line in stream.iter_lines():
                    if line == "event: started":
                        break
            server.end()
            while http.get("/health/ready").status_code == 200:
                pass
            assert http.get("/health/ready").json() == {"state": "draining"}
            assert http.get("/health/live").status_code == 200
            answer = http.post("/v1/proofs", json=INPUTS)
            assert refused(answer)[:2] == (503, "UNAVAILABLE")
            assert answer.headers["retry-after"] == "60"
            server.pool.leave.set()
        assert server.join() is True

    def test_metrics(self, server: RunningServer) -> None:
        with server.http() as http:
            job = http.post("/v1/prove", json=INPUTS | {"priority": 4}).json()
            http.get("/v1/proofs/1-none")
            while server.pool.proofs < 1:
                pass
            text = http.get("/metrics").text
        samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert samples["quod_jobs_submitted_total", ("priority", "4")] == 1
        assert samples["quod_queue_jobs",] == 0
        assert samples["quod_queue_kept",] == 1
        call = ("call", "GET /v1/proofs/{job}")
        assert samples["quod_requests_total", call, ("outcome", "NOT_FOUND")] == 1
        # A processor is no GPU.
        assert not [name for name in samples if name[0] == "quod_gpu_busy_seconds_total"]
        assert job["id"] not in text
        assert "local" not in text
        assert {name for name, *_ in samples if not str(name).startswith("quod_")} == set()

    def test_a_job_for_operators(self, server: RunningServer) -> None:
        with server.http() as http:
            job = http.post("/v1/prove", json=INPUTS).json()
            page = http.get(f"/status/jobs/{job['id']}").json()
            assert [event["kind"] for event in page["events"]][-1] == "ended"
            assert page["attempts"][0]["worker"] == "fake"
            assert "results" not in page

    def test_keys(self, server: RunningServer) -> None:
        with server.http() as http:
            [key] = http.get("/v1/keys").json()["keys"]
            for action in ("preload", "evict", "resume"):
                assert http.post(f"/v1/keys/membership/{action}", json={}).json() == {}
            assert refused(http.post("/v1/keys/membership/explode", json={}))[0] == 404
            assert refused(http.post("/v1/keys/none/preload", json={}))[0] == 404
            assert server.pool.calls[0] == ("preload", key["identity"], None)

    def test_openapi_document(self, quiet: RunningServer) -> None:
        with quiet.http() as http:
            document = http.get("/openapi.json").json()
        assert document["openapi"].startswith("3.")
        body = document["paths"]["/v1/prove"]["post"]["requestBody"]["content"]
        assert {*body} == {"application/json", "application/octet-stream"}
        fields = body["application/json"]["schema"]["properties"]
        assert {*fields} >= {"key", "inputs", "path", "wtns", "witnesses", "priority", "deadline"}
        assert "$ref" not in json.dumps(body)


class TestWho:
    """Tokens, roles, and other clients' jobs."""

    TOKENS: ClassVar = {
        name: f"token-of-{name}-0123456789" for name in ("ann", "bob", "ops", "prom")
    }

    @pytest.fixture
    def shared(self, start: Start, tmp_path: Path) -> RunningServer:
        roles = {"ann": "client", "bob": "client", "ops": "operator", "prom": "metrics"}
        clients: dict[str, dict[str, Any]] = {
            name: {"tokens": [hashed_token(self.TOKENS[name])], "roles": [role]}
            for name, role in roles.items()
        }
        clients["bob"] |= {"keys": ["other"], "priority": 1}
        clients["ann"] |= {"keys": ["membership"], "root": tmp_path}
        return start(clients=clients, listen={"http": ["127.0.0.1:0"], "grpc": ["127.0.0.1:0"]})

    def http(self, server: RunningServer, name: str) -> httpx.Client:
        return server.http(headers={"Authorization": f"Bearer {self.TOKENS[name]}"})

    @pytest.mark.parametrize(
        "sent",
        [None, "Bearer token-of-nobody-000000", "Bearer", "Basic YTpi", "token-of-ann-0123456789",
         "Bearer token-of-ann-0123456789 x", "Bearer sha256:" + "0" * 64],
    )  # fmt: skip
    def test_wrong_tokens(self, shared: RunningServer, sent: str | None) -> None:
        headers = {} if sent is None else {"Authorization": sent}
        with shared.http(headers=headers) as http:
            for path in ("/v1/proofs", "/v1/keys", "/status", "/metrics", "/status/stages"):
                answer = http.get(path)
                assert refused(answer)[:2] == (401, "UNAUTHENTICATED")
                assert answer.headers["www-authenticate"] == "Bearer"
            assert http.get("/health/live").status_code == 200
            assert http.get("/health/ready").status_code == 200

    def test_token_hash_is_not_a_token(self, shared: RunningServer) -> None:
        with shared.http(headers={"Authorization": f"Bearer {hashed_token('x')}"}) as http:
            assert http.get("/v1/proofs").status_code == 401

    def test_clients_cannot_read_other_clients_jobs(self, shared: RunningServer) -> None:
        with self.http(shared, "ann") as ann, self.http(shared, "bob") as bob:
            job = ann.post("/v1/prove", json=INPUTS).json()
            assert job["client"] == "ann"
            place = f"/v1/proofs/{job['id']}"
            for answer in (bob.get(place), bob.get(f"{place}/events"), bob.delete(place)):
                assert refused(answer)[:2] == (404, "NOT_FOUND")
            assert bob.get("/v1/proofs").json() == {"jobs": []}
            with self.http(shared, "ops") as ops:
                assert refused(ops.get(place))[:2] == (403, "PERMISSION_DENIED")
                assert "results" not in ops.get("/status").text
                assert ops.delete(place).json()["state"] == "succeeded"

    def test_roles(self, shared: RunningServer) -> None:
        allowed = {
            "ann": {"/v1/proofs", "/v1/keys"},
            "ops": {"/status", "/v1/keys"},
            "prom": {"/metrics"},
        }
        for name, permitted in allowed.items():
            with self.http(shared, name) as http:
                for path in ("/v1/proofs", "/v1/keys", "/status", "/metrics", "/status/stages"):
                    if name == "ops" and path == "/status/stages":
                        continue
                    expected = 200 if path in permitted else 403
                    assert http.get(path).status_code == expected, (name, path)
                answer = http.post("/v1/keys/membership/preload", json={})
                assert answer.status_code == (200 if name == "ops" else 403)
                answer = http.post("/v1/proofs", json=INPUTS)
                assert answer.status_code == (202 if name == "ann" else 403)

    def test_keys_priorities_and_roots(self, shared: RunningServer, tmp_path: Path) -> None:
        (tmp_path / "root").mkdir()
        (tmp_path / "out").symlink_to("/etc/hostname")
        with self.http(shared, "ann") as ann, self.http(shared, "bob") as bob:
            identity = ann.get("/v1/keys").json()["keys"][0]["identity"]
            assert ann.post("/v1/prove", json=INPUTS | {"key": identity}).status_code == 200
            assert bob.get("/v1/keys").json() == {"keys": []}
            # A key that there is and one that there is not look the same.
            for key in ("membership", identity, "none", "0" * 64):
                answer = bob.post("/v1/proofs", json=INPUTS | {"key": key})
                assert refused(answer) == (
                    403, "PERMISSION_DENIED", "bob may not use this key",
                )  # fmt: skip
            answer = bob.post("/v1/proofs", json=INPUTS | {"priority": 2})
            assert "highest priority of bob is 1" in refused(answer)[2]
            answer = bob.post("/v1/proofs", json={"key": "other", "path": "x"})
            assert "must not name files" in refused(answer)[2]
            for path in ("out", "../x", "/etc/hostname", "root", "none"):
                answer = ann.post("/v1/proofs", json={"key": KEY, "path": path})
                assert refused(answer)[0] == 400
                assert "not a file below this client's root" in refused(answer)[2]
                assert "etc" not in answer.text

    def test_sockets_are_private_to_the_user(self, server: RunningServer) -> None:
        for address in (*server.listeners.grpc, *server.listeners.http):
            assert Path(address.removeprefix("unix:")).stat().st_mode & 0o777 == 0o600
        with server.http(headers={"Authorization": "Bearer token-of-nobody-000000"}) as http:
            assert http.get("/v1/keys").status_code == 401

    def test_anonymous_access_if_configured(self, start: Start) -> None:
        server = start(
            listen={"http": ["127.0.0.1:0"], "insecure_no_auth": True},
            clients={"anonymous": {"priority": 3}},
        )
        with server.http() as http:
            assert http.post("/v1/prove", json=INPUTS).json()["client"] == "anonymous"
            assert refused(http.post("/v1/proofs", json=INPUTS | {"priority": 4}))[0] == 403
            assert http.get("/metrics").status_code == 403


def test_many_streams_end_with_the_server(start: Start) -> None:
    server = start(go=False)
    with server.http() as http:
        job = http.post("/v1/proofs", json=INPUTS).json()["id"]
        opened = threading.Barrier(4)

        def follow() -> None:
            with (
                server.http() as session,
                session.stream("GET", f"/v1/proofs/{job}/events") as stream,
            ):
                lines = stream.iter_lines()
                next(lines)
                opened.wait(60)
                with pytest.raises((httpx.HTTPError, StopIteration)):
                    while True:
                        next(lines)

        threads = [threading.Thread(target=follow) for _ in range(3)]
        for thread in threads:
            thread.start()
        opened.wait(60)
        server.pool.leave.set()
        server.stop()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
