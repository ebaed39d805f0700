"""The kernel that dequantises blocks: one function, instantiated for each format."""

from __future__ import annotations

from typing import Any

from quod.device.protocol import AnyDevice
from quod.kernel import Builder, Value, f32, pointer, u32
from quod.kernel.ir.types import Type, u8
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses
from quod.tensor.definitions import definition
from quod.tensor.matmul.kernel import TYPES
from quod.tensor.matmul.tiles import log2
from quod.tensor.quantised.decoders import MAGIC, DecodePosition
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from quod.tensor.rows.plan import WIDEST

_UNITS_PER_INSTANCE = 2
"""Units per instance on a GPU; their loads overlap.

With 4, registers limit the number of instances, and so the loads in flight.
"""


def _dequantise(
    k: Builder, n: Value, blocks: Value, out: Value, *, form: str, element: Type, width: int,
    at_once: int,
) -> None:  # fmt: skip
    """Store the values of blocks, equal to `reference.dequantise` to the bit, or rounded once.

    n: The units of all blocks; a unit is `width` positions of a group.
    at_once: Units per instance. Adjacent instances store adjacent values of a run.
    """
    decoder = QUANTISED_TYPES[form].decoder.with_table(k)
    accesses, units_per_group = Accesses(k, element, width), decoder.positions // width
    first_unit = k.workgroup_id() * (k.workgroup_size * at_once) + k.local_id()
    # Always `MAGIC`, as n > 0. The assembler cannot know that, so it does not fold the constant.
    magic = MAGIC if width == 1 else k.select(n == 0, k.constant(0, u32), k.constant(MAGIC, u32))
    units = [first_unit + index * k.workgroup_size for index in range(at_once)]
    decoded = []
    for unit in units:
        # Units beyond the last are clamped, and not stored.
        unit_index = k.minimum(unit, n - 1)
        position, group_index = (
            (unit_index & (units_per_group - 1)) * width,
            unit_index >> log2(units_per_group),
        )
        group, block = group_index & (decoder.groups - 1), group_index >> log2(decoder.groups)
        block_position = DecodePosition(block, group, position, position >> 4, width, magic)
        for run in decoder.decode(k, blocks, block_position):
            run_access = (block * decoder.elements + run.start) >> log2(width)
            decoded.append((unit, run_access, run.fused(k)))
    # The previous launch may still read `out`. No launch stores to the blocks, so they are loaded
    # before the wait.
    k.launch_dependents()
    k.dependency_wait()
    target = accesses.of(out)
    for unit, run_access, values in decoded:
        with k.if_(unit < n):
            accesses.store(target, run_access, values)


DEQUANTISE = {
    element: definition(
        f"dequantise_blocks_{element}", _dequantise, constant=("blocks",), n=u32,
        blocks=pointer(u8), out=pointer(element),
    )
    for element in TYPES
}  # fmt: skip
"""The kernels by the type of the values."""


def dequantise_launch(
    device: AnyDevice, form: str, nbytes: int, blocks: Any, out: Any, element: Type = f32
) -> tuple[Any, ...]:
    """Return the launch that dequantises `nbytes` of blocks, for `device.launch` and recordings."""
    decoder = QUANTISED_TYPES[form].decoder
    width, at_once = 1, 1
    if not device.machine(device.lanes).has(Capability.VECTOR_LANES):
        width, at_once = min(WIDEST // element.bytes, decoder.width), _UNITS_PER_INSTANCE
    kernel = device.compile(
        DEQUANTISE[element], lanes=device.lanes, form=form, element=element, width=width,
        at_once=at_once,
    )  # fmt: skip
    units = nbytes // decoder.bytes * decoder.groups * (decoder.positions // width)
    groups = -(-units // (device.lanes * at_once))
    return kernel, groups, units, blocks, out
