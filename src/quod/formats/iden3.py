"""The binary container of the iden3 tools, used by zkey, wtns, r1cs and ptau files.

All integers are little-endian: four bytes that name the kind, u32 version, u32 count of sections,
then each section as u32 id, u64 length and its bytes. Sections may come in any order.
Specification: the r1cs format description of iden3, https://github.com/iden3/r1csfile.

Files are mapped, unless the caller asks for private memory: opening one costs the same for every
size, and arrays are views of the map. A mapped file must not be changed while it is open; replace
it by renaming a complete file over it. `Iden3File.identity` detects changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NoReturn

import numpy as np

from quod.errors import InputError
from quod.formats.output import write_atomically
from quod.formats.source import (
    Bytes,
    FileIdentity,
    FileView,
    Path,
    map_identified,
    read_file,
)
from quod.frozen import frozen
from quod.validation import file_path, flag

Words = np.ndarray[Any, np.dtype[np.uint32]]
Buffer = bytes | np.ndarray[Any, np.dtype[Any]]

_HEADER_BYTES = 12
_SECTION_HEADER_BYTES = 12
_U32 = np.dtype("<u4")

# No format has more than 20 sections.
_MAX_SECTIONS = 256
_MAX_TEXT = 1 << 12


class SectionReader:
    """A reader of one section, front to back; every read is checked against the section's length.

    `label` names the section in errors: its number and its contents.
    """

    def __init__(self, path: str, label: str, data: Bytes, start: int, length: int) -> None:
        self.path = path
        self.label = label
        self.length = length
        self._data = data
        self._position = start
        self._end = start + length

    @property
    def offset(self) -> int:
        """The offset in the file of the next read."""
        return self._position

    @property
    def remaining(self) -> int:
        """The bytes of the section not yet read."""
        return self._end - self._position

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        """Raise the `InputError` for this section, at `offset` or else at the next read."""
        error_offset = self._position if offset is None else offset
        raise InputError(message, path=self.path, section=self.label, offset=error_offset)

    def take(self, length: int, what: str) -> memoryview:
        """Return the next `length` bytes, which errors call `what`."""
        start = self._position
        self.skip(length, what)
        return self._data[start : self._position]

    def remainder(self, what: str) -> memoryview:
        """Return the bytes up to the end of the section, which errors call `what`."""
        return self.take(self.remaining, what)

    def skip(self, length: int, what: str) -> None:
        """Skip the next `length` bytes, which must exist, without reading them."""
        if length > self.remaining:
            self.fail(
                f"{what} needs {length} bytes and {self.remaining} are left in the section; "
                "the file is damaged, make or copy it again"
            )
        self._position += length

    def rest(self) -> memoryview:
        """Return the remaining bytes without consuming them."""
        return self._data[self._position : self._end]

    def u32(self, what: str) -> int:
        """Read a 32-bit integer."""
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        """Read a 64-bit integer."""
        return int.from_bytes(self.take(8, what), "little")

    def number(self, what: str, low: int, high: int) -> int:
        """Read a 32-bit integer from `low` to `high`; InputError with the offset otherwise."""
        start = self._position
        value = self.u32(what)
        if not low <= value <= high:
            self.fail(f"{what} is {value}, and must be from {low} to {high}", start)
        return value

    def text(self, name: str) -> str:
        """Read a u32 length and that many printable ASCII characters; errors call them `name`."""
        start = self._position
        length = self.u32(f"the length of the {name}")
        if length > _MAX_TEXT:
            self.fail(f"the {name} has {length} bytes, more than the limit of {_MAX_TEXT}", start)
        data = bytes(self.take(length, f"the {name}"))
        if not data.isascii() or not data.decode().isprintable():
            self.fail(f"the {name} is not text; the file is damaged, copy it again", start)
        return data.decode()

    def modulus(self, what: str) -> int:
        """Read a prime: a u32 count of bytes, then an integer of that length."""
        start = self._position
        length = self.u32(f"the length of {what}")
        if length == 0 or length % 8 or length > 1024:
            self.fail(f"{what} cannot be {length} bytes long; the file is damaged", start)
        return int.from_bytes(self.take(length, what), "little")

    def words(self, *shape: int, what: str) -> Words:
        """Read an array of 32-bit words, as a view of the file."""
        count = int(np.prod(shape, dtype=object))
        return np.frombuffer(self.take(4 * count, what), dtype=_U32).reshape(shape)

    def integers(
        self, dtype: str, count: int, low: int, high: int, what: str
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Read integers of a little-endian dtype from `low` to `high`; errors call one `what`."""
        start, size = self._position, np.dtype(dtype).itemsize
        stored = np.frombuffer(self.take(size * count, f"{what} of each"), dtype)
        wrong = np.flatnonzero((stored < low) | (stored > high))
        if wrong.size:
            index = int(wrong[0])
            self.fail(
                f"{what} is {stored[index]}, and must be from {low} to {high}", start + size * index
            )
        return stored.astype(np.int64)

    def finish(self) -> None:
        """Check that the whole section was read."""
        if self.remaining:
            self.fail(
                f"{self.remaining} bytes more than the header states; the file is "
                "damaged or from another program, make it again"
            )


