"""The JavaScript runtime of a site, minified."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import PurePath

GRAPH = ("graph.js", "keys.js", "device.js", "files.js", "errors.js")
"""The modules that run an exported graph."""

MODULES = (
    "quod.js", "site.js", "field.js", "curve.js", "curves.js", "verify.js", "witness.js",
    "witness_file.js", "msm.js", *GRAPH,
)  # fmt: skip
"""The modules of the library, which programs import; ``quod.d.ts`` has the types."""

ACTION = tuple(
    f"zcash/{name}.js"
    for name in ("action", "documents", "fields", "description", "jubjub", "blake2", "form")
)
"""The modules that only sites of Zcash's Spends, Outputs and Converts have."""

PAGE = (
    "index.html", "style.css", "icon.svg", "loading.js", "page.js", "elements.js", "worker.js",
    "offline.js",
)  # fmt: skip
"""The files of the page, which uses the library."""

_TOKEN = re.compile(
    r"""
    (?P<comment> /\*.*?\*/ | //[^\n]* )
  | (?P<text> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<space> \s+ )
  | (?P<word> [\w$]+ )
  | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+/[a-z]*")
_BEFORE_REGEX = "(,=:!&|"


def source(name: str) -> str:
    """Return the source text of a runtime file."""
    return (files("quod.web") / "runtime" / name).read_text(encoding="utf-8")


def stripped(javascript: str) -> str:
    """Minify JavaScript: remove comments, indentation, spaces around signs, and ``;`` before ``}``.

    Only for the runtime's own sources: a regular expression must follow one of ``(,=:!&|``, and a
    division must not. Loops must have a body.
    """
    tokens: list[str] = []
    for token in _tokens(javascript):
        while token == "}" and tokens and tokens[-1] in ("\n", ";"):
            tokens.pop()
        tokens.append(token)
    text = "".join(tokens)
    return re.sub(r"(?<=[{(\[,;])\n|\n(?=[})\]])", "", text).strip() + "\n"


def stripped_css(css: str) -> str:
    """Minify a style sheet without strings: remove comments, and spaces around punctuation."""
    text = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL))
    return re.sub(r";?\s*([{};,])\s*|(?<=:) ", r"\1", text).strip() + "\n"


def _tokens(javascript: str) -> Iterator[str]:
    """Yield the tokens of minified JavaScript."""
    position, previous, space = 0, "\n", False
    while position < len(javascript):
        if javascript[position] == "`":
            stop = _template_end(javascript, position)
            previous = javascript[position:stop]
            yield previous
            position, space = stop, False
            continue
        regex = _REGEX.match(javascript, position) if previous[-1] in _BEFORE_REGEX else None
        match = regex or _TOKEN.match(javascript, position)
        assert match is not None
        position, token = match.end(), match.group()
        if match.lastgroup in ("comment", "space"):
            space = True
            # A line break may end a statement, so it is kept.
            if "\n" in token and previous != "\n":
                previous = "\n"
                yield previous
            continue
        if space and _needs_space(previous[-1], token[0]):
            yield " "
        previous, space = token, False
        yield token


def _template_end(javascript: str, start: int) -> int:
    """Return the end of the template literal that begins at `start`, with nested literals."""
    position = start + 1
    while javascript[position] != "`":
        if javascript[position] == "\\":
            position += 1
        elif javascript.startswith("${", position):
            depth = 0
            while True:
                position += 1
                if javascript[position] == "`":
                    position = _template_end(javascript, position) - 1
                depth += {"{": 1, "}": -1}.get(javascript[position], 0)
                if not depth:
                    break
        position += 1
    return position + 1


def _needs_space(before: str, after: str) -> bool:
    return (_is_word(before) and _is_word(after)) or (before == after and before in "+-")


def _is_word(character: str) -> bool:
    return character.isalnum() or character in "_$"


def runtime_files(*, page: bool = True, action: bool = False) -> dict[str, bytes]:
    """Return the contents of the runtime's files by name.

    page: include the files of the page.
    action: include the modules for Spends, Outputs and Converts.
    """
    names = (*MODULES, *(ACTION if action else ()), *(PAGE if page else ()))
    return {name: _content(name) for name in (*names, "quod.d.ts")}


def graph_runtime_files() -> dict[str, bytes]:
    """Return the contents of the modules that run an exported graph, by name."""
    return {name: _content(name) for name in GRAPH}


def _content(name: str) -> bytes:
    text = source(name)
    strip = {".js": stripped, ".css": stripped_css}.get(PurePath(name).suffix)
    return (strip(text) if strip else text).encode()
