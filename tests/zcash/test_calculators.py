"""Calculators of the shielded circuits compute the witnesses of Python, to the bit."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from quod import zcash
from quod.r1cs.inputs import Inputs
from quod.zcash.assets import asset_identifier
from quod.zcash.conversion import AllowedConversion, convert_inputs
from quod.zcash.masp import masp_output_inputs
from quod.zcash.output import output_inputs
from quod.zcash.proofs.kinds import KINDS
from quod.zcash.spend import spend_inputs
from tests.r1cs.calculator.agreement import agree
from tests.zcash.test_spend import ORDER, P, RandomSpend
from tests.zcash.test_tree import path_circuit, random_path


def output_of(draw: random.Random) -> Inputs:
    note = RandomSpend(draw.getrandbits(32), zcash.SAPLING).note
    return output_inputs(note, draw.randrange(1, ORDER), draw.randrange(ORDER))


def masp_output_of(draw: random.Random) -> Inputs:
    asset = asset_identifier(draw.randbytes(8))
    note = RandomSpend(draw.getrandbits(32), zcash.MASP, asset).note
    return masp_output_inputs(note, draw.randrange(1, ORDER), draw.randrange(ORDER))


def spend_of(draw: random.Random) -> Inputs:
    return spend_inputs(*RandomSpend(draw.getrandbits(32), zcash.SAPLING).arguments)


def masp_spend_of(draw: random.Random) -> Inputs:
    asset = asset_identifier(draw.randbytes(8))
    return spend_inputs(*RandomSpend(draw.getrandbits(32), zcash.MASP, asset).arguments)


def convert_of(draw: random.Random) -> Inputs:
    amounts = {asset_identifier(draw.randbytes(8)): draw.randrange(-9, 9) for _ in range(3)}
    conversion = AllowedConversion(amounts)
    path = zcash.MerklePath([draw.randrange(P) for _ in range(32)], draw.randrange(1 << 32))
    anchor = path.root(conversion.leaf, zcash.MASP)
    return convert_inputs(
        conversion, draw.randrange(1 << 64), path, draw.randrange(ORDER), anchor
    )  # fmt: skip


INPUTS: dict[str, Callable[[random.Random], Inputs]] = {
    "sapling-output": output_of, "masp-output": masp_output_of, "sapling-spend": spend_of,
    "masp-spend": masp_spend_of, "masp-convert": convert_of,
}  # fmt: skip


def test_a_shielded_output() -> None:
    draw = random.Random(1)
    inputs = dict(output_of(draw))
    assert agree(KINDS["sapling-output"].circuit(), [inputs, {**inputs, "value": 0}]) == (2, 0)


def test_the_nodes_of_a_path() -> None:
    """A node waits for all its bits, although its shortcut reads only its children."""
    circuit = path_circuit(zcash.SAPLING)
    paths = [random_path(seed, circuit.field.value)[0] for seed in range(3)]
    assert agree(circuit, paths) == (3, 0)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KINDS)
def test_shielded_circuits(name: str) -> None:
    draw = random.Random(name)
    all_inputs = [INPUTS[name](draw) for _ in range(20)]
    changed = dict(all_inputs[0])
    changed["rcv"] = int(changed["rcv"]) + 1  # type: ignore[call-overload]
    broken = {**changed, "g_d": [3, 4]} if "g_d" in changed else {**changed, "rt": 5}
    assert agree(KINDS[name].circuit(), [*all_inputs, changed, broken]) == (21, 1)
