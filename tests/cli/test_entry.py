"""Every way a command can end has its exit code and one line on standard error."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quod import __version__, errors
from quod.cli import app as app_module
from quod.cli import entry

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "cli.md"


def raising(error: BaseException) -> object:
    def command(**_: object) -> None:
        raise error

    return command


ENDS = [
    (errors.QuodError("went wrong"), 1, "quod: error: went wrong"),
    (errors.InputError("bad", path="a.zkey", section="2", offset=9), 3, "a.zkey, section 2"),
    (errors.MismatchError("of another circuit"), 4, "of another circuit"),
    (errors.OutputError("disk full"), 5, "disk full"),
    (errors.VerificationError("not valid"), 6, "not valid"),
    (errors.DeviceError("no such device"), 7, "no such device"),
    (errors.KernelError("line 3"), 8, "line 3"),
    (errors.InsecureKeyError("anyone can forge"), 9, "anyone can forge"),
    (errors.ServiceError("no such job"), 10, "no such job"),
    (errors.TryAgainError("the queue is full", retry_seconds=5), 11, "the queue is full"),
    (MemoryError(), 7, "out of memory"),
    (KeyboardInterrupt(), 130, "quod: interrupted"),
    (ZeroDivisionError("surprise\nof two lines"), 70, "ZeroDivisionError: surprise of two lines"),
]


@pytest.mark.parametrize(("error", "code", "text"), ENDS, ids=lambda value: str(value)[:20])
def test_an_error_is_one_line_and_a_code(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("QUOD_TRACEBACK", raising=False)
    monkeypatch.setattr(app_module, "app", raising(error))
    assert entry.run(["devices"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


def test_traceback_is_shown_if_requested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app_module, "app", raising(ZeroDivisionError("surprise")))
    monkeypatch.setenv("QUOD_TRACEBACK", "1")
    assert entry.run(["devices"]) == 70
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("QUOD_TRACEBACK", "0")
    assert entry.run(["devices"]) == 70
    assert "Traceback" not in capsys.readouterr().err


def test_every_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \|", DOCUMENTED.read_text(), re.MULTILINE)
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.QuodError)
    ]
    used = {value.exit_code for value in classes} | {0, 2, 70, 129, 130, 141, 143}
    assert {int(row) for row in rows} == used
    assert len({value.exit_code for value in classes}) == len(classes)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["groth16"],
        ["zkey", "export"],
        ["groth16", "prove"],
        ["groth16", "prove", "a", "b", "c", "d", "e"],
        ["groth16", "prove", "a", "b", "c", "d", "--seed", "x"],
        ["no-such-command"],
        ["zkey", "export", "r1cs", "a", "b"],
        ["kernel", "emit", "add", "--target", "c"],
        ["devices", "--no-such-option"],
    ],
)
def test_usage_errors_exit_with_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(arguments) == 2
    captured = capsys.readouterr()
    assert "Usage: quod" in captured.err + captured.out


@pytest.mark.parametrize(
    "group",
    [[], ["groth16"], ["zkey"], ["zkey", "export"], ["kernel"], ["bench"], ["groth16", "prove"]],
)
def test_help_is_available(group: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run([*group, "--help"]) == 0
    assert "Usage: quod" in capsys.readouterr().out
    assert entry.run([*group, "-h"]) == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["--version"]) == 0
    assert capsys.readouterr().out == f"quod {__version__}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["inspect", str(EXAMPLE / "circuit.zkey")]])
def test_closed_stdout_pipe_is_not_an_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "quod", *arguments],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (entry.EXIT_BROKEN_PIPE, b"")


def test_a_terminated_command_ends_as_if_interrupted(tmp_path: Path) -> None:
    marker = tmp_path / "cleaned"
    script = (
        "import sys, time, pathlib\n"
        "from quod.cli import main\n"
        "def work(**_):\n"
        "    try:\n"
        "        print('working', flush=True)\n"
        "        time.sleep(60)\n"
        "    finally:\n"
        f"        pathlib.Path({str(marker)!r}).touch()\n"
        "import quod.cli.app\n"
        "quod.cli.app.app = work\n"
        "main(['devices'])\n"
    )
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"working\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == code
        assert b"Traceback" not in err
        assert marker.exists()
        marker.unlink()


@pytest.mark.parametrize("module", ["quod.cli.entry", "quod.cli.guard", "quod.cli.app"])
def test_ctrl_c_while_modules_load_is_one_line(module: str) -> None:
    script = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from quod.cli import main\n"
        "main(['devices'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert done.returncode == 130
    assert done.stdout == b""
    assert done.stderr.startswith(b"quod: interrupted")
    assert done.stderr.count(b"\n") == 1


def test_ignored_sighup_stays_ignored() -> None:
    script = "from quod.cli import main; import signal; import quod.cli.app as a\n"
    script += "a.app = lambda **_: print(signal.getsignal(signal.SIGHUP).name)\nmain(['devices'])"
    done = subprocess.run(
        ["nohup", sys.executable, "-c", script], capture_output=True, timeout=60, text=True
    )
    assert done.stdout == "SIG_IGN\n"
