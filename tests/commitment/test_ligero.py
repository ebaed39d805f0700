"""Ligero on every device against plain integers, and proofs its verifier rejects."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quod import gkr
from quod.commitment import Claim, Ligero
from quod.commitment.ligero.shape import MAX_CLAIMS
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, Modulus, from_integers
from quod.field.plain_extension import power, product
from quod.gkr import Prover, VerifyingKey
from quod.layered import CircuitBuilder
from quod.transcript import Hash, Label, ProofWriter
from tests.commitment.tables import (
    FIELDS,
    MAX_LOG_LENGTH,
    Statement,
    begun,
    model,
    plain,
    prove,
    statement,
    verify,
)
from tests.reference import ligero as reference
from tests.reference.sumcheck import Plain, add, embed, multilinear, negate
from tests.support.thorough import one_and_others
from tests.transcript.test_algebraic import model as poseidon_model

M31_4 = EXTENSIONS["m31.4"]


def check(
    device: AnyDevice, instance: Statement, scheme: Ligero, **hashed: reference.Hashed
) -> bytes:  # fmt: skip
    proof, state = prove(scheme, device, instance)
    transcript = begun()
    expected = model(instance, log_blowup=scheme.log_blowup, bits=scheme.column_bits, **hashed)
    assert proof == expected.prove(transcript, plain(instance))
    assert state == transcript.state
    assert verify(scheme, instance, proof) == state
    return proof


@pytest.mark.parametrize("name", one_and_others(FIELDS, ["m31.4", "toy.17.4"]))
def test_agrees_with_the_model(device: AnyDevice, name: str) -> None:
    check(device, statement(FIELDS[name], 6, 2), Ligero())


def poseidon(data: bytes, level: int) -> bytes:
    """A run of M31's elements, by the gadget's permutation."""
    values = list(struct.unpack(f"<{len(data) // 4}I", data))
    digest = poseidon_model("m31", [0, level, *[0] * 6], Label.DIGEST, 1, values)
    return struct.pack("<8I", *digest)


@pytest.mark.parametrize("variables", [0, 3, 6])
def test_trees_of_a_hash_over_the_field(device: AnyDevice, variables: int) -> None:
    scheme = Ligero(2, 10, Hash.POSEIDON2_M31)
    assert scheme.parameters() == "ligero 1/4 10 poseidon2-m31"
    check(device, statement(M31_4, variables, 2), scheme, hashed=poseidon)


def test_trees_of_sha_256() -> None:
    def hashed(data: bytes, level: int) -> bytes:
        return hashlib.sha256(data + bytes([level])).digest()

    instance = statement(FIELDS["goldilocks.2"], 6, 1)
    check(open_device("cpu"), instance, Ligero(2, 10, Hash.SHA_256), hashed=hashed)


def test_trees_of_a_hash_over_another_field_are_refused() -> None:
    with pytest.raises(InputError, match=r"poseidon2-m31 cannot hash elements of goldilocks"):
        Ligero(hash=Hash.POSEIDON2_M31).shape(FIELDS["goldilocks.2"], 4)


def test_algebraic_hash_requires_a_recursive_key() -> None:
    """An algebraic hash needs recursive=True."""
    builder = CircuitBuilder(NAMED["m31"], 2)
    builder.layer(1).multiply(0, 0, 3)
    circuit, scheme = builder.finished(), Ligero(hash=Hash.POSEIDON2_M31)
    with pytest.raises(InputError, match="pass recursive=True"):
        VerifyingKey.of(circuit, M31_4, commitment=scheme)
    key = VerifyingKey.of(circuit, M31_4, commitment=scheme, recursive=True)
    proof = Prover("cpu", key, circuit).prove([0, 1, 2, 0])
    gkr.verify(key, circuit, [], proof)


@pytest.mark.parametrize(("variables", "log_blowup"), [(0, 1), (1, 2), (2, 3), (5, 2), (7, 1)])
def test_any_size(variables: int, log_blowup: int) -> None:
    device = open_device("cpu")
    for name, claims in (("m31.4", 1), ("goldilocks.2", 3)):
        instance = statement(FIELDS[name], variables, claims)
        check(device, instance, Ligero(log_blowup, 20))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64])
def test_column_counts_match_other_libraries(kind: Any) -> None:
    """NumPy shifts would wrap, so that no column is opened and every proof is accepted."""
    scheme = Ligero(kind(2), kind(110))
    expected = Ligero(2, 110).shape(FIELDS["goldilocks.2"], 16)
    assert scheme.shape(FIELDS["goldilocks.2"], 16) == expected
    assert expected.opened > 150


def test_single_entry_rows() -> None:
    """A field with no more points than a word of one has."""
    check(open_device("cpu"), statement(FIELDS["toy.17.4"], 3, 2), Ligero(log_blowup=4))


def test_gpu_code_matches_the_model(gpu_device: AnyDevice) -> None:
    check(gpu_device, statement(M31_4, 7, 2), Ligero(column_bits=20))


@pytest.mark.parametrize("name", one_and_others(["m31.3", "goldilocks", "toy.31.2"]))
def test_buffers_are_aligned_for_gpus(name: str) -> None:
    """Elements of 4, 8 and 12 bytes, of which parts of a point are an odd number."""
    for variables in (1, 2, 6):
        check(open_device("emulated"), statement(FIELDS[name], variables, 2), Ligero(1, 4))


def test_committer_proves_several_tables() -> None:
    device, scheme = open_device("cpu"), Ligero(column_bits=10)
    committer = scheme.committer(device, M31_4, 5, allow_bits=0)
    with pytest.raises(InputError, match="call commit first"):
        committer.open(statement(M31_4, 5, 1).claims, ProofWriter(begun()))
    kept = device.allocate(4 << 5)
    for seed, claims, into in (
        (1, 1, None),
        (2, 3, kept),
        (3, 1, None),
        (4, 3, kept),
        (5, 1, kept),
    ):
        instance, writer = statement(M31_4, 5, claims, seed), ProofWriter(begun())
        table = from_integers(M31_4.modulus, instance.table)
        committer.commit(device.upload(table, into=into), writer)
        committer.open(instance.claims, writer)
        assert writer.getvalue() == prove(scheme, device, instance)[0]


# --- what is refused


@pytest.fixture(scope="module")
def proven() -> tuple[Ligero, Statement, bytes]:
    scheme, instance = Ligero(column_bits=6), statement(M31_4, 6, 2)
    return scheme, instance, prove(scheme, open_device("cpu"), instance)[0]


Proven = tuple[Ligero, Statement, bytes]


def refused(scheme: Ligero, instance: Statement, proof: bytes, *errors: type[Exception]) -> None:
    with pytest.raises(errors or (VerificationError, InputError)):
        verify(scheme, instance, proof)


def test_changed_bytes(proven: Proven) -> None:
    scheme, instance, proof = proven
    for place in range(len(proof)):
        changed = bytearray(proof)
        changed[place] ^= 1 << place % 8
        refused(scheme, instance, bytes(changed))
    for wrong in (proof[:-1], proof + b"\0", b"", proof[32:], proof * 2, proof[:32], proof[:-32]):
        refused(scheme, instance, wrong)


def test_unreduced_encodings_are_rejected(proven: Proven) -> None:
    """An element below p is rejected if it is encoded as the same number plus p."""
    scheme, instance, proof = proven
    p = instance.field.modulus.value
    # Rounds, the combination of rows, columns: all that stands between the root and the digests.
    shape = scheme.shape(instance.field, instance.variables)
    elements = 4 * 2 * shape.log_rows + 4 * shape.code.message + shape.opened * shape.rows
    for place in range(32, 32 + 4 * elements, 4):
        number = int.from_bytes(proof[place : place + 4], "little") + p
        if number < 1 << 32:
            other = proof[:place] + number.to_bytes(4, "little") + proof[place + 4 :]
            with pytest.raises(InputError, match="not below the modulus"):
                verify(scheme, instance, other)


def columns_of(scheme: Ligero, instance: Statement, proof: bytes) -> tuple[int, list[bytes]]:
    """Return the offset of the columns in a proof, and each of them."""
    shape = scheme.shape(instance.field, instance.variables)
    start = 32 + 4 * 4 * (2 * shape.log_rows + shape.code.message)
    size = 4 * shape.rows
    ends = range(start, start + size * shape.opened, size)
    return start, [proof[at : at + size] for at in ends]


def test_columns_in_wrong_order_are_rejected(proven: Proven) -> None:
    """Columns are swapped, repeated, in drawing order, one too few or too many."""
    scheme, instance, proof = proven
    start, columns = columns_of(scheme, instance, proof)
    end = start + len(b"".join(columns))
    assert len(columns) > 3
    for others in (
        [columns[1], columns[0], *columns[2:]],
        [columns[0], columns[0], *columns[2:]],
        [columns[1], columns[1], *columns[2:]],
        columns[::-1], columns[1:], columns[:-1], [*columns, columns[-1]],
    ):  # fmt: skip
        if others != columns:
            refused(scheme, instance, proof[:start] + b"".join(others) + proof[end:])


def test_other_claims_are_rejected(proven: Proven) -> None:
    scheme, instance, proof = proven
    first, second = instance.claims
    p = instance.field.modulus.value

    def more(element: tuple[int, ...]) -> tuple[int, ...]:
        return (*element[:-1], (element[-1] + 1) % p)

    points = [
        Claim((*first.point[:at], more(first.point[at]), *first.point[at + 1 :]), first.value)
        for at in range(instance.variables)
    ]
    for claims in (
        [Claim(first.point, more(first.value)), second], [first, Claim(second.point, first.value)],
        *([claim, second] for claim in points),
        [first], [second, first], [first, second, second],
    ):  # fmt: skip
        refused(scheme, instance._replace(claims=claims), proof)


def test_other_parameters(proven: Proven) -> None:
    scheme, instance, proof = proven
    for other in (Ligero(1, 6), Ligero(3, 6), Ligero(2, 5), Ligero(2, 7), Ligero()):
        assert other.parameters() != scheme.parameters()
        refused(other, instance, proof)
    for field in (EXTENSIONS["m31.3"], EXTENSIONS["baby_bear.4"]):
        claims = [
            Claim(
                tuple(element[: field.degree] for element in claim.point),
                claim.value[: field.degree],
            )
            for claim in instance.claims
        ]
        refused(scheme, instance._replace(field=field, claims=claims), proof)
    with pytest.raises(VerificationError):
        verify(scheme, instance, proof, transcript=begun(b"other"))


def test_unsupported_tables_are_rejected() -> None:
    scheme = Ligero()
    with pytest.raises(InputError, match="does not support tables over bn254"):
        scheme.shape(NAMED["bn254.fr"], 4)
    with pytest.raises(InputError, match=r"does not support tables over toy\.13"):
        Ligero(log_blowup=3).shape(Modulus("toy.13", 13), 4)
    with pytest.raises(InputError, match="too long"):
        scheme.shape(M31_4, 31)
    instance = statement(M31_4, 2, MAX_CLAIMS + 1)
    with pytest.raises(InputError, match="the limit is 8"):
        prove(scheme, open_device("cpu"), instance)


# --- how much is shown


def test_columns_that_are_opened() -> None:
    opened = [Ligero().shape(M31_4, variables).opened for variables in (0, 12, 20, 24, 30)]
    assert opened == [3, 147, 162, 162, 163]
    assert Ligero(1).shape(M31_4, 24).opened == 264
    for scheme in (Ligero(), Ligero(1), Ligero(3)):
        for variables in range(26):
            shape = scheme.shape(M31_4, variables)
            assert shape.miss <= Fraction(1, 1 << 110)
            assert shape.opened <= shape.code.length
    total = sum(Ligero().error_terms(M31_4, 24).values(), Fraction(0))
    assert Fraction(1, 1 << 105) < total < Fraction(1, 1 << 104)
    assert sum(Ligero().error_terms(EXTENSIONS["goldilocks.2"], 24).values()) < Fraction(
        1, 1 << 104
    )


def accepted_of(scheme: Ligero, instance: Statement, prover: reference.Ligero, trials: int) -> int:
    """Count the accepted proofs, each with challenges of its own."""
    accepted = 0
    for trial in range(trials):
        name = str(trial).encode()
        proof = prover.prove(begun(name), plain(instance))
        try:
            verify(scheme, instance, proof, transcript=begun(name))
            accepted += 1
        except VerificationError:
            pass
    return accepted


class Adapted(reference.Ligero):
    """Adds to the combination what makes it agree with one false claim.

    That is a multiple of a message whose word is 0 in as many places as can be.
    """

    def __init__(self, instance: Statement) -> None:
        super().__init__(
            instance.field, instance.table, MAX_LOG_LENGTH[instance.field.modulus.name], bits=1
        )
        (self.claim,) = instance.claims
        places = reference.points(instance.field.modulus, self.log_length)
        self.difference = [1]
        for x in places[: (1 << self.log_columns) - 1]:
            below, above = [0, *self.difference], [*self.difference, 0]
            self.difference = [(a - x * b) % self.p for a, b in zip(below, above, strict=True)]
        self.difference_word = [reference.word_at(self.p, self.difference, x) for x in places]

    def combined(self, r: Sequence[Plain]) -> list[Plain]:
        field, half = self.field, embed(self.field, (self.p + 1) // 2)
        remaining = self.claim.value
        for (linear, square), challenge in zip(self.messages, r, strict=True):
            first = product(
                field, half, add(field, remaining, negate(field, add(field, linear, square)))
            )
            slope = add(field, linear, product(field, square, challenge))
            remaining = add(field, first, product(field, slope, challenge))
        honest = super().combined(r)
        point = self.claim.point
        weight = embed(field, 1)
        for x, y in zip(point, r):
            both = product(field, x, y)
            unit = add(field, embed(field, 1), negate(field, add(field, x, y)))
            weight = product(field, weight, add(field, unit, both, both))
        lower = point[len(r) :]
        missing = add(
            field,
            remaining,
            negate(field, product(field, weight, multilinear(field, honest, lower))),
        )
        embedded = [embed(field, c) for c in self.difference]
        coefficient = product(field, weight, multilinear(field, embedded, lower))
        inverse = power(field, coefficient, self.p**field.degree - 2)
        factor = product(field, missing, inverse)
        return [
            add(field, entry, product(field, factor, c))
            for entry, c in zip(honest, embedded, strict=True)
        ]


def test_wrong_columns_are_detected_at_the_stated_rate() -> None:
    """The fewest wrong columns beyond unique decoding, by an otherwise honest prover."""
    field = FIELDS["toy.17.4"]
    instance, scheme, trials = statement(field, 5, 1), Ligero(column_bits=1), 400
    shape, cheater = scheme.shape(field, 5), model(instance, bits=1)
    wrong = (shape.code.length - shape.code.message - 1) // 2 + 1
    for word in cheater.words:
        word[:wrong] = [(entry + 1) % 17 for entry in word[:wrong]]
    cheater.hash_columns()
    accepted = accepted_of(scheme, instance, cheater, trials)
    assert shape.opened == 2
    assert shape.miss == Fraction(3, 8)
    # Four standard deviations, and a chance of a sum of two wrong columns that agrees.
    assert abs(accepted - trials * 3 / 8) < 4 * (trials * 15 / 64) ** 0.5


@pytest.mark.thorough
def test_wrong_row_combination_is_detected_at_the_stated_rate() -> None:
    """The combination agrees with the claim, and with the columns where two words are equal."""
    field = FIELDS["toy.17.4"]
    instance, scheme, trials = statement(field, 5, 1), Ligero(column_bits=1), 400
    (claim,) = instance.claims
    false = Claim(claim.point, ((claim.value[0] + 1) % 17, *claim.value[1:]))
    instance = instance._replace(claims=[false])
    cheater = Adapted(instance)
    equal = sum(entry == 0 for entry in cheater.difference_word)
    assert equal == 3
    accepted = accepted_of(scheme, instance, cheater, trials)
    expected = trials * 3 / 120
    assert 0 < accepted < expected + 5 * expected**0.5
