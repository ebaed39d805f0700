"""Kernels assembled ahead of time: the shipped folder of cubins, and its reader.

There is a folder for each architecture, with `manifest.json` and the cubins. A cubin is named after
the SHA-256 of the PTX from which it was assembled. For kernels with setmaxnreg, which the linker
that assembles cubins drops, the file is the PTX itself.

An entry of the manifest is found by the digest of its PTX. Without tracing it is found by a key
over everything that determines the PTX, including Quod's sources, so only if the sources are the
same. An entry has a checksum and the digest of its code. If the code does not match its digest, the
kernel is compiled instead, after a warning; if an entry does not match its checksum, all kernels
are.

Code from the folder runs with the user's rights, so the folder is checked as the cache is: see
`quod.private_folder`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quod import shallow_json
from quod.device.cache import sources
from quod.device.cache.cache import CacheWarning
from quod.device.cache.compiled_code import CompiledCode, KernelFacts, trace_key, uses_of
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine
from quod.private_folder import open_base, read_own

FORMAT = "quod-kernels-1"
MANIFEST = "manifest.json"
VARIABLE = "QUOD_KERNELS"

_PACKAGE_FOLDER = Path(__file__).resolve().parents[2] / "prebuilt"
_MAX_MANIFEST = 64 << 20
_MAX_CODE = 256 << 20
_HEX = re.compile(r"[0-9a-f]{64}")


def prebuilt_key(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> str | None:
    """Return the `trace_key` of a kernel, with the manifest's format as the toolchain.

    It does not depend on the assembler. None if the kernel has no such key.
    """
    return trace_key(definition, machine, static, FORMAT)


def cubin_name(text_digest: str) -> str:
    """Return the file name of the code assembled from the PTX with this digest."""
    return f"{text_digest}.cubin"


@frozen
class Entry:
    """A kernel of a manifest: its facts, its trace key, and its code's size and digest.

    `kernel` and `workgroup` are only for human readers.
    """

    kernel: str
    workgroup: int
    trace_key: str | None
    facts: KernelFacts
    size: int
    code_digest: str

    @classmethod
    def of(
        cls, kernel: str, workgroup: int, trace_key: str | None, facts: KernelFacts, code: bytes
    ) -> Entry:
        """Make the entry of some code."""
        return cls(kernel, workgroup, trace_key, facts, len(code), _digest(code))

    def document(self) -> dict[str, Any]:
        """Return the entry as a JSON object with its checksum."""
        facts = self.facts
        early = facts.uses.early
        fields: dict[str, Any] = {
            "kernel": self.kernel, "workgroup": self.workgroup, "trace": self.trace_key,
            "text": facts.digest, "entry": facts.entry, "stored": list(facts.uses.stored),
            "atomic": list(facts.uses.atomic), "early": None if early is None else list(early),
            "shared_bytes": facts.shared_bytes,
            "dynamic_shared_bytes": facts.dynamic_shared_bytes, "size": self.size,
            "code": self.code_digest,
        }  # fmt: skip
        return {**fields, "seal": _checksum(fields)}

    @classmethod
    def parse(cls, document: Any) -> Entry:
        """Parse the result of `document`; raise ValueError for anything else."""
        try:
            row = {key: value for key, value in document.items() if key != "seal"}
            if document["seal"] != _checksum(row):
                raise ValueError(f"an entry of {MANIFEST} does not match its checksum")
            if not _HEX.fullmatch(row["text"]):
                raise ValueError(f"an entry of {MANIFEST} has no SHA-256 digest of its PTX")
            if not isinstance(row["trace"], str | None):
                raise ValueError(f"an entry of {MANIFEST} has a trace key that is no text")
            facts = KernelFacts(
                uses_of(row), row["shared_bytes"], row["entry"], row["dynamic_shared_bytes"],
                row["text"],
            )  # fmt: skip
            return cls(
                row["kernel"],
                row["workgroup"],
                row["trace"],
                facts,
                row["size"],
                row["code"],
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{MANIFEST} has an invalid entry ({error!r})") from error


def manifest(arch: str, toolchain: str, entries: Sequence[Entry]) -> bytes:
    """Return the manifest of an architecture's folder as JSON."""
    # Imported here, as the package's root is in a layer above this module.
    import quod

    fields = {
        "format": FORMAT, "arch": arch, "quod": quod.__version__, "sources": sources.digest(),
        "toolchain": toolchain, "kernels": [entry.document() for entry in entries],
    }  # fmt: skip
    return (json.dumps(fields, indent=1) + "\n").encode()


