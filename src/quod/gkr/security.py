"""The soundness error of GKR proofs."""

from __future__ import annotations

from fractions import Fraction

from quod.commitment.raw import Raw
from quod.commitment.scheme import Scheme
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.gkr.protocol import protocol_steps
from quod.gkr.reduction import Reduction
from quod.hash.table import Hash
from quod.layered.circuit import LayeredCircuit
from quod.security import bits_of
from quod.transcript.elements import challenge_bits, most_likely
from quod.validation import whole_number

MAX_LOG_INSTANCES = 24

_CHALLENGE_BITS = 120


def check_challenges(circuit: LayeredCircuit, field: FieldSpec) -> None:
    """Raise InputError unless a field can be the field of challenges for a circuit."""
    if field.modulus != circuit.field:
        raise InputError(f"challenges must be in {circuit.field.name} or an extension of it")
    challenge_bits(field)


def usual_challenges(circuit: LayeredCircuit) -> FieldSpec:
    """Return the smallest named field of at least 120 bits over a circuit's field.

    Raises InputError if there is none.
    """
    from quod.field.named_extensions import EXTENSIONS

    fields: list[FieldSpec] = [circuit.field]
    fields += [extension for extension in EXTENSIONS.values() if extension.modulus == circuit.field]
    large_fields = [
        field for field in fields if field.degree * circuit.field.bits >= _CHALLENGE_BITS
    ]
    if not large_fields:
        raise InputError(
            f"no extension of {circuit.field.name} with a name has {_CHALLENGE_BITS} bits; name "
            "the field of challenges"
        )
    return min(large_fields, key=lambda field: field.degree)


def log_instances(instances: int) -> int:
    """Return log2 of a number of instances, rounded up; raise InputError if it is out of range."""
    count = whole_number("the instances", instances, 1, 1 << MAX_LOG_INSTANCES)
    return (count - 1).bit_length()


def error_terms(
    circuit: LayeredCircuit, field: FieldSpec, *, instances: int = 1,
    commitment: Scheme | None = None, hash: Hash = Hash.SHA3_256,
    reduction: Reduction = Reduction.TWO_PHASE,
) -> dict[str, Fraction]:  # fmt: skip
    """Return the soundness error of each part of the protocol, for uniformly random challenges.

    field: the field of challenges.
    instances: the number of instances per proof.
    commitment: the scheme of the inputs; `Raw` if it is None.
    """
    check_challenges(circuit, field)
    challenge_error, variables = most_likely(field), log_instances(instances)
    protocol = protocol_steps(circuit, reduction, variables)
    commitment_terms = (Raw() if commitment is None else commitment).error_terms(
        field, circuit.log_inputs + variables
    )
    terms = {
        "random coefficients": circuit.degree_in_randoms * challenge_error,
        "the outputs' point": (protocol.outputs.count + protocol.instances.count) * challenge_error,
        "rounds of sumchecks": protocol.round_degrees * challenge_error,
        "claims combined": protocol.combining_challenges * challenge_error,
        **{f"commitment: {cause}": error for cause, error in commitment_terms.items()},
        "the hash": Fraction(1, 1 << hash.collision_bits),
    }
    return {cause: error for cause, error in terms.items() if error}


def security_bits(
    circuit: LayeredCircuit, field: FieldSpec, *, instances: int = 1,
    commitment: Scheme | None = None, hash: Hash = Hash.SHA3_256,
    reduction: Reduction = Reduction.TWO_PHASE,
) -> int:  # fmt: skip
    """Return -log2 of the sum of all error terms, rounded down; 0 if the sum exceeds 1.

    See `error_terms` for the arguments.
    """
    terms = error_terms(
        circuit, field, instances=instances, commitment=commitment, hash=hash, reduction=reduction
    )
    return bits_of(terms.values())
