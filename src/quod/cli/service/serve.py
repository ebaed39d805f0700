"""quod serve: the proving service."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show, show_json, show_table, warn
from quod.cli.parameters import AsJson, InsecureTestKey, Option, WrongUsage
from quod.errors import InputError, OutputError, ServiceError
from quod.extras import installation

if TYPE_CHECKING:
    from quod.service.server.config import Config

_Texts = list[str] | None

_SLOW_THREADS = ("quod-filecoin", "quod-generation", "quod-keys", "quod-service")
"""Names of threads that may still load a key, prove or drain after the server has ended."""


def serve(
    config: Annotated[
        Path | None, Option(metavar="FILE", help="Configuration, quod.toml; flags override it.")
    ] = None,
    data: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Folder for the queue and sockets; created with mode 0700."),
    ] = None,
    keys: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Repository of keys. Default: `keys` in the data folder."),
    ] = None,
    add_key: Annotated[
        _Texts,
        Option(
            metavar="NAME=PATH",
            help="Register a zkey, or a folder with circuit.zkey; may be repeated.",
        ),
    ] = None,
    grpc: Annotated[_Texts, Option(metavar="ADDRESS", help="unix:PATH or HOST:PORT.")] = None,
    http: Annotated[_Texts, Option(metavar="ADDRESS", help="unix:PATH or HOST:PORT.")] = None,
    filecoin: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Serve Filecoin proofs, with the parameters of this folder."),
    ] = None,
    model: Annotated[
        _Texts,
        Option(
            metavar="NAME=FILE",
            help="Generate text with a model (GGUF), planned by `quod infer plan`; repeatable.",
        ),
    ] = None,
    devices: Annotated[
        _Texts, Option("--device", metavar="NAME", help="Device of a worker; may be repeated.")
    ] = None,
    warm: Annotated[
        _Texts,
        Option(metavar="KEY", help="Key to load before the server is ready; may be repeated."),
    ] = None,
    ray: Annotated[
        str | None,
        Option(metavar="ADDRESS", help="Ray cluster, or auto, whose actors are the workers."),
    ] = None,
    insecure_no_auth: Annotated[
        bool, Option("--insecure-no-auth", help="Serve anyone who can connect.")
    ] = False,
    insecure_plaintext: Annotated[
        bool,
        Option("--insecure-plaintext", help="Accept tokens over TCP without TLS."),
    ] = False,
    insecure_test_key: InsecureTestKey = False,
    check: Annotated[
        bool, Option("--check", help="Check configuration, keys and devices, and exit.")
    ] = False,
    new_token: Annotated[
        bool, Option("--new-token", help="Print a token and its hash, and exit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Serve proofs, or text of language models, until SIGTERM, which drains the server."""
    # The gRPC library would write to standard error directly, not to the log.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    _need_libraries()
    if new_token:
        _show_token(as_json)
        return
    from quod.service.server.settings import read_config

    flags: dict[tuple[str, ...], object] = {
        ("data",): None if data is None else str(data),
        ("keys",): None if keys is None else str(keys),
        ("listen", "grpc"): grpc, ("listen", "http"): http,
        ("listen", "insecure_no_auth"): insecure_no_auth or None,
        ("listen", "insecure_plaintext"): insecure_plaintext or None,
        ("workers", "devices"): devices, ("workers", "warm"): warm,
        ("workers", "ray"): ray,
        ("filecoin", "params"): None if filecoin is None else str(filecoin),
    } | _model_flags(model or [])  # fmt: skip
    settings = read_config(config, {name: value for name, value in flags.items() if value})
    if settings.models and add_key:
        raise WrongUsage("a server with models makes no proofs; omit --add-key, or --model")
    if settings.filecoin is not None:
        if add_key:
            raise WrongUsage(
                "--add-key has no effect on Filecoin's proofs, whose keys are parameter files; "
                "omit it, or omit --filecoin"
            )
        if insecure_test_key:
            section = settings.filecoin.model_copy(update={"insecure_test_key": True})
            settings = settings.model_copy(update={"filecoin": section})
    with _start_errors(settings):
        _add_keys(settings, add_key or [], insecure_test_key)
    if check:
        with _start_errors(settings):
            _check(settings, as_json)
    else:
        _run(settings)


@contextmanager
def _start_errors(config: Config) -> Iterator[None]:
    """Raise OutputError, with the file or the folder, for errors of the file system."""
    try:
        yield
    except OSError as error:
        path = error.filename or config.data
        raise OutputError(
            f"{os.fsdecode(path)}: {error.strerror or type(error).__name__}; the server has not "
            "started"
        ) from error


