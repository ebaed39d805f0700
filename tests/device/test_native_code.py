"""Object files placed in memory without a linker, against LLVM's linker and in pieces."""

from __future__ import annotations

import ctypes
import gc
import mmap
import platform
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quod.codegen.pointers import PointerUses
from quod.device import CpuDevice
from quod.device.cache.cache import CompileCache
from quod.device.cache.compiled_code import CompiledCode, KernelFacts
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu import native_code
from quod.device.cpu.native_code import ExecutableMemory, NativeCode, arrange
from quod.device.cpu.processor import HostProcessor
from quod.errors import DeviceError
from quod.field import kernels as field_kernels
from quod.field.moduli import BLS12_381_FQ
from quod.kernel import KernelDefinition
from quod.kernel.examples import histogram
from tests.device.processors import ARM

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64", "aarch64"),
    reason="places code for x86-64 and for Linux on Arm",
)

CALLS = """
declare void @outside(ptr)
define void @main(ptr %a, ptr %b, i64 %c, i64 %d) nounwind {
  call void @outside(ptr %a)
  ret void
}
"""
WRITES = """
@state = internal global i64 7
define void @main(ptr %a, ptr %b, i64 %c, i64 %d) nounwind {
  %old = load i64, ptr @state
  %new = add i64 %old, %c
  store i64 %new, ptr @state
  store i64 %new, ptr %a
  ret void
}
"""
# Two tables, of other alignments, so that distances lead over more than one section.
READS = """
@bytes = private constant [3 x i8] [i8 1, i8 2, i8 3], align 1
@words = private constant [4 x i64] [i64 10, i64 20, i64 30, i64 40], align 32
define i64 @helper(i64 %i) noinline nounwind {
  %at = getelementptr [4 x i64], ptr @words, i64 0, i64 %i
  %word = load i64, ptr %at
  %at8 = getelementptr [3 x i8], ptr @bytes, i64 0, i64 %i
  %byte = load i8, ptr %at8
  %wide = zext i8 %byte to i64
  %sum = add i64 %word, %wide
  ret i64 %sum
}
define void @main(ptr %a, ptr %b, i64 %c, i64 %d) nounwind {
  %sum = call i64 @helper(i64 %c)
  store i64 %sum, ptr %a
  ret void
}
"""
RISC_V = HostProcessor("generic-rv64", frozenset(), "", "riscv64-unknown-linux-gnu")
CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def field_object() -> bytes:
    _, text = emitted(field_kernels.field_inverse, spec=BLS12_381_FQ)
    return llvm_jit.compile_to_object(text)


def emitted(definition: KernelDefinition, **static: object) -> tuple[object, str]:
    device = CpuDevice(strategy="scalar", threads=1)
    return cpu_compiler.emit(definition, device.machine(1), static)


def called(entry: int, index: int) -> int:
    out = ctypes.c_int64(-1)
    CALL(entry)(ctypes.addressof(out), None, index, 0)
    return out.value


@pytest.mark.parametrize("coherent", [True, False], ids=["anonymous memory", "file"])
def test_tables_and_functions_are_found_from_each_other(coherent: bool) -> None:
    code = arrange(llvm_jit.compile_to_object(READS), "main")
    assert code is not None
    memory = ExecutableMemory(code._replace(coherent=coherent))
    assert [called(memory.entry, index) for index in range(3)] == [11, 22, 33]
    helper = arrange(llvm_jit.compile_to_object(READS), "helper")
    assert helper is not None
    assert helper.image == code.image
    assert helper.entry != code.entry


def test_linked_and_placed_code_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(1, 1 + 12 * 64, dtype=np.uint32).reshape(64, 12)
    results = []
    for left_to_linker in (False, True):
        if left_to_linker:
            monkeypatch.setattr(cpu_compiler, "arrange", lambda *_: None)
        cache = CompileCache(tmp_path / str(left_to_linker))
        # Compiled now, then loaded from the cache.
        for _ in range(2):
            device = CpuDevice(strategy="scalar", threads=1, cache=cache)
            kernel = device.compile(field_kernels.field_inverse, spec=BLS12_381_FQ)
            out = np.zeros_like(values)
            device.launch(kernel, 64, 64, values, out)
            results.append(out.tobytes())
    assert results == [results[0]] * 4
    assert any(results[0])


def test_a_stored_image_runs_as_it_was_arranged() -> None:
    code = arrange(llvm_jit.compile_to_object(READS), "main")
    assert code is not None
    assert NativeCode.stored(code.image, code.entry) == code
    for entry in (-1, len(code.image)):
        with pytest.raises(ValueError, match="not the image of a function"):
            NativeCode.stored(code.image, entry)


