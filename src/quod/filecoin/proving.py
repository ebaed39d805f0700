"""Groth16 proofs from vanilla proofs, in the bytes of rust-fil-proofs, and their verification.

A proof is the concatenation of its partitions' Groth16 proofs, of 192 bytes each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial

from quod.device.discovery import DeviceChoice
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError, VerificationError
from quod.filecoin.checks.circuit_inputs import (
    checked_commit_inputs,
    checked_post_inputs,
    checked_update_inputs,
    hashing_device,
)
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.parameters.files import AnyPath, open_proving_key
from quod.filecoin.parameters.generation import make_proving_key
from quod.filecoin.parameters.identifiers import ParameterSet
from quod.filecoin.records import CommitOutput, PoStSectorProof, UpdatePartitionProof
from quod.filecoin.statements import PoStStatement, SealStatement, Statement, UpdateStatement
from quod.formats import Witness
from quod.groth16 import Proof, ProvingKey, Verdict, VerifyingKey, verify_batch
from quod.groth16.device_key.key import DeviceKey
from quod.groth16.encodings.bellman import proof_to_bytes, proofs_from_bytes
from quod.groth16.prover import PendingProof, begin
from quod.r1cs import UnsatisfiedError
from quod.validation import exact_bytes, in_order, instance

_CHECKS = "checks of vanilla proofs"


class Prover:
    """A prover of one parameter set, which keeps the traced circuit and the opened key."""

    def __init__(
        self, parameters: ParameterSet, path: AnyPath | None = None, device: DeviceChoice = "cpu",
        timeline: Timeline | None = None, *, checked: bool = True,
        test_seed: int | None = None,
    ) -> None:  # fmt: skip
        """Open parameters; see `quod.filecoin.parameters.open_proving_key`.

        test_seed: makes the INSECURE key of this seed in memory, instead of reading a file.

        `insecure` is true if anyone can forge proofs for the key, as for a test key.
        `witnesses_ahead` is the number of witnesses that the device has memory for during a proof.
        """
        timeline = or_null(timeline)
        instance("the parameters", parameters, ParameterSet, "give a kind and a sector")
        target = parameters.check_device(device)
        with timeline.stage("circuit"):
            self.circuit = parameters.circuit()
        self.parameters = parameters
        self.key: ProvingKey | DeviceKey
        if test_seed is None:
            self.key = open_proving_key(
                parameters, self.circuit, path, target, timeline, checked=checked
            )
        else:
            self.key = make_proving_key(parameters, self.circuit, test_seed, target, timeline)
        self.insecure = self.key.insecure
        key = self.key
        self.witnesses_ahead = key.memory.ahead if isinstance(key, DeviceKey) else 1
        self._ahead = Background("quod-witness", self.witnesses_ahead)

    def check_parameters(self, statement: Statement) -> None:
        """Raise MismatchError unless the statement has the kind and sector size of the prover."""
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

        Each proof is verified before the result is returned. With a `timeline` the next witness is
        not computed during a proof. Raises UnsatisfiedError if the inputs
        do not satisfy the circuit, VerificationError if they lead to other public inputs than the
        statement's or if the proof is not valid.
        """
        self.check_parameters(statement)
        proofs = [
            _proof_bytes(statement, partition, proof, public)
            for partition, (proof, public) in enumerate(self._proofs(inputs, timeline))
        ]
        return exact_bytes("the proof", b"".join(proofs), statement.proof_bytes)

    def prove_partition(
        self, statement: Statement, partition: int, inputs: CircuitInputs, witness: Witness, *,
        meanwhile: Callable[[], None] | None = None,
    ) -> bytes:  # fmt: skip
        """Prove one partition of a statement from its witness; return 192 bytes. See `prove`.

        inputs: those of the witness, which name the constraint that fails.
        meanwhile: a function to call while the device computes the proof.
        """
        self.check_parameters(statement)
        with closing(begin(self.key, witness)) as pending:
            if meanwhile is not None:
                meanwhile()
            proof, public = self._finished(pending, inputs)
        return _proof_bytes(statement, partition, proof, public)

    def _proofs(
        self, inputs: Iterable[CircuitInputs], timeline: Timeline | None
    ) -> Iterator[tuple[Proof, list[int]]]:
        """Prove partitions; the witness of the next is computed during the proof of each.

        With a timeline, witnesses and proofs are computed one after the other.
        """
        if timeline is None:
            unproved: deque[CircuitInputs] = deque()
            try:
                for result in self.key.prove_many(self._witnesses(inputs, unproved)):
                    unproved.popleft()
                    yield result
            except VerificationError:
                self._check_rows(unproved[0])
                raise
            return
        for partition_inputs in inputs:
            with timeline.stage("circuit witness"):
                witness = self.witness(partition_inputs)
            with timeline.stage("proof"):
                pending = begin(self.key, witness, timeline=timeline)
                result = self._finished(pending, partition_inputs)
            yield result

    def _witnesses(
        self, inputs: Iterable[CircuitInputs], unproved: deque[CircuitInputs]
    ) -> Iterator[Witness]:
        """Yield the witnesses of inputs, which are appended to `unproved`."""
        outcomes: deque[Outcome[Witness]] = deque()
        for partition_inputs in inputs:
            unproved.append(partition_inputs)
            outcomes.append(self.begin_witness(partition_inputs))
            if len(outcomes) == self.witnesses_ahead:
                yield outcomes.popleft().result()
        while outcomes:
            yield outcomes.popleft().result()

    def _finished(self, pending: PendingProof, inputs: CircuitInputs) -> tuple[Proof, list[int]]:
        """Wait for a proof; raise UnsatisfiedError if it does not verify due to its inputs."""
        try:
            return pending.finish()
        except VerificationError:
            self._check_rows(inputs)
            raise

    def _check_rows(self, inputs: CircuitInputs) -> None:
        """Raise UnsatisfiedError if the witness of inputs does not satisfy a constraint."""
        self.circuit.witnesses([inputs], device=self.key.device)

    def witness(self, inputs: CircuitInputs) -> Witness:
        """Compute the witness of a partition, in the memory of the key's device.

        No constraint is checked: the verification of the proof finds a wrong witness in less time.
        """
        (witness,) = self.circuit.witnesses([inputs], check=False, device=self.key.device)
        return witness

    def begin_witness(self, inputs: CircuitInputs) -> Outcome[Witness]:
        """Begin `witness` in another thread, of which there are `witnesses_ahead`."""
        return self._ahead.begin(lambda: self.witness(inputs))

    def close(self) -> None:
        """Stop the threads that wait for the next proof; wait for witnesses in progress."""
        self._ahead.close()
        self.key.close()


