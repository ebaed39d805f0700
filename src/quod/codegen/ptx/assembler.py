"""Assembly of PTX with nvJitLink, without a GPU: machine code and the assembler's log.

For reports, tests and kernels shipped as machine code. CUDA devices use the driver's assembler.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from quod.errors import KernelError
from quod.extras import installation
from quod.frozen import frozen


class AssemblerMissing(KernelError):
    """nvJitLink is not installed."""


class AssemblyError(KernelError):
    """The assembler rejected a PTX text; the message is its log."""


@frozen
class Usage:
    """The resources of an entry point according to the assembler, per thread."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int


def assemble(ptx: str, arch: str) -> tuple[bytes, str]:
    """Assemble a PTX text for an architecture such as ``sm_90a``; return the cubin and the log.

    Raises AssemblyError if the text is rejected, AssemblerMissing without nvJitLink.
    """
    nvjitlink = _nvjitlink()
    try:
        # The first argument is the number of options.
        handle = nvjitlink.create(2, [f"-arch={arch}", "-verbose"])
    except nvjitlink.nvJitLinkError as error:
        raise AssemblyError(f"nvJitLink refuses {arch} ({error})") from None
    try:
        text = ptx.encode() + b"\0"
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "kernel.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin), _log(nvjitlink, handle, "info")
    except nvjitlink.nvJitLinkError as error:
        raise AssemblyError(_log(nvjitlink, handle, "error") or str(error)) from None
    finally:
        nvjitlink.destroy(handle)


def assembler_version() -> str:
    """Return the version of the assembler that `assemble` uses.

    Raises AssemblerMissing if there is none.
    """
    return "nvJitLink {}.{}".format(*_nvjitlink().version())


def _nvjitlink() -> Any:
    try:
        module: Any = importlib.import_module("cuda.bindings.nvjitlink")
        module.version()
    except (ImportError, RuntimeError) as error:
        raise AssemblerMissing(
            f"there is no nvJitLink ({error}); {installation('build')}"
        ) from None
    return module


def _log(nvjitlink: Any, handle: int, kind: str) -> str:
    size = getattr(nvjitlink, f"get_{kind}_log_size")(handle)
    log = bytearray(size)
    if size > 1:
        getattr(nvjitlink, f"get_{kind}_log")(handle, log)
    return log.rstrip(b"\0").decode()


def usage(log: str) -> Usage:
    """Parse the registers, spills and stack of the single entry point in a log."""
    # The linker's figure counts the functions that are called; the assembler's does not.
    registers = max(map(int, re.findall(r"[Uu]sed (\d+) registers", log)))
    spills = re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
    )
    stack, stores, loads = (max(map(int, column)) for column in zip(*spills, strict=True))
    return Usage(registers, stores, loads, stack)
