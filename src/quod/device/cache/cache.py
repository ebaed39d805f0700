"""A cache of compiled code on disk, shared by processes.

An entry is a file named by the hash of everything it depends on. Entries are written to a temporary
name and renamed, so processes may share the folder. Each entry contains a hash of its key and
content, so a damaged one is detected, removed and rebuilt.

Entries are code that runs with the user's rights, so the cache uses only a folder that no other
user can change (see `private_folder`). A folder of the user or root that cannot be written is still
read. If nothing can be read or kept, one warning gives the reason.

Entries are spread over 16 folders by the first digit of their key. Each folder is kept below a
sixteenth of the size limit by removing the entries used longest ago, so storing an entry scans only
one folder. To scan a full folder of thousands of entries takes longer than to store an entry. So
after a scan, 1/32 of the folder's limit may be stored before the next scan.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from quod.private_folder import NotOwnError, open_base, open_within, read_own

_SCHEMA = b"quod-cache-3\n"
_DIGEST_BYTES = 32
_SEAL_BYTES = len(_SCHEMA) + _DIGEST_BYTES
_SHARDS = 16
# A folder is scanned this number of times while as many bytes as its limit are stored.
_LOOKS = 32
_TEMPORARY_PREFIX = ".new-"
_TEMPORARY_SECONDS = 3600
# Times of use that differ by less than this count as equal.
_SECONDS_OF_USE = 3600
# The folder of the texts that a driver or assembler refused, for human readers.
_TEXTS = "refused"
_MAX_TEXTS = 100
DEFAULT_LIMIT_BYTES = 512 << 20

# Other files in the cache's folders are neither read nor removed.
_ENTRY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(re.escape(_TEMPORARY_PREFIX) + r"[0-9a-f]{32}")
_TEXT = re.compile(r".+-[0-9a-f]{32}\.[a-z]+")

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CacheWarning(UserWarning):
    """The warning that compiled code is not cached, or cached code is not used."""


def default_folder() -> Path:
    """Return `QUOD_CACHE_DIR`, or `quod` in the user's cache folder.

    As in the XDG base directory specification, a relative `XDG_CACHE_HOME` is ignored.
    Raises `NotOwnError` if `QUOD_CACHE_DIR` is relative or the user has no home folder: code from
    the current folder is not the user's.
    """
    if override := os.environ.get("QUOD_CACHE_DIR"):
        if not os.path.isabs(override):
            raise NotOwnError(f"QUOD_CACHE_DIR is {override!r}, which is not an absolute path")
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "quod"
    home = os.path.expanduser("~") if os.environ.get("HOME", "~") else ""
    if not os.path.isabs(home):
        raise NotOwnError("the user has no home folder")
    return Path(home) / ".cache" / "quod"


def key_of(*parts: str | bytes) -> str:
    """Return the name of a cache entry: a SHA-256 digest of `parts` in hex."""
    digest = hashlib.sha256(_SCHEMA)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class CompileCache:
    """A folder of byte strings by key, safe to use from any thread.

    folder: None if no folder can be used.
    limit_bytes: limit of all entries together. An entry larger than a sixteenth of it is neither
    kept nor read.
    """

    def __init__(self, folder: Path | None = None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder: Path | None = None
        self._refusal: OSError | None = None
        try:
            self.folder = default_folder() if folder is None else folder.absolute()
        except NotOwnError as error:
            self._refusal = error
        self._shard_limit = limit_bytes // _SHARDS
        self._room: dict[str, int] = {}
        """Bytes that may be stored in a folder before its next scan."""
        self._lock = threading.Lock()
        self._base: int | None = None
        self._close: weakref.finalize[[int], CompileCache] | None = None

    def get(self, key: str) -> bytes | None:
        """Return the content of an entry, or None. A damaged entry is deleted."""
        with contextlib.suppress(OSError), self._within(key[0]) as shard:
            data = _read(shard, key, self._shard_limit)
            content = data[_SEAL_BYTES:]
            if data[:_SEAL_BYTES] == _seal(key, content):
                return content
            os.unlink(key, dir_fd=shard)
        return None

    def put(self, key: str, content: bytes) -> None:
        """Store an entry; the first failure in a process warns."""
        data = _seal(key, content) + content
        if len(data) > self._shard_limit:
            return
        try:
            with self._within(key[0], create=True) as shard:
                temporary: str | None = _TEMPORARY_PREFIX + os.urandom(16).hex()
                assert temporary is not None
                try:
                    _write_new(temporary, data, shard)
                    os.replace(temporary, key, src_dir_fd=shard, dst_dir_fd=shard)
                    temporary = None
                finally:
                    # Also after an interrupt.
                    if temporary is not None:
                        with contextlib.suppress(OSError):
                            os.unlink(temporary, dir_fd=shard)
                self._make_room(key[0], shard, len(data))
        except NotOwnError:
            return  # the warning was given
        except OSError as error:
            _warn_once(self.folder, f"{error.strerror or error}")

    def keeps(self) -> bool:
        """Return whether the cache appears writable; creates its folder if necessary."""
        try:
            base = self._open_base(create=True)
            writable = os.access(".", os.W_OK | os.X_OK, dir_fd=base)
        except OSError:
            return False
        with _warning:
            return writable and self.folder not in _warned_folders

    def discard(self, key: str) -> None:
        """Remove an entry, if it is there."""
        with contextlib.suppress(OSError), self._within(key[0]) as shard:
            os.unlink(key, dir_fd=shard)

    def keep_text(self, name: str, text: str) -> Path | None:
        """Write a file for human readers next to the entries; return its path.

        The file name is `name` with a random part before the suffix. If the cache cannot be
        written, the file is in the system's folder for temporary files. Returns None if that fails,
        too.
        """
        import tempfile

        stem, suffix = os.path.splitext(name)
        name = f"{stem}-{os.urandom(16).hex()}{suffix}"
        data = text.encode()
        with contextlib.suppress(OSError), self._within(_TEXTS, create=True) as texts:
            _write_new(name, data, texts)
            for _, _, old in _own_files(texts, _TEXT)[:-_MAX_TEXTS]:
                os.unlink(old, dir_fd=texts)
            assert self.folder is not None
            return self.folder / _TEXTS / name
        with contextlib.suppress(OSError):
            path = Path(tempfile.gettempdir()).absolute() / name
            _write_new(str(path), data)
            return path
        return None

    # --- the folders

    @contextlib.contextmanager
    def _within(self, name: str, *, create: bool = False) -> Iterator[int]:
        """Open one of the cache's folders and yield its descriptor.

        If other users could write to the folder, its files are deleted first.
        Raises OSError if the folder does not exist or must not be used.
        """
        try:
            folder, was_open = self._open_within(name, create=create)
        except NotOwnError as error:
            _warn_once(self.folder, str(error))
            raise
        try:
            if was_open:
                for _, _, file in _own_files(folder, _ENTRY, _TEMPORARY, _TEXT):
                    os.unlink(file, dir_fd=folder)
            yield folder
        finally:
            os.close(folder)

    def _open_within(self, name: str, *, create: bool) -> tuple[int, bool]:
        base = self._open_base(create=create)
        try:
            return open_within(base, name, create=create)
        except FileNotFoundError:
            if not create:
                raise
        # Another process has removed the base folder since it was opened.
        self._forget_base()
        return open_within(self._open_base(create=True), name, create=True)

    def _open_base(self, *, create: bool) -> int:
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._base is None:
                try:
                    self._base = open_base(str(self.folder), create=create)
                except NotOwnError as error:
                    self._refusal = error
                    raise
                self._close = weakref.finalize(self, os.close, self._base)
            return self._base

    def _forget_base(self) -> None:
        with self._lock:
            if self._close is not None:
                # Another thread may use it still, so it is closed with the cache.
                self._base = self._close = None

    def _make_room(self, name: str, shard: int, stored: int) -> None:
        """Trim a shard once the bytes `stored` exceed the room that is left in it."""
        with self._lock:
            self._room[name] = room = self._room.get(name, 0) - stored
        if room < 0:
            room = self._trim(shard)
            with self._lock:
                self._room[name] = room

    def _trim(self, shard: int) -> int:
        """Remove the entries used longest ago; return the bytes to store until the next scan.

        Other processes may store at most the same amount each in the meantime.
        """
        entries = []
        total = 0
        # A process that was killed while it wrote leaves its temporary file.
        stale = time.time_ns() - _TEMPORARY_SECONDS * 10**9
        for used, size, name in _own_files(shard, _ENTRY, _TEMPORARY):
            if not name.startswith(_TEMPORARY_PREFIX):
                entries.append((size, name))
                total += size
            elif used < stale:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=shard)
        bytes_per_scan = self._shard_limit // _LOOKS
        if total > self._shard_limit:
            for size, name in entries:
                if total <= self._shard_limit - bytes_per_scan:
                    break
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=shard)
                total -= size
        return min(self._shard_limit - total, bytes_per_scan)


def _own_files(folder: int, *patterns: re.Pattern[str]) -> list[tuple[int, int, str]]:
    """List time of use (ns), size (bytes) and name of files that match, oldest first."""
    used_files = []
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        for file in files:
            if any(pattern.fullmatch(file.name) for pattern in patterns):
                # Another process may remove a file meanwhile.
                with contextlib.suppress(OSError):
                    status = file.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        used_files.append((status.st_mtime_ns, status.st_size, file.name))
    return sorted(used_files)


def _read(shard: int, name: str, most: int) -> bytes:
    """Read a file of the user or root and update its time of use; empty for any other file."""
    # The modification time of an entry is its time of use.
    data, used = read_own(shard, name, most)
    if data and time.time() - used > _SECONDS_OF_USE:
        with contextlib.suppress(OSError):
            os.utime(name, dir_fd=shard, follow_symlinks=False)
    return data


def _write_new(name: str, data: bytes, folder: int | None = None) -> None:
    """Create a file that only the user can read; raises OSError if it exists."""
    with open(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)


def _seal(key: str, content: bytes) -> bytes:
    """Return the header of an entry's file, which binds its key and content."""
    return _SCHEMA + hashlib.sha256(key.encode() + b"\n" + content).digest()


_warned_folders: set[Path | None] = set()
_warning = threading.Lock()


def _warn_once(folder: Path | None, reason: str) -> None:
    """Warn, once per process and folder, that compiled code is not kept."""
    with _warning:
        if folder in _warned_folders:
            return
        _warned_folders.add(folder)
    import warnings

    location = "" if folder is None else f" in {folder}"
    warnings.warn(
        f"compiled kernels cannot be cached{location} and are compiled again in each run: "
        f"{reason}; set QUOD_CACHE_DIR to a folder that only you may write to",
        CacheWarning,
        stacklevel=2,
    )
