"""A study of field arithmetic in small limbs on WebGPU: limb sizes, forms and reductions.

Each instance computes a chain of products, and there are several times as many instances as fill
the adapter. Each kernel is checked against integers before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from quod.device.discovery import open_device
from quod.device.webgpu.device import WebGpuDevice
from quod.errors import InputError, KernelError, QuodError
from quod.field.array import random_elements, words_to_integers
from quod.field.element import Element
from quod.field.moduli import MODULI, Modulus
from quod.field.strategies.calibration import Chain
from quod.field.strategies.lazy_limbs.strategy import LazyLimbs
from quod.field.strategies.limb_choice import LimbChoice
from quod.kernel import U32, U64, Builder, Pointer, kernel

What = Literal["product", "square", "two products", "conversion"]

FIELDS = ("bls12_381.fq", "bls12_381.fr")
"""The default fields: coordinates and scalars."""

_FORMS = ("columns", "rows", "karatsuba", "rolled")
_OTHER_OPERATIONS: tuple[What, ...] = ("square", "two products", "conversion")
"""The other operations studied, each in the best form for a limb size."""

_CHECKED_STEPS = 3
"""The steps of a chain that are compared with integers."""
_BUDGET_SECONDS = 0.1
"""The time for the measurement of a chain."""


@dataclass(frozen=True)
class StudyRow:
    """A figure of the study.

    limbs: the bits of a limb, with "/64" if products have 64 bits.
    form: the form of a product (see `LimbChoice`).
    rate: in 1e9 operations per second.
    compile_seconds: tracing and the driver's compilation.
    text_bytes: the size of the WGSL.
    failure: the reason if it does not compile or computes wrongly; then the rate is 0.
    """

    field: str
    what: What
    limbs: str
    form: str
    rate: float
    compile_seconds: float
    text_bytes: int
    failure: str = ""

    @property
    def nanoseconds(self) -> float:
        """Nanoseconds per operation; 0 if it failed."""
        return 1 / self.rate if self.rate else 0.0


@kernel
def study_chain(k: Builder, x: Pointer[U64], steps: U32, *, modulus: Modulus, what: What) -> None:
    """Apply one operation to element 2i + 1 of each instance i, `steps` times, with element 2i."""
    field = LazyLimbs(k, modulus)
    first = k.global_id() * 2
    # `bounded` gives an element the standard bounds that loops and branches require.
    factor = field.bounded(field.load(x, first))
    start = field.bounded(field.load(x, first + 1))
    convert = field.constant(modulus.montgomery_radix)

    def step(element: Element) -> Element:
        if what == "square":
            return field.square(element)
        if what == "two products":
            return field.sum_of_products([(element, factor), (element, element)])
        if what == "conversion":
            return element * convert
        return element * factor

    with k.range(0, steps, carry=start) as loop:
        loop.next(field.bounded(step(loop.carried)))
    field.store(x, first + 1, loop.results)


def choices(*, u64: bool, software: bool) -> list[str]:
    """Return the limb choices to study; for software drivers only those with loops."""
    names = []
    for name in [*map(str, range(12, 17)), *([f"{n}/64" for n in (28, 29, 30)] if u64 else [])]:
        for form in ("rolled",) if software else _FORMS:
            try:
                LimbChoice.parse(f"{name}:{form}")
            except ValueError:
                continue
            names.append(f"{name}:{form}")
    return names


def study(device: str, names: Sequence[str], follow: Callable[[str], None]) -> Iterator[StudyRow]:
    """Yield the figures of an adapter, for `FIELDS` if `names` is empty.

    follow: called with the name of each figure before it is measured.
    Raises InputError for an unknown field, or a device without a choice of limbs.
    """
    unknown = [name for name in names if name not in MODULI]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a field; choose one of {', '.join(MODULI)}")
    webgpu_device = _open_webgpu(device)
    software = webgpu_device.properties.is_software
    all_choices = choices(u64=webgpu_device.target.u64, software=software)
    for name in names or FIELDS:
        modulus = MODULI[name]
        for limbs in all_choices:
            follow(f"{name} product {limbs}")
            yield _row(webgpu_device, modulus, limbs, "product")
        if software:
            continue
        for limbs in dict.fromkeys(limbs.partition(":")[0] for limbs in all_choices):
            best = LimbChoice.parse(limbs)
            for what in _OTHER_OPERATIONS:
                follow(f"{name} {what} {limbs}")
                yield _row(webgpu_device, modulus, f"{limbs}:{best.form}", what)


def _open_webgpu(name: str) -> WebGpuDevice:
    device = open_device(name)
    if not isinstance(device, WebGpuDevice):
        raise InputError(f"{name} does not run WGSL, and the study of limbs needs a WebGPU device")
    return device


def adapter_name(device: str) -> str:
    """Return the name of an adapter."""
    return _open_webgpu(device).properties.name


def _row(device: WebGpuDevice, modulus: Modulus, limbs: str, what: What) -> StudyRow:
    """Measure one operation; a kernel error becomes the failure of the row."""
    bits, _, form = limbs.partition(":")
    begin = perf_counter()
    try:
        compiled = device.compile(
            study_chain, limbs=limbs, modulus=modulus, what=what,
        )  # fmt: skip
        compiled.wait_until_compiled()
        seconds = perf_counter() - begin
        _check(device, compiled, modulus, what)
        chain = Chain(device, compiled, modulus)
        rate = 1e-9 / chain.seconds(budget=_BUDGET_SECONDS)
    except KernelError as error:
        return StudyRow(modulus.name, what, bits, form, 0.0, 0.0, 0, str(error))
    return StudyRow(modulus.name, what, bits, form, rate, seconds, len(compiled.text))


def expected(what: What, modulus: Modulus, factor: int, element: int) -> int:
    """Compute one step on stored integers."""
    radix_inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    factors = {
        "product": factor, "square": element, "two products": factor + element,
        "conversion": modulus.montgomery_radix**2,
    }  # fmt: skip
    return element * factors[what] * radix_inverse % modulus.value


def _check(device: WebGpuDevice, compiled: object, modulus: Modulus, what: What) -> None:
    """Raise QuodError unless three steps agree with integers."""
    stored = random_elements(modulus, 2 * device.lanes, seed=2)
    expected_integers = words_to_integers(modulus, stored)
    device.launch(compiled, 1, stored, _CHECKED_STEPS)  # type: ignore[arg-type]
    for index in range(1, len(expected_integers), 2):
        for _ in range(_CHECKED_STEPS):
            expected_integers[index] = expected(
                what, modulus, expected_integers[index - 1], expected_integers[index]
            )
    if words_to_integers(modulus, stored) != expected_integers:
        raise QuodError(f"{what} modulo {modulus.name} is wrong on {device.name}; please report it")