def _run(config: Config) -> None:
    import asyncio

    from quod.ceremony.core_dumps import forbid_core_dumps
    from quod.service.logs import write_log
    from quod.service.server.listeners import Listeners
    from quod.service.server.pools import make_pool
    from quod.service.server.process_limits import raise_file_limit
    from quod.service.server.running import serve as run

    write_log(config.log.level, as_json=config.log.json_lines)
    raise_file_limit()
    forbid_core_dumps()

    start = ExitStack()
    start.enter_context(_start_errors(config))

    def show_addresses(listeners: Listeners) -> None:
        # Errors of the file system are defects from now on.
        start.pop_all()
        for kind, addresses in (("grpc", listeners.grpc), ("http", listeners.http)):
            for address in addresses:
                show(f"{kind} {address}")
        sys.stdout.flush()

    with start:
        finished = asyncio.run(run(config, make_pool, show_addresses))
    if not finished:
        warn("unfinished jobs stay in the queue and are proved after the next start")
    if any(thread.name.startswith(_SLOW_THREADS) for thread in threading.enumerate()):
        # The queue is closed, and their end may be minutes away.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _add_keys(config: Config, key_arguments: list[str], allow_insecure: bool) -> None:
    """Register keys; create the repository if it is inside the data folder."""
    from quod.service.keys import KeyRepository
    from quod.service.queue.opening import private_folder

    if not key_arguments and config.keys is not None:
        return
    # Created first with mode 0700: the repository inside it has mode 0755.
    private_folder(config.data)
    repository = KeyRepository(config.keys_folder, create=True)
    for argument in key_arguments:
        name, equals, path = argument.partition("=")
        if not equals or not path:
            raise InputError(f"--add-key takes NAME=PATH, not {argument}")
        source = Path(path)
        wasm = source / "circuit.wasm"
        record = repository.add(
            source / "circuit.zkey" if source.is_dir() else source, names=[name], move=True,
            wasm=wasm if source.is_dir() and wasm.exists() else None, allow_insecure=allow_insecure,
        )  # fmt: skip
        note(f"Registered {name}: {record.identity}.")


def _model_flags(arguments: list[str]) -> dict[tuple[str, ...], object]:
    flags: dict[tuple[str, ...], object] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or not path:
            raise InputError(f"--model takes NAME=FILE, not {argument}")
        flags["models", name, "path"] = path
    return flags


def _check(config: Config, as_json: bool) -> None:
    from quod.frozen import fields_of
    from quod.service.server.startup_check import check, risks

    for risk in risks(config):
        warn(risk)
    costs = list(check(config))
    has_origins = any(cost.origin for cost in costs)
    if as_json:
        show_json([fields_of(cost) for cost in costs])
    else:
        rows = [
            (
                ", ".join(cost.names) or cost.key[:16], cost.device, f"{cost.read_bytes:,}",
                _number(cost.host_bytes), _number(cost.device_bytes),
                "" if cost.load_seconds is None else f"{cost.load_seconds:.3f}",
                *([cost.origin] if has_origins else []),
            )
            for cost in costs
        ]  # fmt: skip
        columns = (
            "model" if config.models else "key",
            "device",
            "bytes read",
            "host memory",
            "device memory",
            "seconds to load",
        )
        show_table((*columns, *["origin"] * has_origins), rows, right=columns[2:])
    failed = [cost for cost in costs if cost.problem]
    for cost in failed:
        warn(f"{cost.key} on {cost.device}: {cost.problem}")
    what = "models" if config.models else "keys"
    if failed:
        raise ServiceError(
            f"{len(failed)} of {len(costs)} {what} cannot be used; see the warnings above"
        )
    if config.workers.ray is not None:
        note("The configuration is sound; the cluster's devices were not checked.")
        return
    if not costs:
        note("The configuration is sound; there are no keys to check on the devices.")
        return
    if config.filecoin is not None:
        _note_extent(config.workers.warm, [cost.origin for cost in costs])
        return
    note(f"The configuration, the {what} and the devices are sound.")


def _note_extent(warm: Sequence[str], origins: Sequence[str]) -> None:
    """Print what was checked of Filecoin's parameters, and what was not."""
    note("The configuration and the devices are sound.")
    names = ", ".join(name.removesuffix(":latest") for name in warm)
    if warm:
        note(f"Opened as for a proof: {names}.")
    note(
        f"Of {'other' if warm else 'the'} circuits only the verifying key, the counts and the "
        "length of each file were checked; --warm NAME opens them, and shows their memory."
    )
    if "not checked" in origins:
        note("`quod filecoin params --params FOLDER` compares files with the network's digests.")


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _show_token(as_json: bool) -> None:
    from quod.service.server.clients import hashed_token
    from quod.service.server.clients import new_token as create_token

    token = create_token()
    if as_json:
        show_json({"token": token, "hash": hashed_token(token)})
    else:
        show(token)
        show(hashed_token(token))
        note(
            "The first line is the client's token; the second goes into its `tokens` in quod.toml."
        )


def _need_libraries() -> None:
    try:
        import fastapi  # noqa: F401
        import grpc_reflection  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ServiceError(
            f"quod serve needs the package {error.name}; {installation('service')}"
        ) from None
