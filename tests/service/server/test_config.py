"""The configuration: unknown values are rejected with the file or variable and the field."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.service.errors import StoreInUseError
from quod.service.keys import KeyRepository, ResidentKeys
from quod.service.queue import Limits, Quota, open_queue
from quod.service.server.clients import hashed_token, is_hashed, new_token
from quod.service.server.config import Config
from quod.service.server.listeners import check_listen
from quod.service.server.pools import make_pool
from quod.service.server.settings import read_config
from quod.service.server.startup_check import risks
from quod.service.worker.opening import opener
from tests.service.server.conftest import Start

HASH = hashed_token("a token of somebody's")

WHOLE = f"""
data = "/data"
keys = "/keys"

[listen]
http = ["unix:http.sock", "127.0.0.1:8080"]
hosts = ["prover.example"]

[workers]
devices = ["cpu"]
warm = ["membership"]

[queue]
jobs = 5

[requests]
drain_seconds = 3.5

[clients.ann]
tokens = ["{HASH}"]
keys = ["membership", "other:v2"]
priority = 4
root = "/srv/ann"
jobs = 2
"""


def read(tmp_path: Path, text: str, flags: Any = None, environment: Any = None) -> Config:
    path = tmp_path / "quod.toml"
    path.write_text(text)
    return read_config(path, flags or {}, environment or {})


def test_complete_configuration_is_read(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    assert config.limits().quota_of("ann") == Quota(2, Quota().payload_bytes)
    assert config.limits().jobs == 5
    client = config.clients["ann"].client("ann")
    assert client.keys == {"membership:latest", "other:v2"}
    assert (client.priority, client.root) == (4, "/srv/ann")
    assert config.hosts() == {"localhost", "127.0.0.1", "[::1]", "prover.example"}


def test_flags_override_environment_and_file(tmp_path: Path) -> None:
    environment = {
        "QUOD_SERVE_QUEUE__JOBS": "7",
        "QUOD_SERVE_DATA": "/elsewhere",
        "QUOD_SERVE_WORKERS__WARM": '["a", "b"]',
        "OTHER": "x",
    }
    config = read(tmp_path, WHOLE, {("data",): "/flag"}, environment)
    assert (config.data, config.queue.jobs) == (Path("/flag"), 7)
    assert config.workers.warm == ("a:latest", "b:latest")
    assert read_config(None, {("data",): "d", ("keys",): "k"}, {}).listen.open == []


@pytest.mark.parametrize(
    ("field", "argument", "most"), [("lanes", "lanes", 16), ("together", "max_batch", 32)]
)
def test_worker_bounds_match_key_bounds(
    tmp_path: Path, field: str, argument: str, most: int
) -> None:
    """The file's bounds equal those of ResidentKeys."""
    name = f"QUOD_SERVE_WORKERS__{field.upper()}"
    assert getattr(read(tmp_path, WHOLE).workers, field) is None
    repository = KeyRepository(tmp_path / "keys", create=True)
    with open_queue(tmp_path / "queue", limits=Limits(ballast_bytes=4096)) as queue:
        for count in (1, most):
            config = read(tmp_path, WHOLE, environment={name: str(count)})
            pool: Any = make_pool(config, queue, repository)
            [worker] = pool._workers.values()
            assert getattr(worker._settings, field) == count
            assert opener(repository, worker._settings)().close() is None
    for count in (0, most + 1):
        with pytest.raises(InputError, match=f"workers.{field}: "):
            read(tmp_path, WHOLE, environment={name: str(count)})
        with pytest.raises(InputError, match=argument):
            ResidentKeys(repository, "cpu", **{argument: count})  # type: ignore[arg-type]


