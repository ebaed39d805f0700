"""Loading of object files into executable memory without a linker.

LLVM's code of a kernel calls no external function and addresses its constants by relative offsets.
Such code runs at any address of a page if its sections keep the distances that the relocations
assume. So the sections are copied one after the other, the relocations are applied, and the memory
is made executable and no longer writable. LLVM's linker loads any other object file.

The format: System V ABI, chapters 4 and 5 ("Object files"), its supplement for AMD64, 4.4, and
"ELF for the Arm 64-bit Architecture", 5.7 ("Relocation").
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_HEADER = struct.Struct("<4s12xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_WORD = struct.Struct("<I")

_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _RELA, _REL = 1, 2, 4, 9
_WRITE, _ALLOCATED, _THREAD_LOCAL = 1, 2, 1 << 10
_LARGEST_ALIGNMENT = mmap.PAGESIZE
_LARGEST_IMAGE = 1 << 26
_CLOSE_ON_EXEC = 1
_FAILED = ctypes.c_void_p(-1).value

Relocate = Callable[[int, int, int], int]
"""The relocated word, from the word, the target's address and its own. An address is an offset from
a page. OverflowError if the target is out of range."""


def _signed(value: int, bits: int) -> int:
    """Return a signed number in `bits` bits; OverflowError if they are too few."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(f"{value} exceeds {bits} bits")
    return value & ((1 << bits) - 1)


def _in_units(address: int, unit: int) -> int:
    """Return an address in multiples of `unit`; OverflowError if it is no multiple."""
    units, excess = divmod(address, unit)
    if excess:
        raise OverflowError(f"{address} is no multiple of {unit}")
    return units


def _distance(_word: int, target: int, address: int) -> int:
    return _signed(target - address, 32)


# Arm's instructions hold their immediates in some of their bits.


def _branch(word: int, target: int, address: int) -> int:
    """Put the distance of a branch in bits 0 to 25."""
    return word & ~0x3FFFFFF | _signed(_in_units(target - address, 4), 26)


def _page(word: int, target: int, address: int) -> int:
    """Put the distance of pages of 4096 bytes in ADRP: its lowest bits are 29 and 30."""
    pages = _signed((target >> 12) - (address >> 12), 21)
    return word & ~0x60FFFFE0 | (pages & 3) << 29 | pages >> 2 << 5


def _offset_in_page(unit: int) -> Relocate:
    """Put the offset in a page in bits 10 to 21, in multiples of `unit`."""

    def relocate(word: int, target: int, _address: int) -> int:
        return word & ~0x3FFC00 | _in_units(target & 0xFFF, unit) << 10

    return relocate


class _Machine(NamedTuple):
    """A family of CPUs.

    number: its number in object files.
    relocations: by their numbers, those of four bytes that need no linker.
    coherent: instruction caches see what the CPU writes.
    """

    number: int
    relocations: Mapping[int, Relocate]
    coherent: bool


_X86_64 = _Machine(
    62,
    {2: _distance, 4: _distance},  # PC32, PLT32
    coherent=True,
)
_AARCH64 = _Machine(
    183,
    {
        261: _distance,  # PREL32
        275: _page,  # ADR_PREL_PG_HI21
        277: _offset_in_page(1),  # ADD_ABS_LO12_NC
        278: _offset_in_page(1),  # LDST8_ABS_LO12_NC
        282: _branch,  # JUMP26
        283: _branch,  # CALL26
        284: _offset_in_page(2),  # LDST16_ABS_LO12_NC
        285: _offset_in_page(4),  # LDST32_ABS_LO12_NC
        286: _offset_in_page(8),  # LDST64_ABS_LO12_NC
        299: _offset_in_page(16),  # LDST128_ABS_LO12_NC
    },
    coherent=False,
)
# By the system's name of the CPU. Object files of macOS, whose name is arm64, have another format.
_MACHINES = {"x86_64": _X86_64, "amd64": _X86_64, "aarch64": _AARCH64}


