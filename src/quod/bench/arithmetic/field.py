"""Benchmarks of modular multiplication and squaring: on one core, on all cores, or on a GPU.

Each instance multiplies several independent elements repeatedly by a factor. This measures
throughput, as real work always has independent products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypedDict

from quod.bench.arithmetic import short_field
from quod.bench.measure.harness import Case
from quod.device.discovery import open_device, open_processor
from quod.device.protocol import AnyDevice, HostDevice, in_host_memory
from quod.device.runtime.recording import Recording
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.field.array import Words, random_elements, words_to_integers
from quod.field.cost import product_cost, square_cost
from quod.field.moduli import MODULI, NAMED, Modulus
from quod.field.strategies.calibration import calibrate
from quod.field.strategies.limb_choice import LimbChoice
from quod.field.strategy import prime_field
from quod.kernel import U64, Builder, Pointer, kernel

USUAL = [name for name, modulus in NAMED.items() if name in MODULI or modulus.bits <= 64]
"""The default fields."""

CHAINS = 4
"""Independent elements of an instance."""
STEPS = 2000
"""Products of each element."""
GROUPS = 8
"""Workgroups per CPU thread."""

# On a GPU, other instances are the independent work; a wave fills the device once.
_GPU_CHAINS = 1
_GPU_WAVES = 2

# For drivers that stop loops after 65,535 iterations in all, including loops within products.
_FEW_STEPS = 40


@kernel
def field_products(
    k: Builder, x: Pointer[U64], steps: U64, *, modulus: Modulus, chains: int, square: bool
) -> None:
    """Multiply each of `chains` elements `steps` times by a factor, or with `square` square it.

    `x` has chains + 1 elements per instance, in Montgomery form: the factor, then the elements.
    """
    field = prime_field(k, modulus)
    first = k.global_id() * (chains + 1)
    factor = field.load(x, first)
    elements = [field.load(x, first + (1 + chain)) for chain in range(chains)]
    # `bounded` gives an element the standard bounds that loops and branches require.
    initial = tuple(field.bounded(element) for element in elements)
    with k.range(0, steps, carry=initial) as loop:
        if square:
            products = field.square_many(loop.carried)
        else:
            products = field.multiply_many([(element, factor) for element in loop.carried])
        loop.next(tuple(field.bounded(product) for product in products))
    for chain, element in enumerate(loop.results):
        field.store(x, first + (1 + chain), element)


def cases(device: str, names: Sequence[str], limbs: Sequence[str] = ()) -> Iterator[Case]:
    """Yield a case for each field (default: `USUAL`) and number of threads.

    names: the names of the fields.
    limbs: on WebGPU, the names of limb choices (see `LimbChoice.parse`); default: the device's
        choice.
    """
    unknown = [name for name in names if name not in NAMED]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a field; choose one of {', '.join(NAMED)}")
    opened = open_device(device)
    choices = _limbs_of(opened, limbs)
    for modulus in (NAMED[name] for name in names or USUAL):
        if modulus.bits <= 64:
            yield from short_field.cases(modulus, opened)
            continue
        if not in_host_memory(opened):
            for choice in choices:
                yield from _gpu_cases(modulus, opened, choice)
            continue
        for threads in sorted({1, opened.threads}):
            yield _case(modulus, open_processor(strategy=opened.strategy, threads=threads))


def _limbs_of(device: AnyDevice, limb_names: Sequence[str]) -> Sequence[str]:
    """Return the limb choices for a GPU; [""] if the device has no choice.

    Raises InputError for an invalid choice, or one that the device lacks.
    """
    from quod.device.webgpu.device import WebGpuDevice

    if not isinstance(device, WebGpuDevice):
        if limb_names:
            raise InputError(f"{device.name} does not support --limbs; only WebGPU devices do")
        return [""]
    for name in limb_names:
        try:
            needs_u64 = LimbChoice.parse(name).wide
        except ValueError as error:
            raise InputError(f"--limbs: {error}") from error
        if needs_u64 and not device.target.u64:
            raise InputError(
                f"limbs {name} need 64-bit integers, which {device.name} does not support"
            )
    if not limb_names:
        calibrate(device)
    return limb_names or [device.limbs]


def _gpu_cases(modulus: Modulus, device: AnyDevice, choice: str) -> Iterator[Case]:
    """Yield products and squares per second on a whole GPU, with a chain per instance."""
    limbs: dict[str, Any] = {"limbs": choice} if choice else {}
    steps = _FEW_STEPS if getattr(device, "drops_long_loops", False) else STEPS
    groups = _GPU_WAVES * device.resident_lanes // device.lanes
    count = groups * device.lanes
    elements = device.upload(random_elements(modulus, count * (_GPU_CHAINS + 1), seed=1))
    for operation, square in (("product", False), ("square", True)):
        compiled = device.compile(
            field_products, modulus=modulus, chains=_GPU_CHAINS, square=square, **limbs
        )  # fmt: skip
        _check(
            modulus, device.lanes, _GPU_CHAINS, partial(device.launch, compiled, 1), square=square
        )
        recording = device.stream("field").record()
        recording.launch(
            compiled, groups, elements, steps, label=f"{modulus.name} {operation}",
            **_counts(modulus, count, _GPU_CHAINS, steps, square=square),
        )  # fmt: skip
        replay = partial(_rate, device, recording.finish().recording, count * _GPU_CHAINS * steps)
        replay()
        yield Case(
            {"field": modulus.name, "what": operation, **limbs},
            replay,
            unit="G/s",
            returns_figure=True,
            traced=replay,
        )


def _rate(
    device: AnyDevice, recording: Recording, operations: int, timeline: Timeline | None = None
) -> float:
    """Replay a recording and wait for it; return its rate in 1e9 operations per second."""
    begin = perf_counter()
    device.stream("field").replay(recording).run(timeline)
    return operations / (perf_counter() - begin) / 1e9


class Counts(TypedDict):
    """The work of a stage, as keyword arguments for a timeline."""

    bytes: int
    modmuls: int
    multiply_adds: int


def _counts(
    modulus: Modulus, instances: int, chains: int, steps: int, *, square: bool = False
) -> Counts:
    """Count the work of a launch: an instance reads all its elements and writes all but one."""
    products = instances * chains * steps
    cost = square_cost(modulus) if square else product_cost(modulus)
    return {
        "bytes": instances * (2 * chains + 1) * modulus.bytes,
        "modmuls": products,
        "multiply_adds": products * cost,
    }


def _check(
    modulus: Modulus,
    instances: int,
    chains: int,
    launch: Callable[[Words, int], None],
    *,
    square: bool = False,
) -> None:
    """Check three steps of `launch` against integers; raises QuodError if a product is wrong."""
    words = random_elements(modulus, instances * (chains + 1), seed=2)
    inputs = words_to_integers(modulus, words)
    launch(words, 3)
    products = words_to_integers(modulus, words)
    radix_inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    for start in range(0, len(products), chains + 1):
        for chain in range(1, chains + 1):
            expected = inputs[start + chain]
            for _ in range(3):
                factor = expected if square else inputs[start]
                expected = expected * factor * radix_inverse % modulus.value
            if products[start + chain] != expected:
                raise QuodError(f"the product in {modulus.name} is wrong; please report it")


@dataclass(frozen=True)
class CpuProducts:
    """A launch of products on all CPU threads, and its work."""

    run: Callable[[], object]
    counts: Counts


def cpu_products(modulus: Modulus, device: HostDevice) -> CpuProducts:
    """Prepare products on all threads, checked; raises QuodError if they are wrong."""
    compiled = device.compile(field_products, modulus=modulus, chains=CHAINS, square=False)
    groups = GROUPS * device.threads
    count = groups * device.lanes
    launch = partial(device.launch, compiled, groups)
    _check(modulus, count, CHAINS, launch)
    memory = random_elements(modulus, count * (CHAINS + 1), seed=1)
    return CpuProducts(partial(launch, memory, STEPS), _counts(modulus, count, CHAINS, STEPS))


def _case(modulus: Modulus, device: HostDevice) -> Case:
    products = cpu_products(modulus, device)

    def traced(timeline: Timeline) -> None:
        with timeline.stage(f"{modulus.name} product", **products.counts):
            products.run()

    return Case(
        {"field": modulus.name, "limbs": device.strategy, "threads": device.threads},
        products.run,
        unit="ns/product",
        operations=products.counts["modmuls"],
        traced=traced,
    )
