"""Symbols and modules of circom that are hostile: quick to refuse, quick to read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from quod.errors import InputError
from quod.formats.names import circuit_name
from quod.web.signals import Signal, parse_example, parse_symbols
from quod.web.witness_wasm import parse_calculator

MAGIC = b"\0asm\1\0\0\0"


def test_names_and_indices() -> None:
    symbols = parse_symbols(
        b"1,1,0,main.out\r\n2,2,0,main.in[0][2]\n3,-1,0,main.in[1][0]\n4,-1,7,main.sub.x\n"
        b"5,3,0,main.odd]\n6,4,0,main.a[x]\n7,5,0,main.b[1]c[3]",
        2,
    )
    assert symbols.signals == (
        Signal("out", (), True),
        Signal("in", (2, 3), True),
        Signal("odd]", (), False),
        Signal("a[x]", (), False),
        Signal("b[1]c", (4,), False),
    )
    assert symbols.publics == ("out", "in[0][2]")


@pytest.mark.parametrize(
    "line",
    [
        b"1,1,0", b"1,x,0,main.a", b"1,1,0,other.a", b"", b"1," + b"9" * 5000 + b",0,main.a",
        "1,٣,0,main.a".encode(), b"1,--1,0,main.a", b"1,1,0,main.a" + b"[1]" * 17,
    ],
)  # fmt: skip
def test_invalid_lines_are_rejected(line: bytes) -> None:
    with pytest.raises(
        InputError, match=r"^symbols: line 2 is not a line of circom's \.sym format"
    ):
        parse_symbols(b"1,1,0,main.a\n" + line + b"\n", 1)


def test_invalid_utf8_is_rejected() -> None:
    with pytest.raises(InputError, match="offset 17: is not text"):
        parse_symbols(b"1,1,0,main.a\n2,2,\xff", 1)


@pytest.mark.parametrize(
    "name", [b"[1]" * 100_000 + b"x", b"[" * 300_000, b"]" * 300_000, b"a[" + b"1" * 300_000 + b"]"]
)
def test_name_parsing_time_is_linear(name: bytes) -> None:
    begin = time.process_time()
    (signal,) = parse_symbols(b"1,1,0,main." + name, 1).signals
    assert signal.dims == ()
    # Each place was looked at from each before it: minutes.
    assert time.process_time() - begin < 10


def test_input_with_a_lone_surrogate() -> None:
    with pytest.raises(InputError, match="half of a pair of surrogates"):
        parse_example(r'{"a": "\ud800"}')


@pytest.mark.parametrize(
    "module",
    [
        MAGIC + b"\7" + b"\x80" * 1_000_000,  # a length without an end
        MAGIC + b"\7" + b"\xff" * 9 + b"\1",
        MAGIC + b"\7\5\xff\xff\xff\xff\x0f",  # 4 billion exports in no bytes
        MAGIC + b"\7\x83\x80\x80\x80\x00\1\1",
        MAGIC + b"\7\x90\x4e\x90\x4e" + b"\1a\0\0" * 3000,
        MAGIC + b"\0\0" * 1_000_000,  # custom sections
        MAGIC + b"\7\1\0" * 2,  # sections that come again, too late, or that there are none of
        MAGIC + b"\7\1\0" + b"\2\1\0",
        MAGIC + b"\x0e\1\0",
    ],
)
def test_modules_that_are_damaged(module: bytes) -> None:
    begin = time.process_time()
    with pytest.raises(InputError, match="is a damaged WebAssembly module"):
        parse_calculator(module)
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("membership/circuit.zkey", "membership"),
        ("membership/circuit_final.zkey", "membership"),
        ("membership/circuit_0001.zkey", "membership"),
        ("keys/membership_final.zkey", "membership"),
        ("keys/membership_0000.zkey", "membership"),
        ("tmp/vote.zkey", "vote"),
        ("tmp/two_words.zkey", "two_words"),
        ("tmp/0001.zkey", "0001"),
    ],
)
def test_circuit_name_from_its_path(tmp_path: Path, path: str, name: str) -> None:
    assert circuit_name(tmp_path / path) == name
