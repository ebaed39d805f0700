"""Strict reading of JSON with integers and strings: no fractions, NaN or duplicate keys.

Documents come from outside, so the cost of reading is bounded before it begins: length, depth of
nesting and number of values, all counted in one pass over the bytes. A value takes at most 150
bytes of Python's memory in addition to its text.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from quod.errors import InputError
from quod.formats.source import Path, read_small
from quod.frozen import frozen


@frozen
class JsonKind:
    """A kind of document: its name in messages, and its limits.

    what: The name, for messages.
    max_bytes: The maximum number of bytes; text that is not ASCII counts fourfold, as it does in
        Python's memory.
    max_values: The maximum number of values.
    secret: Whether errors must not show values.
    """

    what: str
    max_bytes: int
    max_values: int
    secret: bool = False


PROOF = JsonKind("a proof", 1 << 16, 1 << 12)
PUBLIC = JsonKind("a list of public inputs", 16 << 20, 1 << 18)
PROOFS = JsonKind("a list of proofs", 256 << 20, 1 << 22)
PUBLICS = JsonKind("a list of lists of public inputs", 256 << 20, 1 << 22)
VERIFICATION_KEY = JsonKind("a verification key", 32 << 20, 1 << 19)
CIRCUIT_INPUT = JsonKind("an input of a circuit", 32 << 20, 1 << 19, secret=True)
ANY = JsonKind("a JSON file", 32 << 20, 1 << 19)

_MAX_DEPTH = 32
# The maximum number of digits of an integer without quotes; a 64-bit integer has 20.
_MAX_DIGITS = 20
# The number of bytes that are scanned in one step.
_STEP = 1 << 18
_LONG = "a number with too many digits"
_QUOTE, _COMMA = b'",'
_DEPTH = np.zeros(256, dtype=np.int32)
_DEPTH[list(b"[{")] = 1
_DEPTH[list(b"]}")] = -1
# Patterns, which take linear time. _PAIR skips pairs of surrogates, and escaped backslashes.
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_NUMBER = rb"(?<![0-9.eE+-])"
_FRACTION = _NUMBER + rb"-?[0-9]++[.eE]"
_CONSTANT = rb"-?Infinity|NaN"
_SURROGATE = rb"\\u[dD][89a-fA-F]"
_PAIR = rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]"


def read_json(path: Path, kind: JsonKind) -> bytes:
    """Read the bytes of a JSON file or pipe; `InputError` if they exceed the kind's limit."""
    return read_small(path, limit=kind.max_bytes, what=kind.what)


