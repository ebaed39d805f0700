"""Requests for Filecoin proofs: statements with vanilla proofs from messages of cuzk's protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError
from quod.filecoin.checks.circuit_inputs import (
    checked_commit_inputs,
    checked_post_inputs,
    checked_update_inputs,
    hashing_device,
)
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.files import parse_commit, parse_post_sector, parse_update_partition
from quod.filecoin.parameters.identifiers import ParameterSet, ProofKind
from quod.filecoin.registered_proofs import ApiVersion, PoStKind, post_proof
from quod.filecoin.sectors import NODE_BYTES, WINDOW_CHALLENGES, WINNING_CHALLENGES, sector_shape
from quod.filecoin.statement_files import StatementFile
from quod.filecoin.statements import PoStSector, PoStStatement, SealStatement, UpdateStatement
from quod.service.errors import UnavailableError
from quod.service.protocol import cuzk_pb2 as pb

# fil-commitment-sealed, poseidon-bls12_381-a2-fc1.
_SEALED: Final = bytes.fromhex("0182e20381e80220")
# fil-commitment-unsealed, sha2-256-trunc254-padded.
_UNSEALED: Final = bytes.fromhex("0181e203922020")
_COMMITMENTS: Final = {"comm_r_old": _SEALED, "comm_d_new": _UNSEALED, "comm_r_new": _SEALED}
"""The commitments of an update with the prefixes of their CIDs: version, codec, hash and length."""

_POST_KINDS: Final = {
    pb.WINDOW_POST_PARTITION: PoStKind.WINDOW,
    pb.WINNING_POST: PoStKind.WINNING,
}

_BASE_PRIORITIES: Final[Mapping[ProofKind, int]] = {
    ProofKind.POREP: 0,
    ProofKind.UPDATE: 0,
    ProofKind.WINDOW: 3,
    ProofKind.WINNING: 6,
}
"""The lowest priority of each kind in the queue; each kind has three."""

_LEVELS: Final[Mapping[int, int]] = {pb.LOW: 0, pb.HIGH: 2, pb.CRITICAL: 2}
"""The priority of a job within its kind; 1 for the others."""


def parse_body(body: bytes) -> StatementFile:
    """Parse the bytes of a SubmitProofRequest; see `parse_request`."""
    try:
        return parse_request(pb.SubmitProofRequest.FromString(body))
    except DecodeError:
        raise InputError("is not a SubmitProofRequest") from None


def parse_request(request: pb.SubmitProofRequest) -> StatementFile:
    """Return the statement and the vanilla proofs of a request.

    The vanilla proofs are not checked against the statement (`circuit_inputs`). Raises InputError
    with the field and, for bincode, the offset.
    """
    kind = request.proof_kind
    if kind == pb.POREP_SEAL_COMMIT:
        file = _seal(request)
    elif kind == pb.SNAP_DEALS_UPDATE:
        file = _update(request)
    elif kind in _POST_KINDS:
        file = _post(request, _POST_KINDS[kind])
    else:
        raise InputError(f"must be a kind of proof from 1 to 4, not {kind}", section="proof_kind")
    sector = file.statement.parameters.sector
    if request.sector_size != sector.size:
        raise MismatchError(
            f"is {request.sector_size}, and the proofs are of sectors of {sector.size} bytes",
            section="sector_size",
        )
    return file


def check_devices(parameters: ParameterSet, devices: Sequence[str]) -> None:
    """Raise InputError if all devices refuse the sector size (`ParameterSet.check_device`).

    CUDA devices accept all sizes: whether a key fits into their memory is not checked.
    Raises UnavailableError without devices.
    """
    refusal: Exception = UnavailableError("the server has no devices", retry_seconds=1.0)
    for device in devices:
        try:
            parameters.check_device(device)
            return
        except InputError as error:
            refusal = error
    raise refusal


def circuit_inputs(
    request: pb.SubmitProofRequest, file: StatementFile, device: AnyDevice
) -> list[CircuitInputs]:
    """Check the vanilla proofs of a parsed request; return the circuit's inputs by partition.

    device: computes the Poseidon hashes of large sectors (`hashing_device`).
    Raises InputError with the field.
    """
    statement = file.statement
    hasher = hashing_device(statement.parameters.sector, device)
    if file.output is not None:
        miner, sector_number = request.miner_id, request.sector_number
        return list(
            checked_commit_inputs(
                file.output, miner=miner, sector_number=sector_number, device=hasher
            )
        )
    if isinstance(statement, PoStStatement):
        return list(checked_post_inputs(statement, file.vanilla_proofs, device=hasher))  # type: ignore[arg-type]
    assert isinstance(statement, UpdateStatement)
    return list(checked_update_inputs(statement, file.vanilla_proofs, device=hasher))  # type: ignore[arg-type]


def priority_of(request: pb.SubmitProofRequest, kind: ProofKind) -> int:
    """Return the priority of a job in the queue: WinningPoSt, WindowPoSt, then the others."""
    return _BASE_PRIORITIES[kind] + _LEVELS.get(request.priority, 1)


def _seal(request: pb.SubmitProofRequest) -> StatementFile:
    file = parse_commit(request.vanilla_proof, "vanilla_proof")
    actual = file.output.registered_proof
    if request.registered_proof not in (0, actual.number):
        raise MismatchError(
            f"is {request.registered_proof}, and that of the output of C1 is {actual.number}",
            section="registered_proof",
        )
    if file.sector_number not in (None, request.sector_number):
        raise MismatchError(
            f"is {request.sector_number}, and the output of C1 is of sector {file.sector_number}",
            section="sector_number",
        )
    return StatementFile(SealStatement.of_output(file.output), file.output, file.sector_number)


def _post(request: pb.SubmitProofRequest, kind: PoStKind) -> StatementFile:
    proof = post_proof(request.registered_proof)
    if proof.kind is not kind:
        raise MismatchError(
            f"{proof.number} is a proof of the kind {proof.kind.value}, not {kind.value}",
            section="registered_proof",
        )
    if proof.sector.size != request.sector_size:
        raise MismatchError(
            f"is {request.sector_size}, and the registered proof {proof.number} is for sectors of "
            f"{proof.sector.size} bytes",
            section="sector_size",
        )
    if request.partition_index and proof.api_version is not ApiVersion.V1_2:
        # Its challenges depend on the numbers of sectors in the partitions before.
        raise InputError(
            f"the registered proof {proof.number} is supported for partition 0 only; use its "
            "successor with the challenges of version 1.2",
            section="partition_index",
        )
    challenges = WINNING_CHALLENGES if kind is PoStKind.WINNING else WINDOW_CHALLENGES
    most = 1 if kind is PoStKind.WINNING else proof.sector.window_sectors
    if not 1 <= len(request.vanilla_proofs) <= most:
        expected = "1 entry" if most == 1 else f"1 to {most} entries"
        raise InputError(
            f"must have {expected}, not {len(request.vanilla_proofs)}",
            section="vanilla_proofs",
        )
    vanilla_proofs = [
        parse_post_sector(data, proof.sector, challenges, f"vanilla_proofs[{index}]")
        for index, data in enumerate(request.vanilla_proofs)
    ]
    vanilla_proofs.sort(key=lambda each: each.sector_id)
    sectors = tuple(PoStSector(each.sector_id, each.comm_r) for each in vanilla_proofs)
    statement = PoStStatement(proof, request.randomness, sectors)
    return StatementFile(statement, vanilla_proofs=tuple(vanilla_proofs))


def _update(request: pb.SubmitProofRequest) -> StatementFile:
    sector = sector_shape(request.sector_size)
    count = sector.update.partitions
    if len(request.vanilla_proofs) != count:
        raise InputError(
            f"must have {count} {'entry' if count == 1 else 'entries'}, not "
            f"{len(request.vanilla_proofs)}",
            section="vanilla_proofs",
        )
    vanilla_proofs = tuple(
        parse_update_partition(data, sector, f"vanilla_proofs[{index}]")
        for index, data in enumerate(request.vanilla_proofs)
    )
    old, data, new = (
        _commitment(name, getattr(request, name), prefix) for name, prefix in _COMMITMENTS.items()
    )
    return StatementFile(UpdateStatement(sector, old, data, new), vanilla_proofs=vanilla_proofs)


def _commitment(name: str, value: bytes, prefix: bytes) -> bytes:
    """Return the 32 bytes of a commitment, which Curio sends as a CID with this prefix."""
    node = value[-NODE_BYTES:]
    if len(node) != NODE_BYTES or value[:-NODE_BYTES] not in (b"", prefix):
        kind = "sealed" if prefix == _SEALED else "unsealed"
        raise InputError(
            f"must be {NODE_BYTES} bytes or the CID of a commitment to {kind} data", section=name
        )
    return node
