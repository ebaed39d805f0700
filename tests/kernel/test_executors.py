"""The differential test harness detects wrong executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.module import PtxModule
from quod.frozen import replace
from quod.kernel import U32, Builder, KernelDefinition, Machine, Pointer, examples, kernel
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import Kernel
from tests.kernel.machines import EIGHT, ONE
from tests.support import executors as harness
from tests.support.executors import Executor, assert_same_bits, run_everywhere


def test_executors_compare_bits() -> None:
    nan = np.array([1, 2, np.nan, 4], np.float32)
    other = nan.copy()
    other.view(np.uint32)[2] ^= 0x80000001
    assert_same_bits(nan, other, "b")
    assert_same_bits(np.arange(4).reshape(2, 2), np.arange(4).reshape(2, 2), "b")
    with pytest.raises(AssertionError, match=r"^b: element 1 is .*-0.0.*, and .*0.0"):
        assert_same_bits(np.array([1.0, -0.0]), np.array([1.0, 0.0]), "b")
    with pytest.raises(AssertionError, match=r"^b: element 3 is "):
        assert_same_bits(np.array([[0, 1], [2, 4]]), np.array([[0, 1], [2, 3]]), "b")


def _executor(machine: Any, name: str, *, wrong: bool) -> Executor:
    def run(
        definition: KernelDefinition, groups: int, arguments: Sequence[Any], static: dict[str, Any]
    ) -> None:
        interpret(definition.trace(machine, **static), groups, arguments)
        if wrong:
            arguments[-1][5] ^= 1

    return Executor(name, machine, run)


def test_wrong_executor_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(16, dtype=np.uint32)
    arguments: list[Any] = [16, x, x, np.zeros(16, np.uint32)]
    right, wrong = _executor(EIGHT, "right", wrong=False), _executor(ONE, "wrong", wrong=True)
    monkeypatch.setattr(harness, "executors", lambda: [right])
    assert run_everywhere(examples.vector_add, 2, arguments)[2].tolist() == (2 * x).tolist()
    assert not arguments[-1].any()
    monkeypatch.setattr(harness, "executors", lambda: [right, wrong])
    with pytest.raises(AssertionError, match=r"^buffer 2 of vector_add on wrong: element 5 is"):
        run_everywhere(examples.vector_add, 2, arguments)


def test_disagreeing_machines_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    @kernel
    def size(k: Builder, y: Pointer[U32]) -> None:
        y[k.global_id()] = k.workgroup_size

    both = [_executor(EIGHT, "eight", wrong=False), _executor(ONE, "one", wrong=False)]
    monkeypatch.setattr(harness, "executors", lambda: both)
    y = np.zeros(8, np.uint32)
    with pytest.raises(AssertionError, match=r"^buffer 0 of size, interpreted for one: element 0"):
        run_everywhere(size, 1, [y])
    assert run_everywhere(size, 1, [y], per_workgroup=True)[0].tolist() == [8] * 8


@pytest.mark.parametrize(
    ("emitted", "mistaken", "error"),
    [
        ("add.u32 %r7, %r5, %r6", "sub.u32 %r7, %r5, %r6", AssertionError),
        ("4, %rd2", "8, %rd2", InterpreterError),
        ("@!%p0 bra", "@%p0 bra", AssertionError),
        ("ld.global.u32 %r6", "ld.global.u16 %r6", AssertionError),
    ],
)
def test_emitter_mistakes_are_detected(
    emitted: str, mistaken: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ptx.translate

    def wrong(traced: Kernel, machine: Machine) -> PtxModule:
        module = right(traced, machine)
        assert emitted in module.text
        return replace(module, text=module.text.replace(emitted, mistaken))

    monkeypatch.setattr(ptx, "translate", wrong)
    monkeypatch.setattr(harness, "executors", list)
    x = np.arange(1 << 16, (1 << 16) + 32, dtype=np.uint32)
    with pytest.raises(error):
        run_everywhere(examples.vector_add, 4, [30, x, x, np.zeros(32, np.uint32)])
