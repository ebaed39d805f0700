"""Export of a key as MPC parameters, the format of bellman's tools for second phases.

The file has the points of a verifying key, then ic, h, l, a, b in G1 and b in G2, each after its
length, in the layout of `quod.formats.bellman`. The circuit hash, the number of contributions and
the contributions without their details follow. Points are uncompressed and big-endian
(`quod.ceremony.point_bytes`).

Two things differ from the parameters of bellman's prover. The lists a and b have a point for every
variable, and infinity is encoded as zeros. And the domain is that of snarkjs's root of unity, which
differs from bellman's over BLS12-381, so no key of snarkjs over that curve can be converted for
bellman's prover. The parts that contributions change, which are delta, h and l, have the same form
in both.

In a zkey, h is for the values of the quotient on a coset with the points x_j = shift * w**j. Let n
be the size of the domain and Z(x) = x**n - 1, which is shift**n - 1 on the whole coset. Then

    tau**i * Z(tau) / delta  =  (shift**n - 1) * shift**i * (sum of w**(i*j) * h_j),

which is a forward transform of points. The last of these n points is omitted: quotients have a
smaller degree, and powers of tau for a domain of size n do not include it.
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
"""The names in zkeys of lists that have another name in MPC parameters."""


def export_bellman(
    source: Path,
    target: Path,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> None:
    """Write the key `source` as MPC parameters to `target`, as ``snarkjs zkey export bellman``.

    Raises InputError for a key that is damaged, has points outside their groups or no transcript;
    DeviceError if the device has too little memory for the transform of h; OutputError if the file
    cannot be written, and for an existing target, unless `replace` is set.
    """
    timeline, resolved_device, host = (
        or_null(timeline),
        resolve_device(device),
        resolve_device("cpu"),
    )
    file = Iden3File.open(source, KIND, VERSION)
    zkey = Zkey.of(file)
    zkey.check_points()
    curve = CURVES[zkey.curve]
    ceremony = Ceremony.read(file, curve)
    groups = {degree: group_of(curve, degree) for degree in (1, 2)}
    LagrangeLevels.check_memory(resolved_device, groups[1], zkey.log2_domain)
    for name, degree in VERIFYING_KEY.items():
        check_point(groups[degree], getattr(zkey, name)[None], partial(zkey.refuse, name, 0))
    for name, degree in {"ic": 1, **LISTS}.items():
        with timeline.stage(f"check {name}"):
            _check_points(resolved_device, zkey, groups[degree], NAMES.get(name, name))

    def write_points(output: BinaryIO, group: Group, points: Words) -> None:
        for first, end in windows(group, len(points)):
            output.write(uncompressed(host, group, np.array(points[first:end])).data)

    def write(output: BinaryIO) -> None:
        for name, degree in VERIFYING_KEY.items():
            write_points(output, groups[degree], getattr(zkey, name)[None])
        for name, degree in {"ic": 1, **LISTS}.items():
            with timeline.stage(name):
                points: Words = getattr(zkey, NAMES.get(name, name))
                is_quotient = name == "h"
                output.write((len(points) - is_quotient).to_bytes(4, "big"))
                parts = quotient_powers(resolved_device, zkey) if is_quotient else iter([points])
                for part in parts:
                    write_points(output, groups[degree], part)
        output.write(ceremony.circuit_hash)
        output.write(len(ceremony.contributions).to_bytes(4, "big"))
        for contribution in ceremony.contributions:
            output.write(contribution.public_bytes(curve))
        zkey.check_unchanged()

    write_atomically(target, write, replace=replace)


def quotient_powers(device: AnyDevice, zkey: Zkey) -> Iterator[Words]:
    """Yield the points tau**i * Z(tau) / delta for i below n - 1, affine and in order, in arrays.

    The points of the key's h must be in their group.
    """
    n, fr, group = zkey.domain_size, zkey.fr, group_of(CURVES[zkey.curve], 1)
    shift = quotient_coset_shift(fr, "snarkjs", zkey.log2_domain)
    # The forward transform is n times the inverse transform with the indices negated modulo n.
    levels = LagrangeLevels(device, group, zkey.log2_domain)
    ((_, inverse_transform),) = levels.run(np.array(zkey.h), wanted={zkey.log2_domain})
    sums = np.roll(inverse_transform[::-1], 1, axis=0)
    scale = Secret.of_public(fr, n * (pow(shift, n, fr.value) - 1) % fr.value)
    step = Secret.of_public(fr, shift)
    for first, end in windows(group, n - 1):
        scalars = np.empty((end - first, fr.words), np.uint32)
        powers_of(step, scale, first, scalars)
        yield secret_multiples(device, group, np.ascontiguousarray(sums[first:end]), scalars)


def quotient_points(device: AnyDevice, zkey: Zkey, powers: Words) -> Words:
    """Return the h of a key from the n - 1 points of `quotient_powers`, in one array.

    The omitted point is treated as infinity, so each point of h differs from the original by a
    multiple of the omitted one.
    """
    n, fr, group = zkey.domain_size, zkey.fr, group_of(CURVES[zkey.curve], 1)
    shift = quotient_coset_shift(fr, "snarkjs", zkey.log2_domain)
    scale = Secret.of_public(fr, pow(pow(shift, n, fr.value) - 1, -1, fr.value))
    step = Secret.of_public(fr, pow(shift, -1, fr.value))
    sums = np.zeros((n, *group.shape), np.uint32)
    for first, end in windows(group, n - 1):
        scalars = np.empty((end - first, fr.words), np.uint32)
        powers_of(step, scale, first, scalars)
        sums[first:end] = secret_multiples(device, group, powers[first:end], scalars)
    levels = LagrangeLevels(device, group, zkey.log2_domain)
    ((_, h),) = levels.run(sums, wanted={zkey.log2_domain})
    return h


def _check_points(device: AnyDevice, zkey: Zkey, group: Group, name: str) -> None:
    """Raise InputError for a point of an array outside its group."""
    points: Words = getattr(zkey, name)
    for first, end in windows(group, len(points)):
        bad_point = first_bad_point(
            device, group, np.array(points[first:end]), subgroup=True,
            infinity=name in MAY_BE_INFINITE,
        )  # fmt: skip
        if bad_point is not None:
            zkey.refuse(name, first + bad_point[0], bad_point[1])
