"""The kernels of transforms in the interpreter, which finds what hardware lets pass."""

from __future__ import annotations

import numpy as np
import pytest

from quod.curve.named.bn254 import BN254
from quod.device.cpu.device import CpuDevice
from quod.field.array import from_integers, random_elements, to_integers
from quod.field.roots import root_of_unity
from quod.kernel.interpreter.interpreter import Argument, interpret
from quod.ntt.host.passes import PassShape, transform_pass
from quod.ntt.host.reorder import reverse_bits, scale_by_powers
from quod.ntt.ordering import bit_reversal
from quod.ntt.rows import array_bytes
from quod.ntt.schedule import places_of
from quod.ntt.steps import Direction
from quod.ntt.twiddles import Domain, tables_of
from tests.reference import ntt as reference
from tests.support.devices import present
from tests.support.thorough import one_and_others

FR = BN254.fr


@pytest.fixture(params=present("ifma", "avx2", "neon", "scalar"))
def processor(request: pytest.FixtureRequest) -> CpuDevice:
    """Whose machine the kernels are traced for, and where their tables are made."""
    return CpuDevice(strategy=request.param, threads=1)


@pytest.mark.parametrize("direction", one_and_others(["descending", "ascending"]))
def test_a_transform_of_two_passes(processor: CpuDevice, direction: Direction) -> None:
    log_rows = [3, 3]
    domain = Domain(FR, 6, root_of_unity(BN254.fr, "snarkjs", 6), 1)
    tables = tables_of(processor, domain, log_rows, 1)
    values = random_elements(FR, 64, seed=1)
    data = values.view(np.uint64).reshape(-1).copy()
    scratch = np.zeros(array_bytes(processor, FR, processor.lanes << 3) // 8, np.uint64)
    places = places_of(log_rows)
    for place in places if direction == "ascending" else places[::-1]:
        shape = PassShape(direction, place.lanes(8, processor.lanes), trivial=True, scaled=False)
        arguments: list[Argument] = [
            data, tables.twiddles[place.number].view(np.uint64), tables.factors.view(np.uint64),
            scratch, 8, 3, place.log_stride,
        ]  # fmt: skip
        kernel = transform_pass.trace(processor.machine(processor.lanes), modulus=FR, shape=shape)
        interpret(kernel, 1, arguments)
    ordering = "RN" if direction == "ascending" else "NR"
    integers = to_integers(FR, values)
    expected = reference.ntt(BN254.fr, integers, family="snarkjs", ordering=ordering)
    assert to_integers(FR, data.view(np.uint32).reshape(-1, FR.words)) == expected


def test_bit_reversal_and_scaling(processor: CpuDevice) -> None:
    machine = processor.machine(processor.lanes)
    tile = processor.lanes.bit_length() - 1
    values = random_elements(FR, 2 << 7, seed=2)
    data = values.view(np.uint64).reshape(-1).copy()
    middle = 7 - 2 * tile
    order = bit_reversal(middle - middle // 2)
    kernel = reverse_bits.trace(machine, words=FR.words)
    interpret(kernel, 2 << middle, [data, order, 7, 1 << middle])
    permuted = values.reshape(2, 128, -1)[:, bit_reversal(7)]
    assert np.array_equal(data.view(np.uint32).reshape(permuted.shape), permuted)

    powers = from_integers(
        FR, [5, pow(3, processor.lanes, FR.value), *(3 ** (1 << i) for i in range(7))]
    )
    kernel = scale_by_powers.trace(machine, modulus=FR)
    groups = 256 // (4 * processor.lanes)
    interpret(kernel, groups, [data, powers.view(np.uint64), 256, 7, 4])
    before = to_integers(FR, permuted.reshape(256, -1))
    after = to_integers(FR, data.view(np.uint32).reshape(256, -1))
    scaled = [x * 5 * pow(3, i % 128, FR.value) % FR.value for i, x in enumerate(before)]
    assert after == scaled
