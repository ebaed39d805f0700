"""Wrap the prose of Markdown pages at 100 columns: `python -m tools.wrap [PAGE...]`.

Paragraphs are wrapped, those of list items and quotes with their indent. Code, tables, headings,
HTML and link definitions stay as they are; code spans and targets of links are not broken.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100

GENERATED = ("docs/benchmarks.md", "docs/benchmarks/*", "docs/kernel-ops.md")
"""Pages that programs write."""

_PARSER = MarkdownIt().enable("table")

_WORD = re.compile(r"(?:(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|\]\([^()]*\)|\S)+")

_BLOCK_START = re.compile(
    r"[-+*]|\d+[.)]|#+|=+|[-*_]{2,}|[|:-]+|>.*|~~~.*|```.*|</?[A-Za-z].*|<[!?].*"
)
"""A word that may start a block other than a paragraph at the start of a line."""


@dataclass(frozen=True)
class Paragraph:
    """Lines from first to end, the indent and marks before the text, and the text."""

    first: int
    end: int
    prefix: str
    text: str


def pages(root: Path) -> list[Path]:
    """Return the pages that are wrapped: those of the root folder and of docs, not generated."""
    paths = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return sorted(path for path in paths if not is_generated(path.relative_to(root)))


def is_generated(page: Path) -> bool:
    """Return whether a program writes the page, given by its path from the root folder."""
    return any(page.match(pattern) for pattern in GENERATED)


def words(text: str) -> list[str]:
    """Split text where a line may break."""
    parts: list[str] = []
    for match in _WORD.finditer(text):
        if parts and _BLOCK_START.fullmatch(match[0]):
            parts[-1] += " " + match[0]
        else:
            parts.append(match[0])
    return parts


def paragraphs(page: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a page, without those with hard line breaks or tabs."""
    lines = page.split("\n")
    for outer, token in pairwise(_PARSER.parse(page)):
        if outer.type == "paragraph_open" and token.map:
            first, end = token.map
            line, start = lines[first].rstrip(), token.content.split("\n")[0].rstrip()
            breaks = any(child.type == "hardbreak" for child in token.children or ())
            if line.endswith(start) and "\t" not in line and not breaks:
                yield Paragraph(first, end, line.removesuffix(start), token.content)


def fill(paragraph: Paragraph) -> list[str]:
    """Return the lines of a paragraph, each as full as possible."""
    first, *following = words(re.sub(r"\s*\n\s*", " ", paragraph.text))
    lines = [paragraph.prefix + first]
    for word in following:
        if len(lines[-1]) + 1 + len(word) <= WIDTH:
            lines[-1] += " " + word
        else:
            lines.append(re.sub("[^>]", " ", paragraph.prefix) + word)
    return lines


def wrap(page: str) -> str:
    """Return a page with its paragraphs wrapped."""
    lines = page.split("\n")
    for paragraph in reversed(list(paragraphs(page))):
        lines[paragraph.first : paragraph.end] = fill(paragraph)
    return "\n".join(lines)


def rendered(page: str) -> str:
    """Return a page's HTML with each run of white space as one space."""
    return " ".join(_PARSER.render(page).split())


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Wrap pages in place; return 1 if that would change what one renders as."""
    parser = argparse.ArgumentParser(description="Wrap the prose of Markdown pages.")
    parser.add_argument("pages", nargs="*", type=Path, help="default: the pages of the repository")
    status = 0
    for path in parser.parse_args(arguments).pages or pages(root):
        page = path.read_text()
        wrapped = wrap(page)
        if wrapped == page:
            continue
        if rendered(wrapped) == rendered(page):
            path.write_text(wrapped)
            print(f"{path}: wrapped")
        else:
            print(f"{path}: not wrapped, as the page would render differently")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
