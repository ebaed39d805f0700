"""Files of keys of language models: round trips, one form of each key, and hostile bytes."""

from __future__ import annotations

import contextlib
import random
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError, OutputError
from quod.frozen import replace
from quod.inference.transformer.program import Program
from quod.inference.transformer.proof import Key, read_key, write_key
from quod.inference.transformer.proof.files.describe import describe_file
from quod.inference.transformer.proof.files.key import key_writer, parse_key
from quod.inference.transformer.proof.key import key_of
from tests.formats.tiny import container, refused, replaced, split

MODEL = bytes(range(32))
ROOTS = {"tokens": bytes(range(32, 64)), "layers": bytes(range(64, 96))}

# Of the header: two texts, three digests, eight sizes, whether the head is tied, the base.
_SIZES_AT = -(8 + 4 * 9)
_SIZES = ("layers", "width", "hidden", "heads", "kv_heads", "head_width", "vocabulary", "context")


def bytes_of(key: Key) -> bytes:
    file = BytesIO()
    key_writer(key)(file)
    return file.getvalue()


def parse(data: bytes) -> Key:
    return parse_key(memoryview(data), "key.qtvk")


@pytest.fixture(scope="module")
def key_bytes(key_path: Path) -> bytes:
    return key_path.read_bytes()


@pytest.mark.parametrize("name", ["llama", "untied", "qwen2", "uniform", "narrow"])
def test_keys_of_programs_round_trip(
    name: str, programs: dict[str, Program], tmp_path: Path
) -> None:
    key = key_of(programs[name], MODEL, ROOTS)
    write_key(tmp_path / "key", key)
    read = read_key(tmp_path / "key")
    assert read.digest == key.digest
    # The order of roundings is that of the committed columns.
    assert list(read.roundings.items()) == list(key.roundings.items())
    assert bytes_of(read) == (tmp_path / "key").read_bytes()
    assert any(constants.biases for constants in read.constants) == (name == "qwen2")
    assert read.is_tied != (name == "untied")