def _proof_bytes(statement: Statement, partition: int, proof: Proof, public: list[int]) -> bytes:
    """Return the bytes of a partition's proof with the public inputs of a statement."""
    if public != statement.public_inputs(partition):
        raise VerificationError(
            f"the vanilla proof of partition {partition} does not belong to the statement"
        )
    return proof_to_bytes(proof)


def prove_commit(
    prover: Prover, output: CommitOutput, *, miner: int | None = None,
    sector_number: int | None = None, timeline: Timeline | None = None,
) -> bytes:  # fmt: skip
    """Return the proof of replication of an output of C1: 192 bytes for each partition.

    miner, sector_number: those of the replica id, which is checked with both and otherwise trusted.
    Raises InputError, with the field, for an output that `check_commit` rejects and for only one of
    miner and sector_number. Raises the errors of `Prover.prove`.
    """
    instance("the output", output, CommitOutput, "read it with read_commit")
    statement = SealStatement.of_output(output)
    check = partial(checked_commit_inputs, output, miner=miner, sector_number=sector_number)
    return _checked_and_proved(prover, statement, check, timeline)


def prove_post(
    prover: Prover, statement: PoStStatement, proofs: Sequence[PoStSectorProof],
    timeline: Timeline | None = None,
) -> bytes:  # fmt: skip
    """Return the WindowPoSt or WinningPoSt of sectors: 192 bytes for each partition.

    proofs: the vanilla proofs in the order of the statement's sectors.
    Raises InputError, with the field, for a vanilla proof that `check_post_sector` rejects, such as
    one with challenges that do not follow from the statement's randomness. Raises the errors of
    `Prover.prove`.
    """
    instance("the statement", statement, PoStStatement, "give a PoStStatement")
    check = partial(checked_post_inputs, statement, proofs)
    return _checked_and_proved(prover, statement, check, timeline)


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
    check = partial(checked_update_inputs, statement, proofs)
    return _checked_and_proved(prover, statement, check, timeline)


