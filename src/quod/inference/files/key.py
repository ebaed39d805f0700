"""Verifying keys as files: containers of the iden3 tools (`quod.formats.iden3`) of the kind `qivk`.

Version 1 has four sections, all integers little-endian. The first has two texts in ASCII, each a
u32 length and its bytes: the protocol, which names the field of challenges unless that is the first
of `FIELDS`, and the commitment; the u32 number of widths and the widths as u32; the u32 bits of the
table; the root of the weights' commitment in 32 bytes, and the digest of the key
(`VerifyingKey.digest`) in as many. The second has the biases of all layers as i32, the third the
multipliers of the hidden layers as u32. The fourth has the proof that the weights have eight bits,
preceded by its SHA3-256.

A prover needs only the perceptron's file in addition to the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from quod.field.spec import FieldSpec
from quod.formats.iden3 import (
    Buffer,
    Iden3File,
    SectionReader,
    iden3_writer,
    little_u32,
    text_bytes,
)
from quod.formats.output import write_atomically
from quod.formats.source import Bytes, Path, check_length, read_parsed
from quod.inference.perceptron import MAX_LAYERS, MAX_TABLE_BITS, MAX_WIDTH
from quod.inference.statement import (
    FIELDS,
    ROOT_BYTES,
    SCHEME,
    VerifyingKey,
    protocol_of,
)
from quod.wording import alternatives

KIND = "qivk"
VERSION = 1

_DIGEST_BYTES = 32
# Most of a key is the proof of the weights; its size grows as the root of their number.
_MAX_BYTES = 256 << 20
_PROTOCOLS = {protocol_of(field): field for field in FIELDS}
"""The field of challenges by the name of the protocol."""

_COMMITMENT = f"{SCHEME.name} {SCHEME.parameters()}"


def write_verifying_key(path: Path, key: VerifyingKey) -> None:
    """Write a key atomically. InputError for an object that is not a key, and `OutputError`."""
    write_atomically(path, key_writer(key))


def key_writer(key: VerifyingKey) -> Callable[[BinaryIO], None]:
    """Return a function that writes a key to an open file."""
    return iden3_writer(KIND, VERSION, _sections(key))


def _sections(key: VerifyingKey) -> list[tuple[int, list[Buffer]]]:
    numbers = (len(key.widths), *key.widths, key.table_bits)
    header: list[Buffer] = [
        text_bytes(protocol_of(key.field)),
        text_bytes(_COMMITMENT),
        *map(little_u32, numbers),
        key.root,
        key.digest,
    ]
    return [
        (1, header),
        (2, [np.array([n for row in key.biases for n in row], "<i4")]),
        (3, [np.array([n for row in key.multipliers for n in row], "<u4")]),
        (4, [hashlib.sha3_256(key.weights_proof).digest(), key.weights_proof]),
    ]


def read_verifying_key(path: Path) -> VerifyingKey:
    """Read a key; InputError with section and offset for a malformed file.

    This does not verify `weights_proof`: `verify` does at the first use of the key, and
    `VerifyingKey.check_weights` at once.
    """
    return read_parsed(path, _head_of, parse_verifying_key)


def parse_verifying_key(data: memoryview, name: str) -> VerifyingKey:
    """Parse a key as `read_verifying_key`, from bytes; `name` is their source in errors."""
    file, header, field, widths, table_bits = _head_of(data, name)
    root = bytes(header.take(ROOT_BYTES, "the root"))
    digest_start = header.offset
    digest = bytes(header.take(_DIGEST_BYTES, "the digest"))
    header.finish()
    biases = tuple(_rows(file.section(2, "biases"), widths[1:], "<i4"))
    multipliers = tuple(_rows(file.section(3, "multipliers"), widths[1:-1], "<u4"))
    section = file.section(4, "weights proof")
    start = section.offset
    stated_digest = bytes(section.take(_DIGEST_BYTES, "the digest of the proof"))
    proof = bytes(section.remainder("the proof"))
    if hashlib.sha3_256(proof).digest() != stated_digest:
        section.fail("the proof is not of this digest; the file is damaged, copy it again", start)
    key = VerifyingKey(widths, table_bits, biases, multipliers, root, proof, field)
    if key.digest != digest:
        header.fail(
            "the key is not of this digest; the file is damaged, copy it again", digest_start
        )
    return key


class _Head(NamedTuple):
    """The beginning of a key file.

    file: The container.
    header: A reader of its first section, after the bits of the table.
    field: The field of challenges, which the protocol's name says.
    widths: The numbers of activations, inputs first.
    table_bits: The bits of the activation table.
    """

    file: Iden3File
    header: SectionReader
    field: FieldSpec
    widths: tuple[int, ...]
    table_bits: int


def _head_of(data: Bytes, name: str) -> _Head:
    file = Iden3File.parse(data, name, KIND, VERSION)
    check_length(len(data), _MAX_BYTES, "the verifying key of an inference", name)
    file.check_sections(1, 2, 3, 4)
    header = file.section(1, "header")
    field = _PROTOCOLS[_text_of(header, "protocol", list(_PROTOCOLS))]
    _text_of(header, "commitment", [_COMMITMENT])
    count = header.number("the number of widths", 3, MAX_LAYERS + 1)
    widths = tuple(header.number("a width", 1, MAX_WIDTH) for _ in range(count))
    table_bits = header.number("the bits of the table", 8, MAX_TABLE_BITS)
    return _Head(file, header, field, widths, table_bits)


def _text_of(header: SectionReader, what: str, wanted: Sequence[str]) -> str:
    start = header.offset
    if (text := header.text(what)) not in wanted:
        listed = alternatives(map(repr, wanted))
        header.fail(f"the {what} is {text!r}, and Quod verifies {listed}", start)
    return text


def _rows(section: SectionReader, widths: tuple[int, ...], dtype: str) -> Iterator[tuple[int, ...]]:
    """Yield a row per layer: a 32-bit number per output, below 2^31."""
    for layer, width in enumerate(widths):
        start = section.offset
        values = section.words(width, what=f"the row of layer {layer}").view(dtype).astype(np.int64)
        if (too_large := np.flatnonzero(values >= 1 << 31)).size:
            index = int(too_large[0])
            section.fail(f"a multiplier is {values[index]}, not below 2^31", start + 4 * index)
        yield tuple(values.tolist())
    section.finish()
