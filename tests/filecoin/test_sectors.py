"""Sector shapes, registered proofs and identifiers."""

from __future__ import annotations

import pytest

from quod.errors import InputError
from quod.filecoin.nodes import P, encode, replica_id, trim_to_fr32
from quod.filecoin.registered_proofs import (
    POST_PROOFS,
    SEAL_PROOFS,
    ApiVersion,
    Challenges,
    PoStKind,
    porep_id,
    post_proof,
    prover_id,
    seal_proof,
    seal_proof_named,
)
from quod.filecoin.sectors import SECTORS, sector_shape

SHAPES = {
    "2KiB": (6, 0, 0, 2),
    "4KiB": (7, 2, 0, 2),
    "16KiB": (9, 8, 0, 2),
    "32KiB": (10, 8, 2, 2),
    "8MiB": (18, 0, 0, 6),
    "16MiB": (19, 2, 0, 6),
    "512MiB": (24, 0, 0, 8),
    "1GiB": (25, 2, 0, 8),
    "32GiB": (30, 8, 0, 9),
    "64GiB": (31, 8, 2, 9),
}
"""log2 of the nodes, arities of the upper levels, and levels of a base tree."""


def test_shapes() -> None:
    for shape in SECTORS.values():
        arities = (shape.sub_arity, shape.top_arity)
        assert (shape.node_bits, *arities, shape.base_levels) == SHAPES[shape.name]
        leaves = 1
        for arity in shape.arities:
            leaves *= arity
        assert leaves == shape.nodes == 1 << len(shape.data_arities)
    large = sector_shape(64 << 30)
    assert large.arities == (8,) * 9 + (8, 2)
    assert (large.layers, large.partitions, large.challenges) == (11, 10, 18)
    assert (large.update.partitions, large.update.challenges) == (16, 86)
    assert large.update.default_h == 10
    assert sector_shape(8 << 20).update.challenges == 10
    assert sector_shape(2 << 10).update.apex_leaves == 8
    with pytest.raises(InputError, match=r"must be 2KiB, .* or 64GiB, not 1024 bytes"):
        sector_shape(1024)
    with pytest.raises(InputError, match="not '32GiB' bytes"):
        sector_shape("32GiB")  # type: ignore[arg-type]


def test_registered_seal_proofs() -> None:
    assert [proof.number for proof in SEAL_PROOFS] == list(range(20))
    assert seal_proof_named("StackedDrg8MiBV1_1") == seal_proof(6)
    synthetic = seal_proof(13)
    assert synthetic.name == "StackedDrg32GiBV1_1_Feat_SyntheticPoRep"
    assert (synthetic.api_version, synthetic.challenges) == (ApiVersion.V1_2, Challenges.SYNTHETIC)
    non_interactive = seal_proof(19).config()
    assert (non_interactive.sector.name, non_interactive.partitions) == ("64GiB", 126)
    assert seal_proof(8).config().partitions == 10
    for number in (-1, 20, True, "1"):
        with pytest.raises(InputError, match="the registered seal proof"):
            seal_proof(number)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no registered seal proof 'StackedDrg1GiBV1'"):
        seal_proof_named("StackedDrg1GiBV1")


def test_registered_post_proofs() -> None:
    assert [proof.number for proof in POST_PROOFS] == list(range(15))
    assert (post_proof(3).kind, post_proof(3).sector.name) == (PoStKind.WINNING, "32GiB")
    assert (post_proof(8).kind, post_proof(8).api_version) == (PoStKind.WINDOW, ApiVersion.V1_0)
    assert post_proof(14).api_version is ApiVersion.V1_2
    with pytest.raises(InputError, match="from 0 to 14, not 15"):
        post_proof(15)


def test_identifiers() -> None:
    assert porep_id(5).hex() == "05" + "00" * 31
    assert porep_id(19, (1 << 64) - 1).hex() == "13" + "00" * 7 + "ff" * 8 + "00" * 16
    assert prover_id(1000).hex() == "e807" + "00" * 30
    assert prover_id(0) == bytes(32)
    assert prover_id(127)[:2].hex() == "7f00"
    assert prover_id((1 << 63) - 1)[:10].hex() == "ff" * 8 + "7f00"
    for wrong in (-1, 1 << 63, 1.0):
        with pytest.raises(InputError, match="the miner's actor id"):
            prover_id(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the nonce"):
        porep_id(5, 1 << 64)


def test_replica_id_and_encoding() -> None:
    """The replica id of the 8 MiB sector of `test_commit_check` is checked there."""
    zeros = bytes(32)
    digest = replica_id(prover_id(1000), 1, zeros, zeros, porep_id(5))
    assert digest[31] < 0x40
    assert digest != replica_id(prover_id(1000), 1 << 56, zeros, zeros, porep_id(5))
    assert trim_to_fr32(b"\xff" * 32) == b"\xff" * 31 + b"\x3f"
    with pytest.raises(InputError, match="the ticket must be 32 bytes, not 31"):
        replica_id(zeros, 1, bytes(31), zeros, zeros)
    largest = (P - 1).to_bytes(32, "little")
    assert encode(largest, (2).to_bytes(32, "little")) == (1).to_bytes(32, "little")
    with pytest.raises(InputError, match="a data node is not below the modulus"):
        encode(largest, P.to_bytes(32, "little"))
