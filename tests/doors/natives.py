"""The functions that gadgets prove, points of Edwards curves, and Sapling, in the table of public
calls."""

from __future__ import annotations

from collections.abc import Iterator

from quod import curve
from quod import zcash as sapling
from quod.curve import EDWARDS
from quod.field import NAMED
from quod.hash import keccak_256, recursive_hash
from quod.r1cs import reference as native
from tests.doors.row import Row

JUBJUB = EDWARDS["jubjub"]
SEED = bytes(32)
KEY = sapling.SpendingKey.from_seed(SEED).viewing_key
ADDRESS = KEY.address(sapling.default_diversifier(SEED))
SIGNATURE = native.eddsa_sign(SEED, 1)
PUBLIC = native.eddsa_public_key(SEED)
ELEMENT = ("huge",)


def rows() -> Iterator[tuple[str, Row]]:
    """Of Edwards curves, native functions and Sapling."""
    generator = JUBJUB.generator
    encoded = curve.encode_edwards(JUBJUB, generator)
    yield "edwards_group", Row(curve.edwards_group, {"curve": JUBJUB})
    yield (
        "encode_edwards",
        Row(curve.encode_edwards, {"curve": JUBJUB, "point": generator, "sign": "zcash"}),
    )
    yield (
        "decode_edwards",
        Row(
            curve.decode_edwards,
            {"curve": JUBJUB, "data": encoded, "sign": "zcash", "check_subgroup": True},
            {"check_subgroup": ("true",)},
        ),
    )
    yield from _hashes()
    yield from _signatures()
    yield from _trees()
    yield from _sapling()


def _hashes() -> Iterator[tuple[str, Row]]:
    yield "recursive_hash", Row(recursive_hash, {"field": NAMED["m31"]})
    byte_hashes = (keccak_256, native.blake_256, native.blake_512, native.pedersen_bytes)
    for call in (*byte_hashes, native.bytes_to_bits):
        yield call.__name__, Row(call, {"data": b""}, {"data": ("bytes",)})
    for call in (native.group_hash, native.find_group_hash):
        fine = {"personalisation": ("bytes",), "tag": ("bytes",)}
        yield call.__name__, Row(call, {"personalisation": b"Zcash_cv", "tag": b"v"}, fine)
    yield "pedersen_point", Row(native.pedersen_point, {"bits": [1]}, {"bits": ("a set",)})
    yield (
        "sapling_pedersen_point",
        Row(native.sapling_pedersen_point, {"personalisation": [1] * 6, "bits": [1]}),
    )
    yield (
        "poseidon_hash",
        Row(native.poseidon_hash, {"inputs": [1], "initial": 0}, {"initial": ELEMENT}),
    )
    yield (
        "poseidon_outputs",
        Row(
            native.poseidon_outputs, {"inputs": [1], "count": 1, "initial": 0}, {"initial": ELEMENT}
        ),
    )
    yield "mimc7", Row(native.mimc7, {"value": 1, "key": 1}, {"value": ELEMENT, "key": ELEMENT})
    yield "mimc7_hash", Row(native.mimc7_hash, {"values": [1], "key": 1}, {"key": ELEMENT})
    halves = {"left": 1, "right": 1, "key": 1}
    yield "mimc_feistel", Row(native.mimc_feistel, halves, dict.fromkeys(halves, ELEMENT))
    yield (
        "mimc_sponge",
        Row(native.mimc_sponge, {"values": [1], "key": 1, "outputs": 1}, {"key": ELEMENT}),
    )


def _signatures() -> Iterator[tuple[str, Row]]:
    yield "eddsa_public_key", Row(native.eddsa_public_key, {"private_key": SEED})
    yield (
        "eddsa_sign",
        Row(native.eddsa_sign, {"private_key": SEED, "message": 1}, {"message": ELEMENT}),
    )
    yield "eddsa_verify", Row(
        native.eddsa_verify, {"public_key": PUBLIC, "message": 1, "signature": SIGNATURE},
        {"message": ELEMENT},
    )  # fmt: skip
    yield "EddsaSignature", Row(native.EddsaSignature, {"r8": PUBLIC, "s": 1}, {"s": ELEMENT})
    yield (
        "EddsaSignature.from_bytes",
        Row(native.EddsaSignature.from_bytes, {"data": SIGNATURE.to_bytes()}),
    )


