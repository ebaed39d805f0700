"""Commands with a helper have the results, messages and exit codes of their own processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quod.resident import client, frames, listener
from quod.resident.runtime_folder import connect, open_folder
from tests.resident.conftest import Folder, end_process, is_alive
from tests.support.thorough import one_and_others

FILES = ("circuit.zkey", "witness.wtns", "proof.json", "public.json")


def prove_words(*options: str) -> list[str]:
    return ["groth16", "prove", *FILES, "--seed", "1", *options]


def connection() -> socket.socket:
    """A raw connection to the helper."""
    raw = connect(open_folder(create=False), 10.0)
    connected = socket.socket(fileno=raw.detach())
    connected.settimeout(10.0)
    return connected


def test_results_equal_those_without_a_helper(folder: Folder) -> None:
    cold = folder.prove("--no-resident")
    outputs = folder.outputs
    assert cold[0] == 0
    assert folder.status() == ""
    for _ in range(3):
        assert folder.prove() == cold
        assert folder.outputs == outputs
    assert "commands: 3" in folder.status()
    assert f"{folder.path}/circuit.zkey: on cpu" in folder.status()
    assert folder.prove(env=os.environ | {"QUOD_RESIDENT": "1"}) == cold
    # Only the outputs are left, with the mode that the umask allows.
    assert {file.name for file in folder.path.iterdir()} == {
        "circuit.zkey", "witness.wtns", "verification_key.json", "run", "proof.json", "public.json"
    }  # fmt: skip


def test_errors_equal_those_without_a_helper(folder: Folder) -> None:
    (folder.path / "damaged.zkey").write_bytes(b"zkey" + bytes(100))
    (folder.path / "damaged.wtns").write_bytes(b"wtns" + bytes(100))
    folder.prove()
    other = folder.path / "other"
    other.mkdir()
    zkey, witness, proof, public = FILES
    vkey = "verification_key.json"
    for words in (
        ["prove", "damaged.zkey", witness, "a", "b"],
        ["prove", zkey, "damaged.wtns", "a", "b"],
        ["prove", "none.zkey", witness, "a", "b"],
        ["prove", zkey, "none.wtns", "a", "b"],
        ["prove", zkey, witness, "none/a", "b"],
        ["prove", zkey, witness, "a", "a"],
        ["prove", zkey, witness, "other", "b"],
        ["prove", zkey, witness, "a", "b", "--device", "none"],
        ["prove", zkey, witness, "a", "b", "--seed", "x"],
        ["prove", zkey, witness, "a"],
        ["prove", os.path.abspath(folder.path / zkey), "damaged.wtns", "a", "b"],
        ["prove", "--help"],
        ["verify", vkey, public, proof],
        ["verify", vkey, public, proof, "--quiet"],
        ["verify", vkey, proof, public],
        ["verify", vkey, public, zkey],
        ["verify", zkey, public, proof, "--batch"],
    ):
        without = folder.run_here("groth16", *words)
        code, stdout, stderr = folder.run("groth16", *words, "--resident")
        lines = stderr.splitlines()
        if "none" in words[-1:]:
            # A failure of a device may be the helper's own: the command tries without it.
            assert re.match("quod: warning: the resident helper could not run", lines.pop(0))
        assert (code, stdout, "\n".join(lines)) == without, words
    assert folder.status()


@pytest.mark.thorough
def test_outputs_to_descriptors_and_pipes_come_from_the_own_process(folder: Folder) -> None:
    code, stdout, _ = folder.run(
        "groth16", "prove", *FILES[:2], "/dev/stdout", "public.json", "--resident", "-q"
    )
    assert code == 0
    assert '"protocol"' in stdout
    with open(folder.path / "redirected", "w") as file:
        process = folder.start(
            "groth16", "verify", "verification_key.json", "public.json", "/dev/stdin",
            "--resident", stdin=subprocess.PIPE,
        )  # fmt: skip
        out, _ = process.communicate(stdout, timeout=300)
        assert (process.returncode, out) == (0, "OK: the proof is valid.\n")
        os.symlink("/dev/stdout", folder.path / "link")
        words = [sys.executable, "-m", "quod", "groth16", "prove", *FILES[:2], "link",
                 "public.json", "--resident", "-q"]  # fmt: skip
        subprocess.run(words, cwd=folder.path, stdout=file, check=True)
    assert '"protocol"' in (folder.path / "redirected").read_text()
    assert "commands: 0" in folder.status()


@pytest.mark.thorough
def test_the_clients_umask_and_folder_hold(folder: Folder) -> None:
    folder.prove(preexec_fn=lambda: os.umask(0o077))
    assert stat.S_IMODE((folder.path / "proof.json").stat().st_mode) == 0o600
    folder.outputs  # noqa: B018
    folder.prove(preexec_fn=lambda: os.umask(0o022))
    assert stat.S_IMODE((folder.path / "proof.json").stat().st_mode) == 0o644


def test_a_replaced_key_is_opened_again(folder: Folder) -> None:
    folder.prove()
    before = folder.outputs
    zkey = folder.path / "circuit.zkey"
    good = zkey.read_bytes()
    # Another key of the same size: its proofs differ, or it is refused.
    (folder.path / "new").write_bytes(good[:-200] + bytes(100) + good[-100:])
    os.replace(folder.path / "new", zkey)
    assert folder.prove() == folder.run_here(*prove_words())
    # In place, and with the times of the former file.
    status = zkey.stat()
    zkey.write_bytes(good[: len(good) // 2])
    os.utime(zkey, ns=(status.st_atime_ns, status.st_mtime_ns))
    code, _, stderr = folder.prove()
    assert code == 3
    assert "truncated" in stderr
    zkey.write_bytes(good)
    assert folder.prove()[0] == 0
    assert folder.outputs == before
    assert folder.status().count("circuit.zkey") == 1


def test_two_commands_at_once_share_one_helper(folder: Folder) -> None:
    cold = folder.run_here(*prove_words())
    outputs = folder.outputs
    started = [folder.start(*prove_words("--resident")) for _ in range(4)]
    for process in started:
        _, stderr = process.communicate(timeout=300)
        assert process.returncode == 0
        assert "warning: the resident" not in stderr
    assert folder.outputs == outputs
    assert "commands: 4" in folder.status()
    assert cold[0] == 0


@pytest.mark.parametrize(
    "number",
    one_and_others([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], always=[signal.SIGKILL]),
)
def test_the_command_finishes_without_a_helper_that_ends(
    number: signal.Signals, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = folder.prove()
    outputs = folder.outputs
    helper = folder.helper()
    # The command waits for the helper, which cannot answer.
    os.kill(helper, signal.SIGSTOP)
    script = (
        "from quod.resident import client; client.HANG_SECONDS = 2.0\n"
        f"from quod.cli import main; main({prove_words('--resident')})"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", script], cwd=folder.path, stderr=subprocess.PIPE, text=True
    )
    time.sleep(0.5)
    if number != signal.SIGSTOP:
        os.kill(helper, number)
        os.kill(helper, signal.SIGCONT)
    _, stderr = command.communicate(timeout=300)
    with contextlib.suppress(ProcessLookupError):
        os.kill(helper, signal.SIGKILL)
    warnings = [line for line in stderr.splitlines() if "the resident helper" in line]
    assert command.returncode == cold[0] == 0
    assert folder.outputs == outputs
    # A helper that ends in order asks the client to go on without it.
    assert len(warnings) <= 1
    assert warnings or number == signal.SIGTERM
    # The next command starts another helper.
    assert folder.prove() == cold
    assert folder.helper() != helper


def test_a_helper_of_other_surroundings_is_one_warning(folder: Folder) -> None:
    cold = folder.prove()
    code, stdout, stderr = folder.prove(env=os.environ | {"CUDA_VISIBLE_DEVICES": "7"})
    first, _, remaining_text = stderr.partition("\n")
    assert "was started in other surroundings (CUDA_VISIBLE_DEVICES)" in first
    assert (code, stdout, remaining_text) == cold


def test_hostile_frames_do_not_end_the_helper(folder: Folder) -> None:
    folder.prove()
    helper = folder.helper()
    request = frames.Request(prove_words(), "/", 0o22, ["version=0"]).encode()
    for data in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"quod\x02",
        frames.GREETING,
        frames.GREETING + b"\xff" * 100,
        frames.GREETING + frames.frame(frames.RUN, b"\0" * 100),
        frames.GREETING + frames.frame(frames.RUN, request)[:-3],
        frames.GREETING + frames.frame(frames.RUN, request) * 3,
        frames.GREETING + frames.frame(frames.ENDED, b"\0"),
        frames.GREETING + frames.frame(frames.RUN, request),
    ):
        with connection() as hostile:
            hostile.sendall(data)
            hostile.shutdown(socket.SHUT_WR)
            while hostile.recv(4096):
                pass
    # Many that send nothing, more than are served at once.
    silent = [connection() for _ in range(50)]
    assert folder.helper() == helper
    assert folder.prove()[0] == 0
    for waiting in silent:
        waiting.close()
    assert folder.helper() == helper


@pytest.mark.thorough
@pytest.mark.parametrize("number", one_and_others([signal.SIGINT, signal.SIGTERM]))
def test_an_interrupted_command_leaves_no_file(number: signal.Signals, folder: Folder) -> None:
    folder.prove()
    folder.outputs  # noqa: B018
    helper = folder.helper()
    os.kill(helper, signal.SIGSTOP)
    command = folder.start(*prove_words("--resident"))
    time.sleep(1.0)
    command.send_signal(number)
    time.sleep(0.2)
    os.kill(helper, signal.SIGCONT)
    _, stderr = command.communicate(timeout=300)
    assert command.returncode == 128 + number
    assert stderr.startswith("quod: interrupted")
    assert not (folder.path / "proof.json").exists()
    # The next command has a helper, this one or another.
    assert folder.prove()[0] == 0
    assert folder.status()


def test_stop_and_status(folder: Folder) -> None:
    assert folder.run_here("resident", "status") == (0, "No resident helper runs.\n", "")
    assert folder.run_here("resident", "stop") == (0, "", "No resident helper runs.")
    folder.prove()
    code, stdout, _ = folder.run("resident", "status")
    assert code == 0
    assert "commands: 1" in stdout
    helper = folder.helper()
    assert folder.run_here("resident", "stop") == (0, "", "The resident helper ends.")
    end_process(helper)
    assert not is_alive(helper)
    assert folder.run_here("resident", "status")[1] == "No resident helper runs.\n"
    (folder.runtime / "helper.socket").write_text("no socket")
    code, _, stderr = folder.run_here("resident", "status")
    assert code == 1
    assert "cannot be used (its socket is not" in stderr


@pytest.mark.thorough
def test_an_idle_helper_ends(folder: Folder) -> None:
    handle = open_folder(create=True)
    with listener.locked(handle):
        listening = listener.listen(handle)
    words = [sys.executable, "-P", "-m", "quod.resident", str(listening.fileno()), "1.5"]
    helper = subprocess.Popen(words, pass_fds=[listening.fileno()], cwd="/")
    listening.close()
    assert folder.prove()[0] == 0
    assert folder.helper() == helper.pid
    # Questions are no commands.
    for _ in range(4):
        time.sleep(0.3)
        client.ask(frames.STATUS)
    assert helper.wait(timeout=10) == 0
    assert not (folder.runtime / "helper.socket").exists()
    assert client.ask(frames.STATUS) is None


def test_the_helper_has_nothing_of_its_client(folder: Folder) -> None:
    reading, writing = os.pipe()
    folder.prove(pass_fds=[writing])
    os.close(writing)
    # A helper with the descriptor would keep the pipe open.
    assert os.read(reading, 1) == b""
    os.close(reading)
    helper = folder.helper()
    assert os.readlink(f"/proc/{helper}/cwd") == "/"
    assert os.getsid(helper) != os.getsid(0)
    streams = [os.readlink(f"/proc/{helper}/fd/{stream}") for stream in range(3)]
    assert streams == ["/dev/null", "/dev/null", str(folder.runtime / "helper.log")]
    assert Path(streams[2]).read_text() == ""
