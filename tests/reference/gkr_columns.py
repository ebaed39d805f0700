"""A verifier of proofs by columns over M31's quartic extension, with the raw commitment.

Written from docs/gkr.md and docs/sumcheck.md alone, with integers and hashlib: of Quod it takes
nothing but a circuit's gates. Where it disagrees the text is wrong, or Quod is.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import reduce

from quod.layered import LayeredCircuit, Public, Random

P = 2**31 - 1
FIELD = b"2147483647[1,0,1][2147483645.2147483646,0.0,1.0]"
KINDS = {"constant": 0, "add": 1, "multiply": 2, "power2": 2, "power3": 3, "power4": 4, "power5": 5}
NEXT, PROTOCOL, FIELD_LABEL, PARAMETERS, CIRCUIT, INSTANCES, PUBLIC_INPUT, COMMITMENT = range(8)
ROUND, VALUES, CHAIN = 10, 11, 12

Element = tuple[int, ...]
"""(a, b, c, d) for a + b*i + (c + d*i)*u, with i^2 = -1 and u^2 = 2 + i."""
Gate = tuple[int, list[int], int]
"""The output, the inputs, one as often as its power, and the coefficient's number."""

ZERO: Element = (0, 0, 0, 0)
ONE: Element = (1, 0, 0, 0)


class Invalid(Exception):
    """The proof does not show what it is to show."""


def total(parts: Iterable[Element]) -> Element:
    return tuple(sum(column) % P for column in zip(ZERO, *parts, strict=True))


def less(a: Element, b: Element) -> Element:
    return tuple((x - y) % P for x, y in zip(a, b, strict=True))


def product(*factors: Element) -> Element:
    def times(x: Element, y: Element) -> Element:
        a, b, c, d = x
        e, f, g, h = y
        real, imaginary = c * g - d * h, c * h + d * g
        return (
            (a * e - b * f + 2 * real - imaginary) % P,
            (a * f + b * e + real + 2 * imaginary) % P,
            (a * g - b * h + c * e - d * f) % P,
            (a * h + b * g + c * f + d * e) % P,
        )

    return reduce(times, factors, ONE)


def equalities(point: Sequence[Element]) -> list[Element]:
    weights: list[Element] = [ONE]
    for x in point:
        weights = [product(e, half) for e in weights for half in (less(ONE, x), x)]
    return weights


def inner(a: Iterable[Element], b: Iterable[Element]) -> Element:
    return total(map(product, a, b))


def sha3(data: bytes) -> bytes:
    return hashlib.sha3_256(data).digest()


def by_runs(data: bytes) -> bytes:
    for level in range(256):
        runs = [data[at : at + 4096] for at in range(0, len(data), 4096)] or [b""]
        digests = [sha3(run + bytes([level])) for run in runs]
        if len(digests) == 1:
            return digests[0]
        data = b"".join(digests)
    raise Invalid("there are no so long messages")


def eight(number: int) -> bytes:
    return number.to_bytes(8, "little")


class Transcript:
    def __init__(self) -> None:
        self.state, self.drawn = bytes(32), False

    def absorb(self, label: int, message: bytes) -> None:
        length = len(message).to_bytes(3, "little")
        self.state, self.drawn = sha3(self.state + length + bytes([label]) + message), False

    def challenges(self, count: int) -> list[Element]:
        elements: list[Element] = []
        for _ in range(count):
            if self.drawn:
                self.absorb(NEXT, b"")
            elements.append(tuple(word % P for word in struct.unpack("<4Q", self.state)))
            self.drawn = True
        return elements

    def absorb_runs(self, elements: bytes) -> None:
        digests = b""
        for at in range(0, len(elements), 512):
            run = Transcript()
            run.absorb(VALUES, elements[at : at + 512].ljust(512, b"\0"))
            digests += run.state
        for at in range(0, len(digests), 96):
            self.absorb(VALUES, digests[at : at + 96].ljust(96, b"\0"))


class Reader:
    def __init__(self, proof: bytes) -> None:
        self.left = proof

    def take(self, count: int, coefficients: int = 4) -> tuple[bytes, list[Element]]:
        """The bytes of so many elements, and these."""
        size = 4 * coefficients * count
        data, self.left = self.left[:size], self.left[size:]
        words = struct.unpack(f"<{len(data) // 4}I", data)
        if len(data) < size or any(word >= P for word in words):
            raise Invalid("the proof is short, or has no elements")
        starts = range(0, len(words), coefficients)
        return data, [words[at : at + coefficients] for at in starts]


