"""Splitting of text into words before byte-pair merges, as llama.cpp does it for each tokenizer."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

from quod.frozen import frozen
from quod.names import NameTable

_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's White_Space; `re` has four control characters more."""


@cache
def _category(letter: str) -> str:
    """Return all characters of a general category, such as L, as ranges of a class of `re`."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] == letter:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join([f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges])


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which L, N and S within angle brackets stand for characters."""
    classes = {"<L>": _category("L"), "<N>": _category("N"), "<S>": _SPACE}
    for name, ranges in classes.items():
        pattern = pattern.replace(name, ranges)
    return re.compile(pattern)


_GPT2 = (
    "'s|'t|'re|'ve|'m|'ll|'d| ?[<L>]+| ?[<N>]+| ?[^<S><L><N>]+|[<S>]+(?![^<S>])|[<S>]+"
)  # fmt: skip
_LLAMA3 = (
    "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n<L><N>]?[<L>]+|[<N>]{1,<most>}"
    "| ?[^<S><L><N>]+[\\r\\n]*|[<S>]*[\\r\\n]+|[<S>]+(?![^<S>])|[<S>]+"
)


@cache
def _gpt2() -> re.Pattern[str]:
    return _compiled(_GPT2)


@cache
def _digits() -> re.Pattern[str]:
    return _compiled("[<N>]|[^<N>]+")


@cache
def _llama3(digits: int) -> re.Pattern[str]:
    """Return the pattern of Llama 3, with words of up to `digits` digits."""
    return _compiled(_LLAMA3.replace("<most>", str(digits)))


def _split_gpt2(text: str) -> Iterator[str]:
    yield from _gpt2().findall(text)


def _split_digits(text: str) -> Iterator[str]:
    """Split off each digit, then the rest as GPT-2 does."""
    for run in _digits().findall(text):
        yield from _gpt2().findall(run)


def _split_llama3(text: str) -> Iterator[str]:
    yield from _llama3(3).findall(text)


def _split_qwen2(text: str) -> Iterator[str]:
    yield from _llama3(1).findall(text)


@frozen
class Pretokenizer:
    """A way to split text.

    split: Return the words of a text, in order.
    whole_words: Whether a word that is a token is not divided.
    starts: Whether texts start with the token of their beginning, unless the file says otherwise.
    """

    split: Callable[[str], Iterator[str]]
    whole_words: bool = False
    starts: bool = False


_LLAMA3_PRETOKENIZER = Pretokenizer(_split_llama3, whole_words=True, starts=True)

PRETOKENIZERS: dict[str, Pretokenizer] = NameTable(
    "quod.inference.transformer.PRETOKENIZERS", "a pre-tokenizer",
    {
        "gpt-2": Pretokenizer(_split_gpt2),
        "smollm": Pretokenizer(_split_digits),
        "qwen2": Pretokenizer(_split_qwen2),
        "llama-bpe": _LLAMA3_PRETOKENIZER,
        "llama3": _LLAMA3_PRETOKENIZER,
    },
)  # fmt: skip
"""The pre-tokenizers by their name in `tokenizer.ggml.pre`."""
