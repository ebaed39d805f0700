"""Check of the Lagrange bases of a prepared file against its powers."""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from quod.ceremony.powers.ptau_layout import LAGRANGE, LagrangeSection
from quod.ceremony.powers.verified_parts import VerifiedParts
from quod.ceremony.public_key import group_of
from quod.ceremony.ratio import RANDOM_BITS, same_ratio, weighted_sum
from quod.ceremony.windows import blocks, windows
from quod.curve.array import Point, to_points
from quod.curve.weierstrass.affine import affine_group
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import VerificationError
from quod.field.array import Words, words_to_integers
from quod.field.kernels import field_add
from quod.formats.ptau import PowersOfTau
from quod.ntt import ntt


def check_prepared(
    device: AnyDevice, file: PowersOfTau, timeline: Timeline, parts: VerifiedParts
) -> None:
    """Raise VerificationError unless every level is the inverse transform of the powers.

    For random r_i, the sum of r_i * L_i(tau) over a level's points equals the sum of c_k * tau**k
    over the powers, where c is the inverse transform of r. Raises InputError, with section and
    offset, for a section of another length and for points outside their groups.
    """
    for lagrange in LAGRANGE:
        with timeline.stage(lagrange.name):
            _check(device, file, lagrange, parts)


def _check(
    device: AnyDevice, file: PowersOfTau, lagrange: LagrangeSection, parts: VerifiedParts
) -> None:
    group = lagrange.of.group(file.curve_parameters)
    section, points = lagrange.points(file)

    def check_points(begin: int, end: int) -> None:
        for first, last in windows(group, end - begin):
            window = np.array(points[begin + first : begin + last])
            bad_point = first_bad_point(device, group, window, subgroup=True, infinity=False)
            if bad_point is not None:
                index = begin + first + bad_point[0]
                section.fail(
                    f"point {index} of the {lagrange.name} {bad_point[1]}; prepare the file again",
                    section.offset + index * points[0].nbytes,
                )

    for begin, end in blocks(group, len(points)):
        label = f"Lagrange points in {group.name}"
        parts.once(label, partial(check_points, begin, end), points[begin:end])
    powers, tau = lagrange.of.points(file), file.tau_g2[1:2]
    label = (
        f"Lagrange bases in {group.name} of {file.power} of {file.ceremony_power}, "
        f"{lagrange.of.name}"
    )
    parts.once(label, lambda: _check_levels(device, file, lagrange, points), points, powers, tau)


def _check_levels(
    device: AnyDevice, file: PowersOfTau, lagrange: LagrangeSection, points: Words
) -> None:
    curve, max_level = file.curve_parameters, lagrange.levels(file.power)
    group = lagrange.of.group(curve)
    law, fr = affine_group(group), group.scalars
    powers = lagrange.of.points(file)
    total: Point = None
    coefficients = np.zeros((1 << max_level, fr.words), np.uint32)
    for level in range(max_level + 1):
        size = 1 << level
        factors = np.zeros((size, fr.words), np.uint32)
        factors[:, : RANDOM_BITS // 32] = np.frombuffer(
            os.urandom(size * RANDOM_BITS // 8), "<u4"
        ).reshape(size, -1)
        total = law.add(
            total,
            weighted_sum(device, group, points[size - 1 : 2 * size - 1], factors, RANDOM_BITS),
        )
        # Transforms are linear, so the result for canonical integers is canonical too.
        inverse_transform = ntt(factors, fr, inverse=True, device=device) if level else factors
        device.launch(
            device.compile(field_add, spec=fr), -(-size // device.lanes), size,
            coefficients[:size], inverse_transform, coefficients[:size],
        )  # fmt: skip
    count = len(powers)
    difference = law.add(
        total, law.negate(weighted_sum(device, group, powers, coefficients[:count], fr.bits))
    )
    matches = difference is None
    if not matches and file.power < file.ceremony_power and lagrange.of.twice:
        # The file was truncated after its preparation, which removed the last power of the largest
        # level. That power is tau times the one before.
        (last_coefficient,) = words_to_integers(fr, coefficients[count])
        (last_power,) = to_points(group, powers[-1:])
        tau = (curve.g2.generator, to_points(group_of(curve, 2), file.tau_g2[1:2])[0])
        matches = same_ratio(curve, (law.multiply(last_coefficient, last_power), difference), tau)
    if not matches:
        raise VerificationError(
            f"{file.path}: the {lagrange.name} do not match its powers; prepare the file again"
        )
