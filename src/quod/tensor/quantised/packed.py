"""How kernels take blocks apart into signed bytes, four in a word, for products with such bytes.

Activations are bytes in blocks of 32 then. Of a format that has smaller scales, these are integers
too: what is added up over 32 elements is a whole number below 2^24, which f32 holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel import Builder, Value, f16, i32
from quod.tensor.quantised.decoders import Packed, each_byte, scale_words

BYTES = 32
"""Elements of a block of activations."""


@frozen(eq=False)
class PackedRun:
    """32 elements of a block: scale * factor * integer - minimum * less.

    The `integers` are 8 words of four signed bytes; each of the `factors` is of as many of these,
    in turn. Without factors they are 1. `minimum` and `less` are None where nothing is taken off.
    """

    integers: list[Value]
    scale: Value
    factors: list[Value]
    minimum: Value | None = None
    less: Value | None = None


@frozen
class PackedDecoder:
    """What gives the runs of a group, which takes the builder, the blocks as u8, a block's number
    and the group, and which quarter of each run's words is wanted, if not all; `groups` of `runs`
    each are a block."""

    groups: int
    runs: int
    decode: Callable[..., list[PackedRun]]


def _centred(word: Value, centre: int) -> Value:
    """Of bytes below 128 what is left of each without a number; no byte borrows of the next."""
    return (word | each_byte(128)) - each_byte(centre) ^ each_byte(128)


def _words_of(
    k: Builder, data: Value, at: Value, quarter: Value | None, *, aligned: int
) -> Packed:  # fmt: skip
    """32 bytes, or a quarter of them."""
    if quarter is None:
        return Packed(k, data, at, BYTES, aligned=aligned)
    return Packed(k, data, at + quarter * (BYTES // 4), BYTES // 4, aligned=aligned)


def _scale(data: Value, at: Value) -> Value:
    return data.cast(f16)[at >> 1]


def _q4_0(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * 18
    shifts: Sequence[Value | int] = (0, 4)
    if quarter is None:
        words = Packed(k, data, start + 2, 16, aligned=2).words()
    else:
        words = Packed(k, data, start + 2 + (quarter & 1) * 8, 8, aligned=2).words()
        shifts = ((quarter >> 1) * 4,)
    halves = [(word >> shift) & each_byte(15) for shift in shifts for word in words]
    return [PackedRun([_centred(word, 8) for word in halves], _scale(data, start), [])]


def _q8_0(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * 34
    words = _words_of(k, data, start + 2, quarter, aligned=2).words()
    return [PackedRun(words, _scale(data, start), [])]


def _with_minima(
    k: Builder, data: Value, start: Value, group: Value, integers: list[list[Value]]
) -> list[PackedRun]:
    d, m, scales, minima = scale_words(k, data, start, group)
    return [
        PackedRun(words, d, [((scales >> at) & 63).cast(i32)], m, ((minima >> at) & 63).cast(i32))
        for at, words in zip((0, 8), integers, strict=True)
    ]


def _q4_k(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * 144
    words = _words_of(k, data, start + 16 + 32 * group, quarter, aligned=16).words()
    integers = [[(word >> shift) & each_byte(15) for word in words] for shift in (0, 4)]
    return _with_minima(k, data, start, group, integers)


def _q5_k(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * 176
    tops = _words_of(k, data, start + 16, quarter, aligned=16)
    packed = _words_of(k, data, start + 48 + 32 * group, quarter, aligned=16)
    integers = [packed.joined(4 * high, tops, 2 * group + high, 1).words() for high in range(2)]
    return _with_minima(k, data, start, group, integers)


def _q6_k(
    k: Builder, data: Value, block: Value, group: Value, quarter: Value | None = None
) -> list[PackedRun]:  # fmt: skip
    start = block * 210
    d = _scale(data, start + 208)
    low = [
        _words_of(k, data, start + 64 * group + 32 * odd, quarter, aligned=2) for odd in range(2)
    ]
    tops = _words_of(k, data, start + 128 + 32 * group, quarter, aligned=2)
    runs = []
    for run in range(4):
        whole = low[run & 1].joined(4 * (run >> 1), tops, 2 * run, 2)
        integers = [_centred(word, 32) for word in whole.words()]
        at = start + 192 + 8 * group + 2 * run
        factors = [((data[at + half] ^ 128).cast(i32) - 128) for half in range(2)]
        runs.append(PackedRun(integers, d, factors))
    return runs


PACKED = {
    "Q4_0": PackedDecoder(1, 1, _q4_0),
    "Q8_0": PackedDecoder(1, 1, _q8_0),
    "Q4_K": PackedDecoder(4, 2, _q4_k),
    "Q5_K": PackedDecoder(4, 2, _q5_k),
    "Q6_K": PackedDecoder(2, 4, _q6_k),
}
"""By the names of formats: those whose elements are integers."""
