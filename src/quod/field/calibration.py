"""Which way of holding field elements is fastest on a device, by a short measurement.

Where a driver does not tell what the multiplier is like, no one choice of limbs suits all devices.
`calibrate` measures once; the device keeps what it finds on disk.
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
"""381 and 255 bits: coordinates and scalars."""

CANDIDATES = ("12:rolled", "13:rolled", "15:rolled")
"""Loops only. A product alone is faster without one, MSMs are hardly, and kernels take up to twenty
times as long to compile (docs/design/optimisations.md)."""
U64_CANDIDATES = ("29/64:rolled", "30/64:rolled")

_BUDGET = 0.02
_calibrating = threading.Lock()

_CHECKED_STEPS = 3
_MOST_STEPS = 1 << 14
_RUNS = 3
_ROUNDS = 6
"""Times that instances fill the adapter: the last round is seldom a full one."""


class Calibrated(Protocol):
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
        """A kernel with field elements in these limbs."""

    def upload(self, array: np.ndarray[Any, Any], *, into: Buffer | None = None) -> Buffer:
        """Host data as a buffer."""

    def launch(self, kernel: Any, groups: int, *arguments: Argument) -> None:
        """Runs workgroups and waits for them."""


class ChoosesLimbs(Calibrated, Protocol):
    """Such a device, which is asked for its fastest limbs while its `limbs_are_open`."""

    @property
    def limbs_are_open(self) -> bool: ...

    def machine(self, lanes: int) -> Machine:
        """What kernels of so many lanes are traced for."""

    def choose_limbs(self, limbs: str) -> None:
        """Holds elements in these limbs from now on."""


@kernel
def product_chain(k: Builder, x: Pointer[U64], steps: U32, *, modulus: Modulus) -> None:
    """Multiplies element 2i + 1 of each instance i, `steps` times, by element 2i."""
    field = prime_field(k, modulus)
    first = k.global_id() * 2
    factor = field.carried(field.load(x, first))
    start = field.carried(field.load(x, first + 1))
    with k.range(0, steps, carry=start) as loop:
        loop.next(field.carried(loop.carried * factor))
    field.store(x, first + 1, loop.results)


@frozen
class Chain:
    """A kernel that was found right, ready to be timed: of an array and a number of steps.

    An instance has two elements of the array.
    """

    device: Calibrated
    compiled: Any
    modulus: Modulus

    def seconds(self, *, budget: float) -> float:
        """Seconds a step of one instance takes of the whole device; about `budget` are spent."""
        device = self.device
        groups = max(1, _ROUNDS * device.resident_lanes // device.lanes)
        count = groups * device.lanes
        block = random_elements(self.modulus, 2 * device.lanes, seed=1)
        memory = device.upload(np.tile(block, (groups, 1)))

        def run(steps: int) -> float:
            begin = perf_counter()
            device.launch(self.compiled, groups, memory, steps)
            return perf_counter() - begin

        run(1)
        base = min(run(1) for _ in range(_RUNS))
        steps = 8
        while True:
            best = min(run(steps) for _ in range(_RUNS)) - base
            # Far above what a launch takes by itself, or the difference says little.
            if best >= max(budget / (2 * _RUNS), base) or steps >= _MOST_STEPS:
                break
            steps *= 2
        # The clock of an adapter that has rested rises while it works.
        warm = perf_counter() + 2 * budget
        while perf_counter() < warm:
            best = min(best, run(steps) - base)
        return max(best, 1e-9) / ((steps - 1) * count)


def product_chains(device: Calibrated, limbs: str, modulus: Modulus) -> Chain:
    """Chains of products in these limbs; QuodError if they do not compile or compute wrongly."""
    compiled = device.compile(product_chain, limbs=limbs, modulus=modulus)
    stored = random_elements(modulus, 2 * device.lanes, seed=2)
    before = words_to_integers(modulus, stored)
    device.launch(compiled, 1, stored, _CHECKED_STEPS)
    back = pow(modulus.montgomery_radix, -_CHECKED_STEPS, modulus.value)
    wanted = [
        x if at % 2 == 0 else x * before[at - 1] ** _CHECKED_STEPS * back % modulus.value
        for at, x in enumerate(before)
    ]
    if words_to_integers(modulus, stored) != wanted:
        raise QuodError(f"products modulo {modulus.name} in limbs {limbs} are wrong")
    return Chain(device, compiled, modulus)


def measure(
    device: Calibrated, candidates: Sequence[str], *, budget: float = 0.05,
    timeline: Timeline | None = None,
) -> dict[str, float]:  # fmt: skip
    """Products a second in each choice of limbs, as many of 381 bits as of 255.

    `budget` are about the seconds for one modulus and one choice, without compiling. A choice
    that does not compile, or computes wrongly, is left out.
    """
    rates: dict[str, float] = {}
    with or_null(timeline).stage("choose limbs") as stage:
        for limbs in candidates:
            with suppress(QuodError):
                # Drivers compile beside this thread, all of them while the first are measured.
                for modulus in MODULI:
                    device.compile(product_chain, limbs=limbs, modulus=modulus)
        for done, limbs in enumerate(candidates):
            stage.progress(done, len(candidates))
            with suppress(QuodError):
                chains = [product_chains(device, limbs, modulus) for modulus in MODULI]
                if not rates:
                    # An adapter that has rested begins slowly.
                    chains[0].seconds(budget=budget)
                each = [chain.seconds(budget=budget) for chain in chains]
                rates[limbs] = len(each) / sum(each)
    return rates


def calibrate(device: AnyDevice, timeline: Timeline | None = None) -> None:
    """Has a device hold field elements as is fastest on it, before it compiles what uses them.

    Measures for a second or two where nobody has chosen yet: not in this process, nor in one
    before, whose choice is kept for the device and its driver. Kernels compiled before go on as
    they are: elements in memory look the same in all limbs.
    """
    if device.limbs_are_open:
        with _calibrating:
            _choose(cast(ChoosesLimbs, device), timeline)


def _choose(device: ChoosesLimbs, timeline: Timeline | None) -> None:
    if not device.limbs_are_open:  # another thread was first
        return
    names = candidates(u64=device.machine(device.lanes).has(Capability.U64))
    rates = measure(device, names, budget=_BUDGET, timeline=timeline)
    # Where nothing computes rightly, the work itself tells what is wrong.
    if rates:
        device.choose_limbs(max(rates, key=rates.__getitem__))


def candidates(*, u64: bool) -> tuple[str, ...]:
    """What is worth measuring on an adapter."""
    return CANDIDATES + (U64_CANDIDATES if u64 else ())
