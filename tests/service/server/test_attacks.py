"""Attacks on a real server over loopback: its memory stays bounded, and it answers meanwhile."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quod.service.keys import KeyRepository
from quod.service.server.clients import hashed_token
from tests.service.queue.places import MEMORY
from tests.service.server.attacked_server import MEGABYTE, SECONDS, AttackedServer
from tests.service.server.conftest import EXAMPLE
from tests.service.server.hostile_http2 import Hostile, message
from tests.support.thorough import one_and_others

ANN = "a-token-of-a-client"
METRICS = "a-token-for-metrics"
MAX_GROWTH = 96 * MEGABYTE
CLIENTS = {
    "ann": {"tokens": [hashed_token(ANN)]},
    "grafana": {"tokens": [hashed_token(METRICS)], "roles": ["metrics"]},
}
SUBMIT = "/quod.v1.Prover/SubmitProofs"
UPLOAD = "/quod.v1.Prover/UploadProof"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="quod-attacks-", dir=MEMORY))
    repository = KeyRepository(path / "keys", create=True)
    repository.add(EXAMPLE / "circuit.zkey", names=["membership"], allow_insecure=True)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[AttackedServer]:
    fields = {
        "data": str(folder / "data"), "keys": str(folder / "keys"),
        "queue": {"ballast_bytes": 4096}, "clients": CLIENTS,
        "listen": {"grpc": ["127.0.0.1:0"], "http": ["127.0.0.1:0"]},
    }  # fmt: skip
    with AttackedServer(fields) as server:
        yield server


@pytest.fixture
def server(running: AttackedServer) -> AttackedServer:
    running.watch()
    return running


@pytest.mark.parametrize(
    ("path", "token"),
    one_and_others(
        [(SUBMIT, None), (SUBMIT, METRICS), (SUBMIT, ANN), (UPLOAD, ANN), (WATCH, None),
         (REFLECTION, None)],
        [(SUBMIT, None)],
    ),
)  # fmt: skip
def test_half_sent_messages_use_bounded_memory(
    server: AttackedServer, path: str, token: str | None
) -> None:
    hostile = Hostile(server.grpc)
    body = message(4 * MEGABYTE - 1, bytes(4 * MEGABYTE - 9))
    sent = [hostile.send(hostile.begin(path, token), body) for _ in range(40)]
    assert server.is_live()
    assert server.growth < MAX_GROWTH
    # Of strangers little is taken, of a client its share, and nothing of one without the role.
    assert sum(sent) < (80 if token == ANN else 40) * MEGABYTE
    hostile.close()


def test_streams_are_bounded(server: AttackedServer) -> None:
    hostile = Hostile(server.grpc)
    max_streams, window = 3, 4
    assert hostile.settings[max_streams] <= 1000
    assert hostile.settings[window] <= 16384
    hostile.close()


def test_connection_that_never_acknowledges_settings(server: AttackedServer) -> None:
    hostile = Hostile(server.grpc, acknowledge=False)
    body = message(4 * MEGABYTE - 1, bytes(128 << 10))
    sent = 0
    for _ in range(400):
        sent += hostile.send(hostile.begin(SUBMIT, METRICS), body)
    assert server.is_live()
    assert server.growth < MAX_GROWTH // 2
    hostile.close()


@pytest.mark.parametrize("token", one_and_others([ANN, METRICS]))
def test_many_fields_in_one_message(server: AttackedServer, token: str) -> None:
    empty = b"\x0a\x00" * (256 << 10)
    witnesses = b"\x0a" + varint(len(empty)) + b"\x12\x00" * (256 << 10)
    hostile = Hostile(server.grpc)
    for body in (empty, witnesses):
        number = hostile.begin(SUBMIT, token)
        hostile.send(number, message(len(body), body), end=True)
        while number not in hostile.ended:
            assert hostile.receive(SECONDS)
    assert server.is_live()
    assert server.growth < MAX_GROWTH
    hostile.close()


def varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


LISTS = b'{"key": "k", "inputs": {"a": [' + b"[]," * 1_000_000 + b"1]}}"
PROOFS = b'{"proofs": [' + b"{}," * 300_000 + b"1]}"
TEXTS = b'{"key": "k", "inputs": {"a": [' + b'"1",' * 450_000 + b"1]}}"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/v1/proofs", LISTS, 400), ("/v1/proofs/batch", PROOFS, 400), ("/v1/proofs", TEXTS, 404),
     pytest.param("/v1/proofs", b'{"witnesses": [' + b"{}," * 300_000 + b"1]}", 400,
                  marks=pytest.mark.thorough)],
)  # fmt: skip
def test_many_values_in_one_body(
    server: AttackedServer, path: str, body: bytes, status: int
) -> None:
    with server.connected() as connection:
        connection.sendall(head(path, len(body)) + body)
        assert connection.recv(4096).startswith(b"HTTP/1.1 %d " % status)
    assert server.is_live()
    assert server.growth < MAX_GROWTH


def head(path: str, length: int, token: str = ANN, kind: str = "application/json") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


@pytest.mark.parametrize(
    "path", ["/v1/proofs", "/v1/proofs/batch", "/v1/prove", "/v1/keys/k/evict"]
)
def test_roles_come_before_bodies(server: AttackedServer, path: str) -> None:
    with server.connected() as connection:
        # Nothing of the body is sent.
        connection.sendall(head(path, 1000, METRICS))
        assert connection.recv(4096).startswith(b"HTTP/1.1 403 ")


def test_event_loop_runs_while_a_body_is_parsed(server: AttackedServer) -> None:
    with server.connected() as busy:
        busy.sendall(head("/v1/proofs", len(TEXTS)) + TEXTS[:-1])
        busy.settimeout(0.0)
        busy.sendall(TEXTS[-1:])
        answered = 0
        while True:
            assert server.is_live()
            try:
                assert busy.recv(4096).startswith(b"HTTP/1.1 404 ")
                break
            except BlockingIOError:
                answered += 1
    # A loop that is held up answers the body first.
    assert answered


@pytest.mark.thorough
def test_bodies_of_slow_clients(server: AttackedServer) -> None:
    held = []
    for _ in range(40):
        connection = server.connected()
        connection.settimeout(0.2)
        held.append(connection)
        try:
            connection.sendall(head("/v1/proofs", 4 * MEGABYTE) + bytes(4 * MEGABYTE - 1))
        except OSError:
            # The server takes no more of it, or has refused it.
            continue
    assert server.is_live()
    assert server.growth < MAX_GROWTH
    for connection in held:
        connection.close()


def test_bodies_expanding_fourfold_as_text(server: AttackedServer) -> None:
    # One such character has Python keep all of them in four bytes.
    inputs = '{"a": "\U0001f600' + "x" * (4 * MEGABYTE - 100) + '"}'
    body = f'{{"key": "membership", "inputs": {inputs}}}'.encode()
    connections = [server.connected() for _ in range(16)]
    senders = [
        threading.Thread(target=connection.sendall, args=(head("/v1/proofs", len(body)) + body,))
        for connection in connections
    ]
    for sender in senders:
        sender.start()
    for sender, connection in zip(senders, connections):
        sender.join(SECONDS)
        # A slow machine has no room for some of them in time.
        assert connection.recv(4096).startswith((b"HTTP/1.1 202 ", b"HTTP/1.1 429 "))
        connection.close()
    assert server.is_live()
    assert server.growth < 160 * MEGABYTE


@pytest.fixture(scope="module")
def certificate(folder: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.mark.thorough
def test_connections_without_a_handshake(folder: Path, certificate: Path) -> None:
    fields = {
        "data": str(folder / "tls"), "keys": str(folder / "keys"),
        "queue": {"ballast_bytes": 4096}, "clients": CLIENTS,
        "listen": {
            "grpc": ["127.0.0.1:0"], "http": ["127.0.0.1:0"], "connections": 100,
            "certificate": str(certificate / "cert.pem"),
            "private_key": str(certificate / "key.pem"),
        },
    }  # fmt: skip
    context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with AttackedServer(fields) as server:
        before = server.files()
        silent = [server.connected() for _ in range(400)]
        # The newest one is served, for which a silent one is ended.
        with context.wrap_socket(server.connected(), server_hostname="localhost") as secure:
            assert server.is_live(secure)
        # Those that are ended have files until the loop has seen it.
        assert server.files() <= before + 100 + 10
        assert server.growth < 60 * MEGABYTE
        for connection in silent:
            connection.close()


@pytest.mark.thorough
def test_silent_plain_connections_are_bounded(server: AttackedServer) -> None:
    before = server.files()
    silent: list[socket.socket] = []
    for _ in range(1200):
        silent.append(server.connected())
    assert server.is_live()
    assert server.files() <= before + 1000 + 10
    assert server.growth < MAX_GROWTH
    for connection in silent:
        connection.close()
