"""Keys of language models as files: containers of the iden3 tools of the kind `qtvk`.

Version 1 has five sections in this order, all integers little-endian. `quod.formats.iden3` has the
container.

1. header: two texts in ASCII, each a u32 length and its bytes: the protocol and the commitment;
   the SHA-256 of the model's file, the roots of the commitments to the weights in the order of
   `COMMITMENTS`, and the digest of the key (`Key.digest`), 32 bytes each; as u32 the layers, the
   width, the hidden width, the heads, the key heads, the channels of a head, the vocabulary and the
   context; u32 1 if the head is the embedding, or else 0; the base of the rotary positions as f64.
2. norms: the epsilon as u64, then a row of gains for each norm, as i32.
3. scales, as u32: the shifts of the kinds of value in `SHIFTED`, for each group of rows; the bits
   of the remainders of those in `WEIGHTED`, for each group; for each layer the fractional bits of
   the gate and of its activation.
4. biases: for each layer a u32 whose bit i says whether product i of `PRODUCTS` has biases, then
   the biases of these products as i64.
5. rope: the divisors of the angles of the rotary positions as f64; empty if there are none.

All other fields of a `Key` follow from these numbers, so a key has exactly one file.

A reader checks each number, but it cannot know the weights. Whether the remainders are wide enough
for the largest sums, and whether the commitments are to the model's weights, only `Prover` knows.
**Trust a key only if you have made it from the model, or trust its source.** Anyone who has the
model and its plan can make the same file again and compare.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np

from quod.errors import InputError
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
from quod.frozen import fields_of
from quod.inference.transformer.program import quotient
from quod.inference.transformer.proof.files.roundings import SHIFTED, WEIGHTED, groups, roundings
from quod.inference.transformer.proof.files.sizes import PRODUCTS, Sizes, read_sizes
from quod.inference.transformer.proof.key import COMMITMENTS, PROTOCOL, SCHEME, Key, LayerConstants
from quod.inference.transformer.proof.vectors import FIELD
from quod.inference.transformer.rounding import Integers, residual_bits
from quod.validation import file_path, instance

KIND = "qtvk"
VERSION = 1

_SECTIONS = (1, 2, 3, 4, 5)
_DIGEST_BYTES = 32
_MAX_BYTES = 16 << 20
_COMMITMENT = SCHEME.parameters()
_MAX_SHIFT = 62
_MAX_FRACTION = 24
_MAX_GAIN = 1 << 22
_MAX_BIAS = 1 << 62
_MIN_EPSILON = 512
_MAX_ROPE_BASE = 1e12
_MIN_ROPE_FACTOR = 2.0**-10
"""With smaller divisors, the series of an angle's sine has too many terms."""


def write_key(path: Path, key: Key) -> None:
    """Write a key atomically; InputError for a key that `read_key` would refuse, `OutputError`."""
    write_atomically(file_path(path), key_writer(key))


def key_writer(key: Key) -> Callable[[BinaryIO], None]:
    """Return a function that writes a key to an open file.

    Raises InputError for a key that `read_key` would refuse: of weights that are too many for a
    proof, or of rotary positions with divisors below 2**-10.
    """
    instance("key", key, Key, "`Prover.key` is one")
    write = iden3_writer(KIND, VERSION, enumerate(_contents(key), 1))
    file = BytesIO()
    write(file)
    parse_key(file.getbuffer(), "the key")
    return write


def _contents(key: Key) -> list[list[Buffer]]:
    sizes, (base, factors) = sizes_of(key), key.rope
    shifts = [shift for kind in SHIFTED for shift in key.roundings[kind].shifts]
    bits = [width for kind in WEIGHTED for width in key.roundings[kind].bits]
    activations = [scale for layer in key.constants for scale in layer.activation]
    biases: list[Buffer] = []
    for layer in key.constants:
        has_bias = [product in layer.biases for product in PRODUCTS]
        biases.append(little_u32(sum(1 << i for i, has in enumerate(has_bias) if has)))
        biases += [layer.biases[p].astype("<i8") for p in PRODUCTS if p in layer.biases]
    return [
        [
            *map(text_bytes, (PROTOCOL, _COMMITMENT)), key.model,
            *(key.roots[name] for name in COMMITMENTS), key.digest,
            *map(little_u32, (*fields_of(sizes).values(), key.is_tied)), struct.pack("<d", base),
        ],
        [key.epsilons[0].to_bytes(8, "little"), key.gains.astype("<i4")],
        [np.array([*shifts, *bits, *activations], "<u4")],
        biases,
        [np.array(factors or (), "<f8")],
    ]  # fmt: skip


def sizes_of(key: Key) -> Sizes:
    """Return the sizes of a key's model."""
    return Sizes(*[getattr(key, name) for name in Sizes.__annotations__])


def read_key(path: Path) -> Key:
    """Read a key; InputError with section and offset for a malformed file.

    The file is checked as far as possible without the weights: see the module's docstring.
    """
    return read_parsed(path, _head_of, parse_key)


