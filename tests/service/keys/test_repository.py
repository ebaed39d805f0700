"""Keys on disk: registration, names, and reports of changed files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from quod.errors import InputError, MismatchError, OutputError, QuodError
from quod.service.errors import AlreadyExistsError, KeyChangedError, NotFoundError
from quod.service.keys import KeyRepository, registration
from quod.service.keys.folder import Folder
from quod.service.keys.record import VERIFICATION_KEY, WASM, ZKEY
from tests.service.keys.conftest import BLS, BN254, folder_of
from tests.service.keys.conftest import WASM as CODE
from tests.witness.circuits import circuit

IDENTITY = hashlib.sha256((BN254 / "circuit.zkey").read_bytes()).hexdigest()


def test_the_identity_is_the_digest_of_the_zkey(repository: KeyRepository) -> None:
    record = repository.record("small")
    assert record.identity == IDENTITY == repository.resolve("small:latest")
    assert repository.record(IDENTITY) == record == repository.check("small", deep=True)
    assert (record.curve, record.files[ZKEY].sha256) == ("bn254", IDENTITY)
    assert bytes(repository.read_zkey(IDENTITY)) == (BN254 / "circuit.zkey").read_bytes()
    written = json.loads(repository.read(IDENTITY, VERIFICATION_KEY))
    assert written == json.loads((BN254 / "verification_key.json").read_text())
    for name in (WASM, ZKEY[:3], "../key.toml"):
        with pytest.raises(NotFoundError):
            repository.read(IDENTITY, name)


def test_two_names_of_one_key(repository: KeyRepository) -> None:
    record = repository.add(BN254 / "circuit.zkey", names=["other", "small:v2"])
    assert record == repository.record("small")
    assert set(repository.names()) == {"small:latest", "small:v2", "other:latest"}
    [listed] = repository.listing()
    assert listed.record == record
    assert listed.names == ("other:latest", "small:latest", "small:v2")
    assert not repository.remove("other").key
    assert not repository.remove("small:v2").key
    assert repository.remove("small").key
    assert (repository.listing(), repository.names()) == ([], {})
    assert os.listdir(Path(repository.path) / "incoming") == []
    with pytest.raises(NotFoundError):
        repository.remove("small")


def test_removing_a_key_removes_all_its_names(repository: KeyRepository) -> None:
    repository.point("v1", "small")
    assert repository.remove(IDENTITY).names == ("small:latest", "v1:latest")
    assert repository.names() == {}
    with pytest.raises(NotFoundError):
        repository.read_zkey(IDENTITY)


def test_names_move_only_on_request(repository: KeyRepository) -> None:
    with pytest.raises(AlreadyExistsError, match=IDENTITY):
        repository.add(BLS / "circuit.zkey", names=["new", "small"])
    assert len(repository.listing()) == 1
    other = repository.add(BLS / "circuit.zkey", names=["small"], move=True)
    assert repository.resolve("small") == other.identity != IDENTITY
    with pytest.raises(AlreadyExistsError):
        repository.point("small", IDENTITY)
    repository.point("small", IDENTITY, move=True)
    assert repository.resolve("small") == IDENTITY


def test_registered_files_are_validated(repository: KeyRepository, tmp_path: Path) -> None:
    code = tmp_path / "code.wasm"
    code.write_bytes(b"text")
    other = tmp_path / "other.wasm"
    other.write_bytes(circuit(wires=99))
    vkey = BLS / "verification_key.json"
    cases: list[tuple[Path, dict[str, Path], type[QuodError], str]] = [
        (BN254 / "plonk.zkey", {}, InputError, "plonk.zkey"),
        (BN254 / "proof.json", {}, InputError, "proof.json"),
        (tmp_path / "none.zkey", {}, InputError, "none.zkey"),
        (tmp_path, {}, InputError, "folder"),
        (BN254 / "circuit.zkey", {"verification_key": vkey}, MismatchError, str(vkey)),
        (BN254 / "circuit.zkey", {"wasm": code}, InputError, str(code)),
        (BN254 / "circuit.zkey", {"wasm": other}, MismatchError, f"{other}: computes a witness of"),
        (BLS / "circuit.zkey", {"wasm": other}, MismatchError, "the field of bn254"),
    ]
    for zkey, others, kind, text in cases:
        with pytest.raises(kind) as caught:
            repository.add(zkey, names=["bad"], **others)
        assert text in str(caught.value), (zkey, others)
        assert "incoming" not in str(caught.value)
    assert os.listdir(Path(repository.path) / "incoming") == []
    assert set(repository.names()) == {"small:latest"}
    repository.add(
        BLS / "circuit.zkey", names=["big"], verification_key=BLS / "verification_key.json"
    )


def test_a_key_with_another_wasm(repository: KeyRepository, tmp_path: Path) -> None:
    code = tmp_path / "code.wasm"
    code.write_bytes(CODE)
    with pytest.raises(AlreadyExistsError, match="witness calculator"):
        repository.add(BN254 / "circuit.zkey", wasm=code)
    repository.remove("small")
    for _ in range(2):
        repository.add(BN254 / "circuit.zkey", wasm=code, names=["small"])
    assert repository.read(IDENTITY, WASM) == CODE
    assert WASM in repository.add(BN254 / "circuit.zkey").files


@pytest.mark.parametrize("name", [ZKEY, VERIFICATION_KEY])
@pytest.mark.parametrize("how", ["written", "replaced", "longer", "gone"])
def test_a_changed_file_is_named(repository: KeyRepository, name: str, how: str) -> None:
    path = folder_of(repository) / name
    content, status = path.read_bytes(), path.stat()
    other = bytes([content[0], content[1] ^ 1]) + content[2:]
    if how == "written":
        path.write_bytes(other)
        os.utime(path, ns=(1, 1))
    elif how == "replaced":
        (path.parent / "new").write_bytes(other)
        os.utime(path.parent / "new", ns=(status.st_mtime_ns, status.st_mtime_ns))
        os.replace(path.parent / "new", path)
    elif how == "longer":
        path.write_bytes(content + b"\n")
    else:
        path.unlink()
    for deep in (False, True):
        with pytest.raises(KeyChangedError) as caught:
            repository.check("small", deep=deep)
        assert caught.value.path == str(path)
        assert caught.value.exit_code == 10
    with pytest.raises(KeyChangedError, match=name):
        if name == ZKEY:
            repository.read_zkey(IDENTITY)
        else:
            repository.read(IDENTITY, name)
    [listed] = repository.listing()
    assert (listed.record, name in listed.problem) == (None, True)
    # Registering it again mends it.
    repository.add(BN254 / "circuit.zkey")
    assert repository.check("small", deep=True).identity == IDENTITY


def test_only_a_deep_check_detects_hidden_changes(repository: KeyRepository) -> None:
    path = folder_of(repository) / ZKEY
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"x")
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    repository.check("small")
    with pytest.raises(KeyChangedError, match="SHA-256"):
        repository.check("small", deep=True)


def test_deep_check_accepts_a_restored_backup(repository: KeyRepository) -> None:
    folder = folder_of(repository)
    for path in folder.iterdir():
        content = path.read_bytes()
        path.unlink()
        (folder / "spare").write_bytes(b"takes the inode")
        path.write_bytes(content)
    with pytest.raises(KeyChangedError):
        repository.check("small")
    repository.check("small", deep=True)
    repository.check("small")
    assert bytes(repository.read_zkey(IDENTITY)) == (BN254 / "circuit.zkey").read_bytes()


def test_a_file_that_changes_while_it_is_read(repository: KeyRepository) -> None:
    path = folder_of(repository) / ZKEY

    def touch() -> None:
        os.utime(path, ns=(5, 5))

    with pytest.raises(KeyChangedError, match="written to"):
        repository.read_zkey(IDENTITY, touch)


def test_concurrent_registrations(tmp_path: Path) -> None:
    repository = KeyRepository(tmp_path / "keys", create=True)
    errors: list[BaseException] = []
    start = threading.Barrier(6)

    def register(number: int) -> None:
        try:
            start.wait()
            curve = (BN254, BLS)[number % 2]
            KeyRepository(repository.path, create=True).add(
                curve / "circuit.zkey", names=[f"n{number}", f"shared{number % 2}"]
            )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=register, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert len(repository.listing()) == 2
    assert len(repository.names()) == 8
    assert repository.problems() == []


def test_key_removed_while_read_is_not_found(repository: KeyRepository) -> None:
    with pytest.raises(NotFoundError), repository._key(IDENTITY):
        repository.remove("small")
        raise KeyChangedError("is gone", path=ZKEY)
    repository.add(BN254 / "circuit.zkey", names=["small"])
    with pytest.raises(NotFoundError), repository._key(IDENTITY):
        repository.remove("small")
        repository.add(BN254 / "circuit.zkey")
        raise KeyChangedError("is gone", path=ZKEY)
    with pytest.raises(KeyChangedError), repository._key(IDENTITY):
        raise KeyChangedError("is gone", path=ZKEY)


def test_folder_removed_during_cleanup_is_ignored(
    repository: KeyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(repository.path) / "incoming" / "left"
    place.mkdir()
    lock = Folder.lock

    def lock_and_lose(self: Folder, *, wait: bool) -> bool:
        if not wait:
            place.rmdir()
        return lock(self, wait=wait)

    monkeypatch.setattr(Folder, "lock", lock_and_lose)
    assert repository.clean() == []


def test_crash_leftovers_are_reported_and_cleaned(repository: KeyRepository) -> None:
    script = textwrap.dedent(
        """
        import os, sys
        from quod.service.keys import KeyRepository, registration
        registration.KeyRecord = lambda **_: os._exit(9)
        KeyRepository(sys.argv[1]).add(sys.argv[2], names=["crashed"])
        """
    )
    words = [sys.executable, "-c", script, repository.path, str(BLS / "circuit.zkey")]
    assert subprocess.run(words, check=False).returncode == 9
    [remnant] = os.listdir(Path(repository.path) / "incoming")
    half = Path(repository.path) / "names" / ".half:latest"
    half.write_text("0")
    told = "\n".join(repository.problems())
    assert (told.count("\n"), remnant in told, half.name in told) == (1, True, True)
    assert len(repository.listing()) == 1
    # One that is under way is left alone, and the others have gone when it begins.
    with repository._incoming() as folder:
        assert os.listdir(Path(repository.path) / "incoming") == [os.path.basename(folder.path)]
        assert not half.exists()
        assert repository.clean() == repository.problems() == []
    repository.add(BLS / "circuit.zkey", names=["crashed"])
    assert os.listdir(Path(repository.path) / "incoming") == []


def test_a_full_disk_names_the_repository(
    repository: KeyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is not blamed on the zkey that is read meanwhile."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(registration, "write_all", Mock(side_effect=full))
    before = len(repository.listing())
    with pytest.raises(OutputError, match=f"^{repository.path}.*No space left on device"):
        repository.add(BLS / "circuit.zkey", names=["full"])
    assert len(repository.listing()) == before
    assert not list((Path(repository.path) / "incoming").iterdir())
