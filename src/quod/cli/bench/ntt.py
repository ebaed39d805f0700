"""Number-theoretic transforms: forward in natural order, and the pair that a prover makes.

The prover's pair goes from natural order to bit-reversed coefficients and from there to natural
order on a coset, so that it never permutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from quod.cli.bench.harness import Case, Parameter
from quod.curve.parameters import CURVES
from quod.device.cpu import CpuDevice
from quod.device.discovery import open_device
from quod.errors import InputError, QuodError
from quod.field.array import Words, random_elements
from quod.ntt import NttPlan

_COSET = 7


def cases(device: str, curve: str, sizes: Sequence[int]) -> Iterator[Case]:
    """Cases for each size 2**k: the forward transform on one core and on all, and the pair."""
    if curve not in CURVES:
        raise InputError(f"{curve!r} is not a curve; there are {', '.join(CURVES)}")
    every = open_device(device)
    one = CpuDevice(strategy=every.strategy, threads=1)
    for log2_size in sizes:
        modulus = CURVES[curve].fr
        plans = [NttPlan(found, modulus, log2_size) for found in (every, one)]
        values = random_elements(modulus, plans[0].size, seed=log2_size)
        parameters: dict[str, Parameter] = {"curve": curve, "log2": log2_size}
        for plan in plans if every.threads > 1 else plans[:1]:
            yield Case(
                {**parameters, "what": "forward NN", "threads": plan.device.threads},
                _checked(plan, values),
                unit="ms",
            )
        yield Case(
            {**parameters, "what": "inverse NR, forward RN on a coset", "threads": every.threads},
            _pair(plans[0], values.copy()),
            unit="ms",
        )


def _checked(plan: NttPlan, values: Words) -> Callable[[], None]:
    """Forward transforms of data that is transformed over and over; the first one is undone."""
    data = values.copy()
    plan.forward(data)
    plan.inverse(data)
    if not np.array_equal(data, values):
        raise QuodError("a transform and its inverse do not agree; please report it")
    return lambda: plan.forward(data)


def _pair(plan: NttPlan, data: Words) -> Callable[[], None]:
    def run() -> None:
        plan.inverse(data, ordering="NR", scaled=False)
        plan.forward(data, ordering="RN", coset=_COSET)

    return run
