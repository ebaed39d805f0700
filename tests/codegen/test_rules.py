"""How the target LLVM is found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quod.codegen.llvm import emitter as llvm
from quod.errors import InputError
from quod.kernel.registry import emit, emitters


def test_the_target_is_registered() -> None:
    assert emitters["llvm"] is llvm.emit
    text = emit("examples.saxpy", "llvm")
    assert text.startswith("; saxpy: 8 lanes")
    with pytest.raises(InputError, match="there is no target ptxx"):
        emit("examples.saxpy", "ptxx")


def test_the_target_is_found_by_a_process_that_has_not_loaded_it() -> None:
    script = """
import sys
from quod.kernel.registry import emit
assert "quod.codegen.llvm.emitter" not in sys.modules
print(emit("examples.saxpy", "llvm")[:7])
assert "llvmlite" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "; saxpy"
