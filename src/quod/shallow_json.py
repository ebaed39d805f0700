"""JSON whose nesting is counted before the parser, which recurses on the C stack, sees it.

Python's own bound is the recursion limit, which other libraries raise beyond what a stack holds.
"""

from __future__ import annotations

import json
import re
from typing import Any

MOST_DEPTH = 32

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def load(data: bytes | str) -> Any:
    """The document; ValueError if it is no JSON, or nested deeper than 32 times."""
    text = data if isinstance(data, str) else data.decode()
    depth = 0
    # As deep as it has brackets at most: of most documents nothing need be looked at.
    deep = text.count("[") + text.count("{") > MOST_DEPTH
    for token in _TOKEN.finditer(text) if deep else ():
        sign = token.group()[0]
        if sign in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise ValueError(
                    f"nested more than {MOST_DEPTH} times, at character {token.start()}"
                )
        elif sign in "]}":
            depth -= 1
    return json.loads(text)
