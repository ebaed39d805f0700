"""Kernels assembled ahead of time: the shipped folder of cubins, and its reader.

There is a folder for each architecture, with `manifest.json` and the cubins. A cubin is named after
the SHA-256 of the PTX from which it was assembled. For kernels that redistribute registers, which
linked code cannot, the file is the PTX itself. An entry is found by that digest, or, without
tracing, by a key over everything that determines the text, including Quod's sources; entries of
other sources are never found. An entry has a seal over its facts and a digest of its code. If
either does not match, the kernel is compiled instead, after a warning.

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
    """Return the key of a kernel before tracing, for any assembler; see `trace_key`."""
    return trace_key(definition, machine, static, FORMAT)


def cubin_name(text_digest: str) -> str:
    """Return the file name of the code of a kernel's text."""
    return f"{text_digest}.cubin"


@frozen
class Entry:
    """A kernel of a manifest: its facts, its trace key, and its code's size and digest.

    `kernel` and `workgroup` are only for human readers.
    """

    kernel: str
    workgroup: int
    trace: str | None
    facts: KernelFacts
    size: int
    code: str

    @classmethod
    def of(
        cls, kernel: str, workgroup: int, trace: str | None, facts: KernelFacts, code: bytes
    ) -> Entry:
        """Make the entry of some code."""
        return cls(kernel, workgroup, trace, facts, len(code), hashlib.sha256(code).hexdigest())

    def document(self) -> dict[str, Any]:
        """Return the entry as a JSON object with its seal."""
        facts = self.facts
        early = facts.uses.early
        fields: dict[str, Any] = {
            "kernel": self.kernel, "workgroup": self.workgroup, "trace": self.trace,
            "text": facts.digest, "entry": facts.entry, "stored": list(facts.uses.stored),
            "atomic": list(facts.uses.atomic), "early": None if early is None else list(early),
            "shared_bytes": facts.shared_bytes,
            "dynamic_shared_bytes": facts.dynamic_shared_bytes, "size": self.size,
            "code": self.code,
        }  # fmt: skip
        return {**fields, "seal": _seal(fields)}

    @classmethod
    def parse(cls, document: Any) -> Entry:
        """Parse the result of `document`; raise ValueError for anything else."""
        try:
            row = {key: value for key, value in document.items() if key != "seal"}
            if document["seal"] != _seal(row) or not _HEX.fullmatch(row["text"]):
                raise ValueError("its checksum does not match")
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
            raise ValueError(f"an entry is none ({error!r})") from error


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
        self._by_text: dict[str, Entry] | None = None if self.folder is not None else {}
        self._by_trace: dict[str, Entry] = {}

    @classmethod
    def installed(cls, arch: str) -> PrebuiltKernels:
        """Open the folder that QUOD_KERNELS names, else `prebuilt` in the package."""
        override = os.environ.get(VARIABLE)
        if override:
            return cls(override, arch)
        return cls(_PACKAGE_FOLDER if _PACKAGE_FOLDER.is_dir() else None, arch)

    def traced(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
    ) -> CompiledCode | None:
        """Return a prebuilt kernel that need not be traced, or None."""
        if not self._entries():
            return None
        entry = self._by_trace.get(prebuilt_key(definition, machine, static) or "")
        code = None if entry is None else self._code(entry)
        return None if entry is None or code is None else CompiledCode(entry.facts, code)

    def code_of(self, text: str) -> bytes | None:
        """Return the cubin of the PTX with this digest, or None."""
        entry = self._entries().get(text)
        return None if entry is None else self._code(entry)

    def warn(self, why: str) -> None:
        """Warn, once, that the folder's kernels are compiled instead, with the reason."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"kernels for {self.arch} in {self.folder} are compiled instead: {why}; "
                f"build them again with `quod kernel build`, or unset {VARIABLE}",
                CacheWarning,
                stacklevel=2,
            )

    # --- the folder

    def _entries(self) -> dict[str, Entry]:
        with self._lock:
            if self._by_text is None:
                self._by_text = {}
                try:
                    entries = self._read_manifest()
                except (OSError, ValueError) as error:
                    self.warn(_why(error))
                else:
                    self._by_text = {entry.facts.digest: entry for entry in entries}
                    self._by_trace = {entry.trace: entry for entry in entries if entry.trace}
            return self._by_text

    def _read_manifest(self) -> list[Entry]:
        document = shallow_json.load(self._read(MANIFEST, _MAX_MANIFEST))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"{MANIFEST} does not have the format {FORMAT}")
        if document.get("arch") != self.arch or not isinstance(document.get("kernels"), list):
            raise ValueError(f"{MANIFEST} is not for {self.arch}")
        entries = [Entry.parse(row) for row in document["kernels"]]
        if document.get("sources") != sources.digest():
            self.warn(
                "they were built from other sources than this version of Quod "
                f"({document.get('quod')}), and only those with the same PTX are used"
            )
        return entries

    def _code(self, entry: Entry) -> bytes | None:
        try:
            code = self._read(cubin_name(entry.facts.digest), _MAX_CODE)
            if len(code) != entry.size or hashlib.sha256(code).hexdigest() != entry.code:
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


def _seal(entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{FORMAT}\n{text}".encode()).hexdigest()


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.strerror}" + (f": {error.filename}" if error.filename else "")
    return str(error)
