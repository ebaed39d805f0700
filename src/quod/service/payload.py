"""What a job's payload holds: for each partition a witness, a path to one, or inputs as JSON.

A server writes it to the spool, a worker reads it. All of it is little-endian:

    8 bytes   ``QUODJOB`` and the version, 1
    u32       the kind: 1 witnesses (.wtns), 2 paths, 3 inputs
    u32       n, the number of partitions
    n x u64   the bytes of each body
              the bodies, in the order of the partitions

A path is kept as the real path of the client's root, a zero byte, and the path from there, with no
link in it: a worker that opens it follows none (`open_witness`). Payloads are secrets, so that no
error shows anything of them.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import BinaryIO, Final

from quod.errors import InputError
from quod.frozen import frozen
from quod.service.queue.records import MOST_PARTITIONS
from quod.validation import file_path, whole_number

MOST_INPUT_BYTES: Final = 64 << 20
"""Of the inputs of one partition."""

_MAGIC: Final = b"QUODJOB\x01"
_HEAD: Final = struct.Struct("<8sII")
_MOST_PATH_BYTES: Final = 8192
_MOST_BYTES: Final = 1 << 48
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class PayloadKind(IntEnum):
    """What the bodies of a payload are."""

    WTNS = 1
    """Files of the format .wtns."""
    PATH = 2
    """Where such files are, below a root of the client's."""
    INPUTS = 3
    """Inputs of the circuit as JSON, from which its own program computes the witness."""


_MOST_OF_KIND: Final = {
    PayloadKind.WTNS: _MOST_BYTES,
    PayloadKind.PATH: _MOST_PATH_BYTES,
    PayloadKind.INPUTS: MOST_INPUT_BYTES,
}


@frozen
class Section:
    """Bytes of a file: where they begin and how many they are."""

    offset: int
    length: int


@frozen
class PayloadHeader:
    """The kind of a payload and where the body of each partition is."""

    kind: PayloadKind
    sections: tuple[Section, ...]


def payload_header(kind: PayloadKind, lengths: Sequence[int]) -> bytes:
    """What comes before the bodies, whose bytes are `lengths`: one for each partition.

    `InputError` for none or too many of them, and for one that is empty or too long for its kind.
    """
    if not 1 <= len(lengths) <= MOST_PARTITIONS:
        raise InputError(
            f"a job has 1 to {MOST_PARTITIONS} partitions with a witness each, not {len(lengths)}"
        )
    lengths = [
        whole_number(f"the bytes of partition {number}", length, 1, _MOST_OF_KIND[kind])
        for number, length in enumerate(lengths)
    ]
    return _HEAD.pack(_MAGIC, kind, len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)


def read_header(file: BinaryIO, partitions: int) -> PayloadHeader:
    """The header of a payload for that many partitions, checked against the length of its file.

    `InputError` for anything that `payload_header` and bodies of these lengths are not.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise InputError("the payload is cut short in its header")
    magic, kind, count = _HEAD.unpack(head)
    if magic != _MAGIC:
        raise InputError("the payload is none of this version of Quod")
    if kind not in _MOST_OF_KIND:
        raise InputError(f"the payload is of a kind that is not known, {kind}")
    if count != partitions:
        raise InputError(f"the payload is for {count} partitions, and the job has {partitions}")
    table = file.read(8 * count)
    if len(table) < 8 * count:
        raise InputError("the payload is cut short in its header")
    offset = _HEAD.size + len(table)
    sections = []
    for number, length in enumerate(struct.unpack(f"<{count}Q", table)):
        if not 1 <= length <= _MOST_OF_KIND[PayloadKind(kind)]:
            raise InputError(f"the payload says that partition {number} has {length} bytes")
        sections.append(Section(offset, length))
        offset += length
    if offset != size:
        raise InputError(f"the payload has {size} bytes, and its header tells of {offset}")
    return PayloadHeader(PayloadKind(kind), tuple(sections))


def read_body(file: BinaryIO, section: Section) -> bytes:
    """The body of a partition; `InputError` if it is not there whole."""
    file.seek(section.offset)
    body = file.read(section.length)
    if len(body) != section.length:
        raise InputError("the payload is cut short in a body")
    return body


def path_body(root: str | os.PathLike[str], path: object) -> bytes:
    """The body for a witness at `path`, absolute or from `root` on, which must be below `root`.

    Links are followed here, once, and must not lead out of the root. `InputError` where there is no
    such file, which does not tell what else there is outside.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise InputError("the path of a witness must be text, not empty and without NUL")
    if len(path) > _MOST_PATH_BYTES:
        # Each step of a path is looked at, and the longer the path is the longer that takes.
        raise _too_long()
    try:
        real_root = os.path.realpath(file_path(root), strict=True)
        # The operating system follows 40 links at most; `realpath` has no limit of its own.
        os.stat(os.path.join(real_root, path))
        real = os.path.realpath(os.path.join(real_root, path), strict=True)
    except (OSError, ValueError, RecursionError):
        real_root, real = "/", ""
    relative = os.path.relpath(real, real_root) if real else os.pardir
    if relative.split(os.sep, 1)[0] == os.pardir or not os.path.isfile(real):
        raise InputError(
            "the path of the witness is no file below the root of this client; give an absolute "
            "path, or one that begins there"
        )
    body = os.fsencode(real_root) + b"\0" + os.fsencode(relative)
    if len(body) > _MOST_PATH_BYTES:
        raise _too_long()
    return body


def _too_long() -> InputError:
    return InputError(f"the path of the witness is longer than {_MOST_PATH_BYTES} bytes")


@contextmanager
def open_witness(
    file: BinaryIO, header: PayloadHeader, partition: int
) -> Iterator[tuple[BinaryIO, Section]]:
    """The file that has the witness of a partition, and where in it: the payload's or the client's.

    `InputError` if the payload holds inputs instead, and if what the path was when the job was
    submitted is not there, not a plain file, or leads over a link now.
    """
    section = header.sections[whole_number("the partition", partition, 0, len(header.sections) - 1)]
    if header.kind is PayloadKind.INPUTS:
        raise InputError("the payload holds inputs, of which the witness must be computed")
    if header.kind is PayloadKind.WTNS:
        yield file, section
        return
    with open(_open_path(read_body(file, section)), "rb") as found:
        size = os.fstat(found.fileno()).st_size
        yield found, Section(0, size)


def _open_path(body: bytes) -> int:
    """A descriptor of the file that `path_body` found, if no link is on the way to it."""
    root, zero, relative = body.partition(b"\0")
    names = relative.split(b"/")
    if not zero or not root.startswith(b"/") or {b"", b".", b".."} & set(names):
        raise InputError("the payload has a path that is none")
    descriptor = -1
    try:
        descriptor = os.open(root, _OPEN | os.O_DIRECTORY)
        for at, name in enumerate(names):
            # A pipe would wait for who writes to it.
            last = os.O_NONBLOCK if at == len(names) - 1 else os.O_DIRECTORY
            outer, descriptor = descriptor, os.open(name, _OPEN | last, dir_fd=descriptor)
            os.close(outer)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
    except OSError:
        pass
    with suppress(OSError):
        os.close(descriptor)
    raise InputError("the file of the witness is not what it was when the job was submitted")
