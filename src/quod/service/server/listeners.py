"""Listeners of gRPC and HTTP: Unix sockets for this user alone, and TCP with optional TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import grpc
import uvicorn
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from quod.errors import InputError
from quod.formats.source import read_small
from quod.frozen import frozen
from quod.service.errors import StoreInUseError
from quod.service.protocol.calls import CUZK_SERVICE, SERVICE
from quod.service.server.clients import Clients
from quod.service.server.config import Config, Listen
from quod.service.server.http.app import http_app
from quod.service.server.http.connections import (
    Connections,
    connections_at_most,
    limited_protocol,
    shrink_tls_buffers,
)
from quod.service.server.public_calls import PublicCalls
from quod.service.server.rpc import handlers
from quod.service.server.service import ProvingService

_UNIX: Final = "unix:"
_MAX_SOCKET_PATH_BYTES: Final = 107
_MAX_PEM_BYTES: Final = 1 << 20
_STOP_SECONDS: Final = 5
_HEALTH: Final = health.SERVICE_NAME
_KEEPALIVE_MS: Final = 60_000
_HANDSHAKE_MS: Final = 20_000
_IDLE_MS: Final = 300_000
_MAX_STREAMS: Final = 1000
_WINDOW_BYTES: Final = 16 << 10
_BACKLOG: Final = 128


@frozen
class Listeners:
    """The addresses of a server, as clients write them; HTTP over TCP as URLs."""

    grpc: tuple[str, ...]
    http: tuple[str, ...]
    health: health.aio.HealthServicer

    async def set_health(self, *, ready: bool) -> None:
        """Set the gRPC health status."""
        await _set_status(self.health, ready=ready)


@asynccontextmanager
async def listening(
    config: Config, service: ProvingService, clients: Clients
) -> AsyncIterator[Listeners]:
    """Listen within a block.

    At its end, requests in progress have 5 s to finish, or none if the service is `hurried`.
    """
    listen, folder = config.listen, Path(config.data)
    check_listen(config)
    servicer = health.aio.HealthServicer()
    await _set_status(servicer, ready=False)
    async with AsyncExitStack() as stack:
        grpc_addresses = []
        for is_local in (True, False):
            group_addresses = [
                address for address in listen.grpc if address.startswith(_UNIX) == is_local
            ]
            if group_addresses:
                server = grpc.aio.server(
                    options=_options(config), interceptors=(PublicCalls(service.intake),)
                )
                server.add_generic_rpc_handlers((handlers(service, clients, is_local=is_local),))
                names: tuple[str, ...] = (SERVICE, _HEALTH, reflection.SERVICE_NAME)
                if config.filecoin is not None:
                    from quod.service.server.cuzk import cuzk_handlers

                    params = config.filecoin.params
                    cuzk = cuzk_handlers(service, clients, params, is_local=is_local)
                    server.add_generic_rpc_handlers((cuzk,))
                    names += (CUZK_SERVICE,)
                health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
                reflection.enable_server_reflection(names, server)
                grpc_addresses += [
                    _bind_grpc(server, listen, folder, address) for address in group_addresses
                ]
                await server.start()
                stack.push_async_callback(_stop, server, service)
        urls = []
        for address in listen.http:
            is_local = address.startswith(_UNIX)
            connections = Connections(connections_at_most(listen.connections))
            listening_socket = connections.listener(_bind(folder, address))
            stack.enter_context(_close_at_end(listening_socket, is_local=is_local))
            app = http_app(service, clients, config.hosts(), is_local=is_local)
            runner = _HttpServer(_http_config(app, listen, connections, is_local))
            serving = asyncio.ensure_future(runner.serve(sockets=[listening_socket]))
            stack.push_async_callback(_end, runner, serving, service)
            while not runner.started and not serving.done():
                await asyncio.sleep(0.001)
            urls.append(_public_address(listening_socket, address, listen))
        yield Listeners(tuple(grpc_addresses), tuple(urls), servicer)


async def _set_status(servicer: health.aio.HealthServicer, *, ready: bool) -> None:
    states = health_pb2.HealthCheckResponse
    for name in ("", SERVICE):
        await servicer.set(name, states.SERVING if ready else states.NOT_SERVING)


@contextmanager
def _close_at_end(listening_socket: socket.socket, *, is_local: bool) -> Iterator[None]:
    """Close an HTTP socket at the end, and delete its path unless another socket replaced it."""
    path = listening_socket.getsockname() if is_local else None
    bound_status = None if path is None else os.lstat(path)
    try:
        yield
    finally:
        listening_socket.close()
        with suppress(OSError):
            if (
                path is not None
                and bound_status is not None
                and os.path.samestat(os.lstat(path), bound_status)
            ):
                os.unlink(path)


class _HttpServer(uvicorn.Server):
    """A server that does not install signal handlers."""

    def capture_signals(self) -> Any:
        return nullcontext()


async def _stop(server: grpc.aio.Server, service: ProvingService) -> None:
    await server.stop(0 if service.hurried else _STOP_SECONDS)


async def _end(runner: _HttpServer, serving: asyncio.Future[None], service: ProvingService) -> None:
    runner.should_exit = True
    runner.force_exit = service.hurried
    await serving


def _http_config(
    app: Any, listen: Listen, connections: Connections, is_local: bool
) -> uvicorn.Config:
    tls_options: dict[str, Any] = {}
    if not is_local and listen.certificate is not None:
        shrink_tls_buffers()
        tls_options = {
            "ssl_certfile": str(listen.certificate),
            "ssl_keyfile": str(listen.private_key),
        }
    return uvicorn.Config(
        app, http=limited_protocol(connections), backlog=_BACKLOG, log_config=None,
        access_log=False, lifespan="off", ws="none", server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=_STOP_SECONDS, **tls_options,
    )  # fmt: skip


def _options(config: Config) -> Sequence[tuple[str, int]]:
    return (
        ("grpc.max_receive_message_length", config.requests.message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", _MAX_STREAMS),
        # The bytes buffered of a stream that no handler reads; a waiting handler gets more.
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        ("grpc.max_allowed_incoming_connections", connections_at_most(config.listen.connections)),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS // 3),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 6),
    )


def check_listen(config: Config) -> None:
    """Raise InputError if the certificate or a socket path is unusable."""
    _check_certificate(config.listen)
    for address in (*config.listen.grpc, *config.listen.http):
        if address.startswith(_UNIX):
            _socket_path(config.data, address)


def _check_certificate(listen: Listen) -> None:
    """Raise InputError unless the certificate and its key load; grpcio does not report it."""
    if listen.certificate is None or listen.private_key is None:
        return
    for path in (listen.certificate, listen.private_key):
        _content(path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            listen.certificate, listen.private_key
        )
    except ssl.SSLError:
        raise InputError(
            f"is not a PEM certificate, or {listen.private_key} is not its key",
            path=listen.certificate,
        ) from None


def _bind_grpc(server: grpc.aio.Server, listen: Listen, folder: Path, address: str) -> str:
    try:
        if address.startswith(_UNIX):
            path = _free_socket_path(folder, address)
            with _private_files():
                server.add_insecure_port(f"{_UNIX}{path}")
            os.chmod(path, 0o600)
            return f"{_UNIX}{path}"
        credentials = _credentials(listen)
        port = (
            server.add_insecure_port(address)
            if credentials is None
            else server.add_secure_port(address, credentials)
        )
    except RuntimeError:
        raise _address_in_use(address) from None
    return f"{address.rpartition(':')[0]}:{port}"


def _credentials(listen: Listen) -> grpc.ServerCredentials | None:
    if listen.certificate is None or listen.private_key is None:
        return None
    authority = None if listen.client_ca is None else _content(listen.client_ca)
    return grpc.ssl_server_credentials(
        [(_content(listen.private_key), _content(listen.certificate))],
        root_certificates=authority,
        require_client_auth=authority is not None,
    )


def _content(path: Path) -> bytes:
    return read_small(path, limit=_MAX_PEM_BYTES, what="a certificate or a private key")


def _bind(folder: Path, address: str) -> socket.socket:
    """Bind a socket for HTTP."""
    try:
        if address.startswith(_UNIX):
            path = _free_socket_path(folder, address)
            listening_socket = socket.socket(socket.AF_UNIX)
            with _private_files():
                listening_socket.bind(path)
            return listening_socket
        host, _, port = address.rpartition(":")
        address_info = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        listening_socket = socket.socket(address_info[0])
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening_socket.bind(address_info[4])
    except OSError:
        raise _address_in_use(address) from None
    return listening_socket


def _address_in_use(address: str) -> StoreInUseError:
    return StoreInUseError(
        f"{address}: cannot listen on this address; another process uses it, or it is "
        "not this machine's"
    )


def _public_address(listening_socket: socket.socket, address: str, listen: Listen) -> str:
    if address.startswith(_UNIX):
        return f"{_UNIX}{listening_socket.getsockname()}"
    scheme = "http" if listen.certificate is None else "https"
    return f"{scheme}://{address.rpartition(':')[0]}:{listening_socket.getsockname()[1]}"


def _socket_path(folder: Path, address: str) -> str:
    path = str((folder / address.removeprefix(_UNIX)).absolute())
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH_BYTES:
        raise InputError(
            f"a Unix socket's path must have at most {_MAX_SOCKET_PATH_BYTES} bytes", path=path
        )
    # The server makes the data folder itself.
    if (parent := Path(path).parent) != folder.absolute():
        if not parent.is_dir():
            raise InputError(
                f"the folder {parent} does not exist; create it, owned by the server's user",
                path=path,
            )
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(
                f"the server's user may not create a socket in {parent}; make it the user's",
                path=path,
            )
    return path


def _free_socket_path(folder: Path, address: str) -> str:
    """Return the path of a Unix socket after removing a stale socket; raises if it is in use."""
    path = _socket_path(folder, address)
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise InputError("is not a socket; name another path in listen", path=path)
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                # Left by a server that has ended.
                os.unlink(path)
            else:
                raise _address_in_use(address)
    return path


@contextmanager
def _private_files() -> Iterator[None]:
    """Create files with mode 0600 within a block."""
    old_umask = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(old_umask)
