"""LLVM IR text to machine code in this process, through llvmlite."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quod.errors import KernelError

EntryPoint = Callable[[int, int, int, int], None]

_SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)  # fmt: skip


@dataclass(frozen=True)
class HostProcessor:
    """What code is generated for."""

    name: str
    features: frozenset[str]
    description: str

    @property
    def has_ifma(self) -> bool:
        """52-bit multiply-add in 512-bit vectors."""
        return {"avx512f", "avx512ifma", "avx512dq", "avx512vl"} <= self.features


@functools.cache
def _binding() -> Any:
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def host_processor() -> HostProcessor:
    """The processor of this machine."""
    binding = _binding()
    features = binding.get_host_cpu_features()
    enabled = frozenset(name for name, present in features.items() if present)
    return HostProcessor(binding.get_host_cpu_name(), enabled, features.flatten())


def toolchain() -> str:
    """The compiler and the processor, as they enter cache keys."""
    import llvmlite

    processor = host_processor()
    version = ".".join(map(str, _binding().llvm_version_info))
    return (
        f"llvm {version} llvmlite {llvmlite.__version__} {processor.name} {processor.description}"
    )


@functools.cache
def _target_machine() -> Any:
    binding = _binding()
    processor = host_processor()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=processor.name, features=processor.description, opt=2, reloc="pic", codemodel="small",
        jit=True,
    )  # fmt: skip


def compile_to_object(text: str, *, optimization: int = 2) -> bytes:
    """Machine code for a module's text; KernelError if LLVM refuses it."""
    binding = _binding()
    machine = _target_machine()
    try:
        module = binding.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise KernelError(f"LLVM refuses the emitted code: {error}") from error
    options = binding.create_pipeline_tuning_options(speed_level=optimization)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def assembly(text: str) -> str:
    """The processor's assembly for a module's text, for reading."""
    binding = _binding()
    machine = _target_machine()
    module = binding.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    listing: str = machine.emit_assembly(module)
    return listing


@functools.cache
def _jit() -> Any:
    return _binding().create_lljit_compiler(_target_machine(), use_jit_link=False)


class LoadedCode:
    """One object file in executable memory, alive as long as this object is."""

    _count = 0

    def __init__(self, code: bytes, symbol: str) -> None:
        LoadedCode._count += 1
        library = f"quod{LoadedCode._count}"
        builder = _binding().JITLibraryBuilder()
        builder.add_object_img(code)
        builder.add_current_process()
        builder.export_symbol(symbol)
        self._tracker = builder.link(_jit(), library)
        self.entry: EntryPoint = _SIGNATURE(self._tracker[symbol])
