"""FallbackPoStCircuit: values, failures, counts of `fallback_circuit.rs`, and digests."""

from __future__ import annotations

from functools import cache

import pytest

from quod import r1cs
from quod.filecoin import sector_shape
from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
from quod.testing import assert_deterministic, assert_fails
from tests.filecoin.circuits.instances import post_instance
from tests.filecoin.circuits.row_counts import counts_of

CURVE = "bls12_381"
POST = FallbackPoStCircuit((8, 4), 2, 2)
KIB, GIB = 1 << 10, 1 << 30


@cache
def circuit() -> r1cs.Circuit:
    return r1cs.trace(POST, CURVE)


def test_replicas_satisfy_the_circuit() -> None:
    inputs, public = post_instance(POST, 2, 2)
    values = circuit().values(inputs)
    assert not circuit().check(values)
    assert values[1 : 1 + circuit().public] == public


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("sectors[0]/comm_c", "sectors[0]/comm_r"),
        ("sectors[1]/comm_r", "sectors[1]/comm_r"),
        ("sectors[0]/inclusion_proofs[1]/leaf", "sectors[0]/inclusion_proofs[1]"),
        ("sectors[1]/comm_r_last", "sectors[1]/inclusion_proofs[0]"),
        ("sectors[1]/inclusion_proofs[0]/path[1]/hashes", "sectors[1]/inclusion_proofs[0]"),
        ("sectors[1]/inclusion_proofs[1]/path[0]/index", "sectors[1]/inclusion_proofs[1]"),
    ],
)
def test_a_changed_input_fails(name: str, namespace: str) -> None:
    """The failing constraint names the sector and the challenge."""
    inputs, _ = post_instance(POST, 2, 2)
    value = inputs[name]
    changed = [value[0] ^ 1, *value[1:]] if isinstance(value, list) else int(str(value)) ^ 1
    assert_fails(circuit(), {**inputs, name: changed}, namespace)


def test_all_wires_are_unique() -> None:
    small = r1cs.trace(FallbackPoStCircuit((8,), 1, 1), CURVE)
    assert_deterministic(small)
    assert small.check(targets=["all"]).is_unique


CASES = {
    "8": (FallbackPoStCircuit((8, 8), 3, 5), 16_869, 19, 17_067,
          "aabc663ba989f3613ad4d3f9a623ea354ad306dc951d848e57e4bdcd9096675c"),
    "8_4": (FallbackPoStCircuit((8, 8, 4), 3, 5), 22_674, 19, 22_917,
            "07af760cb42b557f0a8db088081c672c6bc40d091804130de322a982d2d0ddcc"),
    "8_4_2": (FallbackPoStCircuit((8, 8, 4, 2), 3, 5), 27_384, 19, None, None),
    "two of four sectors": (FallbackPoStCircuit((8, 8), 2, 5), 11_246, 13, None, None),
    "five sectors of 32 GiB": (FallbackPoStCircuit((8,) * 10, 5, 10), 266_665, 56, None, None),
    "window 2 KiB": (FallbackPoStCircuit.window(sector_shape(2 * KIB)), 21_866, 23, 22_128,
                     "14279e1c38053fa35eab6f56dbf1c5ef337b533f2c42fd3d7b4e7a116796b331"),
    "winning 2 KiB": (FallbackPoStCircuit.winning(sector_shape(2 * KIB)), 90_750, 133, 91_674,
                      "ce8079a9875ac8fafc46902e0e2368fa997e7f2ffb2065d2666ef92bc3ca2f67"),
    "winning 32 GiB": (FallbackPoStCircuit.winning(sector_shape(32 * GIB)), 370_590, 133, 375_210,
                       "f65cddbca7106bac1a8b92148badb4d96f488d56c233bd59b0d0a6919445cf4f"),
    "winning 64 GiB": (FallbackPoStCircuit.winning(sector_shape(64 * GIB)), 391_314, 133, None,
                       None),
}  # fmt: skip
"""Circuits with rows and inputs as upstream asserts them, aux and the digest of a model."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(name, marks=[] if name == "window 2 KiB" else pytest.mark.thorough)
        for name in CASES
    ],
)
def test_constraints(case: str) -> None:
    function, rows, inputs, aux, digest = CASES[case]
    traced = r1cs.trace(function, CURVE)
    assert (traced.constraints, traced.public + 1) == (rows, inputs)
    if digest is not None:
        assert (counts_of(traced).aux, traced.circuit_hash()) == (aux, digest)
    if case == "winning 32 GiB":
        counts = counts_of(traced)
        assert (counts.a_density, counts.b_density) == (284_196, 272_184)


@pytest.mark.parametrize(
    ("size", "sectors", "sector"),
    [
        (32, 2349, (53_333, 54_024, 40_945, 39_134)),
        pytest.param(64, 2300, (56_473, 57_174, 43_315, 41_484), marks=pytest.mark.thorough),
    ],
)
def test_window_post_of_large_sectors(
    size: int, sectors: int, sector: tuple[int, int, int, int]
) -> None:
    """Constraints, private variables and densities are those of a sector, many times."""
    circuit = r1cs.trace(FallbackPoStCircuit.window(sector_shape(size * GIB)), CURVE)
    counts = counts_of(circuit)
    densities = counts.a_density, counts.b_density
    assert (counts.rows, counts.aux, *densities) == tuple(sectors * each for each in sector)
    assert circuit.public == 11 * sectors
