"""A server of Filecoin proofs in this process, with test parameters of 2 KiB."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.filecoin.made_parameters import WINDOW, write_parameters
from tests.service.filecoin.curio_client import CurioClient
from tests.service.filecoin.filecoin_server import FilecoinServer
from tests.service.queue.places import MEMORY


@pytest.fixture(scope="session")
def params(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with test parameters of WindowPoSt."""
    folder = tmp_path_factory.mktemp("parameters")
    write_parameters(WINDOW, folder)
    return folder


@pytest.fixture(scope="session")
def data() -> Iterator[Path]:
    """A folder for the queues of servers."""
    folder = Path(tempfile.mkdtemp(prefix="quod-cuzk-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(params: Path, data: Path) -> Iterator[FilecoinServer]:
    started = FilecoinServer(data / "server", params)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def curio(server: FilecoinServer) -> Iterator[CurioClient]:
    """A client of the server's Unix socket."""
    client = CurioClient(server.listeners.grpc[0])
    yield client
    client.close()
