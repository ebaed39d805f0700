"""Messages inside kernels: 32-bit words of canonical integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.field.arithmetic import FieldArithmetic
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

Words = tuple[Value, ...]
"""Values of type u32."""

Load = Callable[[Value, int], Sequence[Value]]
"""Loads words of a message: load(offset in words, number of words)."""


def message_words(f: FieldArithmetic[Any], element: Any) -> Words:
    """Return the words of an element in a message: canonical integers, not in Montgomery form."""
    radix = f.modulus.montgomery_radix
    if radix != 1:
        element = element * pow(radix, -1, f.modulus.value)
    words = f.to_words(element)
    if f.word_type is types.u32:
        return words
    return tuple(half.cast(types.u32) for word in words for half in (word, word >> 32))
