"""Records of the verified parts of a long verification, so that an interrupted run can resume.

Records are in the user's cache, which is trusted anyway, as it has machine code. Their keys are
digests of the verified bytes and of Quod's code. Bytes are verified before they are hashed, and a
digest is recorded only if the file is unchanged. Short runs record nothing, and after a successful
verification the next one checks everything again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.formats import resumable
from quod.formats.iden3 import Iden3File
from quod.validation import check_function, flag

What = str | Callable[[], str]
"""A statement that was verified about some bytes, or a function that returns its text."""


class VerifiedParts:
    """A resumable verification in parts, as a context manager around the whole verification."""

    def __init__(
        self, *files: Iden3File, resume: bool = True, report: Callable[[str], None] = lambda _: None
    ) -> None:
        """Begin or resume a verification.

        files: the files to verify; the first gives the name in messages.
        resume: whether to skip the parts that an interrupted run has verified.
        report: called with a message if the verification is resumed.
        Raises InputError for arguments of another type.
        """
        resume = flag("resume", resume)
        check_function("report", report)
        self._name, self._files = files[0].path, files
        self._cache = CompileCache()
        # The run's key identifies the files; the key of each part has the digest of its content.
        file_descriptions = repr([(os.path.abspath(file.path), file.size) for file in files])
        self._run_key = key_of("a verification", sources.digest(), file_descriptions)
        self._is_resumed = resume and self._cache.get(self._run_key) is not None
        self._pending: list[tuple[What, tuple[NDArray[Any], ...]]] = []
        self._last_write = monotonic()
        self._is_recorded = False
        if self._is_resumed:
            report(f"{self._name}: resuming after an interruption")

    def once(self, what: What, check: Callable[[], None], *arrays: NDArray[Any]) -> None:
        """Call `check`, which raises on failure, unless an earlier run has verified this part.

        The result of `check` must depend only on `what` and the arrays, which may be views of
        files.
        """
        if not self.is_known(what, *arrays):
            check()
            self.add(what, *arrays)

    def is_known(self, what: What, *arrays: NDArray[Any]) -> bool:
        """Return whether an earlier run has verified this part."""
        return self._is_resumed and self._cache.get(_key(what, arrays)) is not None

    def add(self, what: What, *arrays: NDArray[Any]) -> None:
        """Record a verified part; write the records to the cache every few seconds.

        Raises InputError if a file has changed.
        """
        self._pending.append((what, arrays))
        if monotonic() - self._last_write < resumable.SECONDS_BETWEEN:
            return
        keys = [_key(*part) for part in self._pending]
        for file in self._files:
            file.check_unchanged()
        for key in keys:
            self._cache.put(key, b"")
        if not self._is_recorded:
            self._cache.put(self._run_key, b"")
            # Read back, as the cache may not be writeable.
            self._is_recorded = self._cache.get(self._run_key) is not None
        self._pending.clear()
        self._last_write = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        has_records = self._is_recorded or self._is_resumed
        if has_records and kind is None:
            self._cache.discard(self._run_key)
        elif has_records and isinstance(error, resumable.INTERRUPTIONS):
            resumable.kept.append(self._name)


def _key(what: What, arrays: tuple[NDArray[Any], ...]) -> str:
    """Return the cache key of a verified part: a digest of the statement and the arrays."""
    digest = hashlib.blake2b()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    text = what if isinstance(what, str) else what()
    return key_of("a verified part", sources.digest(), text, digest.digest())
