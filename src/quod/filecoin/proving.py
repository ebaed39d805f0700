"""Groth16 proofs from vanilla proofs, in the bytes of rust-fil-proofs, and their verification.

A proof is the concatenation of its partitions' Groth16 proofs, of 192 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from quod.device.discovery import DeviceChoice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError, VerificationError
from quod.filecoin.checks import check_commit, check_post_sector, check_update_partition
from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
from quod.filecoin.circuits.private_inputs import (
    CircuitInputs,
    porep_private_inputs,
    post_private_inputs,
    update_private_inputs,
)
from quod.filecoin.parameters.files import AnyPath, open_proving_key
from quod.filecoin.parameters.identifiers import ParameterSet
from quod.filecoin.records import CommitOutput, PoStSectorProof, UpdatePartitionProof
from quod.filecoin.registered_proofs import PoStKind
from quod.filecoin.statements import PoStStatement, SealStatement, Statement, UpdateStatement
from quod.filecoin.updates import partition_and_h
from quod.groth16 import VerifyingKey, verify_batch
from quod.groth16.encodings.bellman import proof_to_bytes, proofs_from_bytes
from quod.validation import exact_bytes, instance

_CHECKS = "checks of vanilla proofs"


class Prover:
    """A prover of one parameter set, which keeps the traced circuit and the opened key."""

    def __init__(
        self, parameters: ParameterSet, path: AnyPath | None = None, device: DeviceChoice = "cpu",
        timeline: Timeline | None = None, *, checked: bool = True,
    ) -> None:  # fmt: skip
        """Open parameters; see `quod.filecoin.parameters.open_proving_key`.

        `insecure` is true if anyone can forge proofs for the key, as for a test key.
        """
        timeline = or_null(timeline)
        instance("the parameters", parameters, ParameterSet, "give a kind and a sector")
        with timeline.stage("circuit"):
            self.circuit = parameters.circuit()
        self.parameters = parameters
        self.key = open_proving_key(
            parameters, self.circuit, path, device, timeline, checked=checked
        )
        self.insecure = self.key.insecure

    def check_parameters(self, statement: Statement) -> None:
        """Raise MismatchError if the statement is about another kind of proof or sector size."""
        if statement.parameters != self.parameters:
            raise MismatchError(
                f"the statement needs the parameters {statement.parameters.name}; the prover has "
                f"{self.parameters.name}"
            )

    def prove(
        self, statement: Statement, inputs: Iterable[CircuitInputs],
        timeline: Timeline | None = None,
    ) -> bytes:  # fmt: skip
        """Prove a statement from the circuit's private inputs of each partition.

        Each proof is verified before the result is returned. Raises VerificationError if the inputs
        do not satisfy the circuit, or do not lead to the statement's public inputs.
        """
        self.check_parameters(statement)
        timeline = or_null(timeline)
        proofs = []
        for partition, partition_inputs in enumerate(inputs):
            with timeline.stage("circuit witness"):
                witness = self.circuit.witness(partition_inputs)
            with timeline.stage("proof"):
                proof, public = self.key.prove(witness, timeline=timeline)
            if public != statement.public_inputs(partition):
                raise VerificationError(
                    f"the vanilla proof of partition {partition} is not one of the statement"
                )
            proofs.append(proof_to_bytes(proof))
        return exact_bytes("the proof", b"".join(proofs), statement.proof_bytes)

    def close(self) -> None:
        """Stop the threads that wait for the next proof."""
        self.key.close()


def prove_commit(
    prover: Prover, output: CommitOutput, *, miner: int | None = None,
    sector_number: int | None = None, timeline: Timeline | None = None,
) -> bytes:  # fmt: skip
    """Return the proof of replication of an output of C1: 192 bytes for each partition.

    miner, sector_number: the replica id is checked if both are given.
    Raises InputError, with the field, for an output that `check_commit` rejects, and the errors of
    `Prover.prove`.
    """
    instance("the output", output, CommitOutput, "read it with read_commit")
    statement = SealStatement.of_output(output)
    prover.check_parameters(statement)
    with or_null(timeline).stage(_CHECKS):
        check_commit(output, miner=miner, sector_number=sector_number)
    return prover.prove(
        statement,
        (porep_private_inputs(output, each) for each in range(statement.partitions)),
        timeline,
    )


def prove_post(
    prover: Prover, statement: PoStStatement, proofs: Sequence[PoStSectorProof],
    timeline: Timeline | None = None,
) -> bytes:  # fmt: skip
    """Return the WindowPoSt or WinningPoSt of sectors: 192 bytes for each partition.

    proofs: the vanilla proofs in the order of the statement's sectors.
    Raises InputError, with the field, for a vanilla proof that `check_post_sector` rejects, such as
    one with the challenges of another randomness, and the errors of `Prover.prove`.
    """
    instance("the statement", statement, PoStStatement, "give a PoStStatement")
    prover.check_parameters(statement)
    with or_null(timeline).stage(_CHECKS):
        _check_post(statement, proofs)
    winning = statement.proof.kind is PoStKind.WINNING
    build = FallbackPoStCircuit.winning if winning else FallbackPoStCircuit.window
    circuit = build(statement.proof.sector)
    groups = [
        [proofs[index] for index in statement.partition_sectors(partition)]
        for partition in range(statement.partitions)
    ]
    inputs = (post_private_inputs(circuit, group) for group in groups)
    return prover.prove(statement, inputs, timeline)


def prove_update(
    prover: Prover, statement: UpdateStatement, proofs: Sequence[UpdatePartitionProof],
    timeline: Timeline | None = None,
) -> bytes:  # fmt: skip
    """Return the SnapDeals proof of an update: 192 bytes for each partition.

    proofs: the vanilla proofs of the partitions.
    Raises InputError, with the field, for a vanilla proof that `check_update_partition` rejects,
    and the errors of `Prover.prove`.
    """
    instance("the statement", statement, UpdateStatement, "give an UpdateStatement")
    prover.check_parameters(statement)
    commitments = statement.comm_r_old, statement.comm_d_new, statement.comm_r_new
    sector, circuit = statement.sector, EmptySectorUpdateCircuit.of(statement.sector)
    _check_count("proofs", len(proofs), statement.partitions)
    with or_null(timeline).stage(_CHECKS):
        for partition, proof in enumerate(proofs):
            with _inside(f"proofs[{partition}]"):
                check_update_partition(proof, sector, partition, *commitments, h=statement.h)
    inputs = (
        update_private_inputs(
            circuit, proof, partition_and_h(sector, partition, statement.h), *commitments
        )
        for partition, proof in enumerate(proofs)
    )
    return prover.prove(statement, inputs, timeline)


def verify_proof(key: VerifyingKey, statement: Statement, proof: bytes) -> bool:
    """Return whether a proof of a statement is valid; all partitions are one batch.

    key: of `quod.filecoin.parameters.read_verifying_key`.
    Raises InputError for another number of bytes and for malformed points, with their offset, and
    MismatchError for a key with another number of public inputs.
    """
    instance("the statement", statement, Statement, "give a statement")  # type: ignore[type-abstract]
    proof = exact_bytes("the proof", proof, statement.proof_bytes)
    if key.public != statement.parameters.public:
        raise MismatchError(
            f"the key has {key.public} public inputs; {statement.parameters.name} needs "
            f"{statement.parameters.public}"
        )
    claims = []
    for partition, decoded in enumerate(proofs_from_bytes(proof)):
        if isinstance(decoded, InputError):
            raise decoded
        claims.append((key, statement.public_inputs(partition), decoded))
    verdicts = verify_batch(claims)
    for verdict in verdicts:
        if verdict.error is not None:
            raise verdict.error
    return all(verdicts)


def _check_post(statement: PoStStatement, proofs: Sequence[PoStSectorProof]) -> None:
    """Check the vanilla proof of each sector of a statement."""
    _check_count("proofs", len(proofs), len(statement.sectors))
    for index, (proof, public) in enumerate(zip(proofs, statement.sectors, strict=True)):
        for name in ("sector_id", "comm_r"):
            if getattr(proof, name) != getattr(public, name):
                raise MismatchError(
                    "is not that of the statement", section=f"proofs[{index}].{name}"
                )
        with _inside(f"proofs[{index}]"):
            _check_count("vanilla_proof.sectors", len(proof.vanilla_proof), 1)
            check_post_sector(proof, statement.proof.sector, statement.challenges(index))


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
        message = str(error).removeprefix(f"section {error.section}: ")
        raise InputError(message, section=section) from None
