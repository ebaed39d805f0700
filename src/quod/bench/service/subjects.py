"""The benchmark subjects of the service: queue, calls, a worker alone, a running server."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from quod.bench.measure.settings import ChainCurve, Constraints, Settings, StagedSettings
from quod.cli.parameters import Argument, Option, WrongUsage


def queue(
    settings: Settings,
    database: Annotated[
        str | None, Option(metavar="URL", help="A Postgres database. Default: an SQLite file.")
    ] = None,
    folder: Annotated[
        Path | None,
        Option(metavar="DIR", help="On the disk to measure; else a temporary one."),
    ] = None,
) -> None:
    """The durable queue of the service: submissions, claims and results."""
    from quod.bench.service.queue import cases

    settings.measure("queue", cases(folder or Path(tempfile.gettempdir()), database), warm_up=0.0)


def submit(
    settings: Settings,
    folder: Annotated[
        Path | None,
        Option(metavar="DIR", help="On the disk to measure; else a temporary one."),
    ] = None,
) -> None:
    """The service's server: submissions per second, and the latency of a call that proves."""
    from quod.bench.service.submit import cases

    settings.measure("submit", cases(folder or Path(tempfile.gettempdir())), warm_up=0.0)


def serve_pipeline(
    settings: StagedSettings,
    constraints: Constraints = None,
    curve: ChainCurve = "bn254",
    lanes: Annotated[
        list[int] | None,
        Option(least=1, most=16, help="The number of concurrent proofs on a GPU; may be repeated."),
    ] = None,
    processes: Annotated[
        bool, Option("--process", help="Run the worker in a separate process.")
    ] = False,
    workers: Annotated[
        int,
        Option(
            least=1, most=16, help="The number of workers of the device, which share its memory."
        ),
    ] = 1,
    folder: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="The directory of keys and queue. Default: a temporary directory."
        ),
    ] = None,
    cupti: Annotated[
        bool, Option("--cupti", help="Also measure the busy fraction with CUPTI.")
    ] = False,
) -> None:
    """A worker of the service under constant load, and the same proofs in a loop."""
    from quod.bench.measure.cupti import recorder_of
    from quod.bench.service.serve_pipeline import cases

    recorder = recorder_of(settings.device, processes=processes) if cupti else None

    parent_folder = folder or Path(tempfile.gettempdir())
    sizes = constraints or [16_000, 1_000_000]
    bench_cases = cases(
        settings.device, curve, sizes, lanes or [None], parent_folder, processes, settings.seconds,
        recorder, workers=workers,
    )  # fmt: skip
    settings.measure("serve-pipeline", bench_cases, warm_up=0.0)


def serve(
    settings: Settings,
    address: Annotated[str, Argument("ADDRESS", "The server's address: unix:PATH or HOST:PORT.")],
    key: Annotated[str, Argument("KEY", "A key of the server.")],
    witness: Annotated[Path, Argument("WTNS", "A witness of the key's circuit (.wtns).")],
    clients: Annotated[
        list[int] | None,
        Option(
            metavar="N",
            least=1,
            help="The number of concurrent clients; may be given several times.",
        ),
    ] = None,
    rate: Annotated[
        list[float] | None,
        Option(metavar="R", help="Open load of R proofs per second; may be given several times."),
    ] = None,
    proofs: Annotated[int, Option(least=1, help="The number of proofs of each load.")] = 100,
    cold: Annotated[
        bool, Option("--cold", help="Also measure the first proof after the key was evicted.")
    ] = False,
    token_file: Annotated[
        Path | None,
        Option(
            "--token-file", metavar="FILE", help="A file whose first line is the client's token."
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        Option(metavar="FILE", help="The certificate of the server's authority, for TLS."),
    ] = None,
) -> None:
    """A running server: latencies, proofs per second and the busy fraction of its devices.

    With --clients, each client sends its next request at once (closed load). With --rate, proofs
    are due at random times, from which latency counts (open load, at most 256 at a time).
    """
    from quod.bench.measure.load import MAX_AT_A_TIME, Load
    from quod.bench.service.serve import cases
    from quod.formats.source import read_small
    from quod.service.client import Client

    if any(not 0 < frequency < 1e6 for frequency in rate or []):
        raise WrongUsage("--rate must be above 0 and below 1000000 proofs per second")
    loads = [Load(count, proofs) for count in clients or ([] if rate else [1, 4, 16])]
    loads += [Load(min(MAX_AT_A_TIME, proofs), proofs, frequency) for frequency in rate or []]
    token = None
    if token_file is not None:
        text = read_small(token_file, limit=4096, what="a token").decode(errors="replace")
        token = text.splitlines()[0].strip()
    with Client(address, token=token, certificate=certificate) as client:
        settings.measure("serve", cases(client, key, witness, loads, cold=cold), warm_up=0.0)
