"""Groth16 keys of bellman over BLS12-381, as in Zcash and its relatives.

A verifying key is alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, and ic, which is a
count and as many points of G1. Parameters, the proving key, are a verifying key and five more such
lists: h, l and a in G1, b in G1 and in G2. A ceremony's file ends with its transcript: 64 bytes
that identify the circuit, a count, and 544 bytes per contribution.

Counts are u32, big-endian. Points are uncompressed in the Zcash form
(`quod.curve.encoding.points`): 96 bytes in G1, 192 in G2. No point is infinity:

| list | for |
|---|---|
| ic | the constant and the public inputs |
| h | tau**i * Z(tau) / delta, Z vanishing on the domain: one fewer than the domain's size |
| l | all private variables |
| a | the variables that the matrix A uses, and all variables of ic |
| b | the variables that the matrix B uses |

The file has no matrices: the circuit determines the meaning of the lists. Arrays here are integers
below q in little-endian 32-bit words, (n, 2, 12) in G1 and (n, 2, 2, 12) in G2 with the coefficient
of 1 first, not in Montgomery form. Callers must check that points are on the curve; `Place` locates
a point for errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from quod.curve.named.bls12_381 import BLS12_381
from quod.errors import InputError
from quod.formats.curves import first_at_or_above
from quod.formats.iden3 import SectionReader, Words
from quod.formats.output import Content, write_atomically
from quod.formats.source import Path, map_file
from quod.frozen import frozen
from quod.validation import file_path, instance, plain_array

VERIFYING_KEY = {
    "alpha_g1": 1, "beta_g1": 1, "beta_g2": 2, "gamma_g2": 2, "delta_g1": 1, "delta_g2": 2,
}  # fmt: skip
"""The single points in file order, and the group of each: 1 for G1, 2 for G2."""

LISTS = {"h": 1, "l": 1, "a": 1, "b_g1": 1, "b_g2": 2}
"""The lists of parameters, after their verifying key, and the group of each."""

PURPOSES = {
    "ic": "public inputs", "h": "the quotient", "l": "private variables", "a": "matrix A",
    "b_g1": "matrix B in G1", "b_g2": "matrix B in G2",
}  # fmt: skip
"""The purpose of the points of each list, for the names of stages."""

CURVE = BLS12_381
HASH_BYTES, CONTRIBUTION_BYTES = 64, 544

_COORDINATE_BYTES = 48
_COMPRESSED, _INFINITY, _SIGN = 0x80, 0x40, 0x20
# Magic numbers of other files, whose letters could be flags of a point.
_OTHER_MAGICS = (b"zkey", b"r1cs", b"wtns", b"ptau")
_SOURCE = "the file is damaged or forged, get it again from its source"


def point_bytes(group: int) -> int:
    """Return the bytes of a point in G1 (1) or G2 (2)."""
    return 2 * group * _COORDINATE_BYTES


def verifying_key_bytes(public: int) -> int:
    """Return the bytes of a verifying key with a number of public inputs."""
    return sum(map(point_bytes, VERIFYING_KEY.values())) + 4 + point_bytes(1) * (public + 1)


@frozen
class Place:
    """The location of an array of points in a file.

    path: The name of the file.
    section: The label of the section, for errors.
    offset: The offset of the array in bytes.
    group: 1 for G1, 2 for G2.
    """

    path: str
    section: str
    offset: int
    group: int

    def error(self, index: int, message: str) -> InputError:
        """Return the error for point `index` of the array."""
        offset = self.offset + point_bytes(self.group) * index
        return InputError(f"{message}; {_SOURCE}", path=self.path, section=self.section,
                          offset=offset)  # fmt: skip


@frozen(eq=False)
class _BellmanKey(ABC):
    """The points of a bellman file by name, and their locations in it."""

    path: str
    points: Mapping[str, Words]
    places: Mapping[str, Place]

    @property
    def public(self) -> int:
        """The number of public inputs."""
        return len(self.points["ic"]) - 1

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file.

        A verifying key may be a file of its own or the start of parameters, all of which are read.
        Raises `InputError` for a truncated file, bytes after the last part, flags that are not
        those of an uncompressed point, infinity, and a coordinate that is not below q.
        """
        name = file_path(path)
        return cls.parse(map_file(name), name)

    @classmethod
    @abstractmethod
    def parse(cls, data: memoryview, name: str) -> Self:
        """Read bytes as `open` reads a file; `name` stands for the path in errors."""


@frozen(eq=False)
class BellmanVerifyingKey(_BellmanKey):
    """The verifying key of a bellman file; `points` includes ic."""

    @classmethod
    def open_start(cls, path: Path) -> Self:
        """Read the verifying key at the start of a file, and nothing that follows it.

        Raises `InputError` as `open` does for these bytes.
        """
        name = file_path(path)
        parts = _read_key(map_file(name), name)
        return cls(name, parts.points, parts.places)

    @classmethod
    def parse(cls, data: memoryview, name: str) -> Self:
        parts = _read_key(data, name)
        key = cls(name, dict(parts.points), dict(parts.places))
        if parts.offset != len(data):
            _read_lists(parts, len(data))
        return key


