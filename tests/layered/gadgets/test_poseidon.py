"""Poseidon and Poseidon2 against published vectors."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.errors import InputError
from quod.field import NAMED
from quod.hash.poseidon2 import grain
from quod.hash.poseidon_m31 import round_constants as poseidon_m31_constants
from quod.layered import Program
from quod.layered.gadgets import (
    POSEIDON2,
    poseidon_m31,
    poseidon_m31_hash,
    poseidon_m31_hash_numbers,
)
from tests.layered.evaluation import finished, gates, holds

RANDOM = [
    894848333, 1437655012, 1200606629, 1690012884, 71131202, 1749206695, 1717947831, 120589055,
    19776022, 42382981, 1831865506, 724844064, 171220207, 1299207443, 227047920, 1783754913,
]  # fmt: skip

# Of the permutations that Plonky3 has by default: its tests test_default_*_poseidon2_width_*.
VECTORS = {
    "m31": (list(range(16)), [
        0x0B2C803A, 0x5B1EE4D1, 0x49C6B1E3, 0x2CDC280C, 0x310A60C8, 0x530A729E, 0x4E61BCB4,
        0x2E84D3C3, 0x58709C08, 0x7E82AC42, 0x2162BCEF, 0x6D153AB6, 0x742CF0E3, 0x2F21632D,
        0x61ADCE1E, 0x1973D6F1,
    ]),
    "baby_bear": (RANDOM, [
        516096821, 90309867, 1101817252, 1660784290, 360715097, 1789519026, 1788910906, 563338433,
        319524748, 1741414159, 1650859320, 894311162, 1121347488, 1692793758, 1052633829,
        1344246938,
    ]),
    "koala_bear": (RANDOM, [
        1934285469, 604889435, 133449501, 1026180808, 1830659359, 176667110, 1391183747, 351743874,
        1238264085, 1292768839, 2023573270, 1201586780, 1360691759, 1230682461, 748270449,
        651545025,
    ]),
    "goldilocks": (list(range(8)), [
        0x020CF04A1B214D14, 0x84E14AAAEACAED25, 0x1AE0F640E81C7457, 0xA4D204CBAEB0D8A5,
        0x0CF637B627B3A7FF, 0x788D304D948B486B, 0x7327133EA1949AF4, 0xF415ABB924DA395B,
    ]),
}  # fmt: skip

LAYERS = {"m31": 23, "baby_bear": 43, "koala_bear": 29, "goldilocks": 61}
"""One a round, or two of a seventh power, and one that is the linear layer of the last."""


@pytest.mark.parametrize("name", VECTORS)
def test_poseidon2_of_published_vectors(name: str) -> None:
    permutation, (state, result) = POSEIDON2[name], VECTORS[name]
    p = permutation.field.value
    assert permutation.permute_numbers(state) == result
    program = Program(permutation.field)
    layout = finished(program, permutation.permute(program, program.inputs("x", len(state))))
    assert holds(layout, {"x": state, "result": result})
    assert len(layout.circuit.layers) == LAYERS[name]
    generator = random.Random(name)
    for other in ([0] * len(state), [p - 1] * len(state), [generator.randrange(p) for _ in state]):
        permuted = permutation.permute_numbers(other)
        assert holds(layout, {"x": other, "result": permuted})
        permuted[generator.randrange(len(permuted))] += 1
        assert not holds(layout, {"x": other, "result": permuted})


def test_partial_rounds_take_few_gates() -> None:
    """A sum for the first element of each, and all sixteen only before the next full round."""
    permutation = POSEIDON2["m31"]
    program = Program(permutation.field)
    layout = finished(program, permutation.permute(program, program.inputs("x", 16)))
    assert sum(gates(layout.circuit).values()) < 3_400


def test_poseidon2_of_arrays_and_digests() -> None:
    permutation = POSEIDON2["m31"]
    rows = np.arange(48, dtype=np.int64).reshape(3, 16)
    columns = permutation.permute_numbers([rows[:, at] for at in range(16)])
    for number, row in enumerate(rows.tolist()):
        assert [int(column[number]) for column in columns] == permutation.permute_numbers(row)
    digest = permutation.compress_numbers(RANDOM[:8], RANDOM[8:])
    assert digest == permutation.permute_numbers(RANDOM)[:8]
    program = Program(permutation.field)
    wires = permutation.compress(program, program.inputs("a", 8), program.inputs("b", 8))
    assert holds(finished(program, wires), {"a": RANDOM[:8], "b": RANDOM[8:], "result": digest})


def test_poseidon_of_published_digests() -> None:
    """Expander's digests of eight and sixteen times 114514, and the first constant."""
    assert poseidon_m31_constants()[0][0] == 80596940
    for count, start in (
        (8, [1021105124, 1342990709, 1593716396, 2100280498]),
        (16, [1510043913, 1840611937, 45881205, 1134797377]),
    ):
        message = [114514] * count
        digest = poseidon_m31_hash_numbers(message)
        assert digest[:4] == start
        program = Program(NAMED["m31"])
        layout = finished(program, poseidon_m31_hash(program, program.inputs("x", count)))
        assert holds(layout, {"x": message, "result": digest})
        assert not holds(layout, {"x": message, "result": [*digest[:15], digest[15] + 1]})
    assert poseidon_m31_hash_numbers([3]) == poseidon_m31_hash_numbers([3] + [0] * 7)


def test_wrong_arguments() -> None:
    program, other = Program(NAMED["m31"]), Program(NAMED["goldilocks"])
    permutation = POSEIDON2["m31"]
    with pytest.raises(InputError, match="did you mean 'm31'"):
        POSEIDON2["m3"]
    with pytest.raises(InputError, match="but the program is over goldilocks"):
        permutation.permute(other, [other.constant(1)] * 16)
    with pytest.raises(InputError, match="but the program is over goldilocks"):
        poseidon_m31(other, [other.constant(1)] * 16)
    with pytest.raises(InputError, match="16 wires, not 15"):
        permutation.permute(program, [program.constant(1)] * 15)
    with pytest.raises(InputError, match="8 wires, not 7"):
        permutation.compress(program, [program.constant(1)] * 8, [program.constant(1)] * 7)
    with pytest.raises(InputError, match="at least 1"):
        poseidon_m31_hash(program, [])
    for wrong in ([], [1.5], "1", None):
        with pytest.raises(InputError):
            poseidon_m31_hash_numbers(wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            permutation.permute_numbers(wrong)  # type: ignore[arg-type]
    assert len(grain(17, 4, 2, 1)) == 9
