"""The repository of keys: a folder with atomic registration, names and change detection.

    keys/SHA256/        circuit.zkey, verification_key.json, circuit.wasm if there is one, key.toml
    names/NAME:TAG      the identity that a name points to
    incoming/           unfinished registrations and removals, each folder locked by its process

Changes to keys/ and names/ hold the lock of the whole folder (flock) briefly; copying does not.
Readers take no lock: a key is visible completely or not at all.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from quod.errors import InputError, QuodError
from quod.formats.source import Path
from quod.frozen import frozen, replace
from quod.service.errors import AlreadyExistsError, KeyChangedError, NotFoundError
from quod.service.keys.folder import Folder, as_output_error, read_chunks
from quod.service.keys.names import KeyName, is_identity, parse_name
from quod.service.keys.record import (
    MAX_BYTES,
    RECORD,
    VERIFICATION_KEY,
    WASM,
    ZKEY,
    FileRecord,
    KeyRecord,
    parse_record,
)
from quod.service.queue.validation import checked_list
from quod.validation import file_path, flag, shown

_KEYS, _NAMES, _INCOMING = "keys", "names", "incoming"
_MAX_READ_BYTES = 256 << 20


@frozen
class ListedKey:
    """A key of a repository; a damaged key has no record, and `problem` says why."""

    identity: str
    names: tuple[str, ...]
    record: KeyRecord | None
    problem: str


@frozen
class Removed:
    """The names that were removed; `key` is true if the key was removed as well."""

    identity: str
    names: tuple[str, ...]
    key: bool


class KeyRepository:
    """A folder of Groth16 keys, for concurrent threads and processes.

    A key is given by its identity, the SHA-256 of its zkey in 64 hexadecimal digits, or by a name
    such as ``membership`` or ``membership:v2``. Raises InputError if the folder is missing and
    `create` is false. Links inside the folder, and folders writable by everybody, are refused.
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        root_path = file_path(folder)
        if "\0" in root_path or not root_path.isprintable():
            raise InputError(f"the folder of a repository cannot be {shown(root_path)}")
        self.path = os.path.abspath(root_path)
        if flag("create", create):
            with as_output_error(root_path):
                os.makedirs(self.path, 0o755, exist_ok=True)
                with Folder.at(self.path) as root:
                    for name in (_KEYS, _NAMES, _INCOMING):
                        with suppress(FileExistsError):
                            root.make(name)
        # Raises InputError if a folder is missing or must not be used.
        for name in (_KEYS, _NAMES):
            with self._inner(name):
                pass

    # --- queries

    def resolve(self, key: object) -> str:
        """Return the identity of a key; raises NotFoundError if there is none."""
        if not isinstance(key, str) or not is_identity(key):
            return self._target(parse_name(key))
        with self._inner(_KEYS) as keys:
            try:
                os.stat(key, dir_fd=keys.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                raise _not_found(key) from None
        return key

    def record(self, key: str) -> KeyRecord:
        """Return the record of a key; raises InputError if it is damaged."""
        identity = self.resolve(key)
        with self._key(identity) as folder:
            return _record(folder, identity)

    def names(self) -> dict[str, str]:
        """Return the identity of each name, without damaged names."""
        identities: dict[str, str] = {}
        with self._inner(_NAMES) as folder:
            for name in folder.names():
                with suppress(QuodError):
                    identities[name] = self._target(parse_name(name))
        return identities

    def listing(self) -> list[ListedKey]:
        """Return all keys by identity, each checked as by `check`."""
        with self._inner(_KEYS) as keys:
            identities = [name for name in keys.names() if is_identity(name)]
        names = self.names()
        listed_keys = []
        for identity in identities:
            key_names = tuple(name for name, target in names.items() if target == identity)
            record, problem = None, ""
            try:
                record = self.check(identity)
            except NotFoundError:
                continue
            except QuodError as error:
                problem = str(error)
            listed_keys.append(ListedKey(identity, key_names, record, problem))
        return listed_keys

    def check(self, key: str, *, deep: bool = False) -> KeyRecord:
        """Check that a key's files have not changed since registration; return its record.

        Compares size, time and inode of each file, and the SHA-256 of the verifying key. With
        `deep` compares all SHA-256 digests instead and, if they match, updates the recorded times
        and inodes, as after restoring a backup. Raises KeyChangedError with the changed file.
        """
        deep = flag("deep", deep)
        identity = self.resolve(key)
        with self._key(identity) as folder:
            record = _record(folder, identity)
            files = {name: _check(folder, name, file, deep) for name, file in record.files.items()}
            if files == record.files:
                return record
            record = replace(record, files=files)
            with as_output_error(self.path), self._locked():
                folder.replace(RECORD, record.to_toml().encode(), f".{RECORD}")
            return record

    def problems(self) -> list[str]:
        """Return other problems of the folder, one line each."""
        messages = [
            f"{name}: left by an interrupted registration; the next `quod keys add` deletes it"
            for name in self._unfinished_entries(delete=False)
        ]
        with self._inner(_KEYS) as keys, self._inner(_NAMES) as names:
            key_names = set(keys.names())
            messages += [
                f"{shown(name)} in {_KEYS}: is not a key; remove it"
                for name in sorted(key_names)
                if not is_identity(name)
            ]
            for name in names.names():
                if _is_unfinished(name):
                    continue
                try:
                    if self._target(parse_name(name)) not in key_names:
                        messages.append(f"{name}: refers to a missing key; remove the name")
                except QuodError as error:
                    messages.append(f"{shown(name)} in {_NAMES}: {error}")
        return messages

    # --- changes

    def add(
        self,
        zkey: Path,
        *,
        verification_key: Path | None = None,
        wasm: Path | None = None,
        names: Sequence[str] = (),
        move: bool = False,
        allow_insecure: bool = False,
    ) -> KeyRecord:
        """Register a key by copying its files, and point names to it; return its record.

        The key is on disk when this returns and invisible before. An existing key is kept, or
        replaced if its files have changed. Raises AlreadyExistsError if a name points to another
        key and `move` is false, or if the key exists with another witness calculator; the errors of
        `registration.fill`; OutputError if the disk refuses a write.
        """
        flag("move", move), flag("allow_insecure", allow_insecure)
        parsed_names = [parse_name(name) for name in checked_list("the names of a key", names)]
        from quod.service.keys.registration import fill

        with self._incoming() as folder:
            record = fill(folder, zkey, verification_key, wasm, allow_insecure)
            with as_output_error(self.path), self._locked(), self._inner(_KEYS) as keys:
                for name in parsed_names:
                    self._check_free(name, record.identity, move)
                existing = self._unchanged_record(record.identity)
                if existing is None:
                    self._publish(folder, keys, record.identity)
                elif not _has_wasm_of(existing, record):
                    raise AlreadyExistsError(
                        f"the key {record.identity} already exists with another witness "
                        "calculator, or without one; remove it first"
                    )
                for name in parsed_names:
                    self._write_name(name, record.identity)
        return existing or record

    def point(self, name: str, key: str, *, move: bool = False) -> None:
        """Point a name to a key; raises AlreadyExistsError if it is taken and `move` is false."""
        parsed_name, move = parse_name(name), flag("move", move)
        with as_output_error(self.path), self._locked():
            identity = self.resolve(key)
            self._check_free(parsed_name, identity, move)
            self._write_name(parsed_name, identity)

    def remove(self, key: str) -> Removed:
        """Remove a name, and its key if that has no other name; or an identity with all its names.

        Keys already loaded from its files are not affected.
        """
        with as_output_error(self.path), self._locked(), self._inner(_KEYS) as keys:
            identity = self.resolve(key) if is_identity(key) else self._target(parse_name(key))
            key_names = [name for name, target in self.names().items() if target == identity]
            names = key_names if is_identity(key) else [str(parse_name(key))]
            with self._inner(_NAMES) as folder:
                for name in names:
                    folder.delete(name)
                folder.sync()
            removes_key = names == key_names
            if removes_key:
                self._delete_key(keys, identity)
        return Removed(identity, tuple(names), removes_key)

    def clean(self) -> list[str]:
        """Delete leftovers of interrupted registrations; return their names."""
        with as_output_error(self.path):
            return self._unfinished_entries(delete=True)

    # --- content

    def read_zkey(self, key: str, check_cancelled: Callable[[], None] = lambda: None) -> memoryview:
        """Read a zkey into memory, so that later changes of the file have no effect.

        `check_cancelled` is called regularly and may raise. Raises KeyChangedError if the file is
        not the registered one, or changes meanwhile.
        """
        identity = self.resolve(key)
        with self._key(identity) as folder:
            expected = _record(folder, identity).files[ZKEY]
            with _open_registered(folder, ZKEY, expected) as descriptor:
                content = np.empty(expected.bytes, dtype=np.uint8).data
                offset = 0
                for chunk in read_chunks(descriptor, expected.bytes, check_cancelled):
                    content[offset : offset + len(chunk)] = chunk
                    offset += len(chunk)
                _check_status(folder, ZKEY, expected, os.fstat(descriptor))
                return content.toreadonly()

    def read(self, key: str, name: str) -> bytes:
        """Read the verifying key or the wasm of a key, verified by SHA-256.

        Raises NotFoundError if the key has no such file.
        """
        identity = self.resolve(key)
        with self._key(identity) as folder:
            files = _record(folder, identity).files
            expected = files.get(str(name))
            if expected is None:
                raise NotFoundError(f"the key {identity} has no {shown(name)}")
            with _open_registered(folder, name, expected) as descriptor:
                content = b"".join(read_chunks(descriptor, _MAX_READ_BYTES))
            _check_digest(folder, name, expected, hashlib.sha256(content).hexdigest())
            return content

    # --- helpers

    @contextmanager
    def _root(self) -> Iterator[Folder]:
        try:
            root = Folder.at(self.path)
        except OSError as error:
            raise InputError(
                f"is not a repository of keys ({os.strerror(error.errno or 0)}); create "
                "one with quod keys add",
                path=self.path,
            ) from None
        with root:
            yield root

    @contextmanager
    def _inner(self, name: str) -> Iterator[Folder]:
        with self._root() as root:
            try:
                folder = root.inner(name)
            except FileNotFoundError:
                raise InputError(
                    f"is not a repository of keys (no folder {name}); quod keys add creates one",
                    path=self.path,
                ) from None
            with folder:
                yield folder

    @contextmanager
    def _key(self, identity: str) -> Iterator[Folder]:
        with self._inner(_KEYS) as keys:
            try:
                folder = keys.inner(identity)
            except FileNotFoundError:
                raise _not_found(identity) from None
            with folder:
                try:
                    yield folder
                except KeyChangedError:
                    # While a key is removed its files disappear one by one.
                    if not keys.has(identity, folder):
                        raise _not_found(identity) from None
                    raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock for changes to keys and names."""
        with self._root() as root:
            root.lock(wait=True)
            yield

    @contextmanager
    def _incoming(self) -> Iterator[Folder]:
        """Yield a new locked folder for a key; delete it at the end unless it was moved."""
        name = secrets.token_hex(16)
        with as_output_error(self.path):
            self.clean()
            with self._inner(_INCOMING) as incoming:
                with self._locked():
                    incoming.make(name)
                    folder = incoming.inner(name)
                    folder.lock(wait=False)
                try:
                    yield folder
                finally:
                    with suppress(FileNotFoundError):
                        incoming.delete(name)
                    folder.close()

    def _unfinished_entries(self, *, delete: bool) -> list[str]:
        """Return unlocked folders in incoming and temporary files of names; may delete them."""
        unfinished = []
        try:
            with (
                self._locked(), self._inner(_INCOMING) as incoming, self._inner(_NAMES) as names
            ):  # fmt: skip
                for name in filter(_is_unfinished, names.names()):
                    unfinished.append(name)
                    if delete:
                        names.delete(name)
                for name in incoming.names():
                    with incoming.inner(name) as folder:
                        if not folder.lock(wait=False):
                            continue
                    # The process that filled it may have deleted it before unlocking it.
                    with suppress(FileNotFoundError):
                        if delete:
                            incoming.delete(name)
                        unfinished.append(name)
        except FileNotFoundError:
            return []
        return unfinished

    def _unchanged_record(self, identity: str) -> KeyRecord | None:
        """Return the record of an existing, unchanged key, or None."""
        try:
            with self._key(identity) as folder:
                record = _record(folder, identity)
                for name, file in record.files.items():
                    _check(folder, name, file, False)
                return record
        except (InputError, KeyChangedError, NotFoundError):
            return None

    def _publish(self, folder: Folder, keys: Folder, identity: str) -> None:
        self._delete_key(keys, identity)
        with self._inner(_INCOMING) as incoming:
            incoming.move(os.path.basename(folder.path), keys, identity)

    def _delete_key(self, keys: Folder, identity: str) -> None:
        """Remove a key's folder, if any, by an atomic move and then deletion."""
        name = secrets.token_hex(16)
        with self._inner(_INCOMING) as incoming, suppress(FileNotFoundError):
            keys.move(identity, incoming, name)
            incoming.delete(name)

    def _target(self, name: KeyName) -> str:
        with self._inner(_NAMES) as folder:
            try:
                content = folder.read(str(name), MAX_BYTES).decode(errors="replace").strip()
            except FileNotFoundError:
                raise _not_found(str(name)) from None
        if not is_identity(content):
            raise InputError(
                "has no identity; remove the file", path=os.path.join(_NAMES, str(name))
            )
        return content

    def _check_free(self, name: KeyName, identity: str, move: bool) -> None:
        with suppress(NotFoundError):
            current = self._target(name)
            if current != identity and not move:
                raise AlreadyExistsError(
                    f"{name} names the key {current}; choose another name, or pass --move"
                )

    def _write_name(self, name: KeyName, identity: str) -> None:
        with self._inner(_NAMES) as folder:
            folder.replace(str(name), f"{identity}\n".encode(), f".{name}")


def _has_wasm_of(existing: KeyRecord, other: KeyRecord) -> bool:
    old, new = existing.files.get(WASM), other.files.get(WASM)
    return new is None or (old is not None and old.sha256 == new.sha256)


def _is_unfinished(name: str) -> bool:
    """Report whether a file is the temporary one of a name."""
    return name.startswith(".")


def _not_found(key: str) -> NotFoundError:
    return NotFoundError(
        f"there is no key {key}; `quod keys list FOLDER` shows the keys of a repository, and "
        "`quod keys served` those of a server"
    )


def _record(folder: Folder, identity: str) -> KeyRecord:
    path = folder.file_path(RECORD)
    try:
        return parse_record(folder.read(RECORD, MAX_BYTES), path, identity)
    except FileNotFoundError:
        raise KeyChangedError(
            "is missing; register the key again (quod keys add)", path=path
        ) from None


@contextmanager
def _open_registered(folder: Folder, name: str, expected: FileRecord) -> Iterator[int]:
    """Open a file; check that its size, time and inode are those at registration."""
    with _open_file(folder, name) as descriptor:
        _check_status(folder, name, expected, os.fstat(descriptor))
        yield descriptor


@contextmanager
def _open_file(folder: Folder, name: str) -> Iterator[int]:
    try:
        with folder.file(name) as descriptor:
            yield descriptor
    except FileNotFoundError:
        path = folder.file_path(name)
        raise KeyChangedError(
            "is missing; register the key again (quod keys add)", path=path
        ) from None


def _check(folder: Folder, name: str, expected: FileRecord, deep: bool) -> FileRecord:
    """Check a file; return its record with the present status."""
    from quod.service.keys.registration import digest_of

    with _open_file(folder, name) as descriptor:
        status = os.fstat(descriptor)
        if not deep:
            _check_status(folder, name, expected, status)
        if deep or name == VERIFICATION_KEY:
            _check_digest(folder, name, expected, digest_of(descriptor))
        return FileRecord.of(expected.sha256, status)


def _check_status(folder: Folder, name: str, expected: FileRecord, status: os.stat_result) -> None:
    difference = expected.differs(status)
    if difference is not None:
        raise KeyChangedError(
            f"is not the registered file ({difference}); if that is intended, register the key "
            "again (quod keys add), or after restoring a backup run `quod keys check --deep`",
            path=folder.file_path(name),
        )


def _check_digest(folder: Folder, name: str, expected: FileRecord, actual: str) -> None:
    if actual != expected.sha256:
        raise KeyChangedError(
            f"has the SHA-256 {actual}, not the registered {expected.sha256}; register "
            "the key again (quod keys add)",
            path=folder.file_path(name),
        )
