"""Calls on x86-64: integers in registers that callees normally preserve.

LLVM (22.1) takes only the lower half of such a register for used where the number has less than 64
bits. A caller then kept another value in it across the call.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable

import numpy as np
import pytest

from quod.codegen.llvm import emitter
from quod.device import CpuDevice, open_device
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.processor import HostProcessor
from quod.field.moduli import NAMED, Modulus
from quod.field.strategies.lazy_limbs.strategy import LazyLimbs
from quod.frozen import replace
from quod.kernel import U64, Builder, Machine, Pointer, Value, kernel
from quod.kernel.ir import types
from tests.kernel.machines import EIGHT, FOUR, ONE

X86 = "x86_64-unknown-linux-gnu"
# Nine limbs of 32 bits: two of them in such registers.
MODULUS = NAMED["secp256k1.fr"]


@kernel
def several(
    k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, modulus: Modulus
) -> None:
    """More than registers hold, most of it across calls."""
    f, i = LazyLimbs(k, modulus, "29/64"), k.global_id()
    a, b = f.load(x, i), f.load(y, i)
    product, total, less = a * b, a + b, a - b
    results = [
        total, less, -a, product, total * less, f.inverse(a),
        f.select(f.equal(a, b), f.one(), f.constant(-2)),
    ]  # fmt: skip
    for place, result in enumerate(results):
        f.store(out, i * len(results) + place, result)


def test_values_survive_calls() -> None:
    choice, p = random.Random(1), MODULUS.value
    pairs = [(choice.randrange(p), choice.randrange(p)) for _ in range(8)] + [(0, 0), (p - 1, 1)]

    def packed(numbers: list[int]) -> np.ndarray:
        raw = b"".join(MODULUS.to_montgomery(n % p).to_bytes(32, "little") for n in numbers)
        return np.frombuffer(raw, np.uint64).copy()

    expected = packed(
        [
            result
            for a, b in pairs
            for result in (
                a + b, a - b, -a, a * b, (a + b) * (a - b), pow(a, p - 2, p), 1 if a == b else -2,
            )
        ]
    )  # fmt: skip
    device, out = CpuDevice(strategy="scalar", threads=1), np.zeros_like(expected)
    x, y = (packed(list(side)) for side in zip(*pairs, strict=True))
    device.launch(device.compile(several, lanes=1, modulus=MODULUS), len(pairs), x, y, out)
    assert out.tolist() == expected.tolist()


def leaf(k: Builder, *operands: Value, results: int) -> tuple[Value, ...]:
    return tuple(operands[at % len(operands)] * 3 + (at + 1) for at in range(results))


def branch(k: Builder, *operands: Value, results: int) -> tuple[Value, ...]:
    values = k.call("leaf", functools.partial(leaf, results=results), *operands, key=results)
    return tuple(each * 3 + (at + 1) for at, each in enumerate(values))


@kernel
def narrow(k: Builder, x: Pointer[U64], out: Pointer[U64], *, inputs: int, results: int) -> None:
    """Functions in functions that take and give numbers of 32 bits."""
    i = k.global_id()
    numbers = [(x[i] * (2 * at + 3) + at).cast(types.u32) for at in range(inputs)]
    outputs = k.call("branch", functools.partial(branch, results=results), *numbers, key=results)
    total = k.constant(0, types.u64)
    for each in (*outputs, *numbers):
        total = (total * 1000003) ^ each.cast(types.u64)
    out[i] = total


@pytest.mark.parametrize("inputs", range(5, 10))
def test_many_results_are_returned_through_memory(inputs: int) -> None:
    """The address of the result takes the place of an integer argument."""
    x = np.arange(1, 9, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for results in (6, 8, 11, 12, 13, 14):
        outputs = []
        for device in (CpuDevice(strategy="scalar", threads=1), open_device("cpu:checked")):
            out = np.zeros_like(x)
            compiled = device.compile(narrow, lanes=1, inputs=inputs, results=results)
            device.launch(compiled, len(x), x, out)
            outputs.append(out.tolist())
        assert outputs[0] == outputs[1], results


@kernel
def wide(k: Builder, x: Pointer[U64], out: Pointer[U64], *, inputs: int, results: int) -> None:
    """Calls of functions of vectors, whose operands and results are needed until the end."""
    i = k.global_id()
    numbers = [x[i] * (2 * at + 3) + at for at in range(inputs)]
    rounds = [numbers]
    for _ in range(3):
        repeated = [rounds[-1][at % len(rounds[-1])] for at in range(inputs)]
        outputs = k.call("leaf", functools.partial(leaf, results=results), *repeated, key=results)
        rounds.append([*outputs])
    total = k.constant(0, types.u64)
    for each in (each for values in rounds for each in values):
        total = (total * 1000003) ^ each
    out[i] = total


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("inputs", [8, 15, 17])
def test_more_vectors_than_registers(inputs: int, lanes: int) -> None:
    x = np.arange(1, 9, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for results in (8, 14, 15, 16, 17):
        outputs = []
        for device in (CpuDevice(threads=1), open_device("cpu:checked")):
            out = np.zeros_like(x)
            compiled = device.compile(wide, lanes=lanes, inputs=inputs, results=results)
            device.launch(compiled, len(x) // lanes, x, out)
            outputs.append(out.tolist())
        assert outputs[0] == outputs[1], results


@kernel
def floats(k: Builder, x: Pointer[U64], out: Pointer[U64], *, inputs: int, results: int) -> None:
    """Calls of functions of floats; eight lanes of one fill a register."""
    i = k.global_id()
    numbers = [((x[i] >> at) & 0xFF).cast(types.u32).cast(types.f32) for at in range(inputs)]
    outputs = k.call("leaf", functools.partial(leaf, results=results), *numbers, key=results)
    repeated = [outputs[at % results] for at in range(inputs)]
    outputs += k.call("leaf", functools.partial(leaf, results=results), *repeated, key=results)
    total = k.constant(0, types.u64)
    for each in outputs:
        total = (total * 1000003) ^ each.cast(types.u32).cast(types.u64)
    out[i] = total


@pytest.mark.parametrize("lanes", [1, 8])
def test_more_floats_than_registers(lanes: int) -> None:
    x = np.arange(1, 9, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for inputs, results in ((8, 14), (8, 16), (15, 15), (16, 16), (17, 17)):
        outputs = []
        for device in (CpuDevice(threads=1), open_device("cpu:checked")):
            out = np.zeros_like(x)
            compiled = device.compile(floats, lanes=lanes, inputs=inputs, results=results)
            device.launch(compiled, len(x) // lanes, x, out)
            outputs.append(out.tolist())
        assert outputs[0] == outputs[1], results


def test_kernels_compile_for_narrower_registers() -> None:
    """Without AVX an argument of 256 bits takes two of sixteen registers."""
    traced = floats.trace(EIGHT, inputs=8, results=8)
    text = emitter.emit(traced, EIGHT, triple=X86, register_bits=128)
    assert "<2 x i64> poison" in text
    processor = HostProcessor("x86-64", frozenset(), "", X86)
    assert llvm_jit.compile_to_object(text, processor=processor)
    assert processor.register_bits == 128
    assert replace(processor, features=frozenset({"avx"})).register_bits == 256


def test_late_integer_arguments_are_not_split() -> None:
    text = emitter.emit(several.trace(ONE, modulus=MODULUS), ONE, triple=X86)
    signatures = re.findall(
        r"^define internal x86_regcallcc \{ (.*?) \} @.*?\((.*?)\) ", text, re.M
    )
    assert len(signatures) > 5
    for results, parameters in signatures:
        for names in (results, parameters):
            assert not re.search("i32", ", ".join(names.split(", ")[6:]))
    # Elsewhere nothing is widened.
    other = emitter.emit(several.trace(ONE, modulus=MODULUS), ONE, triple="aarch64-linux-gnu")
    assert not re.search(r"i64 %w\d", other)
    assert "regcall" not in other


@pytest.mark.parametrize(
    ("bits", "count", "is_padded"),
    [(64, 14, False), (64, 15, True), (64, 16, True), (128, 7, False), (128, 8, True),
     (1, 14, False), (1, 15, True), (32, 14, False), (32, 15, True)],
)  # fmt: skip
def test_two_vector_registers_stay_unused(bits: int, count: int, is_padded: bool) -> None:
    """LLVM ends the process if arguments or results leave it none; see kernels of the phase 2."""
    names = [f"<4 x i{bits}>"] * count
    ifma = Machine("llvm", 8, frozenset({"u64", "ifma52"}))
    for machine in (FOUR, EIGHT, ifma):
        traced = wide.trace(machine, inputs=1, results=1)
        for triple, padding in ((X86, 2 * is_padded), ("aarch64-linux-gnu", 0)):
            unused = 0 if machine is ifma else padding
            module = emitter.ModuleEmitter(traced, machine, triple)
            assert module.struct(names).count("<") == count + unused
            assert len(module.with_unused_registers(names, "poison")) == count + unused


def test_floats_of_one_lane_are_in_vector_registers() -> None:
    module = emitter.ModuleEmitter(wide.trace(ONE, inputs=1, results=1), ONE, X86)
    for name in ("half", "float", "double"):
        parts = [*(["i64 %a"] * 9), *([f"{name} %b"] * 15)]
        assert len(module.with_unused_registers(parts, "poison")) == 26
        assert module.with_unused_registers(parts[:-1], "poison") == parts[:-1]


@pytest.mark.parametrize(
    ("names", "passed", "convention"),
    [
        (["i64"] * 12, ["i64"] * 12, "x86_regcallcc"),
        (["i64"] * 5 + ["i1", "i1", "i32"], ["i64"] * 5 + ["i1", "i64", "i64"], "x86_regcallcc"),
        (["ptr"] * 9, ["ptr"] * 9, "x86_regcallcc"),
        (["<8 x i64>"] * 20 + ["i1"], ["<8 x i64>"] * 20 + ["i1"], "x86_regcallcc"),
        (["<8 x i1>"] * 6, ["<8 x i1>"] * 6, "x86_regcallcc"),
        (["<8 x i1>"] * 7, ["<8 x i1>"] * 7, "fastcc"),
        (["float", "double"] * 9 + ["i8"], ["float", "double"] * 9 + ["i8"], "x86_regcallcc"),
    ],
)
def test_narrow_arguments_are_widened(names: list[str], passed: list[str], convention: str) -> None:
    module = emitter.ModuleEmitter(several.trace(ONE, modulus=MODULUS), ONE, X86)
    assert module.passed(names) == passed
    assert module.convention(passed, []) == module.convention([], passed) == convention
    plain = emitter.ModuleEmitter(several.trace(ONE, modulus=MODULUS), ONE, "aarch64-linux-gnu")
    assert plain.passed(names) == names
    assert plain.convention(names, []) == "fastcc"


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(
    "names",
    [
        ["named"],  # as the kernel is
        ["llvm.cttz.i8"], ["llvm.cttz.v8i8", "llvm.x", "llvm.x"],  # as intrinsics are
        ['a"b'], ["a\\\\b"], ["a\nb"], ["a\0b"], ["\ud800"], [""], ["é"],
        ["f", "f"], ["f", "f.1", "f", "f#1", "f"],  # as others are
    ],
    ids=repr,
)  # fmt: skip
def test_functions_of_any_name(names: list[str], lanes: int) -> None:
    def adder(number: int) -> Callable[[Builder, Value], Value]:
        return lambda _, a: a + number

    @kernel
    def named(k: Builder, x: Pointer[U64]) -> None:
        value = x[k.global_id()]
        for place, name in enumerate(names):
            value = k.call(name, adder(1 << place), value)
        x[k.global_id()] = value

    x = np.zeros(lanes, np.uint64)
    with open_device("cpu") as device:
        device.launch(device.compile(named, lanes=lanes), 1, x)
    assert x.tolist() == [2 ** len(names) - 1] * lanes
