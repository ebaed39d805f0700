"""Benchmarks of NTTs: forward in natural order, and the pair of transforms in a prover.

The pair goes from natural order to bit-reversed coefficients and then to natural order on a coset,
without a permutation. On a GPU the data stay in its memory, and several transforms are submitted at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.curve.named import CURVES
from quod.device.discovery import open_device, open_processor
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.recording import Recording
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.field.array import Words, random_elements
from quod.field.cost import product_cost
from quod.field.moduli import NAMED, Modulus
from quod.ntt import NttPlan, Ordering
from quod.ntt.gpu.schedule import Tuning

_COSET = 7
"""The shift of the coset."""
_PAIR = "inverse NR, forward RN on a coset"


class _Run(Protocol):
    def __call__(self, timeline: Timeline | None = None) -> None: ...


_BLOCK = 1 << 20
"""The maximum number of elements that the host draws; larger sizes repeat them."""

_TRANSFORMS_PER_SUBMISSION = 8
"""Transforms per submission, to make its overhead negligible."""

_MAX_SUBMITTED_ELEMENTS = 1 << 29
"""The maximum number of elements in a submission: each recorded transform has its own memory."""


@dataclass(frozen=True)
class Subject:
    """The field of transforms, and the parameters that name it in a row."""

    modulus: Modulus
    parameters: dict[str, Parameter]


def subject_of(curve: str, field: str | None = None) -> Subject:
    """Return the scalar field of a curve, or a field by name; raises InputError."""
    if field is not None:
        if field not in NAMED:
            raise InputError(f"{field!r} is not a field; choose one of {', '.join(NAMED)}")
        return Subject(NAMED[field], {"field": field})
    if curve not in CURVES:
        raise InputError(f"{curve!r} is not a curve; choose one of {', '.join(CURVES)}")
    return Subject(CURVES[curve].fr, {"curve": curve})


def cases(device: str, subject: Subject, sizes: Sequence[int]) -> Iterator[Case]:
    """Yield the forward transform on one core and on all, and the pair, for each size 2**k."""
    all_threads = open_device(device)
    if not in_host_memory(all_threads):
        for log2_size in sizes:
            yield from resident_cases(all_threads, subject, log2_size)
        return
    single_threaded = open_processor(strategy=all_threads.strategy, threads=1)
    for log2_size in sizes:
        modulus = subject.modulus
        plans = [
            NttPlan(plan_device, modulus, log2_size)
            for plan_device in (all_threads, single_threaded)
        ]
        values = random_elements(modulus, plans[0].size, seed=log2_size)
        parameters = {**subject.parameters, "log2": log2_size}
        for plan in plans if all_threads.threads > 1 else plans[:1]:
            threads = all_threads.threads if plan is plans[0] else 1
            forward = _checked(plan, values)
            yield Case(
                {**parameters, "what": "forward NN", "threads": threads},
                forward,
                unit="ms",
                traced=_traced("forward NN", plan, forward, 1),
            )
        pair = _pair(plans[0], values.copy())
        yield Case(
            {**parameters, "what": _PAIR, "threads": all_threads.threads},
            pair,
            unit="ms",
            traced=_traced(_PAIR, plans[0], pair, 2),
        )


def resident_cases(
    device: AnyDevice, subject: Subject, log2_size: int, tuning: Tuning | None = None
) -> Iterator[Case]:
    """Yield transforms in a GPU's memory: each ordering, and the pair; checks the first."""
    modulus = subject.modulus
    plan = NttPlan(device, modulus, log2_size, tuning=tuning)
    # The host draws one block; larger sizes repeat it.
    values = random_elements(modulus, min(plan.size, _BLOCK), seed=log2_size)
    block = device.upload(values)
    data = device.allocate(plan.size * modulus.bytes, zero=False)
    parts = [
        data.slice(offset, offset + block.nbytes) for offset in range(0, data.nbytes, block.nbytes)
    ]
    fill_recording = device.stream("NTT").record()
    for part in parts:
        fill_recording.copy(block, part)
    fill_recording.finish().run()
    plan.forward(data)
    plan.inverse(data)
    downloaded = np.empty_like(values)
    for part in (parts[0], parts[-1]):
        device.download(part, downloaded)
        if not np.array_equal(downloaded, values):
            raise QuodError("a transform and its inverse do not agree; please report it")
    parameters = {**subject.parameters, "log2": log2_size}
    orderings: tuple[Ordering, ...] = ("NN", "NR", "RN")
    transforms = max(1, min(_TRANSFORMS_PER_SUBMISSION, _MAX_SUBMITTED_ELEMENTS >> log2_size))
    for ordering in orderings:
        recording = device.stream("NTT").record()
        for _ in range(transforms):
            plan.record(recording, "forward", data, ordering=ordering)
        run = _replayed(device, recording.finish().recording)
        yield Case({**parameters, "what": f"forward {ordering}"}, run, "ms", transforms, traced=run)
    recording = device.stream("NTT").record()
    for _ in range(transforms):
        plan.record(recording, "inverse", data, ordering="NR", scaled=False)
        plan.record(recording, "forward", data, ordering="RN", coset=_COSET)
    run = _replayed(device, recording.finish().recording)
    yield Case({**parameters, "what": _PAIR}, run, "ms", transforms, traced=run)


def _replayed(device: AnyDevice, recording: Recording) -> _Run:
    """Return a function that replays a recording, which has run once."""

    def run(timeline: Timeline | None = None) -> None:
        device.stream("NTT").replay(recording).run(timeline)

    run()
    return run


def _checked(plan: NttPlan, values: Words) -> Callable[[], None]:
    """Return repeated forward transforms of some data; checks the first by its inverse."""
    data = values.copy()
    plan.forward(data)
    # A transform that does nothing would pass the round trip.
    changed = not np.array_equal(data, values)
    plan.inverse(data)
    if not changed or not np.array_equal(data, values):
        raise QuodError("a transform and its inverse do not agree; please report it")
    return lambda: plan.forward(data)


def _traced(
    name: str, plan: NttPlan, run: Callable[[], None], transforms: int
) -> Callable[[Timeline], None]:
    """Trace a run as one stage that reads and writes the data once per transform.

    The stage counts a product for every butterfly: log2(n) * n / 2 per transform.
    """
    count = transforms * plan.size

    def traced(timeline: Timeline) -> None:
        products = count * plan.log2_size // 2
        with timeline.stage(
            name, bytes=2 * count * plan.modulus.bytes, modmuls=products,
            multiply_adds=products * product_cost(plan.modulus),
        ):  # fmt: skip
            run()

    return traced


def _pair(plan: NttPlan, data: Words) -> Callable[[], None]:
    """Return the pair of transforms of a prover on some data."""

    def run() -> None:
        plan.inverse(data, ordering="NR", scaled=False)
        plan.forward(data, ordering="RN", coset=_COSET)

    return run
