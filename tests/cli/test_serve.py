"""quod serve and the client commands: their output and the exit codes of errors."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from quod.cli import entry
from quod.groth16 import Proof, VerifyingKey
from quod.service.keys import KeyRepository
from quod.service.server.clients import hashed_token
from tests.service.queue.crashing import REPOSITORY
from tests.service.server.conftest import Start, keys, start  # noqa: F401
from tests.service.server.running_server import RunningServer

EXAMPLE = REPOSITORY / "examples" / "membership"
WITNESS = str(EXAMPLE / "witness.wtns")


@pytest.fixture
def server(start: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:  # noqa: F811
    running = start()
    monkeypatch.setenv("QUOD_SERVER", running.listeners.grpc[0])
    return running


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = entry.run(words)
    return (code, *capsys.readouterr())


class TestAsking:
    """submit, wait, status, cancel, keys."""

    def test_submit_and_wait(
        self, server: RunningServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        code, out, _ = run(capsys, "submit", "membership", "--wtns", WITNESS, "--priority", "2")
        job = out.strip()
        assert code == 0
        files = ["--proof", str(tmp_path / "proof"), "--public", str(tmp_path / "public")]
        code, out, err = run(capsys, "wait", job, *files)
        assert (code, out) == (0, "")
        assert err == f"The job {job} has succeeded.\n"
        assert json.loads((tmp_path / "public").read_text()) == ["7"]
        assert json.loads((tmp_path / "proof").read_text()) == {"protocol": "none"}
        code, out, _ = run(capsys, "status", job, "--json")
        told = json.loads(out)
        assert (code, told["state"], told["priority"]) == (0, "succeeded", 2)
        assert server.queue.job(job).payload_bytes == (EXAMPLE / "witness.wtns").stat().st_size + 24

    def test_repeated_inputs_are_the_same_job(
        self, server: RunningServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["submit", "membership", "--inputs", str(EXAMPLE / "input.json"),
                 "--idempotency-key", "7"]  # fmt: skip
        first, second = run(capsys, *words), run(capsys, *words)
        assert first == second
        code, _, err = run(capsys, *words, "--priority", "1")
        assert (code, "another request" in err) == (10, True)

    def test_several_partitions(
        self, server: RunningServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        words = ["submit", "membership", "--wtns", WITNESS, "--wtns", WITNESS]
        job = run(capsys, *words)[1].strip()
        code, out, _ = run(capsys, "wait", job, "--json")
        assert (code, len(json.loads(out)["results"])) == (0, 2)
        code, _, err = run(capsys, "wait", job, "--proof", str(tmp_path / "proof"))
        assert (code, "the job has 2 proofs" in err) == (3, True)
        assert not (tmp_path / "proof").exists()

    def test_failed_jobs_are_reported(
        self, start: Start, capsys: pytest.CaptureFixture[str],  # noqa: F811
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        server = start(go=False)
        monkeypatch.setenv("QUOD_SERVER", server.listeners.grpc[0])
        job = run(capsys, "submit", "membership", "--wtns", WITNESS)[1].strip()
        code, _, err = run(capsys, "wait", job, "--timeout", "0.1")
        assert (code, job in err) == (10, True)
        code, _, err = run(capsys, "cancel", job)
        assert (code, err) == (0, f"The job {job} is cancelled.\n")
        code, _, err = run(capsys, "wait", job)
        assert (code, "is cancelled" in err) == (10, True)
        late = run(capsys, "submit", "membership", "--wtns", WITNESS, "--deadline", "0")
        assert (late[0], "in the past" in late[2]) == (10, True)

    def test_status_and_keys(
        self, server: RunningServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, _ = run(capsys, "status")
        assert code == 0
        for text in ("state", "ready", "fake ready", "kept", "open keys", "none"):
            assert text in out
        assert json.loads(run(capsys, "status", "--json")[1])["document"]["format"] == 1
        [key] = json.loads(run(capsys, "keys", "served", "--json")[1])
        assert key["names"] == ["membership:latest"]
        assert key["identity"] in run(capsys, "keys", "served")[1]
        for command in ("preload", "evict", "resume"):
            assert run(capsys, "keys", command, "membership")[0] == 0
            code, _, err = run(capsys, "keys", command, "none")
            assert (code, err.count("\n")) == (10, 1)
        assert [call[0] for call in server.pool.calls] == ["preload", "evict"]
        assert run(capsys, "keys", "evict", "membership", "--worker", "fake")[0] == 10

    def test_a_server_without_registered_keys(
        self, start: Start, capsys: pytest.CaptureFixture[str],  # noqa: F811
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    ) -> None:  # fmt: skip
        KeyRepository(tmp_path / "keys", create=True)
        monkeypatch.setenv("QUOD_SERVER", start(keys=tmp_path / "keys").listeners.grpc[0])
        code, _, err = run(capsys, "keys", "served")
        assert (code, "`quod status` lists the open circuits" in err) == (0, True)

    def test_the_server_of_the_folder_data(
        self, start: Start, capsys: pytest.CaptureFixture[str],  # noqa: F811
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    ) -> None:  # fmt: skip
        """The one that `quod serve --data data` starts in the same folder."""
        monkeypatch.delenv("QUOD_SERVER", raising=False)
        monkeypatch.chdir(tmp_path)
        code, _, err = run(capsys, "status")
        assert (code, "unix:data/grpc.sock" in err, "QUOD_SERVER" in err) == (11, True, True)
        start(data=Path("data"))
        assert run(capsys, "status")[0] == 0

    def test_tokens(
        self, start: Start, capsys: pytest.CaptureFixture[str],  # noqa: F811
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    ) -> None:  # fmt: skip
        token = "a-token-that-is-long-enough"
        server = start(clients={"ann": {"tokens": [hashed_token(token)]}})
        monkeypatch.setenv("QUOD_SERVER", server.listeners.grpc[0])
        (tmp_path / "token").write_text(f"{token}\n")
        words = ["submit", "membership", "--wtns", WITNESS]
        job = run(capsys, *words, "--token-file", str(tmp_path / "token"))[1].strip()
        assert server.queue.job(job).client == "ann"
        monkeypatch.setenv("QUOD_TOKEN", token)
        assert run(capsys, "cancel", job)[0] == 0
        assert run(capsys, "keys", "preload", "membership")[0] == 10
        monkeypatch.setenv("QUOD_TOKEN", "another-token-altogether")
        code, _, err = run(capsys, "status")
        assert (code, err) == (10, "quod: error: unknown token\n")

    @pytest.mark.parametrize(
        ("words", "code", "message"),
        [
            (["submit", "membership"], 3, "give exactly one of wtns, path and inputs, not 0"),
            (["submit", "membership", "--wtns", "none"], 3, "none: does not exist"),
            (["submit", "membership", "--inputs", WITNESS], 3, "is not JSON"),
            (["submit", "none", "--wtns", WITNESS], 10, "`quod keys served` those of a server"),
            (["wait", "1-none"], 10, "no such job"),
            (
                ["status", "--server", "unix:/nowhere"],
                11,
                "the server at unix:/nowhere does not answer (No such file or directory); give the "
                "server's address with --server or QUOD_SERVER",
            ),
            (["status", "--server", "nowhere"], 3, "unix:PATH or HOST:PORT"),
            (["status", "--token-file", "none"], 3, "none: does not exist"),
            (["status", "--certificate", "none"], 3, "none: cannot be read"),
        ],
    )
    def test_client_errors_are_reported(
        self, server: RunningServer, capsys: pytest.CaptureFixture[str], words: list[str],
        code: int, message: str,
    ) -> None:  # fmt: skip
        exit_code, out, err = run(capsys, *words)
        assert (exit_code, out, err.count("\n")) == (code, "", 1)
        assert message in err


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


class TestServing:
    """The command itself."""

    @pytest.fixture(autouse=True)
    def process_of_the_tests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stays as it is: what `serve` changes in its process lasts."""
        monkeypatch.setattr("quod.ceremony.core_dumps.forbid_core_dumps", lambda: None)
        monkeypatch.setattr("quod.service.logs.write_log", lambda *_, **__: None)

    def test_a_proof_over_http_in_two_commands(self, tmp_path: Path) -> None:
        data = tmp_path / "d"
        command = [sys.executable, "-m", "quod", "serve", "--data", str(data),
                   "--add-key", f"membership={EXAMPLE}"]  # fmt: skip
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")}
        with (
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process,
            ExitStack() as failing,
        ):
            failing.callback(process.kill)
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == f"grpc unix:{data}/grpc.sock\n"
            address = process.stdout.readline().split()[1]
            with httpx.Client(
                transport=httpx.HTTPTransport(uds=address.removeprefix("unix:")),
                base_url="http://localhost", timeout=400,
            ) as http:  # fmt: skip
                # The memory of a process that crashes, witnesses and all, is written nowhere.
                for limited in (process.pid, *_children(process.pid)):
                    limits = Path(f"/proc/{limited}/limits").read_text()
                    assert re.search(r"Max core file size +0 +0 ", limits)
                inputs = json.loads((EXAMPLE / "input.json").read_text())
                for witness_source in ({"inputs": inputs}, {"path": str(EXAMPLE / "witness.wtns")}):
                    answer = http.post("/v1/prove", json={"key": "membership"} | witness_source)
                    assert answer.json()["state"] == "succeeded", answer.text
                    [result] = answer.json()["results"]
                    proof = Proof.from_json_text(json.dumps(result["proof"]))
                    public = [int(value) for value in result["publicSignals"]]
                    key = VerifyingKey.from_json(EXAMPLE / "verification_key.json")
                    assert key.verify(public, proof)
                assert "<title>Quod</title>" in http.get("/").text
                bad = http.post("/v1/prove", json={"key": "membership", "inputs": {"x": 31415926}})
                assert bad.json()["state"] == "failed"
                assert bad.json()["code"] == "INVALID_ARGUMENT"
            process.send_signal(signal.SIGTERM)
            log = process.stderr.read()
            assert process.wait(300) == 0
        lines = [json.loads(line) for line in log.splitlines()[1:]]
        assert [line["message"] for line in lines][-1] == "drained"
        assert len([line["job"] for line in lines if line["message"] == "submitted"]) == 3
        ends = [line["state"] for line in lines if line["message"] == "a job has ended"]
        assert ends == ["succeeded", "succeeded", "failed"]
        # No witness, no input and no path of one.
        for secret in ("31415926", "witness.wtns", str(inputs["root"])):
            assert secret not in log

    @pytest.mark.thorough
    @pytest.mark.skipif(sys.platform != "linux", reason="reads the status from Linux")
    def test_serve_disables_core_dumps(self, tmp_path: Path) -> None:
        """Some systems pipe core dumps to a program despite the limit on core files."""
        script = (
            "import ctypes, sys\nfrom quod.cli import entry\n"
            "from quod.service.server import running\n"
            "async def serve(*_):\n"
            "    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n    return True\n"
            "running.serve = serve\n"
            f"sys.exit(entry.run(['serve', '--data', {str(tmp_path / 'd')!r}]))"
        )
        assert subprocess.check_output([sys.executable, "-c", script]) == b"0\n"

    def test_check_reports_accepted_risks(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = tmp_path / "quod.toml"
        hashed = hashed_token("a token")
        config.write_text(
            f'data = "{tmp_path}/d"\n[listen]\nhttp = ["0.0.0.0:1"]\n'
            f'[clients.ann]\ntokens = ["{hashed}"]\n'
        )
        words = ["serve", "--config", str(config), "--check"]
        code, _, err = run(capsys, *words)
        assert (code, "0.0.0.0:1 would accept tokens and witnesses without TLS" in err) == (3, True)
        code, _, err = run(capsys, *words, "--insecure-plaintext")
        assert (code, "0.0.0.0:1: tokens and witnesses are sent without TLS" in err) == (0, True)

    def test_check(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["serve", "--data", str(tmp_path / "d"), "--add-key", f"m={EXAMPLE}/circuit.zkey"]
        code, out, err = run(capsys, *words, "--warm", "m", "--check")
        assert (code, "sound" in err) == (0, True)
        # Also where keys were the first to be put there.
        assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700
        assert "m:latest" in out
        [cost] = json.loads(run(capsys, *words, "--warm", "m", "--check", "--json")[1])
        assert cost["load_seconds"] > 0
        assert cost["read_bytes"] == (EXAMPLE / "circuit.zkey").stat().st_size
        assert cost["host_bytes"] > cost["read_bytes"]
        code, _, err = run(capsys, *words, "--warm", "none", "--check")
        assert (code, "no key none:latest" in err) == (10, True)
        code, _, err = run(capsys, *words, "--device", "cuda:99", "--check")
        assert code == 7
        [config] = [tmp_path / "quod.toml"]
        config.write_text(f'data = "{tmp_path}/d"\n[workers]\nhost_bytes = 1000\nwarm = ["m"]\n')
        code, _, err = run(capsys, "serve", "--config", str(config), "--check")
        assert code == 10
        assert "the key budget there is 1000" in err

    @pytest.mark.parametrize(
        ("words", "code", "message"),
        [
            ([], 3, "data: is required"),
            (
                ["--data", "d", "--http", "127.0.0.1:0"],
                3,
                "is reachable by every user of this machine",
            ),
            (["--data", "d", "--http", "80"], 3, "--http: listen.http.0: write unix:PATH"),
            (["--data", "d", "--add-key", "x"], 3, "--add-key takes NAME=PATH"),
            (["--data", "d", "--keys", "none"], 3, "is not a repository of keys"),
            (
                ["--data", "d", "--grpc", "unix:" + "x" * 200, "--check"],
                3,
                "must have at most 107 bytes",
            ),
            (["--config", "none"], 3, "none: does not exist"),
        ],
    )
    def test_invalid_serve_options_are_rejected(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        words: list[str], code: int, message: str,
    ) -> None:  # fmt: skip
        monkeypatch.chdir(tmp_path)
        exit_code, out, err = run(capsys, "serve", *words)
        assert (exit_code, out) == (code, "")
        assert message in err

    @pytest.mark.parametrize(
        "name",
        [
            "quod.service.queue.stores.sqlite._lock",
            "quod.service.queue.blob_store.os.mkdir",
            "quod.service.server.running.KeyRepository",
            "quod.service.server.running.listening",
        ],
    )
    def test_a_full_disk_at_the_start(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        name: str,
    ) -> None:  # fmt: skip
        data = tmp_path / "d"
        assert run(capsys, "serve", "--data", str(data), "--check")[0] == 0

        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(name, fail)
        code, out, err = run(capsys, "serve", "--data", str(data))
        assert (code, out, err.count("\n")) == (5, "", 1)
        assert f"{data}" in err
        assert "No space left on device" in err

    def test_new_tokens(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(capsys, "serve", "--new-token")
        token, hashed = out.split()
        assert hashed_token(token) == hashed
        document = json.loads(run(capsys, "serve", "--new-token", "--json")[1])
        assert hashed_token(document["token"]) == document["hash"]
        assert document["token"] != token
