"""The check of the vanilla proof of a sector in a proof of spacetime."""

from __future__ import annotations

from collections.abc import Sequence

from quod.device.protocol import AnyDevice
from quod.filecoin.checks.paths import PathChecker
from quod.filecoin.files import check_post_record
from quod.filecoin.records import PoStSectorProof
from quod.filecoin.sectors import SectorShape
from quod.validation import in_order, whole_number


def check_post_sector(
    proof: PoStSectorProof, sector: SectorShape, challenges: Sequence[int], *,
    device: AnyDevice | None = None,
) -> None:  # fmt: skip
    """Check that each challenged leaf is in TreeRLast, and that comm_r commits to its root.

    challenges: of `window_challenges` or `winning_challenges`; another randomness gives others.
    Raises InputError with the field that is wrong.
    """
    leaves = [
        whole_number(f"challenge {index}", leaf, 0, sector.nodes - 1)
        for index, leaf in enumerate(in_order("the challenges", challenges))
    ]
    check_post_record(proof, sector, len(leaves))
    checker = PathChecker(sector, device)
    add_post_sector(checker, proof, leaves)
    checker.check()


def add_post_sector(
    checker: PathChecker, proof: PoStSectorProof, leaves: Sequence[int], field: str = ""
) -> None:
    """Add the vanilla proof of a sector, whose shape was checked, to a checker.

    leaves: the challenged leaves.
    field: a prefix of the fields in errors, such as ``proofs[3].``.
    """
    (vanilla_proof,) = proof.vanilla_proof
    section = f"{field}vanilla_proof.sectors[0]"
    for index, (path, leaf) in enumerate(zip(vanilla_proof.inclusion_proofs, leaves, strict=True)):
        checker.add(
            f"{section}.inclusion_proofs[{index}]", path, leaf, vanilla_proof.comm_r_last,
            "comm_r_last",
        )  # fmt: skip
    roots = vanilla_proof.comm_c, vanilla_proof.comm_r_last
    checker.add_pair(f"{field}comm_r", roots, proof.comm_r)
