"""The files of deploy/ name what exists, and the health check tells ready from not."""

from __future__ import annotations

import http.server
import re
import runpy
import shutil
import socketserver
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quod.filecoin.parameters.files import DEFAULT_FOLDER
from quod.service.server.settings import read_config

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

main: Callable[[list[str]], int] = runpy.run_path(str(DEPLOY / "health.py"))["main"]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        ready = self.path == "/health/live" or self.server.ready.pop(0)
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b'{"state": "draining"}')

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def answering(place: Path | int, ready: list[bool]) -> Iterator[str]:
    """A server that is ready or not, one answer after the other; its address."""
    server: Any
    if isinstance(place, Path):
        server = socketserver.UnixStreamServer(str(place), _Handler)
        address = f"unix:{place}"
    else:
        server = http.server.HTTPServer(("127.0.0.1", place), _Handler)
        address = f"http://127.0.0.1:{server.server_address[1]}"
    server.ready = ready
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("unix", [True, False])
def test_health(unix: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "s" if unix else 0
    with answering(place, [True, False, False, True]) as address:
        assert main([address]) == 0
        assert main([address]) == 1
        assert capsys.readouterr().err == 'health.py: 503 {"state": "draining"}\n'
        assert main([address, "--live"]) == 0
        # Not yet, and then it is.
        assert main([address, "--wait", "30"]) == 0
    assert main([address]) == 1
    assert "health.py: " in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["none"], ["ftp://host"], ["unix:a", "unix:b"]])
def test_invalid_command_line_exits_with_code_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_dockerfile_copies_existing_files_and_extras() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (REPOSITORY / name).exists(), name
    [extras] = re.findall(r'"\.\[([a-z,]+)\]"', text)
    assert set(extras.split(",")) <= {*PROJECT["optional-dependencies"], "service"}
    assert "constraints.txt" in text
    assert re.search(r"^USER quod$", text, re.MULTILINE)


def test_systemd_unit_is_valid(tmp_path: Path) -> None:
    """systemd's own check, with programs where the unit looks for them."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze")
    text = (DEPLOY / "quod.service").read_text()
    for name in ("quod", "python"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    unit = tmp_path / "quod.service"
    unit.write_text(text.replace("/opt/quod/bin", str(tmp_path)))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    drop_in = tmp_path / "quod.service.d" / "filecoin.conf"
    drop_in.parent.mkdir()
    text = (DEPLOY / "filecoin.conf").read_text().replace("=curio", "=root")
    drop_in.write_text(text.replace("/opt/quod/bin", str(tmp_path)))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_filecoin_drop_in_matches_the_documentation(tmp_path: Path) -> None:
    """The socket is in the folder that the unit makes, and the parameters' folder is visible."""
    page = (REPOSITORY / "docs" / "filecoin.md").read_text()
    text = (DEPLOY / "filecoin.conf").read_text()
    [socket] = re.findall(r"unix:(/\S+?)\"", text)
    assert f"`unix://{socket}`" in page
    [folder] = re.findall(r"^RuntimeDirectory=(\S+)", text, re.MULTILINE)
    assert Path(socket).parent == Path("/run") / folder
    [visible] = re.findall(r"^BindReadOnlyPaths=-(\S+)", text, re.MULTILINE)
    assert visible == DEFAULT_FOLDER
    # The section that quod.toml shows as a comment is right.
    shown = re.search(
        r"^# \[filecoin\].*?(?=\n\n)", (DEPLOY / "quod.toml").read_text(), re.M | re.S
    )
    assert shown is not None
    section = "\n".join(line.removeprefix("# ") for line in shown[0].splitlines())
    (tmp_path / "quod.toml").write_text(f'data = "{tmp_path}"\n{section}\n')
    config = read_config(tmp_path / "quod.toml", {}, {})
    assert config.filecoin is not None
    assert (str(config.filecoin.params), config.filecoin.insecure_test_key) == (visible, False)


def test_the_unit_is_ended_before_other_services() -> None:
    text = (DEPLOY / "quod.service").read_text()
    assert re.search(r"^MemoryMax=", text, re.MULTILINE)
    assert re.search(r"^TasksMax=", text, re.MULTILINE)
    assert not re.search(r"^OOMScoreAdjust=-", text, re.MULTILINE)


def test_example_configuration_is_valid() -> None:
    config = read_config(DEPLOY / "quod.toml", {}, {})
    assert str(config.data) == "/var/lib/quod/data"
    assert config.requests.drain_seconds == 60
    # What stands as comments is right, too, and is what holds without it.
    text = (DEPLOY / "quod.toml").read_text().partition("# A client")[0]
    spare = re.findall(r"^# (\w+) = ([0-9_]+)", text, re.MULTILINE)
    assert {"keep_seconds", "lease_seconds", "witness_bytes"} <= {name for name, _ in spare}
    for name, value in spare:
        sections = (config.queue, config.requests, config.workers, config.listen)
        [section] = [candidate for candidate in sections if hasattr(candidate, name)]
        assert getattr(section, name) in (None, int(value)), name


def test_metrics_of_the_alerts_exist() -> None:
    metrics = (REPOSITORY / "src" / "quod" / "service" / "server" / "metrics.py").read_text()
    of_queue = re.findall(r'\("(\w+)", "[A-Z]', metrics)
    exported = {*re.findall(r'"(quod_\w+)"', metrics), *(f"quod_queue_{name}" for name in of_queue)}
    used = re.findall(r"\b(quod_\w+)", (DEPLOY / "alerts.yaml").read_text())
    assert len(used) > 8
    assert {name.removesuffix("_total") for name in used} <= exported


def test_alerts_match_the_documentation() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (DEPLOY / "alerts.yaml").read_text()))
    page = (REPOSITORY / "docs" / "operating.md").read_text()
    assert alerts == set(re.findall(r"`(Quod\w+)`", page))
