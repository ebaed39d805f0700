"""Codewords, the encoding kernel and the Merkle tree, each against its definition."""

from __future__ import annotations

import hashlib
import itertools
import random

import numpy as np
import pytest

from quod.commitment.ligero.code import Code, circle_generator, max_log_length, points
from quod.commitment.ligero.encode import encode_rows
from quod.commitment.ligero.merkle import leaves_of, root, siblings
from quod.commitment.ligero.tree import hash_columns, hash_pairs
from quod.device.protocol import AnyDevice
from quod.field import NAMED, Modulus, from_integers, random_elements, to_integers
from quod.field.integers import ELEMENT, TYPE_OF_DTYPE
from quod.transcript import Hash
from tests.commitment.tables import TOY_17, TOY_31
from tests.reference import ligero as reference
from tests.support.thorough import one_and_others

MODULI = {
    **{name: NAMED[name] for name in ("m31", "goldilocks", "baby_bear", "koala_bear")},
    "toy.17": TOY_17, "toy.31": TOY_31,
}  # fmt: skip


@pytest.mark.parametrize("name", MODULI)
def test_codewords_are_evaluations(name: str) -> None:
    modulus = MODULI[name]
    generator = random.Random(1)
    for log_message, log_length in ((0, 1), (0, 3), (1, 2), (2, 4), (3, 4), (1, 1), (4, 7)):
        if log_length > max_log_length(modulus):
            continue
        code = Code(modulus, log_message, log_length)
        places = points(modulus, log_length)
        assert places == reference.points(modulus, log_length)
        assert len(set(places)) == code.length
        message = [generator.randrange(modulus.value) for _ in range(code.message)]
        message[0] = modulus.value - 1
        word = [reference.word_at(modulus.value, message, place) for place in places]
        assert code.values_at(message, range(code.length)) == word
        some = sorted(generator.sample(range(code.length), 2))
        assert code.values_at(message, some) == [word[place] for place in some]


def test_the_circle_of_m31() -> None:
    """The generator is that of Stwo and Plonky3, and all points are on the circle."""
    p, (x, y) = NAMED["m31"].value, circle_generator(NAMED["m31"])
    assert (x, y) == (2, 1268011823)
    assert reference.circle_power(p, (x, y), 1 << 30) == (p - 1, 0)
    circle = points(NAMED["m31"], 8)
    assert all((x * x + y * y) % p == 1 for x, y in circle)  # type: ignore[misc]
    assert [max_log_length(MODULI[name]) for name in MODULI] == [30, 32, 27, 24, 4, 4]


@pytest.mark.parametrize("modulus", [TOY_17, TOY_31], ids=["roots", "circle"])
def test_code_distance(modulus: Modulus) -> None:
    """No two codewords of a small code agree in more positions than a message has elements."""
    for log_message, log_length in ((0, 2), (1, 3), (1, 4), (2, 3)):
        code = Code(modulus, log_message, log_length)
        most = 0
        columns = [
            code.values_at([int(index == at) for at in range(code.message)], range(code.length))
            for index in range(code.message)
        ]
        # One of the coefficients may be 1, as words of multiples vanish in the same places.
        for message in itertools.product(range(modulus.value), repeat=code.message - 1):
            for index in ([*message, 1], [1, *message]):
                values = np.array(index) @ np.array(columns) % modulus.value
                most = max(most, int((values == 0).sum()))
        assert most <= code.message - (0 if modulus is TOY_31 else 1)


@pytest.mark.parametrize("name", MODULI)
def test_rows_are_encoded(device: AnyDevice, name: str) -> None:
    """With tiles as long as a row, and shorter ones."""
    modulus = MODULI[name]
    sizes = ((2, 4, 2), (2, 4, 1)) if name.startswith("toy") else ((6, 8, 6), (6, 7, 4), (0, 2, 0))
    for log_message, log_length, log_tile in sizes:
        check_encoded(device, Code(modulus, log_message, log_length), log_tile, lanes=8)


def test_rows_are_encoded_by_many_instances(gpu_device: AnyDevice) -> None:
    check_encoded(gpu_device, Code(NAMED["m31"], 8, 9), 7, lanes=32)


@pytest.mark.crossed("device", "dtype")
@pytest.mark.parametrize(
    "dtype", one_and_others(["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"], always=["i2", "i4"])
)
@pytest.mark.parametrize("name", ["goldilocks", "m31"])
def test_rows_of_integers_are_encoded(device: AnyDevice, name: str, dtype: str) -> None:
    """Rows of integers, with tiles as long as a row, and sums of 16 weighted integers."""
    code = Code(NAMED[name], 6, 7)
    if np.dtype(dtype).itemsize <= code.modulus.bytes:
        for log_tile in (6, 2):
            check_encoded(device, code, log_tile, lanes=8, dtype=dtype)