class PrebuiltKernels:
    """The kernels of one architecture in a folder; for use from any thread.

    folder: None if there is no folder. A fault of the folder is reported once, by a `CacheWarning`.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, arch: str) -> None:
        self.folder = None if folder is None else os.fspath(folder)
        self.arch = arch
        self._lock = threading.Lock()
        self._warned = False
        self._by_digest: dict[str, Entry] | None = None if self.folder is not None else {}
        self._by_trace_key: dict[str, Entry] = {}

    @classmethod
    def installed(cls, arch: str) -> PrebuiltKernels:
        """Open the folder that QUOD_KERNELS names, else `prebuilt` in the package."""
        override = os.environ.get(VARIABLE)
        if override:
            return cls(override, arch)
        return cls(_PACKAGE_FOLDER if _PACKAGE_FOLDER.is_dir() else None, arch)

    def find_untraced(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
    ) -> CompiledCode | None:
        """Return a prebuilt kernel by its trace key, without tracing it, or None."""
        if not self._entries():
            return None
        entry = self._by_trace_key.get(prebuilt_key(definition, machine, static) or "")
        code = None if entry is None else self._code(entry)
        return None if entry is None or code is None else CompiledCode(entry.facts, code)

    def code_of(self, text_digest: str) -> bytes | None:
        """Return the code assembled from the PTX with this digest, or None."""
        entry = self._entries().get(text_digest)
        return None if entry is None else self._code(entry)

    def warn(self, why: str, effect: str = "are compiled instead") -> None:
        """Warn, once, of the effect on the folder's kernels, with the reason."""
        if not self._warned:
            self._warned = True
            is_set = self.folder == os.environ.get(VARIABLE)
            warnings.warn(
                f"kernels for {self.arch} in {self.folder} {effect}: {why}; build them again with "
                f"`quod kernel build`{f', or unset {VARIABLE}' if is_set else ''}",
                CacheWarning,
                stacklevel=2,
            )

    # --- the folder

    def _entries(self) -> dict[str, Entry]:
        with self._lock:
            if self._by_digest is None:
                self._by_digest = {}
                try:
                    entries = self._read_manifest()
                except (OSError, ValueError) as error:
                    self.warn(_why(error))
                else:
                    self._by_digest = {entry.facts.digest: entry for entry in entries}
                    self._by_trace_key = {
                        entry.trace_key: entry for entry in entries if entry.trace_key
                    }
            return self._by_digest

    def _read_manifest(self) -> list[Entry]:
        document = shallow_json.load(self._read(MANIFEST, _MAX_MANIFEST))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"{MANIFEST} does not have the format {FORMAT}")
        if document.get("arch") != self.arch or not isinstance(document.get("kernels"), list):
            raise ValueError(f"{MANIFEST} is not for {self.arch}")
        entries = [Entry.parse(row) for row in document["kernels"]]
        if document.get("sources") != sources.digest():
            self.warn(
                f"Quod {document.get('quod')} built them from other sources",
                "are used only where the PTX is the same",
            )
        return entries

    def _code(self, entry: Entry) -> bytes | None:
        try:
            code = self._read(cubin_name(entry.facts.digest), _MAX_CODE)
            if len(code) != entry.size or _digest(code) != entry.code_digest:
                raise ValueError(f"the code of {entry.kernel} is damaged")
        except (OSError, ValueError) as error:
            self.warn(_why(error))
            return None
        return code

    def _read(self, name: str, most: int) -> bytes:
        """Read a file of the architecture's folder, of at most `most` bytes.

        Raises OSError or ValueError if the file must not be used.
        """
        assert self.folder is not None
        folder = open_base(os.path.join(self.folder, self.arch))
        try:
            data, _ = read_own(folder, name, most)
        finally:
            os.close(folder)
        if not data:
            raise ValueError(f"{name} is empty, too long or not owned by the user")
        return data


def _digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


def _checksum(row: Mapping[str, Any]) -> str:
    text = json.dumps(row, sort_keys=True, separators=(",", ":"))
    return _digest(f"{FORMAT}\n{text}".encode())


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.strerror}" + (f": {error.filename}" if error.filename else "")
    return str(error)
