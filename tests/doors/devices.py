"""Devices, recordings and transforms in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from quod import ntt, progress
from quod.device import Event, open_device, recorder_of
from quod.device.runtime.timeline import Timeline
from tests.device import kernels
from tests.doors.row import ANY_INT, DEVICE, MODULUS, OPTIONAL, VECTOR, Row


def transform(log2_size: int = 1) -> ntt.NttPlan:
    return ntt.NttPlan(DEVICE, MODULUS, log2_size)


def recording() -> Any:
    return DEVICE.stream().record()


def rows() -> Iterator[tuple[str, Row]]:
    """Of devices and of transforms."""
    buffer, array = DEVICE.allocate(64), np.zeros(16, np.uint32)
    kernel = DEVICE.compile(kernels.increment)
    yield "open_device", Row(
        open_device,
        {"name": "cpu", "threads": 1, "strategy": "scalar", "memory_budget": 9, "checked": False},
        {"threads": ("None", "huge"), "strategy": OPTIONAL, "memory_budget": ("None", "huge"),
         "checked": ("true",)},
    )  # fmt: skip
    yield "progress", Row(progress, {"on": True}, {"on": ("true",)})
    yield "allocate", Row(DEVICE.allocate, {"nbytes": 8, "zero": True}, {"zero": ("true",)})
    yield "pinned", Row(DEVICE.pinned, {"nbytes": 8})
    yield "upload", Row(
        DEVICE.upload, {"array": array, "into": None},
        {"array": ("floats", "bytes"), "into": OPTIONAL},
    )  # fmt: skip
    yield "download", Row(DEVICE.download, {"buffer": buffer, "array": array})
    yield "compile", Row(
        DEVICE.compile, {"definition": kernels.increment, "lanes": 1, "given": 1},
        {"lanes": OPTIONAL},
    )  # fmt: skip
    yield "launch", Row(
        lambda kernel, groups, n, x: DEVICE.launch(kernel, groups, n, x),
        {"kernel": kernel, "groups": 0, "n": 0, "x": array}, {"n": ("true",)},
    )  # fmt: skip
    yield "record launch", Row(
        lambda kernel, groups, n, x: recording().launch(kernel, groups, n, x),
        {"kernel": kernel, "groups": 0, "n": 0, "x": array}, {"n": ("true",)},
    )  # fmt: skip
    yield "recorder_of", Row(recorder_of, {"device": DEVICE, "stream": recording()})
    yield "record launch of a function", Row(
        lambda groups, n, x: recorder_of(DEVICE, recording()).launch(kernel, groups, n, x),
        {"groups": 0, "n": 0, "x": array}, {"n": ("true",)},
    )  # fmt: skip
    yield "on", Row(kernels.increment.on, {"device": DEVICE, "lanes": 1}, {"lanes": OPTIONAL})
    yield "Buffer.slice", Row(buffer.slice, {"start": 0, "stop": 4})
    yield "Buffer.view", Row(
        buffer.view, {"dtype": np.uint8, "shape": (64,)},
        {"dtype": ("None", "a class"), "shape": ("None", "negative")},
    )  # fmt: skip
    yield "replay", Row(lambda given: DEVICE.stream().replay(given), {"given": None})
    yield "wait_for", Row(lambda event: recording().wait_for(event), {"event": Event("e")})
    yield "copy", Row(
        lambda a, b: recording().copy(a, b), {"a": buffer, "b": buffer},
    )  # fmt: skip
    yield (
        "fill",
        Row(lambda target, word: recording().fill(target, word), {"target": buffer, "word": 0}),
    )
    yield "submit", Row(
        lambda timeline: recording().finish().submit(timeline), {"timeline": Timeline()},
        {"timeline": OPTIONAL},
    )  # fmt: skip

    yield "ntt", Row(
        ntt.ntt,
        {"values": [1, 2], "modulus": MODULUS, "inverse": False, "family": "snarkjs", "root": None,
         "ordering": "NN", "coset": None, "batch": 1, "device": DEVICE},
        {"inverse": ("true",), "root": OPTIONAL, "coset": ANY_INT},
    )  # fmt: skip
    yield "NttPlan", Row(
        ntt.NttPlan,
        {"device": DEVICE, "modulus": MODULUS, "log2_size": 1, "family": "snarkjs", "root": None},
        {"root": OPTIONAL},
    )  # fmt: skip
    for name in ("forward", "inverse"):
        yield name, Row(
            getattr(transform(), name),
            {"data": VECTOR.copy(), "batch": 1, "ordering": "NN", "coset": None},
            {"coset": ANY_INT},
        )  # fmt: skip
    yield (
        "scaled",
        Row(transform().inverse, {"data": VECTOR.copy(), "scaled": True}, {"scaled": ("true",)}),
    )
    yield (
        "coset_quotient",
        Row(ntt.coset_quotient, {"plan": transform(), "evaluations": VECTOR, "out": VECTOR}),
    )
    yield "record_coset_quotient", Row(
        ntt.record_coset_quotient,
        {
            "recording": None, "plan": transform(), "evaluations": buffer, "out": buffer,
            "batch": 1,
        },
    )  # fmt: skip