@pytest.mark.parametrize(
    ("definition", "static"),
    [
        (field_kernels.field_multiply, {"spec": BLS12_381_FQ}),
        (field_kernels.field_inverse, {"spec": BLS12_381_FQ}),
        (histogram, {}),
    ],
    ids=["product", "inverse", "histogram"],
)
def test_kernel_code_is_placed_without_a_linker(
    definition: KernelDefinition, static: dict[str, object]
) -> None:
    _, text = emitted(definition, **static)
    assert arrange(llvm_jit.compile_to_object(text), definition.name) is not None


@pytest.mark.parametrize("text", [CALLS, WRITES], ids=["calls outside", "writes its own data"])
def test_unsupported_relocations_are_left_to_the_linker(text: str) -> None:
    assert arrange(llvm_jit.compile_to_object(text), "main") is None


def test_linker_loads_unsupported_code() -> None:
    code = llvm_jit.LoadedCode(llvm_jit.compile_to_object(WRITES), "main")
    out = ctypes.c_int64(-1)
    for expected in (12, 17):
        code.entry(ctypes.addressof(out), 0, 5, 0)
        assert out.value == expected


@pytest.mark.parametrize("text", [READS, WRITES], ids=["placed", "linked"])
def test_an_entry_keeps_its_code(text: str) -> None:
    code = llvm_jit.compile_to_object(text)
    entry = llvm_jit.LoadedCode(arrange(code, "main") or code, "main").entry
    gc.collect()
    out = ctypes.c_int64(-1)
    entry(ctypes.addressof(out), 0, 1, 0)
    assert out.value in (8, 22)


@pytest.mark.parametrize("coherent", [True, False], ids=["anonymous memory", "file"])
def test_code_memory_is_freed(coherent: bool) -> None:
    def mapped() -> int:
        """Bytes: what lies side by side is one line."""
        with open("/proc/self/maps") as maps:
            ends = [line.split(maxsplit=1)[0].split("-") for line in maps if " r-xp " in line]
        return sum(int(end, 16) - int(start, 16) for start, end in ends)

    code = arrange(llvm_jit.compile_to_object(READS), "main")
    assert code is not None
    code = code._replace(coherent=coherent)
    before = mapped()
    kept = [ExecutableMemory(code) for _ in range(50)]
    grown = mapped() - before
    assert grown >= 50 * mmap.PAGESIZE
    del kept
    assert mapped() < before + grown // 5


def test_foreign_code_and_missing_symbols_are_not_placed() -> None:
    code = llvm_jit.compile_to_object(READS)
    assert arrange(code, "mai") is None
    assert arrange(code, "ain") is None
    assert arrange(code, "outside") is None
    foreign = RISC_V if platform.machine() == "aarch64" else ARM
    assert arrange(llvm_jit.compile_to_object(READS, processor=foreign), "main") is None


def test_damaged_objects_are_rejected_or_placed_within_bounds() -> None:
    """No damaged object raises, or places code beyond the file's sections."""
    code, choice = field_object(), random.Random(1)
    for length in (0, 3, 4, 63, 64, len(code) // 2, len(code) - 1):
        assert arrange(code[:length], "field_inverse") is None
    placed = 0
    sections = struct.unpack_from("<Q", code, 40)[0]
    for _ in range(2000):
        damaged = bytearray(code)
        start, end = choice.choice([(0, 64), (sections, len(code))])
        damaged[choice.randrange(start, end)] = choice.randrange(256)
        image = arrange(bytes(damaged), "field_inverse")
        if image is not None:
            placed += 1
            assert 0 <= image.entry < len(image.image) < 2 * len(code)
    assert placed


def test_a_file_that_ends_anywhere_is_not_placed() -> None:
    code = llvm_jit.compile_to_object(READS)
    for length in range(len(code)):
        assert arrange(code[:length], "main") is None


def test_a_relocation_across_the_end_of_its_section_is_not_placed() -> None:
    """The word would reach into the section behind it."""
    code = llvm_jit.compile_to_object(READS)
    table, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i) for i in range(count)]
    records = [(s[4], sections[s[7]][5]) for s in sections if s[1] == 4 and sections[s[7]][2] & 4]
    assert records
    for record, size in records:
        for offset in (*range(size - 3, size + 1), 1 << 63):
            damaged = bytearray(code)
            struct.pack_into("<Q", damaged, record, offset)
            assert arrange(bytes(damaged), "main") is None


