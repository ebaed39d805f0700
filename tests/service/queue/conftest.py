"""Both stores, for tests of their common behaviour."""

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
    with Cluster() as postgres:
        yield postgres


@pytest.fixture(params=one_and_others(STORES))
def store(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database; None for SQLite.

    Postgres is thorough, but for tests that take `on_both_stores`: one of each operation.
    """
    if request.param == "sqlite":
        return None
    postgres: Cluster = request.getfixturevalue("cluster")
    return postgres.url


@pytest.fixture
def place(store: str | None) -> Iterator[Place]:
    """Folder or database for a test's queue, on either store."""
    queue_place = Place(store)
    yield queue_place
    queue_place.remove()


@pytest.fixture
def on_sqlite() -> Iterator[Place]:
    """Folder for a queue on SQLite."""
    queue_place = Place(None)
    yield queue_place
    queue_place.remove()


@pytest.fixture
def on_postgres(cluster: Cluster) -> Iterator[Place]:
    """Schema for a queue on Postgres."""
    queue_place = Place(cluster.url)
    yield queue_place
    queue_place.remove()


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
