"""The launches of a transform, in a recording."""

from __future__ import annotations

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.field.cost import product_cost
from quod.field.moduli import Modulus
from quod.ntt.gpu.factors import Transform
from quod.ntt.gpu.schedule import Tuning
from quod.ntt.gpu.tables import table_bytes, tables_of_pass
from quod.ntt.gpu.transform import (
    FactorTables,
    PassExtents,
    Position,
    Reversed,
    TileShape,
    transform_tiles,
)
from quod.ntt.ordering import Ordering


def transform_of(
    modulus: Modulus,
    log_size: int,
    root: int,
    inverse: bool,
    ordering: Ordering,
    shift: int,
    scaled: bool,
) -> tuple[Transform, Reversed]:
    """A transform on the coset of `shift`, or its inverse, as passes; and what these permute.

    Natural order comes in, or goes out, by descending passes; so only from bit-reversed order to
    natural they are ascending. A forward transform multiplies what comes in by powers of the shift,
    an inverse one what goes out by those of its inverse.
    """
    p = modulus.value
    ascending = ordering == "RN"
    scale = pow(1 << log_size, -1, p) if inverse and scaled else 1
    base = pow(shift, -1, p) if inverse else shift
    # The natural side of descending passes is where they read, of ascending ones where they write.
    of_natural_side = inverse == ascending
    transform = Transform(
        modulus,
        log_size,
        "ascending" if ascending else "descending",
        pow(root, -1, p) if inverse else root,
        natural=base if of_natural_side else 1,
        backwards=1 if of_natural_side else base,
        scale=scale,
    )
    permuted: dict[str, Reversed] = {"NN": "writes", "RR": "reads"}
    return transform, permuted.get(ordering, "none")


def record_transform(
    recording: RecordingStream,
    device: AnyDevice,
    transform: Transform,
    data: Buffer,
    *,
    batch: int,
    permuted: Reversed,
    tuning: Tuning,
    label: str,
) -> None:
    """Adds the passes of `batch` transforms one after another in `data`.

    Descending passes go from natural to bit-reversed order, ascending ones back. `permuted` puts
    what descending passes read, or write, into the other order; of several passes the first then
    writes to other memory and the last comes back from there.
    """
    modulus, log_size = transform.modulus, transform.log_size
    split = tuning.split(log_size)
    strides = [sum(split[:number]) for number in range(len(split))]
    order = list(range(len(split)))
    descending = transform.direction == "descending"
    if descending:
        order.reverse()
    apart = permuted != "none" and len(split) > 1
    other = device.allocate(data.nbytes, zero=False) if apart else data
    for number, place in enumerate(order):
        log_rows, log_stride = split[place], strides[place]
        tables = tables_of_pass(device, transform, log_rows, log_stride)
        first, last = number == 0, number + 1 == len(order)
        columns = batch << (log_size - log_rows)
        tile = tuning.tile(log_rows)
        groups = -(-columns >> tile.log_columns)
        position: Position = "only" if len(split) == 1 else "upper" if log_stride else "lowest"
        turns = (permuted == "reads" and first) or (permuted == "writes" and last)
        shape = TileShape(
            transform.direction,
            tile,
            position,
            transform.root_of_order(min(tile.log_elements, log_rows)),
            tables.kind,
            tables.has_outer,
            permuted if turns else "none",
            columns % (1 << tile.log_columns) == 0,
            tuning.is_rolled(log_rows),
            tuning.resident,
        )
        source, target = (data if first else other), (data if last else other)
        recording.launch(
            device.compile(transform_tiles, lanes=tile.lanes, modulus=modulus, shape=shape),
            groups, source, target,
            FactorTables(tables.twiddles, tables.outer, tables.inner, tables.inner_high),
            PassExtents(columns, log_size, log_stride, tables.log_split),
            label=f"{label} {number + 1}/{len(order)}",
            bytes=2 * data.nbytes + tables.nbytes,
            modmuls=round(shape.products * (batch << log_size)),
            multiply_adds=round(shape.products * (batch << log_size) * product_cost(modulus)),
        )  # fmt: skip


def transform_bytes(
    device: AnyDevice, element_bytes: int, log_size: int, tuning: Tuning, *, apart: int
) -> int:
    """Bytes that a transform needs beside its data: tables, and `apart` copies of `apart` bytes."""
    split = tuning.split(log_size)
    total = apart if len(split) > 1 else 0
    stride = 0
    for log_rows in split:
        total += table_bytes(device, element_bytes, log_rows, stride)
        stride += log_rows
    return total
