"""A server of a tiny language model in this process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quod.inference import Transformer
from quod.service.keys import KeyRepository
from tests.inference.transformer.test_trained_model import MODEL
from tests.service.queue.places import MEMORY
from tests.service.server.running_server import ConfiguredServer

Start = Callable[..., ConfiguredServer]


@pytest.fixture(scope="session")
def model() -> Path:
    """A model of two layers, with its plan."""
    return MODEL


@pytest.fixture(scope="session")
def transformer(model: Path) -> Transformer:
    """A model without a server."""
    return Transformer.open(model)


@pytest.fixture(scope="module")
def start(model: Path) -> Iterator[Start]:
    """Starts a server with further fields of its configuration."""
    started: list[ConfiguredServer] = []
    folder = Path(tempfile.mkdtemp(prefix="quod-text-", dir=MEMORY))

    def run(**fields: object) -> ConfiguredServer:
        data = folder / f"server{len(started)}"
        KeyRepository(data / "keys", create=True)
        config = {
            "data": data, "queue": {"ballast_bytes": 4096},
            "models": {"tiny": {"path": model, "sequences": 3}},
        }  # fmt: skip
        started.append(ConfiguredServer(config | fields))
        return started[-1]

    yield run
    for server in started:
        server.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def proving_server(start: Start) -> ConfiguredServer:
    """A server of proofs, without a key."""
    return start(models={}, workers={"processes": False})


@pytest.fixture(scope="module")
def server(start: Start) -> ConfiguredServer:
    return start()
