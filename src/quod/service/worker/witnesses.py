"""A partition's witness, from the payload of its job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from quod.errors import InputError, MismatchError
from quod.formats import Witness
from quod.formats.iden3 import Iden3File
from quod.formats.source import Bytes, FileView
from quod.formats.wtns import KIND, VERSION, WitnessHeader
from quod.service.payload import PayloadKind, Section, open_witness, read_body, read_header
from quod.service.queue import Lease
from quod.service.worker.buffers import HEADER_BYTES
from quod.service.worker.buffers import Bytes as HostBytes

NAME = "the witness"
"""In messages, in place of the file that a client names."""

Calculate = Callable[[str, bytes], bytes]
"""The .wtns file of a key, by identity, from inputs as JSON."""


def witness_of(
    file: BinaryIO, lease: Lease, calculate: Calculate, most: int,
    buffer: HostBytes | None = None, client_bytes: Any = None,
) -> Witness:  # fmt: skip
    """The witness of a lease, checked, in memory of its own. Raises `InputError`.

    A file is read into `buffer` where it is not too long, and refused if it is longer than `most`
    bytes: a client may have written to it since. `client_bytes` is a hash of hashlib that is
    updated with what is read of a file that the client names.
    """
    header = read_header(file, lease.partitions)
    if header.kind is PayloadKind.INPUTS:
        inputs = read_body(file, header.sections[lease.partition])
        return _parsed(memoryview(calculate(lease.key, inputs)))
    with open_witness(file, header, lease.partition) as (found, section):
        if section.length > most:
            raise MismatchError(
                f"has {section.length} bytes, and a witness of this key has at most {most}",
                path=NAME,
            )
        data = _read(found, section, buffer)
    if client_bytes is not None and header.kind is PayloadKind.PATH:
        client_bytes.update(data)
    return _parsed(data)


def _read(file: BinaryIO, section: Section, buffer: HostBytes | None) -> memoryview:
    if buffer is None or len(buffer) < section.length:
        buffer = np.empty(section.length, np.uint8)
    own = buffer[: section.length].data
    file.seek(section.offset)
    if file.readinto(own) != len(own):  # type: ignore[attr-defined]
        raise InputError("is cut short", path=NAME)
    return own.toreadonly()


def _parsed(data: memoryview) -> Witness:
    return Witness.of(_container(data))


def _container(data: Bytes) -> Iden3File:
    if bytes(data[: len(KIND)]) != KIND.encode():
        raise InputError("is not a wtns file", path=NAME)
    return Iden3File.parse(data, NAME, KIND, VERSION)


def witness_bytes(file: BinaryIO, lease: Lease, variables: int, element: int) -> tuple[int, int]:
    """The memory that a witness takes, and the bytes that its file may have, 0 if it is computed.

    Both follow from the variables of the circuit: what the file of a client is now says nothing of
    what it will be when it is read. Raises `InputError` for a file that is no witness, and
    `MismatchError` for one of other than so many values, before any value is read.
    """
    header = read_header(file, lease.partitions)
    whole = variables * element + HEADER_BYTES
    if header.kind is PayloadKind.INPUTS:
        return whole + header.sections[lease.partition].length, 0
    with open_witness(file, header, lease.partition) as (found, section):
        view = FileView(NAME, found, section.length, section.offset)
        count = len(WitnessHeader.of(_container(view)))
        if count != variables:
            raise MismatchError(
                f"has {count} values and the key is for {variables}; use the witness and the key "
                "of one circuit",
                path=NAME,
            )
    return whole, whole
