"""Choose the fastest limbs for field elements on a device by a short measurement.

Some drivers do not describe the multiplier, and no single choice of limbs is fast on all devices.
`calibrate` measures once; the device stores the choice on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Protocol, cast

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.arguments import Argument
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import QuodError
from quod.field.array import random_elements, words_to_integers
from quod.field.moduli import BLS12_381_FQ, BLS12_381_FR, Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Capability, Machine

MODULI = (BLS12_381_FQ, BLS12_381_FR)
"""The measured moduli, of 381 and 255 bits: coordinates and scalars."""

CANDIDATES = ("12:rolled", "13:rolled", "15:rolled")
"""The choices to measure: limbs of 12, 13 or 15 bits, with products as loops. Unrolled products are
faster by themselves but hardly in MSMs, and their kernels take up to twenty times as long to
compile (docs/design/optimisations.md)."""
U64_CANDIDATES = ("29/64:rolled", "30/64:rolled")
"""Choices for adapters with 64-bit integers: limbs of 29 or 30 bits in 64-bit words."""

_BUDGET = 0.02  # seconds for each modulus and choice
_calibration_lock = threading.Lock()

_CHECKED_STEPS = 3
_MAX_STEPS = 1 << 14
_RUNS = 3
_WAVES = 6
"""Waves of instances on the adapter, so that the last, partial wave matters little."""


class Measurable(Protocol):
    """A device that compiles kernels with any choice of limbs."""

    @property
    def lanes(self) -> int: ...
    @property
    def resident_lanes(self) -> int: ...

    def compile(
        self,
        definition: KernelDefinition,
        *,
        lanes: int | None = None,
        limbs: str | None = None,
        **static: Any,
    ) -> Any:
        """Compile a kernel with field elements in these limbs."""

    def upload(self, array: np.ndarray[Any, Any], *, into: Buffer | None = None) -> Buffer:
        """Upload host data to a buffer."""

    def launch(self, kernel: Any, groups: int, *arguments: Argument) -> None:
        """Launch workgroups and wait for them."""


class ChoosesLimbs(Measurable, Protocol):
    """A device whose limbs can be chosen while `limbs_are_open`."""

    @property
    def limbs_are_open(self) -> bool: ...

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of `lanes` lanes are traced for."""

    def choose_limbs(self, limbs: str) -> None:
        """Use these limbs for kernels compiled from now on."""


@kernel
def product_chain(k: Builder, x: Pointer[U64], steps: U32, *, modulus: Modulus) -> None:
    """Multiply element 2i + 1 `steps` times by element 2i, in instance i."""
    field = prime_field(k, modulus)
    first = k.global_id() * 2
    # `field.bounded` gives an element the bounds with which a loop passes it on.
    factor = field.bounded(field.load(x, first))
    start = field.bounded(field.load(x, first + 1))
    with k.range(0, steps, carry=start) as loop:
        product = loop.carried * factor
        loop.next(field.bounded(product))
    field.store(x, first + 1, loop.results)


@frozen
class Chain:
    """A verified `product_chain` kernel, ready to be timed; an instance has two elements."""

    device: Measurable
    compiled: Any
    modulus: Modulus

    def seconds(self, *, budget: float) -> float:
        """Measure the time of one product: seconds divided by the steps of all instances.

        budget: approximate seconds to spend.
        """
        device = self.device
        groups = max(1, _WAVES * device.resident_lanes // device.lanes)
        count = groups * device.lanes
        block = random_elements(self.modulus, 2 * device.lanes, seed=1)
        memory = device.upload(np.tile(block, (groups, 1)))

        def run(steps: int) -> float:
            begin = perf_counter()
            device.launch(self.compiled, groups, memory, steps)
            return perf_counter() - begin

        run(1)
        launch_seconds = min(run(1) for _ in range(_RUNS))
        steps = 8
        while True:
            elapsed = min(run(steps) for _ in range(_RUNS)) - launch_seconds
            # The steps must take much longer than a launch itself, or the difference is noise.
            if elapsed >= max(budget / (2 * _RUNS), launch_seconds) or steps >= _MAX_STEPS:
                break
            steps *= 2
        # An idle adapter raises its clock under load.
        end_of_warm_up = perf_counter() + 2 * budget
        while perf_counter() < end_of_warm_up:
            elapsed = min(elapsed, run(steps) - launch_seconds)
        return max(elapsed, 1e-9) / ((steps - 1) * count)


def verified_chain(device: Measurable, limbs: str, modulus: Modulus) -> Chain:
    """Compile and verify `product_chain` in these limbs; raise QuodError if results are wrong."""
    compiled = device.compile(product_chain, limbs=limbs, modulus=modulus)
    stored = random_elements(modulus, 2 * device.lanes, seed=2)
    inputs = words_to_integers(modulus, stored)
    device.launch(compiled, 1, stored, _CHECKED_STEPS)
    inverse_radix_power = pow(modulus.montgomery_radix, -_CHECKED_STEPS, modulus.value)
    expected = [
        x
        if index % 2 == 0
        else x * inputs[index - 1] ** _CHECKED_STEPS * inverse_radix_power % modulus.value
        for index, x in enumerate(inputs)
    ]
    if words_to_integers(modulus, stored) != expected:
        raise QuodError(f"products modulo {modulus.name} in limbs {limbs} are wrong")
    return Chain(device, compiled, modulus)


def measure(
    device: Measurable, candidates: Sequence[str], *, budget: float = 0.05,
    timeline: Timeline | None = None,
) -> dict[str, float]:  # fmt: skip
    """Return products per second for each choice of limbs, averaged over both moduli.

    budget: approximate seconds for each modulus and choice, without compilation.

    Omits choices that do not compile or compute wrong results.
    """
    rates: dict[str, float] = {}
    with or_null(timeline).stage("choose limbs") as stage:
        for limbs in candidates:
            with suppress(QuodError):
                # Drivers compile in the background, while earlier choices are measured.
                for modulus in MODULI:
                    device.compile(product_chain, limbs=limbs, modulus=modulus)
        for index, limbs in enumerate(candidates):
            stage.progress(index, len(candidates))
            with suppress(QuodError):
                chains = [verified_chain(device, limbs, modulus) for modulus in MODULI]
                if not rates:
                    # Warm up: an idle adapter starts with a low clock.
                    chains[0].seconds(budget=budget)
                product_seconds = [chain.seconds(budget=budget) for chain in chains]
                rates[limbs] = len(product_seconds) / sum(product_seconds)
    return rates


def calibrate(device: AnyDevice, timeline: Timeline | None = None) -> None:
    """Choose the fastest limbs on a device, before it compiles kernels over fields.

    Measures for a second or two, unless this process or an earlier one has chosen limbs for the
    device and its driver. Kernels compiled before keep their limbs: the layout in memory does not
    depend on them.
    """
    if device.limbs_are_open:
        with _calibration_lock:
            _choose(cast(ChoosesLimbs, device), timeline)


def _choose(device: ChoosesLimbs, timeline: Timeline | None) -> None:
    if not device.limbs_are_open:  # another thread has chosen in the meantime
        return
    names = candidates(u64=device.machine(device.lanes).has(Capability.U64))
    rates = measure(device, names, budget=_BUDGET, timeline=timeline)
    # If no choice computes correct results, the following kernels report the error.
    if rates:
        device.choose_limbs(max(rates, key=rates.__getitem__))


def candidates(*, u64: bool) -> tuple[str, ...]:
    """Return the limbs to measure on an adapter with or without 64-bit integers."""
    return CANDIDATES + (U64_CANDIDATES if u64 else ())
