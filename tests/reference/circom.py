"""The files of a circom proof as plain integers: zkey, wtns and snarkjs JSON.

Written apart from `quod.formats`, so that the two check each other. Trusts its input: no
validation beyond what goes wrong by itself.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quod.curve.named import CURVES
from quod.curve.parameters import G1Point, G2Point, PairingCurve


@dataclass(frozen=True)
class Key:
    """A Groth16 zkey. `coefficients` are (matrix, constraint, signal, value), matrix 0 for A and 1
    for B, values plain; all points are affine and plain."""

    curve: PairingCurve
    variables: int
    publics: int
    domain: int
    alpha1: G1Point
    beta1: G1Point
    beta2: G2Point
    gamma2: G2Point
    delta1: G1Point
    delta2: G2Point
    ic: list[G1Point]
    coefficients: list[tuple[int, int, int, int]]
    a: list[G1Point]
    b1: list[G1Point]
    b2: list[G2Point]
    c: list[G1Point]
    h: list[G1Point]


@dataclass(frozen=True)
class VerifyingKey:
    """A verifying key: the curve and the points that a verifier needs."""

    curve: PairingCurve
    alpha1: G1Point
    beta2: G2Point
    gamma2: G2Point
    delta2: G2Point
    ic: list[G1Point]


@dataclass(frozen=True)
class Proof:
    """A Groth16 proof."""

    a: G1Point
    b: G2Point
    c: G1Point


def sections(data: bytes) -> dict[int, bytes]:
    """The sections of an iden3 binary file by their number."""
    (count,) = struct.unpack_from("<I", data, 8)
    bodies, offset = {}, 12
    for _ in range(count):
        number, size = struct.unpack_from("<IQ", data, offset)
        offset += 12
        bodies[number] = data[offset : offset + size]
        offset += size
    return bodies


class _Points:
    """Reads Montgomery affine points of one curve."""

    def __init__(self, curve: PairingCurve) -> None:
        self.fq = curve.fq

    def coordinates(self, data: bytes) -> list[int]:
        step = self.fq.bytes
        return [
            self.fq.from_montgomery(int.from_bytes(data[at : at + step], "little"))
            for at in range(0, len(data), step)
        ]

    def g1(self, data: bytes) -> list[G1Point]:
        values = self.coordinates(data)
        pairs = zip(values[::2], values[1::2])
        return [None if pair == (0, 0) else pair for pair in pairs]

    def g2(self, data: bytes) -> list[G2Point]:
        values = self.coordinates(data)
        quads = zip(values[::4], values[1::4], values[2::4], values[3::4])
        return [None if quad == (0, 0, 0, 0) else (quad[:2], quad[2:]) for quad in quads]


def read_zkey(path: Path) -> Key:
    """A Groth16 zkey."""
    section = sections(path.read_bytes())
    header = section[2]
    (q_bytes,) = struct.unpack_from("<I", header, 0)
    q = int.from_bytes(header[4 : 4 + q_bytes], "little")
    curve = next(curve for curve in CURVES.values() if curve.fq.value == q)
    at = 4 + q_bytes
    (r_bytes,) = struct.unpack_from("<I", header, at)
    at += 4 + r_bytes
    variables, publics, domain = struct.unpack_from("<III", header, at)
    at += 12
    points = _Points(curve)
    g1_size, g2_size = 2 * q_bytes, 4 * q_bytes
    taken = []
    for size in (g1_size, g1_size, g2_size, g2_size, g1_size, g2_size):
        taken.append(header[at : at + size])
        at += size
    (count,) = struct.unpack_from("<I", section[4], 0)
    coefficients = []
    for index in range(count):
        start = 4 + index * (12 + r_bytes)
        matrix, constraint, signal = struct.unpack_from("<III", section[4], start)
        stored = int.from_bytes(section[4][start + 12 : start + 12 + r_bytes], "little")
        value = curve.fr.from_montgomery(curve.fr.from_montgomery(stored))
        coefficients.append((matrix, constraint, signal, value))
    return Key(
        curve=curve,
        variables=variables,
        publics=publics,
        domain=domain,
        alpha1=points.g1(taken[0])[0],
        beta1=points.g1(taken[1])[0],
        beta2=points.g2(taken[2])[0],
        gamma2=points.g2(taken[3])[0],
        delta1=points.g1(taken[4])[0],
        delta2=points.g2(taken[5])[0],
        ic=points.g1(section[3]),
        coefficients=coefficients,
        a=points.g1(section[5]),
        b1=points.g1(section[6]),
        b2=points.g2(section[7]),
        c=points.g1(section[8]),
        h=points.g1(section[9]),
    )


def read_wtns(path: Path) -> list[int]:
    """The values of a witness, plain."""
    section = sections(path.read_bytes())
    (size,) = struct.unpack_from("<I", section[1], 0)
    values = section[2]
    return [int.from_bytes(values[at : at + size], "little") for at in range(0, len(values), size)]


def _g1(value: list[str]) -> G1Point:
    x, y, z = (int(part) for part in value)
    return None if z == 0 else (x, y)


def _g2(value: list[list[str]]) -> G2Point:
    x, y, z = ((int(part[0]), int(part[1])) for part in value)
    return None if z == (0, 0) else (x, y)


def _curve(name: str) -> PairingCurve:
    return CURVES[{"bn128": "bn254", "bls12381": "bls12_381"}[name]]


def read_verification_key(path: Path) -> VerifyingKey:
    """snarkjs's verification_key.json."""
    value: dict[str, Any] = json.loads(path.read_text())
    return VerifyingKey(
        curve=_curve(value["curve"]),
        alpha1=_g1(value["vk_alpha_1"]),
        beta2=_g2(value["vk_beta_2"]),
        gamma2=_g2(value["vk_gamma_2"]),
        delta2=_g2(value["vk_delta_2"]),
        ic=[_g1(point) for point in value["IC"]],
    )


def read_proof(path: Path) -> Proof:
    """snarkjs's proof.json."""
    value: dict[str, Any] = json.loads(path.read_text())
    return Proof(a=_g1(value["pi_a"]), b=_g2(value["pi_b"]), c=_g1(value["pi_c"]))


def read_public(path: Path) -> list[int]:
    """snarkjs's public.json."""
    return [int(value) for value in json.loads(path.read_text())]
