"""Folders that another user modified are rejected by name, and nothing outside is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quod.errors import InputError, OutputError, QuodError
from quod.service.errors import KeyChangedError, NotFoundError
from quod.service.keys import KeyRepository
from quod.service.keys.record import MAX_BYTES, RECORD, VERIFICATION_KEY, ZKEY, parse_record
from tests.service.keys.conftest import BN254, folder_of


@pytest.mark.parametrize("name", [ZKEY, VERIFICATION_KEY, RECORD])
@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_non_regular_files_are_rejected(
    repository: KeyRepository, tmp_path: Path, name: str, what: str
) -> None:
    path = folder_of(repository) / name
    outside = tmp_path / "outside"
    path.rename(outside)
    if what == "link":
        path.symlink_to(outside)
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(InputError) as caught:
        repository.check("small", deep=True)
    assert caught.value.path == str(path)
    with pytest.raises(InputError):
        repository.read_zkey(repository.resolve("small")) if name != VERIFICATION_KEY else (
            repository.read(repository.resolve("small"), name)
        )
    assert repository.listing()[0].record is None


def test_a_folder_that_is_a_link(repository: KeyRepository, tmp_path: Path) -> None:
    folder = folder_of(repository)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    for call in (repository.check, repository.record, repository.read_zkey):
        with pytest.raises(InputError, match="link"):
            call(folder.name)
    # The link is deleted, not what it leads to.
    repository.remove(folder.name)
    assert (tmp_path / "elsewhere" / ZKEY).exists()
    for part in ("keys", "names"):
        place = Path(repository.path) / part
        place.rename(tmp_path / f"other {part}")
        place.symlink_to(tmp_path / f"other {part}")
        with pytest.raises(InputError, match="link"):
            repository.add(BN254 / "circuit.zkey", names=["again"])
        place.unlink()
        (tmp_path / f"other {part}").rename(place)


def test_invalid_name_files_are_rejected(repository: KeyRepository, tmp_path: Path) -> None:
    identity = repository.resolve("small")
    (tmp_path / "outside").write_text(identity)
    names = Path(repository.path) / "names"
    (names / "linked:latest").symlink_to(tmp_path / "outside")
    (names / "text:latest").write_text("../../etc")
    (names / "huge:latest").write_text("x" * (MAX_BYTES + 1))
    (names / "gone:latest").write_text("0" * 64)
    (names / "Weird name").write_text(identity)
    for name in ("linked", "text", "huge"):
        with pytest.raises(InputError):
            repository.resolve(name)
    with pytest.raises(NotFoundError):
        repository.record("gone")
    (Path(repository.path) / "keys" / "stranger").mkdir()
    problems = "\n".join(repository.problems())
    for name in ("linked", "text", "huge", "gone", "Weird", "stranger"):
        assert name in problems
    assert repository.listing()[0].names == ("small:latest",)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "/etc", "a:b:c", ":", "a:", ":a", "A", "é", "x\u202ey", "a\n"]
    + ["-a", "a..b", ".a", "a b", "a" * 65, "0" * 64, "\0", "\ud800", "a:../b"],
)  # fmt: skip
def test_invalid_names_are_rejected(repository: KeyRepository, name: str) -> None:
    for call in (
        lambda: repository.add(BN254 / "circuit.zkey", names=[name]),
        lambda: repository.point(name, "small"),
    ):
        with pytest.raises(InputError, match="NAME"):
            call()
    for look in (repository.resolve, repository.record, repository.read_zkey, repository.check):
        with pytest.raises(QuodError):
            look(name)
    assert set(repository.names()) == {"small:latest"}


@pytest.mark.parametrize("key", [None, 7, b"small", Path("small"), ["small"]])
def test_non_string_keys_are_rejected(repository: KeyRepository, key: object) -> None:
    with pytest.raises(InputError):
        repository.resolve(key)  # type: ignore[arg-type]


def test_damaged_records(repository: KeyRepository) -> None:
    identity = repository.resolve("small")
    path = folder_of(repository) / RECORD
    good = path.read_text()
    assert parse_record(good.encode(), "r", identity) == repository.record("small")
    bad = [
        "", "[" * 5000, "\ufeff", good + "more = 1", good.replace("format = 1", "format = 2"),
        good.replace("groth16", "plonk"), good.replace(identity, "0" * 64),
        good.replace("variables = ", "variables = -"), good.replace("public = ", "public = 1."),
        good.replace('"bn254"', '"a\\nb"'), good.replace('"bn254"', "7"),
        good.replace("inode", "inodes"), good.replace('"circuit.zkey"', '"../circuit.zkey"'),
        good.replace("bytes = ", "bytes = 99999999999999999999"), good.split("[files")[0],
        "files = 1\n" + good.split("[files")[0],
    ]  # fmt: skip
    for text in bad:
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            repository.record("small")
        assert caught.value.path == str(path), text
        assert "quod keys add" in str(caught.value)
    path.write_bytes(b"\xff" * 10)
    with pytest.raises(InputError):
        repository.record("small")
    path.write_text(good + "#" * MAX_BYTES)
    with pytest.raises(InputError, match="longer"):
        repository.record("small")
    path.unlink()
    with pytest.raises(KeyChangedError, match="is missing"):
        repository.record("small")
    repository.add(BN254 / "circuit.zkey")
    repository.check("small")


def test_world_writable_folders_are_rejected(repository: KeyRepository) -> None:
    for folder in (Path(repository.path), Path(repository.path) / "keys", folder_of(repository)):
        before = folder.stat().st_mode
        folder.chmod(0o777)
        with pytest.raises(InputError, match="world-writable"):
            repository.check("small")
        folder.chmod(before)
    repository.check("small")


def test_missing_repository_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "none", tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="is not a repository"):
            KeyRepository(place)
    for path in ("a\0b", "\ud800", "a\nb"):
        for create in (False, True):
            with pytest.raises(InputError, match="cannot be"):
                KeyRepository(path, create=create)
    with pytest.raises(OutputError):
        KeyRepository(tmp_path / "file" / "keys", create=True)
