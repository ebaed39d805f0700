"""Files of keys and inference proofs: round trips, and errors with offsets."""

from __future__ import annotations

import random
import struct
from fractions import Fraction
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.cli import entry
from quod.errors import InputError, MismatchError, OutputError, VerificationError
from quod.field import EXTENSIONS
from quod.frozen import replace
from quod.inference import (
    Prover,
    VerifyingKey,
    read_proof,
    read_verifying_key,
    verify,
    write_proof,
    write_verifying_key,
)
from quod.inference.files.describe import describe_file
from quod.inference.files.key import key_writer, parse_verifying_key
from quod.inference.files.proof import ProofFile, parse_proof, proof_writer
from quod.inference.prover import Inference
from quod.inference.statement import FIELDS
from tests.formats.tiny import refused, replaced, split
from tests.inference.networks import image_rows, perceptron_of

WIDTHS = (3, 4, 2, 3)
COUNT = 2
IMAGES = image_rows(COUNT, WIDTHS[0], seed=2)

# Of the header of a key: 2 texts, 4 widths, the bits of the table, the root, the digest.
HEADER = 12 + 12


@pytest.fixture(scope="module")
def prover() -> Prover:
    return Prover("cpu", perceptron_of(WIDTHS, seed=1))


@pytest.fixture(scope="module")
def key(prover: Prover) -> VerifyingKey:
    return prover.key


@pytest.fixture(scope="module")
def inference(prover: Prover) -> Inference:
    return prover.prove(IMAGES)


def written(write: Any) -> bytes:
    file = BytesIO()
    write(file)
    return file.getvalue()


@pytest.fixture(scope="module")
def key_bytes(key: VerifyingKey) -> bytes:
    return written(key_writer(key))


@pytest.fixture(scope="module")
def proof_bytes(key: VerifyingKey, inference: Inference) -> bytes:
    return written(proof_writer(key, inference.logits, inference.proof))


def test_a_verifier_needs_both_files_and_the_images(
    tmp_path: Path, key: VerifyingKey, inference: Inference
) -> None:
    write_verifying_key(tmp_path / "key.qivk", key)
    write_proof(tmp_path / "proof.qinp", key, inference.logits, inference.proof)
    read_key = read_verifying_key(tmp_path / "key.qivk")
    assert read_key == key
    proof_file = read_proof(tmp_path / "proof.qinp")
    proof_file.check(read_key, COUNT)
    assert (proof_file.logits == inference.logits).all()
    assert proof_file.logits.dtype == np.int64
    verify(read_key, IMAGES, proof_file.logits, proof_file.proof)


def test_the_bytes_of_a_key(key: VerifyingKey, key_bytes: bytes) -> None:
    """The bytes follow the documented format, and are built independently."""
    import hashlib

    kind, version, sections = split(key_bytes)
    assert (kind, version, [number for number, _ in sections]) == (b"qivk", 1, [1, 2, 3, 4])
    header, biases, multipliers, proof = (data for _, data in sections)
    protocol = b"quod inference 1"
    assert header.startswith(struct.pack("<I", len(protocol)) + protocol)
    parameters = header[4 + len(protocol) :]
    (length,) = struct.unpack_from("<I", parameters)
    assert parameters[4 : 4 + length].startswith(b"ligero ")
    assert parameters[4 + length :] == (
        struct.pack("<6I", 4, *WIDTHS, key.table_bits) + key.root + key.digest
    )
    assert biases == struct.pack("<9i", *(n for row in key.biases for n in row))
    assert multipliers == struct.pack("<6I", *(n for row in key.multipliers for n in row))
    assert proof == hashlib.sha3_256(key.weights_proof).digest() + key.weights_proof


def test_extreme_numbers_round_trip(key: VerifyingKey) -> None:
    most = (1 << 31) - 1
    odd = replace(
        key, biases=((-(1 << 31), most, 0, -1), *key.biases[1:]), root=bytes(range(32)),
        multipliers=((most, 0, 1, 2), *key.multipliers[1:]), weights_proof=b"",
    )  # fmt: skip
    assert parse_verifying_key(memoryview(written(key_writer(odd))), "key") == odd


