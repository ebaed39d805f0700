"""Check of a key's points of h against powers of tau, with one random polynomial.

Let H_i be the points, x_i the points of their coset and R a polynomial of degree below n - 1. Then
the sum of R(x_i) * (shift**n - 1) * H_i is R(tau) * (tau**n - 1) / delta.
"""

from __future__ import annotations

import os

import numpy as np

from quod.ceremony.ratio import RANDOM_BITS
from quod.curve.array import Point
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words, from_montgomery
from quod.field.roots import quotient_coset_shift
from quod.formats import Zkey
from quod.formats.ptau import PowersOfTau
from quod.groth16.lagrange import scaled
from quod.msm import MsmBases, MsmOptions, affine_ints, msm_words
from quod.ntt import ntt


def check_powers(zkey: Zkey, powers: PowersOfTau) -> None:
    """Raise InputError if there are too few powers for a key."""
    if zkey.domain_size > 1 << powers.power:
        raise InputError(
            f"has 2**{powers.power} powers and the key needs {zkey.domain_size}; use "
            "the file that the key was made from",
            path=powers.path,
        )


def quotient_sums(device: AnyDevice, zkey: Zkey, powers: PowersOfTau) -> tuple[Point, Point]:
    """Return a random sum of the key's h, and the same sum of the powers, without 1 / delta.

    If h is valid, delta times the first point is the second. Raises InputError if there are too few
    powers.
    """
    check_powers(zkey, powers)
    n, fr = zkey.domain_size, zkey.fr
    group = GROUPS[f"{zkey.curve}.g1"]
    words_per_factor = RANDOM_BITS // 32
    factors = np.zeros((n, fr.words), np.uint32)
    random_words = np.frombuffer(os.urandom(4 * words_per_factor * (n - 1)), "<u4")
    factors[: n - 1, :words_per_factor] = random_words.reshape(n - 1, words_per_factor)
    shift = quotient_coset_shift(fr, "snarkjs", n.bit_length() - 1)
    # These few products are computed on the host, whose kernels compile faster.
    host = resolve_device("cpu")
    values = ntt(scaled(host, fr, factors, fr.montgomery_radix), fr, coset=shift)
    values = scaled(host, fr, values, pow(shift, n, fr.value) - 1)
    h_sum = _sum(device, group, zkey.h, from_montgomery(host, fr, values), None)
    upper, lower = (
        _sum(device, group, powers.tau_g1[first : first + n - 1], factors[: n - 1], RANDOM_BITS)
        for first in (n, 0)
    )
    law = affine_group(group)
    return h_sum, law.add(upper, law.negate(lower))


def _sum(device: AnyDevice, group: Group, points: Words, scalars: Words, bits: int | None) -> Point:
    options = MsmOptions(scalar_bits=bits, precompute_factor=1)
    words = msm_words(MsmBases(device, group, np.ascontiguousarray(points), options), scalars)
    return affine_ints(group, words)
