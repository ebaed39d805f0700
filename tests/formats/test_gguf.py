from __future__ import annotations

import os
import random
import struct
import time
from pathlib import Path
from typing import Any

import gguf as peer
import numpy as np
import pytest

from quod.errors import InputError, OutputError
from quod.formats import GGUF_TYPES, Gguf, describe, write_gguf
from quod.formats.gguf.file import MAX_PAIRS, MAX_TENSORS
from quod.formats.gguf.metadata import MAX_STRINGS
from tests.formats.gguf_files import DATA, PAIRS, TENSORS, array, gguf_file, sound, text, u32
from tests.formats.tiny import refused


def parsed(data: bytes) -> Gguf:
    return Gguf.parse(memoryview(data), "model.gguf")


def test_every_type_of_value() -> None:
    model = parsed(sound())
    assert [key.encode() for key in model.metadata] == [key for key, _, _ in PAIRS]
    expected = {
        "general.architecture": "tiny",
        "general.alignment": np.uint32(64),
        "a.u8": np.uint8(255),
        "a.i8": np.int8(-1),
        "a.u16": np.uint16(0xFFFE),
        "a.i16": np.int16(-2),
        "a.i32": np.int32(-3),
        "a.f32": np.float32(1.5),
        "a.bool": True,
        "a.u64": np.uint64(2**63 + 1),
        "a.i64": np.int64(-(2**62)),
        "a.f64": np.float64(np.inf),
    }
    for key, value in expected.items():
        assert model.metadata[key] == value
        assert type(model.metadata[key]) is type(value)
    tokens: Any = model.metadata["b.tokens"]
    assert (len(tokens), list(tokens), tokens[-1], tokens[:2]) == (
        3, ["é", "", "end"], "end", ["é", ""],
    )  # fmt: skip
    with pytest.raises(IndexError):
        tokens[3]
    scores: Any = model.metadata["b.scores"]
    assert (scores.dtype, scores.tolist()) == (np.float32, [0, -1, 2.5, 3, 4])
    assert not scores.flags.writeable
    flags: Any = model.metadata["b.flags"]
    assert (flags.dtype, flags.tolist()) == (np.bool_, [True, False, True])
    assert len(model.metadata["b.none"]) == 0  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        model.metadata["a.u8"] = np.uint8(1)  # type: ignore[index]


def test_tensors_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(sound())
    for owned in (False, True):
        model = Gguf.open(tmp_path / "m.gguf", owned=owned)
        assert (model.identity is None) == owned
        assert [name.encode() for name in model.tensors] == [name for name, *_ in TENSORS]
        begin = model.data_offset
        assert begin % 64 == 0
        assert begin == len(sound()) - len(DATA)
        weights = model.tensors["weights"]
        assert (weights.shape, weights.type.name, weights.offset) == (
            (2, 256), "Q4_K", begin + 128,
        )  # fmt: skip
        assert weights.array().shape == (2, 144)
        assert weights.array().tobytes() == DATA[128:416]
        assert not weights.array().flags.writeable
        bias = model.tensors["bias"].array()
        assert (bias.dtype, bias.tobytes()) == (np.float32, DATA[:12])
        halves = model.tensors["halves"].array()
        assert (halves.dtype, halves.shape) == (np.uint16, (3, 2))
        assert halves.tobytes() == DATA[64:76]
        assert model.tensors["scalar"].array().shape == ()
        assert int(model.tensors["scalar"].array()) == DATA[448] - 256 * (DATA[448] > 127)


def test_opening_reads_no_tensor(tmp_path: Path) -> None:
    # A terabyte, of which the disk holds the first page.
    with (tmp_path / "large.gguf").open("wb") as file:
        length = 1 << 40
        file.write(gguf_file([], [(b"w", (1 << 20, 1 << 18), 0, 0)]))
        file.truncate(length + 4096)
    start = time.monotonic()
    tensor = Gguf.open(tmp_path / "large.gguf").tensors["w"]
    assert len(tensor.data) == length
    assert tensor.array().shape == (1 << 18, 1 << 20)
    assert time.monotonic() - start < 2


def test_type_numbers_match_ggml() -> None:
    for name, row in GGUF_TYPES.items():
        number = peer.GGMLQuantizationType[name]
        assert (row.number, row.elements, row.bytes) == (number, *peer.GGML_QUANT_SIZES[number])


