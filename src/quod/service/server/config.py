"""The configuration of a server: the fields of quod.toml, environment variables and flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from quod.errors import InputError
from quod.service.keys.names import is_identity, parse_name
from quod.service.queue import Limits, Quota
from quod.service.queue.opening import checked_database
from quod.service.queue.records import HIGHEST_PRIORITY
from quod.service.queue.validation import checked_name
from quod.service.server.clients import ANONYMOUS, LOCAL, Client, Clients, Role, is_hashed

Count = Annotated[int, Field(ge=0, lt=1 << 62)]
Positive = Annotated[int, Field(ge=1, lt=1 << 62)]
Seconds = Annotated[float, Field(gt=0, lt=1e9)]

_ADDRESS: Final = re.compile(
    r"unix:(?P<path>.+)|(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+):(?P<port>\d+)"
)
BUDGET_SHARE: Final = 2
"""One client may use at most 1/BUDGET_SHARE of `RequestLimits.budget_bytes`."""

FILECOIN_MESSAGE_BYTES: Final = 256 << 20
"""The default of `RequestLimits.message_bytes` with Filecoin proofs: the limit of Curio."""

_FILECOIN_BUDGET_BYTES: Final = 16 * FILECOIN_MESSAGE_BYTES
_MIN_BODY_SECONDS: Final = 10.0
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


def _is_loopback(host: str) -> bool:
    return host.lower() in _LOOPBACK or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or (match["port"] and int(match["port"]) > 65535):
        raise ValueError("write unix:PATH or HOST:PORT")
    return text


def _hashed(text: str) -> str:
    if not is_hashed(text):
        raise ValueError("write what `quod serve --new-token` prints, sha256: and 64 digits")
    return text


def _key(text: str) -> str:
    try:
        return text if is_identity(text) else str(parse_name(text))
    except InputError as error:
        raise ValueError(str(error)) from None


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("must be an absolute path")
    return path


def _path(value: object) -> object:
    # An empty variable would otherwise mean the current folder.
    if value == "":
        raise ValueError("must be a path")
    return value


def _database(text: str) -> str:
    try:
        return checked_database(text)
    except InputError as error:
        raise ValueError(str(error)) from None


OwnPath = Annotated[Path, BeforeValidator(_path)]
Address = Annotated[str, AfterValidator(_address)]
KeyText = Annotated[str, AfterValidator(_key)]


class _Section(BaseModel):
    """A section that rejects unknown fields; errors do not show values."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Listen(_Section):
    """The listening addresses. Socket paths are relative to the data folder."""

    grpc: tuple[Address, ...] = ("unix:grpc.sock",)
    http: tuple[Address, ...] = ("unix:http.sock",)
    hosts: tuple[str, ...] = ()
    """Additional values of the HTTP header `Host`, besides the listening addresses."""

    connections: Positive = 1000
    """The limit of open connections, for each HTTP address and for all gRPC addresses together.

    A connection counts once it is accepted, and takes up to 100 kB. The limit is at most a quarter
    of the files that the server may open.
    """

    insecure_no_auth: bool = False
    insecure_plaintext: bool = False
    """Accept tokens and witnesses over TCP without TLS, behind a proxy that terminates TLS."""

    certificate: OwnPath | None = None
    private_key: OwnPath | None = None
    client_ca: OwnPath | None = None
    """The authority that must have signed the certificates of gRPC clients (mutual TLS)."""

    @model_validator(mode="after")
    def _check_tls(self) -> Listen:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key require each other")
        if self.client_ca is not None and self.certificate is None:
            raise ValueError("client_ca requires a certificate")
        return self

    @property
    def open(self) -> list[str]:
        """The TCP addresses, which other users can reach."""
        return [address for address in (*self.grpc, *self.http) if not address.startswith("unix:")]

    @property
    def plaintext(self) -> list[str]:
        """The addresses without TLS that other machines can reach."""
        if self.certificate is not None:
            return []
        return [address for address in self.open if not _is_loopback(address.rpartition(":")[0])]


class Workers(_Section):
    """The workers, one for each device, with the same settings.

    All fields but the first three are those of `quod.service.worker.WorkerSettings`.
    """

    devices: Annotated[tuple[str, ...], Field(min_length=1)] = ("cpu",)
    processes: bool = True
    """Run each worker in a process of its own, whose crash does not affect the server."""

    ray: str | None = None
    """The address of a Ray cluster, or "auto": workers are actors, placed by Ray."""

    warm: tuple[KeyText, ...] = ()
    host_bytes: Positive | None = None
    device_bytes: Positive | None = None
    memory_bytes: Positive | None = None
    ahead: Annotated[int, Field(ge=1, le=64)] = 2
    checks: Annotated[int, Field(ge=1, le=64)] = 2
    lanes: Annotated[int, Field(ge=1, le=16)] | None = None
    together: Annotated[int, Field(ge=1, le=32)] | None = None
    patience_seconds: Seconds = 900.0