class NativeCode(NamedTuple):
    """The memory image of an object file, and the offset of the function in it.

    The image runs at any page, so it may be stored and loaded again.
    coherent: instruction caches see what the CPU writes.
    """

    image: bytes
    entry: int
    coherent: bool = True

    @classmethod
    def stored(cls, image: bytes, entry: int) -> NativeCode:
        """Return code that `arrange` made for this machine; ValueError for another one's."""
        machine = _MACHINES.get(os.uname().machine)
        if machine is None or not 0 <= entry < len(image):
            raise ValueError("not the image of a function for this machine")
        return cls(image, entry, machine.coherent)


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


def arrange(code: bytes, symbol: str, machine: str | None = None) -> NativeCode | None:
    """Lay out the memory that an object file describes, with the address of `symbol`.

    machine: the system's name of the CPU that runs the code; default: this machine's.
    Returns None if a linker is needed: for code of another CPU, an undefined symbol, a relocation
    that is not relative, writable data or a malformed file.
    """
    target = _MACHINES.get(machine or os.uname().machine)
    if target is None:
        return None
    try:
        return _arranged(code, symbol.encode(), target)
    except (struct.error, IndexError, OverflowError):
        return None


def _arranged(code: bytes, symbol: bytes, machine: _Machine) -> NativeCode | None:
    magic, kind, number, _, _, _, section_table, _, _, _, _, size, count, _ = _HEADER.unpack_from(
        code
    )
    if (magic, kind, number, size) != (
        b"\x7fELF", _RELOCATABLE, machine.number, _SECTION.size,
    ):  # fmt: skip
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
            relocate = machine.relocations.get(info & 0xFFFFFFFF)
            if relocate is None or index not in offsets:
                return None
            if offset + _WORD.size > target.size:
                return None
            address = offsets[section.info] + offset
            (word,) = _WORD.unpack_from(image, address)
            word = relocate(word, offsets[index] + value + addend, address)
            _WORD.pack_into(image, address, word)
    if entry is None or not 0 <= entry < len(image):
        return None
    return NativeCode(bytes(image), entry, machine.coherent)


def _items(code: bytes, section: _Section, form: struct.Struct) -> Sequence[tuple[int, ...]]:
    data = code[section.offset : section.offset + section.size]
    return list(form.iter_unpack(data))


class ExecutableMemory:
    """Code that can be called while this object lives; raises OSError if the system
    provides none.

    It stays mapped when the process ends, because workers may still run in it.
    """

    def __init__(self, code: NativeCode) -> None:
        copy = _anonymous_copy if code.coherent else _file_copy
        address = copy(code.image)
        finalizer = weakref.finalize(self, _system().munmap, address, len(code.image))
        finalizer.atexit = False
        self.entry = address + code.entry


def _anonymous_copy(image: bytes) -> int:
    """Return the address of executable anonymous memory with a copy of `image`."""
    system, size = _system(), len(image)
    address = _mapped(size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_ANONYMOUS, -1)
    ctypes.memmove(address, image, size)
    if system.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        code = ctypes.get_errno()
        system.munmap(address, size)
        raise OSError(code, "memory cannot be made executable")
    return address


def _file_copy(image: bytes) -> int:
    """Return the address of an executable mapping of a file in memory that contains `image`.

    Arm's instruction caches do not see what the CPU writes. Linux synchronises them, as it must for
    any program, when it maps an executable page of a file that was written since the last time
    (`__sync_icache_dcache` in arch/arm64/mm/flush.c, which tests PG_dcache_clean; a new page lacks
    that flag, and `flush_dcache_folio` in `generic_perform_write` clears it). For anonymous memory
    that does not suffice: a page may be part of a larger one, which has the flag since other code
    in it became executable.
    """
    # Not `os.memfd_create`, which Python lacks if it was built for an older C library.
    descriptor = _system().memfd_create(b"quod", _CLOSE_ON_EXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "no file in memory is available for code")
    with open(descriptor, "wb", buffering=0) as file:
        if file.write(image) != len(image):
            raise OSError(errno.ENOMEM, "no memory is available for code")
        return _mapped(len(image), mmap.PROT_READ | mmap.PROT_EXEC, 0, descriptor)


def _mapped(size: int, protection: int, flags: int, descriptor: int) -> int:
    address: int | None = _system().mmap(
        None, size, protection, mmap.MAP_PRIVATE | flags, descriptor, 0
    )
    if address is None or address == _FAILED:
        raise OSError(ctypes.get_errno(), "no memory is available for code")
    return address


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