def test_divisors_of_angles_round_trip(key: Key) -> None:
    factors = tuple([1.0, 8.0, 2.0**-10, 1.1, 3e38] + [1.0] * (key.head_width // 2 - 5))
    scaled = replace(key, rope=(500000.0, factors))
    read = parse(bytes_of(scaled))
    assert read.rope == (500000.0, factors)
    assert read.digest == scaled.digest != key.digest
    for wrong in (0.0, -1.0, 2.0**-11, float("inf"), float("nan")):
        with pytest.raises(InputError, match=r"section 5 \(rope\), .*a divisor of the angles is"):
            key_writer(replace(key, rope=(10000.0, (wrong, *factors[1:]))))


def test_the_fewest_bits_of_remainders_round_trip(key: Key) -> None:
    """As of weights that are too large for whole limbs."""
    query = key.roundings["query"]
    assert query.bits == (32, 32)
    least = replace(query, bits=tuple(max(shift, 17) for shift in query.shifts))
    fewer = replace(key, roundings={**key.roundings, "query": least})
    assert parse(bytes_of(fewer)).roundings == fewer.roundings
    mixed = replace(query, bits=(least.bits[0], 32))
    with pytest.raises(InputError, match="no weights lead to these bits"):
        key_writer(replace(key, roundings={**key.roundings, "query": mixed}))


def test_the_bytes_of_a_key(key: Key, key_bytes: bytes) -> None:
    """The bytes follow the documented format, and are built independently."""
    kind, version, sections = split(key_bytes)
    assert (kind, version, [number for number, _ in sections]) == (b"qtvk", 1, [1, 2, 3, 4, 5])
    header, norms, scales, biases, rope = (data for _, data in sections)
    texts = b"".join(
        struct.pack("<I", len(text)) + text
        for text in (b"quod transformer proof 1", b"ligero 1/4 110 sha3-256")
    )
    sizes = (2, 32, 64, 2, 1, 16, key.vocabulary, 256)
    digests = key.model + key.roots["tokens"] + key.roots["layers"] + key.digest
    assert header == texts + digests + struct.pack("<9Id", *sizes, 1, 10000.0)
    gains = struct.pack("<160i", *key.gains.reshape(-1).tolist())
    assert norms == struct.pack("<Q", key.epsilons[0]) + gains
    shifts = [
        shift
        for kind in ("query", "key", "value", "gate", "up", "residual", "normed", "score", "mixed",
                     "hidden")
        for shift in key.roundings[kind].shifts
    ]  # fmt: skip
    bits = [
        width
        for kind in ("query", "key", "value", "gate", "up", "residual")
        for width in key.roundings[kind].bits
    ]
    activations = [scale for layer in key.constants for scale in layer.activation]
    numbers = [*shifts, *bits, *activations]
    assert scales == struct.pack(f"<{len(numbers)}I", *numbers)
    assert (biases, rope) == (bytes(8), b"")


def test_every_changed_byte_is_refused(key_bytes: bytes) -> None:
    generator = random.Random(3)
    for place in range(len(key_bytes)):
        wrong = bytearray(key_bytes)
        wrong[place] ^= 1 << generator.randrange(8)
        with pytest.raises(InputError, match=r"key\.qtvk"):
            parse(bytes(wrong))
    for end in range(len(key_bytes)):
        with pytest.raises(InputError, match=r"key\.qtvk"):
            parse(key_bytes[:end])
    with pytest.raises(InputError, match="1 bytes after its last section"):
        parse(key_bytes + b"\0")


def test_files_with_a_right_digest_are_valid_and_the_only_form(
    key: Key, key_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the digest, which anyone can compute: a file is refused, or it is that of its key."""
    kind, version, sections = split(key_bytes)
    # All keys have this digest, so that changes of the numbers are looked at.
    monkeypatch.setattr(Key, "digest", key.digest)
    generator, accepted = random.Random(7), 0
    for _ in range(3000):
        number = generator.choice((1, 2, 3, 4, 5))
        content = bytearray(dict(sections)[number] or bytes(8))
        for _ in range(generator.choice((1, 1, 2))):
            place = generator.randrange(0, len(content) - 3)
            value = generator.choice(
                (0, 1, 2, 3, 16, 48, 63, 64, 1 << 31, generator.randrange(1 << 32))
            )
            struct.pack_into("<I", content, place, value)
        changed = replaced(key_bytes, {number: bytes(content)})
        with contextlib.suppress(InputError):
            read = parse(changed)
            accepted += 1
            assert bytes_of(read) == changed
            assert len(read.roundings) == 13
            for rounding in read.roundings.values():
                assert all(
                    0 <= shift <= width <= 63
                    for shift, width in zip(rounding.shifts, rounding.bits, strict=True)
                )
    assert accepted > 100
    for order in ((2, 1, 3, 4, 5), (5, 4, 3, 2, 1)):
        parts = [(index, dict(sections)[index]) for index in order]
        with pytest.raises(InputError, match="in the order of their numbers"):
            parse(container(kind, version, parts))


def with_numbers(data: bytes, section: int, at: int, form: str, *values: Any) -> bytes:
    content = bytearray(dict(split(data)[2])[section])
    struct.pack_into(form, content, at % len(content), *values)
    return replaced(data, {section: bytes(content)})


@pytest.mark.parametrize(
    ("size", "value", "said"),
    [
        ("layers", 0, "layers is 0, and must be from 1 to 4096"),
        ("layers", 4097, "layers is 4097"),
        ("layers", 3, "needs 896 bytes and 640 are left"),
        ("width", 1 << 21, "width is 2097152"),
        ("hidden", 0, "hidden is 0"),
        ("heads", 3, "32 channels are not divided by 3 heads"),
        ("heads", 64, "32 channels are not divided by 64 heads"),
        ("kv_heads", 4, "2 query heads do not share 4 key heads"),
        ("kv_heads", 0, "kv_heads is 0"),
        ("head_width", 15, "heads of 15 channels are odd"),
        ("head_width", 1 << 20, "heads of 1048576 channels"),
        ("vocabulary", 1 << 31, "vocabulary is 2147483648"),
        ("vocabulary", (1 << 31) - 1, "the weights are too many to be proved"),
        ("context", (1 << 20) + 1, "context is 1048577"),
        ("context", 257, "the key is not of this digest"),
    ],
)
def test_sizes_that_are_refused(key_bytes: bytes, size: str, value: int, said: str) -> None:
    at = _SIZES_AT + 4 * _SIZES.index(size)
    with pytest.raises(InputError) as error:
        parse(with_numbers(key_bytes, 1, at, "<I", value))
    refused(error, "key.qtvk", said)


@pytest.mark.parametrize(
    ("section", "at", "form", "value", "said"),
    [
        (1, 0, "<I", 1 << 13, "the protocol has 8192 bytes"),
        (1, 4, "<I", 0, "the protocol is not text"),
        (1, -8, "<d", 1.0, "the base of the rotary positions is 1.0"),
        (1, -8, "<d", float("nan"), "the base of the rotary positions is nan"),
        (1, -8, "<d", 1.1e12, "the base of the rotary positions is 1100000000000.0"),
        (1, -12, "<I", 2, "whether the head is the embedding is 2"),
        (2, 0, "<Q", 511, "the epsilon is 511, and must be at least 512"),
        (2, 0, "<Q", 1 << 63, "the epsilon is 9223372036854775808"),
        (2, 12, "<i", (1 << 22) + 1, "a gain is 4194305"),
        (2, 12, "<i", -(1 << 31), "a gain is -2147483648"),
        (3, 0, "<I", 63, "a shift of query is 63, and must be from 0 to 62"),
        (3, 60, "<I", 63, "a shift of normed is 63"),
        (3, 80, "<I", 4, "a shift of score is 4, and must be from 6 to 54"),
        (3, 104, "<I", 0, "a number of bits of query is 0, and must be from 1 to 63"),
        (3, 104, "<I", 31, "the remainders of query: they are 32, or each is its shift but at"),
        (3, 104, "<I", 48, "no weights lead to these bits of the remainders of query"),
        (3, -4, "<I", 25, "the fractional bits of a gate is 25"),
        (3, 0, "<I", 62, "the rounding of query by up to 62 bits"),
        (4, 0, "<I", 128, "the products with biases is 128"),
        (4, 0, "<I", 1, "needs 256 bytes and 4 are left"),
    ],
)  # fmt: skip
def test_numbers_that_are_refused(
    key_bytes: bytes, section: int, at: int, form: str, value: float, said: str
) -> None:
    with pytest.raises(InputError) as error:
        parse(with_numbers(key_bytes, section, at, form, value))
    refused(error, "key.qtvk", f"section {section} (", said)
    assert error.value.offset is not None


def test_biases_that_are_refused(key: Key) -> None:
    for value in (1 << 62, -(1 << 62)):
        biases = {"down": np.array([0] * (key.width - 1) + [value])}
        layer = replace(key.constants[1], biases=biases)
        with pytest.raises(InputError, match=rf"section 4 \(biases\), .*a bias is {value}"):
            key_writer(replace(key, constants=(key.constants[0], layer)))
    with pytest.raises(InputError, match="key must be of the type Key"):
        key_writer(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({3: None}, "section 3 (scales): is missing"),
        ({6: b""}, "section 6"),
        ({2: struct.pack("<Q", 512)}, "needs 640 bytes and 0 are left"),
        ({5: bytes(8)}, "the divisors of the angles needs 64 bytes and 8 are left"),
        ({5: bytes(72)}, "8 bytes more than the header"),
    ],
)
def test_sections_that_are_refused(
    key_bytes: bytes, changes: dict[int, bytes | None], said: str
) -> None:
    with pytest.raises(InputError) as error:
        parse(replaced(key_bytes, changes))
    refused(error, "key.qtvk", said)


def test_a_key_of_another_protocol(key_bytes: bytes) -> None:
    with pytest.raises(InputError, match="the protocol is 'quod transformer proof 2', and Quod"):
        parse(key_bytes.replace(b"transformer proof 1", b"transformer proof 2"))
    with pytest.raises(InputError, match="the commitment is 'ligero 1/4 100 sha3-256'"):
        parse(key_bytes.replace(b"1/4 110", b"1/4 100"))


def test_a_key_that_cannot_be_written(key: Key, tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        write_key(tmp_path / "none" / "key.qtvk", key)
    assert not list(tmp_path.iterdir())


def test_a_key_is_described(key: Key, key_bytes: bytes) -> None:
    description = describe_file(memoryview(key_bytes), "key.qtvk")
    assert description is not None
    assert description["digest"] == key.digest.hex()
    assert description["sha256_of_model"] == key.model.hex()
    assert (description["layers"], description["tokens"]) == (2, key.vocabulary)
    assert describe_file(memoryview(b"qivk"), "other") is None
