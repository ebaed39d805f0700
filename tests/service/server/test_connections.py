"""Silent and slow connections: they are closed, and do not delay other clients."""

from __future__ import annotations

import resource
import socket

import grpc
import pytest

from quod.service.protocol.calls import CALLS
from quod.service.server import listeners
from quod.service.server.clients import hashed_token
from quod.service.server.http.connections import connections_at_most, limited_protocol
from quod.service.server.process_limits import raise_file_limit
from tests.service.server.conftest import Start
from tests.service.server.running_server import SECONDS, RunningServer

LISTEN = {"http": ["127.0.0.1:0", "unix:http.sock"], "insecure_no_auth": True}
HEAD = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"


def connected(server: RunningServer) -> socket.socket:
    port = int(server.listeners.http[0].rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def answer(connection: socket.socket, data: bytes = b"\r\n") -> bytes:
    connection.sendall(data)
    return connection.recv(4096).partition(b"\r\n")[0]


BODY = (
    b"POST /v1/proofs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
)


def test_connections_are_bounded(start: Start) -> None:
    server = start(listen=LISTEN | {"connections": 3})
    held = [connected(server) for _ in range(3)]
    for connection in held:
        # Its handler waits for the body.
        assert answer(connection, BODY).startswith(b"HTTP/1.1 100")
    for _ in range(5):
        with connected(server) as other:
            assert is_ended(other)
    with server.http(1) as http:
        assert http.get("/health/live").status_code == 200
    for connection in held:
        assert answer(connection, b"{}") == b"HTTP/1.1 400 Bad Request"
        connection.close()


def test_oldest_idle_connection_is_closed_for_new_ones(start: Start) -> None:
    server = start(listen=LISTEN | {"connections": 3})
    busy = connected(server)
    assert answer(busy, BODY).startswith(b"HTTP/1.1 100")
    silent = [connected(server) for _ in range(5)]
    for connection in silent[:3]:
        assert is_ended(connection)
    for connection in silent[3:]:
        connection.sendall(HEAD)
        assert answer(connection) == b"HTTP/1.1 200 OK"
    assert answer(busy, b"{}") == b"HTTP/1.1 400 Bad Request"
    for connection in (busy, *silent):
        connection.close()


def test_unread_responses_time_out(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        listeners, "limited_protocol", lambda held: limited_protocol(held, answer=0.2)
    )
    server = start(listen=LISTEN)
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(server) as greedy, pytest.raises(ConnectionError):
        for _ in range(1000):
            greedy.sendall(request * 100)
    with server.http() as http:
        assert http.get("/health/live").status_code == 200


@pytest.mark.parametrize(("chunks", "is_parsed"), [(900, True), (1100, False)])
def test_bodies_in_tiny_chunks(start: Start, chunks: int, is_parsed: bool) -> None:
    server = start(listen=LISTEN)
    with connected(server) as connection:
        connection.sendall(
            b"POST /v1/proofs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"2\r\n{}\r\n" + b"1\r\n \r\n" * chunks + b"0\r\n\r\n"
        )  # fmt: skip
        with connection.makefile("rb") as answer:
            document = answer.read()
    assert document.startswith(b"HTTP/1.1 400 ")
    # A body that is parsed lacks a key.
    assert (b"Field required" in document) is is_parsed


def test_grpc_connections_are_bounded(start: Start) -> None:
    server = start(
        listen={
            "grpc": ["127.0.0.1:0", "unix:grpc.sock"],
            "insecure_no_auth": True,
            "connections": 3,
        }
    )
    [address] = [each for each in server.listeners.grpc if "unix" not in each]
    port = int(address.rpartition(":")[2])
    held = [socket.create_connection(("127.0.0.1", port), timeout=SECONDS) for _ in range(3)]
    for connection in held:
        # Its settings: the connection is counted.
        assert connection.recv(1)
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as other:
            assert is_ended(other)
    with server.client(next(each for each in server.listeners.grpc if "unix" in each)) as client:
        assert client.status().state == "ready"
    for connection in held:
        connection.close()


def test_missing_request_head_times_out(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "limited_protocol", lambda held: limited_protocol(held, 2.0))
    server = start(listen=LISTEN)
    body, silent, started, again = (connected(server) for _ in range(4))
    body.sendall(
        b"POST /v1/proofs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2\r\n\r\n"
    )
    started.sendall(HEAD)
    again.sendall(HEAD)
    assert answer(again, b"\r\n" + HEAD) == b"HTTP/1.1 200 OK"
    assert is_ended(silent)
    assert is_ended(started)
    while not is_ended(again):
        pass
    # A body has a time of its own.
    assert answer(body, b"{}") == b"HTTP/1.1 400 Bad Request"
    for connection in (body, silent, started, again):
        connection.close()


@pytest.mark.parametrize("name", list(CALLS))
def test_invalid_grpc_messages_are_rejected(start: Start, name: str) -> None:
    server = start(
        listen={"grpc": ["127.0.0.1:0", "unix:grpc.sock"]},
        clients={"ann": {"tokens": [hashed_token("a token of ann's own")]}},
    )
    call = CALLS[name]
    for address, code in zip(server.listeners.grpc, ("INVALID_ARGUMENT", "UNAUTHENTICATED")):
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as told:
            if call.response_streams:
                next(channel.unary_stream(call.path)(b"\xff", timeout=SECONDS))
            elif call.request_streams:
                channel.stream_unary(call.path)(iter([b"\xff"]), timeout=SECONDS)
            else:
                channel.unary_unary(call.path)(b"\xff", timeout=SECONDS)
        # Nothing is read of what nobody sends.
        assert told.value.code().name == code, address


def test_file_descriptor_limit_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: told.append(limits))
    raise_file_limit()
    assert told == [(hard, hard)]
    for files, wanted, most in (
        (400, 1000, 100), (400, 99, 99), (3, 1000, 1), (resource.RLIM_INFINITY, 1000, 1000),
    ):  # fmt: skip
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, hard))
        assert connections_at_most(wanted) == most


def test_unknown_http_methods_are_rejected(server: RunningServer) -> None:
    with server.http() as http:
        for each in ("AAA", "BBB"):
            assert http.request(each, "/v1/keys").status_code == 405
            assert http.request(each, "/v1/keys", headers={"Host": "evil"}).status_code == 403
        assert http.get("/health/live").status_code == 200
        text = http.get("/metrics").text
    assert "AAA" not in text
    assert "BBB" not in text
    assert "other" in text


def test_content_types_in_capitals(server: RunningServer) -> None:
    with server.http() as http:
        answered = http.post(
            "/v1/prove?key=membership", content=b"w",
            headers={"Content-Type": "Application/Octet-Stream; x=y"},
        )  # fmt: skip
        assert answered.json()["state"] == "succeeded"