def parse_json(
    data: bytes | str, name: str, kind: JsonKind, *, integer: Callable[[str], Any] | None = None
) -> Any:
    """Parse a document; `name` stands for the path in errors.

    `integer` converts the digits of an integer without quotes; the default is an int of at most 20
    digits. Raises `InputError` with the offset for any text that is not strict JSON.
    """
    ended_objects = itertools.count()

    def refuse(message: str, offset: int | None = None) -> NoReturn:
        raise InputError(message, path=name, offset=offset)

    def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
        document, index = dict(items), next(ended_objects)
        if len(document) < len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    refuse(
                        f"{shown(key)} occurs twice in the object that ends here; keep one",
                        _offset_of(content, rb"}", index),
                    )
                seen.add(key)
        return document

    def refuse_number(text: str, what: str, advice: str, pattern: bytes) -> NoReturn:
        value = "" if kind.secret else f" ({_cut(text)})"
        refuse(f"holds {what}{value}; {advice}", _offset_of(content, pattern))

    def parse_constant(text: str) -> NoReturn:
        refuse_number(text, "a value that is not a number", "write a whole number", _CONSTANT)

    def parse_float(text: str) -> NoReturn:
        refuse_number(text, "a fraction or an exponent", "write a whole number", _FRACTION)

    def parse_integer(text: str) -> Any:
        if integer is None and len(text) > _MAX_DIGITS:
            refuse_number(
                text, _LONG, "write large integers as strings", _long_pattern(_MAX_DIGITS)
            )
        return int(text)

    if not isinstance(data, str | bytes):
        refuse(f"must be given as str or bytes, not {type(data).__name__}")
    content = b""
    try:
        content = data.encode() if isinstance(data, str) else data
        if len(content) * (1 if content.isascii() else 4) > kind.max_bytes:
            refuse(
                f"is longer than the limit for {kind.what} ({kind.max_bytes:,} bytes); "
                "check that the right file was given"
            )
        _check_size(content, kind, refuse)
        document = json.loads(
            content.decode(),
            object_pairs_hook=unique_keys,
            parse_constant=parse_constant,
            parse_float=parse_float,
            # A converter such as `int` is called from C; a Python function takes ten times as long.
            parse_int=integer or parse_integer,
        )
        # Encoding raises UnicodeEncodeError for half of a pair of surrogates.
        if re.search(_SURROGATE, content):
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except MemoryError as error:
        raise InputError(
            "needs more memory than is available; free some memory", path=name
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            "is not text in UTF-8; check that this is the right file",
            path=name,
            offset=error.start,
        ) from error
    except UnicodeEncodeError as error:
        raise InputError(
            r"has half of a pair of surrogates (\ud800 to \udfff) in a string, which is "
            "not a character; write the character itself",
            path=name,
            offset=_offset_of(content, _SURROGATE, outside=_PAIR),
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not JSON ({error.msg}, line {error.lineno} column {error.colno}); "
            "check that this is the right file",
            path=name,
            offset=len(error.doc[: error.pos].encode()),
        ) from error
    except ValueError:
        digits = sys.get_int_max_str_digits()
        refuse(f"holds {_LONG}", _offset_of(content, _long_pattern(digits)))


def _long_pattern(digits: int) -> bytes:
    """Return a pattern for integers of more than this number of digits, with the sign."""
    return _NUMBER + rb"(?=[0-9-]{%d})-?[0-9]" % (digits + 1)


def _offset_of(
    data: bytes, pattern: bytes, index: int = 0, *, outside: bytes = _STRING
) -> int | None:
    """Return the offset of a match of a pattern outside of strings; `index` counts from 0.

    outside: a pattern for the parts of the text that are skipped instead of strings.
    """
    tokens = re.finditer(outside + rb"|(" + pattern + rb")", data)
    offsets = (token.start(1) for token in tokens if token[1] is not None)
    return next(itertools.islice(offsets, index, None), None)


def _check_size(data: bytes, kind: JsonKind, refuse: Callable[[str, int], NoReturn]) -> None:
    """Refuse deep nesting, before the parser recurses on the C stack, and too many values.

    A string without an end extends to the end of the document.
    """
    # The same length, without escaped quotes.
    unescaped = data.replace(rb"\\", b"  ").replace(rb"\"", b"  ")
    in_string, depth, values = False, 0, 1
    for start in range(0, len(unescaped), _STEP):
        chunk = np.frombuffer(unescaped, np.uint8, min(_STEP, len(unescaped) - start), start)
        quoted = np.logical_xor.accumulate(chunk == _QUOTE) ^ in_string
        in_string = bool(quoted[-1])
        depth_changes = np.where(quoted, np.int32(0), _DEPTH[chunk])
        depths = depth + np.cumsum(depth_changes, dtype=np.int32)
        depth = int(depths[-1])
        if (depths > _MAX_DEPTH).any():
            refuse(
                "is nested too deeply; check that this is the right file",
                start + int((depths > _MAX_DEPTH).argmax()),
            )
        values += int((depth_changes > 0).sum()) + int(((chunk == _COMMA) & ~quoted).sum())
        if values > kind.max_values:
            refuse(
                f"has more values than the limit for {kind.what} "
                f"({kind.max_values:,}); check that this is the right file",
                start,
            )


def json_type_of(value: object) -> str:
    """Return the type of a JSON value, for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def shown(value: object) -> str:
    """Return a value as JSON, truncated to 60 characters, for messages."""
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
