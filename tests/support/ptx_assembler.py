"""PTX assembled and taken apart with no GPU: nvJitLink for machine code, nvdisasm for its text.

Both results are kept in the cache of compiled kernels by the digest of the text or code, and of
the modules that call the programs.
"""

from __future__ import annotations

import collections
import functools
import os
import re
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from quod.codegen.ptx import assembler
from quod.codegen.ptx.assembler import AssemblyError, Usage, assembler_version, usage
from tests.support.remembered import result_of

__all__ = [
    "ARCHITECTURES", "AssemblyError", "Usage", "assemble", "disassembler", "opcodes", "sass",
    "usage", "with_multiplying_registers",
]  # fmt: skip

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "sm_120")
"""The architectures that every kernel is assembled for."""


@functools.cache
def disassembler() -> Path:
    """Path of nvdisasm: a wheel keeps it beside the libraries of its CUDA version."""
    root = Path(sysconfig.get_path("purelib")) / "nvidia"
    programs = sorted([*root.glob("cu*/bin/nvdisasm"), *root.glob("cuda_nvdisasm/bin/nvdisasm")])
    if not programs:
        raise AssemblyError("there is no nvdisasm; install the dev extra")
    return programs[-1]


@functools.cache
def _versions() -> tuple[str | bytes, ...]:
    """The programs on which results depend, and the code that runs them and reads their output."""
    files = Path(assembler.__file__), Path(__file__)
    return assembler_version(), *(file.read_bytes() for file in files)


def assemble(ptx: str, arch: str) -> tuple[bytes, str]:
    """See `quod.codegen.ptx.assembler.assemble`."""

    def compute() -> str:
        cubin, log = assembler.assemble(ptx, arch)
        return f"{cubin.hex()}\n{log}"

    text = result_of("assembled", *_versions(), arch, ptx, compute=compute)
    cubin, _, log = text.partition("\n")
    return bytes.fromhex(cubin), log


def with_multiplying_registers(ptx: str) -> str:
    """Give all threads of a warp-specialised kernel the registers of those that multiply.

    The linker drops setmaxnreg, so that it would assemble for the registers at the start. Other
    kernels stay as they are.
    """
    counts = re.findall(r"setmaxnreg\.inc\S* (\d+)", ptx)
    if not counts:
        return ptx
    text = re.sub(r"\n  setmaxnreg.*", "", ptx)
    threads = re.search(r"\.maxntid (\d+)\n\.minnctapersm 1", text)
    assert threads is not None
    multiplying = int(threads[1]) - 128
    return text.replace(threads[0], f".maxntid {multiplying}\n.maxnreg {counts[0]}")


def sass(cubin: bytes) -> list[str]:
    """The machine instructions of a cubin, one line each, without addresses and encodings."""
    return result_of(
        "disassembled", *_versions(), cubin, compute=lambda: "\n".join(_instructions(cubin))
    ).splitlines()


def _instructions(cubin: bytes) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "kernel.cubin")
        Path(file).write_bytes(cubin)
        done = subprocess.run(
            [str(disassembler()), "-c", file], capture_output=True, text=True, check=True
        )
    lines = (re.sub(r"/\*.*?\*/", "", line).strip() for line in done.stdout.splitlines())
    return [line.rstrip(" ;") for line in lines if line.endswith(";")]


def opcodes(lines: list[str]) -> collections.Counter[str]:
    """Count the opcodes in machine code, by name without what follows a dot.

    Multiply-adds are told apart: IMAD.WIDE, which is a fused pair, IMAD.HI and IMAD; IMAD.MOV,
    IMAD.SHL, IMAD.IADD and IMAD.X, which move, shift and add, are MOV, SHL and IADD3.
    """
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        words = line.split()
        opcode = words[1] if words[0].startswith("@") else words[0]
        name, *parts = opcode.split(".")
        if name == "IMAD" and parts:
            plain = {"MOV": "MOV", "SHL": "SHL", "IADD": "IADD3", "X": "IADD3"}.get(parts[0])
            name = plain or (f"IMAD.{parts[0]}" if parts[0] in ("WIDE", "HI") else "IMAD")
        counts[name] += 1
    return counts
