"""Structs as parameters of kernels: texts, launches on every device, recordings and mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from quod.cli import entry
from quod.device import open_device
from quod.device.export.device import ExportDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.field import Element, ElementOf, Modulus, from_integers, to_integers
from quod.field.any_field import field_arithmetic
from quod.field.moduli import BN254_FR, M31
from quod.kernel import U32, Builder, Pointer, Struct, TraceError, Value, function, kernel
from quod.kernel.builder.structs import without_structs
from quod.kernel.ir.text import to_text
from tests.conftest import open_for_test
from tests.kernel.machines import EIGHT
from tests.support.devices import present

DEVICES = present("cpu", "cpu:checked", "emulated:ptx", "emulated:wgsl", "cuda", "webgpu")


class Rows(Struct):
    """Rows of words, `stride` apart."""

    words: Pointer[U32]
    stride: U32


class Line(Struct):
    """A line through two elements of a row, and the point on it."""

    rows: Rows
    r: Annotated[Element, ElementOf("spec")]
    first: U32


@pytest.fixture(scope="module", params=DEVICES)
def some_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


@kernel
def evaluate(
    k: Builder, n: U32, line: Line, line_first: U32, out: Pointer[U32], *, spec: Modulus
) -> None:
    """out[i] = row[0] + r * (row[1] - row[0]) + line_first, for row i + first of n."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        at = (i + line.first) * line.rows.stride
        low, high = f.load(line.rows.words, at), f.load(line.rows.words, at + 1)
        with k.range(0, line_first, carry=f.bounded(low + line.r * (high - low))) as loop:
            loop.next(f.bounded(loop.carried + 1))
        f.store(out, i, loop.results)


def test_slots_and_text() -> None:
    with open_device("cpu") as device:
        compiled = device.compile(evaluate, spec=M31)
    assert list(compiled.parameters) == ["n", "line", "line_first", "out"]
    slots = ["n", "line_rows_words", "line_rows_stride", "line_r_0", "line_first_", "line_first"]
    assert list(compiled.slots) == [*slots, "out"]
    assert sorted(compiled.stored) == [6]
    kind = "line: Line(rows: Rows(words: ptr<u32, global>, stride: u32), r: m31, first: u32)"
    assert kind in repr(compiled)
    # The words of an element say nothing about a launch's time; the numbers of structs do.
    numbers = compiled.size_class(1, (8, np.zeros(1), 2, 12345, 3, 1, np.zeros(1)))
    assert numbers == (1, 4, 2, 2, 1)


