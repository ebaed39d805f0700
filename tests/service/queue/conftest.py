"""Both stores, for tests of what they have in common."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import need
from tests.service.queue.places import Place
from tests.support.postgres import Cluster, why_no_postgres
from tests.support.thorough import one_and_others

STORES = ["sqlite", "postgres"]
on_both_stores = pytest.mark.parametrize("store", STORES, indirect=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A server of Postgres."""
    need(why_no_postgres(), "QUOD_TEST_POSTGRES")
    with Cluster() as found:
        yield found


@pytest.fixture(params=one_and_others(STORES))
def store(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database; None for SQLite.

    Postgres is thorough, but for tests that take `on_both_stores`: one of each operation.
    """
    if request.param == "sqlite":
        return None
    found: Cluster = request.getfixturevalue("cluster")
    return found.url


@pytest.fixture
def place(store: str | None) -> Iterator[Place]:
    """Where a test keeps a queue, on either store."""
    found = Place(store)
    yield found
    found.remove()


@pytest.fixture
def on_sqlite() -> Iterator[Place]:
    """The same for tests about files of SQLite."""
    found = Place(None)
    yield found
    found.remove()


@pytest.fixture
def on_postgres(cluster: Cluster) -> Iterator[Place]:
    """The same for tests about servers of Postgres."""
    found = Place(cluster.url)
    yield found
    found.remove()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
