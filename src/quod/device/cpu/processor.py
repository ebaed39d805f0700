"""Identify the processor and the compiler of compiled code: part of the keys of compiled code.

LLVM knows the processor's name and features, but loading it takes a tenth of a second, a third of
a small proof's process. So what it said is kept in the cache beside the code, by what the system
says of the processor and by LLVM's release.
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any

from quod.device.cache.cache import CompileCache, key_of
from quod.errors import DeviceError
from quod.frozen import frozen

PASSES = "always-inline"
"""LLVM's passes that emitted code goes through."""

_DESCRIPTION = "/proc/cpuinfo"
# What Linux says of a processor on x86-64 and on Arm and how it differs between two of a kind.
_TELLING_LINES = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
)  # fmt: skip


@frozen
class HostProcessor:
    """The target of generated code.

    name: LLVM's name of the CPU.
    description: the features as an LLVM argument (``+avx2,-sve``).
    llvm: version of LLVM.
    """

    name: str
    features: frozenset[str]
    description: str
    triple: str
    llvm: str = ""

    @property
    def has_ifma(self) -> bool:
        """52-bit multiply-add in 512-bit vectors."""
        return {"avx512f", "avx512ifma", "avx512dq", "avx512vl"} <= self.features

    @property
    def has_f16(self) -> bool:
        """Conversions between f32 and f16: F16C, and any 64-bit Arm."""
        return "f16c" in self.features or self.triple.startswith(("aarch64", "arm64"))


@functools.cache
def host_processor() -> HostProcessor:
    """The processor of this machine."""
    return processor_through(CompileCache())


def processor_through(cache: CompileCache) -> HostProcessor:
    """The processor of this machine, from a cache if it is there, else from LLVM."""
    key = _key()
    cached = None if key is None else _unpack(cache.get(key))
    if cached is not None:
        return cached
    processor = ask_llvm()
    if key is not None:
        cache.put(key, _pack(processor))
    return processor


@functools.cache
def llvm() -> Any:
    """LLVM, loaded; DeviceError if it cannot be."""
    try:
        import llvmlite.binding as binding
    except OSError as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise DeviceError(
            f"LLVM could not be loaded ({reason}); allow more memory, or install llvmlite again"
        ) from error

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def ask_llvm() -> HostProcessor:
    """The processor of this machine; `host_processor` gives it without loading LLVM."""
    binding = llvm()
    features = binding.get_host_cpu_features()
    return HostProcessor(
        name=binding.get_host_cpu_name(),
        features=frozenset(name for name, present in features.items() if present),
        description=features.flatten(),
        triple=binding.get_default_triple(),
        llvm=".".join(map(str, binding.llvm_version_info)),
    )


def toolchain() -> str:
    """The compiler, how it is used, and the processor, as they enter cache keys."""
    processor = host_processor()
    return (
        f"llvm {processor.llvm} llvmlite {_llvmlite()} {PASSES} {processor.triple} "
        f"{processor.name} {processor.description}"
    )


@functools.cache
def _llvmlite() -> str:
    try:
        from llvmlite import __version__
    except ImportError as error:
        raise DeviceError(
            f"the compiler of Quod's kernels is missing ({error}); install llvmlite again"
        ) from error
    return str(__version__)


def _key() -> str | None:
    """Return the cache key of the CPU, or None if the system does not describe it."""
    try:
        with open(_DESCRIPTION, "rb") as file:
            first = file.read(1 << 16).split(b"\n\n")[0].decode("ascii", "replace")
    except OSError:
        return None
    named = (line.partition(":") for line in first.splitlines())
    lines = [f"{name.strip()}:{text}" for name, _, text in named if name.strip() in _TELLING_LINES]
    if not any(line.startswith(("flags:", "Features:")) for line in lines):
        return None
    system = os.uname()
    return key_of("processor", _llvmlite(), system.machine, system.release, *lines)


def _pack(processor: HostProcessor) -> bytes:
    fields = (processor.name, processor.description, processor.triple, processor.llvm)
    return json.dumps([*fields, sorted(processor.features)]).encode()


def _unpack(data: bytes | None) -> HostProcessor | None:
    if data is None:
        return None
    try:
        name, description, triple, llvm, features = json.loads(data)
        return HostProcessor(name, frozenset(features), description, triple, llvm)
    except (ValueError, TypeError, RecursionError):
        return None
