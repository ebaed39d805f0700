"""Object files for 64-bit Arm: their relocations, and their code under qemu-user."""

from __future__ import annotations

import random
import secrets
import struct
from pathlib import Path

import pytest

from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.native_code import arrange
from quod.field import kernels as field_kernels
from quod.field.moduli import BLS12_381_FQ, BN254_FR, Modulus
from quod.kernel import KernelDefinition, Machine
from tests.device.processors import ARM
from tests.device.test_native_code import CALLS, READS, WRITES
from tests.support.arm import DATA, MACHINE, call, kernel_text, laid_out, launch, qemu

__all__ = ["qemu"]

SCALAR = Machine("llvm", 1, frozenset({"u64", "vector_lanes", "carry"}))
NEON = Machine("llvm", 4, frozenset({"u64", "vector_lanes", "word_products"}))
_TEXT = 0x1000
_PREL32, _PAGE, _ADD, _JUMP, _CALL = 261, 275, 277, 282, 283
_LDST = {1: 278, 2: 284, 4: 285, 8: 286, 16: 299}


def object_with(relocation: int, word: int, target: int, addend: int = 0) -> bytes:
    """An object whose word at 0x1000 has a relocation of a symbol at `target`."""
    text = bytearray(max(_TEXT + 4, target + 16))
    struct.pack_into("<I", text, _TEXT, word)
    names = b"\0main\0target\0"
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", name, 0x12, 0, 1, value, 0) for name, value in ((1, 0), (6, target))
    )
    records = struct.pack("<QQq", _TEXT, 2 << 32 | relocation, addend)
    contents = [bytes(text), symbols, names, records]
    offsets, offset = [], 64
    for content in contents:
        offsets.append(offset)
        offset += len(content)
    kinds = [(1, 6, 0, 0), (2, 0, 3, 1), (3, 0, 0, 0), (4, 0, 2, 1)]
    table = bytes(64) + b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, flags, 0, start, len(content), link, info, 4, 0)
        for (kind, flags, link, info), start, content in zip(kinds, offsets, contents, strict=True)
    )
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01", 1, 183, 1, 0, 0, offset, 0, 64, 0, 0, 64, 5, 3,
    )  # fmt: skip
    return header + b"".join(contents) + table


def relocated(relocation: int, word: int, target: int, addend: int = 0) -> int | None:
    """The word after its relocation; None if the object is left to the linker."""
    code = arrange(object_with(relocation, word, target, addend), "main", MACHINE)
    return None if code is None else int(struct.unpack_from("<I", code.image, _TEXT)[0])


# An instruction without its immediate, the target's distance from it, and the instruction as
# `llvm-mc` 19 assembles it with a number for its immediate.
ENCODINGS = {
    "bl": (_CALL, 0x94000000, 0x1000, 0x94000400),
    "bl back": (_CALL, 0x94000000, -0x1000, 0x97FFFC00),
    "b farthest": (_JUMP, 0x14000000, (1 << 27) - 4, 0x15FFFFFF),
    "b farthest back": (_JUMP, 0x14000000, -1 << 27, 0x16000000),
    "adrp": (_PAGE, 0x90000003, 0x1000, 0xB0000003),
    "adrp within the next page": (_PAGE, 0x90000003, 0x1ABC, 0xB0000003),
    "adrp back": (_PAGE, 0x90000003, -0x1000, 0xF0FFFFE3),
    "adrp far": (_PAGE, 0x90000013, 0x7FFF000, 0xF003FFF3),
    "add": (_ADD, 0x91000020, 0xABC, 0x912AF020),
    "ldrb": (_LDST[1], 0x39400020, 0xABC, 0x396AF020),
    "ldrh": (_LDST[2], 0x79400020, 0xABC, 0x79557820),
    "ldr w": (_LDST[4], 0xB9400020, 0xABC, 0xB94ABC20),
    "ldr x": (_LDST[8], 0xF9400020, 0xAB8, 0xF9455C20),
    "ldr q": (_LDST[16], 0x3DC00020, 0xAB0, 0x3DC2AC20),
    "str q": (_LDST[16], 0x3D800027, 0xFF0, 0x3D83FC27),
    "number": (_PREL32, 0x55555555, -0x1000, 0xFFFFF000),
}

IMMEDIATES = {_CALL: 0x3FFFFFF, _JUMP: 0x3FFFFFF, _PAGE: 0x60FFFFE0, _PREL32: 0xFFFFFFFF}
"""The bits of an instruction that hold its immediate, by relocation; bits 10 to 21 for others."""


@pytest.mark.parametrize("name", ENCODINGS)
def test_relocated_instructions_are_those_of_an_assembler(name: str) -> None:
    relocation, word, distance, expected = ENCODINGS[name]
    assert relocated(relocation, word, 0, _TEXT + distance) == expected
    # A symbol elsewhere in the section, and an immediate that the word had before.
    word |= IMMEDIATES.get(relocation, 0x3FFC00)
    assert relocated(relocation, word, 0x340, _TEXT + distance - 0x340) == expected


