"""Montgomery products: how many a core, and how many all of them, make in a second.

Each instance multiplies several independent elements over and over by a factor, so that what is
measured is throughput: in real work there is always an independent product at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from quod.cli.bench.harness import Case
from quod.device.cpu import CpuDevice
from quod.errors import DeviceError, InputError, QuodError
from quod.field.moduli import MODULI, Modulus
from quod.field.strategy import prime_field
from quod.kernel import U64, Builder, Pointer, kernel

CHAINS = 4
STEPS = 2000
GROUPS = 8


@kernel
def field_products(
    k: Builder, x: Pointer[U64], steps: U64, *, modulus: Modulus, chains: int
) -> None:
    """Multiplies `chains` elements an instance, `steps` times, by the element in front of them."""
    field = prime_field(k, modulus)
    first = k.global_id() * (chains + 1)
    factor = field.load(x, first)
    elements = [field.load(x, first + (1 + chain)) for chain in range(chains)]
    carried = tuple(field.carried(element) for element in elements)
    with k.range(0, steps, carry=carried) as loop:
        products = field.multiply_many([(element, factor) for element in loop.carried])
        loop.next(tuple(field.carried(product) for product in products))
    for chain, element in enumerate(loop.results):
        field.store(x, first + (1 + chain), element)


def cases(device: str, names: Sequence[str]) -> Iterator[Case]:
    """A case for each field and each number of threads; all fields if `names` is empty."""
    if device != "cpu":
        raise DeviceError(f"products are measured on cpu, not on {device!r}")
    unknown = [name for name in names if name not in MODULI]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a field; there are {', '.join(MODULI)}")
    every = CpuDevice().threads
    for modulus in (MODULI[name] for name in names or MODULI):
        for threads in sorted({1, every}):
            yield _case(modulus, CpuDevice(threads=threads))


def _case(modulus: Modulus, device: CpuDevice) -> Case:
    compiled = device.compile(field_products, modulus=modulus, chains=CHAINS)
    groups = GROUPS * device.threads
    rng = np.random.default_rng(1)
    count = groups * device.lanes * (CHAINS + 1)
    integers = [int.from_bytes(rng.bytes(modulus.bytes), "little") for _ in range(count)]
    stored = [modulus.to_montgomery(integer) for integer in integers]
    raw = b"".join(one.to_bytes(modulus.bytes, "little") for one in stored)
    memory = np.frombuffer(raw, np.uint64).copy()

    def launcher(steps: int) -> Callable[[], None]:
        return lambda: device.launch(compiled, groups, memory, steps)

    launcher(3)()
    width = modulus.bytes // 8
    for at in range(0, count, CHAINS + 1):
        expected = integers[at + 1] * pow(integers[at], 3, modulus.value) % modulus.value
        found = int.from_bytes(memory[(at + 1) * width : (at + 2) * width].tobytes(), "little")
        if modulus.from_montgomery(found) != expected:
            raise QuodError(f"the product in {modulus.name} is wrong; please report it")
    return Case(
        {"field": modulus.name, "limbs": device.strategy, "threads": device.threads},
        launcher(STEPS),
        unit="ns/product",
        operations=STEPS * CHAINS * groups * device.lanes,
    )
