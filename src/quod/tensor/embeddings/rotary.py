"""Rotary position embeddings: rotate pairs of elements by angles proportional to the position."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import f32
from quod.tensor.arrays import AnyArray, Tensor, allocate_like, check_apart, tensor, tensor_like
from quod.tensor.embeddings.rotary_kernel import ROPE
from quod.tensor.rows.plan import plan_groups
from quod.tensor.scalars import positive
from quod.validation import choice, plain_array, whole_number

Pairs = Literal["halves", "interleaved"]
_MAX_POSITIONS = 1 << 31
_MAX_POSITION = 1 << 53
"""Integers up to this are exact as f64."""


def rope_table(positions: int | range | Array, size: int, *, base: float = 10000.0) -> Array:
    """Return the table of `rope`: the cosines of each position's angles, followed by their sines.

    `positions` are an array of whole numbers, a range, or a count n for positions 0 to n - 1;
    `size`, which is even, is the number of rotated elements of a row. Angle i of position p is p *
    base**(-2 * i / size) (Su et al., RoFormer, 2021), computed in float64 with its cosine and sine.
    The result is f32 and appends an axis of `size` to the shape of `positions`. Raises InputError
    for arguments that do not fit.
    """
    size = whole_number("size", size, 2, 1 << 20)
    half = size // 2
    if size % 2:
        raise InputError(f"size must be even, not {size}: elements are turned in pairs")
    base_factor = positive("base", base)
    requested = positions
    if isinstance(requested, (int, np.integer)) and not isinstance(requested, bool):
        requested = range(whole_number("positions", requested, 0, _MAX_POSITIONS))
    if isinstance(requested, range) and requested[_MAX_POSITIONS:]:
        raise InputError("positions must be a range of 2^31 at most")
    position_array = plain_array(
        "positions", np.asarray(requested) if isinstance(requested, range) else requested
    )
    if position_array.size and (position_array.dtype.kind not in "iu" or not position_array.ndim):
        raise InputError(f"positions must be whole numbers in an array, not {position_array.dtype}")
    if (
        position_array.size
        and not -_MAX_POSITION
        <= int(position_array.min())
        <= int(position_array.max())
        <= _MAX_POSITION
    ):
        raise InputError("positions must be at most 2^53, so that angles are known")
    angles = position_array[..., None].astype(np.float64) * base_factor ** (-np.arange(half) / half)
    return np.concatenate([np.cos(angles), np.sin(angles)], -1).astype(np.float32)


def rope(
    device: DeviceChoice, x: AnyArray, table: AnyArray, *, pairs: Pairs = "halves", axis: int = -2,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Rotate pairs of elements of each row by the angles of its token, in `out` or in new memory.

    `x` is as in `softmax`, with the tokens along `axis`: -2 for (..., heads, tokens, size), -3 for
    (..., tokens, heads, size). `table` is the f32 result of `rope_table`, of shape (tokens,
    turned); if positions differ between sequences, the table has all axes of `x` up to the tokens,
    then `turned`. `turned` is the number of rotated elements of a row; those from `turned` on are
    copied; both sizes are even. A pair (a, b) becomes (a cos - b sin, b cos + a sin). Pairs are
    elements i and turned / 2 + i with "halves", as in GPT-NeoX, and 2 i and 2 i + 1 with
    "interleaved", as in GPT-J and GGUF's llama. `out` is like `x`, and may be the same memory.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    return _run(resolve_device(device), "x", x, table, pairs, axis, out, 1.0)


def rope_backward(
    device: DeviceChoice, gradient: AnyArray, table: AnyArray, *, pairs: Pairs = "halves",
    axis: int = -2, out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the gradient of x, from the gradient of rope(x): the inverse rotation. See `rope`."""
    return _run(resolve_device(device), "gradient", gradient, table, pairs, axis, out, -1.0)


def _run(
    device: AnyDevice, name: str, x: AnyArray, table: AnyArray, pairs: Pairs, axis: int,
    out: AnyArray | None, sign: float,
) -> Any:  # fmt: skip
    """Rotate by the angles of the table times `sign`."""
    choice("pairs", pairs, ("halves", "interleaved"))
    source, angles = tensor(device, name, x), tensor(device, "table", table)
    if len(source.shape) < 2:
        raise InputError(f"{name} must have the axes tokens and size at least, not {source.text}")
    token_axis = len(source.shape) + whole_number("axis", axis, -len(source.shape), -2)
    _check_table(source, angles, token_axis)
    target = allocate_like(device, x, source) if out is None else out
    out_tensor = tensor_like(device, "out", target, source)
    check_apart(out_tensor, source, same=True)
    check_apart(out_tensor, angles)
    if not math.prod(source.shape):
        return target
    interleaved = pairs == "interleaved"
    vector = _vector(source, angles.columns, interleaved)
    plan = plan_groups(device, vector, source.columns // 2)
    compiled = device.compile(
        ROPE[source.element], lanes=plan.lanes, element=source.element, plan=plan,
        interleaved=interleaved,
    )  # fmt: skip
    access_counts = [elements // 2 // plan.vector for elements in (source.columns, angles.columns)]
    inner = math.prod(source.shape[token_axis + 1 : -1])
    device.launch(
        compiled, plan.groups(source.rows), source.rows, *access_counts, inner, angles.rows, sign,
        source.memory, angles.memory, out_tensor.memory,
    )  # fmt: skip
    return target


def _check_table(x: Tensor, table: Tensor, token_axis: int) -> None:
    """Raise InputError unless the table's type and shape fit `x`; see `rope`."""
    if x.columns % 2:
        raise InputError(f"{x.name} must have rows of even length, not {x.text}")
    leading_shapes = (x.shape[token_axis : token_axis + 1], x.shape[: token_axis + 1])
    table_fits = table.element is f32 and table.shape[:-1] in leading_shapes
    if not table_fits or table.columns % 2 or not 0 < table.columns <= max(2, x.columns):
        raise InputError(
            f"table must be f32 of shape ({x.shape[token_axis]}, turned), turned even and from 2 "
            f"to {x.columns}, to go with {x.name}, not {table.text}"
        )


def _vector(x: Tensor, turned: int, interleaved: bool) -> int:
    """Return the number of pairs per access."""
    vector = 2 if interleaved and x.element is f32 else 4
    while turned // 2 % vector or (x.columns - turned) // 2 % vector:
        vector //= 2
    return vector
