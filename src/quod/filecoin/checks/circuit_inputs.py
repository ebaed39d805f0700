"""Vanilla proofs that are checked against their statements, as inputs of the circuits.

Each function checks at once, and returns an iterator of the inputs of each partition. `device`
computes Poseidon hashes; None stands for pure Python, a millisecond a hash. Without `paths` the
hashes of paths are left to the circuit, which computes them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError
from quod.filecoin.checks.commit import check_commit
from quod.filecoin.checks.post import check_post_sectors
from quod.filecoin.checks.update import check_update_partition
from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
from quod.filecoin.circuits.private_inputs import (
    CircuitInputs,
    porep_private_inputs,
    post_private_inputs,
    update_private_inputs,
)
from quod.filecoin.records import CommitOutput, PoStSectorProof, UpdatePartitionProof
from quod.filecoin.registered_proofs import PoStKind
from quod.filecoin.sectors import SectorShape
from quod.filecoin.statements import PoStStatement, UpdateStatement
from quod.filecoin.updates import k_and_h_select
from quod.validation import in_order, instance

T = TypeVar("T")

_LARGEST_IN_PYTHON = 8 << 20


def hashing_device(sector: SectorShape, device: AnyDevice) -> AnyDevice | None:
    """Return the device for the hashes of a sector's vanilla proofs; None stands for pure Python.

    Small sectors have few hashes, which take less time than compiling a kernel.
    """
    return device if sector.size > _LARGEST_IN_PYTHON else None


def checked_commit_inputs(
    output: CommitOutput, *, miner: int | None = None, sector_number: int | None = None,
    device: AnyDevice | None = None, paths: bool = True,
) -> Iterator[CircuitInputs]:  # fmt: skip
    """Return the inputs of an output of C1 that `check_commit` accepts."""
    check_commit(output, miner=miner, sector_number=sector_number, device=device, paths=paths)
    return (porep_private_inputs(output, each) for each in range(len(output.vanilla_proofs)))


def checked_post_inputs(
    statement: PoStStatement, proofs: Sequence[PoStSectorProof], *,
    device: AnyDevice | None = None, paths: bool = True,
) -> Iterator[CircuitInputs]:  # fmt: skip
    """Return the inputs of vanilla proofs that `check_post_sectors` accepts.

    proofs: the vanilla proofs in the order of the statement's sectors.
    Raises InputError with the field, such as ``proofs[0].comm_r``.
    """
    sector = statement.proof.sector
    proofs = _instances(proofs, PoStSectorProof, len(statement.sectors))
    for index, (proof, public) in enumerate(zip(proofs, statement.sectors, strict=True)):
        for name in ("sector_id", "comm_r"):
            if getattr(proof, name) != getattr(public, name):
                raise MismatchError(
                    "is not that of the statement", section=f"proofs[{index}].{name}"
                )
    challenges = [statement.challenges(index) for index in range(len(proofs))]
    check_post_sectors(proofs, sector, challenges, device=device, paths=paths)
    winning = statement.proof.kind is PoStKind.WINNING
    build = FallbackPoStCircuit.winning if winning else FallbackPoStCircuit.window
    circuit = build(sector)
    groups = [
        [proofs[index] for index in statement.partition_sectors(partition)]
        for partition in range(statement.partitions)
    ]
    return (post_private_inputs(circuit, group) for group in groups)


def checked_update_inputs(
    statement: UpdateStatement, proofs: Sequence[UpdatePartitionProof], *,
    device: AnyDevice | None = None, paths: bool = True,
) -> Iterator[CircuitInputs]:  # fmt: skip
    """Return the inputs of the partitions of an update that `check_update_partition` accepts.

    proofs: the vanilla proofs of the partitions.
    Raises InputError with the field, such as ``proofs[3].apex_leafs``.
    """
    commitments = statement.comm_r_old, statement.comm_d_new, statement.comm_r_new
    sector, circuit = statement.sector, EmptySectorUpdateCircuit.of(statement.sector)
    proofs = _instances(proofs, UpdatePartitionProof, statement.partitions)
    for partition, proof in enumerate(proofs):
        with _inside(f"proofs[{partition}]"):
            check_update_partition(
                proof, sector, partition, *commitments, h=statement.h, device=device,
                paths=paths,
            )  # fmt: skip
    return (
        update_private_inputs(
            circuit, proof, k_and_h_select(sector, partition, statement.h), *commitments
        )
        for partition, proof in enumerate(proofs)
    )


def _instances(proofs: object, kind: type[T], count: int) -> list[T]:
    """Return vanilla proofs as a list of `count` instances of a class."""
    checked = [
        instance(f"proofs[{index}]", proof, kind, "see quod.filecoin.records")
        for index, proof in enumerate(in_order("proofs", proofs))
    ]
    _check_count("proofs", len(checked), count)
    return checked


def _check_count(name: str, count: int, expected: int) -> None:
    if count != expected:
        raise InputError(f"must have {expected} entries, not {count}", section=name)


@contextmanager
def _inside(field: str) -> Iterator[None]:
    """Name a field in front of the field that an InputError names."""
    try:
        yield
    except InputError as error:
        if type(error) is not InputError or error.path is not None:
            raise
        section = field if error.section is None else f"{field}.{error.section}"
        raise InputError(error.message, section=section) from None
