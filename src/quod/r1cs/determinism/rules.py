"""The rules of propagation, and the arithmetic by which they find their conclusions.

A step applies a rule to equations and products of the normal form (`quod.r1cs.determinism.
normal_form`). Its conclusion is one of three facts, which hold for all witnesses of the system:

- a node is *determined*: two witnesses with equal inputs have equal values there;
- a node has a *range*: its value is the residue of an integer between two bounds;
- a node is never a certain value.

`certificate_checker` checks each step again, with its own arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, overload

from quod.r1cs.determinism.arithmetic import Range, centred
from quod.r1cs.determinism.normal_form import Affine, Product


class Rule(IntEnum):
    """The rules; `SOUNDNESS` has the argument for each."""

    LINEAR = 0
    DIGITS = 1
    SUM_RANGE = 2
    PRODUCT = 3
    QUOTIENT = 4
    FACTOR_IS_ZERO = 5
    NONZERO = 6
    PRODUCT_RANGE = 7
    ROOTS = 8
    CASES = 9
    SIGN = 10
    ZERO_TEST = 11
    ONE_HOT = 12
    SPLIT = 13
    EDWARDS = 14


SOUNDNESS = {
    Rule.LINEAR: (
        "A sum of multiples of equations has one undetermined node, with a nonzero coefficient: "
        "the equation has one solution for it."
    ),
    Rule.DIGITS: (
        "The undetermined nodes of such a sum have ranges of widths w[i]. For two witnesses the "
        "sum of c[i] * d[i] is 0 modulo p, with differences |d[i]| <= w[i]. The sum of "
        "|c[i]| * w[i] is below p, so it is 0 as an integer. In ascending order each |c[i]| "
        "exceeds the sum of |c[j]| * w[j] before it, so the last nonzero d[i] would outweigh the "
        "others: all are 0."
    ),
    Rule.SUM_RANGE: (
        "An equation is solved for a node; the other nodes have ranges, and the sum of their "
        "bounds is a range of fewer than p integers."
    ),
    Rule.PRODUCT: "Both factors are determined, hence the product.",
    Rule.QUOTIENT: "The product and a factor that is never 0 are determined, hence their quotient.",
    Rule.FACTOR_IS_ZERO: "The product is 0 and a factor is never 0, so the other factor is 0.",
    Rule.NONZERO: (
        "A field has no divisors of zero: a product is nonzero exactly if both factors are."
    ),
    Rule.PRODUCT_RANGE: (
        "The product of two integers of two ranges lies between the smallest and the greatest "
        "product of their bounds."
    ),
    Rule.ROOTS: (
        "A product has a single node: its values are the roots of a polynomial of degree 2."
    ),
    Rule.CASES: (
        "All wires of a constraint but one have ranges; for each combination of their values the "
        "remaining wire is a root of a polynomial of degree at most 2."
    ),
    Rule.SIGN: (
        "(k x + c)(l x + d) is determined. Two solutions x and y are equal or have the sum "
        "s = -(k d + l c) / (k l). No integer strictly between twice the bounds of x is s modulo "
        "p, so the sum is s only if both are the same bound."
    ),
    Rule.ZERO_TEST: (
        "X is determined, X * U = V and X * W = Z, where V and W are terms of one node and Z is "
        "determined. If X is 0, then V = 0; else W = Z / X. X decides which, equally for both "
        "witnesses."
    ),
    Rule.ONE_HOT: (
        "Each undetermined node y[i] of an equation occurs in a product (x - k[i]) * Y[i] = Z[i], "
        "with x and Z[i] determined and distinct k[i]. At most one factor x - k[i] is 0; the "
        "other y[i] are quotients, and the equation gives the last one."
    ),
    Rule.SPLIT: (
        "All nodes of an equation have ranges, and the sum of its terms is between -p and p, so it "
        "is 0 as an integer. Its coefficients are l[i] + m * h[i], its constant k + m * j. The sum "
        "with l[i] and k is a multiple of m between -m and m, so it is 0, and so is the sum with "
        "h[i] and j: two new equations."
    ),
    Rule.EDWARDS: (
        "F * y = N with F and N determined. F is 0 only if t is a constant; by products of the "
        "system t = M1 * M2 and N = u * M1 + v * M2. F = N = 0 implies that M2² is a constant, "
        "which is no square; or that t is 0, which it is not. So y is N / F, or there is none."
    ),
}


class Step(NamedTuple):
    """An application of a rule.

    equations: pairs of an equation's index and its multiplier.
    products: indices of products.
    node: the node of the conclusion, or 0 if the rule concludes about all undetermined nodes.
    bounds: the range that the node has from this step on; for NONZERO the value that it never has,
        for SPLIT m and k, for EDWARDS u and v.
    """

    rule: Rule
    equations: tuple[tuple[int, int], ...]
    products: tuple[int, ...]
    node: int
    bounds: Range | None = None


def digit_scale(coefficients: Sequence[int], widths: Sequence[int], prime: int) -> int | None:
    """Return a factor that turns coefficients into weights of a unique decomposition, or None.

    See `Rule.DIGITS`. The candidates are 1 and inverses of the coefficients.
    """
    if len({min(k, prime - k) for k in coefficients}) < len(coefficients):
        return None
    for candidate in dict.fromkeys((1, *coefficients[:_MAX_SCALES])):
        scale = pow(candidate, -1, prime)
        if are_weights([k * scale % prime for k in coefficients], widths, prime):
            return scale
    return None


_MAX_SCALES = 80


def are_weights(coefficients: Sequence[int], widths: Sequence[int], prime: int) -> bool:
    """Return whether differences within the widths have a weighted sum of 0 only if all are 0."""
    total = 0
    for magnitude, width in sorted(
        [(min(k, prime - k), width) for k, width in zip(coefficients, widths)]
    ):
        if magnitude <= total:
            return False
        total += magnitude * width
        if total >= prime:
            return False
    return True


def sum_range(
    coefficients: Sequence[int], constant: int, ranges: Sequence[Range], divisor: int, prime: int
) -> Range | None:
    """Return the range of -(sum of coefficients * nodes + constant) / divisor, or None."""
    factor = -pow(divisor, -1, prime) % prime if divisor != prime - 1 else 1
    low = high = centred(constant * factor, prime)
    for k, (smallest, greatest) in zip(coefficients, ranges):
        weight = centred(k * factor, prime)
        if weight > 0:
            low, high = low + weight * smallest, high + weight * greatest
        else:
            low, high = low + weight * greatest, high + weight * smallest
        if high - low >= prime - 1:
            return None
    return low, high


def product_range(product: Product, a: Range, b: Range, prime: int) -> Range | None:
    """Return the range of the node of c for ranges of the nodes of a and b, or None.

    c = k * (x + u) * (y + v) + w, with centred k, u, v and w.
    """
    (ka, _, ca), (kb, _, cb), (kc, _, cc) = product.a, product.b, product.c
    u, v = (centred(constant * pow(k, -1, prime), prime) for k, constant in ((ka, ca), (kb, cb)))
    inverse = pow(kc, -1, prime)
    k, w = centred(ka * kb * inverse, prime), centred(-cc * inverse, prime)
    corners = [k * (x + u) * (y + v) + w for x in a for y in b]
    low, high = min(corners), max(corners)
    return (low, high) if high - low < prime - 1 else None


def polynomial(product: Product, prime: int) -> tuple[int, int, int] | None:
    """Return the coefficients, from x² on, of a·b - c if the product has a single node x."""
    a, b, c = product.a, product.b, product.c
    if len({term.node for term in (a, b, c) if term.factor}) != 1:
        return None
    return (
        a.factor * b.factor % prime,
        (a.factor * b.constant + b.factor * a.constant - c.factor) % prime,
        (a.constant * b.constant - c.constant) % prime,
    )


def zero_of(term: Affine, prime: int) -> int:
    """Return the value of the node at which an affine term is 0."""
    if term.factor == 1:
        return -term.constant % prime
    return -term.constant * pow(term.factor, -1, prime) % prime


def sum_of_roots(product: Product, prime: int) -> int:
    """Return the sum of the two solutions of a product of terms of one node."""
    (ka, _, ca), (kb, _, cb) = product.a, product.b
    return -(ka * cb + kb * ca) * pow(ka * kb, -1, prime) % prime


def fixes_sign(bounds: Range, total: int, prime: int) -> bool:
    """Return whether no two different numbers of a range have a sum of `total` modulo p."""
    low, high = bounds
    return (total - 2 * low - 1) % prime >= 2 * (high - low) - 1


def split_point(
    coefficients: Sequence[int], constant: int, ranges: Sequence[Range], prime: int
) -> tuple[int, int] | None:
    """Return m and k of `Rule.SPLIT` for an equation, or None if it has no split."""
    signed = [centred(k, prime) for k in coefficients]
    least, most = _bounds_of_sum(signed, ranges)
    # Either representative of the constant may be the one for which the sum is 0.
    offsets = [
        each
        for each in (constant, constant - prime)
        if -prime < least + each and most + each < prime
    ]
    if not offsets:
        return None
    for exponent in sorted({(k & -k).bit_length() - 1 for k in signed} - {0}):
        modulus = 1 << exponent
        parts = [low_part(k, modulus) for k in signed]
        if (bounds := _bounds_of_sum(parts, ranges, 2 * modulus)) is None or parts == signed:
            continue
        for low in (offsets[0] % modulus, offsets[0] % modulus - modulus):
            if -modulus < bounds[0] + low and bounds[1] + low < modulus:
                return modulus, low
    return None


def low_part(number: int, modulus: int) -> int:
    """Return the residue of a number of least magnitude; of two, that with the number's sign."""
    low = number % modulus
    if 2 * low > modulus or (2 * low == modulus and number < 0):
        low -= modulus
    return low


@overload
def _bounds_of_sum(coefficients: Sequence[int], ranges: Sequence[Range]) -> Range: ...
@overload
def _bounds_of_sum(
    coefficients: Sequence[int], ranges: Sequence[Range], width: int
) -> Range | None: ...
def _bounds_of_sum(
    coefficients: Sequence[int], ranges: Sequence[Range], width: int | None = None
) -> Range | None:
    """Return the bounds of a weighted sum, or None if they are wider than `width`."""
    least = most = 0
    for k, (low, high) in zip(coefficients, ranges):
        if k > 0:
            least, most = least + k * low, most + k * high
        elif k:
            least, most = least + k * high, most + k * low
        if width is not None and most - least > width:
            return None
    return least, most