def _checked_and_proved(
    prover: Prover, statement: Statement, check: Callable[..., Iterator[CircuitInputs]],
    timeline: Timeline | None,
) -> bytes:  # fmt: skip
    """Check vanilla proofs, and prove the statement from the inputs that `check` returns.

    The circuit computes the hashes of paths, too: here they are checked only to name the field of
    a wrong one.
    """
    prover.check_parameters(statement)
    device = hashing_device(statement.parameters.sector, prover.key.device)
    with or_null(timeline).stage(_CHECKS):
        inputs = check(device=device, paths=False)
    try:
        return prover.prove(statement, inputs, timeline)
    except (UnsatisfiedError, VerificationError):
        check(device=device)
        raise


def verify_proof(key: VerifyingKey, statement: Statement, proof: bytes) -> bool:
    """Return whether a proof of a statement is valid; all partitions are one batch.

    key: of `quod.filecoin.parameters.read_verifying_key`.
    Raises InputError for a proof of the wrong length and for malformed points, with their offset.
    Raises MismatchError for a key whose number of public inputs is not that of the statement.
    """
    instance("the statement", statement, Statement, "give a statement")  # type: ignore[type-abstract]
    (verdict,) = verify_proofs(key, [(statement, proof)])
    if verdict.error is not None:
        raise verdict.error
    return verdict.valid


def verify_proofs(key: VerifyingKey, claims: Sequence[tuple[Statement, bytes]]) -> list[Verdict]:
    """Verify proofs of statements as one batch; return the verdict of each.

    The error of a malformed proof is in its verdict. Raises MismatchError for a key whose number of
    public inputs is not that of a statement, InputError for claims of the wrong type.
    """
    errors: dict[int, InputError] = {}
    indices, partition_claims = [], []
    for index, claim in enumerate(in_order("the claims", claims)):
        statement, proof = _claim_parts(index, claim)
        if key.public != statement.parameters.public:
            raise MismatchError(
                f"the key has {key.public} public inputs; {statement.parameters.name} needs "
                f"{statement.parameters.public}"
            )
        try:
            decoded = proofs_from_bytes(exact_bytes("the proof", proof, statement.proof_bytes))
        except InputError as error:
            errors[index] = error
            continue
        for partition, partition_proof in enumerate(decoded):
            if isinstance(partition_proof, InputError):
                section = f"partitions[{partition}].{partition_proof.section}"
                errors.setdefault(
                    index,
                    InputError(
                        partition_proof.message, section=section, offset=partition_proof.offset
                    ),
                )
            else:
                inputs = statement.public_inputs(partition)
                partition_claims.append((key, inputs, partition_proof))
                indices.append(index)
    valid = [True] * len(claims)
    for index, verdict in zip(indices, verify_batch(partition_claims), strict=True):
        valid[index] &= verdict.valid
        if verdict.error is not None:
            errors.setdefault(index, verdict.error)
    return [Verdict(each and i not in errors, errors.get(i)) for i, each in enumerate(valid)]


def _claim_parts(index: int, claim: object) -> tuple[Statement, bytes]:
    if not isinstance(claim, tuple) or len(claim) != 2 or not isinstance(claim[0], Statement):
        raise InputError(f"claim {index} must be a statement and a proof, in this order")
    return claim[0], claim[1]
