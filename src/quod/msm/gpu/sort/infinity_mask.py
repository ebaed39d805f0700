"""Infinity masks: bitmaps of the infinite bases, whose digits produce no entries."""

from __future__ import annotations

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import not_written
from quod.device.runtime.stream import RecordingStream
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer


@kernel
def mark_infinite(
    k: Builder,
    count: U32,
    bases: Pointer[U64],
    marks: Pointer[U32],
    some: Pointer[U32],
    *,
    words: int,
) -> None:
    """Set bit i of `marks`, which must be zero before, if the words of base i are all zero.

    Sets some[0] to 1 if a base is infinite.
    """
    i = k.global_id()
    with k.if_(i < count):
        base_words = k.load(bases, i.cast(types.u64) * words, words)
        union = base_words[0]
        for word in base_words[1:]:
            union = union | word
        with k.if_(union == 0):
            k.atomic_or(marks, i // 32, k.constant(1, types.u32) << (i % 32))
            some[0] = 1


def infinity_mask_bytes(count: int) -> int:
    """Return the bytes of the mask of `count` bases."""
    return -(-count // 128) * 16


def record_infinity_mask(
    recording: RecordingStream,
    device: AnyDevice,
    count: int,
    words: int,
    bases: Buffer,
    mask: Buffer,
    any_flag: Buffer,
) -> None:
    """Record the mask of `count` bases of `words` 64-bit words each; `any_flag` has 16 bytes."""
    recording.fill(mask, label="mark infinite")
    recording.fill(any_flag, label="mark infinite")
    compiled = device.compile(mark_infinite, words=words)
    recording.launch(
        compiled, -(-count // device.lanes), count, bases, mask, any_flag, label="mark infinite",
        bytes=8 * words * count,
    )  # fmt: skip


def find_infinity_mask(device: AnyDevice, count: int, words: int, bases: Buffer) -> Buffer | None:
    """Return the mask of resident bases, or None if all of them are finite."""
    mask, any_flag = (
        device.allocate(infinity_mask_bytes(count), zero=False),
        device.allocate(16, zero=False),
    )
    # The kernel writes nothing if all bases are finite. So a second launch, on an infinite base,
    # tests that the kernel runs at all.
    infinite = device.upload(np.zeros(words, np.uint64))
    probe_mask, probe_flag = (device.allocate(16, zero=False) for _ in range(2))
    recording = device.stream("bases").record()
    record_infinity_mask(recording, device, count, words, bases, mask, any_flag)
    record_infinity_mask(recording, device, 1, words, infinite, probe_mask, probe_flag)
    recording.finish().run()
    any_result, probe_result = np.zeros(4, np.uint32), np.zeros(4, np.uint32)
    device.download(any_flag, any_result)
    device.download(probe_flag, probe_result)
    if probe_result[0] != 1:
        raise not_written(device, "which bases are infinite")
    return mask if any_result[0] else None