@frozen
class Section:
    """The location of a section in the file.

    id: Its number.
    offset: The offset of its contents in bytes.
    length: The length of its contents in bytes.
    """

    id: int
    offset: int
    length: int


@frozen(eq=False)
class Iden3File:
    """An open container, and the locations of its sections.

    With an `identity`, `contents` is a read-only map of the file. Without, it is private memory, or
    a view of a file that is not read yet, for checks of its headers.
    """

    path: str
    kind: str
    version: int
    sections: dict[int, Section]
    contents: Bytes
    identity: FileIdentity | None = None

    @property
    def size(self) -> int:
        """The length of the whole file in bytes."""
        return len(self.contents)

    @property
    def data(self) -> memoryview:
        """The bytes of the whole file, of a container that is mapped or read."""
        assert isinstance(self.contents, memoryview), "a view is for checks of headers"
        return self.contents

    @classmethod
    def open(
        cls,
        path: Path,
        kind: str,
        version: int,
        *,
        owned: bool = False,
        check: Callable[[Iden3File], object] | None = None,
    ) -> Iden3File:
        """Map `path`, or read it if `owned`, and find its sections.

        `kind` is the four letters that the file must begin with. Before the file is mapped or read,
        `check` is called with the container: it may read headers, and raises to refuse the file.
        Raises `InputError` for another kind or version, a truncated file, bytes after the last
        section, a length that exceeds the file, a duplicate section, and more sections than any
        format has.
        """
        name = file_path(path)

        def check_start(view: FileView) -> None:
            file = cls.parse(view, name, kind, version)
            if check is not None:
                check(file)

        if flag("owned", owned):
            return cls.parse(read_file(path, check_start), name, kind, version)
        data, identity = map_identified(path, check_start)
        return cls.parse(data, name, kind, version, identity)

    @classmethod
    def parse(
        cls,
        data: Bytes,
        path: str,
        kind: str,
        version: int,
        identity: FileIdentity | None = None,
    ) -> Iden3File:
        """Parse bytes in memory or a view as `open` does; `path` is only for messages."""

        def fail(message: str, offset: int, section: str | None = None) -> NoReturn:
            raise InputError(message, path=path, section=section, offset=offset)

        if bytes(data[:4]) != kind.encode():
            fail(
                f"is not a {kind} file (it begins with {bytes(data[:4])!r}, not "
                f"{kind.encode()!r}); check that the right file was given",
                0,
            )
        if len(data) < _HEADER_BYTES:
            fail("ends within its header; it is truncated, copy it again", len(data))
        found_version = int.from_bytes(data[4:8], "little")
        if found_version != version:
            fail(
                f"has version {found_version} of the {kind} format and Quod reads version "
                f"{version}; make it again with a current tool",
                4,
            )
        count = int.from_bytes(data[8:12], "little")
        if count > _MAX_SECTIONS:
            fail(
                f"has {count} sections, more than the limit of {_MAX_SECTIONS}; the "
                "file is damaged, make or copy it again",
                8,
            )
        sections: dict[int, Section] = {}
        position = _HEADER_BYTES
        for index in range(count):
            if len(data) - position < _SECTION_HEADER_BYTES:
                fail(
                    f"ends after {index} of {count} sections; it is truncated, copy it again",
                    len(data),
                )
            identifier = int.from_bytes(data[position : position + 4], "little")
            length = int.from_bytes(data[position + 4 : position + 12], "little")
            start = position + _SECTION_HEADER_BYTES
            if length > len(data) - start:
                fail(
                    f"states a length of {length} bytes and the file has {len(data) - start} "
                    "more; it is truncated or damaged, copy it again",
                    position + 4,
                    str(identifier),
                )
            if identifier in sections:
                fail(
                    "occurs twice; the file is damaged, make it again",
                    position,
                    str(identifier),
                )
            sections[identifier] = Section(identifier, start, length)
            position = start + length
        if position != len(data):
            fail(
                f"has {len(data) - position} bytes after its last section; "
                "it is damaged, copy it again",
                position,
            )
        return cls(path, kind, version, sections, data, identity)

    def check_unchanged(self) -> None:
        """Raise InputError if the mapped file was written to or replaced since `open`.

        Compares the size, time and inode now: this finds accidental changes, and none made later.
        Private memory does not change.
        """
        if self.identity is not None:
            self.identity.check()

    def check_sections(self, *identifiers: int, in_order: bool = False) -> None:
        """Raise InputError for a section whose number is not one of `identifiers`.

        With `in_order`, also for a section after one of a higher number: then a file has one form.
        """
        last = 0
        for section in self.sections.values():
            if section.id not in identifiers:
                raise InputError(
                    f"does not exist in a {self.kind} file of version {self.version}; "
                    "the file is damaged or from another program, make it again",
                    path=self.path, section=str(section.id), offset=section.offset,
                )  # fmt: skip
            if in_order and section.id < last:
                raise InputError(
                    f"is after section {last}, and sections are in the order of their numbers",
                    path=self.path, section=str(section.id), offset=section.offset,
                )  # fmt: skip
            last = section.id

    def section(self, identifier: int, name: str) -> SectionReader:
        """Return a reader at the start of a section; errors call its contents `name`."""
        label = f"{identifier} ({name})"
        section = self.sections.get(identifier)
        if section is None:
            raise InputError(
                "is missing; the file is incomplete, make it again", path=self.path, section=label
            )
        return SectionReader(self.path, label, self.contents, section.offset, section.length)


