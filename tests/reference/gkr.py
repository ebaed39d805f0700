"""The whole prover of layered circuits on plain integers: dense tables, sums by their definition.

It shares with Quod the key's statement and the bytes of the transcript.
"""

from __future__ import annotations

from quod.circuit.layered import LayeredCircuit
from quod.field.plain_extension import product
from quod.field.spec import FieldSpec
from quod.gkr.key import VerifyingKey
from quod.transcript import Label, ProofWriter, Transcript
from tests.reference import sumcheck
from tests.reference.sumcheck import Plain, add, embed, negate

Claims = list[tuple[list[Plain], Plain]]


def prove(key: VerifyingKey, circuit: LayeredCircuit, inputs: list[int]) -> bytes:
    """The proof that Quod's prover makes."""
    field, writer = key.field, ProofWriter(Transcript())
    values = circuit.evaluate(inputs)
    key.begin(writer.transcript, circuit.field, inputs[: key.public])
    writer.digested(Label.COMMITMENT, circuit.field, [(v,) for v in inputs[key.public :]])
    key.lengthen(writer.transcript)
    point = writer.transcript.challenges(field, circuit.log_outputs)
    claims: Claims = [(point, embed(field, 0))]
    for number in reversed(range(len(circuit.layers))):
        claims = _layer(writer, field, circuit, number, values[number], claims)
    return writer.getvalue()


def _layer(
    writer: ProofWriter, field: FieldSpec, circuit: LayeredCircuit, number: int, below: list[int],
    claims: Claims,
) -> Claims:  # fmt: skip
    layer, size = circuit.layers[number], len(below)
    values = [embed(field, value) for value in below]
    factors = [embed(field, 1)]
    if len(claims) == 2:
        factors.append(writer.transcript.challenge(field))
    weights = [
        add(field, *(product(field, factor, _equality(field, point, z))
                     for factor, (point, _) in zip(factors, claims, strict=True)))
        for z in range(1 << layer.log_size)
    ]  # fmt: skip
    first, fifth = ([embed(field, 0)] * size for _ in range(2))
    for kind, table in (("add", first), ("multiply", first), ("power5", fifth)):
        for gate in _gates(circuit, number, kind):
            z, coefficient, x = gate[:3]
            part = product(field, weights[z], embed(field, coefficient))
            for other in gate[3:]:
                part = product(field, part, values[other])
            table[x] = add(field, table[x], part)
    powers = bool(len(layer.gates["power5"]))
    terms: list[tuple[int, tuple[int, ...]]] = [(1, (0, 1))]
    if powers:
        terms.append((1, (0, 0, 0, 0, 0, 2)))
    tables = [values, first, *([fifth] if powers else [])]
    x_point, found = _sumcheck(writer, field, terms, tables)
    if not len(layer.gates["multiply"]):
        writer.elements(Label.VALUES, field, found[:1])
        return [(x_point, found[0])]
    writer.elements(Label.VALUES, field, found[:2])
    second = [embed(field, 0)] * size
    for z, coefficient, x, y in _gates(circuit, number, "multiply"):
        part = product(field, weights[z], embed(field, coefficient))
        second[y] = add(field, second[y], product(field, part, _equality(field, x_point, x)))
    y_point, others = _sumcheck(writer, field, [(1, (0, 1))], [values, second])
    writer.elements(Label.VALUES, field, others[:1])
    return [(x_point, found[0]), (y_point, others[0])]


def _sumcheck(
    writer: ProofWriter, field: FieldSpec, terms: sumcheck.Terms, tables: list[list[Plain]]
) -> tuple[list[Plain], list[Plain]]:
    def challenge(message: list[Plain]) -> Plain:
        writer.elements(Label.ROUND, field, message)
        return writer.transcript.challenge(field)

    _, point, values = sumcheck.prove(field, terms, tables, None, challenge)
    return point, values


def _equality(field: FieldSpec, point: list[Plain], place: int) -> Plain:
    """eq of a point and the corner of a number."""
    result = embed(field, 1)
    for at, w in enumerate(point):
        bit = place >> (len(point) - 1 - at) & 1
        result = product(field, result, w if bit else add(field, embed(field, 1), negate(field, w)))
    return result


def _gates(circuit: LayeredCircuit, number: int, kind: str) -> list[tuple[int, ...]]:
    gates = circuit.layers[number].gates[kind]
    coefficients = [circuit.coefficients[place] for place in gates.coefficient.tolist()]
    return list(
        zip(gates.output.tolist(), coefficients, *(a.tolist() for a in gates.inputs), strict=True)
    )