def test_round_trip_and_read_by_gguf_package(tmp_path: Path) -> None:
    first = parsed(sound())
    path = tmp_path / "again.gguf"
    write_gguf(
        path, first.metadata,
        {name: (tensor.type.name, tensor.array()) for name, tensor in first.tensors.items()},
    )  # fmt: skip
    again = Gguf.open(path)
    assert list(again.metadata) == list(first.metadata)
    for key, value in first.metadata.items():
        other = again.metadata[key]
        assert type(other) is type(value)
        assert np.array_equal(np.asarray(other), np.asarray(value)), key
    for name, tensor in first.tensors.items():
        assert bytes(again.tensors[name].data) == bytes(tensor.data)
        assert again.tensors[name].shape == tensor.shape
        assert again.tensors[name].offset % 64 == 0
    assert again.size % 64 == 0

    reader = peer.GGUFReader(path)
    assert reader.fields["b.tokens"].contents() == ["é", "", "end"]
    assert reader.fields["a.i64"].contents() == -(2**62)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert tensors["weights"].shape.tolist() == [256, 2]
    assert tensors["weights"].data.tobytes() == bytes(first.tensors["weights"].data)


def test_files_written_by_gguf_package_are_read(tmp_path: Path) -> None:
    writer = peer.GGUFWriter(tmp_path / "p.gguf", "llama")
    writer.add_uint32("llama.block_count", 7)
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "ä", "b"])
    writer.add_array("numbers", [1, 2, -3])
    values = np.random.default_rng(1).normal(size=(4, 64)).astype(np.float32)
    writer.add_tensor("plain", values)
    blocks = peer.quants.quantize(values, peer.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blocks", blocks, raw_dtype=peer.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = Gguf.open(tmp_path / "p.gguf")
    assert model.metadata["general.architecture"] == "llama"
    assert model.metadata["llama.block_count"] == 7
    assert list(model.metadata["tokenizer.ggml.tokens"]) == ["<s>", "ä", "b"]  # type: ignore[arg-type]
    assert np.array_equal(model.tensors["plain"].array(), values)
    assert model.tensors["blocks"].shape == (4, 64)
    assert np.array_equal(model.tensors["blocks"].array(), blocks)


def tensor(
    name: bytes = b"w", dimensions: tuple[int, ...] = (256,), kind: int = 12, offset: int = 0
) -> tuple[bytes, tuple[int, ...], int, int]:
    return name, dimensions, kind, offset


def pair(kind: int, value: bytes, key: bytes = b"key") -> bytes:
    return gguf_file([(key, kind, value)])


ROOM = bytes(1024)
# Where the first key's value begins, and where the first tensor's dimensions do.
VALUE = 24 + 8 + 3 + 4
DIMENSIONS = 24 + 8 + 1 + 4


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"GGML" + bytes(60), ["is not a GGUF file", "offset 0"]),
        (b"GGUF", ["the version needs 4 bytes", "offset 4"]),
        (gguf_file([], version=1), ["version 1 of GGUF, with counts", "offset 4"]),
        (gguf_file([], version=4), ["version 4", "reads versions 2 and 3", "offset 4"]),
        (gguf_file([], version=2 << 24), ["big-endian", "offset 4"]),
        (gguf_file([], version=3 << 24), ["big-endian", "offset 4"]),
        (gguf_file([], counts=(2**63, 0)), [f"{2**63} tensors", "too short", "offset 8"]),
        (gguf_file([], counts=(0, 2**64 - 1)), ["pairs of metadata", "too short", "offset 16"]),
        (
            gguf_file([], [], bytes(25 * MAX_TENSORS + 50), counts=(MAX_TENSORS + 1, 0)),
            [f"more than the limit of {MAX_TENSORS}", "offset 8"],
        ),
        (
            gguf_file([], [], bytes(14 * MAX_PAIRS + 50), counts=(0, MAX_PAIRS + 1)),
            [f"more than the limit of {MAX_PAIRS}", "offset 16"],
        ),
        (gguf_file([(b"", 0, b"\0")], [], ROOM), ["a key is empty", "offset 24"]),
        (gguf_file([(b"\xff", 0, b"\0")]), ["is not UTF-8", "offset 32"]),
        (gguf_file([(b"k", 0, b"\0")] * 2), ["'k' occurs twice", "offset 38"]),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**64 - 8) + bytes(32),
            ["more than the limit of 65535", "offset 24"],
        ),
        (pair(13, b"\0" * 8), ["metadata 'key'", "the type 13", "offset 35"]),
        (pair(7, b"\2"), ["metadata 'key'", "is 2, neither 0 nor 1", f"offset {VALUE}"]),
        (pair(10, b"")[:VALUE] + b"1234", ["'key'", "the value needs 8 bytes", f"offset {VALUE}"]),
        (pair(8, struct.pack("<Q", 2**63)), ["'key'", "the text needs", f"offset {VALUE + 8}"]),
        (pair(8, text(b"ab\x80")), ["'key'", "is not UTF-8", f"offset {VALUE + 10}"]),
        (pair(9, array(9, 0, b"")), ["'key'", "array of arrays", f"offset {VALUE}"]),
        (pair(9, array(13, 0, b"")), ["'key'", "the type 13", f"offset {VALUE}"]),
        (pair(9, array(10, 2**61, b"")), ["'key'", f"{2**61} values", f"offset {VALUE + 12}"]),
        (pair(9, array(7, 3, b"\0\1\2")), ["'key'", "is 2, neither", f"offset {VALUE + 14}"]),
        (pair(9, array(8, 2**60, b"")), ["'key'", "strings", "too short", f"offset {VALUE + 12}"]),
        (
            pair(9, array(8, 2, text(b"a") + struct.pack("<Q", 2**64 - 1))),
            ["text 1 of 2 runs past the end", f"offset {VALUE + 12 + 9}"],
        ),
        (
            pair(9, array(8, MAX_STRINGS + 1, bytes(8 * MAX_STRINGS + 8))),
            ["'key'", f"the limit of {MAX_STRINGS}", f"offset {VALUE + 12}"],
        ),
        (pair(4, u32(24), b"general.alignment"), ["general.alignment", "power of two"]),
        (pair(4, u32(0), b"general.alignment"), ["general.alignment", "power of two"]),
        (pair(10, bytes(8), b"general.alignment"), ["general.alignment", "must be a u32"]),
        (gguf_file([], [tensor(b"")], ROOM), ["a name is empty", "offset 24"]),
        (gguf_file([], [tensor()] * 2, ROOM), ["'w' occurs twice", "offset 57"]),
        (gguf_file([], [tensor(dimensions=(1,) * 5)], ROOM), ["5 dimensions", "offset 33"]),
        (
            gguf_file([], [tensor(dimensions=(2**32, 2**32), kind=0)], ROOM),
            ["'w'", "product overflows", f"offset {DIMENSIONS}"],
        ),
        (
            gguf_file([], [tensor(dimensions=(2**63, 0, 2**63), kind=0)], ROOM),
            ["'w'", "product overflows", f"offset {DIMENSIONS}"],
        ),
        (
            # No values, and no array of NumPy either.
            gguf_file([], [tensor(dimensions=(0, 2**62), kind=0)], ROOM),
            ["'w'", "product overflows", f"offset {DIMENSIONS}"],
        ),
        (
            gguf_file([], [tensor(dimensions=(128, 2))], ROOM),
            ["'w'", "128 values are not whole blocks of Q4_K", f"offset {DIMENSIONS + 16}"],
        ),
        (gguf_file([], [tensor(dimensions=())], ROOM), ["'w'", "rows of 1 values"]),
        (
            gguf_file([], [tensor(offset=16)], ROOM),
            ["'w'", "not a multiple of 32", f"offset {DIMENSIONS + 12}"],
        ),
        (
            gguf_file([], [tensor(offset=896)], ROOM),
            ["'w'", "run past the end", f"offset {DIMENSIONS + 12}"],
        ),
        (
            gguf_file([], [tensor(offset=2**64 - 32)], ROOM),
            ["'w'", "run past the end", f"offset {DIMENSIONS + 12}"],
        ),
        (
            gguf_file([], [tensor(), tensor(b"v", offset=128)], ROOM),
            ["tensor 'v'", "overlap those of tensor 'w'"],
        ),
    ],
)  # fmt: skip
def test_invalid_files_name_the_defect(data: bytes, parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        parsed(data)
    refused(error, "model.gguf", *parts)


def test_text_arrays_are_decoded_lazily() -> None:
    tokens: Any = parsed(pair(9, array(8, 2, text(b"a") + text(b"b\xff")))).metadata["key"]
    assert tokens[0] == "a"
    with pytest.raises(InputError) as error:
        tokens[1]
    refused(error, "metadata 'key'", "is not UTF-8", f"offset {VALUE + 12 + 9 + 9}")


def test_every_truncation_is_rejected() -> None:
    data = sound()
    for length in range(len(data) - len(DATA) + 449):
        with pytest.raises(InputError):
            parsed(data[:length])
    parsed(data[: len(data) - len(DATA) + 449])


def test_damaged_files_are_rejected_or_unaffected(tmp_path: Path) -> None:
    generator, data = random.Random(5), sound()
    refusals = 0
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(generator.choice((1, 2, 4))):
            changed[generator.randrange(len(data) - len(DATA))] = generator.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFF)
            )
        try:
            model = parsed(bytes(changed))
            for tensor_ in model.tensors.values():
                if tensor_.type.is_known:
                    assert tensor_.array().nbytes == len(tensor_.data)
            for value in model.metadata.values():
                assert np.asarray(value).dtype != object
        except InputError:
            refusals += 1
    assert refusals > 1000


