"""The checks of Filecoin's parameters: those before a server listens, and quod serve --check."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quod.cli import entry
from quod.errors import DeviceError, InputError, InsecureKeyError
from quod.filecoin.parameters import ParameterSet, ProofKind
from quod.filecoin.parameters import files as parameter_files
from quod.filecoin.sectors import sector_shape
from quod.service.errors import NotFoundError
from quod.service.filecoin.provers import Provers
from quod.service.keys import KeyRepository
from quod.service.server.config import Config
from quod.service.server.startup_check import check, check_start
from tests.filecoin.made_parameters import WINDOW, WINNING
from tests.filecoin.simulated import SimulatedKey


def configuration(folder: Path, params: Path, *, insecure: bool = True, **workers: Any) -> Config:
    section = {"params": params, "insecure_test_key": insecure}
    return Config.model_validate({"data": folder, "filecoin": section, "workers": workers})


@pytest.fixture
def served(params: Path, tmp_path: Path) -> Path:
    """A folder with the test parameters of WindowPoSt, to which a test may add files."""
    folder = tmp_path / "parameters"
    folder.mkdir()
    name = WINDOW.file_name("params")
    (folder / name).write_bytes((params / name).read_bytes())
    return folder


def test_check(params: Path, tmp_path: Path) -> None:
    """Files of other circuits, and circuits that are not traced, are problems."""
    source = params / WINDOW.file_name("params")
    large = ParameterSet(ProofKind.POREP, sector_shape(32 << 30))
    for parameters in (WINDOW, WINNING, large):
        (tmp_path / parameters.file_name("params")).symlink_to(source)
    costs = {cost.key: cost for cost in check(configuration(tmp_path, tmp_path))}
    assert set(costs) == {"wpost-2k", "winning-2k", "porep-32g"}
    window = costs["wpost-2k"]
    assert (window.problem, window.load_seconds, window.origin) == ("", None, "test key")
    assert window.read_bytes == source.stat().st_size
    assert window.host_bytes is window.device_bytes is None
    assert "has 22 public inputs; winning-2KiB needs 132" in costs["winning-2k"].problem
    assert "of 32GiB need a CUDA device" in costs["porep-32g"].problem


def test_warm_circuits(served: Path, tmp_path: Path) -> None:
    [cost] = check(configuration(tmp_path, served, warm=["wpost-2k"]))
    assert (cost.problem, cost.device_bytes) == ("", 0)
    # The points as they are in the file and in Montgomery form, and those for all wires.
    assert cost.host_bytes is not None
    assert cost.host_bytes > 3 * cost.read_bytes
    costs = check(configuration(tmp_path, served, warm=["winning-2k"]))
    problems = {cost.key: cost.problem for cost in costs}
    assert problems["wpost-2k"] == ""
    assert "does not exist" in problems["winning-2k"]
    with pytest.raises(NotFoundError, match="there is no circuit of this name"):
        list(check(configuration(tmp_path, served, warm=["membership"])))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "has no parameters of Filecoin's circuits"),
        ("none", "none: does not exist"),
        ("file", "file: is not a folder"),
    ],
)
def test_a_folder_without_parameters(name: str, message: str, tmp_path: Path) -> None:
    """Nothing to check must not be reported as sound, and a server does not start."""
    (tmp_path / "file").touch()
    for examine in (check_start, lambda config: list(check(config))):
        with pytest.raises(InputError, match=message):
            examine(configuration(tmp_path, tmp_path / name))


def test_files_that_are_cut_off(
    served: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The counts of the lists give the length, so that no point need be read."""
    path = served / WINDOW.file_name("params")
    content = path.read_bytes()
    for damaged in (content[:-100], content + b"x", content[:900], b"x"):
        path.write_bytes(damaged)
        [cost] = check(configuration(tmp_path, served))
        assert str(path) in cost.problem
        with pytest.raises(InputError, match=path.name):
            check_start(configuration(tmp_path, served, warm=["wpost-2k"]))
        with pytest.raises(InputError, match=path.name):
            Provers("cpu", served, allow_insecure=True).open(WINDOW)
        # Other circuits can be proved.
        caplog.clear()
        check_start(configuration(tmp_path, served))
        assert "wpost-2k cannot be proved" in caplog.text


