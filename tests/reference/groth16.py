"""Groth16 (eprint 2016/260) on plain integers, with the keys of snarkjs.

snarkjs's H points are the Lagrange basis of the odd coset, the division by the vanishing
polynomial included, so the prover needs no last inverse transform.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.roots import RootFamily, quotient_coset_shift
from tests.reference.circom import Key, Proof, VerifyingKey
from tests.reference.curve import g1_of, g2_of
from tests.reference.msm import msm
from tests.reference.ntt import ntt
from tests.reference.pairing import pairing_check


def evaluations(key: Key, witness: Sequence[int]) -> tuple[list[int], list[int]]:
    """A*w and B*w: one value a point of the domain."""
    r = key.curve.fr.value
    sums = [0] * key.domain, [0] * key.domain
    for matrix, constraint, signal, value in key.coefficients:
        sums[matrix][constraint] = (sums[matrix][constraint] + value * witness[signal]) % r
    return sums


def quotient_scalars(key: Key, witness: Sequence[int], family: RootFamily = "snarkjs") -> list[int]:
    """The scalars of the H points: (A*w)(B*w) - C*w on the odd coset."""
    fr, r = key.curve.fr, key.curve.fr.value
    a, b = evaluations(key, witness)
    c = [left * right % r for left, right in zip(a, b)]
    shift = quotient_coset_shift(fr, family, key.domain.bit_length() - 1)
    on_coset = [
        ntt(fr, ntt(fr, values, family=family, inverse=True), family=family, shift=shift)
        for values in (a, b, c)
    ]
    return [(left * right - product) % r for left, right, product in zip(*on_coset)]


def prove(
    key: Key, witness: Sequence[int], r: int, s: int, family: RootFamily = "snarkjs"
) -> tuple[Proof, list[int]]:
    """The proof with the randomness (r, s), and the public inputs."""
    g1, g2 = g1_of(key.curve), g2_of(key.curve)
    blind = g1.mul(r, key.delta1)
    a = g1.add(g1.add(key.alpha1, msm(g1, witness, key.a)), blind)
    b2 = g2.add(g2.add(key.beta2, msm(g2, witness, key.b2)), g2.mul(s, key.delta2))
    b1 = g1.add(g1.add(key.beta1, msm(g1, witness, key.b1)), g1.mul(s, key.delta1))
    private = witness[key.publics + 1 :]
    c = g1.add(msm(g1, private, key.c), msm(g1, quotient_scalars(key, witness, family), key.h))
    c = g1.add(g1.add(c, g1.mul(s, a)), g1.mul(r, b1))
    c = g1.add(c, g1.mul(-r * s % key.curve.fr.value, key.delta1))
    return Proof(a, b2, c), list(witness[1 : key.publics + 1])


def verifying_key(key: Key) -> VerifyingKey:
    """The part of a proving key that verifies."""
    return VerifyingKey(key.curve, key.alpha1, key.beta2, key.gamma2, key.delta2, key.ic)


def verify(key: VerifyingKey, public: Sequence[int], proof: Proof) -> bool:
    """Return whether the proof holds: e(A, B) = e(alpha, beta) e(sum of public*ic, gamma) e(C,
    delta).

    False, too, for a wrong count of inputs, an input of r or more, and a point that is infinity,
    off its curve or outside the subgroup of order r.
    """
    curve = key.curve
    g1, g2, r = g1_of(curve), g2_of(curve), curve.fr.value
    if len(public) + 1 != len(key.ic) or any(not 0 <= value < r for value in public):
        return False
    if proof.a is None or proof.b is None or proof.c is None:
        return False
    if not (g1.contains(proof.a) and g2.contains(proof.b) and g1.contains(proof.c)):
        return False
    if any((g1.mul(r, proof.a), g2.mul(r, proof.b), g1.mul(r, proof.c))):
        return False
    inputs = msm(g1, [1, *public], key.ic)
    return pairing_check(
        curve,
        [
            (g1.neg(proof.a), proof.b),
            (key.alpha1, key.beta2),
            (inputs, key.gamma2),
            (proof.c, key.delta2),
        ],
    )
