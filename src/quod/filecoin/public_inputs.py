"""Public inputs of the three circuits, without the constant 1 before them.

rust-fil-proofs: storage-proofs-porep/src/stacked/circuit/proof.rs,
storage-proofs-post/src/fallback/compound.rs, storage-proofs-update/src/compound.rs.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.filecoin.graph import StackedGraph
from quod.filecoin.nodes import node_to_element
from quod.filecoin.registered_proofs import PoRepConfig
from quod.filecoin.sectors import SectorShape
from quod.filecoin.updates import k_and_h_select


def porep_inputs(
    config: PoRepConfig, replica_id: bytes, comm_d: bytes, comm_r: bytes, challenges: Sequence[int]
) -> list[int]:
    """Return the public inputs of a partition of a proof of replication.

    challenges: of `porep_challenges`.
    They are replica_id, comm_d and comm_r, and for each challenge the index of each path's leaf in
    the circuit's order: the data node, the parents' columns, the node itself as the label's number,
    its replica node, its column.
    """
    inputs = [
        node_to_element(name, node)
        for name, node in (("replica_id", replica_id), ("comm_d", comm_d), ("comm_r", comm_r))
    ]
    parents = StackedGraph.of(config).parents(challenges).tolist()
    for challenge, row in zip(challenges, parents, strict=True):
        inputs += (challenge, *row, challenge, challenge, challenge)
    return inputs


def post_inputs(sectors: Sequence[tuple[bytes, Sequence[int]]], count: int) -> list[int]:
    """Return the public inputs of a partition of a proof of spacetime.

    sectors: comm_r and the challenged leaves of each sector.
    count: the sectors of a partition; the last sector is repeated up to this number.
    Raises InputError for no sectors, and for more than `count`.
    """
    if not 0 < len(sectors) <= count:
        raise InputError(f"a partition must have 1 to {count} sectors, not {len(sectors)}")
    inputs: list[int] = []
    for comm_r, challenges in (*sectors, *[sectors[-1]] * (count - len(sectors))):
        inputs += (node_to_element("comm_r", comm_r), *challenges)
    return inputs


def update_inputs(
    sector: SectorShape, partition: int, comm_r_old: bytes, comm_d_new: bytes, comm_r_new: bytes,
    *, h: int | None = None,
) -> list[int]:  # fmt: skip
    """Return the public inputs of a partition of an update; for `h` see `k_and_h_select`."""
    return [
        k_and_h_select(sector, partition, h),
        node_to_element("comm_r_old", comm_r_old),
        node_to_element("comm_d_new", comm_d_new),
        node_to_element("comm_r_new", comm_r_new),
    ]
