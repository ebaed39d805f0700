"""Throughput limits of devices: from a table for GPUs, measured for CPUs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

from quod.bench.arithmetic.field import cpu_products
from quod.device.discovery import resolve_device
from quod.device.limits import Limits
from quod.device.protocol import HostDevice, in_host_memory
from quod.field.moduli import MODULI

_COPIED_BYTES = 1 << 27
_RUNS = 3

# The widest field and a narrower one; the one with more multiply-adds per second sets the limit.
_FIELDS = ("bls12_381.fq", "bn254.fr")


def described_limits(name: str) -> tuple[str, Limits | None]:
    """Return the display name of a device and its limits, None if they are unknown."""
    from quod.bench.measure.results import machine

    device = resolve_device(name)
    if in_host_memory(device):
        processor = str(machine()["processor"])
        return f"{processor}, {device.threads} threads", cpu_limits(device)
    return str(machine(name).get("gpu", name)), device.throughput_limits()


def cpu_limits(device: HostDevice) -> Limits:
    """Measure the limits of a CPU: copies by all threads, and products in registers.

    Multiply-adds are counted in 32-bit words, as on a GPU, whatever limbs are used.
    """
    source = np.zeros((device.threads, _COPIED_BYTES // device.threads // 8), np.uint64)
    target = np.ones_like(source)
    with ThreadPoolExecutor(device.threads) as pool:

        def copy() -> None:
            list(pool.map(np.copyto, target, source))

        bandwidth = 2 * source.nbytes / _min_seconds(copy)
    rates = []
    for name in _FIELDS:
        products = cpu_products(MODULI[name], device)
        rates.append(products.counts["multiply_adds"] / _min_seconds(products.run))
    return Limits(bandwidth, max(rates), "copies and products in registers, measured now")


def _min_seconds(run: Callable[[], object]) -> float:
    """Return the least time of some runs, after a first run that is not counted."""
    run()
    times = []
    for _ in range(_RUNS):
        begin = perf_counter()
        run()
        times.append(perf_counter() - begin)
    return min(times)