BAD = {
    "a cluster without a database": (
        'data = "d"\n[workers]\nray = "auto"', "workers on a cluster need a queue in Postgres"
    ),
    "an unknown field": ('data = "d"\nkeys = "k"\nkyes = 1', "kyes: unknown field"),
    "an unknown section": ('data = "d"\nkeys = "k"\n[quue]\na = 1', "quue: unknown"),
    "deep": (WHOLE + "tokenz = 1", "clients.ann.tokenz: unknown field"),
    "not there": ('keys = "k"', "data: is required"),
    "of another kind": (WHOLE.replace("jobs = 5", 'jobs = "five"'), "queue.jobs: "),
    "a token that is not hashed": (WHOLE.replace(HASH, "secret"), "clients.ann.tokens.0: write"),
    "an address": (WHOLE.replace("127.0.0.1:8080", "8080"), "listen.http.1: write unix:PATH or"),
    "a port": (WHOLE.replace(":8080", ":99999"), "listen.http.1: write unix:PATH or"),
    "a key": (WHOLE.replace("other:v2", "NO KEY"), "clients.ann.keys.1: the name of a key must be"),
    "a priority": (WHOLE.replace("priority = 4", "priority = 10"), "clients.ann.priority: "),
    "a role": (WHOLE + 'roles = ["king"]', "clients.ann.roles.0: "),
    "a root": (WHOLE.replace("/srv/ann", "srv"), "clients.ann.root: must be an absolute path"),
    "no tokens": (
        WHOLE.split("[clients")[0], "127.0.0.1:8080 is reachable by every user of this machine",
    ),
    "tokens without TLS": (
        WHOLE.replace("127.0.0.1", "0.0.0.0"), "0.0.0.0:8080 would accept tokens and witnesses"
    ),
    "one token for two": (WHOLE + f'[clients.bob]\ntokens = ["{HASH}"]', "have the same token"),
    "half of TLS": (
        WHOLE.replace("hosts", 'certificate = "c"\nhosts'), "certificate and private_key require",
    ),
    "no TOML": ("data = ", "is not TOML"),
    "no text": ("\0", "is not TOML"),
    "an empty path": (WHOLE.replace('"/data"', '""'), "data: must be a path"),
    "another database": (
        'data = "d"\ndatabase = "mysql://ann:secret@host/x"', "database: the database must be",
    ),
    "a name": (WHOLE.replace("clients.ann", 'clients."a\\u0007"'), "the name of a client must be"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_invalid_configurations_are_rejected(tmp_path: Path, what: str) -> None:
    text, message = BAD[what]
    with pytest.raises(InputError) as told:
        read(tmp_path, text)
    assert str(told.value).startswith(f"{tmp_path}/quod.toml: ")
    assert message in str(told.value)
    assert told.value.exit_code == 3
    for secret in ("secret", HASH, HASH[9:30]):
        assert secret not in str(told.value)


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ({}, {"QUOD_SERVE_KYES": "k"}, "QUOD_SERVE_KYES: kyes: unknown field"),
        ({}, {"QUOD_SERVE_QUEUE__JOBS": "x"}, "QUOD_SERVE_QUEUE__JOBS: queue.jobs: "),
        ({}, {"QUOD_SERVE_DATA__X": "x"}, "QUOD_SERVE_DATA__X: data is not a section"),
        ({("listen", "http"): ["x"]}, {}, "--http: listen.http.0: write unix:PATH"),
    ],
)
def test_variables_and_flags(tmp_path: Path, flags: Any, environment: Any, message: str) -> None:
    with pytest.raises(InputError) as told:
        read(tmp_path, WHOLE, flags, environment)
    assert str(told.value).startswith(message)


def test_invalid_configuration_files_are_rejected(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match=r"does not exist|but a folder"):
            read_config(path, {}, {})
    (tmp_path / "large").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(InputError, match=r"is longer than .* \(1,048,576 bytes\)"):
        read_config(tmp_path / "large", {}, {})


@pytest.mark.parametrize(
    ("listen", "open_ones"),
    [
        ('http = ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.1.2.3:1", "unix:x"]', 0),
        ('http = ["10.0.0.1:1"]\ngrpc = ["[::]:1", "prover.example:1"]', 3),
        ('http = ["10.0.0.1:1"]\ncertificate = "c"\nprivate_key = "k"', 0),
    ],
)
def test_plaintext_listeners_are_risks(tmp_path: Path, listen: str, open_ones: int) -> None:
    text = f'data = "d"\n[clients.ann]\ntokens = ["{HASH}"]\n[listen]\n{listen}\n'
    config = read(tmp_path, text + "insecure_plaintext = true")
    assert len(config.listen.plaintext) == open_ones
    assert len(risks(config)) == bool(open_ones)
    if open_ones:
        with pytest.raises(InputError, match="without TLS"):
            read(tmp_path, text)
    else:
        read(tmp_path, text)


def test_risks_are_accepted_explicitly(tmp_path: Path) -> None:
    assert risks(read(tmp_path, WHOLE)) == []
    text = 'data = "d"\ndatabase = "postgresql:///q"\n[workers]\nray = "auto"\n[listen]\n'
    text += 'http = ["127.0.0.1:1"]\ninsecure_no_auth = true'
    reached, ray = risks(read(tmp_path, text))
    assert "127.0.0.1:1: without authentication, anyone" in reached
    assert "Ray has no authentication" in ray


def test_tokens() -> None:
    first, second = new_token(), new_token()
    assert first != second
    assert is_hashed(hashed_token(first))
    assert not is_hashed(first)
    assert first not in hashed_token(first)


