"""TLS on both listeners, with a certificate that openssl makes; the network sees no token."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import grpc
import httpx
import pytest

from quod.cli.service.jobs import connect
from quod.errors import InputError
from quod.service.client import Client, JobState, ProofRequest
from quod.service.errors import UnauthenticatedError, UnavailableError
from quod.service.server import listeners
from quod.service.server.clients import hashed_token
from quod.service.server.http.connections import Connections
from tests.service.server.conftest import Start
from tests.service.server.running_server import RunningServer

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with key.pem and cert.pem, for localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def server(start: Start, certificate: Path) -> RunningServer:
    return start(
        clients={"ann": {"tokens": [hashed_token(TOKEN)]}},
        listen={
            "grpc": ["unix:grpc.sock", "localhost:0"], "http": ["localhost:0"],
            "certificate": certificate / "cert.pem", "private_key": certificate / "key.pem",
        },
    )  # fmt: skip


def test_grpc(server: RunningServer, certificate: Path) -> None:
    address = server.listeners.grpc[1]
    with Client(address, token=TOKEN, certificate=certificate / "cert.pem") as client:
        assert client.prove(ProofRequest("membership", wtns=b"x")).client == "ann"
    with Client(address, token=TOKEN) as client, pytest.raises(UnavailableError):
        client.status()
    with Client(address, token=TOKEN, certificate=True) as client, pytest.raises(UnavailableError):
        client.status()
    with server.client() as client:
        assert client.prove(ProofRequest("membership", wtns=b"x")).state is JobState.SUCCEEDED


def test_commands_name_the_options_that_are_missing(
    server: RunningServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUOD_TOKEN", raising=False)
    address = server.listeners.grpc[1]
    with (
        pytest.raises(
            UnavailableError, match="for TLS the authority's certificate with --certificate"
        ),
        connect(address, None, None) as client,
    ):
        client.status()
    with (
        pytest.raises(UnauthenticatedError, match="as --token-file, or set QUOD_TOKEN"),
        connect(address, None, certificate / "cert.pem") as client,
    ):
        client.status()


def test_http(server: RunningServer, certificate: Path) -> None:
    [address] = server.listeners.http
    assert address.startswith("https://localhost:")
    context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    headers = {"Authorization": f"Bearer {TOKEN}", "Origin": address}
    with httpx.Client(base_url=address, verify=context, headers=headers) as http:
        answer = http.post("/v1/prove", json={"key": "membership", "inputs": {"a": 1}})
        assert answer.json()["state"] == "succeeded"
    plain = address.replace("https", "http")
    with httpx.Client(base_url=plain) as http, pytest.raises(httpx.HTTPError):
        http.get("/health/live")


def test_missing_handshake_times_out(
    start: Start, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "Connections", lambda most: Connections(most, 0.2))
    server = start(
        listen={
            "grpc": ["unix:grpc.sock"], "http": ["localhost:0"], "insecure_no_auth": True,
            "certificate": certificate / "cert.pem", "private_key": certificate / "key.pem",
        },
    )  # fmt: skip
    port = int(server.listeners.http[0].rpartition(":")[2])
    with socket.create_connection(("localhost", port), timeout=30) as silent:
        # The server ends it; asyncio alone would after 60 s.
        assert silent.recv(1) == b""


def test_mutual_tls(start: Start, certificate: Path) -> None:
    server = start(
        clients={"ann": {"tokens": [hashed_token(TOKEN)]}},
        listen={
            "grpc": ["localhost:0"], "certificate": certificate / "cert.pem",
            "private_key": certificate / "key.pem", "client_ca": certificate / "cert.pem",
        },
    )  # fmt: skip
    [address] = server.listeners.grpc
    authority = certificate / "cert.pem"
    with (
        Client(address, token=TOKEN, certificate=authority) as client,
        pytest.raises(UnavailableError),
    ):
        client.status()
    credentials = grpc.ssl_channel_credentials(
        *((certificate / name).read_bytes() for name in ("cert.pem", "key.pem", "cert.pem"))
    )
    with grpc.secure_channel(address, credentials) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=30) == b"\x08\x01"


def test_invalid_certificates_are_rejected(start: Start, tmp_path: Path) -> None:
    listen = {
        "grpc": ["localhost:0"], "insecure_no_auth": True,
        "certificate": tmp_path / "none", "private_key": tmp_path / "none",
    }  # fmt: skip
    with pytest.raises(AssertionError) as told:
        start(listen=listen)
    assert isinstance(told.value.__cause__, InputError)
    assert "does not exist" in str(told.value.__cause__)
    (tmp_path / "bad").write_text("not a PEM certificate")
    bad = {"certificate": tmp_path / "bad", "private_key": tmp_path / "bad"}
    for kind in ("grpc", "http"):
        with pytest.raises(AssertionError) as told:
            start(
                data=tmp_path / kind, listen={kind: ["localhost:0"], "insecure_no_auth": True} | bad
            )
        assert isinstance(told.value.__cause__, InputError), told.value.__cause__
