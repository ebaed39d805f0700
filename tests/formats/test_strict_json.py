"""JSON at its limits: what reading takes is bounded, and linear in the length of a document."""

from __future__ import annotations

import contextlib
import json
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from quod.errors import InputError
from quod.formats.strict_json import (
    ANY,
    CIRCUIT_INPUT,
    PROOF,
    PUBLIC,
    VERIFICATION_KEY,
    JsonKind,
    parse_json,
)
from tests.support.thorough import one_and_others

KINDS = [PROOF, PUBLIC, VERIFICATION_KEY, CIRCUIT_INPUT, ANY]

# Documents that cost other readers most: as many bytes as asked for, nearly.
HOSTILE: dict[str, Callable[[int], bytes]] = {
    "quotes": lambda size: b'"' * size,
    "escaped quotes": lambda size: b'"' + rb"\"" * (size // 2 - 1),
    "quotes after backslashes": lambda size: rb"\"" * (size // 2),
    "backslashes": lambda size: b'"' + b"\\" * (size - 1),
    "brackets in a string": lambda size: b'"' + b"[" * (size - 1),
    "an open string": lambda size: b'["' + b"x" * (size - 2),
    "digits": lambda size: b"[" + b"1" * (size - 2) + b"]",
    "digits in quotes": lambda size: b'["' + b"1" * (size - 4) + b'"]',
    "opening brackets": lambda size: b"[" * size,
    "closing brackets": lambda size: b"]" * size,
    "empty lists": lambda size: b"[" + b"[]," * (size // 3 - 2) + b"[]]",
    "empty objects": lambda size: b"[" + b"{}," * (size // 3 - 2) + b"{}]",
    "lists in lists": lambda size: b"[" + (b"[" * 30 + b"]" * 30 + b",") * (size // 61 - 1) + b"1]",
    "objects in objects": lambda size: (
        b"[" + (b'{"a":' * 30 + b"1" + b"}" * 30 + b",") * (size // 182 - 1) + b"1]"
    ),
    "small strings": lambda size: b"[" + b'"ab",' * (size // 5 - 2) + b'"ab"]',
    "many keys": lambda size: (
        b"{" + b"".join(b'"%07d":1,' % i for i in range(size // 12 - 2)) + b'"":1}'
    ),
    "spaces": lambda size: b"[" + b" " * (size - 2) + b"]",
    "not ASCII": lambda size: b'["' + b"x" * (size // 4 - 16) + "\U0001f512".encode() + b'"]',
}


COSTLY = ("escaped quotes", "digits", "opening brackets", "objects in objects", "many keys")
"""One document for each thing that costs: escapes, numbers, depth, values and names."""


def outcome(data: bytes, kind: JsonKind) -> object:
    with contextlib.suppress(InputError):
        return parse_json(data, "file", kind)
    return None


@pytest.mark.parametrize("name", one_and_others(HOSTILE, COSTLY))
def test_time_and_memory_at_the_limit(name: str) -> None:
    # All that the limits allow: of bytes, and of values where these are fewer.
    kind = PUBLIC
    data = HOSTILE[name](kind.max_bytes)
    assert kind.max_bytes // 5 < len(data) <= kind.max_bytes
    for document in (data, HOSTILE[name](3 * kind.max_values)):
        begin = time.process_time()
        tracemalloc.start()
        try:
            outcome(document, kind)
            assert tracemalloc.get_traced_memory()[1] < 100 << 20
        finally:
            tracemalloc.stop()
        # Measured 0.1 to 2 s, with memory traced; what is quadratic takes hours.
        assert time.process_time() - begin < 60


def test_unterminated_strings_are_scanned_in_linear_time() -> None:
    # Quotes of which each may begin a string took time quadratic in their number: 132 s for these.
    begin = time.process_time()
    assert outcome(rb"\"" * 40_000, PUBLIC) is None
    assert time.process_time() - begin < 10


@pytest.mark.parametrize("kind", one_and_others(KINDS, [PROOF, PUBLIC]), ids=lambda kind: kind.what)
def test_limits_of_each_kind(kind: JsonKind) -> None:
    text = b'"' + b"7" * (kind.max_bytes - 2) + b'"'
    assert isinstance(parse_json(text, "file", kind), str)
    with pytest.raises(InputError, match=f"is longer than the limit for {kind.what}"):
        parse_json(text + b" ", "file", kind)
    values = b"[" + b"1," * (kind.max_values - 2) + b"1]"
    assert len(parse_json(values, "file", kind)) == kind.max_values - 1
    with pytest.raises(InputError, match=f"has more values than the limit for {kind.what}"):
        parse_json(b"[1," + values[1:], "file", kind)


@pytest.mark.parametrize(
    "text",
    [
        r'["[[[[\"[[[[", "]\\", {"\\\"{": "\\"}]',
        '["' + "[" * 100 + '"]',
        '["' + '\\"' + "[" * 100 + '"]',
        "[" * 32 + "]" * 32,
        '{"a": [[], {}, "}{"], "b": "é🔒"}',
    ],
)
def test_brackets_and_quotes_within_strings_do_not_count(text: str) -> None:
    assert parse_json(text, "file", PROOF) == json.loads(text)


def test_depth_across_scan_chunks() -> None:
    for before in range((1 << 18) - 3, (1 << 18) + 3):
        text = '["' + "[" * (before - 5) + '",'
        assert len(text) == before - 1
        deep = text + "[" * 31 + "]" * 31 + "]"
        parse_json(deep, "file", PUBLIC)
        with pytest.raises(InputError, match=f"offset {before + 30}: is nested too deeply"):
            parse_json(text + "[" * 32 + "]" * 33, "file", PUBLIC)


@pytest.mark.parametrize(
    ("text", "integer", "message"),
    [
        (r'{"é": "1.5 \" 1.5", "b": [1.5]}', None, "27: holds a fraction or an exponent (1.5)"),
        ('{"a": 11.5, "b": 1.5e3, "c": 1.5}', int, "6: holds a fraction or an exponent (11.5)"),
        ("[1e5, -1.5]", str, "1: holds a fraction or an exponent (1e5)"),
        ('["-Infinity", -Infinity]', int, "14: holds a value that is not a number (-Infinity)"),
        (
            '{"a": {"b": "}"}, "c": {"x": 1, "y": 1, "y": 2}, "e": {}}', None,
            '46: "y" occurs twice in the object that ends here',
        ),
        (f'["{"1" * 5000}", -{"1" * 5000}]', int, "5005: holds a number with too many digits"),
        (f'["1", {"1" * 21}]', None, "6: holds a number with too many digits (111"),
        (
            r'["\\ud800 \ud83d\udd12 \udfff"]', None,
            r"23: has half of a pair of surrogates (\ud800 to",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_offset(
    text: str, integer: Callable[[str], Any] | None, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(f"file, offset {message}")) as error:
        parse_json(text, "file", ANY, integer=integer)
    # A message with a surrogate could not be printed.
    assert str(error.value).isascii()


@pytest.mark.parametrize("text", [r'["\ud800"]', r'{"\udfff": 1}', r'["\ud83d"]', '["\ud800"]'])
def test_lone_surrogates_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="half of a pair of surrogates"):
        parse_json(text, "file", ANY)


def test_surrogate_pairs_are_accepted() -> None:
    assert parse_json(r'["\ud83d\udd12", "\\ud800"]', "file", ANY) == ["\U0001f512", r"\ud800"]
