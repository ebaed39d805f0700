"""The payload format of jobs: for each partition a witness, a witness's path, or JSON inputs.

A job of Filecoin proofs has the request of cuzk's protocol in the body of its first partition; the
other bodies are empty. A job that generates text has one body (`quod.service.generation.requests`).

The server writes payloads to the blob store, and workers read them. Numbers are little-endian:

    8 bytes   ``QUODJOB`` and the version, 1
    u32       the kind: 1 witnesses (.wtns), 2 paths, 3 inputs, 4 a request of cuzk's protocol,
              5 a prompt
    u32       n, the number of partitions
    n x u64   the length of each body in bytes
              the bodies, in the order of the partitions

A client's root is the folder below which the client may name files. A path is stored as the
resolved root, a zero byte, and the resolved path relative to the root; a worker opens it without
following links (`open_witness`). Payloads are secret, so no error shows any of their content.
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
from quod.service.queue.records import MAX_PARTITIONS
from quod.validation import file_path, whole_number

MAX_INPUT_BYTES: Final = 64 << 20
"""The maximum size of the inputs of one partition."""

MAX_PROMPT_BYTES: Final = 16 << 20
"""The maximum size of the body of a job that generates text."""

_MAGIC: Final = b"QUODJOB\x01"
_HEAD: Final = struct.Struct("<8sII")
_MAX_PATH_BYTES: Final = 8192
_MAX_WITNESS_BYTES: Final = 1 << 48
_MAX_MESSAGE_BYTES: Final = 1 << 31
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class PayloadKind(IntEnum):
    """The kind of the bodies of a payload."""

    WTNS = 1
    """Files in the .wtns format."""
    PATH = 2
    """Paths of .wtns files below the client's root."""
    INPUTS = 3
    """Circuit inputs as JSON, from which the circuit's witness calculator computes the witness."""
    VANILLA_PROOFS = 4
    """A SubmitProofRequest of cuzk's protocol, in the first body alone."""
    PROMPT = 5
    """The tokens after which a language model generates text, and options, as JSON."""


_MAX_BYTES_BY_KIND: Final = {
    PayloadKind.WTNS: _MAX_WITNESS_BYTES,
    PayloadKind.PATH: _MAX_PATH_BYTES,
    PayloadKind.INPUTS: MAX_INPUT_BYTES,
    PayloadKind.VANILLA_PROOFS: _MAX_MESSAGE_BYTES,
    PayloadKind.PROMPT: MAX_PROMPT_BYTES,
}


@frozen
class Section:
    """A byte range of a file."""

    offset: int
    length: int


@frozen
class PayloadHeader:
    """The kind of a payload, and the byte range of each partition's body."""

    kind: PayloadKind
    sections: tuple[Section, ...]


def payload_header(kind: PayloadKind, lengths: Sequence[int]) -> bytes:
    """Encode the header of a payload whose bodies have these lengths in bytes.

    Raises InputError for no lengths or too many, and for a length that is zero or too large for the
    kind.
    """
    if not 1 <= len(lengths) <= MAX_PARTITIONS:
        raise InputError(
            f"a job must have 1 to {MAX_PARTITIONS} partitions with one witness each, "
            f"not {len(lengths)}"
        )
    lengths = [
        whole_number(
            f"the bytes of partition {index}",
            length,
            _min_bytes(kind, index),
            _MAX_BYTES_BY_KIND[kind],
        )
        for index, length in enumerate(lengths)
    ]
    return _HEAD.pack(_MAGIC, kind, len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)


def _min_bytes(kind: PayloadKind, partition: int) -> int:
    return int(kind is not PayloadKind.VANILLA_PROOFS or not partition)