def write_iden3(
    path: Path,
    kind: str,
    version: int,
    sections: Iterable[tuple[int, list[Buffer]]],
    *,
    private: bool = False,
) -> None:
    """Write a container atomically; a section is its id and a list of its contents.

    Arrays are written in C order, as they are in memory. Only the owner can read a `private` file.
    Raises `OutputError`.
    """
    write_atomically(path, iden3_writer(kind, version, sections), private=private)


def iden3_writer(
    kind: str, version: int, sections: Iterable[tuple[int, list[Buffer]]]
) -> Callable[[BinaryIO], None]:
    """Return a function that writes a container to an open file; see `write_iden3`."""
    contents = [
        (identifier, [as_bytes(piece) for piece in parts]) for identifier, parts in sections
    ]

    def write(file: BinaryIO) -> None:
        file.write(container_start(kind, version, len(contents)))
        for identifier, parts in contents:
            file.write(section_start(identifier, sum(map(len, parts))))
            for part in parts:
                file.write(part)

    return write


def container_start(kind: str, version: int, sections: int) -> bytes:
    """Return the header before the sections of a container."""
    return kind.encode() + little_u32(version) + little_u32(sections)


def section_start(identifier: int, length: int) -> bytes:
    """Return the header before the `length` bytes of a section."""
    return little_u32(identifier) + length.to_bytes(8, "little")


def as_bytes(piece: Buffer) -> bytes | memoryview:
    """Return the bytes of a piece, without a copy if memory already holds them."""
    if isinstance(piece, bytes):
        return piece
    contiguous = np.ascontiguousarray(piece, dtype=piece.dtype.newbyteorder("<"))
    # An array without elements has no flat view.
    return contiguous.reshape(-1).view(np.uint8).data if contiguous.size else b""


def little_u32(value: int) -> bytes:
    """Return `value` as a little-endian u32."""
    return value.to_bytes(4, "little")


def text_bytes(text: str) -> bytes:
    """Return an ASCII text as `SectionReader.text` reads it."""
    return little_u32(len(text)) + text.encode()
