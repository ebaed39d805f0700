"""Hostile bytes: whatever a parser is given, it returns or raises a QuodError."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quod.errors import InputError, QuodError
from quod.formats import (
    PowersOfTau,
    R1cs,
    Witness,
    Zkey,
    describe,
    read_proof,
    read_public,
    read_verification_key,
)
from tests.formats.tiny import DATA, TINY_CURVES, container, split
from tests.support.thorough import one_and_others

EDGES = [0, 1, 2, 3, 0x7F, 0x80, 0xFF, 2**16, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1]


def open_zkey(path: Path) -> None:
    key = Zkey.open(path)
    key.check_points()


def open_r1cs(path: Path) -> None:
    system = R1cs.open(path)
    _ = system.matrices
    assert len(system.wire_labels) in (0, system.wires)


BINARY: list[tuple[str, Callable[[Path], object]]] = [
    ("circuit.zkey", open_zkey),
    ("plonk.zkey", open_zkey),
    ("witness.wtns", Witness.open),
    ("circuit.r1cs", open_r1cs),
    ("powers.ptau", PowersOfTau.open),
]
TEXT: list[tuple[str, Callable[[Path], object]]] = [
    ("proof.json", read_proof),
    ("public.json", lambda path: read_public(path, curve="bn254")),
    ("verification_key.json", read_verification_key),
]


def mutated(data: bytes, draw: st.DataObject) -> bytes:
    """Some bytes or integers overwritten, a piece cut out or put in twice, the end cut off."""
    result = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(result)))
        kind = draw.draw(st.sampled_from(["byte", "u32", "u64", "cut", "copy", "end", "insert"]))
        length = draw.draw(st.sampled_from([1, 4, 8, 12, 32, 44, 64]))
        if kind == "byte":
            result[at : at + 1] = bytes([draw.draw(st.integers(0, 255))])
        elif kind == "u32":
            result[at : at + 4] = struct.pack("<I", draw.draw(st.sampled_from(EDGES)))
        elif kind == "u64":
            result[at : at + 8] = struct.pack("<Q", 2**64 - 1 - draw.draw(st.integers(0, 4096)))
        elif kind == "cut":
            del result[at : at + length]
        elif kind == "copy":
            result[at:at] = result[at : at + length]
        elif kind == "end":
            del result[at:]
        else:
            result[at:at] = draw.draw(st.binary(max_size=16))
    return bytes(result)


def opens_or_refuses(path: Path, data: bytes, read: Callable[[Path], object]) -> bool:
    """Return whether `data` was accepted; anything but a QuodError fails the test."""
    path.write_bytes(data)
    message = None
    try:
        read(path)
    except QuodError as error:
        message = str(error)
    if message is None:
        return True
    assert str(path) in message
    assert "\n" not in message
    return False


@pytest.mark.parametrize(("name", "read"), BINARY + TEXT)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(draw=st.data())
def test_mutated_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    read: Callable[[Path], object],
    draw: st.DataObject,
) -> None:
    path = tmp_path_factory.getbasetemp() / f"mutated-{name}"
    data = mutated((DATA / "bn254" / name).read_bytes(), draw)
    opens_or_refuses(path, data, read)
    opens_or_refuses(path, data, describe)


@pytest.mark.parametrize(("name", "read"), BINARY[:1] + BINARY[2:])
@pytest.mark.parametrize("curve", one_and_others(TINY_CURVES))
@settings(max_examples=40, deadline=None)
@given(draw=st.data())
def test_mutated_sections_in_a_sound_container(
    tmp_path_factory: pytest.TempPathFactory,
    curve: str,
    name: str,
    read: Callable[[Path], object],
    draw: st.DataObject,
) -> None:
    # The lengths agree with the bytes here, so that damage reaches the section parsers.
    kind, version, sections = split((DATA / curve / name).read_bytes())
    index = draw.draw(st.integers(0, len(sections) - 1))
    sections[index] = (sections[index][0], mutated(sections[index][1], draw))
    data = container(kind, version, sections)
    opens_or_refuses(tmp_path_factory.getbasetemp() / f"sections-{name}", data, read)


@pytest.mark.parametrize(("name", "read"), BINARY[:1] + BINARY[2:])
def test_every_word_of_the_headers_at_its_edges(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    data = (DATA / "bn254" / name).read_bytes()
    assert opens_or_refuses(tmp_path / name, data, read)
    refusals = 0
    for at in range(0, 112, 4):
        for value in EDGES:
            changed = data[:at] + struct.pack("<I", value) + data[at + 4 :]
            refusals += not opens_or_refuses(tmp_path / name, changed, read)
    assert refusals > 100


@pytest.mark.parametrize(("name", "read"), BINARY[:1] + BINARY[2:] + TEXT)
def test_truncations_and_additions(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    data = (DATA / "bn254" / name).read_bytes()
    cuts = random.Random(1).sample(range(len(data)), min(100, len(data) - 1))
    for cut in cuts:
        assert not opens_or_refuses(tmp_path / name, data[:cut], read)
    assert not opens_or_refuses(tmp_path / name, data + b"x", read)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.from_regex(r"\A[0-9]{1,90}\Z"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values within a document."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return [path]
    return [path] * bool(path) + [place for k, v in inner for place in leaves(v, (*path, k))]


@pytest.mark.parametrize(("name", "read"), TEXT)
@settings(max_examples=60, deadline=None)
@given(draw=st.data())
def test_documents_with_a_value_replaced(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    read: Callable[[Path], object],
    draw: st.DataObject,
) -> None:
    document = json.loads((DATA / "bn254" / name).read_text())
    *path, last = draw.draw(st.sampled_from(leaves(document)))
    target = document
    for part in path:
        target = target[part]
    target[last] = draw.draw(json_values)
    file = tmp_path_factory.getbasetemp() / f"replaced-{name}"
    opens_or_refuses(file, json.dumps(document).encode(), read)


@settings(max_examples=50, deadline=None)
@given(data=st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary"
    for kind in (b"", b"zkey\1\0\0\0", b"wtns\2\0\0\0", b"r1cs\1\0\0\0", b"ptau\1\0\0\0"):
        opens_or_refuses(path, kind + data, describe)
    for read in (open_zkey, open_r1cs, Witness.open, PowersOfTau.open):
        path.write_bytes(data)
        with pytest.raises(InputError):
            read(path)
