"""Compiled code kept on disk between processes.

An entry is a file named by the hash of everything it depends on. Entries are written to a
temporary name and renamed, so processes may share the folder; each carries a hash of its key and
content, so a damaged one is noticed, removed and rebuilt.

Entries are spread over 16 folders by the first digit of their key. Each folder is kept below a
sixteenth of the size limit by removing what was used longest ago, so that storing an entry looks
at one of them only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

_SCHEMA = b"quod-cache-2\n"
_DIGEST_BYTES = 32
_SHARDS = 16
_TEMPORARY_PREFIX = ".new-"
_TEMPORARY_SECONDS = 3600
DEFAULT_LIMIT_BYTES = 512 << 20


def default_folder() -> Path:
    """`QUOD_CACHE_DIR`, or `quod` in the user's cache folder."""
    if chosen := os.environ.get("QUOD_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "quod"


def key_of(*parts: str | bytes) -> str:
    """A name for an entry that depends on `parts` and on nothing else."""
    digest = hashlib.sha256(_SCHEMA)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class CompileCache:
    """A folder of byte strings by key. A folder that cannot be used makes every look-up a miss.

    `limit_bytes` bounds all entries together; one larger than a sixteenth of it is not kept.
    """

    def __init__(self, folder: Path | None = None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder = folder or default_folder()
        self._shard_limit = limit_bytes // _SHARDS

    def _path(self, key: str) -> Path:
        return self.folder / key[0] / key

    def get(self, key: str) -> bytes | None:
        """The entry, or None if there is no sound one."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_SCHEMA) + _DIGEST_BYTES
        content = data[start:]
        if data[:start] != _seal(key, content):
            self.discard(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Stores an entry; silently does not where the folder cannot be written."""
        import tempfile

        path = self._path(key)
        seal = _seal(key, content)
        if len(seal) + len(content) > self._shard_limit:
            return
        temporary = None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_TEMPORARY_PREFIX)
            with os.fdopen(handle, "wb") as file:
                file.write(seal + content)
            os.replace(temporary, path)
            temporary = None
        except OSError:
            return
        finally:
            # Also after an interrupt.
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        self._trim(path.parent)

    def discard(self, key: str) -> None:
        """Removes an entry, if it is there."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def keep_text(self, name: str, text: str) -> Path | None:
        """Writes a file for people to read beside the entries; gives where it is.

        It is in the system's folder for temporary files where the cache cannot be written, and
        None if that cannot be written either.
        """
        import tempfile

        for folder in (self.folder / "refused", Path(tempfile.gettempdir())):
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
                return folder / name
        return None

    def _trim(self, shard: Path) -> None:
        entries = []
        with contextlib.suppress(OSError), os.scandir(shard) as files:
            for file in files:
                # Another process may remove a file meanwhile.
                with contextlib.suppress(OSError):
                    status = file.stat()
                    entries.append((status.st_mtime_ns, status.st_size, file.path))
        total = sum(size for _, size, _ in entries)
        # A process that was killed while it wrote leaves its temporary file.
        stale = time.time_ns() - _TEMPORARY_SECONDS * 10**9
        for used, size, path in sorted(entries):
            temporary = os.path.basename(path).startswith(_TEMPORARY_PREFIX)
            if (used < stale) if temporary else (total > self._shard_limit):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    total -= size


def _seal(key: str, content: bytes) -> bytes:
    """What precedes the content in a file: it fits this key and content only."""
    return _SCHEMA + hashlib.sha256(key.encode() + b"\n" + content).digest()