@pytest.mark.parametrize("spec", [M31, BN254_FR], ids=lambda spec: spec.name)
def test_launches_and_recordings(some_device: AnyDevice, spec: Modulus) -> None:
    p, n = spec.value, 3
    rows = [[5, 7, 0], [p - 1, 2, 0], [p // 2, 1, 0], [4, p - 2, 0]]

    def expected(r: int, shift: int) -> list[int]:
        return [(a + r * (b - a) + shift) % p for a, b, _ in rows[1:]]

    words = from_integers(spec, [entry for row in rows for entry in row])
    out = from_integers(spec, [0] * n)
    evaluated = evaluate.on(some_device, spec=spec)
    evaluated(n, Line(Rows(words, stride=3), p // 3, first=1), 2, out)
    assert to_integers(spec, out) == expected(p // 3, 2)

    # A chain of launches: the second reads what the first stores, through structs.
    stream = some_device.stream().record()
    source, target = some_device.upload(words), some_device.upload(out)
    line = Line(Rows(source, 3), p - 2, 1)
    stream.launch(evaluated.kernel, evaluated.groups(n), n, line, 1, target)
    pair = Line(Rows(target, 1), 3, 0)
    last = some_device.allocate(spec.words * 4)
    stream.launch(evaluated.kernel, evaluated.groups(1), 1, pair, 0, last)
    stream.download(last, out[:1])
    recording = stream.finish().recording
    for _ in range(2):
        some_device.stream().replay(recording).run()
        a, b, _ = expected(p - 2, 1)
        assert to_integers(spec, out[:1]) == [(a + 3 * (b - a)) % p]
        out[:] = 0
    steps = recording.describe()["steps"]
    first, second = [step for step in steps if step["op"] == "launch"]
    assert first["arguments"][-1]["memory"] == second["arguments"][1]["memory"]


def test_export() -> None:
    device = ExportDevice()
    words = from_integers(M31, [1, 5, 2, 9])
    compiled = device.compile(evaluate, lanes=64, spec=M31)
    line = Line(Rows(device.upload(words), 2), 3, 0)
    launched = device.upload(np.zeros(2, np.uint32))
    device.launch(compiled, 1, 2, line, 0, launched)
    out = np.zeros(2, np.uint32)
    device.download(launched, out)
    assert to_integers(M31, out.reshape(2, 1)) == [13, 23]


@function
def row_start(k: Builder, rows: Rows, row: Value) -> Value:
    return rows.words[row * rows.stride]


@kernel(constant="rows")
def through_functions(k: Builder, rows: Rows, out: Pointer[U32]) -> None:
    with k.if_(k.global_id() == 0), k.range(0, 3, carry=Rows(rows.words, rows.stride)) as loop:
        out[loop.index] = row_start(k, loop.carried, loop.index)
        loop.next(Rows(loop.carried.words, loop.carried.stride + 1))


def test_structs_in_loops_and_functions() -> None:
    traced = through_functions.trace(EIGHT)
    assert traced.constant == ("rows_words",)
    assert "%rows_words: ptr<u32, global>" in to_text(traced)
    out = np.zeros(3, np.uint32)
    with open_device("cpu") as device:
        rows = Rows(np.arange(20, dtype=np.uint32), 2)
        device.launch(device.compile(through_functions), 1, rows, out)
    assert out.tolist() == [0, 3, 8]


def test_invalid_arguments_are_rejected() -> None:
    words, out = np.zeros(8, np.uint32), np.zeros(2, np.uint32)
    with open_device("cpu") as device:
        compiled = device.compile(evaluate, spec=M31)

        def refused(line: object, message: str) -> None:
            with pytest.raises(DeviceError, match=message):
                device.launch(compiled, 1, 1, line, 0, out)

        refused((Rows(words, 2), 3, 0), "argument line of kernel evaluate is Line.*of tuple")
        refused(Rows(words, 2), "give a Line, not a value of Rows")
        refused(Line(words, 3, 0), "has the field rows, which is Rows.*not a value of ndarray")
        refused(Line(Rows(words, 2), -1, 0), "argument line .* the field r, which is an element")
        refused(Line(Rows(2, 2), 1, 0), "argument line_rows_words of kernel evaluate must be a buf")
        refused(Line(Rows(words, words), 1, 0), "argument line_rows_stride .* must be a number")
        refused(Line(Rows(words, 1 << 32), 1, 0), "line_rows_stride .* which u32 cannot hold")
        with pytest.raises(DeviceError, match=r"takes 4 arguments \(n, line, line_first, out\)"):
            device.launch(compiled, 1, 1, words, 2, 3, 0, out)
    with pytest.raises(TypeError, match=r"Rows\(\) is missing 'stride'"):
        Rows(words)


class Single(Struct):
    words: U32


class Alike(Struct):
    """Fields whose slots would have the names of other fields."""

    single: Single
    single_words: U32
    r: Annotated[Element, ElementOf("spec")]
    r_0: U32


@kernel
def store_alike(
    k: Builder, alike: Alike, alike_single: Single, alike_r: U32, out: Pointer[U32], *,
    spec: Modulus,
) -> None:  # fmt: skip
    f = field_arithmetic(k, spec)
    with k.if_(k.global_id() == 0):
        f.store(out, 0, alike.r)
        numbers = (
            alike.single.words, alike.single_words, alike.r_0, alike_single.words, alike_r
        )  # fmt: skip
        for at, number in enumerate(numbers, 1):
            out[at] = number


def test_fields_named_like_other_slots() -> None:
    out = np.zeros(6, np.uint32)
    alike = Alike(Single(2), 3, 1, 4)
    with open_device("cpu") as device:
        compiled = device.compile(store_alike, spec=M31)
        device.launch(compiled, 1, alike, Single(5), 6, out)
    assert out.tolist() == [1, 2, 3, 4, 5, 6]
    slots = ["alike_single_words_", "alike_single_words", "alike_r_0_", "alike_r_0"]
    assert list(compiled.slots) == [*slots, "alike_single_words__", "alike_r", "out"]
    flat = ["alike_single_words_", "alike_single_words", "alike_r_", "alike_r_0"]
    assert list(without_structs(compiled.parameters)) == [*flat, *list(compiled.slots)[4:]]


class Ratio:
    """A base that is no struct and names a field, too."""

    divisor: U32


class Fraction(Single, Ratio):
    divisor: U32

    @cached_property
    def quotient(self) -> Value:
        return self.words // self.divisor


@kernel
def divide(k: Builder, fraction: Fraction, out: Pointer[U32]) -> None:
    with k.if_(k.global_id() == 0):
        assert isinstance(fraction.quotient, Value)
        with k.range(0, 2, carry=fraction) as loop:
            loop.next(Fraction(loop.carried.quotient, loop.carried.divisor))
        out[0] = loop.results.quotient


def test_structs_with_properties_and_other_bases() -> None:
    out = np.zeros(1, np.uint32)
    with open_device("cpu") as device:
        device.launch(device.compile(divide), 1, Fraction(1000, 5), out)
    assert out.tolist() == [8]


class Wrong(Struct):
    n: int


class Numbers(Struct):
    n: U32


def test_invalid_declarations_are_rejected() -> None:
    with pytest.raises(TraceError, match="line has the field r, which is a field element"):
        evaluate.parameters_for({"spec": 17})

    def of_wrong(k: Builder, wrong: Wrong) -> None: ...

    with pytest.raises(TraceError, match=r"parameter wrong\.n is annotated with <class 'int'>"):
        kernel(of_wrong)

    def of_numbers(k: Builder, wrong: Numbers) -> None: ...

    with pytest.raises(
        TraceError, match=r"wrong is Numbers\(n: u32\), but only an array can be constant"
    ):
        kernel(constant="wrong")(of_numbers).trace(EIGHT)


SOURCE = """
from quod.kernel import F32, U32, Builder, Pointer, Struct, kernel


class Vector(Struct):
    entries: Pointer[F32]
    factor: F32


@kernel
def scale(k: Builder, n: U32, vector: Vector) -> None:
    i = k.global_id()
    with k.if_(i < n):
        vector.entries[i] = vector.entries[i] * vector.factor
"""


def test_bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    command = ["kernel", "bench", f"{file}:scale", "n=10", "vector_entries=10"]
    assert entry.run(command) != 0
    assert "scale also needs vector_factor=NUMBER" in capsys.readouterr().err
    assert entry.run([*command, "vector_factor=1.5", "--seconds", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == 80