class QueueLimits(_Section):
    """Limits of the queue; see `quod.service.queue.Limits`."""

    jobs: Count = 100_000
    payload_bytes: Count = 1 << 40
    kept_jobs: Count = 1_000_000
    max_attempts: Annotated[int, Field(ge=1, le=1000)] = 3
    lease_seconds: Seconds = 30.0
    suspend_after: Annotated[int, Field(ge=1, le=1000)] = 3
    keep_seconds: Seconds = 86_400.0
    result_bytes: Count = 1 << 20
    stage_events: Count = 100
    ballast_bytes: Annotated[int, Field(ge=4096, lt=1 << 62)] = 16 << 20


class RequestLimits(_Section):
    """Limits of single requests and clients."""

    message_bytes: Annotated[int, Field(ge=4096, lt=1 << 31)] = 4 << 20
    """The maximum size of a gRPC message or JSON body.

    Larger witnesses and inputs are uploaded in chunks.
    """

    budget_bytes: Positive = 128 << 20
    """The memory budget of all requests; one client may use at most half of it."""

    bytes_per_second: Positive = 64 << 10
    """The minimum rate of a body, which must arrive within 10 s plus its length at this rate."""

    witness_bytes: Positive = 16 << 30
    """The maximum size of an upload."""

    uploads: Positive = 16
    """Concurrent uploads of a client."""

    streams: Positive = 64
    """Concurrent event streams of a client."""

    waits: Positive = 10_000
    """Concurrent calls of a client that wait for a job."""

    wait_seconds: Seconds = 3600.0
    idle_seconds: Seconds = 60.0
    """The maximum seconds between two chunks of an upload."""

    drain_seconds: Seconds = 60.0

    @model_validator(mode="after")
    def _check_budget(self) -> RequestLimits:
        if self.message_bytes * 2 * BUDGET_SHARE > self.budget_bytes:
            raise ValueError(
                f"budget_bytes must be at least {2 * BUDGET_SHARE} times message_bytes, so that a "
                "client can send two messages at a time"
            )
        return self

    def seconds_for(self, nbytes: int) -> float:
        """Return the time limit of a body in seconds."""
        return _MIN_BODY_SECONDS + nbytes / self.bytes_per_second


class ClientSection(_Section):
    """A client: its tokens, permissions and quotas."""

    tokens: tuple[Annotated[str, AfterValidator(_hashed)], ...] = ()
    roles: tuple[Role, ...] = (Role.CLIENT,)
    keys: tuple[KeyText, ...] | None = None
    priority: Annotated[int, Field(ge=0, le=HIGHEST_PRIORITY)] = HIGHEST_PRIORITY
    root: Annotated[Path, AfterValidator(_absolute)] | None = None
    jobs: Count = Quota().jobs
    payload_bytes: Count = Quota().payload_bytes

    def client(self, name: str) -> Client:
        keys = None if self.keys is None else frozenset(self.keys)
        root = None if self.root is None else str(self.root)
        return Client(name, frozenset(self.roles), keys, self.priority, root)


class Log(_Section):
    """The log on standard error: lines of JSON or text."""

    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    json_lines: bool = True


class Filecoin(_Section):
    """Filecoin proofs in the protocol of cuzk, in place of proofs with registered keys."""

    params: OwnPath
    """The folder of the parameters, with the network's file names."""

    insecure_test_key: bool = False
    """Accept test keys, for which anyone can forge proofs."""


class Model(_Section):
    """A language model that generates text.

    path: its GGUF file.
    plan: its plan; default: `PATH.plan.json`.
    context: the positions that fit, of prompt and answer together; default: the model's.
    sequences: the texts that a worker generates concurrently.
    """

    path: OwnPath
    plan: OwnPath | None = None
    context: Annotated[int, Field(ge=2, le=1 << 20)] | None = None
    sequences: Annotated[int, Field(ge=1, le=64)] = 4


class Tracing(_Section):
    """The OpenTelemetry endpoint (OTLP over HTTP); empty, the default, disables tracing."""

    endpoint: str = ""


def _client_names(clients: dict[str, ClientSection]) -> dict[str, ClientSection]:
    try:
        for name in clients:
            checked_name("the name of a client", name)
    except InputError as error:
        raise ValueError(str(error)) from None
    return clients


