"""Files of vanilla proofs of test sectors, as the proving commands read them."""

from __future__ import annotations

import numpy as np

from quod.device.protocol import AnyDevice
from quod.field.array import check_seed
from quod.filecoin.challenges import window_challenges, winning_challenges
from quod.filecoin.files import commit_to_json
from quod.filecoin.registered_proofs import (
    POST_PROOFS,
    SEAL_PROOFS,
    Challenges,
    PoStKind,
)
from quod.filecoin.sealing.partial_trees import Draw, node_source
from quod.filecoin.sealing.sealed_sector import check_sealable, seal
from quod.filecoin.sealing.sparse_sealing import sparse_commit, sparse_posts
from quod.filecoin.sealing.updated_sector import uniform_update
from quod.filecoin.sectors import SectorShape
from quod.filecoin.statement_files import post_to_json, update_to_json
from quod.filecoin.statements import PoStSector, PoStStatement
from quod.filecoin.trees import words_to_node


def commit_text(
    sector: SectorShape, miner: int, sector_number: int, seed: int, device: AnyDevice | None, *,
    all_nodes: bool, synthetic: bool = False,
) -> str:  # fmt: skip
    """Return an output of C1 as lotus's c1.json.

    seed: the seed of the randomness and of all random nodes.
    all_nodes: whether random data are sealed, of at most 8 MiB.
    synthetic: whether the challenges are synthetic, which needs `all_nodes`.
    """
    challenges = Challenges.SYNTHETIC if synthetic else Challenges.INTERACTIVE
    # The last one has the newest API version.
    proof = [
        each for each in SEAL_PROOFS if (each.sector, each.challenges) == (sector, challenges)
    ][-1]
    draw = _node_source(seed)
    ticket, interactive_seed = (words_to_node(node) for node in draw(2))
    if all_nodes:
        check_sealable(sector)
        data = np.ascontiguousarray(draw(sector.nodes), "<u4").tobytes()
        sealed = seal(
            proof, data, miner=miner, sector_number=sector_number, ticket=ticket, device=device
        )
        output = sealed.commit_output(interactive_seed)
    else:
        output = sparse_commit(
            proof, miner=miner, sector_number=sector_number, ticket=ticket, seed=interactive_seed,
            random_seed=seed, device=device,
        )  # fmt: skip
    return commit_to_json(output, sector_number)


def post_text(
    sector: SectorShape, sector_number: int, seed: int, device: AnyDevice | None, *,
    window: int | None,
) -> str:  # fmt: skip
    """Return vanilla proofs of spacetime, with their randomness.

    sector_number: the number of the first sector; others follow.
    seed: the seed of the randomness and of all nodes.
    window: the number of sectors of a WindowPoSt; None stands for a WinningPoSt.
    """
    kind = PoStKind.WINNING if window is None else PoStKind.WINDOW
    proof = [each for each in POST_PROOFS if (each.sector, each.kind) == (sector, kind)][-1]
    randomness = words_to_node(_node_source(seed)(1)[0])
    challenges = {
        number: winning_challenges(sector, randomness, number)
        if window is None
        else window_challenges(sector, proof.api_version, randomness, number, position)
        for position, number in enumerate(range(sector_number, sector_number + (window or 1)))
    }
    proofs = sparse_posts(sector, challenges, random_seed=seed, device=device)
    sectors = tuple(PoStSector(each.sector_id, each.comm_r) for each in proofs)
    return post_to_json(PoStStatement(proof, randomness, sectors), proofs)


def update_text(sector: SectorShape, seed: int, device: AnyDevice | None) -> str:
    """Return vanilla proofs of the partitions of an update, with its commitments."""
    updated = uniform_update(sector, random_seed=seed, device=device)
    return update_to_json(updated.statement, updated.partition_proofs)


def _node_source(seed: int) -> Draw:
    check_seed(seed)
    return node_source(seed)
