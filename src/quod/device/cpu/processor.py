"""The host CPU and the compiler's version, which are part of the cache keys of compiled kernels.

LLVM knows the CPU's name and features. Loading LLVM takes a tenth of a second, a third of the run
time of a process that makes one small proof. So LLVM's description of the CPU is cached on disk;
the key is /proc/cpuinfo, the kernel's release and llvmlite's version.
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
"""The LLVM passes that are run on emitted code."""

_DESCRIPTION = "/proc/cpuinfo"
# Fields of /proc/cpuinfo that identify a CPU model: on x86-64, then on Arm.
_IDENTIFYING_FIELDS = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
)  # fmt: skip


# LLVM's names of Arm CPUs whose only multiplier takes three cycles for half a product of 64-bit
# words (docs/design/fields.md).
_SLOW_MULTIPLIERS = frozenset({"cortex-a76", "cortex-a76ae", "neoverse-n1"})


@frozen
class HostProcessor:
    """The target of generated code.

    name: LLVM's name of the CPU.
    features: LLVM's names of the features that the CPU has.
    description: all features, present or not, as an LLVM argument (``+avx2,-sve``).
    triple: LLVM's target triple.
    llvm: version of LLVM.
    """

    name: str
    features: frozenset[str]
    description: str
    triple: str
    llvm: str = ""

    @property
    def has_ifma(self) -> bool:
        """True if the CPU has 52-bit multiply-adds of 512-bit vectors."""
        return {"avx512f", "avx512ifma", "avx512dq", "avx512vl"} <= self.features

    @property
    def has_avx2(self) -> bool:
        """True if the CPU has 256-bit vectors of integers."""
        return "avx2" in self.features

    @property
    def register_bits(self) -> int:
        """The width of the vector registers without AVX-512."""
        return 256 if "avx" in self.features else 128

    @property
    def has_neon(self) -> bool:
        """True if the CPU has Arm's 128-bit vectors of integers, as any 64-bit Arm does."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def has_quick_code(self) -> bool:
        """True if LLVM's code without optimisations was tested: x86-64 without AVX-512."""
        return self.triple.startswith("x86_64") and "avx512f" not in self.features

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies of field elements that the CPU supports, the fastest first."""
        if self.has_neon:
            return ("neon", "scalar") if self.name in _SLOW_MULTIPLIERS else ("scalar", "neon")
        supported = {"ifma": self.has_ifma, "avx2": self.has_avx2, "scalar": True}
        return tuple(name for name, present in supported.items() if present)

    @property
    def pair_product_lanes(self) -> int:
        """The lanes of 32 bits that one instruction multiplies as pairs of 16-bit integers."""
        if not self.triple.startswith("x86_64"):
            return 0
        return 16 if "avx512bw" in self.features else 8 if self.has_avx2 else 4

    @property
    def has_f16(self) -> bool:
        """True if the CPU converts between f32 and f16: with F16C, and on any 64-bit Arm."""
        return "f16c" in self.features or self.has_neon


@functools.cache
def host_processor() -> HostProcessor:
    """Return the CPU of this machine, from the user's cache or from LLVM."""
    return processor_through(CompileCache())


def processor_through(cache: CompileCache) -> HostProcessor:
    """Return the CPU of this machine from `cache`, or ask LLVM and store the answer there."""
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
    """Load LLVM and return `llvmlite.binding`.

    Raises DeviceError if LLVM's library cannot be loaded.
    """
    try:
        import llvmlite.binding as binding
    except OSError as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise DeviceError(
            f"LLVM could not be loaded ({reason}); allow more memory, or reinstall llvmlite"
        ) from error

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def ask_llvm() -> HostProcessor:
    """Load LLVM and return its description of the CPU; `host_processor` caches the answer."""
    binding = llvm()
    features = binding.get_host_cpu_features()
    return HostProcessor(
        name=binding.get_host_cpu_name(),
        features=frozenset(name for name, present in features.items() if present),
        description=features.flatten(),
        triple=binding.get_default_triple(),
        llvm=".".join(map(str, binding.llvm_version_info)),
    )


def toolchain(*, quick: bool = False) -> str:
    """Return a text for cache keys: versions of LLVM and llvmlite, the passes and the target.

    quick: for code that LLVM compiles without optimisations.
    """
    processor = host_processor()
    passes = f"{PASSES} quick" if quick else PASSES
    return (
        f"llvm {processor.llvm} llvmlite {_llvmlite()} {passes} {processor.triple} "
        f"{processor.name} {processor.description}"
    )


@functools.cache
def _llvmlite() -> str:
    try:
        from llvmlite import __version__
    except ImportError as error:
        raise DeviceError(
            f"the compiler of Quod's kernels is missing ({error}); reinstall llvmlite"
        ) from error
    return str(__version__)


def _key() -> str | None:
    """Return the cache key of the CPU, or None if the system does not describe it."""
    try:
        with open(_DESCRIPTION, "rb") as file:
            first_processor = file.read(1 << 16).split(b"\n\n")[0].decode("ascii", "replace")
    except OSError:
        return None
    fields = (line.partition(":") for line in first_processor.splitlines())
    lines = [
        f"{name.strip()}:{text}" for name, _, text in fields if name.strip() in _IDENTIFYING_FIELDS
    ]
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