@pytest.mark.thorough
def test_largest_string_count_is_parsed_in_time() -> None:
    data = pair(9, array(8, MAX_STRINGS, bytes(8 * MAX_STRINGS)))
    start = time.process_time()
    assert len(parsed(data).metadata["key"]) == MAX_STRINGS  # type: ignore[arg-type]
    assert time.process_time() - start < 5


def test_inspect(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(sound())
    report: Any = describe(tmp_path / "m.gguf")
    assert list(report)[:3] == ["file", "kind", "bytes"]
    assert (report["kind"], report["version"], report["alignment"]) == ("model (gguf)", 3, 64)
    assert report["parameters"] == 512 + 3 + 6 + 1
    assert report["bytes_by_type"] == {"Q4_K": 288, "F32": 12, "BF16": 12, "I8": 1}
    assert report["metadata"]["a.f64"] == "inf"
    assert report["metadata"]["a.i8"] == -1
    assert report["metadata"]["b.tokens"] == "3 of text: 'é', '', 'end'"
    assert report["metadata"]["b.scores"] == "5 of float32: 0.0, -1.0, 2.5, 3.0, ..."
    assert report["tensors"]["weights"] == {
        "type": "Q4_K", "shape": "2 x 256", "bytes": 288, "offset": report["data_offset"] + 128,
    }  # fmt: skip


def test_version_2_is_read_as_version_3(tmp_path: Path) -> None:
    data = gguf_file(PAIRS, TENSORS, DATA, alignment=64, version=2)
    second, third = parsed(data), parsed(sound())
    assert (second.version, third.version) == (2, 3)
    assert list(second.metadata) == list(third.metadata)
    for name, tensor_ in third.tensors.items():
        assert np.array_equal(second.tensors[name].array(), tensor_.array())
    (tmp_path / "m.gguf").write_bytes(data)
    assert describe(tmp_path / "m.gguf")["version"] == 2
    assert Gguf.open(tmp_path / "m.gguf", owned=True).version == 2


@pytest.mark.parametrize("kind", [4, 40, 41, 2**32 - 1])
def test_a_tensor_of_an_unknown_type_is_listed(kind: int, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf_file([], [tensor(b"new", (48, 2), kind, 0), tensor(b"old", (4,), 0, 96)], ROOM)
    )
    model = Gguf.open(path)
    assert np.array_equal(model.tensors["old"].array(), np.zeros(4, np.float32))
    new = model.tensors["new"]
    assert (new.type.name, new.type.is_known, new.shape) == (f"type {kind}", False, (2, 48))
    with pytest.raises(InputError, match=f"tensor 'new' has type {kind} of GGUF, which Quod"):
        new.array()
    row: Any = describe(path)
    assert row["tensors"]["new"]["type"] == f"type {kind}"
    assert row["tensors"]["new"]["bytes"] is None
    assert row["bytes_by_type"] == {"F32": 16}
    path.write_bytes(gguf_file([], [tensor(b"new", (48, 2), kind, 1 << 20)], ROOM))
    with pytest.raises(InputError, match="run past the end"):
        Gguf.open(path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([tensor(b"new", (1 << 63, 1 << 63), 40)], "dimensions whose product overflows"),
        ([tensor(b"new", (48,), 40, len(ROOM))], "its 1 byte of data at .* run past the end"),
        ([tensor(b"old", (16,), 0), tensor(b"new", (48,), 40, 32)], "'new'.* overlap .*'old'"),
        ([tensor(b"new", (48,), 40), tensor(b"old", (16,), 0)], "'old'.* overlap .*'new'"),
    ],
)
def test_invalid_tensors_of_unknown_type_are_rejected(
    tensors: list[tuple[bytes, tuple[int, ...], int, int]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        parsed(gguf_file([], tensors, ROOM))


F32 = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("metadata", "tensors", "parts"),
    [
        ({"": True}, {}, ["a key of metadata must have 1 to 65535 bytes"]),
        ({5: True}, {}, ["a key of metadata must be text"]),
        ({"k": 5}, {}, ["metadata['k']", "a int"]),
        ({"k": None}, {}, ["metadata['k']", "None"]),
        ({"k": np.float16(1)}, {}, ["metadata['k']", "float16"]),
        ({"k": np.zeros((2, 2), np.uint8)}, {}, ["metadata['k'] must have one dimension"]),
        ({"k": np.ma.masked_array([1, 2], [0, 1])}, {}, ["metadata['k']", "mask"]),
        ({"k": ["a", 1]}, {}, ["metadata['k'][1] must be text"]),
        ({"k": "\ud800"}, {}, ["metadata['k']", "UTF-8"]),
        ({"general.alignment": np.uint32(12)}, {}, ["power of two"]),
        ({"general.alignment": np.uint64(32)}, {}, ["np.uint32"]),
        ([], {}, ["metadata must be a mapping"]),
        ({}, [], ["tensors must be a mapping"]),
        ({}, {"": ("F32", F32)}, ["the name of a tensor must have 1 to"]),
        ({}, {"w": F32}, ["tensors['w'] must be a pair"]),
        ({}, {"w": ("Q4", F32)}, ["the type of tensors['w'] must be F32,"]),
        ({}, {"w": ("Q4_0", F32)}, ["tensors['w'] of type Q4_0 must be of uint8, not float32"]),
        ({}, {"w": ("F32", [1.0])}, ["tensors['w'] must be a NumPy array"]),
        ({}, {"w": ("Q4_0", np.zeros(17, np.uint8))}, ["whole blocks of 18 bytes"]),
        ({}, {"w": ("F32", np.zeros((1,) * 5, np.float32))}, ["at most 4 dimensions"]),
    ],
)
def test_unwritable_values_are_named(
    tmp_path: Path, metadata: Any, tensors: Any, parts: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        write_gguf(tmp_path / "m.gguf", metadata, tensors)
    refused(error, *parts)
    assert os.listdir(tmp_path) == []


def test_unwritable_targets_are_reported(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        write_gguf(tmp_path / "no" / "m.gguf", {}, {})


def test_big_endian_and_strided_arrays_keep_their_values(tmp_path: Path) -> None:
    values = np.arange(12, dtype=">f4").reshape(3, 4).T
    write_gguf(tmp_path / "m.gguf", {"k": np.arange(3, dtype=">u2")}, {"w": ("F32", values)})
    model = Gguf.open(tmp_path / "m.gguf")
    assert np.array_equal(model.tensors["w"].array(), values)
    assert model.metadata["k"].tolist() == [0, 1, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("dimensions", "kind"), [((0, 2**60), 0), ((0, 2**60), 15), ((2**56, 0), 8)]
)
def test_every_readable_tensor_has_an_array(dimensions: tuple[int, ...], kind: int) -> None:
    """Empty tensors too, however long their other axes are."""
    model = parsed(gguf_file([], [(b"w", dimensions, kind, 0)]))
    assert model.tensors["w"].array().size == 0
