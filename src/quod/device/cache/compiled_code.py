"""The stored form of compiled code, and its cache keys."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import struct
from collections.abc import Mapping
from typing import Any

from quod.codegen.pointers import PointerUses
from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.frozen import fields_of, frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine

_LENGTH = struct.Struct("<I")
_KEY = re.compile(rb"[0-9a-f]{64}")


@frozen
class KernelFacts:
    """The facts of a kernel that a launch needs, derived from its IR.

    uses: the pointers that the kernel stores to or accesses atomically or early.
    shared_bytes: bytes of the kernel's shared memory.
    entry: the name of the kernel's entry point in the code.
    dynamic_shared_bytes: bytes of shared memory that the launch has to request.
    digest: the `text_digest` of the compiled text.
    offset: the offset of the entry point in the code, if that is a memory image, which runs
        without a linker.
    """

    uses: PointerUses
    shared_bytes: int
    entry: str
    dynamic_shared_bytes: int = 0
    digest: str = ""
    offset: int | None = None


@frozen
class CompiledCode:
    """Machine code of a kernel, and the facts about it."""

    facts: KernelFacts
    code: bytes

    def pack(self) -> bytes:
        """Encode as bytes for the cache."""
        metadata = json.dumps(
            {
                "stored": self.facts.uses.stored,
                "atomic": self.facts.uses.atomic,
                "early": self.facts.uses.early,
                "shared_bytes": self.facts.shared_bytes,
                "entry": self.facts.entry,
                "digest": self.facts.digest,
                "dynamic_shared_bytes": self.facts.dynamic_shared_bytes,
                "offset": self.facts.offset,
            }
        ).encode()
        return _LENGTH.pack(len(metadata)) + metadata + self.code

    @classmethod
    def unpack(cls, data: bytes) -> CompiledCode:
        """Decode the bytes of `pack`; raise ValueError, KeyError or struct.error for others."""
        start = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        try:
            metadata = json.loads(data[_LENGTH.size : start])
            uses = uses_of(metadata)
        except (AttributeError, TypeError, RecursionError) as error:  # valid JSON of another form
            raise ValueError("not a kernel's metadata") from error
        # Code for a GPU has none.
        offset = metadata.get("offset")
        if not isinstance(offset, int | None):
            raise ValueError("the offset of an entry point is no number")
        facts = KernelFacts(
            uses,
            metadata["shared_bytes"],
            metadata["entry"],
            metadata["dynamic_shared_bytes"],
            metadata["digest"],
            offset,
        )
        return cls(facts, data[start:])


def uses_of(read: Mapping[str, Any]) -> PointerUses:
    """Decode pointer uses from JSON; raise KeyError or TypeError if they are invalid."""
    # Older entries lack "early", and their kernels do not wait.
    early = read.get("early")
    return PointerUses(
        tuple(read["stored"]), tuple(read["atomic"]), None if early is None else tuple(early)
    )


def text_digest(text: str) -> str:
    """Return the SHA-256 digest of an emitted text in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def trace_key(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], toolchain: str
) -> str | None:
    """Return a cache key that identifies the emitted text without tracing.

    Returns None if the inputs of tracing are unknown: for a kernel outside the package, one that
    captures variables, or a static argument whose `repr` is an address.
    """
    source_path = sources.path_in_package(definition.location.file)
    if source_path is None or definition.function.__closure__:
        return None
    options = [f"{name}={value!r}" for name, value in sorted(static.items())]
    if any(" at 0x" in option for option in options):
        return None
    # Kernels with the same function and name may differ only in their arguments.
    slots = definition.parameters_for(static)[1].items()
    options += [f"{name}: {type_}" for name, type_ in slots]
    return key_of(
        "trace", sources.digest(), source_path, str(definition.location.line), definition.name,
        _machine_text(machine), toolchain, *options,
    )  # fmt: skip


@functools.cache
def _machine_text(machine: Machine) -> str:
    """Return all fields of a machine as a text that is the same in every process."""
    values = fields_of(machine).items()
    return repr(
        [(name, sorted(value) if isinstance(value, frozenset) else value) for name, value in values]
    )


def remember(cache: CompileCache, trace: str | None, key: str) -> None:
    """Store the key of a kernel's code under its trace key, if there is one.

    Stores nothing if Quod's sources have changed since the process computed their digest.
    """
    if trace is not None and sources.are_unchanged():
        cache.put(trace, key.encode())


def look_up(cache: CompileCache, key: str | None) -> bytes | None:
    """Return the entry whose key is stored under the trace key `key`, or None."""
    if key is None:
        return None
    reference = cache.get(key) or b""
    return cache.get(reference.decode()) if _KEY.fullmatch(reference) else None
