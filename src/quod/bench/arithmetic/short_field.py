"""Benchmarks of products in one-word fields: in registers, and from arrays in memory.

Each instance multiplies several elements repeatedly by a factor, and reduces each product below p
before the next. CPU figures are clocks per product, with the products of every lane counted. The
clock is measured alternately with the products, by a chain of additions and exclusive ors of one
clock each.
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
"""The products of each chain in an iteration of the loop."""

_GPU_CHAINS = 4
"""Independent elements of an instance."""
_GPU_ITERATIONS = 2000
# A wave fills the device once.
_GPU_WAVES = 2
_GPU_ARRAY_BYTES = 1 << 28

# For drivers that end loops early.
_FEW_ITERATIONS = 5

_CPU_CHAINS = 8
"""Independent elements of a lane."""
_CPU_LANES = 8
_CPU_GROUPS = 8
_CPU_ITERATIONS = 250
_MAX_ITERATIONS = 10_000
"""The maximum number of iterations that `seconds_of_products` times."""
_CPU_ARRAY_BYTES = 1 << 26
_CPU_ARRAY_ITERATIONS = 1 << 10
_CLOCK_STEPS = 1 << 19
"""The steps of the chain that measures the clock."""
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
    """out[i] = a[i] * b[i].

    Per iteration (of `turns`), an instance multiplies `each` consecutive elements, and a workgroup
    `each` * lanes.
    """
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
    """Run an addition and an exclusive or per step; each depends on the one before."""
    first, second = x[0], x[1]
    with k.range(0, steps, carry=first) as loop:
        loop.next((loop.carried + second) ^ first)
    x[0] = loop.results


def cases(modulus: Modulus, device: AnyDevice) -> Iterator[Case]:
    """Yield products in registers and from arrays."""
    if in_host_memory(device):
        yield _clocks(modulus, open_processor(strategy=device.strategy, threads=1))
        yield _from_arrays(
            modulus, device, _CPU_ARRAY_BYTES, lanes=_CPU_LANES, each=1, turns=_CPU_ARRAY_ITERATIONS
        )
    else:
        yield _rate(modulus, device)
        per_load = _GPU_LOAD_BYTES // modulus.bytes
        nbytes = min(_GPU_ARRAY_BYTES, device.largest_buffer)
        yield _from_arrays(modulus, device, nbytes, lanes=device.lanes, each=per_load, turns=1)


def _what(chains: int) -> str:
    """Return the name of a figure of products in registers."""
    return f"canonical product, {chains} chains"


def _rate(modulus: Modulus, device: AnyDevice) -> Case:
    """Make the case that measures products per second on a whole GPU."""
    iterations = _FEW_ITERATIONS if getattr(device, "drops_long_loops", False) else _GPU_ITERATIONS
    groups = _GPU_WAVES * device.resident_lanes // device.lanes
    count = groups * device.lanes
    compiled = device.compile(canonical_products, modulus=modulus, chains=_GPU_CHAINS)
    _check(modulus, device.lanes, _GPU_CHAINS, partial(device.launch, compiled, 1))
    elements = device.upload(random_elements(modulus, count * (_GPU_CHAINS + 1), seed=1))
    products = count * _GPU_CHAINS * iterations * _UNROLLED
    recording = device.stream("field").record()
    recording.launch(
        compiled, groups, elements, iterations, label=f"{modulus.name} product",
        bytes=(2 * _GPU_CHAINS + 1) * count * modulus.bytes, modmuls=products,
    )  # fmt: skip
    finished = recording.finish().recording

    def run(timeline: Timeline | None = None) -> float:
        begin = perf_counter()
        device.stream("field").replay(finished).run(timeline)
        return products / (perf_counter() - begin) / 1e9

    run()
    parameters: dict[str, Parameter] = {"field": modulus.name, "what": _what(_GPU_CHAINS)}
    return Case(parameters, run, "G/s", returns_figure=True, traced=run)


def _clocks(modulus: Modulus, device: HostDevice) -> Case:
    """Make the case that measures clocks per product on one thread, all lanes counted."""
    compiled = device.compile(
        canonical_products, lanes=_CPU_LANES, modulus=modulus, chains=_CPU_CHAINS
    )
    clock = device.compile(clock_steps, lanes=1)
    count = _CPU_GROUPS * _CPU_LANES
    launch = partial(device.launch, compiled, _CPU_GROUPS)
    _check(modulus, count, _CPU_CHAINS, launch)
    elements = random_elements(modulus, count * (_CPU_CHAINS + 1), seed=1)
    numbers = np.array([3, 5], np.uint64)
    products = count * _CPU_CHAINS * _CPU_ITERATIONS * _UNROLLED

    def run() -> float:
        product_seconds, chain_seconds = [], []
        for _ in range(_WINDOWS):
            product_seconds.append(_seconds(lambda: launch(elements, _CPU_ITERATIONS)) / products)
            chain_seconds.append(_seconds(lambda: device.launch(clock, 1, numbers, _CLOCK_STEPS)))
        return min(product_seconds) / (min(chain_seconds) / (2 * _CLOCK_STEPS))

    parameters: dict[str, Parameter] = {
        "field": modulus.name, "what": _what(_CPU_CHAINS), "threads": 1,
    }  # fmt: skip
    return Case(parameters, run, "clocks/product", returns_figure=True)


def seconds_of_products(modulus: Modulus, device: HostDevice, count: int) -> Callable[[], Seconds]:
    """Return a function that estimates the time of `count` products in registers.

    The function times a limited number of iterations on all CPU threads, and scales the time.
    """
    compiled = device.compile(
        canonical_products, lanes=_CPU_LANES, modulus=modulus, chains=_CPU_CHAINS
    )
    groups = _CPU_GROUPS * _CPU_LANES * device.threads
    instances = groups * _CPU_LANES
    elements = random_elements(modulus, instances * (_CPU_CHAINS + 1), seed=1)
    products_per_iteration = instances * _CPU_CHAINS * _UNROLLED
    iterations = max(1, min(_MAX_ITERATIONS, count // products_per_iteration))

    def run() -> Seconds:
        seconds = _seconds(lambda: device.launch(compiled, groups, elements, iterations))
        return Seconds(seconds * count / (products_per_iteration * iterations))

    return run


def _from_arrays(
    modulus: Modulus, device: AnyDevice, nbytes: int, *, lanes: int, each: int, turns: int
) -> Case:
    """Make the case that measures bytes per second of products of two arrays on a whole device.

    Bytes read and written are counted. `each` and `turns` are parameters of `array_products`.
    """
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
    radix_inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    operands = (words_to_integers(modulus, array[-len(downloaded) :]) for array in (a, b))
    expected = [x * y * radix_inverse % modulus.value for x, y in zip(*operands, strict=True)]
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
        {"field": modulus.name, "what": "product, from arrays"},
        run, "GB/s", returns_figure=True, traced=run
    )  # fmt: skip


def _seconds(run: Callable[[], object]) -> float:
    begin = perf_counter()
    run()
    return perf_counter() - begin


def _check(
    modulus: Modulus, instances: int, chains: int, launch: Callable[[Words, int], object]
) -> None:
    """Check one iteration against integers."""
    stored = random_elements(modulus, instances * (chains + 1), seed=2)
    inputs = words_to_integers(modulus, stored)
    launch(stored, 1)
    products = words_to_integers(modulus, stored)
    radix_inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    for start in range(0, len(products), chains + 1):
        factor = pow(inputs[start] * radix_inverse, _UNROLLED, modulus.value)
        expected = [x * factor % modulus.value for x in inputs[start + 1 : start + 1 + chains]]
        if products[start + 1 : start + 1 + chains] != expected:
            raise QuodError(f"the product in {modulus.name} is wrong; please report it")
