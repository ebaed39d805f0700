"""Extensions: named ones, refused ones, and degrees above those that have names."""

from __future__ import annotations

import itertools
import random
from typing import Any, ClassVar

import numpy as np
import pytest
from py_ecc.fields.field_elements import FQP

from quod.codegen.ptx.machine import ptx_machine
from quod.curve.named import CURVES
from quod.errors import InputError
from quod.field import plain_extension
from quod.field.any_field import field_arithmetic
from quod.field.extension import extension_field
from quod.field.moduli import BABY_BEAR, BN254_FR, GOLDILOCKS, KOALA_BEAR, M31, NAMED, Modulus
from quod.field.named_extensions import (
    BABY_BEAR_4,
    EXTENSIONS,
    GOLDILOCKS_2,
    GOLDILOCKS_3,
    KOALA_BEAR_4,
    M31_2,
    M31_3,
    M31_4,
)
from quod.field.spec import Extension, FieldSpec
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Machine, Pointer, TraceError, Value, kernel
from quod.kernel.interpreter.interpreter import interpret
from tests.field.models import Coefficients, Model, packed, unpacked
from tests.support.thorough import one_and_others

FIVE, SEVEN = Modulus("five", 5), Modulus("seven", 7)
SCALAR = Machine("llvm", 1, frozenset({"u64", "carry"}))


# --- which there are


@pytest.mark.parametrize(
    "extension", [*EXTENSIONS.values(), *(curve.tower.fq2 for curve in CURVES.values())],
    ids=lambda extension: extension.name,
)  # fmt: skip
def test_named_extensions_are_fields(extension: Extension) -> None:
    assert Extension(extension.name, extension.base, extension.polynomial) == extension


def test_extension_names_match_their_keys() -> None:
    assert all(name == extension.name for name, extension in EXTENSIONS.items())
    assert EXTENSIONS.keys().isdisjoint(NAMED)


@pytest.mark.parametrize(
    ("extension", "root"),
    [
        (M31_3, 1513477735), (BABY_BEAR_4, 1728404513), (KOALA_BEAR_4, 2113994754),
        (GOLDILOCKS_2, 18446744069414584320),
    ],
)  # fmt: skip
def test_frobenius_constants_match_plonky3(extension: Extension, root: int) -> None:
    """x^p = root * x, the constant DTH_ROOT of Plonky3's BinomiallyExtendable."""
    image = plain_extension.frobenius_table(extension)[1]
    assert image == (0, root, *([0] * (extension.degree - 2)))


def test_product_matches_stwo() -> None:
    """(1 + 2i + (3 + 4i)u)(4 + 5i + (6 + 7i)u), from the tests of Stwo's QM31."""
    p = M31.value
    wanted = (p - 71, 93, p - 16, 50)
    assert plain_extension.product(M31_4, (1, 2, 3, 4), (4, 5, 6, 7)) == wanted
    assert Model(M31_4).multiply((1, 2, 3, 4), (4, 5, 6, 7)) == wanted


@pytest.mark.parametrize("extension", [M31_3, BABY_BEAR_4, GOLDILOCKS_3], ids=lambda e: e.name)
def test_models_match_py_ecc(extension: Extension) -> None:
    class Peer(FQP):  # type: ignore[misc]
        field_modulus = extension.modulus.value
        degree = extension.degree
        mc_tuples: ClassVar = list(enumerate(extension.polynomial[:-1]))

        def __init__(self, coefficients: Any) -> None:
            super().__init__(coefficients, extension.polynomial[:-1])

    source, model = random.Random(1), Model(extension)
    p, n = extension.modulus.value, extension.degree
    for _ in range(20):
        x, y = (tuple(source.randrange(p) for _ in range(n)) for _ in "xy")
        product = tuple(int(c) for c in (Peer(x) * Peer(y)).coeffs)
        assert model.multiply(x, y) == product
        assert plain_extension.product(extension, x, y) == product
        assert model.inverse(x) == tuple(int(c) % p for c in Peer(x).inv().coeffs)


# --- which are fields


def monic(base: FieldSpec, degree: int) -> list[tuple[Any, ...]]:
    """Every monic polynomial of a degree over a small field."""
    elements: list[Any] = list(itertools.product(range(base.modulus.value), repeat=base.degree))
    leading: Any = (1, *([0] * (base.degree - 1)))
    if base.degree == 1:
        elements, leading = [c for (c,) in elements], 1
    return [(*lower, leading) for lower in itertools.product(elements, repeat=degree)]


