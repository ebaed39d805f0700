"""What a verifier of a layered circuit knows beforehand, and takes nothing of from a proof."""

from __future__ import annotations

from typing import Self

from quod.circuit.layered import LayeredCircuit
from quod.commitment.scheme import Scheme
from quod.errors import InputError, MismatchError
from quod.field.array import check_field
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.security import check_challenges, checked_scheme, security_bits
from quod.transcript.elements import DIGEST_BYTES
from quod.transcript.hashes import Hash, check_hash
from quod.validation import instance, whole_number

LEAST_BITS = 100

MOST_CHAIN = 1 << 20
"""The longest chain of hashes: about a second of a verifier."""

_LEAST_CHAIN = 64
_LAYERS_A_HASH = 6


@frozen
class VerifyingKey:
    """A circuit by its digest, the `field` of challenges, the `commitment` to the inputs, the
    length of the hash `chain` before the first challenge, the `bits` that proofs show at least, and
    the `hash` of transcripts.

    The chain is a heuristic: a circuit whose layers computed the transcript's hash could foretell
    the first challenge (Khovratovich, Rothblum and Soukhanov, eprint 2025/118), so that the chain
    is too long for its layers. It protects no verifier that takes a circuit from the prover.
    """

    circuit: bytes
    field: FieldSpec
    commitment: Scheme
    chain: int
    bits: int
    hash: Hash = Hash.SHA3_256

    def __post_init__(self) -> None:
        given: object = self.circuit
        if type(given) is not bytes or len(given) != DIGEST_BYTES:
            raise InputError(f"the digest of a circuit is {DIGEST_BYTES} bytes")
        if self.commitment is None:
            raise InputError("a key has a commitment; take Raw() for none")
        checked_scheme(self.commitment)
        check_field(self.field)
        check_hash(self.hash)
        # Of truth values and of what compares with nothing, such as NaN, none may pass for bits.
        chain = whole_number("the chain", self.chain, 1, MOST_CHAIN)
        self.__dict__.update(chain=chain, bits=whole_number("the bits", self.bits, 0))

    @classmethod
    def of(
        cls, circuit: LayeredCircuit, field: FieldSpec, *, commitment: Scheme | None = None,
        allow_bits: int = LEAST_BITS, hash: Hash = Hash.SHA3_256,
    ) -> Self:  # fmt: skip
        """The key of a circuit; the commitment is the inputs themselves (`Raw`) if it is None.

        InputError for a field that is not over the circuit's, and for less security than
        `allow_bits`.
        """
        scheme = checked_scheme(commitment)
        check_challenges(circuit, field)
        allowed = whole_number("allow_bits", allow_bits, 0)
        key = cls(circuit.digest, field, scheme, least_chain(circuit), allowed, hash)
        key.check_bits(circuit, 1)
        return key

    def check_circuit(self, circuit: LayeredCircuit) -> None:
        """MismatchError for another circuit, InputError for a chain that is too short for it."""
        instance("the circuit", circuit, LayeredCircuit, "CircuitBuilder.finished() gives one")
        if circuit.digest != self.circuit:
            raise MismatchError("the verifying key is of another circuit")
        if self.chain < least_chain(circuit):
            raise InputError(
                f"the key's chain of {self.chain} hashes is too short for {len(circuit.layers)} "
                f"layers, which take {least_chain(circuit)}"
            )

    def check_bits(self, circuit: LayeredCircuit, instances: int) -> None:
        """InputError where a proof of so many instances shows too few bits."""
        found = security_bits(circuit, self.field, instances=instances, commitment=self.commitment)
        if found < self.bits:
            raise InputError(
                f"challenges of {self.field.name} show {found} bits for this circuit, and at least "
                f"{self.bits} are asked for; take a larger extension, or say allow_bits={found}"
            )


def least_chain(circuit: LayeredCircuit) -> int:
    """Hashes before the first challenge of a circuit's proofs."""
    return max(_LEAST_CHAIN, -(-len(circuit.layers) // _LAYERS_A_HASH))
