"""The check of the vanilla proofs of sectors in a proof of spacetime."""

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

    challenges: of `window_challenges` or `winning_challenges`, which depend on the randomness.
    Raises InputError with the field that is wrong.
    """
    checker = PathChecker(sector, device)
    _add_sector(checker, "", proof, sector, challenges)
    checker.check()


def check_post_sectors(
    proofs: Sequence[PoStSectorProof], sector: SectorShape, challenges: Sequence[Sequence[int]], *,
    device: AnyDevice | None = None, paths: bool = True,
) -> None:  # fmt: skip
    """Check the vanilla proofs of many sectors as `check_post_sector`, their hashes as one batch.

    challenges: those of each sector.
    paths: whether the hashes of paths and of comm_r are checked.
    The field of an error begins with ``proofs[index]``.
    """
    checker = PathChecker(sector, device)
    for index, (proof, leaves) in enumerate(zip(proofs, challenges, strict=True)):
        _add_sector(checker, f"proofs[{index}].", proof, sector, leaves)
    checker.check(paths=paths)


def _add_sector(
    checker: PathChecker, prefix: str, proof: PoStSectorProof, sector: SectorShape,
    challenges: Sequence[int],
) -> None:  # fmt: skip
    """Add the paths of a sector; `prefix` is the beginning of the fields in errors."""
    leaves = [
        whole_number(f"challenge {index}", leaf, 0, sector.nodes - 1)
        for index, leaf in enumerate(in_order("the challenges", challenges))
    ]
    check_post_record(proof, sector, len(leaves), prefix)
    (vanilla_proof,) = proof.vanilla_proof
    field = f"{prefix}vanilla_proof.sectors[0]"
    for index, (path, leaf) in enumerate(zip(vanilla_proof.inclusion_proofs, leaves, strict=True)):
        section = f"{field}.inclusion_proofs[{index}]"
        checker.add(section, path, leaf, vanilla_proof.comm_r_last, "comm_r_last")
    roots = vanilla_proof.comm_c, vanilla_proof.comm_r_last
    checker.add_pair(f"{prefix}comm_r", roots, proof.comm_r)
