"""Register counts that roles change with setmaxnreg."""

from __future__ import annotations

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.kernel.errors import InterpreterError
from quod.kernel.verifier.registers import at_entry
from tests.conftest import open_for_test
from tests.device.kernels import in_roles
from tests.kernel.role_ring import (
    LANES,
    MACHINE,
)
from tests.support.devices import present
from tests.support.ptx_assembler import assemble


@pytest.mark.parametrize("name", present("emulated", "emulated:ptx", "cuda"))
def test_setmaxnreg_does_not_change_results(name: str) -> None:
    with open_for_test(name) as opened:
        x = np.zeros(256, np.uint32)
        opened.launch(opened.compile(in_roles), 1, x)
    local = np.arange(128, LANES)
    assert np.array_equal(x, local % 128 * 3 + local)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120", "sm_120a"])
def test_setmaxnreg_is_emitted_where_supported(arch: str) -> None:
    machine = ptx_machine(LANES, arch)
    module = ptx.translate(in_roles.trace(machine), machine)
    moves = arch.endswith("a")
    assert module.moves_registers == moves
    assert ("setmaxnreg" in module.text) == moves
    assert (".minnctapersm" in module.text) == moves
    assert assemble(module.text, arch)[0]


@pytest.mark.parametrize(
    ("size", "resident", "wanted"),
    [
        (128, 0, 256), (256, 1, 256), (288, 1, 168), (384, 1, 168), (416, 1, 128), (672, 1, 80),
        (896, 1, 72), (1024, 1, 64), (128, 5, 96), (128, 7, 72), (160, 2, 168), (288, 2, 96),
        (384, 2, 80),
    ],
)  # fmt: skip
def test_initial_register_count(size: int, resident: int, wanted: int) -> None:
    """The count the assembler assigns to a kernel that could use more."""
    assert at_entry(size, resident) == wanted


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".minnctapersm 1", "", "is left out, as the entry has no .minnctapersm"),
        ("u32 240", "u32 248", "have 66560 registers in all, and there are 168 for each of 384"),
        ("inc.sync.aligned.u32 240", "inc.sync.aligned.u32 160", "has 168 registers, and is to"),
        ("u32 24;", "u32 20;", "gives an instance no multiple of 8 registers from 24 to 256"),
        ("dec.sync.aligned", "dec.sync", "moves no registers in a way that is known here"),
    ],
)
def test_invalid_register_requests_in_text_are_rejected(old: str, new: str, message: str) -> None:
    text = ptx.emit(in_roles.trace(MACHINE), MACHINE)
    assert text.count(old) == 1
    with pytest.raises(InterpreterError, match=message):
        interpret_ptx(text.replace(old, new), 1, [np.zeros(256, np.uint32)])


def test_setmaxnreg_requires_whole_warpgroups() -> None:
    text = ptx.emit(in_roles.trace(MACHINE), MACHINE)
    for old, new in (
        ("%r2, 4;", "%r2, 3;"), ("%r1, 128;", "%r1, 96;"), ("%r1, 127;", "%r1, 31;"),
        ("u32 240;", "u32 176;"),
    ):  # fmt: skip
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(InterpreterError, match="of which some warps have not come"):
        interpret_ptx(text, 1, [np.zeros(288, np.uint32)])
