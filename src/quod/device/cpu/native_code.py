"""Loading of object files into executable memory without a linker.

LLVM's code of a kernel for x86-64 calls no external function and addresses its constants by
relative offsets. Such code runs at any address if its sections keep the distances that the
relocations assume. So the sections are copied one after the other, the relocations are applied, and
the memory is made executable and no longer writable. LLVM's linker loads any other object file.

The format: System V ABI, chapters 4 and 5 ("Object files"), and its supplement for AMD64, 4.4.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import weakref
from collections.abc import Sequence
from typing import NamedTuple

_HEADER = struct.Struct("<4s12xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_DISTANCE = struct.Struct("<i")

_AMD64 = 62
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _RELA, _REL = 1, 2, 4, 9
_WRITE, _ALLOCATED, _THREAD_LOCAL = 1, 2, 1 << 10
_LARGEST_ALIGNMENT = mmap.PAGESIZE
_LARGEST_IMAGE = 1 << 26
# Relocations of four bytes: the distance from their own address to a symbol, or to a function.
_PC32, _PLT32 = 2, 4
_FAILED = ctypes.c_void_p(-1).value


class NativeCode(NamedTuple):
    """The memory image of an object file, and the offset of the function in it."""

    image: bytes
    entry: int


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    item: int


def arrange(code: bytes, symbol: str) -> NativeCode | None:
    """Lay out the memory that an object file describes, with the address of `symbol`.

    Returns None if a linker is needed: for code of another CPU, an undefined symbol, a relocation
    that is not relative, writable data or a malformed file.
    """
    try:
        return _arranged(code, symbol.encode())
    except (struct.error, IndexError, OverflowError):
        return None


def _arranged(code: bytes, symbol: bytes) -> NativeCode | None:
    magic, kind, machine, _, _, _, section_table, _, _, _, _, size, count, _ = _HEADER.unpack_from(
        code
    )
    if (magic, kind, machine, size) != (b"\x7fELF", _RELOCATABLE, _AMD64, _SECTION.size):
        return None
    sections = [
        _Section(*_SECTION.unpack_from(code, section_table + i * size)) for i in range(count)
    ]
    image = bytearray()
    offsets: dict[int, int] = {}
    for index, section in enumerate(sections):
        if not section.flags & _ALLOCATED:
            continue
        data = code[section.offset : section.offset + section.size]
        if (
            section.kind != _PROGBITS
            or section.flags & (_WRITE | _THREAD_LOCAL)
            or section.alignment > _LARGEST_ALIGNMENT
            or len(data) != section.size
            or len(image) + section.size > _LARGEST_IMAGE
        ):
            return None
        image += bytes(-len(image) % max(section.alignment, 1))
        offsets[index] = len(image)
        image += data
    tables = [index for index, section in enumerate(sections) if section.kind == _SYMTAB]
    if len(tables) != 1:
        return None
    names = sections[sections[tables[0]].link]
    symbols = _items(code, sections[tables[0]], _SYMBOL)
    entry = None
    for name, _, _, index, value, _ in symbols:
        start = names.offset + name
        if index in offsets and code[start : start + len(symbol) + 1] == symbol + b"\0":
            entry = offsets[index] + value
    for section in sections:
        if section.kind not in (_RELA, _REL) or section.info not in offsets:
            continue
        if section.kind == _REL or section.link != tables[0]:
            return None
        target = sections[section.info]
        for offset, info, addend in _items(code, section, _RELOCATION):
            _, _, _, index, value, _ = symbols[info >> 32]
            if info & 0xFFFFFFFF not in (_PC32, _PLT32) or index not in offsets:
                return None
            if offset + _DISTANCE.size > target.size:
                return None
            patch_offset = offsets[section.info] + offset
            _DISTANCE.pack_into(image, patch_offset, offsets[index] + value + addend - patch_offset)
    if entry is None or not 0 <= entry < len(image):
        return None
    return NativeCode(bytes(image), entry)


def _items(code: bytes, section: _Section, form: struct.Struct) -> Sequence[tuple[int, ...]]:
    data = code[section.offset : section.offset + section.size]
    return list(form.iter_unpack(data))


class ExecutableMemory:
    """Code that can be called while this object lives; raises OSError if the system
    provides none.

    It stays mapped when the process ends, because workers may still run in it.
    """

    def __init__(self, code: NativeCode) -> None:
        system, size = _system(), len(code.image)
        address = system.mmap(
            None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            -1, 0,
        )  # fmt: skip
        if address == _FAILED:
            raise OSError(ctypes.get_errno(), "no memory is available for code")
        finalizer = weakref.finalize(self, system.munmap, address, size)
        finalizer.atexit = False
        ctypes.memmove(address, code.image, size)
        if system.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "memory cannot be made executable")
        self.entry = address + code.entry


@functools.cache
def _system() -> ctypes.CDLL:
    """Return the C library of the process. (Python's `mmap` releases memory too early.)"""
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    )  # fmt: skip
    system.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    system.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return system
