"""Benchmarks of a running server: latency, throughput and device utilisation under load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from quod.bench.measure.harness import Case, Parameter
from quod.bench.measure.load import Load, Outcome, run_load
from quod.formats.wtns import witness_bytes
from quod.service.client import Client, ProofRequest


def cases(
    client: Client, key: str, witness: Path, loads: list[Load], *, cold: bool
) -> Iterator[Case]:
    """Yield the first proof after an eviction, and the loads.

    All rows of a load come from the same runs.
    """
    request = ProofRequest(key, wtns=witness_bytes(witness))

    def make_request() -> ProofRequest:
        return request

    if cold:
        yield Case(
            {"key": key, "load": "cold"}, lambda: _cold_ms(client, request), "ms", reads=True
        )
    # The busy share is visible to operators only.
    has_document = client.status().document is not None
    # Warm up.
    client.prove(request)
    for load in loads:
        runs = _Runs(lambda load=load: run_load(load, client, make_request))  # type: ignore[misc]
        common: dict[str, Parameter] = {
            "key": key, "load": "closed" if load.rate is None else "open", "clients": load.clients,
        }  # fmt: skip
        if load.rate is not None:
            common["rate"] = load.rate
        for what, unit, figure in _FIGURES if has_document else _FIGURES[:-1]:
            yield Case({**common, "what": what}, runs.reading(figure), unit, reads=True)


_Figure = Callable[[Outcome], float | None]

_FIGURES: tuple[tuple[str, str, _Figure], ...] = (
    ("latency, p50", "ms", lambda outcome: 1e3 * outcome.latency(50)),
    ("latency, p95", "ms", lambda outcome: 1e3 * outcome.latency(95)),
    ("latency, p99", "ms", lambda outcome: 1e3 * outcome.latency(99)),
    ("latency less the worker's, p50", "ms", lambda outcome: 1e3 * outcome.overhead(50)),
    ("latency less the worker's, p99", "ms", lambda outcome: 1e3 * outcome.overhead(99)),
    ("proofs", "1/s", lambda outcome: len(outcome.latencies) / outcome.seconds),
    ("refused", "refusals/s", lambda outcome: outcome.refused / outcome.seconds),
    ("devices busy", "%", lambda outcome: 100 * (outcome.busy or 0.0)),
)
"""The figures of a load: name, unit and value."""


class _Runs:
    """The runs of a load, each executed when one of its figures is first read."""

    def __init__(self, run: Callable[[], Outcome]) -> None:
        self._run = run
        self._made: list[Outcome] = []

    def reading(self, figure: _Figure) -> Callable[[], float | None]:
        """Return a function that reads a figure from the first run, then the second, and so on."""
        count = 0

        def read() -> float | None:
            nonlocal count
            while len(self._made) <= count:
                self._made.append(self._run())
            count += 1
            return figure(self._made[count - 1])

        return read


def _cold_ms(client: Client, request: ProofRequest) -> float:
    client.evict(request.key)
    begin = perf_counter()
    client.prove(request)
    return 1e3 * (perf_counter() - begin)
