"""Kernels on the coefficients of polynomials, with which HyperKZG opens commitments.

The coefficients of a quotient are a recurrence from the highest coefficient down. The coefficients
are divided into chunks. The carry from each chunk into the one below is itself a recurrence over
chunks, with a power of the multiplier. Once the carries are known, all chunks are computed
independently.
"""

from __future__ import annotations

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.field.any_field import field_arithmetic
from quod.field.array import from_integers
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value

LENGTH = 64
"""The number of coefficients that a kernel instance processes in sequence."""


@frozen
class Chunking:
    """The division into chunks of `length` coefficients, which are `stride` apart.

    The indices of chunk i are i % stride plus consecutive multiples of the stride.
    """

    stride: int
    length: int = LENGTH

    def first(self, i: Value) -> Value:
        """Return the lowest index of a coefficient of chunk i."""
        chunk = i // self.stride
        return chunk * (self.length * self.stride) + (i - chunk * self.stride)


@kernel
def fold_pairs(
    k: Builder, n: U32, x: Pointer[U32], source: Pointer[U32], target: Pointer[U32], *,
    field: Modulus,
) -> None:  # fmt: skip
    """Set target[i] = source[2*i] + x[0] * (source[2*i + 1] - source[2*i]), for i < n."""
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < n):
        low, high = f.load(source, 2 * i), f.load(source, 2 * i + 1)
        f.store(target, i, low + f.load(x, 0) * (high - low))


@kernel
def add_multiple(
    k: Builder, n: U32, factors: Pointer[U32], number: U32, source: Pointer[U32],
    total: Pointer[U32], *, field: Modulus,
) -> None:  # fmt: skip
    """Add factors[number] * source[i] to total[i], for i < n."""
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < n):
        f.store(total, i, f.load(total, i) + f.load(factors, number) * f.load(source, i))


@kernel
def chunk_values(
    k: Builder, chunks: U32, n: U32, multiplier: Pointer[U32], source: Pointer[U32],
    values: Pointer[U32], *, field: Modulus, chunking: Chunking,
) -> None:  # fmt: skip
    """Set values[i] to the value at multiplier[0] of the polynomial of chunk i."""
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < chunks):
        x = f.bounded(f.load(multiplier, 0))
        first = chunking.first(i)
        with k.range(0, chunking.length, carry=f.bounded(f.zero())) as loop:
            index = first + ((chunking.length - 1) - loop.index) * chunking.stride
            coefficient = f.load(source, k.minimum(index, n - 1))
            coefficient = f.select(index < n, f.bounded(coefficient), f.bounded(f.zero()))
            loop.next(f.bounded(loop.carried * x + coefficient))
        f.store(values, i, loop.results)


@kernel
def chunk_recurrence(
    k: Builder, chunks: U32, n: U32, above: U32, multiplier: Pointer[U32], carries: Pointer[U32],
    source: Pointer[U32], target: Pointer[U32], *, field: Modulus, chunking: Chunking,
    quotient: bool,
) -> None:  # fmt: skip
    """Compute s[j] = source[j] + multiplier[0] * s[j + stride] for j < n; s[j] = 0 for j >= n.

    carries[i], for i below `above`, is s at the first index of chunk i. target[j] becomes s[j] or,
    with `quotient`, s[j + stride]: the quotient by X**stride - multiplier[0].
    """
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < chunks):
        multiplier_value = f.bounded(f.load(multiplier, 0))
        first, next_chunk = chunking.first(i), i + chunking.stride
        carry = f.load(carries, k.select(next_chunk < above, next_chunk, 0))
        start = f.select(next_chunk < above, f.bounded(carry), f.bounded(f.zero()))
        with k.range(0, chunking.length, carry=f.bounded(start)) as loop:
            index = first + ((chunking.length - 1) - loop.index) * chunking.stride
            coefficient = f.load(source, k.minimum(index, n - 1))
            coefficient = f.select(index < n, f.bounded(coefficient), f.bounded(f.zero()))
            total = f.bounded(loop.carried * multiplier_value + coefficient)
            if quotient:
                with k.if_((index >= chunking.stride) & (index < n)):
                    f.store(target, index - chunking.stride, total)
            else:
                with k.if_(index < n):
                    f.store(target, index, total)
            loop.next(total)


def record_quotient(
    recording: RecordingStream, device: AnyDevice, field: Modulus, source: Buffer, count: int,
    stride: int, multiplier: int,
) -> tuple[Buffer, int]:  # fmt: skip
    """Record the quotient of a polynomial of `count` coefficients by X**stride - multiplier.

    Returns the buffer of the quotient and its number of coefficients; the remainder is dropped.
    """
    target = device.allocate(max(0, count - stride) * field.bytes)
    if count > stride:
        _record(recording, device, field, source, count, stride, multiplier, target, quotient=True)
    return target, max(0, count - stride)


def _record(
    recording: RecordingStream, device: AnyDevice, field: Modulus, source: Buffer, count: int,
    stride: int, multiplier: int, target: Buffer, *, quotient: bool,
) -> None:  # fmt: skip
    chunking = Chunking(stride)
    multiplier_buffer = device.upload(from_integers(field, [multiplier]))
    chunks = -(-count // (stride * chunking.length)) * stride
    # Without chunks above there are no carries; the kernel then ignores what it loads.
    carries, above = multiplier_buffer, 0
    if chunks > stride:
        values, carries = (device.allocate(chunks * field.bytes) for _ in range(2))
        above = chunks
        kernel = device.compile(chunk_values, field=field, chunking=chunking)
        recording.launch(
            kernel, -(-chunks // kernel.lanes), chunks, count, multiplier_buffer, source, values,
            label="quotient",
        )  # fmt: skip
        chunk_multiplier = pow(multiplier, chunking.length, field.value)
        _record(
            recording, device, field, values, chunks, stride, chunk_multiplier, carries,
            quotient=False,
        )  # fmt: skip
    kernel = device.compile(chunk_recurrence, field=field, chunking=chunking, quotient=quotient)
    recording.launch(
        kernel, -(-chunks // kernel.lanes), chunks, count, above, multiplier_buffer, carries,
        source, target, label="quotient",
    )  # fmt: skip
