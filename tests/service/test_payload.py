"""Job payloads round-trip, and invalid payloads are rejected."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.errors import InputError
from quod.service.payload import (
    MAX_INPUT_BYTES,
    PayloadKind,
    Section,
    open_witness,
    path_body,
    payload_header,
    read_body,
    read_header,
)
from tests.service.queue.crashing import REPOSITORY

SECRET = b"a witness that nobody may see"


def put(folder: Path, kind: PayloadKind, *bodies: bytes) -> Path:
    path = folder / "payload"
    path.write_bytes(payload_header(kind, [len(body) for body in bodies]) + b"".join(bodies))
    return path


def witness(folder: Path, body: bytes) -> bytes:
    """Read a witness as a worker does from a path."""
    with (
        put(folder, PayloadKind.PATH, body).open("rb") as file,
        open_witness(file, read_header(file, 1), 0) as (source, section),
    ):
        return read_body(source, section)


@given(st.sampled_from(PayloadKind), st.lists(st.binary(min_size=1, max_size=99), min_size=1))
def test_payloads_round_trip(kind: PayloadKind, bodies: list[bytes]) -> None:
    with open(os.memfd_create("payload"), "w+b") as file:
        file.write(payload_header(kind, [len(body) for body in bodies]) + b"".join(bodies))
        file.flush()
        header = read_header(file, len(bodies))
        assert header.kind is kind
        assert [read_body(file, section) for section in header.sections] == bodies


def test_layout_matches_the_documentation(tmp_path: Path) -> None:
    path = put(tmp_path, PayloadKind.INPUTS, b"{}", b"[ ]")
    assert path.read_bytes() == b"QUODJOB\x01" + struct.pack("<IIQQ", 3, 2, 2, 3) + b"{}[ ]"


def test_a_witness_within_the_payload(tmp_path: Path) -> None:
    with put(tmp_path, PayloadKind.WTNS, b"one", b"three").open("rb") as file:
        header = read_header(file, 2)
        with open_witness(file, header, 1) as (source, section):
            assert source is file
            assert section == Section(8 + 8 + 16 + 3, 5)
        with (
            pytest.raises(InputError, match="partition must be a whole number from 0 to 1"),
            open_witness(file, header, 2),
        ):
            pass


def test_inputs_are_not_a_witness(tmp_path: Path) -> None:
    with (
        put(tmp_path, PayloadKind.INPUTS, b"{}").open("rb") as file,
        pytest.raises(InputError, match="must be computed"),
        open_witness(file, read_header(file, 1), 0),
    ):
        pass


HEADER = payload_header(PayloadKind.WTNS, [len(SECRET)])
DAMAGED = {
    "nothing": (b"", "ends within its header"),
    "half a header": (HEADER[:11], "ends within its header"),
    "no lengths": (HEADER[:16], "ends within its header"),
    "another version": (b"QUODJOB\x02" + HEADER[8:] + SECRET, "from another version"),
    "an unknown kind": (HEADER[:8] + b"\x09" + HEADER[9:] + SECRET, "the unknown kind 9"),
    "too few bytes": (HEADER + SECRET[:-1], "has 52 bytes, and its header states 53"),
    "too many bytes": (HEADER + SECRET + b"!", "has 54 bytes, and its header states 53"),
    "an empty body": (HEADER[:16] + bytes(8), "states 0 bytes for partition 0"),
    "a huge body": (HEADER[:16] + b"\xff" * 8, f"states {(1 << 64) - 1} bytes for partition 0"),
    "of another job": (payload_header(PayloadKind.WTNS, [1, 1]) + b"ab", "for 2 partitions"),
    "huge inputs": (
        struct.pack("<8sIIQ", b"QUODJOB\x01", 3, 1, MAX_INPUT_BYTES + 1),
        f"states {MAX_INPUT_BYTES + 1} bytes for partition 0",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_payloads(tmp_path: Path, what: str) -> None:
    content, message = DAMAGED[what]
    (tmp_path / "payload").write_bytes(content)
    with (tmp_path / "payload").open("rb") as file:
        with pytest.raises(InputError, match=message) as told:
            read_header(file, 1)
        assert SECRET.decode() not in str(told.value)


def test_payload_truncated_while_read_is_rejected(tmp_path: Path) -> None:
    path = put(tmp_path, PayloadKind.WTNS, bytes(1 << 20))
    with path.open("rb") as file:
        [section] = read_header(file, 1).sections
        os.truncate(path, 1 << 19)
        with pytest.raises(InputError, match="ends within a body"):
            read_body(file, section)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([], "not 0"),
        ([1] * 1025, "1 to 1024 partitions with one witness each, not 1025"),
        ([5, 0], "the bytes of partition 1 must be a whole number from 1"),
        ([MAX_INPUT_BYTES + 1], "the bytes of partition 0"),
    ],
)
def test_lengths_that_are_refused(lengths: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        payload_header(PayloadKind.INPUTS, lengths)


class TestPaths:
    """Files of the client's, below a root."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "root"
        (root / "day").mkdir(parents=True)
        (root / "day" / "w.wtns").write_bytes(SECRET)
        (tmp_path / "outside.wtns").write_bytes(b"outside")
        return root

    def test_relative_and_absolute(self, tmp_path: Path, root: Path) -> None:
        for path in ("day/w.wtns", str(root / "day" / "w.wtns"), "day/../day/./w.wtns"):
            assert witness(tmp_path, path_body(root, path)) == SECRET

    def test_links_within_the_root_are_followed_when_it_is_submitted(
        self, tmp_path: Path, root: Path
    ) -> None:
        (root / "latest").symlink_to("day")
        (tmp_path / "link to root").symlink_to(root)
        body = path_body(tmp_path / "link to root", "latest/w.wtns")
        assert body == os.fsencode(root) + b"\0day/w.wtns"
        assert witness(tmp_path, body) == SECRET

    @pytest.mark.parametrize(
        "path",
        ["../outside.wtns", "link", "linked/outside.wtns", "day", ".", "none", "/etc/passwd",
         "pipe", "", "a\0b", None, 7, b"day/w.wtns", "\ud800", "x" * 5000],
    )  # fmt: skip
    def test_paths_outside_the_root_are_rejected(
        self, tmp_path: Path, root: Path, path: Any
    ) -> None:
        (root / "link").symlink_to(tmp_path / "outside.wtns")
        (root / "linked").symlink_to(tmp_path)
        os.mkfifo(root / "pipe")
        with pytest.raises(InputError) as told:
            path_body(root, path)
        assert "outside" not in str(told.value)
        assert "etc" not in str(told.value)

    def test_long_paths_and_link_chains_are_rejected(
        self, root: Path, request: pytest.FixtureRequest
    ) -> None:
        # The limit must not be that of Python's stack, which a program may raise.
        request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
        sys.setrecursionlimit(10**6)
        with pytest.raises(InputError, match="has more than 8192 bytes"):
            path_body(root, "./" * 5000 + "day/w.wtns")
        (root / "link0").symlink_to("day/w.wtns")
        for number in range(1500):
            (root / f"link{number + 1}").symlink_to(f"link{number}")
        with pytest.raises(InputError, match="not a file below this client's root"):
            path_body(root, "link1500")

    def test_missing_root_is_reported(self, root: Path) -> None:
        with pytest.raises(InputError, match="not a file below this client's root"):
            path_body(root / "none", "w.wtns")

    @pytest.mark.parametrize("what", ["file", "folder", "pipe", "gone"])
    def test_path_swapped_after_submission_is_rejected(
        self, tmp_path: Path, root: Path, what: str
    ) -> None:
        body = path_body(root, "day/w.wtns")
        (root / "day" / "w.wtns").unlink()
        if what == "file":
            (root / "day" / "w.wtns").symlink_to(tmp_path / "outside.wtns")
        elif what == "folder":
            (root / "day").rmdir()
            (root / "day").symlink_to(tmp_path)
            (tmp_path / "w.wtns").write_bytes(b"outside")
        elif what == "pipe":
            os.mkfifo(root / "day" / "w.wtns")
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(InputError, match="changed since the job was submitted"):
            witness(tmp_path, body)
        assert len(os.listdir("/proc/self/fd")) == before

    @pytest.mark.parametrize(
        "body", [b"x", b"/\0", b"/\0../x", b"relative\0x", b"/\0a//b", b"/\0./a", b"/tmp\0/etc/x"]
    )
    def test_invalid_paths_are_rejected(self, tmp_path: Path, body: bytes) -> None:
        with pytest.raises(InputError, match="an invalid path"):
            witness(tmp_path, body)


def test_payload_module_does_not_import_numpy() -> None:
    code = "import quod.service.payload, sys; print({'numpy', 'llvmlite'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
