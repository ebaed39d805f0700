"""A server in a thread of its own, with workers that prove nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quod.service.keys import KeyRepository
from tests.service.queue.places import MEMORY
from tests.service.server.running_server import RunningServer

EXAMPLE = Path(__file__).parents[3] / "examples" / "membership"

Start = Callable[..., RunningServer]


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two keys: `membership` and `other`."""
    folder = tmp_path_factory.mktemp("repository") / "keys"
    repository = KeyRepository(folder, create=True)
    repository.add(EXAMPLE / "circuit.zkey", names=["membership"], allow_insecure=True)
    return folder


@pytest.fixture
def start(keys: Path) -> Iterator[Start]:
    """Starts a server with fields of its configuration."""
    yield from _starting(keys)


@pytest.fixture(scope="module")
def quiet(keys: Path) -> Iterator[RunningServer]:
    """A server for tests of which none has a job taken."""
    for begin in _starting(keys):
        yield begin()


def _starting(keys: Path) -> Iterator[Start]:
    started: list[RunningServer] = []
    tmp_path = Path(tempfile.mkdtemp(prefix="quod-server-", dir=MEMORY))

    def run(*, go: bool = True, **fields: object) -> RunningServer:
        folder = tmp_path / f"server{len(started)}"
        config = {"data": folder, "keys": keys, "queue": {"ballast_bytes": 4096}} | fields
        server = RunningServer(config, go=go)
        started.append(server)
        return server

    yield run
    for server in started:
        server.stop()
    shutil.rmtree(tmp_path)


@pytest.fixture
def server(start: Start) -> RunningServer:
    """A server with nothing but what is the default."""
    return start()
