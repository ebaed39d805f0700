"""Encodings against py-arkworks, py_ecc, the Zcash files and points made to be refused."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bls12_381
from py_ecc.bls import point_compression

from quod.curve.affine_law import AffineGroup
from quod.curve.encoding.points import (
    decode_arkworks_g1,
    decode_arkworks_g2,
    decode_eip196_g1,
    decode_eip197_g2,
    decode_eip2537_fp,
    decode_eip2537_fp2,
    decode_eip2537_g1,
    decode_eip2537_g2,
    decode_point,
    decode_zcash_g1,
    decode_zcash_g2,
    encode_arkworks_g1,
    encode_arkworks_g2,
    encode_eip196_g1,
    encode_eip197_g2,
    encode_eip2537_g1,
    encode_eip2537_g2,
    encode_zcash_g1,
    encode_zcash_g2,
)
from quod.curve.groups import GROUPS
from quod.curve.named.bls12_377 import BLS12_377
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import G1Point, G2Point
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.errors import InputError
from tests.reference.circom import Proof, VerifyingKey
from tests.reference.curve import TwistedEdwards
from tests.reference.field import PrimeField
from tests.reference.groth16 import verify

Encode = Callable[[Any], bytes]
Decode = Callable[..., Any]


def forms() -> dict[str, tuple[AffineGroup[Any], Encode, Decode]]:
    """Every encoding by name: the group, the encoder and the decoder."""
    encodings: dict[str, tuple[AffineGroup[Any], Encode, Decode]] = {
        "eip2537_g1": (g1_group(BLS12_381), encode_eip2537_g1, decode_eip2537_g1),
        "eip2537_g2": (g2_group(BLS12_381), encode_eip2537_g2, decode_eip2537_g2),
        "eip196_g1": (g1_group(BN254), encode_eip196_g1, decode_eip196_g1),
        "eip197_g2": (g2_group(BN254), encode_eip197_g2, decode_eip197_g2),
    }
    for compressed in (True, False):

        def zcash(encode: Any, decode: Any, form: bool = compressed) -> tuple[Encode, Decode]:
            return (
                lambda point: encode(point, compressed=form),
                lambda data, **options: decode(data, compressed=form, **options),
            )

        def ark(
            encode: Any, decode: Any, curve: Any, form: bool = compressed
        ) -> tuple[Encode, Decode]:
            return (
                lambda point: encode(curve, point, compressed=form),
                lambda data, **options: decode(curve, data, compressed=form, **options),
            )

        kind = "compressed" if compressed else "uncompressed"
        g1, g2 = g1_group(BLS12_381), g2_group(BLS12_381)
        encodings[f"zcash_g1_{kind}"] = (g1, *zcash(encode_zcash_g1, decode_zcash_g1))
        encodings[f"zcash_g2_{kind}"] = (g2, *zcash(encode_zcash_g2, decode_zcash_g2))
        for curve in (BN254, BLS12_377):
            for group, encode, decode in (
                (g1_group(curve), encode_arkworks_g1, decode_arkworks_g1),
                (g2_group(curve), encode_arkworks_g2, decode_arkworks_g2),
            ):
                encodings[f"arkworks_{group.name}_{kind}"] = (group, *ark(encode, decode, curve))
    return encodings


FORMS = forms()
each_form = pytest.mark.parametrize("form", FORMS)


@settings(max_examples=200)
@given(form=st.sampled_from(sorted(FORMS)), scalar=st.integers(-(2**64), 2**64))
def test_round_trip(form: str, scalar: int) -> None:
    group, encode, decode = FORMS[form]
    point = group.multiply(scalar, group.generator)
    assert decode(encode(point)) == point
    assert len(encode(point)) == len(encode(None))


@each_form
def test_infinity_and_wrong_lengths(form: str) -> None:
    group, encode, decode = FORMS[form]
    assert decode(encode(None)) is None
    data = encode(None)
    for at in (1, len(data) // 2, len(data) - 2):
        with pytest.raises(InputError):
            decode(data[:at] + b"\x01" + data[at + 1 :])
    data = encode(group.generator)
    for wrong in (data[:-1], data + b"\x00"):
        with pytest.raises(InputError, match=rf"expected {len(data)} bytes, not {len(wrong)}"):
            decode(wrong)
    with pytest.raises(InputError):
        decode(b"")


@settings(max_examples=400)
@given(form=st.sampled_from(sorted(FORMS)), data=st.data())
def test_decoded_points_encode_to_the_same_bytes(form: str, data: st.DataObject) -> None:
    """Encodings are unique: damaged bytes are rejected or decode to another point."""
    group, encode, decode = FORMS[form]
    valid = encode(group.multiply(data.draw(st.integers(0, 1000)), group.generator))
    raw = bytearray(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        point = decode(bytes(raw), **({} if form == "eip196_g1" else {"check_subgroup": False}))
    except InputError:
        return
    assert encode(point) == raw
    assert group.contains(point)


@settings(max_examples=200)
@given(form=st.sampled_from(sorted(FORMS)), raw=st.binary(min_size=1, max_size=300))
def test_arbitrary_bytes(form: str, raw: bytes) -> None:
    _, encode, decode = FORMS[form]
    size = len(encode(None))
    raw = (raw * size)[:size]
    try:
        point = decode(raw)
    except InputError:
        return
    assert encode(point) == raw


@each_form
def test_coordinates_of_the_modulus_or_more(form: str) -> None:
    """p in place of a coefficient, with the flags kept, is not another way to write 0."""
    group, encode, decode = FORMS[form]
    field = group.field
    data = encode(group.generator)
    coordinates = 1 if form.endswith("_compressed") else 2
    size = len(data) // (coordinates * field.degree)
    little = form.startswith("arkworks")
    flags = 0 if form.startswith("eip") else 0xC0 if little else 0xE0
    for at in range(0, len(data), size):
        edge = at + size - 1 if little else at
        for value in (field.p, field.p + 1):
            raw = bytearray(data)
            raw[at : at + size] = value.to_bytes(size, "little" if little else "big")
            raw[edge] |= data[edge] & flags
            with pytest.raises(InputError, match="not below the modulus"):
                decode(bytes(raw))


@each_form
def test_points_off_the_curve(form: str) -> None:
    group, encode, decode = FORMS[form]
    field = group.field
    if "_compressed" in form:
        x = field.one
        while field.square_root(group.right_side(x)) is not None:
            x = field.add(x, field.one)
        with pytest.raises(InputError, match="no point of the curve has this x"):
            decode(encode((x, field.one)))
    else:
        x, y = group.generator
        with pytest.raises(InputError, match="not on the curve"):
            decode(encode((x, field.add(y, field.one))))


@each_form
def test_points_outside_the_subgroup(form: str) -> None:
    group, encode, decode = FORMS[form]
    if group.cofactor == 1:
        assert group.in_subgroup(group.generator)
        return
    field = group.field
    x = field.one
    while True:
        y = field.square_root(group.right_side(x))
        if y is not None and group.multiply(group.order, (x, y)) is not None:
            break
        x = field.add(x, field.one)
    with pytest.raises(InputError, match="not in the subgroup of order r"):
        decode(encode((x, y)))
    assert decode(encode((x, y)), check_subgroup=False) == (x, y)


def test_points_with_y_zero() -> None:
    """BLS12-377 has points of order two, which have no sign."""
    group = g1_group(BLS12_377)
    point = (BLS12_377.fq.value - 1, 0)
    assert group.contains(point)
    data = encode_arkworks_g1(BLS12_377, point)
    assert decode_arkworks_g1(BLS12_377, data, check_subgroup=False) == point
    with pytest.raises(InputError, match="not in the subgroup"):
        decode_arkworks_g1(BLS12_377, data)
    with pytest.raises(InputError, match="sign bit is set although y is 0"):
        decode_arkworks_g1(BLS12_377, data[:-1] + bytes([data[-1] | 0x80]))


@pytest.mark.parametrize("scalar", [0, 1, 2, 3, 1000, BLS12_381.fr.value - 1])
def test_zcash_form_of_py_arkworks(scalar: int) -> None:
    g1, g2, factor = g1_group(BLS12_381), g2_group(BLS12_381), arkworks.Scalar(scalar)
    theirs = bytes((arkworks.G1Point() * factor).to_compressed_bytes())
    assert encode_zcash_g1(g1.multiply(scalar, g1.generator)) == theirs
    theirs = bytes((arkworks.G2Point() * factor).to_compressed_bytes())
    assert encode_zcash_g2(g2.multiply(scalar, g2.generator)) == theirs


@pytest.mark.parametrize("scalar", [1, 2, 5, BLS12_381.fr.value - 7])
def test_zcash_form_of_py_ecc(scalar: int) -> None:
    g1, g2 = g1_group(BLS12_381), g2_group(BLS12_381)
    ecc: Any = optimized_bls12_381
    z = point_compression.compress_G1(ecc.multiply(ecc.G1, scalar))
    assert encode_zcash_g1(g1.multiply(scalar, g1.generator)) == z.to_bytes(48, "big")
    z1, z2 = point_compression.compress_G2(ecc.multiply(ecc.G2, scalar))
    expected = z1.to_bytes(48, "big") + z2.to_bytes(48, "big")
    assert encode_zcash_g2(g2.multiply(scalar, g2.generator)) == expected


def test_zcash_flags() -> None:
    data = encode_zcash_g1(g1_group(BLS12_381).generator)
    assert data.hex().startswith("97f1d3a73197d794")
    assert encode_zcash_g1(None).hex() == "c0" + "00" * 47
    assert encode_zcash_g2(None, compressed=False).hex() == "40" + "00" * 191
    with pytest.raises(InputError, match="not those of a compressed point"):
        decode_zcash_g1(bytes([data[0] & 0x7F]) + data[1:])
    uncompressed = encode_zcash_g1(g1_group(BLS12_381).generator, compressed=False)
    for flag, message in ((0x80, "an uncompressed point"), (0x20, "has no sign bit")):
        with pytest.raises(InputError, match=message):
            decode_zcash_g1(bytes([uncompressed[0] | flag]) + uncompressed[1:], compressed=False)
    for infinity in (b"\xe0" + bytes(47), b"\xc0" + bytes(46) + b"\x01"):
        with pytest.raises(InputError, match="infinity has bits set"):
            decode_zcash_g1(infinity)


def test_arkworks_flags() -> None:
    """The generator of BN254 is (1, 2): a positive y, no flags."""
    encoded_x = b"\x01" + bytes(31)
    minus = g1_group(BN254).negate((1, 2))
    assert encode_arkworks_g1(BN254, (1, 2)) == encoded_x
    assert encode_arkworks_g1(BN254, minus) == encoded_x[:-1] + b"\x80"
    assert encode_arkworks_g1(BN254, None) == bytes(31) + b"\x40"
    assert encode_arkworks_g1(BN254, (1, 2), compressed=False) == encoded_x + b"\x02" + bytes(31)
    with pytest.raises(InputError, match="infinity has bits set"):
        decode_arkworks_g1(BN254, bytes(31) + b"\xc0")
    with pytest.raises(InputError, match="sign bit contradicts y"):
        decode_arkworks_g1(BN254, encoded_x + b"\x02" + bytes(30) + b"\x80", compressed=False)
    with pytest.raises(InputError, match="Zcash form"):
        encode_arkworks_g1(BLS12_381, None)
    with pytest.raises(InputError, match="Zcash form"):
        decode_arkworks_g2(BLS12_381, bytes(96))


GENERATOR = encode_zcash_g1(BLS12_381.g1.generator)


@pytest.mark.parametrize("wrong", ["x" * 48, None, 48, [0] * 48, np.zeros(48, np.uint8)], ids=repr)
def test_non_bytes_are_rejected(wrong: Any) -> None:
    for decode in (
        decode_zcash_g1, decode_eip196_g1, decode_eip2537_fp, decode_eip2537_fp2,
        functools.partial(decode_arkworks_g1, BN254),
        functools.partial(decode_point, GROUPS["bn254.g1"]),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"g[12]: a point is bytes, not "):
            decode(wrong)


def test_bytes_like_objects_are_accepted() -> None:
    point = BLS12_381.g1.generator
    assert decode_zcash_g1(bytearray(GENERATOR)) == point
    assert decode_zcash_g1(memoryview(GENERATOR)) == point  # type: ignore[arg-type]
    plain = memoryview(encode_arkworks_g1(BN254, (1, 2)))
    assert decode_arkworks_g1(BN254, plain) == (1, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["no", 1, None])
def test_non_boolean_check_subgroup_is_rejected(wrong: Any) -> None:
    """The text "False" would be truthy."""
    with pytest.raises(InputError, match=r"^check_subgroup must be True or False"):
        decode_zcash_g1(GENERATOR, check_subgroup=wrong)
    with pytest.raises(InputError, match=r"^check_subgroup must be True or False"):
        decode_eip2537_g1(bytes(128), check_subgroup=wrong)


def test_order_of_coefficients() -> None:
    (x, y) = BN254.g2.generator
    expected = b"".join(part.to_bytes(32, "big") for part in (x[1], x[0], y[1], y[0]))
    assert encode_eip197_g2((x, y)) == expected
    (x, y) = BLS12_381.g2.generator
    expected = b"".join(part.to_bytes(64, "big") for part in (x[0], x[1], y[0], y[1]))
    assert encode_eip2537_g2((x, y)) == expected
    expected = b"".join(part.to_bytes(48, "big") for part in (x[1], x[0], y[1], y[0]))
    assert encode_zcash_g2((x, y), compressed=False) == expected
    (x, y) = BLS12_377.g2.generator
    assert encode_arkworks_g2(BLS12_377, (x, y))[:48] == x[0].to_bytes(48, "little")


# The Sapling Output circuit: keys uncompressed, proofs compressed.


class Reader:
    """Takes bytes from a file in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def g1(self) -> G1Point:
        return decode_zcash_g1(self.take(96), compressed=False)

    def g2(self) -> G2Point:
        return decode_zcash_g2(self.take(192), compressed=False)

    def count(self) -> int:
        value: int = struct.unpack(">I", self.take(4))[0]
        return value