def _model_names(models: dict[str, Model]) -> dict[str, Model]:
    for name in models:
        if _key(name) != f"{name}:latest":
            raise ValueError(f"the name of a model has no tag: {name}")
    return models


class Config(_Section):
    """The whole configuration.

    data: the folder of the queue.
    keys: the folder of the key repository; default: ``data/keys``.
    """

    data: OwnPath
    keys: OwnPath | None = None
    database: Annotated[str, AfterValidator(_database)] | None = Field(default=None, repr=False)
    database_schema: str = "quod"
    listen: Listen = Listen()
    workers: Workers = Workers()
    queue: QueueLimits = QueueLimits()
    requests: RequestLimits = RequestLimits()
    clients: Annotated[dict[str, ClientSection], AfterValidator(_client_names)] = {}
    log: Log = Log()
    tracing: Tracing = Tracing()
    filecoin: Filecoin | None = None
    models: Annotated[dict[str, Model], AfterValidator(_model_names)] = {}
    """Language models by name, in place of proofs."""

    @model_validator(mode="before")
    @classmethod
    def _allow_large_messages(cls, values: object) -> object:
        """Set the limits of requests for Filecoin, whose outputs of C1 are 70 MB messages."""
        if not isinstance(values, dict) or values.get("filecoin") is None:
            return values
        requests = values.get("requests", {})
        if isinstance(requests, dict):
            requests = {
                "message_bytes": FILECOIN_MESSAGE_BYTES, "budget_bytes": _FILECOIN_BUDGET_BYTES,
            } | requests  # fmt: skip
        return values | {"requests": requests}

    @model_validator(mode="after")
    def _check_sections(self) -> Config:
        tokens = [token for client in self.clients.values() for token in client.tokens]
        if len({*tokens}) != len(tokens):
            raise ValueError("two clients have the same token")
        if self.listen.open and not tokens and not self.listen.insecure_no_auth:
            address = self.listen.open[0]
            others = (
                "every user of this machine"
                if _is_loopback(address.rpartition(":")[0])
                else "other machines"
            )
            raise ValueError(
                f"{address} is reachable by {others}: give clients tokens (quod serve "
                "--new-token), listen on a Unix socket, or pass --insecure-no-auth"
            )
        if self.listen.plaintext and tokens and not self.listen.insecure_plaintext:
            raise ValueError(
                f"{self.listen.plaintext[0]} would accept tokens and witnesses without "
                "TLS: give listen a certificate and its private_key, or pass "
                "--insecure-plaintext if a proxy terminates TLS"
            )
        if self.workers.ray is not None and self.filecoin is not None:
            raise ValueError("workers on a cluster do not make Filecoin proofs: omit ray")
        if self.models and (self.filecoin is not None or self.workers.ray is not None):
            raise ValueError("a server with models has no workers for Filecoin, nor on a cluster")
        if self.models and self.workers.warm:
            raise ValueError("the models of a server are all loaded at its start: omit warm")
        if self.workers.ray is not None and self.database is None:
            raise ValueError("workers on a cluster need a queue in Postgres: give its database")
        return self

    @property
    def keys_folder(self) -> Path:
        """The folder of the key repository."""
        return self.data / "keys" if self.keys is None else self.keys

    def limits(self) -> Limits:
        """Build the limits of the queue, with the quotas of clients."""
        quotas = {
            name: Quota(client.jobs, client.payload_bytes) for name, client in self.clients.items()
        }
        return Limits(clients=quotas, **self.queue.model_dump())

    def client_table(self) -> Clients:
        """Build the table of clients.

        The client of the Unix socket has all permissions unless `clients.local` restricts it.
        """
        all_roles = frozenset(Role)
        tokens = [
            (token, section.client(name))
            for name, section in self.clients.items()
            for token in section.tokens
        ]
        local_section = self.clients.get(LOCAL)
        # Only the server's own user can connect, and may read what the server may.
        local = local_section.client(LOCAL) if local_section else Client(LOCAL, all_roles, root="/")
        anonymous_section = self.clients.get(ANONYMOUS)
        anonymous = (
            anonymous_section.client(ANONYMOUS)
            if anonymous_section
            else Client(ANONYMOUS, all_roles)
        )
        allows_anonymous = self.listen.insecure_no_auth
        return Clients(tokens, local=local, anonymous=anonymous if allows_anonymous else None)

    def hosts(self) -> frozenset[str]:
        """Return the accepted values of the header `Host`, without ports."""
        open_hosts = [host.rpartition(":")[0] for host in self.listen.open]
        named_hosts = [host for host in open_hosts if host not in ("0.0.0.0", "[::]")]
        return frozenset(host.lower() for host in (*_LOOPBACK, *named_hosts, *self.listen.hosts))
