"""Code for 64-bit Arm on any machine: programs of one call, run by qemu-user."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from quod.codegen.llvm import emitter
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.native_code import NativeCode, arrange
from quod.kernel import KernelDefinition, Machine
from tests.device.processors import ARM

MACHINE = "aarch64"
DATA = 0x1000_0000
"""The address of a program's data."""

_CODE = 0x40_0000
_PAGE = 0x1_0000
_QEMU = ("qemu-aarch64-static", "qemu-aarch64")
_LOAD, _EXECUTE, _WRITE, _READ = 1, 1, 2, 4


def emulator() -> str | None:
    """The path of qemu-user for Arm, or None."""
    return next((path for name in _QEMU if (path := shutil.which(name))), None)


@pytest.fixture
def qemu() -> str:
    """The path of qemu-user. The test is skipped without it, unless QUOD_TEST_ARM is required."""
    path = emulator()
    if path is None:
        message = "needs qemu-user for Arm (Debian: apt-get install qemu-user-static)"
        if os.environ.get("QUOD_TEST_ARM") == "required":
            pytest.fail(message)
        pytest.skip(message)
    return path


def laid_out(text: str, symbol: str) -> NativeCode:
    """Compile a text for Arm and lay it out; fail if it needs a linker."""
    code = arrange(llvm_jit.compile_to_object(text, processor=ARM), symbol, MACHINE)
    assert code is not None
    return code


def kernel_text(definition: KernelDefinition, machine: Machine, **static: object) -> str:
    """Return a kernel's LLVM IR for Arm."""
    return emitter.emit(definition.trace(machine, **static), machine, triple=ARM.triple)


def call(
    qemu: str, folder: Path, code: NativeCode, arguments: tuple[int, int, int, int], data: bytes
) -> bytes:
    """Call the entry of `code` in a process under qemu-user; return the data after the call.

    data: the contents of the memory at `DATA`.
    """
    path = folder / "program"
    path.write_bytes(_program(code, arguments, data))
    path.chmod(0o700)
    completed = subprocess.run([qemu, str(path)], capture_output=True, timeout=120, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def launch(
    qemu: str, folder: Path, code: NativeCode, groups: int, slots: tuple[int | bytes, ...],
) -> list[bytes]:  # fmt: skip
    """Launch a kernel in one thread; return the contents of its buffers afterwards.

    slots: a number or the contents of a buffer for each parameter.
    """
    counter = 8 * len(slots)
    header, buffers, places = [], bytearray(), []
    for slot in slots:
        if isinstance(slot, bytes):
            buffers += bytes(-len(buffers) % 64)
            places.append((len(buffers), len(slot)))
            header.append(DATA + _PAGE + len(buffers))
            buffers += slot
        else:
            header.append(slot)
    data = struct.pack(f"<{len(slots)}Qq", *header, 0).ljust(_PAGE, b"\0") + bytes(buffers)
    after = call(qemu, folder, code, (DATA, DATA + counter, groups, groups), data)[_PAGE:]
    return [after[offset : offset + size] for offset, size in places]


def _program(code: NativeCode, arguments: tuple[int, int, int, int], data: bytes) -> bytes:
    """Return an executable that calls the code, writes its data to standard output and ends."""
    image = code.image + bytes(-len(code.image) % 16)
    start = _CODE + len(image)
    literals = (*arguments, _CODE + code.entry, DATA, len(data))
    # ldr x0..x3, x9: the arguments and the entry; after the call x1, x2: the data and its size.
    loads = ((0, 0), (1, 1), (2, 2), (3, 3), (9, 4))
    after = ((1, 5), (2, 6))
    instructions: list[int] = []
    size = len(loads) + 1 + 1 + len(after) + 2 + 3  # the instructions before the literals
    first_literal = size + size % 2

    def load(register: int, literal: int) -> None:
        distance = first_literal + 2 * literal - len(instructions)
        instructions.append(0x58000000 | distance << 5 | register)

    for register, literal in loads:
        load(register, literal)
    instructions += [0xD63F0120, 0xD2800020]  # blr x9; mov x0, #1
    for register, literal in after:
        load(register, literal)
    instructions += [0xD2800808, 0xD4000001]  # mov x8, #64 (write); svc #0
    instructions += [0xD2800000, 0xD2800BC8, 0xD4000001]  # exit_group(0)
    assert len(instructions) == size
    instructions += [0] * (first_literal - size)
    text = image + struct.pack(f"<{first_literal}I{len(literals)}Q", *instructions, *literals)
    text_offset = _PAGE
    data_offset = text_offset + len(text) + -len(text) % _PAGE
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01", 2, 183, 1, start, 64, 0, 0, 64, 56, 2, 64, 0, 0,
    )  # fmt: skip
    segments = b"".join(
        struct.pack("<IIQQQQQQ", _LOAD, flags, offset, address, address, size, size, _PAGE)
        for flags, offset, address, size in (
            (_READ | _EXECUTE, text_offset, _CODE, len(text)),
            (_READ | _WRITE, data_offset, DATA, len(data)),
        )
    )
    return ((header + segments).ljust(text_offset, b"\0") + text).ljust(data_offset, b"\0") + data
