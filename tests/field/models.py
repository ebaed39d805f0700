"""Plain-integer models of the coordinate fields, and the values that break careless carries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.field.moduli import BLS12_377_FQ, BLS12_381_FQ, BN254_FQ, MODULI, Modulus
from quod.field.spec import FieldSpec

Coefficients = tuple[int, ...]
Array = np.ndarray[Any, Any]

PRIME_SPECS = [FieldSpec(modulus) for modulus in MODULI.values()]
QUADRATIC_SPECS = [
    FieldSpec(BN254_FQ, 2, -1),
    FieldSpec(BLS12_381_FQ, 2, -1),
    FieldSpec(BLS12_377_FQ, 2, -5),
]
SPECS = PRIME_SPECS + QUADRATIC_SPECS


def spec_name(spec: FieldSpec) -> str:
    return f"{spec.modulus.name}{'2' if spec.degree == 2 else ''}"


class Model:
    """Fq or Fq2 on tuples of integers."""

    def __init__(self, spec: FieldSpec) -> None:
        self.p = spec.modulus.value
        self.degree = spec.degree
        self.beta = spec.non_residue or 0

    def constant(self, value: int) -> Coefficients:
        return (value % self.p, *([0] * (self.degree - 1)))

    def add(self, a: Coefficients, b: Coefficients) -> Coefficients:
        return tuple((x + y) % self.p for x, y in zip(a, b, strict=True))

    def subtract(self, a: Coefficients, b: Coefficients) -> Coefficients:
        return tuple((x - y) % self.p for x, y in zip(a, b, strict=True))

    def negate(self, a: Coefficients) -> Coefficients:
        return tuple(-x % self.p for x in a)

    def multiply(self, a: Coefficients, b: Coefficients) -> Coefficients:
        if self.degree == 1:
            return (a[0] * b[0] % self.p,)
        real = a[0] * b[0] + self.beta * a[1] * b[1]
        return real % self.p, (a[0] * b[1] + a[1] * b[0]) % self.p

    def power(self, a: Coefficients, exponent: int) -> Coefficients:
        result = self.constant(1)
        for bit in bin(exponent)[2:]:
            result = self.multiply(result, result)
            if bit == "1":
                result = self.multiply(result, a)
        return result

    def inverse(self, a: Coefficients) -> Coefficients:
        """1/a, and 0 for 0."""
        p = self.p
        if not any(a):
            return a
        if self.degree == 1:
            return (pow(a[0], -1, p),)
        norm = pow(a[0] * a[0] - self.beta * a[1] * a[1], -1, p)
        return a[0] * norm % p, -a[1] * norm % p


def hostile_integers(modulus: Modulus) -> list[int]:
    """Residues whose limbs, native or stored, are all ones, all zero or at the modulus's edge."""
    p = modulus.value
    stored = [0, 1, 2, p - 1, p - 2, p >> 1, (p >> 1) + 1]
    for bits in (32, 52, 64):
        for place in range(bits, modulus.bits + bits, bits):
            stored += [1 << place, (1 << place) - 1, (1 << place) + 1, p - (1 << place)]
        mask = (1 << bits) - 1
        alternating = sum(mask << place for place in range(0, modulus.bits, 2 * bits))
        stored += [alternating, alternating << bits]
    legal = [value % p for value in stored]
    # As values and as bit patterns in memory and in registers.
    native = 52 * -(-(modulus.bits + 5) // 52)
    return sorted({*legal, *(modulus.from_montgomery(value) for value in legal),
                   *(value * pow(2, -native, p) % p for value in legal)})  # fmt: skip


def random_integers(modulus: Modulus, count: int, seed: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(modulus.value) for _ in range(count)]


def packed(spec: FieldSpec, elements: Sequence[Coefficients]) -> Array:
    """Elements as Montgomery words in memory, uint64 of shape (n, words of an element)."""
    modulus = spec.modulus
    data = b"".join(
        modulus.to_montgomery(c).to_bytes(modulus.bytes, "little") for a in elements for c in a
    )
    return np.frombuffer(data, np.uint64).reshape(len(elements), -1).copy()


def unpacked(spec: FieldSpec, array: Array) -> list[Coefficients]:
    """The elements of an array; each stored coefficient must be canonical."""
    modulus = spec.modulus
    coefficients = []
    for row in array.reshape(-1, modulus.words // 2):
        stored = int.from_bytes(row.tobytes(), "little")
        assert stored < modulus.value, f"{stored:#x} is not canonical in {modulus.name}"
        coefficients.append(modulus.from_montgomery(stored))
    return list(zip(*[iter(coefficients)] * spec.degree, strict=True))
