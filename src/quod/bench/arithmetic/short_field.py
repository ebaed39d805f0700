"""Benchmarks of products in one-word fields: in registers, and from arrays in memory.

Each instance multiplies several elements repeatedly by a factor, and reduces each product below p
before the next. CPU figures are clocks per product and lane. The clock is measured alternately with
the products, by a chain of additions and exclusive ors of one clock each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

import numpy as np

from quod.bench.measure.harness import Case, Parameter, Seconds
from quod.device.discovery import open_processor
from quod.device.protocol import AnyDevice, HostDevice, in_host_memory
from quod.device.runtime.timeline import Timeline
from quod.errors import QuodError
from quod.field.array import Words, random_elements, words_to_integers
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types

_UNROLLED = 8
"""The products of each chain in a turn of the loop."""

_GPU_CHAINS = 4
_GPU_TURNS = 2000
_GPU_ROUNDS = 2
_GPU_ARRAY_BYTES = 1 << 28

# For drivers that end loops early.
_FEW_TURNS = 5

_CPU_CHAINS = 8
_CPU_LANES = 8
_CPU_GROUPS = 8
_CPU_TURNS = 250
_MAX_TURNS = 10_000
_CPU_ARRAY_BYTES = 1 << 26
_CPU_ARRAY_TURNS = 1 << 10
_CLOCK_STEPS = 1 << 19
_WINDOWS = 40
"""The number of short measurements for a figure; the minimum is free of interruptions."""

_GPU_LOAD_BYTES = 16
"""The bytes that a GPU instance loads at a time; CPU lanes load one element each."""


@kernel
def canonical_products(
    k: Builder, x: Pointer[U64], turns: U32, *, modulus: Modulus, chains: int
) -> None:
    """Multiply `chains` elements per instance by the one in front, eight times per iteration."""
    field = prime_field(k, modulus)
    first = k.global_id() * (chains + 1)
    factor = field.load(x, first)
    start = tuple(field.load(x, first + (1 + chain)) for chain in range(chains))
    with k.range(0, turns, carry=start) as loop:
        elements = loop.carried
        for _ in range(_UNROLLED):
            elements = tuple(field.canonical(element * factor) for element in elements)
        loop.next(elements)
    for chain, element in enumerate(loop.results):
        field.store(x, first + (1 + chain), element)


@kernel
def array_products(
    k: Builder,
    turns: U32,
    a: Pointer[U64],
    b: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
    each: int,
) -> None:
    """out[i] = a[i] * b[i]; an instance has `each` neighbours a turn, a workgroup what follows."""
    field, lanes = prime_field(k, modulus), k.workgroup_size
    first = k.workgroup_id() * (turns * lanes) + k.local_id()
    with k.range(0, turns) as loop:
        at = (first + loop.index * lanes).cast(types.u64) * each
        x, y = (k.load(array.cast(field.word_type), at, each) for array in (a, b))
        products = [field.from_words([x[j]]) * field.from_words([y[j]]) for j in range(each)]
        words = [word for product in products for word in field.to_words(product)]
        k.store(out.cast(field.word_type), at, *words)


@kernel
def clock_steps(k: Builder, x: Pointer[U64], steps: U32) -> None:
    """Two clocks a step: each waits for the one before."""
    first, second = x[0], x[1]
    with k.range(0, steps, carry=first) as loop:
        loop.next((loop.carried + second) ^ first)
    x[0] = loop.results


def cases(modulus: Modulus, device: AnyDevice) -> Iterator[Case]:
    """Yield products in registers and from arrays."""
    if in_host_memory(device):
        yield _clocks(modulus, open_processor(strategy=device.strategy, threads=1))
        yield _from_arrays(
            modulus, device, _CPU_ARRAY_BYTES, lanes=_CPU_LANES, each=1, turns=_CPU_ARRAY_TURNS
        )
    else:
        yield _rate(modulus, device)
        each = _GPU_LOAD_BYTES // modulus.bytes
        nbytes = min(_GPU_ARRAY_BYTES, device.largest_buffer)
        yield _from_arrays(modulus, device, nbytes, lanes=device.lanes, each=each, turns=1)


def _what(chains: int) -> str:
    return f"canonical product, {chains} chains"


def _rate(modulus: Modulus, device: AnyDevice) -> Case:
    """Prepare products per second on a whole GPU."""
    turns = _FEW_TURNS if getattr(device, "drops_long_loops", False) else _GPU_TURNS
    groups = _GPU_ROUNDS * device.resident_lanes // device.lanes
    count = groups * device.lanes
    compiled = device.compile(canonical_products, modulus=modulus, chains=_GPU_CHAINS)
    _check(modulus, device.lanes, _GPU_CHAINS, partial(device.launch, compiled, 1))
    elements = device.upload(random_elements(modulus, count * (_GPU_CHAINS + 1), seed=1))
    products = count * _GPU_CHAINS * turns * _UNROLLED
    recording = device.stream("field").record()
    recording.launch(
        compiled, groups, elements, turns, label=f"{modulus.name} product",
        bytes=(2 * _GPU_CHAINS + 1) * count * modulus.bytes, modmuls=products,
    )  # fmt: skip
    finished = recording.finish().recording

    def run(timeline: Timeline | None = None) -> float:
        begin = perf_counter()
        device.stream("field").replay(finished).run(timeline)
        return products / (perf_counter() - begin) / 1e9

    run()
    parameters: dict[str, Parameter] = {"field": modulus.name, "what": _what(_GPU_CHAINS)}
    return Case(parameters, run, "G/s", reads=True, traced=run)


def _clocks(modulus: Modulus, device: HostDevice) -> Case:
    """Prepare clocks per product and lane of one thread."""
    compiled = device.compile(
        canonical_products, lanes=_CPU_LANES, modulus=modulus, chains=_CPU_CHAINS
    )
    clock = device.compile(clock_steps, lanes=1)
    count = _CPU_GROUPS * _CPU_LANES
    launch = partial(device.launch, compiled, _CPU_GROUPS)
    _check(modulus, count, _CPU_CHAINS, launch)
    elements = random_elements(modulus, count * (_CPU_CHAINS + 1), seed=1)
    numbers = np.array([3, 5], np.uint64)
    products = count * _CPU_CHAINS * _CPU_TURNS * _UNROLLED

    def run() -> float:
        ours, clocks = [], []
        for _ in range(_WINDOWS):
            ours.append(_seconds(lambda: launch(elements, _CPU_TURNS)) / products)
            clocks.append(_seconds(lambda: device.launch(clock, 1, numbers, _CLOCK_STEPS)))
        return min(ours) / (min(clocks) / (2 * _CLOCK_STEPS))

    parameters: dict[str, Parameter] = {
        "field": modulus.name, "what": _what(_CPU_CHAINS), "threads": 1,
    }  # fmt: skip
    return Case(parameters, run, "clocks/product", reads=True)


def seconds_of_products(modulus: Modulus, device: HostDevice, count: int) -> Callable[[], Seconds]:
    """Return a function that estimates the time of `count` products in registers.

    It times a limited number of turns on all CPU threads, and scales.
    """
    compiled = device.compile(
        canonical_products, lanes=_CPU_LANES, modulus=modulus, chains=_CPU_CHAINS
    )
    groups = _CPU_GROUPS * _CPU_LANES * device.threads
    instances = groups * _CPU_LANES
    elements = random_elements(modulus, instances * (_CPU_CHAINS + 1), seed=1)
    each = instances * _CPU_CHAINS * _UNROLLED
    turns = max(1, min(_MAX_TURNS, count // each))

    def run() -> Seconds:
        took = _seconds(lambda: device.launch(compiled, groups, elements, turns))
        return Seconds(took * count / (each * turns))

    return run


def _from_arrays(
    modulus: Modulus, device: AnyDevice, nbytes: int, *, lanes: int, each: int, turns: int
) -> Case:
    """Prepare bytes read and written per second by products of two arrays on a whole device."""
    compiled = device.compile(array_products, lanes=lanes, modulus=modulus, each=each)
    count = nbytes // modulus.bytes
    groups = count // (each * lanes * turns)
    block = random_elements(modulus, 2 * each * lanes, seed=3)
    a, b = (np.resize(part, (count, modulus.words)) for part in (block, block[1:]))
    factors = [device.upload(array) for array in (a, b)]
    out = device.allocate(nbytes, zero=False)

    def launch() -> None:
        device.launch(compiled, groups, turns, *factors, out)

    launch()
    downloaded = np.empty_like(block)
    device.download(out.slice(out.nbytes - downloaded.nbytes, out.nbytes), downloaded)
    back = pow(modulus.montgomery_radix, -1, modulus.value)
    sides = (words_to_integers(modulus, array[-len(downloaded) :]) for array in (a, b))
    expected = [x * y * back % modulus.value for x, y in zip(*sides, strict=True)]
    if words_to_integers(modulus, downloaded) != expected:
        raise QuodError(f"products of arrays in {modulus.name} are wrong; please report it")
    recording = device.stream("field").record()
    recording.launch(
        compiled, groups, turns, *factors, out, label=f"{modulus.name} arrays",
        bytes=3 * nbytes, modmuls=count,
    )  # fmt: skip
    finished = recording.finish().recording

    def run(timeline: Timeline | None = None) -> float:
        begin = perf_counter()
        device.stream("field").replay(finished).run(timeline)
        return 3 * nbytes / (perf_counter() - begin) / 1e9

    return Case(
        {"field": modulus.name, "what": "product, from arrays"}, run, "GB/s", reads=True, traced=run
    )  # fmt: skip


def _seconds(run: Callable[[], object]) -> float:
    begin = perf_counter()
    run()
    return perf_counter() - begin


def _check(
    modulus: Modulus, instances: int, chains: int, launch: Callable[[Words, int], object]
) -> None:
    """Check one turn against integers."""
    stored = random_elements(modulus, instances * (chains + 1), seed=2)
    before = words_to_integers(modulus, stored)
    launch(stored, 1)
    products = words_to_integers(modulus, stored)
    back = pow(modulus.montgomery_radix, -1, modulus.value)
    for at in range(0, len(products), chains + 1):
        factor = pow(before[at] * back, _UNROLLED, modulus.value)
        wanted = [x * factor % modulus.value for x in before[at + 1 : at + 1 + chains]]
        if products[at + 1 : at + 1 + chains] != wanted:
            raise QuodError(f"the product in {modulus.name} is wrong; please report it")
