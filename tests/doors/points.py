"""Fields, curves and multi-scalar multiplication in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quod import curve, field, msm
from quod.curve import CURVES
from quod.field import from_integers, integers_to_words
from tests.doors.row import (
    DEVICE,
    G1,
    GENERATOR,
    MODULUS,
    MSM,
    MSM_FINE,
    OPTIONAL,
    POINTS,
    SCALARS,
    VECTOR,
    Row,
)


def rows() -> Iterator[tuple[str, Row]]:
    """Of fields, curves and MSMs."""
    yield "msm", Row(msm.msm, {**MSM, "timeline": None}, MSM_FINE)
    many = {**MSM, "vectors": [SCALARS], "timeline": None}
    del many["scalars"]
    yield "msm_many", Row(msm.msm_many, many, MSM_FINE)
    bases = msm.MsmBases(DEVICE, G1, POINTS)
    yield "msm_buffer", Row(
        msm.msm_buffer,
        {"bases": bases, "scalars": DEVICE.upload(SCALARS), "vectors": 1, "timeline": None},
        {"timeline": OPTIONAL},
    )  # fmt: skip
    yield "msm_words", Row(
        msm.msm_words, {"bases": bases, "scalars": SCALARS, "options": None, "timeline": None},
        MSM_FINE,
    )  # fmt: skip
    yield (
        "MsmBases",
        Row(
            msm.MsmBases,
            {"device": DEVICE, "group": G1, "points": POINTS, "options": None},
            MSM_FINE,
        ),
    )
    yield "MsmOptions", Row(
        msm.MsmOptions,
        {"window_bits": None, "scalar_bits": 9, "precompute_factor": 1, "batch_size": 1,
         "streamed": None},
        {"window_bits": OPTIONAL, "scalar_bits": OPTIONAL, "precompute_factor": ("None", "huge"),
         "batch_size": ("None", "huge"), "streamed": ("None", "true")},
    )  # fmt: skip
    yield "FixedBase", Row(
        msm.FixedBase, {"device": DEVICE, "group": G1, "point": GENERATOR, "count": 1},
        {"point": OPTIONAL, "count": ("huge",)},
    )  # fmt: skip
    yield (
        "multiply_generator",
        Row(msm.multiply_generator, {"device": DEVICE, "group": G1, "scalars": SCALARS}),
    )
    yield "affine_ints", Row(msm.affine_ints, {"group": G1, "words": POINTS[0].view(np.uint64)})
    yield "plan_msm", Row(
        msm.plan_msm, {"group": G1, "count": 4, "options": msm.MsmOptions(), "batch": 1},
        {"batch": ("huge",)},
    )  # fmt: skip

    bn254 = CURVES["bn254"]
    pairs = {"device": DEVICE, "curve": bn254, "pairs": [(GENERATOR, bn254.g2.generator)]}
    yield "pairing_product", Row(curve.pairing_product, pairs)
    yield "pairing_product_is_one", Row(curve.pairing_product_is_one, pairs)
    edwards = curve.EDWARDS["baby_jubjub"]
    flat = np.zeros((2, 2, 8), np.uint32)
    own = {"device": DEVICE, "curve": edwards, "options": None}
    yield "edwards_bases", Row(msm.edwards_bases, {**own, "points": flat}, {"options": OPTIONAL})
    yield "edwards_msm", Row(
        msm.edwards_msm, {**own, "bases": flat, "scalars": SCALARS, "timeline": None},
        {"options": OPTIONAL, "timeline": OPTIONAL},
    )  # fmt: skip
    yield (
        "from_points",
        Row(
            curve.from_points,
            {"group": G1, "points": [GENERATOR]},
            {"points": ("a list", "a mapping")},
        ),
    )
    yield "to_points", Row(curve.to_points, {"group": G1, "array": POINTS})
    named = curve.WEIERSTRASS["secp256k1"]
    yield "Curve", Row(
        curve.Curve,
        {"name": "own", "fq": named.fq, "fr": named.fr, "a": named.a, "b": named.b,
         "generator": named.generator, "cofactor": 1},
        {"name": ("text",)},
    )  # fmt: skip
    yield "Modulus", Row(field.Modulus, {"name": "x", "value": 7}, {"name": ("text",)})
    yield "from_integers", Row(from_integers, {"field": MODULUS, "integers": [1]})
    yield "integers_to_words", Row(integers_to_words, {"field": MODULUS, "integers": [1]})
    yield "to_integers", Row(field.to_integers, {"field": MODULUS, "array": VECTOR})
    yield "words_to_integers", Row(field.words_to_integers, {"field": MODULUS, "array": VECTOR})
    yield "random_elements", Row(
        field.random_elements, {"field": MODULUS, "count": 1, "seed": 1},
        {"seed": ("None", "huge")},
    )  # fmt: skip
