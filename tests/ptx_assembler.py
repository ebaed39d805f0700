"""PTX assembled and taken apart with no GPU: nvJitLink for machine code, nvdisasm for its text."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "sm_120")
"""The architectures that every kernel is assembled for."""


class AssemblyError(Exception):
    """The assembler refused a PTX text; the message is its log."""


@dataclass(frozen=True)
class Usage:
    """What the assembler says that an entry point needs."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int


def assemble(ptx: str, arch: str) -> tuple[bytes, str]:
    """The cubin of a PTX text for an architecture such as ``sm_90a``, and the assembler's log."""
    from cuda.bindings import nvjitlink

    handle = nvjitlink.create(2, [f"-arch={arch}", "-verbose"])
    try:
        text = ptx.encode() + b"\0"
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "kernel.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin), _log(handle, "info")
    except nvjitlink.nvJitLinkError as error:
        raise AssemblyError(_log(handle, "error") or str(error)) from None
    finally:
        nvjitlink.destroy(handle)


def _log(handle: int, kind: str) -> str:
    from cuda.bindings import nvjitlink

    size = getattr(nvjitlink, f"get_{kind}_log_size")(handle)
    log = bytearray(size)
    if size > 1:
        getattr(nvjitlink, f"get_{kind}_log")(handle, log)
    return log.rstrip(b"\0").decode()


def usage(log: str) -> Usage:
    """The registers, spills and stack of the only entry point that a log is about."""
    # The linker's figure counts the functions that are called; the assembler's does not.
    registers = max(map(int, re.findall(r"[Uu]sed (\d+) registers", log)))
    spills = re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
    )
    stack, stores, loads = (max(map(int, column)) for column in zip(*spills, strict=True))
    return Usage(registers, stores, loads, stack)


@functools.cache
def disassembler() -> Path:
    """Where nvdisasm is: a wheel keeps it beside the libraries of its CUDA version."""
    root = Path(sysconfig.get_path("purelib")) / "nvidia"
    found = sorted([*root.glob("cu*/bin/nvdisasm"), *root.glob("cuda_nvdisasm/bin/nvdisasm")])
    if not found:
        raise AssemblyError("there is no nvdisasm; install the dev extra")
    return found[-1]


def sass(cubin: bytes) -> list[str]:
    """The machine instructions of a cubin, one line each, without addresses and encodings."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "kernel.cubin")
        Path(file).write_bytes(cubin)
        done = subprocess.run(
            [str(disassembler()), "-c", file], capture_output=True, text=True, check=True
        )
    lines = (re.sub(r"/\*.*?\*/", "", line).strip() for line in done.stdout.splitlines())
    return [line.rstrip(" ;") for line in lines if line.endswith(";")]
