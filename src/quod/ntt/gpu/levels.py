"""Transforms level by level in device memory, by one small kernel.

`quod.ntt.gpu.transform` computes many levels of a tile in shared memory, by a kernel for each kind
of pass. Here a launch computes one level: it moves all data once a level, and suits devices on
which compiling a kernel takes longer than running it.
"""

from __future__ import annotations

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.field.cost import product_cost
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.machine import Capability
from quod.ntt.gpu.factors import Transform, build_progressions, build_table, powers

# A page of smaller transforms downloads all twiddles, which are at most 0.3 MB of a transform: that
# takes less time than compiling the kernel that computes them.
_LEAST_COMPUTED_SIZE = 13
# Each level takes a launch; the tables of the levels below are 8 KB of a transform.
_LEAST_COMPUTED_LEVEL = 8


@kernel
def transform_level(
    k: Builder,
    data: Pointer[U64],
    twiddles: Pointer[U64],
    pairs: U32,
    log_half: U32,
    ascending: U32,
    *,
    modulus: Modulus,
) -> None:
    """Compute one level of transforms in place, one pair of elements per instance.

    data: elements in Montgomery form; those of a pair are 2**log_half apart.
    twiddles: those of the level, one for each position of a pair in its half.
    pairs: the number of pairs of all transforms.
    ascending: 1 for a level of decimation in time, (x + w*y, x - w*y), or 0 for one of decimation
        in frequency, (x + y, w*(x - y)).
    """
    f = prime_field(k, modulus)
    i = k.global_id()
    with k.if_(i < pairs):
        half = k.constant(1, types.u32) << log_half
        position = i & (half - 1)
        first = (i >> log_half << (log_half + 1)) + position
        x, y = f.load(data, first), f.load(data, first + half)
        in_time = ascending != 0
        # One product serves both kinds of level.
        product = f.select(in_time, y, x - y) * f.load(twiddles, position)
        f.store(data, first, x + f.select(in_time, product, y))
        f.store(data, first + half, f.select(in_time, x - product, product))


def prefers_levels(device: AnyDevice) -> bool:
    """Return whether transforms of a device should run level by level."""
    return device.machine(device.lanes).has(Capability.FEW_KERNELS)


def supports(transform: Transform) -> bool:
    """Return whether `record_levels` supports a transform."""
    return transform.natural == transform.scale == 1


def twiddles_of(device: AnyDevice, transform: Transform, level: int) -> Buffer:
    """Return the twiddles of a level, which include the powers of `Transform.backwards`.

    For a large transform, the device computes all but short tables, so that a page need not
    download them.
    """
    modulus, count = transform.modulus, 1 << level
    root = transform.root_of_order(level + 1)
    factor = pow(transform.backwards, 1 << (transform.log_size - 1 - level), modulus.value)
    if transform.log_size < _LEAST_COMPUTED_SIZE or level < _LEAST_COMPUTED_LEVEL:
        return build_table(device, modulus, powers(root, count, modulus.value, factor))
    return build_progressions(device, modulus, [factor], [root], count)


def record_levels(
    recording: RecordingStream, device: AnyDevice, transform: Transform, data: Buffer, *,
    batch: int, label: str,
) -> None:  # fmt: skip
    """Record `batch` transforms, which are consecutive in `data`, one launch per level.

    A descending transform reads in natural order, an ascending one writes in it.
    """
    modulus = transform.modulus
    compiled = device.compile(transform_level, modulus=modulus)
    pairs = batch << (transform.log_size - 1)
    ascending = transform.direction == "ascending"
    levels = range(transform.log_size)
    for level in levels if ascending else reversed(levels):
        twiddles = twiddles_of(device, transform, level)
        recording.launch(
            compiled, -(-pairs // compiled.lanes), data, twiddles, pairs, level, int(ascending),
            label=label, bytes=2 * data.nbytes + (modulus.bytes << level), modmuls=pairs,
            multiply_adds=pairs * product_cost(modulus),
        )  # fmt: skip
