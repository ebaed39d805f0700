"""MSMs over a twisted Edwards curve, in its Weierstrass model."""

from __future__ import annotations

from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.edwards.operations import to_model
from quod.curve.edwards.weierstrass_model import WeierstrassModel, model_of
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError
from quod.msm.bases import MsmBases, affine_ints, check_one_vector, msm_words
from quod.msm.options import MsmOptions


def edwards_bases(
    device: DeviceChoice, curve: EdwardsCurve, points: Array, options: MsmOptions | None = None
) -> MsmBases:
    """Return `MsmBases` of points of a twisted Edwards curve.

    points: affine points in or outside the subgroup, of shape (n, 2, words) as in
        `quod.curve.edwards.operations`. They are not checked to be on the curve.
    """
    device, model = resolve_device(device), model_of(curve)
    return MsmBases(device, model, to_model(device, model, points), options)


def edwards_msm(
    device: DeviceChoice,
    curve: EdwardsCurve,
    bases: Array | MsmBases,
    scalars: Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> tuple[int, int]:
    """Return the sum of scalars[i] * bases[i] as affine integers; (0, 1) is the neutral element.

    scalars: integers below the order of the subgroup, an array as for `msm_words`.
    Raises the errors of `msm_words`, and InputError for bases of another curve.
    """
    check_one_vector(scalars)
    resident = (
        bases if isinstance(bases, MsmBases) else edwards_bases(device, curve, bases)
    )  # fmt: skip
    model = resident.group
    if not isinstance(model, WeierstrassModel) or model.edwards != curve:
        raise InputError(f"the bases are of {model.name}, not of {curve.name}")
    point = affine_ints(model, msm_words(resident, scalars, options, timeline))
    if point is None:
        return model.to_edwards(None)
    x, y = point
    assert isinstance(x, int)
    assert isinstance(y, int)
    return model.to_edwards((x, y))
