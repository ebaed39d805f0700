"""Hostile PTX is rejected with its line, in time linear in its length."""

from __future__ import annotations

import time

import pytest

from quod.codegen.ptx.interpreter.parse import parse
from quod.errors import KernelError

HEAD = ".visible .entry k(.param .u64 p)\n.maxntid 32\n{\n"


def within(body: str) -> str:
    return f"{HEAD}{body}\n}}\n"


def test_comments_spaces_and_several_statements_to_a_line() -> None:
    module = parse(
        ".version 7.0 // x\n.visible /* a */ .entry   k(.param\t.u64 p)\n .maxntid 32\n{\n"
        ".reg .b32  %r<9>; .reg .pred %p;\nL: M: mov.u32 %r1, /* b */ 7; add.u32 %r2,\n%r1 , 1 ;\n"
        "ret /* c */; // d\n}"
    )
    entry = module.entry
    assert entry.labels == {"L": 0, "M": 0}
    assert [i.opcode for i in entry.instructions] == [("mov", "u32"), ("add", "u32"), ("ret",)]
    assert entry.instructions[1].operands == ("%r2", "%r1", "1")
    assert [i.location.line for i in entry.instructions] == [6, 6, 8]
    assert entry.registers == {"%r": ("b32", 9), "%p": ("pred", None)}


SIZE = 40_000
HOSTILE = {
    "comments without an end": within("/*" * SIZE),
    "comments": within("/**/" * SIZE + "ret;"),
    "slashes": within("/" * SIZE + "ret;"),
    "opening braces": within("mov " + "{" * SIZE + ";"),
    "opening brackets": within("mov " + "[" * SIZE + ";"),
    "opening parentheses": within("call " + "(" * SIZE + ";"),
    "lines without an end": within("a b\n" * SIZE),
    "statements": within("ret;" * SIZE),
    "empty statements": within(";" * SIZE),
    "labels": within("".join(f"L{i}: " for i in range(SIZE)) + "ret;"),
    "colons": within("a::b\n" * SIZE),
    "scopes": within("{\n" * SIZE),
    "names in a scope": within(
        "{\n" + "".join(f".param .b32 p{i};\n" for i in range(SIZE // 4)) + "ret;\n" * SIZE + "}"
    ),
    "spaces in a header": ".func" + " " * SIZE + "\n" * SIZE + "x{",
    "a header without an end": "a\n" * SIZE,
    "declarations": ".extern .shared .b8 s[];\n" * SIZE,
    "digits": within(".reg .b32 %r<" + "9" * SIZE + ">;"),
    "digits of a size": ".shared .b8 s[" + "9" * SIZE + "];",
    "digits of an alignment": ".shared .align " + "9" * SIZE + " .b8 s[4];",
    "digits of a workgroup": f".entry k()\n.maxntid {'9' * SIZE}\n{{\n}}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_parsing_time_is_linear_in_text_size(name: str) -> None:
    begin = time.process_time()
    try:
        parse(HOSTILE[name])
    except KernelError as error:
        assert len(str(error)) < 400  # noqa: PT017
    # Measured up to 0.4 s; what is quadratic takes minutes.
    assert time.process_time() - begin < 20


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (within("mov {%r1, %r2;"), "PTX:4: a bracket is not closed"),
        (within(".reg .b32;"), "declares no registers"),
        (within(".reg"), "PTX:4: a statement has no semicolon"),
        (HEAD + ".reg", "PTX:4: the text ends within a routine"),
        (within(".reg .b32 %r<99999999999>;"), "PTX:4: a size, count or alignment is missing or"),
        (".shared .b8 s[];", "PTX:1: a size, count or alignment is missing"),
        (within("{\n" * 9), "PTX:12: there are too many scopes within each other"),
        (within("L: L: ret;"), "the label L stands twice"),
    ],
)
def test_parse_errors_name_the_line(text: str, part: str) -> None:
    with pytest.raises(KernelError, match=part):
        parse(text)
