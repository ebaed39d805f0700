"""What a verifier of a layered circuit knows beforehand, and nothing of it from a proof."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Self

from quod.circuit.layered import KINDS, LayeredCircuit
from quod.errors import InputError, MismatchError
from quod.field.array import check_field
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.transcript.elements import challenge_bits, describe, encode, most_likely
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript
from quod.validation import instance, whole_number

PROTOCOL = b"quod gkr 1 sha3-256 raw"

LEAST_BITS = 100

_LEAST_CHAIN = 64
_LAYERS_A_HASH = 6
# Of SHA3-256 against collisions.
_HASH_BITS = 128


@frozen
class VerifyingKey:
    """A circuit by its digest, the `field` of challenges, how many of the inputs are `public`, and
    the length of the hash `chain` before the first challenge.

    The chain is a heuristic: a circuit whose layers computed the transcript's hash could foretell
    the first challenge (Khovratovich, Rothblum and Soukhanov, eprint 2025/118), so that the chain
    is too long for its layers. It protects no verifier that takes a circuit from the prover.
    """

    circuit: bytes
    field: FieldSpec
    public: int
    chain: int

    @classmethod
    def of(
        cls, circuit: LayeredCircuit, field: FieldSpec, *, public: int = 0,
        allow_bits: int = LEAST_BITS,
    ) -> Self:  # fmt: skip
        """The key of a circuit whose first `public` inputs the verifier gives.

        InputError for a field that is not over the circuit's, and for less security than
        `allow_bits`.
        """
        instance("the circuit", circuit, LayeredCircuit, "CircuitBuilder.finished() gives one")
        check_field(field)
        if field.modulus != circuit.field:
            raise InputError(f"challenges are of {circuit.field.name} or of an extension of it")
        challenge_bits(field)
        public = whole_number("the public inputs", public, 0, 1 << circuit.log_inputs)
        allowed = whole_number("allow_bits", allow_bits, 0)
        found = security_bits(circuit, field)
        if found < allowed:
            raise InputError(
                f"challenges of {field.name} show {found} bits for this circuit, and at least "
                f"{allowed} are asked for; take a larger extension, or say allow_bits={found}"
            )
        chain = max(_LEAST_CHAIN, -(-len(circuit.layers) // _LAYERS_A_HASH))
        return cls(circuit.digest, field, public, chain)

    def check(self, circuit: LayeredCircuit, public: Sequence[int]) -> None:
        """MismatchError for another circuit, InputError for other than its public inputs."""
        instance("the circuit", circuit, LayeredCircuit, "CircuitBuilder.finished() gives one")
        if circuit.digest != self.circuit:
            raise MismatchError("the verifying key is of another circuit")
        given: object = public
        if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
            raise InputError("public inputs are a list of int")
        p = circuit.field.value
        if len(public) != self.public or any(
            type(value) is not int or not 0 <= value < p for value in public
        ):
            raise InputError(
                f"the public inputs are {self.public} int from 0 to {p - 1}, not these "
                f"{len(public)}"
            )

    def begin(self, transcript: Transcript, field: Modulus, public: Sequence[int]) -> None:
        """Absorbs all that stands before the commitment."""
        transcript.absorb(Label.PROTOCOL, PROTOCOL)
        transcript.absorb(Label.FIELD, describe(self.field))
        transcript.absorb(Label.PARAMETERS, f"chain {self.chain}".encode())
        transcript.absorb(Label.CIRCUIT, self.circuit)
        transcript.absorb(Label.INSTANCES, b"1")
        data = encode(field, [(value,) for value in public])
        message = len(public).to_bytes(8, "little") + hashlib.sha3_256(data).digest()
        transcript.absorb(Label.PUBLIC_INPUT, message)

    def lengthen(self, transcript: Transcript) -> None:
        """The chain of hashes before the first challenge."""
        for _ in range(self.chain):
            transcript.absorb(Label.CHAIN, b"")


def error_terms(circuit: LayeredCircuit, field: FieldSpec) -> dict[str, Fraction]:
    """How likely a false statement is accepted, by what goes wrong, with challenges by chance."""
    instance("the circuit", circuit, LayeredCircuit, "CircuitBuilder.finished() gives one")
    check_field(field)
    likely = most_likely(field)
    rounds = Fraction(0)
    combined = Fraction(0)
    for number, layer in enumerate(circuit.layers):
        below = circuit.log_below(number)
        degree = 6 if len(layer.gates["power5"]) else 2
        rounds += below * degree
        if len(layer.gates["multiply"]):
            rounds += below * 2
            combined += 1
    return {
        "the outputs' point": circuit.log_outputs * likely,
        "rounds of sumchecks": rounds * likely,
        "claims combined": combined * likely,
        "the hash": Fraction(1, 1 << _HASH_BITS),
    }


def security_bits(circuit: LayeredCircuit, field: FieldSpec) -> int:
    """Minus the logarithm of all error terms together, rounded down; 0 where they are beyond 1."""
    total = sum(error_terms(circuit, field).values(), Fraction(0))
    return max(0, math.floor(-math.log2(total)))


def kinds_of(circuit: LayeredCircuit, number: int) -> frozenset[str]:
    """The kinds of gates that a layer has."""
    gates = circuit.layers[number].gates
    return frozenset(kind for kind in KINDS if len(gates[kind]))
