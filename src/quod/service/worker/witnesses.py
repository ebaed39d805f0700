"""Reading of a partition's witness from the payload of its job."""

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
"""The name of a witness in messages, instead of the client's file name."""

Calculate = Callable[[str, bytes], bytes]
"""A function from a key's identity and inputs as JSON to a .wtns file."""


def witness_of(
    file: BinaryIO, lease: Lease, calculate: Calculate, most: int,
    buffer: HostBytes | None = None, client_bytes: Any = None,
) -> Witness:  # fmt: skip
    """Read or compute the witness of a lease and validate it. Raises InputError.

    buffer: filled with a file that fits; otherwise memory is allocated.
    most: the maximum size of the file, which a client may have changed since it was checked.
    client_bytes: a hashlib object, updated with the content of a file that the client named.
    """
    header = read_header(file, lease.partitions)
    if header.kind is PayloadKind.INPUTS:
        inputs = read_body(file, header.sections[lease.partition])
        return _parse(memoryview(calculate(lease.key, inputs)))
    with open_witness(file, header, lease.partition) as (witness_file, section):
        if section.length > most:
            raise MismatchError(
                f"has {section.length} bytes, and a witness of this key at most {most}; use the "
                "witness and the key of one circuit",
                path=NAME,
            )
        data = _read(witness_file, section, buffer)
    if client_bytes is not None and header.kind is PayloadKind.PATH:
        client_bytes.update(data)
    return _parse(data)


def _read(file: BinaryIO, section: Section, buffer: HostBytes | None) -> memoryview:
    if buffer is None or len(buffer) < section.length:
        buffer = np.empty(section.length, np.uint8)
    data = buffer[: section.length].data
    file.seek(section.offset)
    if file.readinto(data) != len(data):  # type: ignore[attr-defined]
        raise InputError("is cut short; submit it again", path=NAME)
    return data.toreadonly()


def _parse(data: memoryview) -> Witness:
    return Witness.of(_container(data))


def _container(data: Bytes) -> Iden3File:
    if bytes(data[: len(KIND)]) != KIND.encode():
        raise InputError("is not a wtns file; submit one that circom or Quod wrote", path=NAME)
    return Iden3File.parse(data, NAME, KIND, VERSION)


def witness_bytes(file: BinaryIO, lease: Lease, variables: int, element: int) -> tuple[int, int]:
    """Return the memory of a witness and the maximum size of its file, 0 if it is computed.

    Both follow from the number of variables, as a client's file may change before it is read.
    Raises InputError for a malformed file and MismatchError for another number of values, before
    reading any value.
    """
    header = read_header(file, lease.partitions)
    nbytes = variables * element + HEADER_BYTES
    if header.kind is PayloadKind.INPUTS:
        return nbytes + header.sections[lease.partition].length, 0
    with open_witness(file, header, lease.partition) as (witness_file, section):
        view = FileView(NAME, witness_file, section.length, section.offset)
        count = len(WitnessHeader.of(_container(view)))
        if count != variables:
            raise MismatchError(
                f"has {count} values and the key is for {variables}; use the witness and the key "
                "of one circuit",
                path=NAME,
            )
    return nbytes, nbytes
