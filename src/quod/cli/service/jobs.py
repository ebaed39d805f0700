"""quod submit, wait, status and cancel: a server from the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from quod import shallow_json
from quod.cli.display.terminal import note, show, show_json
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, AsJson, Option, Quiet
from quod.errors import InputError, ServiceError
from quod.extras import installation
from quod.wording import counted

if TYPE_CHECKING:
    from quod.service.client import Client, RemoteJob

_SERVER = Option(
    "--server", environment="QUOD_SERVER", metavar="ADDRESS", help="unix:PATH or HOST:PORT."
)
_TOKEN_FILE = Option(
    "--token-file", metavar="FILE", help="File with the token. Default: QUOD_TOKEN, if set."
)
_CERTIFICATE = Option(
    "--certificate", metavar="FILE", help="Certificate of the authority, for TLS."
)
_JOB = Argument("JOB", "Job identifier, as printed by `quod submit`.")

Server = Annotated[str, _SERVER]
TokenFile = Annotated[Path | None, _TOKEN_FILE]
Certificate = Annotated[Path | None, _CERTIFICATE]
Job = Annotated[str, _JOB]
Files = Annotated[
    list[Path] | None,
    Option(metavar="FILE", help="Witness file; may be repeated, one a partition."),
]
Timeout = Annotated[
    float | None,
    Option(metavar="SECONDS", help="Stop waiting after this time. Default: never.", least=0),
]

_MAX_TOKEN_BYTES = 1 << 12

DEFAULT_SERVER = "unix:data/grpc.sock"
"""The default address: that of `quod serve --data data`, started in the same folder."""


@contextmanager
def connect(server: str, token_file: Path | None, certificate: Path | None) -> Iterator[Client]:
    """Connect to a server; the token is never on the command line, which others can see."""
    try:
        from quod.service.client import Client
    except ImportError as error:
        raise ServiceError(
            f"this command needs the package {error.name}; {installation('client')}"
        ) from None
    token = os.environ.get("QUOD_TOKEN") or None
    if token_file is not None:
        from quod.formats.source import read_small

        content = read_small(token_file, limit=_MAX_TOKEN_BYTES, what="a token")
        token = content.decode(errors="replace").strip()
    from quod.service.errors import UnauthenticatedError, UnavailableError

    try:
        with Client(server, token=token, certificate=certificate) as client:
            yield client
    except UnauthenticatedError as error:
        if token is not None:
            raise
        raise UnauthenticatedError(
            f"{error}; pass the file with the token as --token-file, or set QUOD_TOKEN"
        ) from None
    except UnavailableError as error:
        may_have_tls = certificate is None and not server.startswith("unix:")
        raise UnavailableError(
            f"{error}; give the server's address with --server or QUOD_SERVER"
            + (
                ", and for TLS the authority's certificate with --certificate"
                if may_have_tls
                else ""
            ),
            retry_seconds=error.retry_seconds,
        ) from None


def submit(
    key: Annotated[str, Argument("KEY", "Name, NAME:TAG, or identity.")],
    wtns: Files = None,
    inputs: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE", help="Inputs of the circuit (JSON); may be repeated, one a partition."
        ),
    ] = None,
    path: Annotated[
        list[str] | None,
        Option(
            metavar="PATH",
            help="Path of a witness on the server, below your root; may be repeated.",
        ),
    ] = None,
    idempotency_key: Annotated[
        str, Option(metavar="TEXT", help="Key of the request: a repeated request is the same job.")
    ] = "",
    priority: Annotated[
        int, Option(help="Jobs of a higher priority are proved first.", least=0, most=9)
    ] = 0,
    deadline: Annotated[
        float | None, Option(metavar="SECONDS", help="Seconds from now.", least=0)
    ] = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:
    """Submit a job to a server; print its identifier once it is on the server's disk."""
    with connect(server, token_file, certificate) as client:
        import time

        from quod.service.client import ProofRequest

        request = ProofRequest(
            key,
            [_witness(file) for file in wtns] if wtns else None,
            path or None,
            [_inputs(file) for file in inputs] if inputs else None,
            idempotency_key,
            priority,
            None if deadline is None else time.time() + deadline,
        )
        show(client.submit(request).id)


