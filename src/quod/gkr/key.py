"""The verifying key of a layered circuit, of which nothing is taken from a proof."""

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
from quod.layered.circuit import MOST_RANDOMS, LayeredCircuit
from quod.security import LEAST_BITS, check_bits
from quod.transcript.transcript import START, Transcript
from quod.validation import flag, instance, whole_number

MOST_CHAIN = 1 << 20
"""The longest chain of hashes: about a second of a verifier."""

_LEAST_CHAIN = 64


@frozen
class VerifyingKey:
    """A circuit by its digest, the `field` of challenges, the `commitment` to the inputs, the
    length of the hash `chain` before the first challenge, the `bits` that proofs show at least, the
    `hash` of transcripts, and the `reduction` of claims about a layer to the layer below. A hash
    over the circuit's field takes `recursive`. `randoms` is the number of the circuit's random
    coefficients: after these the chain is applied again.

    The chain is a heuristic: a circuit whose layers computed the transcript's hash could foretell
    the first challenge (Khovratovich, Rothblum and Soukhanov, eprint 2025/118), so that the chain
    is too long for its layers. A circuit with random coefficients knows challenges that are drawn
    after the chain, so a second chain separates them from the next challenge. Neither chain
    protects a verifier that takes a circuit from the prover.
    """

    circuit: bytes
    field: FieldSpec
    commitment: Scheme
    chain: int
    bits: int
    hash: Hash = Hash.SHA3_256
    recursive: bool = False
    reduction: Reduction = Reduction.PLACES
    randoms: int = 0

    def __post_init__(self) -> None:
        digest: object = self.circuit
        if type(digest) is not bytes or len(digest) != DIGEST_BYTES:
            raise InputError(f"the digest of a circuit is {DIGEST_BYTES} bytes")
        if self.commitment is None:
            raise InputError("a key has a commitment; take Raw() for none")
        check_tree_hash(self.commitment, self.recursive)
        checked_hash(self.hash, self.recursive).check_challenges(self.field)
        instance("the reduction", self.reduction, Reduction, "take one of quod.gkr.Reduction")
        # Of truth values and of what compares with nothing, such as NaN, none may pass for bits.
        chain = whole_number("the chain", self.chain, 1, MOST_CHAIN)
        randoms = whole_number("the random coefficients", self.randoms, 0, MOST_RANDOMS)
        bits = whole_number("the bits", self.bits, 0)
        self.__dict__.update(chain=chain, bits=bits, randoms=randoms)

    @classmethod
    def of(
        cls, circuit: LayeredCircuit, field: FieldSpec, *, commitment: Scheme | None = None,
        allow_bits: int = LEAST_BITS, hash: Hash | None = None, recursive: bool = False,
        reduction: Reduction = Reduction.PLACES,
    ) -> Self:  # fmt: skip
        """The key of a circuit; the commitment is the inputs themselves (`Raw`) if it is None, the
        hash SHA3-256.

        With `recursive` the hash is that over the circuit's field, for verifiers that are circuits.
        InputError for a field that is not over the circuit's or has no such hash, for another hash
        beside `recursive` and such a hash without it, and for less security than `allow_bits`.
        """
        scheme = Raw() if commitment is None else commitment
        check_challenges(circuit, field)
        allowed = whole_number("allow_bits", allow_bits, 0)
        if hash is None:
            hash = recursive_hash(field) if flag("recursive", recursive) else Hash.SHA3_256
        checked_hash(hash, recursive)
        chain = least_chain(circuit, hash)
        key = cls(
            circuit.digest, field, scheme, chain, allowed, hash, recursive, reduction,
            circuit.randoms,
        )  # fmt: skip
        key.check_bits(circuit, 1, allowed)
        return key

    def check_circuit(self, circuit: LayeredCircuit) -> None:
        """MismatchError for another circuit, InputError for a chain that is too short for it."""
        if circuit.digest != self.circuit:
            raise MismatchError("the verifying key is of another circuit")
        if circuit.randoms != self.randoms:
            raise MismatchError(
                f"the verifying key is of a circuit with {self.randoms} random coefficients, and "
                f"this one has {circuit.randoms}; keys made before Quod applied the hash chain "
                "after random coefficients have none: compile the circuit again"
            )
        least = least_chain(circuit, self.hash)
        if self.chain < least:
            raise InputError(
                f"the key's chain of {self.chain} hashes is too short for {len(circuit.layers)} "
                f"layers, which take {least}"
            )

    def check_bits(self, circuit: LayeredCircuit, instances: int, allow_bits: int) -> None:
        """InputError if a proof of `instances` has fewer bits than `allow_bits`, or than the key
        asks for."""
        terms = error_terms(
            circuit, self.field, instances=instances, commitment=self.commitment, hash=self.hash,
            reduction=self.reduction,
        )  # fmt: skip
        what = f"a proof of this circuit over {self.field.name}"
        check_bits(what, terms, allow_bits)
        check_bits(what, terms, self.bits, remedy="make the key with")

    def transcript(self, state: bytes = START) -> Transcript:
        """A transcript of the key's hash, new or after the commitment to the inputs."""
        bound = state != START
        return Transcript(state, bound=bound, hash=self.hash, recursive=self.recursive)


def least_chain(circuit: LayeredCircuit, hash: Hash = Hash.SHA3_256) -> int:
    """Hashes before the first challenge of a circuit's proofs.

    The row of a hash says how many layers of a circuit one hash outlasts (`Hash.circuit_layers`).
    """
    layers = len(circuit.layers)
    return max(_LEAST_CHAIN, -(-layers // hash.circuit_layers))