def test_every_flipped_bit_is_rejected(key: VerifyingKey, key_bytes: bytes) -> None:
    """Every byte of a key file is significant."""
    generator = random.Random(3)
    for place in [*range(400), *generator.sample(range(400, len(key_bytes)), 100)]:
        wrong = bytearray(key_bytes)
        wrong[place] ^= 1 << generator.randrange(8)
        with pytest.raises(InputError) as error:
            parse_verifying_key(memoryview(bytes(wrong)), "key.qivk")
        refused(error, "key.qivk", "offset" if "missing" not in str(error.value) else "section")
    for end in [*range(0, 400, 7), len(key_bytes) - 1]:
        with pytest.raises(InputError, match=r"key\.qivk"):
            parse_verifying_key(memoryview(key_bytes[:end]), "key.qivk")
    with pytest.raises(InputError, match="1 bytes after its last section"):
        parse_verifying_key(memoryview(key_bytes + b"\0"), "key.qivk")


def test_a_damaged_proof_is_refused_by_the_reader_or_the_verifier(
    key: VerifyingKey, proof_bytes: bytes
) -> None:
    generator = random.Random(5)
    # Behind them the bytes of the proof, whose own tests are elsewhere.
    start = proof_bytes.index(split(proof_bytes)[2][2][1])
    for place in [*range(start), *generator.sample(range(start, len(proof_bytes)), 6)]:
        wrong = bytearray(proof_bytes)
        wrong[place] ^= 1 << generator.randrange(8)
        with pytest.raises((InputError, VerificationError)):
            proof_file = parse_proof(memoryview(bytes(wrong)), "proof.qinp")
            proof_file.check(key, COUNT)
            verify(key, IMAGES, proof_file.logits, proof_file.proof)
    for end in range(start):
        with pytest.raises(InputError, match=r"proof\.qinp"):
            parse_proof(memoryview(proof_bytes[:end]), "proof.qinp")


@pytest.mark.parametrize(
    ("at", "change", "offset", "said"),
    [
        (0, b"\xff" * 4, 0, "the proof ends within the part that begins here"),
        (36, b"\xff" * 4, 36, "the proof ends within the part that begins here"),
        (40, b"\xff" * 8, 40, "element 0 is not below the modulus"),
    ],
)
def test_proof_errors_report_the_file_offset(
    at: int, change: bytes, offset: int, said: str, key: VerifyingKey, proof_bytes: bytes
) -> None:
    data = bytearray(split(proof_bytes)[2][2][1])
    data[at : at + len(change)] = change
    proof_file = parse_proof(memoryview(replaced(proof_bytes, {3: bytes(data)})), "proof.qinp")
    with pytest.raises(InputError) as error:
        proof_file.verify(key, IMAGES)
    refused(error, "proof.qinp, section 3 (proof), offset", said)
    assert error.value.offset == len(proof_bytes) - len(data) + offset


def test_proof_file_verifies_its_own_claim(key: VerifyingKey, proof_bytes: bytes) -> None:
    proof_file = parse_proof(memoryview(proof_bytes), "proof.qinp")
    proof_file.verify(key, IMAGES)
    with pytest.raises(VerificationError, match=r"^proof\.qinp: "):
        proof_file.verify(key, (IMAGES + 1) % 128)
    with pytest.raises(MismatchError, match="of shape"):
        proof_file.verify(key, IMAGES[:1])
    with pytest.raises(InputError, match=r"^images must be integers"):
        proof_file.verify(key, IMAGES.astype(float))
    proof = proof_file.proof
    for wrong, said in ((proof + bytes(4), "more behind"), (proof[:36], "before its last")):
        part = parse_proof(memoryview(replaced(proof_bytes, {3: wrong})), "proof.qinp")
        with pytest.raises(InputError, match=said) as error:
            part.verify(key, IMAGES)
        assert error.value.offset == part.offset + min(len(wrong), len(proof))


def header_of(data: bytes) -> bytes:
    return split(data)[2][0][1]


def with_header(data: bytes, at: int, value: bytes) -> bytes:
    header = bytearray(header_of(data))
    header[at : at + len(value)] = value
    return replaced(data, {1: bytes(header)})


# Where the widths begin, from the end of the header.
_COUNT_AT = -(32 + 32 + 4 * 6)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (_COUNT_AT, 2, "the number of widths is 2, and must be from 3 to 10"),
        (_COUNT_AT, 1 << 31, "the number of widths is 2147483648"),
        (_COUNT_AT, 5, "the bits of the table is"),
        (_COUNT_AT, 3, "the bits of the table is 3, and"),
        (_COUNT_AT + 4, 0, "a width is 0, and must be from 1 to 4096"),
        (_COUNT_AT + 8, 4097, "a width is 4097"),
        (_COUNT_AT + 20, 7, "the bits of the table is 7, and must be from 8 to 16"),
        (_COUNT_AT + 20, 17, "the bits of the table is 17"),
        (-4, 0, "the key is not of this digest"),
        (4, 0, "the protocol is not text"),
        (0, 1 << 13, "the protocol has 8192 bytes, more than the limit of 4096"),
    ],
)
def test_invalid_headers_are_rejected(key_bytes: bytes, at: int, value: int, said: str) -> None:
    place = at % len(header_of(key_bytes))
    wrong = with_header(key_bytes, place, struct.pack("<I", value))
    with pytest.raises(InputError) as error:
        parse_verifying_key(memoryview(wrong), "key.qivk")
    refused(error, "key.qivk", "section 1 (header)", said)
    if said.startswith(("a width", "the number of widths")):
        assert error.value.offset == HEADER + place


