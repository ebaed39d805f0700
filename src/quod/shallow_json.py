"""JSON whose nesting is counted before the parser, which recurses on the C stack, sees it.

Python's own bound is the recursion limit, which other libraries raise beyond what a stack holds.
Two equal keys of an object are refused: of them Python takes the last one, and other parsers the
first. Values that others take apart can stay text, and values can be counted before they are made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

MOST_DEPTH = 32

# One string is one match, which holds up all threads: it takes steps of runs, not of characters.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_SCALAR = re.compile(r"[^,\]}\[{\"]*")


class Text(str):
    """A value of JSON as its text, which has not been parsed: brackets and strings in it match."""

    __slots__ = ()


def load(
    data: bytes | bytearray | str, *, raw: Collection[str] = (), most_values: int | None = None
) -> Any:
    """Parse a document.

    raw: keys whose values stay text (`Text`; None for null), wherever they occur.
    most_values: how many values the document may have, those within such text not counted.
    Raises ValueError if it is no JSON, nested deeper than 32 times, has two equal keys in one
    object, a number that is none (NaN), or more values.
    """
    text = data if isinstance(data, str) else data.decode()
    spans = _scan(text, raw)
    plain = text
    if spans:
        # Each is replaced by its number.
        ends = [0, *(end for _, end in spans)]
        begins = [*(begin for begin, _ in spans), len(text)]
        plain = "".join(
            part
            for number, (end, begin) in enumerate(zip(ends, begins))
            for part in (text[end:begin], str(number) if number < len(spans) else "")
        )
    if most_values is not None:
        count = plain.count(",") + plain.count("[") + plain.count("{") + 1
        if count > most_values:
            raise ValueError(f"the document has more than {most_values} values")
    unused = set(range(len(spans)))

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(items)
        if len(document) < len(items):
            raise ValueError("an object has two equal keys")
        for key in raw:
            if key in document:
                number = document[key]
                if number not in unused or type(number) is not int:
                    raise ValueError("a key is written with escapes")
                unused.discard(number)
                begin, end = spans[number]
                value = text[begin:end].rstrip()
                document[key] = None if value == "null" else Text(value)
        return document

    return json.loads(plain, object_pairs_hook=pairs, parse_constant=_no_number)


def _scan(text: str, raw: Collection[str]) -> list[tuple[int, int]]:
    """Count how deep a text is nested, and find the values of the keys `raw` in it."""
    keys = {f'"{key}"' for key in raw}
    # As deep as it has brackets at most: of most documents nothing need be looked at.
    deep = text.count("[") + text.count("{") > MOST_DEPTH
    if not deep and not any(key in text for key in keys):
        return []
    spans: list[tuple[int, int]] = []
    depth, begin, outer = 0, -1, -1
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        sign = text[start]
        if sign in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise ValueError(f"nested more than {MOST_DEPTH} times, at character {start}")
        elif sign in "]}":
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
            # The end of a string or of a bracket. What begins with neither is no JSON.
            if start >= begin and text[begin] in '"[{':
                spans.append((begin, end))
            begin = -1
    return spans


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
