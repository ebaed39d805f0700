"""Plain-integer models of the coordinate fields, and the values that break careless carries."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from quod.curve.named import CURVES
from quod.field.moduli import MODULI, Modulus
from quod.field.spec import Extension, FieldSpec

Coefficients = tuple[int, ...]
Array = np.ndarray[Any, Any]

SOME_PRIMES: list[Modulus] = [MODULI[name] for name in ("bn254.fr", "bls12_381.fq")]
"""Both numbers of words, with two and with three bits to spare: the others share their code."""

SOME_SPECS: list[FieldSpec] = [*SOME_PRIMES, CURVES["bls12_381"].tower.fq2]


def spec_name(spec: FieldSpec) -> str:
    return spec.name


class Model:
    """A field on tuples of integers, by the schoolbook: the powers of x one after the other."""

    def __init__(self, spec: FieldSpec) -> None:
        self.spec = spec
        self.p = spec.modulus.value
        self.degree = spec.degree
        self.base: Model | None = None
        self.polynomial: list[Coefficients] = []
        if isinstance(spec, Extension):
            self.base = Model(spec.base)
            self.polynomial = [c if isinstance(c, tuple) else (c,) for c in spec.polynomial]

    def constant(self, value: int) -> Coefficients:
        return (value % self.p, *([0] * (self.degree - 1)))

    def add(self, a: Coefficients, b: Coefficients) -> Coefficients:
        return tuple((x + y) % self.p for x, y in zip(a, b, strict=True))

    def subtract(self, a: Coefficients, b: Coefficients) -> Coefficients:
        return tuple((x - y) % self.p for x, y in zip(a, b, strict=True))

    def negate(self, a: Coefficients) -> Coefficients:
        return self.times(a, -1)

    def times(self, a: Coefficients, factor: int) -> Coefficients:
        return tuple(x * factor % self.p for x in a)

    def multiply(self, a: Coefficients, b: Coefficients) -> Coefficients:
        base = self.base
        if base is None:
            return (a[0] * b[0] % self.p,)
        size = base.degree
        total = (0,) * self.degree
        for at in range(0, self.degree, size):
            # b is the second factor times a power of x here.
            scaled = [base.multiply(a[at : at + size], part) for part in self._parts(b)]
            total = self.add(total, tuple(itertools.chain(*scaled)))
            b = self._times_x(b)
        return total

    def _parts(self, a: Coefficients) -> list[Coefficients]:
        assert self.base is not None
        size = self.base.degree
        return [a[at : at + size] for at in range(0, self.degree, size)]

    def _times_x(self, a: Coefficients) -> Coefficients:
        base = self.base
        assert base is not None
        *low, top = self._parts(a)
        moved = [base.constant(0), *low]
        less = [base.multiply(top, c) for c in self.polynomial[:-1]]
        return tuple(
            itertools.chain(*(base.subtract(x, y) for x, y in zip(moved, less, strict=True)))
        )

    def power(self, a: Coefficients, exponent: int) -> Coefficients:
        result = self.constant(1)
        for bit in bin(exponent)[2:]:
            result = self.multiply(result, result)
            if bit == "1":
                result = self.multiply(result, a)
        return result

    def frobenius(self, a: Coefficients, times: int = 1) -> Coefficients:
        """a**(p**times), by the powers of the basis."""
        for _ in range(times):
            total = self.constant(0)
            for c, image in zip(a, self._images, strict=True):
                total = self.add(total, self.times(image, c))
            a = total
        return a

    @cached_property
    def _images(self) -> list[Coefficients]:
        n = self.degree
        units = [tuple(int(place == index) for place in range(n)) for index in range(n)]
        return [self.power(unit, self.p) for unit in units]

    def inverse(self, a: Coefficients) -> Coefficients:
        """1/a, and 0 for 0."""
        return self._solved(a)[1]

    def norm(self, a: Coefficients) -> int:
        """The determinant of the multiplication by a."""
        return self._solved(a)[0]

    def _solved(self, a: Coefficients) -> tuple[int, Coefficients]:
        """The determinant of the multiplication by a, and what it maps to 1 (by elimination)."""
        p, n = self.p, self.degree
        images = [
            self.multiply(a, tuple(int(place == basis_index) for place in range(n)))
            for basis_index in range(n)
        ]
        rows = [[*column, int(place == 0)] for place, column in enumerate(zip(*images))]
        determinant = 1
        for at in range(n):
            pivot = next((row for row in range(at, n) if rows[row][at]), None)
            if pivot is None:
                assert not any(a), f"{a} has no inverse"
                return 0, a
            if pivot != at:
                rows[at], rows[pivot], determinant = rows[pivot], rows[at], -determinant
            determinant = determinant * rows[at][at] % p
            scale = pow(rows[at][at], -1, p)
            rows[at] = [c * scale % p for c in rows[at]]
            for other in range(n):
                factor = rows[other][at]
                if other != at and factor:
                    pairs = zip(rows[other], rows[at], strict=True)
                    rows[other] = [(x - factor * y) % p for x, y in pairs]
        return determinant % p, tuple(row[n] for row in rows)


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
    """Elements as they lie in memory, of shape (n, words of an element): words of 64 bits, or 32.

    Those of 32 bits are an element's of a prime field below 2**32.
    """
    modulus = spec.modulus
    data = b"".join(
        modulus.to_montgomery(c).to_bytes(modulus.bytes, "little") for a in elements for c in a
    )
    words = np.frombuffer(data, np.uint32 if modulus.words == 1 else np.uint64)
    return words.reshape(len(elements), -1).copy()


def unpacked(spec: FieldSpec, array: Array) -> list[Coefficients]:
    """The elements of an array; each stored coefficient must be canonical."""
    modulus = spec.modulus
    coefficients = []
    data = array.tobytes()
    for at in range(0, len(data), modulus.bytes):
        stored = int.from_bytes(data[at : at + modulus.bytes], "little")
        assert stored < modulus.value, f"{stored:#x} is not canonical in {modulus.name}"
        coefficients.append(modulus.from_montgomery(stored))
    return list(zip(*[iter(coefficients)] * spec.degree, strict=True))