def test_unusable_addresses_are_reported(start: Start, tmp_path: Path, keys: Path) -> None:
    first = start(listen={"http": ["unix:http.sock", "127.0.0.1:0"], "insecure_no_auth": True})
    port = first.listeners.http[1].rpartition(":")[2]
    settings = {"data": tmp_path / "b", "keys": keys}
    (tmp_path / "file").write_text("x")
    data = Path(first.config.data)
    for listen, message in (
        ({"http": [f"127.0.0.1:{port}"]}, "cannot listen on this address"),
        ({"http": [f"unix:{data}/http.sock"]}, "cannot listen on this address"),
        ({"grpc": [f"unix:{data}/grpc.sock"]}, "cannot listen on this address"),
        ({"grpc": [f"127.0.0.1:{port}"]}, "cannot listen on this address"),
        ({"http": [f"unix:{tmp_path}/file"]}, "is not a socket"),
        ({"http": ["unix:" + "x" * 200]}, "must have at most 107 bytes"),
    ):
        with pytest.raises(AssertionError) as told:
            start(**settings, listen=listen | {"insecure_no_auth": True})
        assert isinstance(told.value.__cause__, (StoreInUseError, InputError))
        assert message in str(told.value.__cause__)
    with first.http() as http:
        assert http.get("/health/live").status_code == 200


def test_stale_socket_is_replaced(start: Start, tmp_path: Path) -> None:
    first = start(data=tmp_path / "a")
    address = Path(first.listeners.http[0].removeprefix("unix:"))
    first.stop()
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(address))
    with start(data=tmp_path / "a").http() as http:
        assert http.get("/health/live").status_code == 200


def test_sockets_are_removed_on_exit(start: Start, tmp_path: Path) -> None:
    first = start(data=tmp_path / "a")
    assert {"grpc.sock", "http.sock"} <= {each.name for each in (tmp_path / "a").iterdir()}
    first.stop()
    assert not list((tmp_path / "a").glob("*.sock"))
    # One that somebody else has put there meanwhile stays.
    second = start(data=tmp_path / "a")
    path = Path(second.listeners.http[0].removeprefix("unix:"))
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        second.stop()
        assert path.is_socket()


def test_invalid_repository_is_reported(start: Start, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as told:
        start(keys=tmp_path / "none")
    assert "is not a repository of keys" in str(told.value.__cause__)
    KeyRepository(tmp_path / "none", create=True)
    start(keys=tmp_path / "none", data=tmp_path / "again")


def test_filecoin_permits_the_messages_of_curio(tmp_path: Path) -> None:
    """A configured limit stays; a cluster is refused."""
    assert Config(data=tmp_path).requests.message_bytes == 4 << 20
    fields = {"data": tmp_path, "filecoin": {"params": tmp_path}}
    assert Config.model_validate(fields).requests.message_bytes == 256 << 20
    requests = {"message_bytes": 1 << 20, "waits": 5}
    limits = Config.model_validate(fields | {"requests": requests}).requests
    assert (limits.message_bytes, limits.waits) == (1 << 20, 5)
    cluster = {"workers": {"ray": "auto"}, "database": "postgresql://db/quod"}
    with pytest.raises(ValueError, match="workers on a cluster do not make Filecoin proofs"):
        Config.model_validate(fields | cluster)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('filecoin = "/params"', r"filecoin: must be a section, \[filecoin\]"),
        ('[filecoin]\nparam = "/params"', "filecoin.param: unknown field"),
        ("[filecoin]\nparams = 5", "filecoin.params: must be a path"),
        ("[filecoin]\n", "filecoin.params: is required"),
    ],
)
def test_wrong_sections_of_filecoin(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "quod.toml").write_text(f'data = "{tmp_path}"\n{text}\n')
    with pytest.raises(InputError, match=message):
        read_config(tmp_path / "quod.toml", {}, {})


def test_addresses_of_this_machine(tmp_path: Path) -> None:
    for address, others in (("127.0.0.1:1", "every user of this machine"), ("[::]:1", "machines")):
        with pytest.raises(InputError, match=f"is reachable by .*{others}"):
            read_config(None, {("data",): str(tmp_path), ("listen", "grpc"): [address]}, {})


def test_folders_of_sockets(tmp_path: Path) -> None:
    fields = {"data": tmp_path / "d", "listen": {"grpc": [f"unix:{tmp_path}/none/s"]}}
    with pytest.raises(InputError, match=f"the folder {tmp_path}/none does not exist; create it"):
        check_listen(Config.model_validate(fields))
    check_listen(Config.model_validate({"data": tmp_path / "d"}))
