"""The verifying key of a layered circuit."""

from __future__ import annotations

from typing import Self

from quod.commitment.raw import Raw
from quod.commitment.scheme import Scheme
from quod.errors import InputError, MismatchError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.reduction import Reduction
from quod.gkr.security import check_challenges, error_terms
from quod.hash.function import DIGEST_BYTES
from quod.hash.table import Hash, check_tree_hash, checked_hash, recursive_hash
from quod.layered.circuit import MAX_RANDOMS, LayeredCircuit
from quod.security import MIN_BITS, check_bits
from quod.transcript.transcript import START, Transcript
from quod.validation import flag, instance, whole_number

MAX_CHAIN = 1 << 20
"""The largest number of hashes of a delay: about a second of a verifier's time."""

_MIN_CHAIN = 64


@frozen
class VerifyingKey:
    """The parameters that a verifier uses; a verifier takes none of them from a proof.

    circuit: the digest of the circuit.
    field: the field of challenges.
    commitment: the scheme of the commitment to the inputs.
    chain: the number of hashes of the sequential hash delay before the first challenge.
    bits: the soundness that proofs must have, in bits.
    hash: the hash of transcripts.
    recursive: allows a hash over the circuit's field.
    reduction: the protocol that reduces claims about a layer to the layer below.
    randoms: the number of random coefficients of the circuit; the delay is repeated after them.

    The delay is a heuristic. A circuit whose layers compute the transcript's hash could predict
    the first challenge (Khovratovich, Rothblum and Soukhanov, eprint 2025/118). The delay is a
    chain of more consecutive hashes than the circuit's layers can compute. A circuit with random
    coefficients contains challenges that are drawn after the chain, so a second chain separates
    them from the next challenge. Neither chain protects a verifier that accepts a circuit from the
    prover.
    """

    circuit: bytes
    field: FieldSpec
    commitment: Scheme
    chain: int
    bits: int
    hash: Hash = Hash.SHA3_256
    recursive: bool = False
    reduction: Reduction = Reduction.TWO_PHASE
    randoms: int = 0

    def __post_init__(self) -> None:
        digest: object = self.circuit
        if type(digest) is not bytes or len(digest) != DIGEST_BYTES:
            raise InputError(f"the digest of a circuit must be {DIGEST_BYTES} bytes")
        if self.commitment is None:
            raise InputError("a key must have a commitment scheme; use Raw() for none")
        check_tree_hash(self.commitment, self.recursive)
        checked_hash(self.hash, self.recursive).check_challenges(self.field)
        instance("the reduction", self.reduction, Reduction, "take one of quod.gkr.Reduction")
        # whole_number rejects bool and NaN, which would otherwise pass comparisons.
        chain = whole_number("the chain", self.chain, 1, MAX_CHAIN)
        randoms = whole_number("the random coefficients", self.randoms, 0, MAX_RANDOMS)
        bits = whole_number("the bits", self.bits, 0)
        self.__dict__.update(chain=chain, bits=bits, randoms=randoms)

    @classmethod
    def of(
        cls, circuit: LayeredCircuit, field: FieldSpec, *, commitment: Scheme | None = None,
        allow_bits: int = MIN_BITS, hash: Hash | None = None, recursive: bool = False,
        reduction: Reduction = Reduction.TWO_PHASE,
    ) -> Self:  # fmt: skip
        """Return the key of a circuit.

        field: the field of challenges, the circuit's field or an extension of it.
        commitment: `Raw` by default, which sends the inputs themselves.
        hash: SHA3-256 by default; with `recursive` the hash over the circuit's field, for verifiers
            that are circuits.
        Raises InputError for a field that does not fit the circuit or has no such hash, for a hash
        that does not fit `recursive`, and for less soundness than `allow_bits`.
        """
        scheme = Raw() if commitment is None else commitment
        check_challenges(circuit, field)
        min_bits = whole_number("allow_bits", allow_bits, 0)
        if hash is None:
            hash = recursive_hash(field) if flag("recursive", recursive) else Hash.SHA3_256
        checked_hash(hash, recursive)
        chain = minimum_chain(circuit, hash)
        key = cls(
            circuit.digest, field, scheme, chain, min_bits, hash, recursive, reduction,
            circuit.randoms,
        )  # fmt: skip
        key.check_bits(circuit, 1, min_bits)
        return key

    def check_circuit(self, circuit: LayeredCircuit) -> None:
        """Check that this is the key of a circuit.

        Raises MismatchError for another circuit, InputError if the chain is too short for it.
        """
        if circuit.digest != self.circuit:
            raise MismatchError("the verifying key is for another circuit")
        if circuit.randoms != self.randoms:
            raise MismatchError(
                f"the verifying key is of a circuit with {self.randoms} random coefficients, and "
                f"this one has {circuit.randoms}; keys made before Quod applied the hash chain "
                "after random coefficients have none: compile the circuit again"
            )
        min_chain = minimum_chain(circuit, self.hash)
        if self.chain < min_chain:
            raise InputError(
                f"the key's chain of {self.chain} hashes is too short for {len(circuit.layers)} "
                f"layers, which take {min_chain}"
            )

    def check_bits(self, circuit: LayeredCircuit, instances: int, allow_bits: int) -> None:
        """Raise InputError if a proof of `instances` has less soundness than allowed.

        The minimum is the larger of `allow_bits` and the key's `bits`.
        """
        terms = error_terms(
            circuit, self.field, instances=instances, commitment=self.commitment, hash=self.hash,
            reduction=self.reduction,
        )  # fmt: skip
        what = f"a proof of this circuit over {self.field.name}"
        check_bits(what, terms, allow_bits)
        check_bits(what, terms, self.bits, remedy="make the key with")

    def transcript(self, state: bytes = START) -> Transcript:
        """Return a transcript with the key's hash, new or with the state after the commitment."""
        bound = state != START
        return Transcript(state, bound=bound, hash=self.hash, recursive=self.recursive)


def minimum_chain(circuit: LayeredCircuit, hash: Hash = Hash.SHA3_256) -> int:
    """Return the smallest length of the hash chain for a circuit.

    One hash of the chain is counted as `Hash.circuit_layers` layers of a circuit.
    """
    layers = len(circuit.layers)
    return max(_MIN_CHAIN, -(-layers // hash.circuit_layers))
