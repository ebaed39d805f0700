"""Compiled code kept on disk between processes.

An entry is a file named by the hash of everything it depends on. Entries are written to a
temporary name and renamed, so processes may share the folder; each carries the hash of its
content, so a damaged one is noticed, removed and rebuilt. The folder is kept below a size by
removing what was used longest ago.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

_SCHEMA = b"quod-cache-1\n"
_DIGEST_BYTES = 32
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
    """A folder of byte strings by key. A folder that cannot be used makes every look-up a miss."""

    def __init__(self, folder: Path | None = None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder = folder or default_folder()
        self._limit_bytes = limit_bytes

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def get(self, key: str) -> bytes | None:
        """The entry, or None if there is no sound one."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_SCHEMA) + _DIGEST_BYTES
        content = data[start:]
        if data[:start] != _SCHEMA + hashlib.sha256(content).digest():
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Stores an entry; silently does not where the folder cannot be written."""
        path = self._path(key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(_SCHEMA + hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return
        self._trim()

    def _trim(self) -> None:
        entries = []
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self._limit_bytes:
                return
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