_KIND, _FLAGS, _ALIGNMENT = (4, "I"), (8, "Q"), (48, "Q")
"""Fields of a section's header: offset and type."""


@pytest.mark.parametrize(
    ("of_kind", "field", "value"),
    [
        pytest.param(1, _KIND, 8, id="memory without contents"),
        pytest.param(1, _FLAGS, 1 << 10 | 2, id="memory of threads"),
        pytest.param(1, _ALIGNMENT, 2 * mmap.PAGESIZE, id="alignment above a page"),
        pytest.param(4, _KIND, 9, id="relocations without addends"),
    ],
)
def test_sections_that_need_a_linker_are_left_to_it(
    of_kind: int, field: tuple[int, str], value: int
) -> None:
    """Each section of a kind that is in memory, or has relocations of one that is, in turn."""
    code = llvm_jit.compile_to_object(READS)
    table, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i) for i in range(count)]
    changed = 0
    for index, (_, kind, flags, _, _, size, _, info, _, _) in enumerate(sections):
        in_memory = flags & 2 if kind == 1 else sections[info][2] & 2 if kind == 4 else True
        if kind == of_kind and size and in_memory:
            damaged, (offset, form) = bytearray(code), field
            struct.pack_into(f"<{form}", damaged, table + 64 * index + offset, value)
            assert arrange(bytes(damaged), "main") is None
            changed += 1
    assert changed


def test_relocations_of_any_kind_and_place_raise_nothing() -> None:
    """All records of relocations and symbols with random fields."""
    code, choice = llvm_jit.compile_to_object(READS), random.Random(2)
    table, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i) for i in range(count)]
    placed = 0
    for _ in range(2000):
        damaged = bytearray(code)
        _, _, _, _, offset, size, *_ = choice.choice([s for s in sections if s[1] in (2, 4)])
        field = offset + 4 * choice.randrange(size // 4)
        value = choice.choice([0, 1, 2, 4, 10, 11, 0x7FFFFFFF, 0xFFFFFFFF, choice.getrandbits(32)])
        struct.pack_into("<I", damaged, field, value)
        image = arrange(bytes(damaged), "main")
        if image is not None:
            placed += 1
            assert 0 <= image.entry < len(image.image) < 2 * len(code)
    assert placed


@pytest.mark.parametrize("coherent", [True, False], ids=["anonymous memory", "file"])
def test_code_memory_is_not_writable(coherent: bool) -> None:
    returns = bytes.fromhex("c0035fd6" if platform.machine() == "aarch64" else "c3") * 16
    source = (
        "import ctypes\n"
        "from quod.device.cpu.native_code import ExecutableMemory, NativeCode\n"
        f"memory = ExecutableMemory(NativeCode({returns!r}, 0, {coherent}))\n"
        "ctypes.CFUNCTYPE(None)(memory.entry)()\n"
        "print('ran', flush=True)\n"
        "ctypes.memset(memory.entry, 0, 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.stdout == "ran\n"
    assert done.returncode == -11


@pytest.mark.parametrize(
    ("coherent", "function", "message"),
    [
        (True, "mmap", "no memory is available for code"),
        (True, "mprotect", "memory cannot be made executable"),
        (False, "memfd_create", "no file in memory is available for code"),
        (False, "mmap", "no memory is available for code"),
    ],
)
def test_refused_system_calls_are_os_errors(
    coherent: bool, function: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = native_code._system()

    class Refusing:
        def __getattr__(self, name: str) -> object:
            return (lambda *_: -1) if name == function else getattr(system, name)

    monkeypatch.setattr(native_code, "_system", Refusing)
    # ctypes returns an address without a sign.
    monkeypatch.setattr(native_code, "_FAILED", -1)
    with pytest.raises(OSError, match=message):
        ExecutableMemory(NativeCode(bytes(16), 0, coherent))


def test_non_executable_memory_is_a_device_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: ExecutableMemory, code: NativeCode) -> None:
        raise OSError(13, "memory cannot be made executable")

    monkeypatch.setattr(ExecutableMemory, "__init__", refused)
    with pytest.raises(DeviceError, match="kernel main cannot be loaded: memory cannot be made"):
        llvm_jit.LoadedCode(NativeCode(bytes(16), 0), "main")


@pytest.mark.parametrize("offset", ["0", [0], 1.5])
def test_offsets_of_entry_points_are_numbers(offset: object) -> None:
    facts = KernelFacts(PointerUses((), ()), 0, "named", offset=offset)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is no number"):
        CompiledCode.unpack(CompiledCode(facts, b"code").pack())
