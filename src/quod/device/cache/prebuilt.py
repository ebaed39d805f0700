"""Kernels compiled ahead of time: the shipped folder of machine code, and its reader.

There is a folder for each architecture of GPUs, and for each feature level of CPUs
(`quod.device.cpu.levels`), with `manifest.json` and a file for each text: a cubin for PTX, a memory
image for LLVM. It is named after the SHA-256 of the text. For kernels with setmaxnreg, which the
linker that assembles cubins drops, the file is the PTX itself.

An entry of the manifest is found by the digest of its text. Without tracing it is found by a key
over everything that determines the text, including Quod's sources, so only if the sources are the
same. An entry has a checksum and the digest of its code. If one of them does not match, the kernel
is compiled instead, after a warning; if the manifest is malformed, all kernels are.

The folder is the one that QUOD_KERNELS names, or else the installed package `quod_kernels`, which
is not imported. Code from the folder runs with the user's rights, so a named folder is checked as
the cache is: see `quod.private_folder`. The package is code that Python itself would run, with
whatever owner and mode the installer gave it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from quod import shallow_json
from quod.device.cache import sources
from quod.device.cache.cache import CacheWarning
from quod.device.cache.compiled_code import CompiledCode, KernelFacts, trace_key, uses_of
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine
from quod.private_folder import open_base, read_own

FORMAT = "quod-kernels-2"
MANIFEST = "manifest.json"
VARIABLE = "QUOD_KERNELS"
PACKAGE = "quod_kernels"

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


def code_name(facts: KernelFacts) -> str:
    """Return the file name of a kernel's code."""
    return f"{facts.digest}.{'cubin' if facts.offset is None else 'image'}"


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
            "dynamic_shared_bytes": facts.dynamic_shared_bytes, "offset": facts.offset,
            "size": self.size, "code": self.code_digest,
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
                raise ValueError(f"an entry of {MANIFEST} has no SHA-256 digest of its text")
            if not isinstance(row["trace"], str | None):
                raise ValueError(f"an entry of {MANIFEST} has a trace key that is no text")
            if not isinstance(row["offset"], int | None):
                raise ValueError(f"an entry of {MANIFEST} has an offset that is no number")
            facts = KernelFacts(
                uses_of(row), row["shared_bytes"], row["entry"], row["dynamic_shared_bytes"],
                row["text"], row["offset"],
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

    folder: the folder, or None for the installed package. It is read on the first use. A fault of
    the folder is reported once, by a `CacheWarning`. If there is no package, or it has no kernels
    for the architecture or was built from other sources, nothing is reported.
    optional: nor is a named folder without kernels for the architecture reported.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None, arch: str, *, optional: bool = False
    ) -> None:
        self._is_package = folder is None
        self._is_optional = optional or self._is_package
        self.folder = None if folder is None else os.fspath(folder)
        self.arch = arch
        self._lock = threading.Lock()
        self._warned = False
        self._by_digest: dict[str, Any] | None = None
        self._by_trace_key: dict[str, Any] = {}

    @classmethod
    def installed(cls, arch: str) -> PrebuiltKernels:
        """Return the kernels of the folder that QUOD_KERNELS names, else of the package."""
        return cls(os.environ.get(VARIABLE) or None, arch)

    def find_untraced(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
    ) -> CompiledCode | None:
        """Return a prebuilt kernel by its trace key, without tracing it, or None."""
        if not self._rows():
            return None
        row = self._by_trace_key.get(prebuilt_key(definition, machine, static) or "")
        return None if row is None else self._compiled(row)

    def has(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
    ) -> bool:  # fmt: skip
        """Report whether the manifest lists a kernel by its trace key."""
        if not self._rows():
            return False
        return prebuilt_key(definition, machine, static) in self._by_trace_key

    def find_text(self, text_digest: str) -> CompiledCode | None:
        """Return the kernel that was compiled from the text with this digest, or None."""
        row = self._rows().get(text_digest)
        return None if row is None else self._compiled(row)

    def warn(self, why: str, effect: str = "are compiled instead") -> None:
        """Warn, once, of the effect on the folder's kernels, with the reason."""
        if not self._warned:
            self._warned = True
            advice = "build them again with `quod kernel build`"
            if self._is_package:
                advice = "install the package quod-kernels again"
            elif self.folder == os.environ.get(VARIABLE):
                advice += f", or unset {VARIABLE}"
            warnings.warn(
                f"kernels for {self.arch} in {self.folder} {effect}: {why}; {advice}",
                CacheWarning,
                stacklevel=2,
            )

    # --- the folder

    def _rows(self) -> dict[str, Any]:
        """Return the entries of the manifest by the digests of their texts, as JSON objects.

        To check all of hundreds of entries takes longer than to load those that a proof needs.
        """
        with self._lock:
            if self._by_digest is None:
                self._by_digest = {}
                try:
                    rows = self._read_manifest()
                except (OSError, ValueError) as error:
                    self.warn(_why(error))
                else:
                    self._by_digest = {row["text"]: row for row in rows}
                    self._by_trace_key = {row["trace"]: row for row in rows if row["trace"]}
            return self._by_digest

    def _read_manifest(self) -> list[Any]:
        if self._is_package:
            self.folder = _package_folder()
        if self._is_optional and self._lacks_architecture():
            return []
        document = shallow_json.load(self._read(MANIFEST, _MAX_MANIFEST))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"{MANIFEST} does not have the format {FORMAT}")
        if document.get("arch") != self.arch or not isinstance(document.get("kernels"), list):
            raise ValueError(f"{MANIFEST} is not for {self.arch}")
        rows: list[Any] = document["kernels"]
        if not all(map(_has_keys, rows)):
            raise ValueError(f"{MANIFEST} has an invalid entry")
        if document.get("sources") != sources.digest() and not self._is_package:
            self.warn(
                f"Quod {document.get('quod')} built them from other sources",
                "are used only where the text is the same",
            )
        return rows

    def _lacks_architecture(self) -> bool:
        """Report whether there is no package, or the folder has no kernels for the architecture.

        A named folder must exist, as otherwise its name is a mistake.
        """
        if self.folder is None:
            return True
        return (self._is_package or os.path.isdir(self.folder)) and not os.path.isdir(
            os.path.join(self.folder, self.arch)
        )

    def _compiled(self, row: Any) -> CompiledCode | None:
        """Return an entry's code with its facts, or None if either is damaged."""
        try:
            entry = Entry.parse(row)
            code = self._read(code_name(entry.facts), _MAX_CODE)
            if len(code) != entry.size or _digest(code) != entry.code_digest:
                raise ValueError(f"the code of {entry.kernel} is damaged")
        except (OSError, ValueError) as error:
            self.warn(_why(error))
            return None
        return CompiledCode(entry.facts, code)

    def _read(self, name: str, most: int) -> bytes:
        """Read a file of the architecture's folder, of at most `most` bytes.

        Raises OSError or ValueError if the file must not be used.
        """
        assert self.folder is not None
        path = os.path.join(self.folder, self.arch)
        if self._is_package:
            with open(os.path.join(path, name), "rb") as file:
                data = file.read(most + 1)
            if not 0 < len(data) <= most:
                raise ValueError(f"{name} is empty or too long")
            return data
        folder = open_base(path)
        try:
            data, _ = read_own(folder, name, most)
        finally:
            os.close(folder)
        if not data:
            raise ValueError(f"{name} is empty, too long or not owned by the user")
        return data


def has_shipped() -> bool:
    """Return whether QUOD_KERNELS is set or the package is installed."""
    return bool(os.environ.get(VARIABLE)) or _package_folder() is not None


def _package_folder() -> str | None:
    """Return the folder of the installed package; None if there is none or it is in an archive."""
    # Imported here, as a process that finds all kernels in the cache does not look for the package.
    import importlib.util

    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        return None
    locations = None if spec is None else spec.submodule_search_locations
    return next(iter(locations), None) if locations else None


def _has_keys(row: Any) -> bool:
    """Report whether an entry has the two keys by which it is looked up."""
    return (
        isinstance(row, dict)
        and isinstance(row.get("text"), str)
        and isinstance(row.get("trace", 0), str | None)
    )


def _digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


def _checksum(row: Mapping[str, Any]) -> str:
    text = json.dumps(row, sort_keys=True, separators=(",", ":"))
    return _digest(f"{FORMAT}\n{text}".encode())


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.strerror}" + (f": {error.filename}" if error.filename else "")
    return str(error)