def sapling_output_key(folder: Path) -> tuple[VerifyingKey, Reader]:
    with (folder / "sapling-output.params").open("rb") as file:
        reader = Reader(file.read(200_000))
    alpha1 = reader.g1()
    reader.g1()  # beta in G1
    beta2, gamma2 = reader.g2(), reader.g2()
    reader.g1()  # delta in G1
    delta2 = reader.g2()
    ic = [reader.g1() for _ in range(reader.count())]
    return VerifyingKey(BLS12_381, alpha1, beta2, gamma2, delta2, ic), reader


def jubjub(data: str) -> tuple[int, int]:
    """A compressed point of Jubjub, the Edwards curve over BLS12-381's scalar field."""
    field = PrimeField(BLS12_381.fr.value)
    value = int.from_bytes(bytes.fromhex(data), "little")
    v, sign = value & ((1 << 255) - 1), value >> 255
    d = field.div(field.neg(10240), 10241)
    u = field.sqrt(field.div(field.embed(v * v - 1), field.embed(1 + d * v * v)))
    assert u is not None
    u = field.neg(u) if u % 2 != sign else u
    assert TwistedEdwards(field, field.p - 1, d).contains((u, v))
    return u, v


@pytest.mark.fixtures
def test_mainnet_sapling_proofs_round_trip(shared_fixtures: Path) -> None:
    key, _ = sapling_output_key(shared_fixtures / "zcash")
    assert len(key.ic) == 6
    outputs = json.loads((shared_fixtures / "zcash/mainnet_sapling_outputs.json").read_text())
    assert len(outputs) == 24
    accepted = []
    for output in outputs:
        raw = bytes.fromhex(output["proof"])
        assert len(raw) == 192
        a, c = decode_zcash_g1(raw[:48]), decode_zcash_g1(raw[144:])
        proof = Proof(a, decode_zcash_g2(raw[48:144]), c)
        again = encode_zcash_g1(proof.a) + encode_zcash_g2(proof.b) + encode_zcash_g1(proof.c)
        assert again == raw
        cmu = int.from_bytes(bytes.fromhex(output["cmu"]), "little")
        public = [*jubjub(output["cv"]), *jubjub(output["epk"]), cmu]
        accepted.append((public, proof))
    for public, proof in accepted[::6]:
        assert verify(key, public, proof)
    assert not verify(key, accepted[0][0], accepted[1][1])


@pytest.mark.fixtures
def test_points_of_the_sapling_key(shared_fixtures: Path) -> None:
    _, reader = sapling_output_key(shared_fixtures / "zcash")
    count = reader.count()
    assert count > 1000
    for _ in range(20):
        start = reader.at
        point = reader.g1()
        assert encode_zcash_g1(point, compressed=False) == reader.data[start : reader.at]
        assert decode_zcash_g1(encode_zcash_g1(point)) == point
