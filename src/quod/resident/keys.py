"""The keys that the resident helper keeps open between commands, within a memory bound."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from quod.device.discovery import resolve_device
from quod.device.host import available_memory_bytes
from quod.device.memory.budget import OutOfMemory, bytes_text
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.formats.iden3 import Iden3File
from quod.formats.source import FileView, opened_file, read_file
from quod.formats.zkey.file import KIND, VERSION, Zkey, coefficient_dtype
from quod.formats.zkey.header import read_groth16_header
from quod.frozen import replace
from quod.groth16 import ProvingKey
from quod.service.keys.cache import KeyCache
from quod.service.keys.leases import Lease
from quod.service.keys.loader import Groth16Loader
from quod.service.keys.needs import Tier
from quod.service.keys.record import ZKEY, FileRecord, KeyRecord

_DEVICE_SHARE = 0.5
"""The share of a GPU's free memory for keys: other processes prove on it too."""

_MAX_PATHS = 1 << 12


class KeyFiles:
    """Zkeys by the identity of their file; a `quod.service.keys.loader.KeySource`.

    The identity has all attributes that change when a file is written to or replaced.
    """

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}

    def identify(self, path: str | os.PathLike[str]) -> str:
        """Return the identity of a file, whose path `record` and `read_zkey` use from now on."""
        identity = _identity_of(os.stat(path))
        self.paths[identity] = os.path.abspath(path)
        return identity

    def record(self, identity: str) -> KeyRecord:
        """See `KeySource.record`; reads the header. Raises InputError for a malformed one."""
        path = self.paths[identity]
        with opened_file(path) as (file, status):
            self._check_identity(identity, status)
            container = Iden3File.parse(FileView(path, file, status.st_size), path, KIND, VERSION)
            header, _ = read_groth16_header(container)
            entry_bytes = coefficient_dtype(header.curve.fr.words).itemsize
            return KeyRecord(
                identity=identity,
                protocol=header.protocol,
                registered="",
                curve=header.curve.name,
                variables=header.variables,
                public=header.public,
                constraints=0,
                domain=header.domain_size,
                entries=container.section(4, "coefficients").remaining // entry_bytes,
                insecure="",
                files={ZKEY: FileRecord.of("", status)},
            )

    def read_zkey(self, identity: str, check_cancelled: Callable[[], None]) -> memoryview:
        """See `KeySource.read_zkey`; raises InputError if the file is not the identified one."""
        path = self.paths[identity]
        check_cancelled()
        content = read_file(path, lambda view: None)
        self._check_identity(identity, os.stat(path))
        return content

    def _check_identity(self, identity: str, status: os.stat_result) -> None:
        if _identity_of(status) != identity:
            raise InputError(
                "changed while it was opened; open it again", path=self.paths[identity]
            )


def _identity_of(status: os.stat_result) -> str:
    numbers = (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )  # fmt: skip
    return ":".join(map(str, numbers))


class HelperKeys:
    """The keys of the resident helper, which runs one command at a time.

    memory_bytes: the bound on the host memory of all keys.

    Keys of one device are kept at a time, the device of the last command. A key that does not fit,
    or is malformed, is opened as without a helper, and closed at the end of the command.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._files = KeyFiles()
        self._identities: dict[str, str] = {}
        self._device: AnyDevice | None = None
        self._cache: KeyCache[Zkey, ProvingKey] | None = None
        self._loader: Groth16Loader | None = None
        self._command_cleanup = contextlib.ExitStack()

    def open(self, path: Path, device: str, timeline: Timeline) -> ProvingKey:
        """Open a key for a command: a kept one if the file is still the same.

        Raises as `ProvingKey.from_zkey` does, and OutOfMemory if kept keys leave too little memory
        for a proof.
        """
        lease = self._lease(path, device)
        if lease is None:
            key = ProvingKey.from_zkey(path, device=device, timeline=timeline)
            self._command_cleanup.callback(key.close)
            return key
        self._command_cleanup.callback(lease.release)
        key = lease.value
        available = available_memory_bytes()
        if in_host_memory(key.device) and key.peak_bytes > available:
            raise OutOfMemory(
                f"a proof needs {bytes_text(key.peak_bytes)} of memory, and the keys of the helper "
                f"leave {bytes_text(available)}",
                "end it with `quod resident stop`",
            )
        # Error messages about the key show the path that this command was given.
        key.zkey = replace(key.zkey, path=os.fspath(path))
        return key

    def end_command(self) -> None:
        """Release the keys that the command opened."""
        self._command_cleanup.close()

    def close(self) -> None:
        """Close all keys and free their memory."""
        self._command_cleanup.close()
        if self._cache is not None:
            self._cache.close()
        self._cache = self._device = self._loader = None
        self._identities.clear()
        self._files = KeyFiles()

    def describe(self) -> list[str]:
        """Return a line for each kept key: its path, device and memory."""
        cache, device = self._cache, self._device
        if cache is None or device is None:
            return []
        return [
            f"{self._files.paths.get(usage.key, usage.key)}: on {device.name}, "
            f"{bytes_text(usage.host_bytes + usage.device_bytes)}"
            for usage in cache.status().keys
            if usage.ready
        ]

    def _lease(self, path: Path, device_name: str) -> Lease[ProvingKey] | None:
        """Lease a kept key, and load it if it is not kept; None if it cannot be kept."""
        try:
            if len(self._files.paths) > _MAX_PATHS:
                self.close()
            identity = self._files.identify(path)
            cache, loader = self._cache_of(resolve_device(device_name))
            self._evict_replaced(path, identity, cache)
            kept = {usage.key for usage in cache.status().keys if usage.ready}
            if identity not in kept:
                needed = loader.needs(identity).bytes(Tier.HOST)
                if needed > available_memory_bytes():
                    for kept_identity in kept:
                        cache.evict(kept_identity)
                if needed > available_memory_bytes():
                    return None
            return cache.lease(identity)
        except MemoryError:
            self.close()
        except (OSError, QuodError, ValueError):
            # Opening the key without the cache raises the error that the command reports.
            pass
        return None

    def _cache_of(self, device: AnyDevice) -> tuple[KeyCache[Zkey, ProvingKey], Groth16Loader]:
        if self._cache is None or self._loader is None or device is not self._device:
            files = self._files
            self.close()
            self._files, self._device = files, device
            device_bytes = (
                0 if in_host_memory(device) else int(device.memory_budget * _DEVICE_SHARE)
            )
            # One proof at a time needs no memory for concurrent proofs and batches.
            self._loader = Groth16Loader(self._files, device, device_bytes, lanes=1, max_batch=1)
            budgets = {Tier.HOST: self._memory_bytes, Tier.DEVICE: device_bytes}
            self._cache = KeyCache(self._loader, budgets)
        return self._cache, self._loader

    def _evict_replaced(self, path: Path, identity: str, cache: KeyCache[Zkey, ProvingKey]) -> None:
        """Evict the key that a path named before, if it names another one now."""
        real_path = os.path.realpath(path)
        previous = self._identities.get(real_path)
        if previous not in (None, identity):
            cache.evict(previous)
        self._identities[real_path] = identity