def test_test_keys(served: Path, tmp_path: Path) -> None:
    """Only the flag permits them, at the start and for files that are replaced later."""
    config = configuration(tmp_path, served, insecure=False)
    message = "it is a test key of quod filecoin params; use the network's parameters"
    with pytest.raises(InsecureKeyError, match=message):
        check_start(config)
    [cost] = check(config)
    assert message in cost.problem
    with pytest.raises(InsecureKeyError, match=message):
        Provers("cpu", served).open(WINDOW)
    check_start(configuration(tmp_path, served))


def test_origins(served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a file that was opened before shows that it is the network's."""
    path = served / WINDOW.file_name("params")
    lists = b"".join(bytes(4) for _ in range(5))
    path.write_bytes(SimulatedKey(WINDOW.public).write(tmp_path / "vk").read_bytes() + lists)
    [cost] = check(configuration(tmp_path, served))
    assert (cost.problem, cost.origin) == ("", "not checked")
    digest = parameter_files.remembered_digest(path)
    monkeypatch.setattr(parameter_files, "network_digests", lambda _: (digest,))
    [cost] = check(configuration(tmp_path, served))
    assert cost.origin == "network"


def test_names_before_listening(served: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no circuit of this name"):
        check_start(configuration(tmp_path, served, warm=["none"]))
    with pytest.raises(InputError, match="does not exist: the server lacks the parameters of"):
        check_start(configuration(tmp_path, served, warm=["winning-2k"]))
    with pytest.raises(InputError, match="of the kind porep for sectors of 32GiB need a CUDA"):
        check_start(configuration(tmp_path, served, warm=["porep-32g"]))
    with pytest.raises(DeviceError, match="there is no device 'gpu'"):
        check_start(configuration(tmp_path, served, devices=["gpu"]))
    # Those of registered keys, too.
    KeyRepository(tmp_path / "keys", create=True)
    fields = {"data": tmp_path, "workers": {"warm": ["none"]}}
    with pytest.raises(NotFoundError, match="no key none"):
        check_start(Config.model_validate(fields))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--filecoin", "none"], 3, "none: does not exist; name the folder of Filecoin's"),
        (["--filecoin", "{params}"], 9, "is a test key of quod filecoin params"),
        (
            ["--filecoin", "{params}", "--insecure-test-key", "--warm", "none"], 10,
            "there is no circuit of this name",
        ),
        (["--filecoin", "{params}", "--add-key", "a=b"], 2, "--add-key has no effect"),
    ],
)  # fmt: skip
def test_refused_starts(
    words: list[str], code: int, message: str, params: Path, tmp_path: Path
) -> None:
    """Nothing is printed: the server has not listened."""
    words = [word.format(params=params) for word in words]
    command = [sys.executable, "-m", "quod", "serve", "--data", str(tmp_path / "d"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"COLUMNS": "200"}
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_prints_the_extent_of_its_check(
    served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: Any
) -> None:
    caplog.set_level(logging.ERROR)
    words = ["serve", "--data", str(tmp_path / "d"), "--filecoin", str(served), "--check"]
    assert entry.run(words) == 10
    assert "is a test key of quod filecoin params" in capsys.readouterr().err
    assert entry.run([*words, "--insecure-test-key"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].rstrip().endswith("test key")
    assert "Of the circuits only the verifying key" in " ".join(err.split())
    assert entry.run([*words, "--insecure-test-key", "--warm", "wpost-2k"]) == 0
    errors = " ".join(capsys.readouterr().err.split())
    assert "Opened as for a proof: wpost-2k." in errors