def read_header(file: BinaryIO, partitions: int) -> PayloadHeader:
    """Read the header of a payload and check it against the size of its file.

    Raises InputError if it is malformed or has another number of partitions.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise InputError("the payload ends within its header")
    magic, kind, count = _HEAD.unpack(head)
    if magic != _MAGIC:
        raise InputError("the payload is from another version of Quod")
    if kind not in _MAX_BYTES_BY_KIND:
        raise InputError(f"the payload has the unknown kind {kind}")
    if count != partitions:
        raise InputError(f"the payload is for {count} partitions, and the job has {partitions}")
    table = file.read(8 * count)
    if len(table) < 8 * count:
        raise InputError("the payload ends within its header")
    offset = _HEAD.size + len(table)
    sections = []
    for partition, length in enumerate(struct.unpack(f"<{count}Q", table)):
        least = _min_bytes(PayloadKind(kind), partition)
        if not least <= length <= _MAX_BYTES_BY_KIND[PayloadKind(kind)]:
            raise InputError(f"the payload states {length} bytes for partition {partition}")
        sections.append(Section(offset, length))
        offset += length
    if offset != size:
        raise InputError(f"the payload has {size} bytes, and its header states {offset}")
    return PayloadHeader(PayloadKind(kind), tuple(sections))


def read_body(file: BinaryIO, section: Section) -> bytes:
    """Read the body of a partition; raises InputError if the file is truncated."""
    file.seek(section.offset)
    body = file.read(section.length)
    if len(body) != section.length:
        raise InputError("the payload ends within a body")
    return body


def path_body(root: str | os.PathLike[str], path: object) -> bytes:
    """Encode the path of a witness, which is absolute or relative to `root`.

    Links are resolved now, and never again. Raises InputError unless the result is a file below the
    root; the error reveals nothing about files outside the root.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise InputError("the path of a witness must be text, not empty and without NUL")
    if len(path) > _MAX_PATH_BYTES:
        # Resolving a path takes time for each of its components.
        raise _too_long()
    try:
        real_root = os.path.realpath(file_path(root), strict=True)
        # `stat` fails beyond the operating system's limit of 40 links; `realpath` has no limit.
        os.stat(os.path.join(real_root, path))
        real_path = os.path.realpath(os.path.join(real_root, path), strict=True)
    except (OSError, ValueError, RecursionError):
        real_root, real_path = "/", ""
    relative = os.path.relpath(real_path, real_root) if real_path else os.pardir
    if relative.split(os.sep, 1)[0] == os.pardir or not os.path.isfile(real_path):
        raise InputError(
            "the path of the witness is not a file below this client's root; give an "
            "absolute path, or one relative to the root"
        )
    body = os.fsencode(real_root) + b"\0" + os.fsencode(relative)
    if len(body) > _MAX_PATH_BYTES:
        raise _too_long()
    return body


def _too_long() -> InputError:
    return InputError(f"the path of the witness has more than {_MAX_PATH_BYTES} bytes")


@contextmanager
def open_witness(
    file: BinaryIO, header: PayloadHeader, partition: int
) -> Iterator[tuple[BinaryIO, Section]]:
    """Open the witness of a partition: yield a file and the byte range in it.

    The file is the payload or, for a path, the client's file. Raises InputError if the payload
    holds inputs, or if the path is now missing, has become a link or is not a regular file.
    """
    section = header.sections[whole_number("the partition", partition, 0, len(header.sections) - 1)]
    if header.kind not in (PayloadKind.WTNS, PayloadKind.PATH):
        raise InputError("the payload has no witness; it must be computed")
    if header.kind is PayloadKind.WTNS:
        yield file, section
        return
    with open(_open_path(read_body(file, section)), "rb") as client_file:
        size = os.fstat(client_file.fileno()).st_size
        yield client_file, Section(0, size)


def _open_path(body: bytes) -> int:
    """Open the file of a path body without following links."""
    root, zero, relative = body.partition(b"\0")
    names = relative.split(b"/")
    if not zero or not root.startswith(b"/") or {b"", b".", b".."} & set(names):
        raise InputError("the payload has an invalid path")
    descriptor = -1
    try:
        descriptor = os.open(root, _OPEN_FLAGS | os.O_DIRECTORY)
        for index, name in enumerate(names):
            # Without O_NONBLOCK, opening a pipe would block until it has a writer.
            flags = os.O_NONBLOCK if index == len(names) - 1 else os.O_DIRECTORY
            parent, descriptor = descriptor, os.open(name, _OPEN_FLAGS | flags, dir_fd=descriptor)
            os.close(parent)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
    except OSError:
        pass
    with suppress(OSError):
        os.close(descriptor)
    raise InputError("the file of the witness has changed since the job was submitted")
