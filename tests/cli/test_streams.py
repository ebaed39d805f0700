"""Closed streams, full disks and closed pipes: the exit code reflects the work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quod.cli import entry
from quod.cli.display.terminal import note, printable, show, show_table, warn
from tests.support.thorough import one_and_others

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
ZKEY = str(EXAMPLE / "circuit.zkey")
PROOF, PUBLIC = "proof.json", "public.json"
PROVE = ["groth16", "prove", ZKEY, str(EXAMPLE / "witness.wtns"), PROOF, PUBLIC]
VERIFY = ["groth16", "verify", str(EXAMPLE / "verification_key.json"), PUBLIC, PROOF]
INSPECT = ["inspect", ZKEY]
EXPORT = ["zkey", "export", "verificationkey", ZKEY, "vkey.json"]

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a proof in it."""
    place = tmp_path_factory.mktemp("streams")
    assert run(PROVE, "", place).returncode == 0
    return place


def run(
    arguments: list[str], redirections: str, folder: Path
) -> subprocess.CompletedProcess[bytes]:
    """The command as a shell starts it with these redirections."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirections}', "sh", sys.executable, "-m", "quod", *arguments],
        cwd=folder, capture_output=True, check=False, timeout=120,
    )  # fmt: skip


COMMANDS: list[tuple[list[str], int]] = [
    (PROVE, 0),
    (VERIFY, 0),
    (INSPECT, 0),
    (EXPORT, 0),
    (["--version"], 0),
    (["--help"], 0),
    (["inspect", "missing"], 3),
    (["groth16", "prove"], 2),
]
CLOSED = ["<&- >&- 2>&-", "<&-", ">&-", "2>&-"]
ERROR = (["inspect", "missing"], CLOSED[0])
THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    ("arguments", "code", "closed"),
    [
        # Each stream alone and all of them for a proof, and all of them for an error.
        pytest.param(
            arguments, code, closed,
            marks=[] if arguments is PROVE or (arguments, closed) == ERROR else THOROUGH,
            id=f"{' '.join(arguments[:2])} {closed}",
        )
        for arguments, code in COMMANDS
        for closed in CLOSED
    ],
)  # fmt: skip
def test_commands_run_with_closed_streams(
    arguments: list[str], code: int, closed: str, folder: Path
) -> None:
    done = run(arguments, closed, folder)
    assert done.returncode == code
    assert b"internal error" not in done.stderr
    if arguments is PROVE:
        # No remark was written into a file that took the number of a closed stream.
        assert (folder / PROOF).read_bytes()[:1] == b"{"
        assert (folder / PUBLIC).read_bytes()[:1] == b"["


@needs_full
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (PROVE, 0),
        pytest.param(VERIFY, 0, marks=pytest.mark.thorough),
        (INSPECT, 5),
        pytest.param([*INSPECT, "--json"], 5, marks=pytest.mark.thorough),
        pytest.param(["--version"], 5, marks=pytest.mark.thorough),
        (["kernel", "--help"], 5),
        pytest.param(["kernel", "emit", "examples.saxpy"], 5, marks=pytest.mark.thorough),
        (["inspect", "missing"], 3),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else str(value),
)
def test_full_disk_on_stdout_is_reported(arguments: list[str], code: int, folder: Path) -> None:
    done = run(arguments, ">/dev/full", folder)
    assert done.returncode == code
    assert done.stderr.count(b"\n") <= 1
    if code == 5:
        assert b"quod: error: standard output could not be written (No space left" in done.stderr


@needs_full
@pytest.mark.parametrize(
    "arguments", one_and_others([PROVE, VERIFY, INSPECT]), ids=["prove", "verify", "inspect"]
)
def test_unwritable_messages_are_dropped(arguments: list[str], folder: Path) -> None:
    assert run(arguments, "2>/dev/full", folder).returncode == 0


def test_valid_proof_exits_0_with_a_closed_pipe(folder: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", '("$@"; echo $? >code) | true', "sh", sys.executable, "-m", "quod", *VERIFY],
        cwd=folder, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert (folder / "code").read_text() == "0\n"


# --- what gives a terminal commands

NASTY = "a\x1b[31m\x07\x9b\r\u202eb\udcff.zkey"
ESCAPED = "a\\x1b[31m\\x07\\x9b\\r\\u202eb\\udcff.zkey"


def test_output_pipe_closed_by_its_reader(folder: Path) -> None:
    """The error is reported like that of any other output."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "quod", *EXPORT[:-1], "/dev/stdout"],
        cwd=folder, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120,
    )  # fmt: skip
    os.close(writing)
    assert done.returncode == 141
    assert b"(Broken pipe); the reader has closed it" in done.stderr


def test_control_characters_are_escaped_once() -> None:
    assert printable(NASTY) == ESCAPED
    assert printable(ESCAPED) == ESCAPED
    assert printable("lines\n\tand ×, σ, 界, [bold]") == "lines\n\tand ×, σ, 界, [bold]"


def test_all_printed_text_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    show(NASTY)
    note(NASTY)
    warn(NASTY)
    show_table(("[bold]name",), [(NASTY,)], title="[red]\x1b")
    assert entry.run(["inspect", NASTY]) == 3
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\udcff" not in text
    assert captured.out.count(ESCAPED) == 2
    assert captured.err.count(ESCAPED) == 2
    # Nor is anything taken for the markup of tables.
    assert "[red]\\x1b" in captured.out
    assert "[bold]name" in captured.out