def wait(
    job: Job,
    proof: Annotated[Path | None, Option(metavar="FILE", help="File for the proof (JSON).")] = None,
    public: Annotated[
        Path | None, Option(metavar="FILE", help="File for the public inputs (JSON).")
    ] = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
    quiet: Quiet = False,
) -> None:
    """Wait for a job. The exit code is 0 only if it has succeeded."""
    outputs = {"proof": proof, "publicSignals": public}
    output_paths = [path for path in outputs.values() if path is not None]
    check_outputs(output_paths, [])
    with connect(server, token_file, certificate) as client:
        remote_job = client.wait(job, timeout)
    if as_json:
        show_json(_described(remote_job))
    results = remote_job.require_results()
    if output_paths and len(results) != 1:
        raise InputError(f"the job has {counted(len(results), 'proof')}; print them with --json")
    if output_paths and "text" in results[0]:
        raise InputError("the job has generated text, not a proof; print it with --json")
    from quod.formats.output import write_all_atomically

    write_all_atomically(
        {path: (json.dumps(results[0][name], indent=1) + "\n").encode()
         for name, path in outputs.items() if path is not None}
    )  # fmt: skip
    note(f"The job {job} has succeeded.", quiet=quiet or as_json)


def status(
    job: Annotated[str | None, Argument("[JOB]", "Job to show. Default: the server.")] = None,
    as_json: AsJson = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:
    """Show the state of a server or a job."""
    from quod.cli.inspect import show_description
    from quod.frozen import fields_of

    with connect(server, token_file, certificate) as client:
        if job is None:
            description = fields_of(client.status())
            if not as_json:
                description = _short(description)
        else:
            description = _described(client.wait(job, 0.0))
    if as_json:
        show_json(description)
    else:
        show_description(_for_people(description))


def cancel(
    job: Job,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
    quiet: Quiet = False,
) -> None:
    """Cancel a job, waiting or running; a finished job is unchanged."""
    with connect(server, token_file, certificate) as client:
        cancelled = client.cancel(job)
    note(f"The job {job} is {cancelled.state}.", quiet=quiet)


def _witness(path: Path) -> bytes:
    from quod.formats.wtns import witness_bytes

    return witness_bytes(path)


def _inputs(path: Path) -> Any:
    from quod.formats.strict_json import CIRCUIT_INPUT, read_json

    try:
        return shallow_json.load(read_json(path, CIRCUIT_INPUT))
    except ValueError:
        raise InputError("is not JSON", path=path) from None


def _described(job: RemoteJob) -> dict[str, Any]:
    from quod.frozen import fields_of

    return fields_of(job) | {"state": str(job.state)}


def _for_people(document: dict[str, Any]) -> dict[str, Any]:
    """Format a job for people: local times, and the number of results."""
    from datetime import datetime

    summary = dict(document)
    for name in ("started", "created", "ended", "deadline"):
        seconds = summary.get(name)
        if isinstance(seconds, float):
            summary[name] = datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
    if count := len(summary.get("results", ())):
        summary["results"] = f"{count}; `quod wait` writes them, --json prints them"
    else:
        summary.pop("results", None)
    return summary


def _short(status: dict[str, Any]) -> dict[str, Any]:
    """Shorten a status for people: only the counts of the operators' document."""
    document = status.pop("document")
    if document is not None:
        queue = document["queue"]
        status |= {name: queue[name] for name in ("waiting", "running", "held", "kept")}
        status["workers"] = [
            f"{worker['name']} {worker['state']}" for worker in document["workers"]
        ]
        open_keys = [", ".join(key["names"]) or key["key"] for key in document["keys"]]
        status["open_keys"] = open_keys or "none"
    return status
