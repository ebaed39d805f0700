"""Matrices of a subgroup stored to shared memory: who stores what, and mistakes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.llvm import emitter as llvm
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.protocol import AnyDevice
from quod.errors import KernelError
from quod.frozen import replace
from quod.kernel import U32, Builder, Machine, Pointer, Value, kernel, u32, u64
from quod.kernel.analysis.walk import follow
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from tests.conftest import open_for_test
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import line_of
from tests.support.devices import present
from tests.support.ptx_assembler import ARCHITECTURES, assemble

GPU = ptx_machine(64)
COUNTS = (1, 2, 4)
FORMS = list(itertools.product(COUNTS, (False, True)))


@kernel
def stored(k: Builder, x: Pointer[U32], y: Pointer[U32], *, count: int, transposed: bool) -> None:
    """A subgroup stores matrices, whose rows lie in an order of their own; y is what is there.

    Instances without a row point where nothing is.
    """
    base, lane = k.subgroup_id() * 256, k.lane_id()
    room = k.shared(u32, 256 * (k.workgroup_size // 32))
    for step in range(8):
        room[base + lane + 32 * step] = k.constant(0, u32)
    k.barrier()
    place = base + lane * 5 % 32 * 8 + lane % 2 * 4
    place = k.select(lane < 8 * count, place, k.constant(0xFFFFFFF0, u32))
    words = [x[(k.subgroup_id() * 4 + number) * 32 + lane] for number in range(count)]
    k.store_matrices(room, place, words, transposed=transposed)
    k.barrier()
    for step in range(8):
        y[base + lane + 32 * step] = room[base + lane + 32 * step]


def expected(x: Any, count: int, transposed: bool) -> Any:
    """By the words of PTX's manual, element by element."""
    words = x.reshape(2, 4, 32)
    memory = np.zeros((2, 512), np.uint16)
    for subgroup, matrix, row, column in np.ndindex(2, count, 8, 8):
        lane = 8 * matrix + row
        at = 2 * (lane * 5 % 32 * 8 + lane % 2 * 4)
        r, c = (column, row) if transposed else (row, column)
        word = int(words[subgroup, matrix, 4 * r + c // 2])
        memory[subgroup, at + column] = word >> 16 * (c % 2) & 0xFFFF
    return memory.view(np.uint32).reshape(-1)


@pytest.fixture(scope="module", params=present("emulated", "emulated:ptx", "cuda"))
def tensor_device(request: pytest.FixtureRequest) -> Any:
    with open_for_test(request.param) as device:
        yield device


@pytest.mark.parametrize(("count", "transposed"), FORMS)
def test_rows_are_stored_at_instance_addresses(
    tensor_device: AnyDevice, count: int, transposed: bool
) -> None:
    x = np.random.default_rng(5).integers(0, 1 << 32, 256, np.uint32)
    device = tensor_device
    compiled = device.compile(stored, lanes=64, count=count, transposed=transposed)
    memory = device.upload(x), device.upload(np.full(512, 7, np.uint32))
    device.launch(compiled, 1, *memory)
    downloaded = np.zeros(512, np.uint32)
    device.download(memory[1], downloaded)
    assert np.array_equal(downloaded, expected(x, count, transposed))


@kernel
def there_and_back(k: Builder, x: Pointer[U32], *, transposed: bool) -> None:
    room, i = k.shared(u32, 4 * k.workgroup_size), k.local_id()
    words = [x[4 * i + number] for number in range(4)]
    k.store_matrices(room, 4 * i, words, transposed=transposed)
    k.barrier()
    k.store(x, 4 * i, *k.load_matrices(room, 4 * i, transposed=transposed))


@pytest.mark.parametrize("transposed", [False, True])
def test_stored_matrices_load_unchanged(tensor_device: AnyDevice, transposed: bool) -> None:
    x = np.random.default_rng(6).integers(0, 1 << 32, 256, np.uint32)
    words = x.copy()
    compiled = tensor_device.compile(there_and_back, lanes=64, transposed=transposed)
    tensor_device.launch(compiled, 1, words)
    assert np.array_equal(words, x)


@pytest.mark.parametrize(("count", "transposed"), FORMS)
def test_text_round_trips(count: int, transposed: bool) -> None:
    text = to_text(stored.trace(GPU, count=count, transposed=transposed))
    assert f"[transposed = {str(transposed).lower()}]" in text
    assert to_text(parse(text)) == text


@pytest.mark.parametrize("arch", ARCHITECTURES[1:])
def test_matrix_stores_assemble(arch: str) -> None:
    machine = ptx_machine(64, arch)
    for count, transposed in FORMS:
        text = ptx.emit(stored.trace(machine, count=count, transposed=transposed), machine)
        assert f"m8n8.x{count}{'.trans' if transposed else ''}.shared.b16" in text
        assert assemble(text, arch)[0]


def test_an_analysis_counts_rows() -> None:
    """The instance of a row stores 16 bytes; of fewer matrices, the others store nothing."""
    for count in COUNTS:
        accesses = follow(stored.trace(GPU, count=count, transposed=False)).accesses
        (access,) = (candidate for candidate in accesses if candidate.bytes == 16)
        assert access.active.reshape(2, 32).sum(axis=1).tolist() == [8 * count] * 2


# --- mistakes


def test_loads_of_stored_matrices_require_a_barrier() -> None:
    def own_row(k: Builder, x: Pointer[U32]) -> None:
        """The row that it points to is stored by others of the subgroup, too."""
        room, i = k.shared(u32, 256), k.local_id()
        k.store_matrices(room, 4 * i, [x[i]] * 4)
        x[i] = room[4 * i]  # here

    def loaded_before(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 256), k.local_id()
        k.store(room, 4 * i, *[i] * 4)
        k.barrier()
        x[i] = room[255 - 4 * i]
        k.store_matrices(room, 4 * i, [x[i]] * 4)  # here

    def unaligned(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 512), k.local_id()
        k.store_matrices(room, 4 * i + 2, [x[i]])  # here

    def outside(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 32), k.local_id()
        k.store_matrices(room, 4 * i, [x[i]] * 2)  # here

    def at_one_place(k: Builder, x: Pointer[U32]) -> None:
        room, i = k.shared(u32, 64), k.local_id()
        k.store_matrices(room, 4 * (i % 4), [i])  # here

    barrier = "a barrier is needed between"
    for body, message in (
        (own_row, f"loads from ROOM what another instance stored; {barrier}"),
        (loaded_before, f"changes in ROOM what another instance loaded; {barrier}"),
        (unaligned, "stores a row of a matrix at byte 8 of ROOM, which is not a multiple of 16"),
        (outside, "stores to element 32 of ROOM, which has 32 of type u32"),
        (at_one_place, "store different values to element 0 of ROOM at once"),
    ):
        definition = kernel(body)
        traced = definition.trace(GPU)
        room = f"the shared memory of line {line_of(definition, 'k.shared')}"
        with pytest.raises(InterpreterError) as caught:
            interpret(traced, 1, [np.zeros(512, np.uint32)])
        place = f"{__file__}:{line_of(definition, '# here')}: instance "
        assert str(caught.value).startswith(place)
        assert message.replace("ROOM", room) in str(caught.value)
        with pytest.raises(InterpreterError, match=message.split("ROOM")[0]):
            interpret_ptx(ptx.emit(traced, GPU), 1, [np.zeros(512, np.uint32)])


def refused(body: Callable[[Builder, Value, Value], None]) -> Callable[..., None]:
    def made(k: Builder, x: Pointer[U32]) -> None:
        body(k, k.shared(u32, 256), x)

    return made


def some(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.local_id() < 8):
        k.store_matrices(room, 4 * k.local_id(), [k.local_id()])  # here


def three(k: Builder, room: Value, x: Value) -> None:
    k.store_matrices(room, 0, [k.local_id()] * 3)  # here


def to_global_memory(k: Builder, room: Value, x: Value) -> None:
    k.store_matrices(x, 0, [k.local_id()])  # here


def by_a_long_index(k: Builder, room: Value, x: Value) -> None:
    k.store_matrices(room, k.constant(0, u64), [k.local_id()])  # here


def a_word(k: Builder, room: Value, x: Value) -> None:
    k.store_matrices(room, 0, k.local_id())  # type: ignore[arg-type]  # here


def a_number(k: Builder, room: Value, x: Value) -> None:
    k.store_matrices(room, 0, [3])  # type: ignore[list-item]  # here


def fine(k: Builder, room: Value, x: Value) -> None:
    k.store_matrices(room, 4 * k.local_id(), [k.local_id()])  # here


TAKES = "store_matrices takes (ptr<u32, shared>, u32, u32), not (ptr<u32, "


@pytest.mark.parametrize(
    ("body", "error", "message", "machine"),
    [
        (three, VerificationFailure, "store_matrices stores 1, 2 or 4 matrices, not 3", GPU),
        (to_global_memory, VerificationFailure, f"{TAKES}global>, u32, u32)", GPU),
        (by_a_long_index, VerificationFailure, f"{TAKES}shared>, u64, u32)", GPU),
        (a_word, TraceError, "words must be a list or tuple of values, not a Value", GPU),
        (a_number, TraceError, "store_matrices takes kernel values, not an int", GPU),
        (some, VerificationFailure, "a store_matrices that not every instance reaches", GPU),
        (
            fine, VerificationFailure,
            "store_matrices needs stores of matrices, which the machine for ptx has not",
            ptx_machine(64, "sm_80"),
        ),
        (
            fine, VerificationFailure,
            "store_matrices is for whole subgroups of 32, not for a workgroup of 48 in subgroups "
            "of 32", ptx_machine(48),
        ),
    ],
)  # fmt: skip
def test_invalid_stores_are_rejected(
    body: Callable[[Builder, Value, Value], None], error: type[KernelError], message: str,
    machine: Machine,
) -> None:  # fmt: skip
    with pytest.raises(error) as caught:
        kernel(refused(body)).trace(machine)
    place = f"{__file__}:{line_of(body, '# here')}: "
    assert str(caught.value).startswith(place + message)


def test_cpu_target_reports_the_reason() -> None:
    traced = stored.trace(GPU, count=1, transposed=False)
    with pytest.raises(KernelError, match=r"LLVM has no rule .* instances store their own elem"):
        llvm.emit(traced, replace(EIGHT, workgroup_size=64))
