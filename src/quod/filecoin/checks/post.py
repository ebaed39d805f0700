"""The check of the vanilla proof of a sector in a proof of spacetime."""

from __future__ import annotations

from collections.abc import Sequence

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.filecoin.checks.paths import PathChecker
from quod.filecoin.records import PoStSectorProof
from quod.filecoin.sectors import SectorShape


def check_post_sector(
    proof: PoStSectorProof, sector: SectorShape, challenges: Sequence[int], *,
    device: AnyDevice | None = None,
) -> None:  # fmt: skip
    """Check that each challenged leaf is in TreeRLast, and that comm_r commits to its root.

    challenges: of `window_challenges` or `winning_challenges`; another randomness gives others.
    Raises InputError with the field that is wrong.
    """
    if len(proof.vanilla_proof) != 1:
        raise InputError(
            f"must have 1 entry, not {len(proof.vanilla_proof)}", section="vanilla_proof.sectors"
        )
    (vanilla_proof,) = proof.vanilla_proof
    field, checker = "vanilla_proof.sectors[0]", PathChecker(sector, device)
    if len(vanilla_proof.inclusion_proofs) != len(challenges):
        raise InputError(
            f"must have {len(challenges)} entries, not {len(vanilla_proof.inclusion_proofs)}",
            section=f"{field}.inclusion_proofs",
        )
    for index, (path, leaf) in enumerate(
        zip(vanilla_proof.inclusion_proofs, challenges, strict=True)
    ):
        section = f"{field}.inclusion_proofs[{index}]"
        checker.add(section, path, leaf, vanilla_proof.comm_r_last, "comm_r_last")
    checker.check()
    roots = vanilla_proof.comm_c, vanilla_proof.comm_r_last
    checker.check_pair("comm_r", roots, proof.comm_r)
