"""Native code: memory of devices, launches, MSMs, pairings, transforms; by pointer and length."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from quod import curve, field, msm, ntt
from quod.curve import CURVES
from quod.device import open_device
from quod.field import from_integers, integers_to_words
from tests.boundaries.row import (
    DEVICE,
    G1,
    GENERATOR,
    MODULUS,
    POINTS,
    SCALARS,
    VECTOR,
    Row,
    row,
)
from tests.device import kernels

MSM: dict[str, Any] = {"device": DEVICE, "group": G1}


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of all calls that take pointers and lengths."""
    yield from _memory()
    yield from _recordings()
    yield from _transforms()
    yield from _sums()
    yield from _arrays()


def _recording() -> Any:
    return DEVICE.stream().record()


def _memory() -> Iterator[tuple[str, Row]]:
    buffer, array = DEVICE.allocate(64), np.zeros(16, np.uint32)
    yield "open_device", row(
        open_device, {"threads": "huge", "memory_budget": "huge"}, threads=1, strategy="scalar",
        memory_budget=9,
    )  # fmt: skip
    yield "allocate", row(DEVICE.allocate, nbytes=8)
    yield "pinned", row(DEVICE.pinned, nbytes=8)
    yield "upload", row(DEVICE.upload, array=array, into=None)
    yield "download", row(DEVICE.download, buffer=buffer, array=array)
    yield "compile", row(DEVICE.compile, definition=kernels.increment, lanes=1, given=1)
    yield "on", row(partial(kernels.increment.on, DEVICE), lanes=1)
    yield "slice", row(buffer.slice, start=0, stop=4)
    yield "view", row(buffer.view, {"shape": "negative"}, dtype=np.uint8, shape=(64,))


def _recordings() -> Iterator[tuple[str, Row]]:
    buffer, array = DEVICE.allocate(64), np.zeros(16, np.uint32)
    kernel = DEVICE.compile(kernels.increment)
    launch: dict[str, Any] = {"kernel": kernel, "groups": 0, "n": 0, "x": array}
    yield "launch", row(
        lambda kernel, groups, n, x: DEVICE.launch(kernel, groups, n, x), **launch
    )  # fmt: skip
    yield "record a launch", row(
        lambda kernel, groups, n, x: _recording().launch(kernel, groups, n, x), **launch
    )  # fmt: skip
    yield "copy", row(lambda a, b: _recording().copy(a, b), a=buffer, b=buffer)
    yield "fill", row(lambda target, word: _recording().fill(target, word), target=buffer, word=0)


def _transforms() -> Iterator[tuple[str, Row]]:
    plan, coset = ntt.NttPlan(DEVICE, MODULUS, 1), {"coset": "negative huge"}
    yield "ntt", row(
        partial(ntt.ntt, [1, 2]), coset, family="snarkjs", root=None, ordering="NN", coset=None
    )  # fmt: skip
    yield "NttPlan", row(
        partial(ntt.NttPlan, modulus=MODULUS), device=DEVICE, log2_size=1, family="snarkjs",
        root=None,
    )  # fmt: skip
    for call in (plan.forward, plan.inverse):
        yield call.__name__, row(
            call, coset, data=VECTOR.copy(), batch=1, ordering="NN", coset=None
        )  # fmt: skip
    yield "coset_quotient", row(partial(ntt.coset_quotient, plan), evaluations=VECTOR, out=VECTOR)


def _sums() -> Iterator[tuple[str, Row]]:
    bases = msm.MsmBases(DEVICE, G1, POINTS)
    yield "msm", row(msm.msm, **MSM, bases=POINTS, scalars=SCALARS)
    yield "msm_many", row(msm.msm_many, **MSM, bases=POINTS, vectors=[SCALARS])
    yield "msm_buffer", row(
        partial(msm.msm_buffer, bases), scalars=DEVICE.upload(SCALARS), vectors=1
    )  # fmt: skip
    yield "msm_words", row(partial(msm.msm_words, bases), scalars=SCALARS)
    yield "MsmBases", row(msm.MsmBases, **MSM, points=POINTS)
    yield "MsmOptions", row(
        msm.MsmOptions, {"precompute_factor": "huge", "batch_size": "huge"}, window_bits=None,
        scalar_bits=9, precompute_factor=1, batch_size=1,
    )  # fmt: skip
    yield "plan_msm", row(
        partial(msm.plan_msm, options=msm.MsmOptions()), {"batch": "huge"}, group=G1, count=4,
        batch=1,
    )  # fmt: skip
    yield "FixedBase", row(
        msm.FixedBase, {"count": "huge"}, device=DEVICE, group=G1, point=GENERATOR, count=1
    )  # fmt: skip
    yield "multiply_generator", row(
        msm.multiply_generator, device=DEVICE, group=G1, scalars=SCALARS
    )  # fmt: skip
    edwards, flat = curve.EDWARDS["baby_jubjub"], np.zeros((2, 2, 8), np.uint32)
    yield "edwards_bases", row(
        msm.edwards_bases, device=DEVICE, curve=edwards, points=flat
    )  # fmt: skip
    yield "edwards_msm", row(
        msm.edwards_msm, device=DEVICE, curve=edwards, bases=flat, scalars=SCALARS,
    )  # fmt: skip
    bn254 = CURVES["bn254"]
    for call in (curve.pairing_product, curve.pairing_product_is_one):
        pairs = [(GENERATOR, bn254.g2.generator)]
        yield call.__name__, row(call, device=DEVICE, curve=bn254, pairs=pairs)


def _arrays() -> Iterator[tuple[str, Row]]:
    """Elements and points as words."""
    yield "from_points", row(curve.from_points, {"points": "a list"}, group=G1, points=[GENERATOR])
    yield "to_points", row(curve.to_points, group=G1, array=POINTS)
    yield "from_integers", row(from_integers, field=MODULUS, integers=[1])
    yield "integers_to_words", row(integers_to_words, field=MODULUS, integers=[1])
    yield "to_integers", row(field.to_integers, field=MODULUS, array=VECTOR)
    yield "words_to_integers", row(field.words_to_integers, field=MODULUS, array=VECTOR)
    yield "random_elements", row(
        field.random_elements, {"seed": "huge"}, field=MODULUS, count=1, seed=1
    )  # fmt: skip
