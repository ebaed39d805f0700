from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from quod.errors import InputError, OutputError
from quod.formats.iden3 import Iden3File, write_iden3
from tests.formats.tiny import container, refused, split

GOOD = container(b"wtns", 2, [(7, b"abcd"), (1, b""), (2, b"xyz")])


def opened(tmp_path: Path, data: bytes) -> Iden3File:
    path = tmp_path / "file"
    path.write_bytes(data)
    return Iden3File.open(path, "wtns", 2)


def test_finds_sections_in_any_order(tmp_path: Path) -> None:
    file = opened(tmp_path, GOOD)
    assert {number: (s.offset, s.length) for number, s in file.sections.items()} == {
        7: (24, 4),
        1: (40, 0),
        2: (52, 3),
    }
    assert bytes(file.section(2, "values").take(3, "it")) == b"xyz"
    assert file.size == len(GOOD)


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"zkey" + GOOD[4:], ["offset 0", "is not a wtns file", "b'zkey'", "right file"]),
        (b"wt", ["offset 0", "is not a wtns file"]),
        (GOOD[:11], ["offset 11", "within its header", "copy it again"]),
        (GOOD[:4] + struct.pack("<I", 3) + GOOD[8:], ["offset 4", "version 3", "reads version 2"]),
        (GOOD[:8] + struct.pack("<I", 4) + GOOD[12:], ["ends after 3 of 4 sections", "truncated"]),
        (GOOD[:8] + struct.pack("<I", 2) + GOOD[12:], ["offset 40", "15 bytes after its last"]),
        (GOOD + b"\0", [f"offset {len(GOOD)}", "1 bytes after its last section"]),
        (GOOD[:-1], ["section 2, offset 44", "length of 3 bytes", "has 2 more", "truncated"]),
        (GOOD[:45], ["ends after 2 of 3 sections"]),
        (
            GOOD[:44] + struct.pack("<Q", 2**64 - 1) + GOOD[52:],
            ["section 2, offset 44", "length of 18446744073709551615 bytes"],
        ),
        (
            # A length with which a 64-bit sum would wrap round onto the first section.
            GOOD[:44] + struct.pack("<Q", 2**64 - 40) + GOOD[52:],
            ["section 2, offset 44", f"length of {2**64 - 40} bytes"],
        ),
        (
            container(b"wtns", 2, [(7, b"abcd"), (7, b"abcd")]),
            ["section 7, offset 28", "occurs twice"],
        ),
    ],
)
def test_damaged_container(tmp_path: Path, data: bytes, parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        opened(tmp_path, data)
    refused(error, str(tmp_path / "file"), *parts)
    assert error.value.exit_code == 3


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    for length in range(len(GOOD)):
        with pytest.raises(InputError):
            opened(tmp_path, GOOD[:length])


def test_missing_section(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        opened(tmp_path, GOOD).section(3, "labels")
    refused(error, "section 3 (labels)", "is missing")


def test_unmappable_files_are_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    for name, part in (
        ("absent", "does not exist"),
        ("pipe", "not a regular file"),
        (".", "not a regular file"),
        ("empty", "is empty"),
        ("nul\0", "could not be read"),
        ("n" * 300, "could not be read"),
        ("empty/below", "could not be read"),
    ):
        with pytest.raises(InputError, match=part):
            Iden3File.open(tmp_path / name, "wtns", 2)


def test_reads_past_a_section_name_it_and_its_offset(tmp_path: Path) -> None:
    reader = opened(tmp_path, GOOD).section(7, "header")
    with pytest.raises(InputError) as error:
        reader.u64("the count")
    refused(error, "section 7 (header)", "offset 24", "the count needs 8 bytes and 4 are left")
    assert reader.u32("the count") == int.from_bytes(b"abcd", "little")
    reader.finish()
    reader = opened(tmp_path, GOOD).section(7, "header")
    with pytest.raises(InputError, match="4 bytes more than the header"):
        reader.finish()
    with pytest.raises(InputError, match=r"the prime cannot be \d+ bytes long"):
        reader.modulus("the prime")


def test_arrays_are_views_of_the_file_that_outlive_it(tmp_path: Path) -> None:
    words = opened(tmp_path, GOOD).section(7, "values").words(1, what="it")
    os.unlink(tmp_path / "file")
    assert words.tolist() == [int.from_bytes(b"abcd", "little")]
    assert not words.flags.writeable
    assert not words.flags.owndata


def test_writer(tmp_path: Path) -> None:
    path = tmp_path / "out"
    strided = np.arange(10, dtype=np.uint32)[::3]
    empty = np.zeros((0, 8), dtype=np.uint32)
    write_iden3(path, "r1cs", 1, [(2, [b"ab", strided]), (1, []), (9, [empty, b"c"])])
    expected = [(2, b"ab" + struct.pack("<4I", 0, 3, 6, 9)), (1, b""), (9, b"c")]
    assert split(path.read_bytes()) == (b"r1cs", 1, expected)
    with pytest.raises(OutputError):
        write_iden3(tmp_path / "absent" / "out", "r1cs", 1, [])
