"""The check of the vanilla proof of a partition of a SnapDeals update."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.filecoin.challenges import update_challenges
from quod.filecoin.checks.paths import PathChecker, data_root
from quod.filecoin.files import check_update_record
from quod.filecoin.records import UpdatePartitionProof
from quod.filecoin.sectors import SectorShape
from quod.filecoin.trees import tree_d
from quod.filecoin.updates import encode_update, k_and_h_select, phi, rho


def check_update_partition(
    proof: UpdatePartitionProof, sector: SectorShape, partition: int, comm_r_old: bytes,
    comm_d_new: bytes, comm_r_new: bytes, *, h: int | None = None,
    device: AnyDevice | None = None, paths: bool = True,
) -> None:  # fmt: skip
    """Check a partition's paths in both replicas and in the new data, and its encoded nodes.

    h: the number of high bits of a challenge that choose the factor of the data; by default the
        number that updates use.
    paths: whether the hashes of paths and of comm_r are checked.
    Raises InputError with the field that is wrong, and for an impossible partition or h.
    """
    shape, checker = sector.update, PathChecker(sector, device)
    h = shape.default_h if h is None else h
    challenges = update_challenges(sector, comm_r_new, partition)
    k_and_h_select(sector, partition, h)
    check_update_record(proof, sector)
    first, randomness = proof.challenge_proofs[0], phi(comm_d_new, comm_r_old)
    roots = {"proof_r_old": first.proof_r_old.root, "proof_r_new": first.proof_r_new.root}
    for index, (challenge, node) in enumerate(zip(proof.challenge_proofs, challenges, strict=True)):
        field = f"challenge_proofs[{index}]"
        checker.check_data_path(
            f"{field}.proof_d_new", challenge.proof_d_new, node, comm_d_new, "comm_d_new"
        )
        for name, root in roots.items():
            path = getattr(challenge, name)
            checker.add(f"{field}.{name}", path, node, root, f"that of challenge_proofs[0].{name}")
        factor = rho(randomness, node >> sector.node_bits - h)
        expected = encode_update(challenge.proof_r_old.leaf, challenge.proof_d_new.leaf, factor)
        if challenge.proof_r_new.leaf != expected:
            raise InputError(
                "is not the sum of the old node and rho times the data node",
                section=f"{field}.proof_r_new.leaf",
            )
    for name, commitment, root in zip(
        ("comm_r_old", "comm_r_new"), (comm_r_old, comm_r_new), roots.values(), strict=True
    ):
        checker.add_pair(name, (proof.comm_c, root), commitment)
    checker.check(paths=paths)
    _check_apex(proof, sector, comm_d_new)


def _check_apex(proof: UpdatePartitionProof, sector: SectorShape, comm_d_new: bytes) -> None:
    """Check that the apex leaves are nodes of TreeD.

    The root of their tree is a node of TreeD on the paths of all challenges of the partition; the
    levels above that node select the partition.
    """
    upper_levels = sector.update.partitions.bit_length() - 1
    path = proof.challenge_proofs[0].proof_d_new.path
    node = tree_d(b"".join(proof.apex_leafs)).root
    if data_root(node, path[len(path) - upper_levels :]) != comm_d_new:
        raise InputError(
            "are not the nodes of a level of TreeD below comm_d_new", section="apex_leafs"
        )