def _trees() -> Iterator[tuple[str, Row]]:
    for call in (native.poseidon_node, native.mimc_sponge_node):
        nodes = {"left": ELEMENT, "right": ELEMENT}
        level = ("None", "a float", "true", "negative", "huge", "text", "bytes", "a list", "a set")
        level += ("a mapping", "a class", "floats", "a mask", "hostile", "an object")
        # The level is Sapling's alone.
        yield (
            call.__name__,
            Row(call, {"level": 0, "left": 1, "right": 1}, {**nodes, "level": level}),
        )
    yield "sapling_node", Row(
        native.sapling_node, {"level": 0, "left": 1, "right": 1},
        {"left": ELEMENT, "right": ELEMENT},
    )  # fmt: skip
    yield (
        "merkle_root",
        Row(
            native.merkle_root,
            {"leaf": 1, "siblings": [2], "position": 0, "compress": native.poseidon_node},
            {"leaf": ELEMENT},
        ),
    )
    yield (
        "merkle_path",
        Row(
            native.merkle_path,
            {
                "leaves": [1, 2],
                "position": 0,
                "depth": 1,
                "empty": 0,
                "compress": native.poseidon_node,
            },
            {"empty": ELEMENT},
        ),
    )


def _sapling() -> Iterator[tuple[str, Row]]:
    diversifier, point = ADDRESS.diversifier, ADDRESS.transmission_key
    text = curve.encode_edwards(JUBJUB, point)
    yield "diversify_hash", Row(sapling.diversify_hash, {"diversifier": diversifier})
    yield (
        "PaymentAddress",
        Row(sapling.PaymentAddress, {"diversifier": diversifier, "transmission_key": point}),
    )
    yield (
        "PaymentAddress.from_bytes",
        Row(sapling.PaymentAddress.from_bytes, {"data": ADDRESS.to_bytes()}),
    )
    scalar = {"ask": ("huge",), "nsk": ("huge",)}
    yield "SpendingKey", Row(sapling.SpendingKey, {"ask": 1, "nsk": 1, "ovk": SEED}, scalar)
    yield "SpendingKey.from_seed", Row(sapling.SpendingKey.from_seed, {"seed": SEED})
    yield "ViewingKey", Row(sapling.ViewingKey, {"ak": KEY.ak, "nk": KEY.nk, "ovk": SEED})
    yield "default_diversifier", Row(sapling.default_diversifier, {"seed": SEED})
    yield (
        "incoming_address",
        Row(sapling.incoming_address, {"ivk": 1, "diversifier": diversifier}, {"ivk": ("huge",)}),
    )
    yield "Note", Row(sapling.Note, {"address": ADDRESS, "value": 1, "rcm": 1}, {"rcm": ("huge",)})
    yield "ephemeral_secret", Row(sapling.ephemeral_secret, {"rseed": SEED})
    yield (
        "value_commitment",
        Row(sapling.value_commitment, {"value": 1, "rcv": 1}, {"rcv": ("huge",)}),
    )
    yield (
        "OutputStatement",
        Row(sapling.OutputStatement.from_bytes, {"cv": text, "epk": text, "cmu": SEED}),
    )
    yield "encode_scalar", Row(sapling.encode_scalar, {"value": 1}, {"value": ("huge",)})
    yield "decode_scalar", Row(sapling.decode_scalar, {"name": "rcm", "data": SEED}, {
        "name": ("None", "a float", "true", "negative", "huge", "text", "bytes", "a list", "a set",
                 "a mapping", "a class", "floats", "a mask", "hostile", "an object"),
    })  # fmt: skip