def test_rows_of_integers_are_encoded_by_many_instances(gpu_device: AnyDevice) -> None:
    for dtype in ("i2", "u1"):
        check_encoded(gpu_device, Code(NAMED["goldilocks"], 7, 8), 4, lanes=32, dtype=dtype)


def check_encoded(
    device: AnyDevice, code: Code, log_tile: int, *, lanes: int, dtype: str | None = None
) -> None:
    rows, modulus = 3, code.modulus
    messages, type_name = random_elements(modulus, rows * code.message, seed=1), ELEMENT
    messages[: code.message] = from_integers(modulus, [modulus.value - 1] * code.message)
    inputs = to_integers(modulus, messages)
    if dtype is not None:
        limits, type_name = np.iinfo(dtype), TYPE_OF_DTYPE[np.dtype(dtype)]
        drawn = random.Random(1).choices([limits.min, limits.max, 1, 77], k=len(inputs))
        messages = np.array(drawn, dtype)
        messages[: code.message] = limits.max
        inputs = [int(number) % modulus.value for number in messages]
    words = np.full((rows * code.length, modulus.words), 0xFFFFFFFF, np.uint32)
    log_tiles = code.log_length - log_tile
    kernel = device.compile(
        encode_rows, lanes=lanes, modulus=modulus, log_tile=log_tile,
        log_folded=code.log_message - log_tile, type_name=type_name,
    )  # fmt: skip
    table = from_integers(modulus, list(code.twiddles()))
    tiles = rows << log_tiles
    device.launch(
        kernel, tiles - 1, tiles, log_tiles, messages.view(np.uint32), table, words
    )  # fmt: skip
    codewords = to_integers(modulus, words)
    for row in range(rows):
        message = inputs[row * code.message : (row + 1) * code.message]
        codeword = codewords[row * code.length : (row + 1) * code.length]
        assert codeword == code.values_at(message, range(code.length))


@pytest.mark.parametrize("name", ["m31", "goldilocks"])
def test_trees_match_hashlib(device: AnyDevice, name: str) -> None:
    """Trees of columns shorter and longer than a block, and just as long."""
    modulus, block = NAMED[name], 136 // NAMED[name].bytes
    for rows, log_columns in ((1, 1), (8, 3), (block - 1, 2), (block, 1), (2 * block + 3, 2)):
        check_tree(device, modulus, rows, log_columns)


def test_the_tree_on_gpus(gpu_device: AnyDevice) -> None:
    check_tree(gpu_device, NAMED["m31"], 40, 3)


def check_tree(device: AnyDevice, modulus: Modulus, rows: int, log_columns: int) -> None:
    columns = 1 << log_columns
    matrix = random_elements(modulus, rows * columns, seed=2)
    tree = device.upload(np.zeros((2 * columns, 8), np.uint32))
    kernel = device.compile(hash_columns, lanes=8, modulus=modulus, rows=rows)
    device.launch(kernel, -(-columns // 8), columns, matrix, tree)
    pairs = device.compile(hash_pairs, lanes=8)
    for level in reversed(range(log_columns)):
        device.launch(pairs, -(-(1 << level) // 8), 1 << level, tree)
    digests = np.zeros((2 * columns, 8), np.uint32)
    device.download(tree, digests)

    integers = to_integers(modulus, matrix)
    data = [
        b"".join(entry.to_bytes(modulus.bytes, "little") for entry in integers[column::columns])
        for column in range(columns)
    ]
    leaves = [hashlib.sha3_256(each + b"\0").digest() for each in data]
    assert leaves == leaves_of(Hash.SHA3_256, data)
    level = leaves
    nodes = {columns + place: digest for place, digest in enumerate(leaves)}
    for start in (columns >> step for step in range(1, log_columns + 1)):
        pairs_of = zip(level[::2], level[1::2], strict=True)
        level = [hashlib.sha3_256(a + b + b"\1").digest() for a, b in pairs_of]
        nodes |= {start + place: digest for place, digest in enumerate(level)}
    assert {node: digests[node].tobytes() for node in nodes} == nodes


def test_roots_of_some_leaves() -> None:
    """Every set of leaves of a small tree shows the root, with no node that another gives."""
    leaves = leaves_of(Hash.SHA3_256, [bytes([number]) for number in range(8)])
    tree = reference.Tree(leaves)
    nodes = {
        (len(level)) + place: digest
        for level in tree.levels for place, digest in enumerate(level)
    }  # fmt: skip
    for count in range(1, 9):
        for places in itertools.combinations(range(8), count):
            others = siblings(3, places)
            shown = [nodes[node] for node in others]
            assert b"".join(shown) == tree.shown(places)
            opened = [leaves[place] for place in places]
            assert root(Hash.SHA3_256, 3, places, opened, shown) == nodes[1]


def test_codeword_length_limit() -> None:
    assert max_log_length(Modulus("toy.13", 13)) == 2
    assert max_log_length(Modulus("toy.19", 19)) == 1