def parse_key(data: memoryview, name: str) -> Key:
    """Parse a key as `read_key` does, from bytes; `name` is their source in errors."""
    head = _head_of(data, name)
    file, sizes = head.file, head.sizes
    limit = (1 << residual_bits(sizes.width)) - 1
    epsilon, gains = _norms(file.section(2, "norms"), sizes, limit)
    scales = file.section(3, "scales")
    shifts, bits, activations = _scales(scales, sizes)
    multiplier = quotient(1, sizes.head_width, 0).multiplier
    biases = _biases(file.section(4, "biases"), sizes)
    constants = tuple(
        LayerConstants(layer, multiplier, pair)
        for layer, pair in zip(biases, activations, strict=True)
    )
    start = file.sections[3].offset
    try:
        chosen, score_bits = roundings(sizes, gains, multiplier, limit, shifts, bits, constants)
    except InputError as error:
        scales.fail(error.message, start)
    key = Key(
        model=head.model, **fields_of(sizes),
        rope=(head.rope_base, _rope_factors(file.section(5, "rope"), sizes)),
        residual_limit=limit, gains=gains, epsilons=(epsilon,) * sizes.norms, constants=constants,
        roundings=chosen, score_bits=score_bits, is_tied=head.is_tied, roots=head.roots,
    )  # fmt: skip
    header = file.section(1, "header")
    try:
        for layout in key.weights.values():
            SCHEME.shape(FIELD, layout.log2_size)
    except InputError as error:
        header.fail(f"the weights are too many to be proved: {error.message}")
    if key.digest != head.digest:
        header.fail(
            "the key is not of this digest; the file is damaged, copy it again", head.digest_offset
        )
    return key


class _Head(NamedTuple):
    """The header of a key file, and its container."""

    file: Iden3File
    model: bytes
    roots: dict[str, bytes]
    digest: bytes
    digest_offset: int
    sizes: Sizes
    is_tied: bool
    rope_base: float


def _head_of(data: Bytes, name: str) -> _Head:
    file = Iden3File.parse(data, name, KIND, VERSION)
    check_length(len(data), _MAX_BYTES, "the key of a language model", name)
    file.check_sections(*_SECTIONS, in_order=True)
    header = file.section(1, "header")
    for what, text in (("protocol", PROTOCOL), ("commitment", _COMMITMENT)):
        start = header.offset
        if (stated := header.text(what)) != text:
            header.fail(f"the {what} is {stated!r}, and Quod verifies {text!r}", start)
    model = bytes(header.take(_DIGEST_BYTES, "the model's digest"))
    roots = {
        name: bytes(header.take(_DIGEST_BYTES, f"the root of the {name}")) for name in COMMITMENTS
    }
    digest_offset = header.offset
    digest = bytes(header.take(_DIGEST_BYTES, "the digest"))
    sizes = read_sizes(header)
    is_tied = bool(header.number("whether the head is the embedding", 0, 1))
    start = header.offset
    (base,) = struct.unpack("<d", header.take(8, "the base of the rotary positions"))
    if not 1 < base <= _MAX_ROPE_BASE:
        header.fail(f"the base of the rotary positions is {base}, not above 1 up to 1e12", start)
    header.finish()
    return _Head(file, model, roots, digest, digest_offset, sizes, is_tied, base)


def _norms(section: SectionReader, sizes: Sizes, limit: int) -> tuple[int, Integers]:
    """Read the epsilon and the gains."""
    start = section.offset
    epsilon = section.u64("the epsilon")
    if not _MIN_EPSILON <= epsilon < (1 << 63) - sizes.width * limit**2:
        section.fail(
            f"the epsilon is {epsilon}, and must be at least {_MIN_EPSILON} and leave room for "
            f"the squares of {sizes.width} channels in 63 bits",
            start,
        )
    gains = section.integers("<i4", sizes.norms * sizes.width, -_MAX_GAIN, _MAX_GAIN, "a gain")
    section.finish()
    return epsilon, gains.reshape(sizes.norms, sizes.width)


def _scales(
    section: SectionReader, sizes: Sizes
) -> tuple[dict[str, list[int]], dict[str, list[int]], list[tuple[int, int]]]:
    """Read the shifts and the bits by kind of value, and the scales of the activation by layer."""
    # Half a step of scores has the fractional bits of queries and keys, from 0 to 24 each.
    half_step = quotient(1, sizes.head_width, 0).shift - 1
    limits = {"score": (half_step, min(half_step + 2 * _MAX_FRACTION, _MAX_SHIFT))}

    def numbers(kind: str, low: int, high: int, what: str) -> list[int]:
        name = f"{what} of {kind}"
        return list(section.integers("<u4", groups(sizes, kind), low, high, name).tolist())

    shifts = {
        kind: numbers(kind, *limits.get(kind, (0, _MAX_SHIFT)), "a shift") for kind in SHIFTED
    }
    bits = {kind: numbers(kind, 1, 63, "a number of bits") for kind in WEIGHTED}
    scales = section.integers(
        "<u4", 2 * sizes.layers, 0, _MAX_FRACTION, "the fractional bits of a gate"
    ).tolist()
    section.finish()
    return shifts, bits, list(zip(scales[::2], scales[1::2], strict=True))


def _biases(section: SectionReader, sizes: Sizes) -> list[dict[str, Integers]]:
    """Read the biases of each layer by product."""
    layers = []
    for _ in range(sizes.layers):
        mask = section.number("the products with biases", 0, (1 << len(PRODUCTS)) - 1)
        layers.append({
            product: section.integers(
                "<i8", sizes.rows(product), 1 - _MAX_BIAS, _MAX_BIAS - 1, "a bias"
            )
            for index, product in enumerate(PRODUCTS)
            if mask >> index & 1
        })  # fmt: skip
    section.finish()
    return layers


def _rope_factors(section: SectionReader, sizes: Sizes) -> tuple[float, ...] | None:
    """Read the divisors of the angles; None if there are none."""
    if not section.remaining:
        return None
    start = section.offset
    data = section.take(8 * (sizes.head_width // 2), "the divisors of the angles")
    section.finish()
    factors = struct.unpack(f"<{sizes.head_width // 2}d", data)
    for index, factor in enumerate(factors):
        if not _MIN_ROPE_FACTOR <= factor < math.inf:
            section.fail(
                f"a divisor of the angles is {factor}, and must be at least 2^-10 and finite",
                start + 8 * index,
            )
    return factors
