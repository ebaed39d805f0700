"""MSMs over every group without a pairing, on every device, against plain integers."""

from __future__ import annotations

import pytest

from quod.curve.array import from_points
from quod.curve.edwards.operations import from_edwards_points
from quod.curve.edwards.weierstrass_model import WeierstrassModel
from quod.curve.group import Group
from quod.curve.weierstrass.curve import Curve
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import integers_to_words
from quod.field.moduli import Modulus
from quod.msm import MsmBases, edwards_msm, msm, msm_buffer, msm_many
from tests.curve.every import GROUPS, OWN_41, P256, cases, hostile, law_of
from tests.msm.inputs import scalar_words
from tests.reference.msm import msm as plain_msm

EVERY = cases(GROUPS)


def check(device: AnyDevice, group: Group) -> None:
    """Hostile points with equal scalars, the ends of the range, and others."""
    law, r = law_of(group), group.scalars.value
    points = hostile(group) * 2
    mixed = [0, 1, 2, r - 1, *((r // 7) * i % r for i in range(40))]
    for scalars in ([r - 1] * len(points), mixed):
        scalars = scalars[: len(points)]
        base_points = points[: len(scalars)]
        result = msm(device, group, from_points(group, base_points), scalar_words(scalars))
        assert result == plain_msm(law, scalars, base_points)


@EVERY
def test_msm(device: AnyDevice, group: Group) -> None:
    check(device, group)
    with pytest.raises(InputError, match=f"scalar 1 is not below the order of {group.name}"):
        points = from_points(group, [group.parameters.generator] * 2)
        msm(device, group, points, scalar_words([1, group.scalars.value]))


@pytest.mark.thorough
def test_msm_on_a_gpu(gpu_device: AnyDevice) -> None:
    """Over a field that fills its words, with a coefficient a."""
    check(gpu_device, P256)


@cases([group for group in GROUPS if isinstance(group, WeierstrassModel)])
def test_edwards_points(device: AnyDevice, group: WeierstrassModel) -> None:
    law, r = law_of(group), group.scalars.value
    points = hostile(group)
    scalars = [(r // 3) * i % r for i in range(len(points))]
    base_words = from_edwards_points(group.edwards, [group.to_edwards(point) for point in points])
    result = edwards_msm(device, group.edwards, base_words, scalar_words(scalars))
    assert result == group.to_edwards(plain_msm(law, scalars, points))


def test_scalars_in_as_many_words_as_the_order_has(device: AnyDevice) -> None:
    law, r = law_of(OWN_41), OWN_41.scalars.value
    points, scalars = hostile(OWN_41), [r - 1, 1, r // 3, r // 7, 5, r - 2]
    base_words, words = from_points(OWN_41, points), integers_to_words(OWN_41.fr, scalars)
    assert words.shape == (6, 2)
    expected = plain_msm(law, scalars, points)
    assert msm(device, OWN_41, base_words, words) == expected
    assert (
        msm_many(device, OWN_41, base_words, [words, scalar_words(scalars)[:, :2]])
        == [expected] * 2
    )
    with pytest.raises(InputError, match="scalar 1 is not below the order of own41"):
        msm(device, OWN_41, base_words, scalar_words([1, r])[:, :2])
    with pytest.raises(InputError, match=r"own41 are uint32 words of shape \(n, 2 or 8\), or"):
        msm(device, OWN_41, base_words, scalar_words(scalars)[:, :4])
    with pytest.raises(InputError, match=r"8 words each, zero-padded, .* shape \(6, 2\)"):
        msm_buffer(MsmBases(device, OWN_41, base_words), device.upload(words))


def test_orders_beyond_256_bits_are_refused(cpu_device: AnyDevice) -> None:
    order = Modulus.unchecked("long.fr", (1 << 300) - 1)
    long = Curve.unchecked("long", P256.fq, order, P256.a, P256.b, P256.generator)
    points = from_points(long, [P256.generator])
    with pytest.raises(InputError, match="scalars of at most 256 bits, and the order of long has"):
        MsmBases(cpu_device, long, points)