def test_a_key_of_another_protocol(key_bytes: bytes) -> None:
    wrong = key_bytes.replace(b"quod inference 1", b"quod inference 2")
    with pytest.raises(InputError) as error:
        parse_verifying_key(memoryview(wrong), "key.qivk")
    refused(error, "the protocol is 'quod inference 2', and Quod verifies 'quod inference 1'")
    assert error.value.offset == HEADER


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({2: None}, "section 2 (biases): is missing"),
        ({4: None}, "section 4 (weights proof): is missing"),
        ({5: b""}, "section 5"),
        ({2: bytes(35)}, "the row of layer 2 needs 12 bytes and 11 are left"),
        ({2: bytes(40)}, "4 bytes more than the header"),
        ({3: bytes(12) + b"\xff" * 4 + bytes(8)}, "a multiplier is 4294967295, not below 2^31"),
        ({3: bytes(24)}, "section 1 (header)"),
        ({4: bytes(31)}, "the digest of the proof needs 32 bytes"),
        ({4: bytes(32)}, "the proof is not of this digest"),
    ],
)
def test_invalid_sections_are_rejected(
    key_bytes: bytes, changes: dict[int, bytes | None], said: str
) -> None:
    with pytest.raises(InputError) as error:
        parse_verifying_key(memoryview(replaced(key_bytes, changes)), "key.qivk")
    refused(error, "key.qivk", said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({1: bytes(44)}, "0 logits of 0 images are none"),
        ({1: bytes(32) + struct.pack("<QI", 1 << 60, 3)}, "are none, or too many"),
        ({1: bytes(32) + struct.pack("<QI", 2, 5000)}, "are none, or too many"),
        ({1: bytes(45)}, "1 bytes more than the header"),
        ({1: bytes(32) + struct.pack("<QI", 3, 3)}, "the logits needs 36 bytes and 24 are left"),
        ({2: bytes(28)}, "4 bytes more than the header"),
        ({2: bytes(20) + struct.pack("<i", -(1 << 31))}, "a logit is not above -2^31"),
        ({3: None}, "section 3 (proof): is missing"),
        ({4: b"more"}, "section 4"),
    ],
)
def test_invalid_proofs_are_rejected(
    proof_bytes: bytes, changes: dict[int, bytes | None], said: str
) -> None:
    with pytest.raises(InputError) as error:
        parse_proof(memoryview(replaced(proof_bytes, changes)), "proof.qinp")
    refused(error, "proof.qinp", said)


def test_proof_of_another_key_or_image_count_is_rejected(
    key: VerifyingKey, proof_bytes: bytes
) -> None:
    proof_file = parse_proof(memoryview(proof_bytes), "proof.qinp")
    other = replace(key, root=bytes(32))
    with pytest.raises(MismatchError, match=r"proof\.qinp: the proof was made with another key"):
        proof_file.check(other, COUNT)
    with pytest.raises(MismatchError, match=r"of shape \(2, 3\), and \(3, 3\) are to be"):
        proof_file.check(key, 3)
    with pytest.raises(MismatchError, match="of shape"):
        ProofFile("proof", key.digest, proof_file.logits[:, :2], b"").check(key, COUNT)


@pytest.mark.parametrize(
    "logits",
    [np.zeros((0, 3), int), np.zeros((2, 2), int), np.zeros(3, int), np.zeros((1, 3)),
     np.full((1, 3), 1 << 31), np.full((1, 3), -(1 << 63)), None],
)  # fmt: skip
def test_logits_that_are_not_written(tmp_path: Path, key: VerifyingKey, logits: Any) -> None:
    with pytest.raises(InputError):
        write_proof(tmp_path / "proof.qinp", key, logits, b"")
    with pytest.raises(InputError):
        write_proof(tmp_path / "proof.qinp", key, np.zeros((1, 3), int), bytearray(1))
    with pytest.raises(OutputError):
        write_proof(tmp_path / "none" / "proof.qinp", key, np.zeros((1, 3), int), b"")
    assert not list(tmp_path.iterdir())


