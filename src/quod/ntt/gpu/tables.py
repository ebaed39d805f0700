"""The factor tables of a transform's passes, built on the device at their first use."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.moduli import Modulus
from quod.field.strategies.prepared_products import prepared_factor
from quod.field.strategy import strategy_for
from quod.frozen import frozen
from quod.ntt.gpu.factors import (
    Transform,
    build_progressions,
    build_table,
    factors_of_pass,
    powers,
)
from quod.ntt.gpu.transform import Inner
from quod.ntt.tables import store_of

_FULL_SHARE = 32
"""The full table of a pass takes at most the memory budget divided by this. Larger passes use two
small tables, which takes one more product per element."""


@frozen
class PassTables:
    """The tables of one pass as kernel arguments; for an unused table, `twiddles` is passed.

    kind: the kind of the inner factors' table.
    log_split: low bits of the column that index `inner` if it is split.
    """

    twiddles: Buffer
    outer: Buffer
    inner: Buffer
    inner_high: Buffer
    kind: Inner
    has_outer: bool
    log_split: int

    @property
    def nbytes(self) -> int:
        """Bytes of the factor tables that a pass reads."""
        tables = {id(table): table.nbytes for table in (self.outer, self.inner, self.inner_high)}
        return sum(tables.values())


def inner_kind(device: AnyDevice, element_bytes: int, log_rows: int, log_stride: int) -> Inner:
    """Return the kind of the inner factors' table, for a pass above the lowest."""
    full_bytes = element_bytes << (log_rows + log_stride)
    max_bytes = min(device.memory_budget // _FULL_SHARE, device.largest_buffer)
    return "full" if full_bytes <= max_bytes else "split"


def table_bytes(device: AnyDevice, element_bytes: int, log_rows: int, log_stride: int) -> int:
    """Return an upper bound on the bytes of a pass's tables."""
    rows = 1 << log_rows
    # A prepared twiddle takes two elements.
    entries = 3 * rows if log_stride == 0 else 2 * rows
    if log_stride:
        if inner_kind(device, element_bytes, log_rows, log_stride) == "full":
            entries += rows << log_stride
        else:
            low_bits = log_stride // 2
            entries += rows * ((1 << low_bits) + (1 << (log_stride - low_bits)))
        entries += rows
    return entries * element_bytes


def tables_of_pass(
    device: AnyDevice, transform: Transform, log_rows: int, log_stride: int
) -> PassTables:
    """Return the tables of a pass, cached on the device; recordings keep them alive."""
    build = functools.partial(_build, device, transform, log_rows, log_stride)
    return store_of(device).find((transform, log_rows, log_stride), build)


def prepares_twiddles(device: AnyDevice, modulus: Modulus) -> bool:
    """Return whether kernels read twiddles as prepared factors."""
    return strategy_for(device.machine(device.lanes), modulus).prepares(modulus)


def _twiddle_table(device: AnyDevice, modulus: Modulus, twiddles: Sequence[int]) -> Buffer:
    if not prepares_twiddles(device, modulus):
        return build_table(device, modulus, twiddles)
    factors = [prepared_factor(modulus, twiddle) for twiddle in twiddles]
    data = b"".join(factor.to_bytes(2 * modulus.bytes, "little") for factor in factors)
    return device.upload(np.frombuffer(data, np.uint32))


def _build(device: AnyDevice, transform: Transform, log_rows: int, log_stride: int) -> PassTables:
    """Build the tables of a pass; the twiddles are shared between passes."""
    modulus, p = transform.modulus, transform.modulus.value
    root = transform.root_of_order(log_rows)
    twiddles = store_of(device).find(
        (modulus, root, log_rows),
        lambda: _twiddle_table(device, modulus, powers(root, 1 << log_rows, p)),
    )
    factors = factors_of_pass(transform, log_rows, log_stride)
    outer = build_table(device, modulus, factors.outer) if factors.outer else twiddles
    inner = inner_high = twiddles
    kind: Inner = "none"
    log_split = 0
    if log_stride:
        kind = inner_kind(device, modulus.bytes, log_rows, log_stride)
        log_split = log_stride if kind == "full" else log_stride // 2
        low_columns = 1 << log_split
        inner = build_progressions(device, modulus, factors.starts, factors.ratios, low_columns)
        if kind == "split":
            ratios = [pow(ratio, low_columns, p) for ratio in factors.ratios]
            ones = [1] * len(ratios)
            high_columns = 1 << (log_stride - log_split)
            inner_high = build_progressions(device, modulus, ones, ratios, high_columns)
    elif factors.starts:
        kind = "rows"
        inner = build_table(device, modulus, factors.starts)
    return PassTables(twiddles, outer, inner, inner_high, kind, bool(factors.outer), log_split)
