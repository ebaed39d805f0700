"""Frames are read back, and hostile bytes are a FrameError."""

from __future__ import annotations

import io
import random

import pytest

from quod.resident import frames
from quod.resident.frames import FrameError, FrameReader, Request


def reader(data: bytes, chunk: int = 1 << 20) -> FrameReader:
    stream = io.BytesIO(data)
    return FrameReader(lambda count: stream.read(min(count, chunk)))


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_frames_are_read_back(chunk: int) -> None:
    data = frames.GREETING + frames.frame(frames.STDERR, b"text\0") + frames.frame(frames.ALIVE)
    source = reader(data, chunk)
    source.greet()
    assert source.read() == (frames.STDERR, b"text\0")
    assert source.read() == (frames.ALIVE, b"")
    with pytest.raises(FrameError, match="ended"):
        source.read()


def test_requests_are_read_back() -> None:
    words = ["groth16", "prove", "", "a b", "\udcff", "é"]
    request = Request(words, "/a\n", 0o27, ["version=1", "HOME="])
    decoded = Request.decode(request.encode())
    assert vars(decoded) == vars(request)


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"/", b"/\0002", b"/\00022\0x", b"/\00022\0-1\0a", b"a\00022\0000\0word",
        b"/\0007777\0000\0word", b"/\00022\0001\0onlysurroundings", b"/\00022\0" + b"9" * 5000,
    ],
)  # fmt: skip
def test_malformed_requests_are_errors(payload: bytes) -> None:
    with pytest.raises(FrameError):
        Request.decode(payload)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        frames.frame(frames.RUN, b"cut")[:-1],
        b"\xff\xff\xff\xff" + bytes([frames.RUN]),
        (frames.MAX_BYTES + 1).to_bytes(4, "little") + bytes([frames.RUN]),
        frames.frame(0),
        frames.frame(9),
    ],
)
def test_malformed_frames_are_errors(data: bytes) -> None:
    with pytest.raises(FrameError):
        reader(data).read()


@pytest.mark.parametrize("greeting", [b"", b"quod\x02", b"GET / HTTP/1.1", b"quo"])
def test_other_greetings_are_errors(greeting: bytes) -> None:
    with pytest.raises(FrameError):
        reader(greeting).greet()


def test_random_bytes_are_frames_or_errors() -> None:
    source = random.Random(1)
    for _ in range(2000):
        data = source.randbytes(source.randrange(40))
        try:
            kind, payload = reader(data).read()
        except FrameError:
            continue
        assert frames.frame(kind, payload) == data[: 5 + len(payload)]


def test_long_frames_are_not_sent() -> None:
    with pytest.raises(FrameError, match="too long"):
        frames.frame(frames.RUN, bytes(frames.MAX_BYTES + 1))
