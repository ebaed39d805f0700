"""A key as bellman's tools for second phases take it: MPC parameters, the file of snarkjs.

The points of a verifying key, then ic, h, l, a, b in G1 and b in G2 after their lengths, in the
layout of `quod.formats.bellman`; the circuit hash, a count, and the contributions without their
details. Points are uncompressed and big-endian (`quod.ceremony.point_bytes`).

Two things are not as in parameters that bellman proves with. The lists a and b have a point for
each variable, infinity, which is zeros, among them. And the circuit's rows lie at powers of
snarkjs's root of unity, which over BLS12-381 is another than bellman's: matrices at other places
make another key, so that no key of snarkjs over that curve becomes one for bellman's prover. What
contributions touch is the same in both: delta, h and l.

In a zkey h belongs to the values of the quotient on a coset of points x_j = shift * w**j. With n
the size of the domain and Z = x**n - 1, which is shift**n - 1 on all of the coset,

    tau**i * Z(tau) / delta  =  (shift**n - 1) * shift**i * (sum of w**(i*j) * h_j),

a forward transform of points. The last of these n is left out: a quotient has a smaller degree, and
powers of tau as many as the domain do not reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import numpy as np

from quod.ceremony.multiples import powers_of, secret_multiples
from quod.ceremony.point_bytes import uncompressed
from quod.ceremony.public_key import check_point, group_of
from quod.ceremony.secret import Secret
from quod.ceremony.windows import windows
from quod.curve.group import Group
from quod.curve.named import CURVES
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline, or_null
from quod.field.array import Words
from quod.field.roots import quotient_coset_shift
from quod.formats.bellman import LISTS, VERIFYING_KEY
from quod.formats.iden3 import Iden3File
from quod.formats.output import write_atomically
from quod.formats.source import Path
from quod.formats.zkey.file import KIND, VERSION, Zkey
from quod.formats.zkey.infinity import MAY_BE_INFINITE
from quod.groth16.phase2.key_contribution import Ceremony
from quod.ntt.points import LagrangeLevels

NAMES = {"l": "c"}
"""Names of lists in zkeys that differ from those in MPC parameters."""


def export_bellman(
    source: Path,
    target: Path,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> None:
    """Write the key `source` as MPC parameters to `target`, as ``snarkjs zkey export bellman``.

    InputError for a key that is damaged, has points outside their groups or no transcript;
    DeviceError where the device has too little memory for the transform of h; OutputError if the
    file cannot be written, and for an existing target, unless `replace` is set.
    """
    timeline, opened, host = or_null(timeline), resolve_device(device), resolve_device("cpu")
    file = Iden3File.open(source, KIND, VERSION)
    zkey = Zkey.of(file)
    zkey.check_points()
    curve = CURVES[zkey.curve]
    ceremony = Ceremony.read(file, curve)
    groups = {degree: group_of(curve, degree) for degree in (1, 2)}
    LagrangeLevels.check_memory(opened, groups[1], zkey.log2_domain)
    for name, degree in VERIFYING_KEY.items():
        check_point(groups[degree], getattr(zkey, name)[None], partial(zkey.refuse, name, 0))
    for name, degree in {"ic": 1, **LISTS}.items():
        with timeline.stage(f"check {name}"):
            _check(opened, zkey, groups[degree], NAMES.get(name, name))

    def put(output: BinaryIO, group: Group, points: Words) -> None:
        for first, last in windows(group, len(points)):
            output.write(uncompressed(host, group, np.array(points[first:last])).data)

    def write(output: BinaryIO) -> None:
        for name, degree in VERIFYING_KEY.items():
            put(output, groups[degree], getattr(zkey, name)[None])
        for name, degree in {"ic": 1, **LISTS}.items():
            with timeline.stage(name):
                points: Words = getattr(zkey, NAMES.get(name, name))
                is_quotient = name == "h"
                output.write((len(points) - is_quotient).to_bytes(4, "big"))
                parts = quotient_powers(opened, zkey) if is_quotient else iter([points])
                for part in parts:
                    put(output, groups[degree], part)
        output.write(ceremony.circuit_hash)
        output.write(len(ceremony.contributions).to_bytes(4, "big"))
        for contribution in ceremony.contributions:
            output.write(contribution.public_bytes(curve))
        zkey.check_unchanged()

    write_atomically(target, write, replace=replace)


def quotient_powers(device: AnyDevice, zkey: Zkey) -> Iterator[Words]:
    """tau**i * Z(tau) / delta for i below n - 1, affine and in order, some at a time.

    The points of h must be in their group.
    """
    n, fr, group = zkey.domain_size, zkey.fr, group_of(CURVES[zkey.curve], 1)
    shift = quotient_coset_shift(fr, "snarkjs", zkey.log2_domain)
    # n times the inverse transform, read backwards from 0, is the forward one.
    levels = LagrangeLevels(device, group, zkey.log2_domain)
    ((_, back),) = levels.run(np.array(zkey.h), wanted={zkey.log2_domain})
    sums = np.roll(back[::-1], 1, axis=0)
    scale = Secret.of_public(fr, n * (pow(shift, n, fr.value) - 1) % fr.value)
    step = Secret.of_public(fr, shift)
    for first, last in windows(group, n - 1):
        scalars = np.empty((last - first, fr.words), np.uint32)
        powers_of(step, scale, first, scalars)
        yield secret_multiples(device, group, np.ascontiguousarray(sums[first:last]), scalars)


def quotient_points(device: AnyDevice, zkey: Zkey, powers: Words) -> Words:
    """The h of a key from what `quotient_powers` gives of it, n - 1 points in one array.

    What is left out there is infinity: the points are those of a key but for that.
    """
    n, fr, group = zkey.domain_size, zkey.fr, group_of(CURVES[zkey.curve], 1)
    shift = quotient_coset_shift(fr, "snarkjs", zkey.log2_domain)
    scale = Secret.of_public(fr, pow(pow(shift, n, fr.value) - 1, -1, fr.value))
    step = Secret.of_public(fr, pow(shift, -1, fr.value))
    sums = np.zeros((n, *group.shape), np.uint32)
    for first, last in windows(group, n - 1):
        scalars = np.empty((last - first, fr.words), np.uint32)
        powers_of(step, scale, first, scalars)
        sums[first:last] = secret_multiples(device, group, powers[first:last], scalars)
    levels = LagrangeLevels(device, group, zkey.log2_domain)
    ((_, h),) = levels.run(sums, wanted={zkey.log2_domain})
    return h


def _check(device: AnyDevice, zkey: Zkey, group: Group, name: str) -> None:
    """InputError for a point outside its group."""
    points: Words = getattr(zkey, name)
    for first, last in windows(group, len(points)):
        bad = first_bad_point(
            device, group, np.array(points[first:last]), subgroup=True,
            infinity=name in MAY_BE_INFINITE,
        )  # fmt: skip
        if bad is not None:
            zkey.refuse(name, first + bad[0], bad[1])
