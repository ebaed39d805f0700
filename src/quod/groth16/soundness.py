"""Detection of keys whose points show that anyone can forge proofs.

Each pairing on the right of the verifier's equation is with beta, gamma or delta. If two of these
are equal up to sign, or known multiples of a generator, proofs can be forged. With
X = IC_0 + sum of x_i * IC_i, these triples (A, B, C) verify for any inputs x:

- (alpha, beta, -X) if gamma = delta, and (alpha, beta, X) if gamma = -delta. This is a key without
  a contribution to phase 2: its delta is still the generator, like snarkjs's gamma.
- (alpha + X + delta, beta, beta) if gamma = beta, and (X, gamma, -alpha) if delta = beta, with the
  delta and beta in G1 of the proving key; similarly with other signs.
- (X + beta, gamma, infinity), and similar ones, if alpha or beta is a generator and gamma is one
  too. This is a key without a contribution to phase 1.

This does not detect that somebody knows a secret of a key whose points show no such relation; the
ceremony is to prevent that.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from quod.curve.array import Point, to_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.parameters import G1Point, G2Point
from quod.curve.weierstrass.affine import g2_group
from quod.errors import InsecureKeyError
from quod.formats import VerifyingKeyJson, Zkey
from quod.frozen import frozen
from quod.groth16.tags import INSECURE_TAG, TEST_GAMMA

_CEREMONY = (
    "make a key by a ceremony (quod groth16 setup, then quod zkey contribute OLD.zkey NEW.zkey)"
)
_PHASE_1 = (
    "contribute to phase 1 (quod powersoftau contribute OLD.ptau NEW.ptau) and make the key "
    "again from that"
)
_PHASE_2 = (
    "contribute to it (quod zkey contribute OLD.zkey NEW.zkey) and export the verifying key of "
    "the new one"
)


@frozen
class Weakness:
    """The reason why anyone can forge proofs for a key, and the remedy, for messages."""

    reason: str
    remedy: str

    def error(self, path: str | None = None) -> InsecureKeyError:
        """Return the error to raise unless insecure keys are allowed; `path` is the key's file."""
        prefix = "" if path is None else f"{path}: "
        return InsecureKeyError(
            f"{prefix}anyone can forge proofs for this key: {self.reason}; "
            f"{self.remedy}, or accept it for tests only, with --insecure-test-key (in "
            "Python allow_insecure=True)"
        )


TEST_KEY = Weakness("it is a test key of quod groth16 test-key", _CEREMONY)
"""The weakness of every key with the gamma of test keys."""


def weakness(
    curve: str, alpha_g1: G1Point, beta_g2: G2Point, gamma_g2: G2Point, delta_g2: G2Point
) -> Weakness | None:
    """Return the weakness that a verifying key's points show, or None.

    Points are pairs of integers, not in Montgomery form.
    """
    parameters = CURVES[curve]
    # A point and its negative share x.
    alpha, beta, gamma, delta = (
        None if point is None else point[0] for point in (alpha_g1, beta_g2, gamma_g2, delta_g2)
    )
    if None in (alpha, beta, gamma, delta):
        return Weakness("alpha, beta, gamma or delta is infinity", _CEREMONY)
    g1_x, g2_x = parameters.g1.generator[0], parameters.g2.generator[0]
    # snarkjs's gamma is the generator, which needs no multiplication to compare.
    if gamma != g2_x and gamma == _test_gamma(curve):
        return TEST_KEY
    if gamma == delta:
        return Weakness("delta is gamma up to sign, no contribution to phase 2", _PHASE_2)
    if delta == g2_x:
        return Weakness("delta is a generator, no contribution to phase 2", _PHASE_2)
    if alpha == g1_x or beta == g2_x:
        return Weakness("alpha or beta is a generator, no contribution to phase 1", _PHASE_1)
    if beta in (gamma, delta):
        return Weakness("beta is gamma or delta up to sign", _CEREMONY)
    return None


def weakness_of(key: Zkey | VerifyingKeyJson) -> Weakness | None:
    """Return the weakness of a key read from a file, or None.

    The circuit hash of a proving key may mark it as a test key.
    """
    if isinstance(key, VerifyingKeyJson):
        return weakness(key.curve, key.alpha_g1, key.beta_g2, key.gamma_g2, key.delta_g2)
    if (key.circuit_hash or b"").startswith(INSECURE_TAG):
        return TEST_KEY
    alpha, *others = key_points(key).values()
    return weakness(key.curve, alpha, *others)


def key_points(zkey: Zkey) -> dict[str, Any]:
    """Return alpha_g1, beta_g2, gamma_g2 and delta_g2 of a proving key, by name, as integers."""
    points: dict[str, Point] = {}
    for name in ("alpha_g1", "beta_g2", "gamma_g2", "delta_g2"):
        words = np.asarray(getattr(zkey, name))
        (points[name],) = to_points(GROUPS[f"{zkey.curve}.{name[-2:]}"], words[None])
    return points


@cache
def _test_gamma(curve: str) -> Any:
    """Return the x coordinate of the gamma of all test keys."""
    law = g2_group(CURVES[curve])
    point = law.multiply(TEST_GAMMA, law.generator)
    assert point is not None
    return point[0]
