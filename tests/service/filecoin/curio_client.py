"""A client of cuzk's protocol that knows field numbers only, as Curio's behaves."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import grpc

SECONDS = 300
POREP, SNAP, WINDOW, WINNING = 1, 2, 3, 4
COMPLETED, FAILED, CANCELLED, TIMEOUT = 1, 2, 3, 4

Fields = dict[int, Any]


def encoded(fields: Fields) -> bytes:
    """Encode a message: numbers, bytes, text, messages as dicts, and lists of these."""
    out = b""
    for number, value in fields.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, int):
                out += _varint(number << 3) + _varint(each)
                continue
            data = encoded(each) if isinstance(each, dict) else each
            data = data.encode() if isinstance(data, str) else data
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def decoded(data: bytes) -> defaultdict[int, list[Any]]:
    """Decode a message to the values of each field: numbers and bytes."""
    fields: defaultdict[int, list[Any]] = defaultdict(list)
    offset = 0
    while offset < len(data):
        key, offset = _read_varint(data, offset)
        value, offset = _read_varint(data, offset)
        if key & 7 == 2:
            offset += value
            fields[key >> 3].append(data[offset - value : offset])
        else:
            fields[key >> 3].append(value)
    return fields


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, offset


class CurioClient:
    """Calls of cuzk.v1.ProvingEngine on an insecure channel with a limit of 256 MiB."""

    def __init__(self, address: str) -> None:
        limits = [("grpc.max_send_message_length", 256 << 20)]
        limits.append(("grpc.max_receive_message_length", 256 << 20))
        self.channel = grpc.insecure_channel(address, options=limits)

    def call(self, name: str, request: Fields | bytes = b"", **options: Any) -> Any:
        """Start a call; return its future, whose result is bytes."""
        method = self.channel.unary_unary(f"/cuzk.v1.ProvingEngine/{name}")
        data = encoded(request) if isinstance(request, dict) else request
        return method.future(data, timeout=SECONDS, **options)

    def ask(self, name: str, request: Fields | bytes = b"") -> defaultdict[int, list[Any]]:
        """Call and return the decoded answer."""
        return decoded(self.call(name, request).result())

    def prove(self, submit: Fields) -> defaultdict[int, list[Any]]:
        """Return the AwaitProofResponse of Prove."""
        [result] = self.ask("Prove", {1: submit})[1]
        return decoded(result)

    def submit(self, submit: Fields) -> str:
        """Submit a job; return its id."""
        [job] = self.ask("SubmitProof", submit)[1]
        return str(job, "ascii")

    def await_proof(self, job: str) -> defaultdict[int, list[Any]]:
        return self.ask("AwaitProof", {1: job})

    def unfinished(self) -> int:
        """Return the number of pending and running jobs, as Curio computes it for backpressure."""
        queues = [decoded(each) for each in self.ask("GetStatus")[3]]
        return sum(sum(queue[2]) + sum(queue[3]) for queue in queues)

    def idle_status(self) -> defaultdict[int, list[Any]]:
        """Return the GetStatusResponse once the device has no job."""
        deadline = time.monotonic() + SECONDS
        while decoded((status := self.ask("GetStatus"))[1][0])[5]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return status

    def close(self) -> None:
        self.channel.close()
