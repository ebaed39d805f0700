"""Transforms over fields of every width, on the processor and on GPUs, against plain integers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import from_integers, random_elements, to_integers
from quod.field.moduli import (
    BABY_BEAR,
    GOLDILOCKS,
    KOALA_BEAR,
    M31,
    NAMED,
    PALLAS_FQ,
    Modulus,
)
from quod.field.roots import root_of_unity
from quod.ntt import NttPlan, Ordering, coset_quotient, ntt
from quod.ntt.gpu.schedule import Tuning
from tests.reference import ntt as reference
from tests.support.thorough import one_and_others

TOY = Modulus("toy.17", 17)
FULL_32 = Modulus("full_32", 3 * (1 << 30) + 1)
FULL_64 = Modulus("full_64", 27 * (1 << 59) + 1)
SHORT = [BABY_BEAR, GOLDILOCKS, M31, KOALA_BEAR, TOY, FULL_32, FULL_64]
"""One word of 32 or 64 bits, Montgomery form and plain, some of which fill the word."""

FULL_128 = Modulus("full_128", (1 << 128) - (21 << 24) + 1)
"""Several limbs without a bit to spare: sums have a limb more."""

FIELDS = [*SHORT, PALLAS_FQ, FULL_128]


CASES: list[tuple[Ordering, bool, int | None]] = [
    ("NN", False, None), ("NR", True, 3), ("RN", False, 3), ("NN", True, 3), ("RR", True, None),
]  # fmt: skip

SMALL = Tuning(log_tile=5, log_elements=2, max_levels=3, resident=0)

each_field = pytest.mark.parametrize(
    "modulus",
    one_and_others(FIELDS, [BABY_BEAR, GOLDILOCKS]),
    ids=lambda modulus: modulus.name,
)


def check(
    device: AnyDevice,
    modulus: Modulus,
    values: Sequence[int],
    *,
    batch: int = 1,
    tuning: Tuning | None = None,
    root: int | None = None,
) -> None:
    """Compares each case with the model."""
    size = len(values) // batch
    plan = NttPlan(device, modulus, size.bit_length() - 1, tuning=tuning, root=root)
    for ordering, inverse, coset in CASES:
        data = from_integers(modulus, values)
        transform = plan.inverse if inverse else plan.forward
        transform(data, batch=batch, ordering=ordering, coset=coset)
        expected: list[int] = []
        for start in range(0, len(values), size):
            expected += reference.ntt(
                modulus, values[start : start + size], inverse=inverse, shift=coset or 1,
                ordering=ordering, root=root,
            )  # fmt: skip
        assert to_integers(modulus, data) == expected


def uniform(modulus: Modulus, count: int) -> list[int]:
    generator = random.Random(count)
    return [generator.randrange(modulus.value) for _ in range(count)]


def sizes(modulus: Modulus, *wanted: int) -> list[int]:
    """Those sizes that a field has, or its largest."""
    return sorted({min(log2_size, modulus.two_adicity) for log2_size in wanted})


@pytest.mark.parametrize(
    "modulus", one_and_others(FIELDS, [GOLDILOCKS, M31]), ids=lambda modulus: modulus.name
)
@pytest.mark.parametrize("log2_sizes", one_and_others([[0, 1, 6], [2, 3, 9]]), ids=str)
def test_transforms_on_the_cpu(device: AnyDevice, modulus: Modulus, log2_sizes: list[int]) -> None:
    for log2_size in sizes(modulus, *log2_sizes):
        check(device, modulus, uniform(modulus, 1 << log2_size))
        check(device, modulus, uniform(modulus, 5 << log2_size), batch=5)


@each_field
def test_transforms_in_passes(gpu_device: AnyDevice, modulus: Modulus) -> None:
    for log2_size in sizes(modulus, 1, 2, 6, 7):
        check(gpu_device, modulus, uniform(modulus, 1 << log2_size), tuning=SMALL)
    log2_size = min(3, modulus.two_adicity)
    check(gpu_device, modulus, uniform(modulus, 3 << log2_size), batch=3, tuning=SMALL)


@pytest.mark.parametrize(
    "modulus",
    one_and_others([*SHORT, FULL_128], [M31, FULL_64, FULL_128]),
    ids=lambda modulus: modulus.name,
)
def test_hostile_values(gpu_device: AnyDevice, modulus: Modulus) -> None:
    largest, size = modulus.value - 1, 1 << min(6, modulus.two_adicity)
    kinds = [0] * size, [largest] * size, [0, largest] * (size // 2), [0] * (size - 1) + [largest]
    values = list(itertools.chain(*kinds))
    check(gpu_device, modulus, values, batch=len(kinds), tuning=SMALL)


@pytest.mark.parametrize(
    "modulus",
    one_and_others([M31, BABY_BEAR, GOLDILOCKS], [M31, BABY_BEAR]),
    ids=lambda modulus: modulus.name,
)
def test_transforms_with_default_options(device: AnyDevice, modulus: Modulus) -> None:
    """Sizes of several passes, and back."""
    for log2_size in sizes(modulus, 14):
        values = random_elements(modulus, 1 << log2_size, seed=1)
        plan = NttPlan(device, modulus, log2_size, "arkworks")
        data = values.copy()
        plan.forward(data, coset=5)
        middle = to_integers(modulus, data)
        plan.inverse(data, coset=5)
        assert np.array_equal(data, values)
        integers = to_integers(modulus, values)
        root = root_of_unity(modulus, "arkworks", log2_size)
        assert middle == reference.ntt(modulus, integers, root=root, shift=5)


@pytest.mark.parametrize(
    ("modulus", "ordering"),
    one_and_others([(BABY_BEAR, "NN"), (GOLDILOCKS, "RN")]),
    ids=lambda part: getattr(part, "name", part),
)
def test_default_tiles(gpu_device: AnyDevice, modulus: Modulus, ordering: Ordering) -> None:
    values = random_elements(modulus, 1 << 13, seed=2)
    values[:2] = values[-1] = 0
    transform, expected = values.copy(), values.copy()
    NttPlan(gpu_device, modulus, 13).forward(transform, ordering=ordering, coset=5)
    NttPlan(CpuDevice(), modulus, 13).forward(expected, ordering=ordering, coset=5)
    assert np.array_equal(transform, expected)


@pytest.mark.parametrize(
    "modulus",
    one_and_others([GOLDILOCKS, BABY_BEAR, M31, FULL_64]),
    ids=lambda modulus: modulus.name,
)
def test_the_emitted_text_computes_the_same(modulus: Modulus) -> None:
    device = EmulatedDevice(executor="ptx")
    values = uniform(modulus, 1 << min(6, modulus.two_adicity))
    check(device, modulus, [*values[:-2], 0, modulus.value - 1], tuning=SMALL)


SYMPY = {
    GOLDILOCKS: [
        8315257654170453124, 17627509123934865015, 17446971181268085584, 1680599327351498071,
        10431675685924223045, 131003186039432792, 699583617638593777, 17454376501331185884,
    ],
    BABY_BEAR: [
        1424430348, 633438610, 1009244365, 1148600842, 1853553638, 1667778712, 1924756300,
        404526798,
    ],
    KOALA_BEAR: [
        981539337, 652807048, 1780002286, 1632403826, 2069782045, 175545799, 1732982519,
        1628469313,
    ],
}  # fmt: skip
"""sympy.discrete.transforms.ntt of 3**(i*i) for i below 8 (SymPy 1.14.0)."""


@pytest.mark.parametrize("modulus", one_and_others(SYMPY), ids=lambda modulus: modulus.name)
def test_transforms_match_sympy(device: AnyDevice, modulus: Modulus) -> None:
    values = [pow(3, i * i, modulus.value) for i in range(8)]
    assert ntt(values, modulus, family="arkworks", device=device) == SYMPY[modulus]


def test_custom_root_of_unity(device: AnyDevice) -> None:
    """Powers of two, and every root of order 8 of a toy field."""
    check(device, GOLDILOCKS, uniform(GOLDILOCKS, 64), root=8)
    for root in (2, 8, 9, 15):
        check(device, TOY, uniform(TOY, 8), root=root)
        plan = NttPlan(device, TOY, 3, root=root)
        assert plan.generator == root
        values = list(range(8))
        transform = ntt(values, TOY, root=root, device=device)
        assert transform == reference.ntt(TOY, values, root=root)


def test_custom_root_of_unity_in_passes(gpu_device: AnyDevice) -> None:
    check(gpu_device, GOLDILOCKS, uniform(GOLDILOCKS, 64), root=8, tuning=SMALL)
    check(gpu_device, TOY, uniform(TOY, 2), root=16)


@pytest.mark.parametrize(
    ("modulus", "log2_size", "root", "message"),
    [
        (M31, 2, None, r"transforms over m31 have 2\^0 to 2\^1 points, not 2\^2"),
        (KOALA_BEAR, 25, None, r"have 2\^0 to 2\^24 points, not 2\^25"),
        (GOLDILOCKS, 33, None, r"have 2\^0 to 2\^32 points, not 2\^33"),
        (NAMED["curve25519.fq"], 3, None, r"have 2\^0 to 2\^2 points, not 2\^3"),
        (GOLDILOCKS, 5, 8, r"8 is not a root of unity of order 2\^5 in goldilocks; omit it"),
        (GOLDILOCKS, 7, 8, r"8 is not a root of unity of order 2\^7"),
        (TOY, 2, 4 + 17, r"21 is not a root of unity"),
        (TOY, 2, 4.0, "a root of unity must be an int, not float"),
    ],
)
def test_invalid_arguments_are_rejected(
    device: AnyDevice, modulus: Modulus, log2_size: int, root: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        NttPlan(device, modulus, log2_size, root=root)


each_of_quotients = pytest.mark.parametrize(
    ("modulus", "log2_size"), [(BABY_BEAR, 0), (BABY_BEAR, 1), (GOLDILOCKS, 0), (BABY_BEAR, 3)]
)


@each_of_quotients
def test_the_quotient(device: AnyDevice, modulus: Modulus, log2_size: int) -> None:
    check_quotients(device, modulus, log2_size)


@each_of_quotients
def test_the_quotient_on_gpus(gpu_device: AnyDevice, modulus: Modulus, log2_size: int) -> None:
    check_quotients(gpu_device, modulus, log2_size)


def check_quotients(device: AnyDevice, modulus: Modulus, log2_size: int) -> None:
    """a*b - c on the coset, of constants: of one element of four bytes, for the least."""
    size = 1 << log2_size
    for a, b, c in (
        (5, 7, 3),
        (modulus.value - 1, modulus.value - 1, modulus.value - 1),
        (0, 5, 1),
    ):
        values = from_integers(modulus, [a] * size + [b] * size + [c] * size)
        out = np.zeros((size, modulus.words), np.uint32)
        coset_quotient(NttPlan(device, modulus, log2_size), values, out)
        integers = [int.from_bytes(row.tobytes(), "little") for row in out]
        assert integers == [(a * b - c) % modulus.value] * size