@frozen(eq=False)
class BellmanParameters(_BellmanKey):
    """The proving key of a bellman file.

    points: The points of the verifying key and of the `LISTS`, by name.
    circuit_hash: The 64 bytes in the transcript that name the circuit; None without a transcript.
    contributions: The number of contributions in the transcript; 0 without a transcript.
    size: The length of the file in bytes.
    """

    circuit_hash: bytes | None
    contributions: int
    size: int

    @classmethod
    def parse(cls, data: memoryview, name: str) -> Self:
        parts = _read_key(data, name)
        if parts.offset == len(data):
            raise InputError(
                "is only a verifying key; give the parameters, which also have the proving key",
                path=name,
                offset=parts.offset,
            )
        circuit_hash, contributions = _read_lists(parts, len(data))
        return cls(name, parts.points, parts.places, circuit_hash, contributions, len(data))


@frozen(eq=False)
class EncodedParameters(_BellmanKey):
    """Parameters whose lists stay as the file has them, for files that are larger than memory.

    points: The points of the verifying key.
    lists: The bytes of the points of each of the `LISTS`; neither flags nor coordinates are
        checked.
    size: The length of the file in bytes.
    """

    lists: Mapping[str, memoryview]
    size: int

    @classmethod
    def parse(cls, data: memoryview, name: str) -> Self:
        parts = _read_key(data, name)
        _read_lists(parts, len(data), encoded=True)
        return cls(name, parts.points, parts.places, parts.encoded, len(data))


class _Parts:
    """A reader of the parts of a file, in order."""

    def __init__(self, data: memoryview, path: str) -> None:
        self._data, self._path, self.offset = data, path, 0
        self.points: dict[str, Words] = {}
        self.encoded: dict[str, memoryview] = {}
        self.places: dict[str, Place] = {}

    def section(self, name: str) -> SectionReader:
        """Return a reader of the rest of the file, labelled with this part."""
        remaining = len(self._data) - self.offset
        return SectionReader(self._path, name, self._data, self.offset, remaining)

    def single(self, name: str, group: int) -> None:
        """Read a single point."""
        section = self.section(name)
        self._points(section, name, 1, group)
        self.points[name] = self.points[name][0]

    def list(self, name: str, group: int, *, encoded: bool = False) -> int:
        """Read a list: its count, which is returned, then its points."""
        section = self.section(name)
        count = _count(section, f"the count of {name}")
        self._points(section, name, count, group, encoded=encoded)
        return count

    def _points(
        self, section: SectionReader, name: str, count: int, group: int, *, encoded: bool = False
    ) -> None:
        place = Place(self._path, section.label, section.offset, group)
        data = section.take(count * point_bytes(group), f"the list of {count} points")
        if encoded:
            self.encoded[name] = data
        else:
            self.points[name] = _coordinates(data, count, place)
        self.places[name] = place
        self.offset = section.offset


def _count(section: SectionReader, what: str) -> int:
    return int.from_bytes(section.take(4, what), "big")


def _coordinates(data: memoryview, count: int, place: Place) -> Words:
    """Return the points of a list, after checking flags and coordinates."""
    degree, fq = place.group, CURVE.fq
    encoded: NDArray[np.uint8] = np.frombuffer(data, np.uint8).reshape(
        count, 2 * degree, _COORDINATE_BYTES
    )
    # A copy, as each pass over bytes that are far apart reads the whole list.
    flags = encoded[:, 0, 0] & (_COMPRESSED | _INFINITY | _SIGN)
    for bit, fault in (
        (_COMPRESSED, "is flagged as compressed; keys have uncompressed points"),
        (_INFINITY, "is the point at infinity, which a key does not have"),
        (_SIGN, "has a sign bit, which an uncompressed point cannot have"),
    ):
        if (flags & bit).any():
            index = int(np.argmax(flags & bit != 0))
            raise place.error(index, f"point {index} {fault}")
    # Words of four bytes are reversed several times faster than bytes.
    words: Words = encoded.view(">u4")[:, :, ::-1].astype(np.uint32, order="C")
    bad_index = first_at_or_above(words.reshape(-1, fq.words), fq)
    if bad_index is not None:
        index = bad_index // (2 * degree)
        raise place.error(index, f"a coordinate of point {index} is not below q")
    if degree == 1:
        return words
    # The file has the coefficient of u first.
    pairs = words.reshape(count, 2, 2, fq.words)[:, :, ::-1]
    return np.ascontiguousarray(pairs)


def _read_key(data: memoryview, name: str) -> _Parts:
    """Read the verifying key at the start of the file."""
    if (kind := bytes(data[:4])) in _OTHER_MAGICS:
        raise InputError(
            f"is a {kind.decode()} file, not a key of bellman; check that the right file was given",
            path=name,
            offset=0,
        )
    parts = _Parts(data, name)
    for point, group in VERIFYING_KEY.items():
        parts.single(point, group)
    parts.list("ic", 1)
    if not len(parts.points["ic"]):
        raise parts.places["ic"].error(0, "ic is empty, but must have a point for the constant 1")
    return parts