def test_prover_accepts_its_own_key(
    prover: Prover, key_bytes: bytes, inference: Inference, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_key = parse_verifying_key(memoryview(key_bytes), "key")
    monkeypatch.setattr("quod.inference.prover.prove_committed", None)
    again = Prover("cpu", prover.perceptron, key=read_key)
    assert again.key is read_key
    assert again.prove(IMAGES).proof == inference.proof
    with pytest.raises(MismatchError, match="the key belongs to another perceptron"):
        Prover("cpu", perceptron_of(WIDTHS, seed=2), key=read_key)
    other = replace(read_key, weights_proof=read_key.weights_proof[:-1])
    with pytest.raises(InputError, match="weights_proof"):
        Prover("cpu", prover.perceptron, key=other)


def test_file_kinds_are_described(
    tmp_path: Path, key: VerifyingKey, key_bytes: bytes, proof_bytes: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    description = describe_file(memoryview(key_bytes), "key")
    assert description is not None
    assert (description["widths"], description["root"]) == (list(WIDTHS), key.root.hex())
    assert description["bytes"] == len(key_bytes)
    description = describe_file(memoryview(proof_bytes), "proof")
    assert description is not None
    assert (description["images"], description["logits"], description["key"]) == (
        COUNT,
        3,
        key.digest.hex(),
    )
    assert describe_file(memoryview(b"qcir"), "circuit") is None
    (tmp_path / "key.qivk").write_bytes(key_bytes)
    assert entry.run(["inspect", str(tmp_path / "key.qivk")]) == 0
    assert "verifying key of an inference (qivk)" in capsys.readouterr().out


# Kernels of the cubic extension, which no other test compiles.
@pytest.mark.thorough
def test_keys_over_the_larger_field(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the prover to the files and back; no proof of one field is one of the other."""
    small, large = FIELDS
    perceptron = perceptron_of((2, 3, 2), seed=1)
    monkeypatch.setattr("quod.inference.prover.field_for", lambda *_: large)
    prover = Prover("cpu", perceptron)
    key, images = prover.key, image_rows(COUNT, 2, seed=2)
    assert key.field == large
    inference = prover.prove(images)
    write_verifying_key(tmp_path / "key.qivk", key)
    write_proof(tmp_path / "proof.qinp", key, inference.logits, inference.proof)
    assert b"quod inference 1 goldilocks.3" in (tmp_path / "key.qivk").read_bytes()
    read, claimed = read_verifying_key(tmp_path / "key.qivk"), read_proof(tmp_path / "proof.qinp")
    assert read == key
    claimed.verify(read, images)
    assert Prover("cpu", perceptron, key=read).key is read
    other = replace(key, field=small)
    assert other.digest != key.digest
    with pytest.raises(MismatchError, match="another key"):
        claimed.verify(other, images)
    with pytest.raises((VerificationError, InputError)):
        verify(other, images, inference.logits, inference.proof)
    with pytest.raises(InputError, match=r"goldilocks\.2 or goldilocks\.3"):
        replace(key, field=EXTENSIONS["m31.4"])


def test_proofs_of_fewer_bits_are_refused(
    prover: Prover, inference: Inference, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A key recorded below the bound is read, and used only with allow_bits."""
    small = {"the hash": Fraction(1, 1 << 99)}
    monkeypatch.setattr("quod.inference.statement.terms_of", lambda *_: small)
    write_verifying_key(tmp_path / "key.qivk", prover.key)
    write_proof(tmp_path / "proof.qinp", prover.key, inference.logits, inference.proof)
    key, claimed = read_verifying_key(tmp_path / "key.qivk"), read_proof(tmp_path / "proof.qinp")
    for call in (
        partial(verify, key, IMAGES, inference.logits, inference.proof),
        partial(claimed.verify, key, IMAGES),
        key.check_weights,
        partial(Prover, "cpu", prover.perceptron, key=key),
        partial(Prover, "cpu", prover.perceptron),
        partial(prover.prove, IMAGES),
    ):
        with pytest.raises(InputError, match=r"99 bits, and at least 100 .* pass allow_bits=99"):
            call()
    claimed.verify(key, IMAGES, allow_bits=99)
    verify(key, IMAGES, inference.logits, inference.proof, allow_bits=99)
    again = Prover("cpu", prover.perceptron, key=key, allow_bits=99)
    assert again.prove(IMAGES).proof == inference.proof