@pytest.mark.parametrize(
    ("relocation", "word", "distance"),
    [
        pytest.param(_CALL, 0x94000000, 1 << 27, id="call too far"),
        pytest.param(_CALL, 0x94000000, (-1 << 27) - 4, id="call too far back"),
        pytest.param(_JUMP, 0x14000000, 2, id="jump into an instruction"),
        pytest.param(_PAGE, 0x90000000, 1 << 32, id="page too far"),
        pytest.param(_PREL32, 0, 1 << 31, id="number too far"),
        pytest.param(_LDST[2], 0x79400020, 1, id="half word at an odd address"),
        pytest.param(_LDST[4], 0xB9400020, 2, id="unaligned word"),
        pytest.param(_LDST[8], 0xF9400020, 4, id="unaligned double word"),
        pytest.param(_LDST[16], 0x3DC00020, 8, id="unaligned vector"),
        pytest.param(311, 0x90000000, 0, id="page of the global offset table"),
        pytest.param(257, 0, 0, id="absolute address"),
        pytest.param(2, 0, 0, id="relocation of x86-64"),
    ],
)
def test_unsupported_relocations_are_left_to_the_linker(
    relocation: int, word: int, distance: int
) -> None:
    assert relocated(relocation, word, 0, _TEXT + distance) is None


def test_code_finds_its_constants_and_functions() -> None:
    """The addresses that the instructions of a laid-out image refer to, by their encodings."""
    text = llvm_jit.compile_to_object(READS, processor=ARM)
    code, helper = (arrange(text, name, MACHINE) for name in ("main", "helper"))
    assert code is not None
    assert helper is not None
    assert not code.coherent
    words = dict(zip(range(0, len(code.image), 4), memoryview(code.image).cast("I"), strict=False))
    pages: dict[int, int] = {}
    addresses, calls = set(), set()
    for address, word in words.items():
        if word & 0x9F000000 == 0x90000000:  # adrp
            pages[word & 31] = (address & ~0xFFF) + (
                signed(word >> 5 << 2, 21) + (word >> 29 & 3) << 12
            )
        elif word & 0xFFC00000 == 0x91000000 and word >> 5 & 31 in pages:  # add
            addresses.add(pages[word >> 5 & 31] + (word >> 10 & 0xFFF))
        elif word & 0xFC000000 == 0x94000000:  # bl
            calls.add(address + 4 * signed(word, 26))
    assert calls == {helper.entry}
    tables = {bytes([1, 2, 3]), struct.pack("<4Q", 10, 20, 30, 40)}
    assert {code.image.find(table) for table in tables} == addresses


def signed(word: int, bits: int) -> int:
    """The lowest bits of a word as a signed number."""
    value = word & ((1 << bits) - 1)
    return value - (value >> (bits - 1) << bits)


@pytest.mark.parametrize("text", [CALLS, WRITES], ids=["calls outside", "writes its own data"])
def test_code_that_needs_a_linker_is_not_laid_out(text: str) -> None:
    assert arrange(llvm_jit.compile_to_object(text, processor=ARM), "main", MACHINE) is None


def test_code_of_another_processor_is_not_laid_out() -> None:
    code = llvm_jit.compile_to_object(READS, processor=ARM)
    assert arrange(code, "main", "x86_64") is None
    assert arrange(code, "main", "riscv64") is None
    # macOS names Arm so, and has another format.
    assert arrange(code, "main", "arm64") is None


def test_damaged_objects_are_rejected_or_laid_out_within_bounds() -> None:
    code, choice = llvm_jit.compile_to_object(READS, processor=ARM), random.Random(3)
    for length in range(0, len(code), 7):
        assert arrange(code[:length], "main", MACHINE) is None
    accepted = 0
    for _ in range(2000):
        damaged = bytearray(code)
        damaged[choice.randrange(len(code))] = choice.randrange(256)
        image = arrange(bytes(damaged), "main", MACHINE)
        if image is not None:
            accepted += 1
            assert 0 <= image.entry < len(image.image) < 2 * len(code)
    assert accepted


# --- execution


def test_laid_out_code_runs(qemu: str, tmp_path: Path) -> None:
    code = laid_out(READS, "main")
    for index, expected in enumerate((11, 22, 33)):
        data = call(qemu, tmp_path, code, (DATA, 0, index, 0), bytes(8))
        assert struct.unpack("<q", data) == (expected,)


@pytest.mark.parametrize("machine", [SCALAR, NEON], ids=["scalar", "neon"])
@pytest.mark.parametrize("modulus", [BN254_FR, BLS12_381_FQ], ids=lambda modulus: modulus.name)
def test_field_kernels_agree_with_integers(
    modulus: Modulus, machine: Machine, qemu: str, tmp_path: Path
) -> None:
    count, p = 19, modulus.value
    a = [1, p - 1, p - 1, *(secrets.randbelow(p - 1) + 1 for _ in range(count - 3))]
    b = [5, p - 1, 1, *(secrets.randbelow(p - 1) + 1 for _ in range(count - 3))]
    groups = -(-count // machine.workgroup_size)

    def words(values: list[int]) -> bytes:
        return b"".join(modulus.to_montgomery(x).to_bytes(modulus.bytes, "little") for x in values)

    def results(definition: KernelDefinition, *inputs: list[int]) -> bytes:
        code = laid_out(kernel_text(definition, machine, spec=modulus), definition.name)
        slots = (count, *map(words, inputs), bytes(count * modulus.bytes))
        return launch(qemu, tmp_path, code, groups, slots)[-1]

    products = [x * y % p for x, y in zip(a, b, strict=True)]
    assert results(field_kernels.field_multiply, a, b) == words(products)
    assert results(field_kernels.field_inverse, a) == words([pow(x, -1, p) for x in a])
