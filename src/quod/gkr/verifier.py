"""The verifier of layered circuits: plain integers, the circuit's layers one after the other.

Goldwasser, Kalai and Rothblum, "Delegating computation: interactive proofs for muggles", 2008, with
the two phases of Xie et al., "Libra", CRYPTO 2019. It loops over the circuit, never over the proof.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.circuit.layered import Gates, LayeredCircuit
from quod.errors import VerificationError
from quod.field.plain_extension import add, product, scaled, subtract
from quod.field.spec import FieldSpec
from quod.gkr.key import VerifyingKey, kinds_of
from quod.sumcheck.corners import equalities
from quod.sumcheck.verifier import read_rounds
from quod.transcript.elements import Plain
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader
from quod.transcript.transcript import Transcript
from quod.validation import instance


def verify(
    key: VerifyingKey, circuit: LayeredCircuit, public: Sequence[int], proof: bytes
) -> list[int]:
    """The inputs with which the circuit's outputs are 0: the public ones, then those of the proof.

    VerificationError for a proof that does not show it, InputError for one that is none,
    MismatchError for another circuit.
    """
    instance("the key", key, VerifyingKey, "VerifyingKey.of(circuit, field) gives one")
    key.check(circuit, public)
    field, base = key.field, circuit.field
    transcript = Transcript()
    reader = ProofReader(proof, transcript)
    key.begin(transcript, base, public)
    private = reader.digested(Label.COMMITMENT, base, (1 << circuit.log_inputs) - key.public)
    inputs = [*public, *(value for (value,) in private)]
    key.lengthen(transcript)

    zero = (0,) * field.degree
    claims = [(transcript.challenges(field, circuit.log_outputs), zero)]
    for number in reversed(range(len(circuit.layers))):
        claims = _layer(reader, field, circuit, number, claims)
    reader.end()
    for point, value in claims:
        weights = equalities(field, point)
        total = zero
        for weight, entry in zip(weights, inputs, strict=True):
            total = add(field, total, scaled(field, weight, entry))
        if total != value:
            raise VerificationError("the inputs of the proof are not those that it is about")
    return inputs


Claims = list[tuple[list[Plain], Plain]]
"""Points, and what the values of a layer are there."""


def _layer(
    reader: ProofReader, field: FieldSpec, circuit: LayeredCircuit, number: int, claims: Claims
) -> Claims:
    """What the claims about a layer leave to show about the one below it."""
    layer, below = circuit.layers[number], circuit.log_below(number)
    kinds, gates = kinds_of(circuit, number), layer.gates
    weights, claim = combined(field, claims, reader.transcript)
    for output, coefficient in _rows(circuit, gates["constant"]):
        claim = subtract(field, claim, scaled(field, weights[output], coefficient))

    degree = 6 if "power5" in kinds else 2
    left, x = read_rounds(reader, field, degree=degree, variables=below, claim=claim)
    value, *rest = reader.elements(Label.VALUES, field, 2 if "multiply" in kinds else 1)
    at_x = equalities(field, x)
    linear = _weighted(field, circuit, gates["add"], weights, at_x)
    fifth = _weighted(field, circuit, gates["power5"], weights, at_x)
    slope = rest[0] if rest else linear
    expected = product(field, slope, value)
    if "power5" in kinds:
        square = product(field, value, value)
        power = product(field, product(field, square, square), value)
        expected = add(field, expected, product(field, fifth, power))
    if expected != left:
        raise VerificationError(f"layer {number} is not what the proof claims")
    if not rest:
        return [(x, value)]

    claim = subtract(field, slope, linear)
    left, y = read_rounds(reader, field, degree=2, variables=below, claim=claim)
    (other,) = reader.elements(Label.VALUES, field, 1)
    at_y = equalities(field, y)
    both: Plain = (0,) * field.degree
    for output, coefficient, first, second in _rows(circuit, gates["multiply"]):
        part = product(field, product(field, weights[output], at_x[first]), at_y[second])
        both = add(field, both, scaled(field, part, coefficient))
    if product(field, both, other) != left:
        raise VerificationError(f"the products of layer {number} are not what the proof claims")
    return [(x, value), (y, other)]


def combined(field: FieldSpec, claims: Claims, transcript: Transcript) -> tuple[list[Plain], Plain]:
    """One claim of several: the weight of each value of the layer, and the weighted sum."""
    (point, value), *others = claims
    weights = equalities(field, point)
    for other, claimed in others:
        factor = transcript.challenge(field)
        more = equalities(field, other)
        weights = [
            add(field, w, product(field, factor, v)) for w, v in zip(weights, more, strict=True)
        ]
        value = add(field, value, product(field, factor, claimed))
    return weights, value


def _rows(circuit: LayeredCircuit, gates: Gates) -> list[tuple[int, ...]]:
    """Gates as rows: the output, the coefficient itself, the inputs."""
    coefficients = [circuit.coefficients[place] for place in gates.coefficient.tolist()]
    columns = [gates.output.tolist(), coefficients, *(array.tolist() for array in gates.inputs)]
    return list(zip(*columns, strict=True))


def _weighted(
    field: FieldSpec, circuit: LayeredCircuit, gates: Gates, weights: list[Plain],
    at_x: list[Plain],
) -> Plain:  # fmt: skip
    """The sum over gates of one input of coefficient, weight of the output and eq of the input."""
    total: Plain = (0,) * field.degree
    for output, coefficient, x in _rows(circuit, gates):
        part = product(field, weights[output], at_x[x])
        total = add(field, total, scaled(field, part, coefficient))
    return total