def digest(circuit: LayeredCircuit) -> bytes:
    def wide(*numbers: int) -> bytes:
        return b"".join(number.to_bytes(72, "little") for number in numbers)

    coefficients, layers = circuit.coefficients, circuit.layers
    sizes = (circuit.log_inputs, circuit.public, circuit.zeros, len(coefficients), len(layers))
    data = b"quod layered circuit 1\0" + wide(P, *sizes)
    for coefficient in coefficients:
        if isinstance(coefficient, int):
            data += b"\0" + wide(coefficient)
        else:
            data += (b"\2", b"\1")[isinstance(coefficient, Public)] + wide(coefficient.number)
    for layer in layers:
        data += eight(layer.log_size)
        for kind in KINDS:
            gates = layer.gates[kind]
            data += eight(len(gates))
            for column in (gates.output, *gates.inputs, gates.coefficient):
                data += struct.pack(f"<{len(gates)}I", *column.tolist())
    return sha3(data)


def gates_of(circuit: LayeredCircuit, number: int) -> list[Gate]:
    gates_found: list[Gate] = []
    for kind, degree in KINDS.items():
        gates = circuit.layers[number].gates[kind]
        columns = (gates.output, gates.coefficient, *gates.inputs)
        for output, coefficient, *inputs in zip(*(c.tolist() for c in columns), strict=True):
            repeated = inputs * (degree // max(1, len(inputs)))
            gates_found.append((output, repeated, coefficient))
    return gates_found


def check(circuit: LayeredCircuit, chain: int, public: list[list[int]], proof: bytes) -> None:
    """Invalid for a proof that does not show that the outputs of all instances are 0."""
    reader, transcript, instances = Reader(proof), Transcript(), len(public)
    log_instances = (instances - 1).bit_length()
    padded = public + public[-1:] * ((1 << log_instances) - instances)
    public_bytes = b"".join(value.to_bytes(4, "little") for row in public for value in row)
    count = max((c.number + 1 for c in circuit.coefficients if isinstance(c, Random)), default=0)
    transcript.absorb(PROTOCOL, b"quod gkr %d sha3-256" % (3 if count else 2))
    transcript.absorb(FIELD_LABEL, FIELD)
    transcript.absorb(PARAMETERS, b"chain %d columns inputs raw" % chain)
    transcript.absorb(CIRCUIT, digest(circuit))
    transcript.absorb(INSTANCES, eight(instances))
    transcript.absorb(PUBLIC_INPUT, eight(circuit.public) + by_runs(public_bytes))
    raw, inputs = reader.take(1 << (circuit.log_inputs + log_instances), 1)
    transcript.absorb(COMMITMENT, by_runs(raw))
    for _ in range(chain):
        transcript.absorb(CHAIN, b"")
    randoms = transcript.challenges(count)
    for _ in range(chain if count else 0):
        transcript.absorb(CHAIN, b"")
    r = transcript.challenges(circuit.layers[-1].log_size)
    t = transcript.challenges(log_instances)
    claimed, c = list(range(circuit.zeros)), ZERO

    def coefficient(number: int, *, constant: bool) -> Element:
        source = circuit.coefficients[number]
        if isinstance(source, Random):
            return randoms[source.number]
        if not isinstance(source, Public):
            return (source, 0, 0, 0)
        values: list[Element] = [(row[source.number], 0, 0, 0) for row in padded]
        return inner(equalities(t), values) if constant else values[0]

    for number in reversed(range(len(circuit.layers))):
        weights = dict.fromkeys(range(1 << circuit.layers[number].log_size), ZERO)
        weights |= {z: e for z, e in enumerate(equalities(r)) if z in set(claimed)}
        gates = gates_of(circuit, number)
        for z, taken, at in gates:
            if not taken:
                c = less(c, product(weights[z], coefficient(at, constant=True)))
        degree = max([1, *(len(taken) for _, taken, _ in gates)])
        if degree > 1:
            point = []
            for w in t:
                data, message = reader.take(degree)
                transcript.absorb(ROUND, data)
                polynomial = [less(c, product(w, total(message))), *message]
                point += transcript.challenges(1)
                c = ZERO
                for term in reversed(polynomial):
                    c = total([product(c, point[-1]), term])
            t = point
        below = circuit.layers[number - 1].log_size if number else circuit.log_inputs
        used = {x for _, taken, _ in gates for x in taken} or {0}
        claimed = sorted(used) if number else list(range(1 << below))
        data, sent = reader.take(len(claimed))
        transcript.absorb_runs(data)
        values = dict(zip(claimed, sent, strict=True))
        expected = total(
            product(weights[z], coefficient(at, constant=False), *(values[x] for x in taken))
            for z, taken, at in gates
            if taken
        )
        if expected != c:
            raise Invalid(f"layer {number}")
        r = transcript.challenges(below)
        c = inner((e for x, e in enumerate(equalities(r)) if x in values), sent)
    table: list[Element] = [(value, 0, 0, 0) for (value,) in inputs]
    if inner(equalities([*r, *t]), table) != c or reader.left:
        raise Invalid("the inputs")