def _read_lists(parts: _Parts, size: int, *, encoded: bool = False) -> tuple[bytes | None, int]:
    """Read the lists of parameters; return the circuit hash and contributions of a transcript."""
    counts = {name: parts.list(name, group, encoded=encoded) for name, group in LISTS.items()}
    if counts["b_g1"] != counts["b_g2"]:
        raise parts.places["b_g2"].error(
            0,
            f"b has {counts['b_g1']} points in G1 and {counts['b_g2']} in G2; the counts must be "
            "equal",
        )
    if parts.offset == size:
        return None, 0
    section = parts.section("transcript")
    circuit_hash = bytes(section.take(HASH_BYTES, "the hash of the circuit"))
    contributions = _count(section, "the count of contributions")
    section.take(contributions * CONTRIBUTION_BYTES, f"{contributions} contributions")
    section.finish()
    return circuit_hash, contributions


def begins_as_bellman_key(data: memoryview) -> bool:
    """Return true if bytes begin with a point as bellman keys do and other files do not."""
    encoded, q = bytes(data[: 2 * _COORDINATE_BYTES]), CURVE.fq.value
    x, y = (
        int.from_bytes(part, "big")
        for part in (encoded[:_COORDINATE_BYTES], encoded[_COORDINATE_BYTES:])
    )
    return x < q and y < q and (x**3 + CURVE.g1.b - y * y) % q == 0


def bellman_key(data: memoryview, name: str) -> BellmanVerifyingKey | BellmanParameters:
    """Parse bytes as a verifying key, or as parameters if more follows."""
    is_verifying_key = _read_key(data, name).offset == len(data)
    kind = BellmanVerifyingKey if is_verifying_key else BellmanParameters
    return kind.parse(data, name)


def write_bellman_key(path: Path, points: Mapping[str, Words]) -> None:
    """Write a verifying key atomically; `points` are as in `BellmanVerifyingKey`.

    Raises `InputError` for arrays of other shapes or values and for infinity, `OutputError` if
    writing fails.
    """
    write_atomically(path, bellman_key_content(points))


def write_bellman_parameters(path: Path, points: Mapping[str, Words]) -> None:
    """Write parameters without a transcript atomically; see `write_bellman_key`."""
    write_atomically(path, bellman_parameters_content(points))


def bellman_key_content(points: Mapping[str, Words]) -> Content:
    """Return the content of a verifying key; see `write_bellman_key`."""
    pieces = _key_pieces(points)
    return lambda file: _write(file, pieces)


def bellman_parameters_content(points: Mapping[str, Words]) -> Content:
    """Return the content of parameters without a transcript; see `write_bellman_key`."""
    pieces = _key_pieces(points)
    for name, group in LISTS.items():
        pieces += _list_pieces(points, name, group)
    return lambda file: _write(file, pieces)


def encoded_parameters_content(
    points: Mapping[str, Words], lists: Mapping[str, tuple[int, Iterator[bytes]]]
) -> Content:
    """Return the content of parameters whose lists are encoded already.

    points: of the verifying key; see `write_bellman_key`.
    lists: for each of the `LISTS`, the number of points and their bytes in pieces.
    """
    pieces = _key_pieces(points)

    def write(file: BinaryIO) -> None:
        _write(file, pieces)
        for name in LISTS:
            count, encoded = lists[name]
            file.write(count.to_bytes(4, "big"))
            for piece in encoded:
                file.write(piece)

    return write


def _write(file: BinaryIO, pieces: list[bytes]) -> None:
    for piece in pieces:
        file.write(piece)


def _key_pieces(points: Mapping[str, Words]) -> list[bytes]:
    instance("points", points, Mapping, "give arrays by name")  # type: ignore[type-abstract]
    pieces = []
    for name, group in VERIFYING_KEY.items():
        single = plain_array(name, points.get(name))
        pieces.append(_bytes(single[None], name, group))
    return pieces + _list_pieces(points, "ic", 1)


def _list_pieces(points: Mapping[str, Words], name: str, group: int) -> list[bytes]:
    array = plain_array(name, points.get(name))
    content = _bytes(array, name, group)
    return [len(array).to_bytes(4, "big"), content]


def _bytes(points: Words, name: str, group: int) -> bytes:
    """Return points in the form of the file; raise InputError for invalid ones."""
    fq = CURVE.fq
    shape = (2, fq.words) if group == 1 else (2, 2, fq.words)
    if points.dtype != np.uint32 or points.shape[1:] != shape:
        raise InputError(f"{name} must be uint32 of shape (n, {', '.join(map(str, shape))})")
    if first_at_or_above(points.reshape(-1, fq.words), fq) is not None:
        raise InputError(f"{name} has a coordinate that is not below q")
    if not points.any(axis=tuple(range(1, points.ndim))).all():
        raise InputError(f"{name} has the point at infinity")
    if group == 2:
        points = points[:, :, ::-1]
    coordinates = points.reshape(-1, fq.words)
    return coordinates[:, ::-1].astype(">u4", order="C").tobytes()
