"""LLVM IR text to machine code in this process, through llvmlite."""

from __future__ import annotations

import ctypes
import functools
import itertools
from typing import Any

from quod.device.cpu.native_code import ExecutableMemory, NativeCode
from quod.device.cpu.processor import HostProcessor, host_processor, llvm
from quod.device.cpu.workers import EntryPoint
from quod.errors import DeviceError, KernelError

_SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)  # fmt: skip


@functools.cache
def _target_machine(processor: HostProcessor, *, quick: bool = False) -> Any:
    binding = llvm()
    is_host = processor.triple == binding.get_default_triple()
    if not is_host:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(processor.triple)
    return target.create_target_machine(
        cpu=processor.name, features=processor.description, opt=0 if quick else 2, reloc="pic",
        codemodel="small", jit=is_host,
    )  # fmt: skip


def _verified_module(
    text: str, processor: HostProcessor, *, quick: bool = False
) -> tuple[Any, Any]:
    """Parse and verify a module; return it and its target machine."""
    binding = llvm()
    machine = _target_machine(processor, quick=quick)
    try:
        module = binding.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise KernelError(f"LLVM refuses the emitted code: {reason}") from error
    # The tracer has already folded constants, shared equal ops and removed dead code. LLVM's usual
    # passes take as long as its code generator, and their reordering slows long products
    # (docs/design/runtime.md).
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    tuning = binding.create_pipeline_tuning_options()
    passes.run(module, binding.create_pass_builder(machine, tuning))
    return module, machine


def compile_to_object(
    text: str, *, processor: HostProcessor | None = None, quick: bool = False
) -> bytes:
    """Compile a module's text to an object file, by default for this CPU.

    quick: without optimisations, which takes a third of the time.
    Raises KernelError if LLVM refuses the text.
    """
    module, machine = _verified_module(text, processor or host_processor(), quick=quick)
    code: bytes = machine.emit_object(module)
    return code


def assembly(text: str, *, processor: HostProcessor | None = None) -> str:
    """Compile a module's text to readable assembly; arguments and errors as `compile_to_object`."""
    module, machine = _verified_module(text, processor or host_processor())
    listing: str = machine.emit_assembly(module)
    return listing


@functools.cache
def _jit(processor: HostProcessor) -> Any:
    # JITLink keeps the sections of an object together. The older linker maps each section
    # separately; if a GPU's driver has filled the address space, they are too far apart for
    # relocations.
    return llvm().create_lljit_compiler(_target_machine(processor), use_jit_link=True)


class LoadedCode:
    """Code in executable memory, alive as long as this object or its `entry` is.

    code: a memory image, or an object file, which LLVM links.
    Raises KernelError if it cannot be linked, DeviceError if memory cannot be made executable.
    """

    _numbers = itertools.count(1)

    def __init__(self, code: NativeCode | bytes, symbol: str) -> None:
        memory: Any
        if isinstance(code, bytes):
            memory, address = _link(code, symbol, f"quod{next(self._numbers)}")
        else:
            try:
                memory = ExecutableMemory(code)
            except OSError as error:
                raise DeviceError(f"kernel {symbol} cannot be loaded: {error.strerror}") from error
            address = memory.entry
        entry: Any = _SIGNATURE(address)
        # Workers of an abandoned job hold only the entry, so it must keep the code alive.
        entry.memory = memory
        self.entry: EntryPoint = entry


def _link(code: bytes, symbol: str, library: str) -> tuple[Any, int]:
    """Link code by LLVM; return the object that keeps it loaded, and the address of `symbol`."""
    builder = llvm().JITLibraryBuilder()
    builder.add_object_img(code)
    builder.add_current_process()
    builder.export_symbol(symbol)
    try:
        tracker = builder.link(_jit(host_processor()), library)
        return tracker, tracker[symbol]
    except (RuntimeError, KeyError) as error:
        raise KernelError(f"the code of kernel {symbol} cannot be linked: {error}") from error
