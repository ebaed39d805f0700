"""The digits of scalars on a GPU, recomputed whenever they are needed.

Digits take more memory than their scalar, so both sorting steps compute them from the scalars.
"""

from __future__ import annotations

from collections.abc import Iterator

from quod.curve.sums.entries import SIGN_BIT
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structs import Struct
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, Pointer, Value
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.scalars import SCALAR_BYTES, bits_of, is_above

_SCALAR_WORDS_32 = SCALAR_BYTES // 4

NOT_TOO_LARGE = 0
"""The value of the flag `too_large` if no scalar is above the maximum."""


def position_of_too_large(word: int) -> int:
    """Return the position of the first scalar above the maximum from `Digits.check`'s flag."""
    return (1 << 32) - 1 - word


@frozen
class DigitShape:
    """The properties of digits that a kernel is compiled for; see `WindowPlan` for the first four.

    low_bits: a bin has 2**low_bits buckets.
    bins: the number of bins.
    batched: there are several vectors of scalars.
    indexed: base i takes scalar indices[i].
    masked: some bases are infinite.
    listed: scalar i is for base indices[i].
    """

    window_bits: int
    windows: int
    copies: int
    maximum: int
    low_bits: int
    bins: int
    batched: bool
    indexed: bool
    masked: bool
    listed: bool = False

    @property
    def digits(self) -> int:
        """The number of digits of a scalar."""
        return self.windows * self.copies

    @classmethod
    def of(
        cls, plan: GpuMsmPlan, low_bits: int, *, indexed: bool, masked: bool, listed: bool = False
    ) -> DigitShape:
        return cls(
            plan.window_bits, plan.windows, plan.copies, plan.maximum, low_bits,
            plan.all_buckets >> low_bits, plan.batch > 1, indexed, masked, listed,
        )  # fmt: skip


@frozen
class Digit:
    """One digit of one instance's scalar.

    exists: the digit is not zero, its base is finite, and the instance has a scalar.
    bucket: its bucket, 0 if the digit does not exist.
    entry: the base's index, with the sign in bit 31.
    """

    exists: Value
    bucket: Value
    entry: Value


class ScalarSource(Struct):
    """The scalars of an MSM, and the bases that they multiply.

    count: the number of scalars of a vector.
    total: count * batch; instance s < total takes vector s // count and base first + s % count.
    scalar_stride: the number of scalars from the start of one vector to the next.
    base_stride: the number of bases from the start of one copy to the next.
    first: the index of the first base.
    infinity_mask: one bit for each base of each copy, set if the base is infinite.
    """

    count: U32
    total: U32
    scalar_stride: U32
    base_stride: U32
    first: U32
    scalars: Pointer[U32]
    indices: Pointer[U32]
    infinity_mask: Pointer[U32]


class Digits:
    """The digits of the scalar of instance `s`. All instances of a workgroup must construct it."""

    def __init__(self, k: Builder, shape: DigitShape, source: ScalarSource, s: Value) -> None:
        self._k = k
        self._shape = shape
        self._source = source
        self._has_scalar = s < source.total
        readable = k.select(self._has_scalar, s, 0)
        if shape.batched:
            self._vector = readable // source.count
            self._index = readable % source.count
        else:
            self._vector = k.constant(0, types.u32)
            self._index = readable
        scalar_index = source.indices[self._index] if shape.indexed else self._index
        self._base = source.indices[self._index] if shape.listed else self._index
        self._position = scalar_index + self._vector * source.scalar_stride
        start = self._position.cast(types.u64) * _SCALAR_WORDS_32
        self._words = k.load(source.scalars, start, _SCALAR_WORDS_32)

    def check(self, too_large: Value) -> None:
        """Store 2**32 - 1 minus the position of the first scalar above the maximum, if any."""
        k = self._k
        above = is_above(k, self._words, self._shape.maximum)
        with k.if_(above & self._has_scalar):
            k.atomic_max(too_large, 0, (1 << 32) - 1 - self._position)

    def __iter__(self) -> Iterator[Digit]:
        """Yield all digits, lowest first; each is traced when it is requested."""
        k, shape, source = self._k, self._shape, self._source
        half, digit_base = 1 << (shape.window_bits - 1), 1 << shape.window_bits
        window_buckets = half
        first_window = self._vector * shape.windows
        carry: Value = k.constant(0, types.u32)
        for copy in range(shape.copies):
            base = source.first + self._base
            if copy:
                base = base + source.base_stride * copy
            base_exists = self._has_scalar
            if shape.masked:
                base_exists = base_exists & (
                    ((source.infinity_mask[base // 32] >> (base % 32)) & 1) == 0
                )
            for window in range(shape.windows):
                low = (copy * shape.windows + window) * shape.window_bits
                unsigned_digit = bits_of(k, self._words, low, shape.window_bits) + carry
                negative = unsigned_digit >= half
                carry = k.select(negative, k.constant(1, types.u32), 0)
                magnitude = k.select(negative, digit_base - unsigned_digit, unsigned_digit)
                exists = base_exists & (magnitude != 0)
                bucket = (first_window + window) * window_buckets + (magnitude - 1)
                sign = k.select(negative, k.constant(SIGN_BIT, types.u32), 0)
                yield Digit(exists, k.select(exists, bucket, 0), base | sign)
