"""Record the launches of a transform on a GPU."""

from __future__ import annotations

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.field.cost import prepared_product_cost, product_cost
from quod.field.moduli import Modulus
from quod.ntt.gpu.factors import Transform
from quod.ntt.gpu.schedule import Tuning
from quod.ntt.gpu.tables import prepares_twiddles, table_bytes, tables_of_pass
from quod.ntt.gpu.transform import (
    BitReversedSide,
    FactorTables,
    PassExtents,
    PassParameters,
    Position,
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
) -> tuple[Transform, BitReversedSide]:
    """Return a transform on the coset of `shift`, or its inverse, and its bit-reversed transfer.

    Only the ordering RN uses ascending passes; NN and RR permute the writes or the reads of
    descending ones. A forward transform multiplies its input by powers of the shift, an inverse one
    its output by powers of the shift's inverse.
    """
    p = modulus.value
    ascending = ordering == "RN"
    scale = pow(1 << log_size, -1, p) if inverse and scaled else 1
    base = pow(shift, -1, p) if inverse else shift
    # Descending passes read in natural order, ascending ones write in it.
    on_natural_side = inverse == ascending
    transform = Transform(
        modulus,
        log_size,
        "ascending" if ascending else "descending",
        pow(root, -1, p) if inverse else root,
        natural=base if on_natural_side else 1,
        backwards=1 if on_natural_side else base,
        scale=scale,
    )
    permuted: dict[str, BitReversedSide] = {"NN": "writes", "RR": "reads"}
    return transform, permuted.get(ordering, "none")


def record_transform(
    recording: RecordingStream,
    device: AnyDevice,
    transform: Transform,
    data: Buffer,
    *,
    batch: int,
    permuted: BitReversedSide,
    tuning: Tuning,
    label: str,
) -> None:
    """Record the passes of `batch` transforms, which are consecutive in `data`; overwrite `data`.

    permuted: whether the first pass reads or the last pass writes in bit-reversed order. With
        several passes the first then writes to a second buffer, from which the last one reads.
    """
    modulus, log_size = transform.modulus, transform.log_size
    elements, cost = batch << log_size, product_cost(modulus)
    prepared = prepares_twiddles(device, modulus)
    twiddle_cost = prepared_product_cost(modulus) if prepared else cost
    split = tuning.split(log_size)
    strides = [sum(split[:pass_index]) for pass_index in range(len(split))]
    order = list(range(len(split)))
    descending = transform.direction == "descending"
    if descending:
        order.reverse()
    uses_second_buffer = permuted != "none" and len(split) > 1
    second_buffer = device.allocate(data.nbytes, zero=False) if uses_second_buffer else data
    for pass_index, split_index in enumerate(order):
        log_rows, log_stride = split[split_index], strides[split_index]
        tables = tables_of_pass(device, transform, log_rows, log_stride)
        is_first, is_last = pass_index == 0, pass_index + 1 == len(order)
        columns = batch << (log_size - log_rows)
        tile = tuning.tile(log_rows)
        workgroups = -(-columns >> tile.log_columns)
        position: Position = "only" if len(split) == 1 else "upper" if log_stride else "lowest"
        is_bit_reversed = (permuted == "reads" and is_first) or (permuted == "writes" and is_last)
        shape = PassParameters(
            transform.direction,
            tile,
            position,
            transform.root_of_order(min(tile.log_elements, log_rows)),
            tables.kind,
            tables.has_outer,
            permuted if is_bit_reversed else "none",
            columns % (1 << tile.log_columns) == 0,
            tuning.is_rolled(log_rows),
            tuning.resident,
        )
        source, target = (data if is_first else second_buffer), (data if is_last else second_buffer)
        recording.launch(
            device.compile(transform_tiles, lanes=tile.lanes, modulus=modulus, shape=shape),
            workgroups, source, target,
            FactorTables(tables.twiddles, tables.outer, tables.inner, tables.inner_high),
            PassExtents(columns, log_size, log_stride, tables.log_split),
            label=f"{label} {pass_index + 1}/{len(order)}",
            bytes=2 * data.nbytes + tables.nbytes,
            modmuls=round((shape.twiddle_products + shape.factor_products) * elements),
            multiply_adds=round(
                (shape.twiddle_products * twiddle_cost + shape.factor_products * cost) * elements
            ),
        )  # fmt: skip


def transform_bytes(
    device: AnyDevice,
    element_bytes: int,
    log_size: int,
    tuning: Tuning,
    *,
    second_buffer_bytes: int,
) -> int:
    """Return an upper bound on the bytes of a transform's tables and second buffer.

    second_buffer_bytes: the size of the second buffer, which a single pass does not need.
    """
    split = tuning.split(log_size)
    total_bytes = second_buffer_bytes if len(split) > 1 else 0
    log_stride = 0
    for log_rows in split:
        total_bytes += table_bytes(device, element_bytes, log_rows, log_stride)
        log_stride += log_rows
    return total_bytes
