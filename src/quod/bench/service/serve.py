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
            {"key": key, "load": "cold"},
            lambda: _cold_ms(client, request),
            "ms",
            returns_figure=True,
        )
    # Only operators see the busy share, the last figure.
    has_document = client.status().document is not None
    # Warm up.
    client.prove(request)
    for load in loads:
        runs = _Runs(lambda load=load: run_load(load, client, make_request))  # type: ignore[misc]
        parameters: dict[str, Parameter] = {
            "key": key, "load": "closed" if load.rate is None else "open", "clients": load.clients,
        }  # fmt: skip
        if load.rate is not None:
            parameters["rate"] = load.rate
        for what, unit, figure in _FIGURES if has_document else _FIGURES[:-1]:
            yield Case(
                {**parameters, "what": what}, runs.figure_reader(figure), unit, returns_figure=True
            )


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
"""The figures of a load: name, unit and a function of the outcome."""


class _Runs:
    """The runs of a load, each executed when the first of its figures is requested."""

    def __init__(self, run: Callable[[], Outcome]) -> None:
        self._run = run
        self._outcomes: list[Outcome] = []

    def figure_reader(self, figure: _Figure) -> Callable[[], float | None]:
        """Return a function whose nth call returns the figure of the nth run."""
        count = 0

        def next_figure() -> float | None:
            nonlocal count
            while len(self._outcomes) <= count:
                self._outcomes.append(self._run())
            count += 1
            return figure(self._outcomes[count - 1])

        return next_figure


def _cold_ms(client: Client, request: ProofRequest) -> float:
    client.evict(request.key)
    begin = perf_counter()
    client.prove(request)
    return 1e3 * (perf_counter() - begin)
