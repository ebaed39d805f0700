"""The rules of propagation, and the arithmetic by which they find their conclusions.

A step applies a rule to equations and products of the normal form (`quod.r1cs.determinism.
normal_form`). Its conclusion is one of three facts, which hold for all witnesses of the system:

- a node is *determined*: two witnesses with equal inputs have equal values there;
- a node has a *range*: its value is the residue of an integer between two bounds;
- a node is never a certain value.

`certificate_checker` checks each step again, with its own arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, overload

from quod.errors import QuodError
from quod.r1cs.determinism.arithmetic import Range, centred, inverse
from quod.r1cs.determinism.normal_form import Affine, NormalForm, Product
from quod.r1cs.determinism.rows import Rows

Terms = tuple[tuple[tuple[int, ...], int], ...]
"""A polynomial as pairs of a monomial and its coefficient."""


NO_RANGE: Range = (0, -1)
"""The bounds of a step that concludes no range."""


class Rule(IntEnum):
    """The rules; `SOUNDNESS` has the argument for each."""

    DIGITS = 0
    QUOTIENT = 1
    SIGN = 2
    RANGE = 3
    ROOTS = 4
    CASES = 5
    NONZERO = 6
    SPLIT = 7
    DERIVE = 8
    SUPPOSE = 9
    OTHERWISE = 10
    JOIN = 11
    LEMMA = 12
    POINT = 13
    CHORD = 14


SOUNDNESS = {
    Rule.DIGITS: (
        "Products of determined nodes are determined. A single other node is the solution of a "
        "linear equation. Several others have ranges of widths w[i]: for two witnesses the sum of "
        "c[i] * d[i] is 0 modulo p, with differences |d[i]| <= w[i]. The sum of |c[i]| * w[i] is "
        "below p, or the sum of c[i] * x[i] has bounds that differ by less than p, so it is 0 as "
        "an integer. In ascending order each |c[i]| exceeds the sum of |c[j]| * w[j] before it, so "
        "the last nonzero d[i] would outweigh the others: all are 0."
    ),
    Rule.QUOTIENT: (
        "The product and a factor that is never 0 are determined, hence their quotient. If the "
        "product is 0 and a factor is never 0, the other factor is 0."
    ),
    Rule.SIGN: (
        "(k x + c)(l x + d) is determined. Two solutions x and y are equal or have the sum "
        "s = -(k d + l c) / (k l). No integer strictly between twice the bounds of x is s modulo "
        "p, so the sum is s only if both are the same bound."
    ),
    Rule.RANGE: (
        "An equation is solved for a node. The others have ranges; a sum of products of different "
        "nodes has its bounds at corners of these ranges, fewer than p integers apart."
    ),
    Rule.ROOTS: (
        "For each combination of values of the other nodes, a node is a root of a polynomial of "
        "degree at most 2. If none has a root, no witness belongs to the case."
    ),
    Rule.CASES: "As for ROOTS, but the nodes are the wires of the constraints.",
    Rule.NONZERO: (
        "A field has no divisors of zero: a product is nonzero exactly if both factors are."
    ),
    Rule.SPLIT: (
        "A sum of integers is a multiple of p between -p and p, so it is 0. It is l + m * h for "
        "two sums l and h. So l is a multiple of m between -m and m: l is 0, and so is h."
    ),
    Rule.DERIVE: (
        "A sum of multiples of polynomials that are 0 is 0. A new node may stand for a polynomial "
        "of earlier nodes."
    ),
    Rule.SUPPOSE: "In a first case a node has a value. Its facts end with the case.",
    Rule.OTHERWISE: "The first case implies the claim; in the second case the node differs.",
    Rule.JOIN: (
        "The second case implies the claim too. A claim that nodes are determined needs a case "
        "that both witnesses share, so the node that decides it is determined. A claim that the "
        "integer sum of bits is from 0 to p - 1 is about one witness."
    ),
    Rule.LEMMA: (
        "Consecutive rows are those of a lemma with its wires renamed. A witness of the system, "
        "restricted to them, is a witness of the lemma. So what the lemma concludes from facts "
        "about its wires follows from these facts about the renamed wires."
    ),
    Rule.POINT: (
        "Two polynomials are the coordinates of k·G for an integer k of some ranges: for each "
        "choice of values of their nodes they equal those of a multiple, or they equal two "
        "polynomials for which this was shown. G is on a regular curve B y² = x³ + A x² + x, is "
        "not infinity, and r·G is, so the prime r is its order. As r is odd, no multiple but "
        "infinity is its own negative, so y is never 0. The equations are summed with different "
        "powers of a variable that no constraint has, so each of them holds."
    ),
    Rule.CHORD: (
        "(x1, y1) = k·G and (x2, y2) = m·G, and no k - m is a multiple of the order of G, so the "
        "points differ. If x1 = x2, then s (x2 - x1) = y2 - y1 implies y1 = y2, and the points do "
        "not differ. So x1 and x2 do, s is the slope of the chord, which both points determine, "
        "and B s² = x1 + x2 + x3 + A and s (x1 - x3) = y1 + y3 say that (x3, y3) is (k + m)·G."
    ),
}


class Step(NamedTuple):
    """An application of a rule.

    sources: constraints, each with a multiplier, an integer or a polynomial. The rows come first,
        then the definitions of forms, then the polynomials that steps have derived.
    nodes: the nodes of the conclusion; none if a rule concludes about all undetermined nodes. For
        SUPPOSE the node that has a value, and those that both cases determine. For LEMMA the wire
        for each wire of the lemma from 1 on; the source is the first row. For CHORD the slope.
        For POINT the node that is y, if it is to be never 0.
    bounds: the range that the node has from this step on; for NONZERO the value that it never has,
        for SUPPOSE its value, for SPLIT m twice, for LEMMA its number twice.
    polynomials: for SPLIT both parts, for DERIVE the definition of a new node, for SUPPOSE the sums
        of bits that are from 0 to p - 1 in both cases, for DIGITS and RANGE the coefficients as
        integers, unless they are the residues next to 0. For POINT the coordinates, and those
        that they equal; for CHORD the coordinates of both points and of their sum.
    numbers: for POINT A and B of a curve, the coordinates and the order of G, and k for each choice
        of values; none for coordinates that equal those of an earlier step.
    """

    rule: Rule
    sources: tuple[tuple[int, int | Terms], ...]
    nodes: tuple[int, ...] = ()
    bounds: Range = NO_RANGE
    polynomials: tuple[Terms, ...] = ()
    numbers: tuple[int, ...] = ()


class CertificateError(QuodError):
    """A step of a certificate does not follow from the constraints and the steps before it."""


class Lemma(NamedTuple):
    """A system that occurs in others, with its wires renamed, and a certificate about it.

    rows: its inputs are the wires that an occurrence must determine. The lemma is about the
        targets.
    bounds: the ranges that wires must have in an occurrence.
    """

    rows: Rows
    form: NormalForm
    bounds: dict[int, Range]
    steps: Sequence[Step]


def digit_scale(coefficients: Sequence[int], widths: Sequence[int], prime: int) -> int | None:
    """Return a factor that turns coefficients into weights of a unique decomposition, or None.

    See `Rule.DIGITS`. The candidates are 1 and inverses of the coefficients.
    """
    if len({min(k, prime - k) for k in coefficients}) < len(coefficients):
        return None
    # From both ends inwards: digits usually come in the order of their weights, so that a few from
    # one of the ends show that a factor does not suit them.
    pairs = list(zip(coefficients, widths))
    pairs = [pair for ends in zip(pairs, reversed(pairs)) for pair in ends][: len(pairs)]
    for candidate in dict.fromkeys((1, *coefficients[:_MAX_SCALES])):
        scale = inverse(candidate, prime)
        if are_weights(((k * scale % prime, width) for k, width in pairs), prime):
            return scale
    return None


_MAX_SCALES = 80


def are_weights(pairs: Iterable[tuple[int, int]], prime: int) -> bool:
    """Return whether differences within widths have a weighted sum of 0 only if all are 0.

    pairs: coefficients with widths.
    """
    digits, total = [], 0
    for k, width in pairs:
        magnitude = min(k, prime - k)
        total += magnitude * width
        if total >= prime:
            return False
        digits.append((magnitude, width))
    total = 0
    for magnitude, width in sorted(digits):
        if magnitude <= total:
            return False
        total += magnitude * width
    return True


def sum_range(
    coefficients: Sequence[int], constant: int, ranges: Sequence[Range], divisor: int, prime: int
) -> Range | None:
    """Return the range of -(sum of coefficients * nodes + constant) / divisor, or None."""
    factor = -inverse(divisor, prime) % prime if divisor != prime - 1 else 1
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

    c = k·x·y + u·x + v·y + w, with centred k, u, v and w; x, y and c are different nodes.
    """
    (ka, first, ca), (kb, second, cb), (kc, result, cc) = product.a, product.b, product.c
    if len({first, second, result}) < 3:
        return None
    scale = inverse(kc, prime)
    k, u, v, w = (
        centred(number * scale, prime) for number in (ka * kb, ka * cb, ca * kb, ca * cb - cc)
    )
    # A constant factor leaves a linear term, whose coefficient is centred.
    if a[0] == a[1]:
        k, u, v, w = 0, 0, centred(k * a[0] + v, prime), centred(u * a[0] + w, prime)
    if b[0] == b[1]:
        k, u, v, w = 0, centred(k * b[0] + u, prime), 0, centred(v * b[0] + w, prime)
    corners = [k * x * y + u * x + v * y + w for x in a for y in b]
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
    return -term.constant * inverse(term.factor, prime) % prime


def sum_of_roots(product: Product, prime: int) -> int:
    """Return the sum of the two solutions of a product of terms of one node."""
    (ka, _, ca), (kb, _, cb) = product.a, product.b
    return -(ka * cb + kb * ca) * inverse(ka * kb % prime, prime) % prime


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
