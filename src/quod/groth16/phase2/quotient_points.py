"""Check of a key's points of the quotient against powers of tau, by one random polynomial.

With H_i the points, x_i the coset that they belong to and R a polynomial of degree below n - 1, the
sum of R(x_i) * (shift**n - 1) * H_i is R(tau) * (tau**n - 1) / delta.
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
    """InputError if there are too few powers for a key."""
    if zkey.domain_size > 1 << powers.power:
        raise InputError(
            f"has 2**{powers.power} powers and the key needs {zkey.domain_size}; use "
            "the file that the key was made from",
            path=powers.path,
        )


def quotient_sums(device: AnyDevice, zkey: Zkey, powers: PowersOfTau) -> tuple[Point, Point]:
    """A random sum of the key's h, and what it is times delta if they are those of the powers.

    InputError if there are too few powers.
    """
    check_powers(zkey, powers)
    n, fr = zkey.domain_size, zkey.fr
    group = GROUPS[f"{zkey.curve}.g1"]
    words = RANDOM_BITS // 32
    factors = np.zeros((n, fr.words), np.uint32)
    drawn = np.frombuffer(os.urandom(4 * words * (n - 1)), "<u4")
    factors[: n - 1, :words] = drawn.reshape(n - 1, words)
    shift = quotient_coset_shift(fr, "snarkjs", n.bit_length() - 1)
    # As few products as these are done where the kernels are small.
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