@pytest.mark.parametrize(("base", "degree"), [(FIVE, 2), (FIVE, 3), (FIVE, 4), (SEVEN, 3)])
def test_irreducible_polynomials_have_no_factors(base: Modulus, degree: int) -> None:
    p = base.value
    products = set()
    for low in range(1, degree // 2 + 1):
        for a, b in itertools.product(monic(base, low), monic(base, degree - low)):
            product = [0] * (degree + 1)
            for (i, x), (j, y) in itertools.product(enumerate(a), enumerate(b)):
                product[i + j] = (product[i + j] + x * y) % p
            products.add(tuple(product))
    for polynomial in monic(base, degree):
        irreducible = plain_extension.is_irreducible(
            Extension.unchecked_polynomial("some", base, polynomial)
        )
        assert irreducible == (polynomial not in products), polynomial


def test_irreducible_quadratics_over_an_extension_have_no_roots() -> None:
    base = Extension("five.2", FIVE, (2, 1, 1))
    model = Model(base)
    elements = list(itertools.product(range(5), repeat=2))
    for c0, c1, leading in monic(base, 2)[::7]:
        has_root = any(
            not any(model.add(model.multiply(x, model.add(x, c1)), c0)) for x in elements
        )
        extension = Extension.unchecked_polynomial("five.4", base, (c0, c1, leading))
        assert plain_extension.is_irreducible(extension) != has_root


REFUSED: dict[str, tuple[FieldSpec, Any, str]] = {
    "a square": (M31, (-4, 0, 1), "reducible over m31, so some elements other than 0"),
    "squares of factors": (FIVE, (4, 0, 4, 0, 1), "reducible over five"),
    "factors of one degree": (FIVE, (1, 0, 0, 0, 1), "reducible over five"),
    "over an extension": (M31_2, ((1, 0), (0, 0), (1, 0)), r"reducible over m31\.2"),
    "not monic": (M31, (1, 0, 2), "is not monic; divide it by its last coefficient"),
    "zero at the end": (M31, (1, 0, 1, 0), "is not monic"),
    "degree 1": (M31, (1, 1), "has degree 1; an extension needs degree 2 or more"),
    "nothing": (M31, (), "has degree -1; an extension"),
    "too long": (M31, (1,) * 18, "has degree 17, but extensions of m31 have .* at most 16"),
    "too long together": (M31_2, (1,) * 10, r"degree 9, but extensions of m31\.2 .* at most 8"),
    "text": (M31, "1 0 1", r"must be a tuple of coefficients \(int\), not str"),
    "a number": (M31, 5, r"must be a tuple of coefficients \(int\), not int"),
    "floats": (M31, (1.0, 0, 1), "coefficient 0 of the polynomial of mine must be int"),
    "booleans": (M31, (True, 0, 1), "coefficient 0 of the polynomial of mine must be int"),
    "NumPy's": (M31, (np.uint64(1), 0, 1), "coefficient 0 of the polynomial of mine must be int"),
    "parts of none": (
        M31,
        ((1, 0), 0, 1),
        "0 of the .* has 2 int; coefficients over m31",
    ),
    "too many parts": (
        M31_2,
        ((1, 0, 0), 0, 1),
        "has 3 int; .* are int or tuples of 2 int",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_polynomials(what: str) -> None:
    base, polynomial, message = REFUSED[what]
    with pytest.raises(InputError, match=message):
        Extension("mine", base, polynomial)


def test_refused_bases_and_names() -> None:
    for arguments in [(7, M31), ("mine", 31), ("mine", None)]:
        with pytest.raises(InputError, match=r"a name \(str\), a field \(Modulus or Extension"):
            Extension(arguments[0], arguments[1], (1, 0, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("degree", "root", "message"),
    [
        (2.0, 5, "a degree from 2 to 16 and a radicand .* not 2.0 and 5"),
        (10**9, 5, "a degree from 2 to 16 and a radicand .* not 1000000000 and 5"),
        (2, "5", "a degree from 2 to 16 and a radicand .* not 2 and '5'"),
        (2, 4, "reducible over m31"),
    ],
)
def test_refused_binomials(degree: Any, root: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Extension.binomial("mine", M31, degree, root)


def test_coefficients_are_kept_small() -> None:
    """One field has one polynomial, whatever residues it is given by."""
    p = M31.value
    assert Extension("m31.2", M31, (1 + p, -p, 1 - p)) == M31_2
    assert Extension.binomial("m31.2", M31, 2, p - 1) == M31_2
    assert Extension.binomial("m31.4", M31_2, 2, (2, 1)) == M31_4
    assert Extension("m31.4", M31_2, ((-2, p - 1), 0, 1)) == M31_4
    assert (M31_4.degree, M31_4.words, M31_4.modulus) == (4, 4, M31)
    assert (GOLDILOCKS_2.degree, GOLDILOCKS_2.words) == (2, 4)
    assert (M31_2.non_residue, GOLDILOCKS_2.non_residue) == (-1, 7)
    assert (M31_4.non_residue, GOLDILOCKS_3.non_residue) == (None, None)


# --- degrees without names

HIGHER = [
    Extension.binomial("koala_bear.8", KOALA_BEAR, 8, 3),
    Extension("koala_bear.5", KOALA_BEAR, (-1, 0, 1, 0, 0, 1)),
    Extension.binomial("m31.6", M31_3, 2, (5, 1, 0)),
    Extension.binomial("bn254.fr.3", BN254_FR, 3, 5),
    Extension.binomial("large.2", GOLDILOCKS, 2, 7 * 5**20),
]
"""A power of two, a trinomial (both are in Plonky3), a tower, long numbers, a large weight."""


def stored(k: Builder, x: Value, y: Value, out: Value, spec: Extension) -> None:
    f, i = extension_field(k, spec), k.global_id()
    a, b = f.load(x, i), f.load(y, i)
    results = [
        a * b,
        f.square(a - b),
        f.inverse(a),
        f.frobenius(b, 2),
        f.sum_of_products([(a, b)] * 2),
    ]
    for place, result in enumerate(results):
        f.store(out, 5 * i + place, result)


@kernel
def short(
    k: Builder, x: Pointer[U32], y: Pointer[U32], out: Pointer[U32], *, spec: Extension
) -> None:
    """Operations of extensions whose coefficients are one word of 32 bits."""
    stored(k, x, y, out, spec)


@kernel
def long(
    k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, spec: Extension
) -> None:
    """Operations of any other extension."""
    stored(k, x, y, out, spec)


@pytest.mark.parametrize("machine", one_and_others([SCALAR, ptx_machine(1)]), ids=["llvm", "ptx"])
@pytest.mark.parametrize("spec", one_and_others(HIGHER, HIGHER[1:3]), ids=lambda spec: spec.name)
def test_higher_degrees(spec: Extension, machine: Machine) -> None:
    source, model, p = random.Random(spec.name), Model(spec), spec.modulus.value
    some = [(p - 1,) * spec.degree, model.constant(0), model.constant(1)]
    some += [tuple(source.randrange(p) for _ in range(spec.degree)) for _ in range(3)]
    others = some[::-1]
    wanted: list[Coefficients] = []
    for a, b in zip(some, others, strict=True):
        product, less = model.multiply(a, b), model.subtract(a, b)
        wanted += [product, model.multiply(less, less), model.inverse(a)]
        wanted += [model.frobenius(b, 2), model.times(product, 2)]
    x, y, out = packed(spec, some), packed(spec, others), packed(spec, wanted) * 0
    definition = short if spec.modulus.words == 1 else long
    interpret(definition.trace(machine, spec=spec), len(some), [x, y, out])
    assert unpacked(spec, out) == wanted


# --- what is wrong in kernels


def test_fields_do_not_mix() -> None:
    k = Builder(SCALAR)
    base, cubic, quartic = prime_field(k, M31), extension_field(k, M31_3), extension_field(k, M31_4)
    one, x = cubic.one(), quartic.one()
    for use in (
        lambda: x + one, lambda: x * one, lambda: quartic.sum_of_products([(x, one)]),
        lambda: quartic.inverse(one), lambda: quartic.select(quartic.is_zero(x), x, one),
        lambda: quartic.scale(one, base.one()), lambda: quartic.equal(x, one),
        lambda: quartic.bounded(one), lambda: quartic.square(one), lambda: quartic.frobenius(one),
    ):  # fmt: skip
        with pytest.raises(
            TraceError, match=r"an element of m31\.3 is used as an element of m31\.4"
        ):
            use()
    other = prime_field(k, BABY_BEAR).one()
    with pytest.raises(TraceError, match="an element of baby_bear is used as an element of m31"):
        quartic.scale(x, other)
    with pytest.raises(TraceError, match=r"an element of m31 is used as an element of m31\.4"):
        quartic.add(x, base.one())
    with pytest.raises(TraceError, match=r"an int is used as an element of m31\.4"):
        quartic.multiply(x, 2)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=r"an Element cannot be combined with .*embed\(eleme"):
        x + base.one()  # type: ignore[operator]
    with pytest.raises(TraceError, match=r"cannot be combined with an element of m31;"):
        base.one() * x  # type: ignore[operator]
    for stranger in (other, one, 3):
        with pytest.raises(TraceError, match=r"cannot be embedded into m31\.4; give an"):
            quartic.embed(stranger)  # type: ignore[arg-type]


def test_elements_of_a_subfield_are_embedded() -> None:
    k = Builder(SCALAR)
    quartic, complex_ = extension_field(k, M31_4), extension_field(k, M31_2)
    assert len(quartic.embed(complex_.constant((3, 4))).coefficients) == 4
    assert len(quartic.embed(prime_field(k, M31).one()).coefficients) == 4


@pytest.mark.parametrize("value", [(1, 2), (1, 2, 3, 4, 5), "1", 1.0, [1, 2, 3, 4]])
def test_constants_have_the_degree(value: Any) -> None:
    f = field_arithmetic(Builder(SCALAR), M31_4)
    with pytest.raises(TraceError, match=r"a constant of m31\.4 is an integer, or a tuple of 4"):
        f.constant(value)
