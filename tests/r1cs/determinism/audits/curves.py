"""Faults in points and quotients."""

from __future__ import annotations

from quod import r1cs
from tests.r1cs.determinism.audits.records import CIRCOMLIB, Audit, System, outputs

A = 168698
"""The coefficient of u² of Baby Jubjub in Montgomery form; that of v² is 1."""

Point = tuple[r1cs.Signal, r1cs.Signal]


def _point(system: System, name: str) -> Point:
    return system.public(f"{name}.u"), system.public(f"{name}.v")


def _third(system: System, slope: r1cs.Signal, first: Point, second_u: r1cs.Signal) -> Point:
    u = system.multiply(slope, slope) - A - first[0] - second_u
    return u, system.multiply(slope, first[0] - u) - first[1]


def _added(system: System, first: Point, second: Point) -> Point:
    slope = system.divide(second[1] - first[1], second[0] - first[0])
    return _third(system, slope, first, second[0])


def _doubled(system: System, point: Point) -> Point:
    u, v = point
    slope = system.divide(3 * system.multiply(u, u) + 2 * A * u + 1, 2 * v)
    return _third(system, slope, point, u)


def edwards_to_montgomery(system: System, is_mended: bool) -> None:
    """v = u/x is free for the point with x = u = 0."""
    x, y = system.public("x"), system.public("y")
    if is_mended:
        system.assert_nonzero(x)
    u = system.divide(1 + y, 1 - y)
    outputs(system, u=u, v=system.divide(u, x))


def montgomery_to_edwards(system: System, is_mended: bool) -> None:
    """x = u/v is free for the point (0, 0)."""
    u, v = _point(system, "p")
    if is_mended:
        system.assert_nonzero(v)
    outputs(system, x=system.divide(u, v), y=system.divide(u - 1, u + 1))


def addition(system: System, is_mended: bool) -> None:
    """The slope through two equal points is free."""
    first, second = _point(system, "p"), _point(system, "q")
    if is_mended:
        system.assert_nonzero(second[0] - first[0])
    u, v = _added(system, first, second)
    outputs(system, u=u, v=v)


def doubling(system: System, is_mended: bool) -> None:
    """The slope is free for v = 0 and a root of its numerator."""
    point = _point(system, "p")
    if is_mended:
        system.assert_nonzero(point[1])
    u, v = _doubled(system, point)
    outputs(system, u=u, v=v)


def element_of_multiple(system: System, is_mended: bool) -> None:
    """A step of a multiplication doubles and adds points that may be equal."""
    bit = system.private_bits("bit", 1)[0]
    point, addend = _point(system, "p"), _point(system, "q")
    if is_mended:
        system.assert_nonzero(point[1])
    double = _doubled(system, point)
    if is_mended:
        system.assert_nonzero(addend[0] - double[0])
    total = _added(system, double, addend)
    outputs(
        system,
        u=system.select(bit, total[0], addend[0]),
        v=system.select(bit, total[1], addend[1]),
    )


def unchecked_inverse(system: System, is_mended: bool) -> None:
    """A product with the inverse of a number that may be 0."""
    a, b = system.public("a"), system.public("b")
    inverse = system.inverse_or_zero(b)
    if is_mended:
        system.enforce(b, inverse, 1)
    else:
        system.enforce(system.multiply(b, inverse), b, b)
    outputs(system, quotient=system.multiply(a, inverse))


def signature_scalar(system: System, is_mended: bool) -> None:
    """A key is s·T + U; nothing constrains the hint s, so T and U fit any key."""
    t, u = system.public("t"), system.public("u")
    (s,) = system.hint(lambda first, second: first + second, [t, u])
    if is_mended:
        system.assert_equal(s, t + u)
    outputs(system, key=system.multiply(s, t) + u)


AUDITS = [
    Audit("Edwards to Montgomery", f"{CIRCOMLIB}, V-CIRCOMLIB-VUL-002", edwards_to_montgomery),
    Audit("Montgomery to Edwards", f"{CIRCOMLIB}, V-CIRCOMLIB-VUL-003", montgomery_to_edwards),
    Audit("Montgomery addition", f"{CIRCOMLIB}, V-CIRCOMLIB-VUL-004", addition),
    Audit("Montgomery doubling", f"{CIRCOMLIB}, V-CIRCOMLIB-VUL-005", doubling),
    Audit("element of a multiple", f"{CIRCOMLIB}, V-CIRCOMLIB-VUL-006", element_of_multiple),
    Audit("product with an inverse", "arkworks r1cs-std, pull request 70", unchecked_inverse),
    Audit("scalar of a signature", "yAcademy, spartan-ecdsa", signature_scalar),
]
