"""JSON with a limit on nesting, which is checked before the recursive parser runs.

Python limits nesting only by the recursion limit, and other libraries may raise that limit beyond
the size of the C stack. Duplicate keys are refused, because Python keeps the last value and some
other parsers the first. Chosen values can stay text for another parser, and values can be counted
before they are created.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

MAX_DEPTH = 32

# Possessive quantifiers match a long string in one step; a match holds the GIL, so it must be fast.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_SCALAR = re.compile(r"[^,\]}\[{\"]*")


class Text(str):
    """The unparsed text of a JSON value, with matching brackets and quotes."""

    __slots__ = ()


def load(
    data: bytes | bytearray | str, *, raw: Collection[str] = (), max_values: int | None = None
) -> Any:
    """Parse a document.

    raw: keys whose values stay unparsed (`Text`; None for null), at any depth.
    max_values: the limit on the number of values, without those inside unparsed text.
    Raises ValueError for malformed JSON, nesting of more than 32 levels, two equal keys in one
    object, NaN, infinities, and more than `max_values` values.
    """
    text = data if isinstance(data, str) else data.decode()
    spans = _scan(text, raw)
    parser_text = text
    if spans:
        # The unparsed values are replaced by their indices, so that the parser accepts the text.
        ends = [0, *(end for _, end in spans)]
        begins = [*(begin for begin, _ in spans), len(text)]
        parser_text = "".join(
            piece
            for index, (end, begin) in enumerate(zip(ends, begins))
            for piece in (text[end:begin], str(index) if index < len(spans) else "")
        )
    if max_values is not None:
        count = parser_text.count(",") + parser_text.count("[") + parser_text.count("{") + 1
        if count > max_values:
            raise ValueError(f"the document has more than {max_values} values")
    unused = set(range(len(spans)))

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(items)
        if len(document) < len(items):
            raise ValueError("an object has two equal keys")
        for key in raw:
            if key in document:
                index = document[key]
                if index not in unused or type(index) is not int:
                    raise ValueError("a key is written with escapes")
                unused.discard(index)
                begin, end = spans[index]
                value = text[begin:end].rstrip()
                document[key] = None if value == "null" else Text(value)
        return document

    return json.loads(parser_text, object_pairs_hook=pairs, parse_constant=_no_number)


def _scan(text: str, raw: Collection[str]) -> list[tuple[int, int]]:
    """Check the nesting of a text; return begin and end of each value of the keys `raw`."""
    keys = {f'"{key}"' for key in raw}
    # The depth is at most the number of opening brackets, so most documents need no scan.
    may_be_deep = text.count("[") + text.count("{") > MAX_DEPTH
    if not may_be_deep and not any(key in text for key in keys):
        return []
    spans: list[tuple[int, int]] = []
    # `begin` and `outer` are of a value of `keys` that is being scanned: its start, or -1, and the
    # depth of the object that contains it.
    depth, begin, outer = 0, -1, -1
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        first_character = text[start]
        if first_character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"nested more than {MAX_DEPTH} times, at character {start}")
        elif first_character in "]}":
            depth -= 1
        elif begin < 0 and keys and text[start:end] in keys:
            colon = _COLON.match(text, end)
            if colon is not None:
                begin, outer = colon.end(), depth
                scalar = _SCALAR.match(text, begin)
                if scalar is not None and scalar.end() > begin:
                    spans.append((begin, scalar.end()))
                    begin = -1
            continue
        if begin >= 0 and depth <= outer:
            # The end of a string, list or object. The parser refuses other text.
            if start >= begin and text[begin] in '"[{':
                spans.append((begin, end))
            begin = -1
    return spans


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
