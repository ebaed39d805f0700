"""Every executor agrees with the interpreter, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from quod.device.cache.cache import CompileCache
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu.device import CpuDevice
from quod.kernel import Builder, KernelDefinition, Machine, Value, examples
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ops.scalar import NUMPY_TYPES
from tests.kernel.control_kernels import CASES, Case
from tests.kernel.hostile import hostile_arrays
from tests.kernel.op_kernels import OP_CASES, OpCase, elementwise, op_kernel
from tests.kernel.random_kernels import kernels
from tests.kernel.subgroup_kernels import EXCHANGES, INSTANCES, Exchange, Shape
from tests.support.executors import run_everywhere
from tests.support.selection import runs_all

CACHE = CompileCache()


def _by_operands() -> list[list[OpCase]]:
    """Ops of the same operand types together, so that few kernels are compiled."""
    groups: dict[tuple[Type, ...], list[OpCase]] = {}
    for case in OP_CASES:
        groups.setdefault(case.operand_types, []).append(case)
    return list(groups.values())


@pytest.mark.parametrize("cases", _by_operands(), ids=lambda cases: str(cases[0].operand_types))
def test_ops(cases: list[OpCase]) -> None:
    arrays = hostile_arrays(list(cases[0].operand_types), limit=768)
    words = cases[0].stored(cases[0].operand_types)
    sources = [a.astype(NUMPY_TYPES[word]) for a, word in zip(arrays, words, strict=True)]
    results = [
        np.zeros(len(sources[0]), NUMPY_TYPES[type_])
        for case in cases
        for type_ in case.stored(case.result_types)
    ]
    run_everywhere(op_kernel(cases), len(sources[0]) // 8, [*sources, *results], lowered=True)


@pytest.mark.parametrize("source", types.SCALARS, ids=repr)
def test_convert(source: Type) -> None:
    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [operands[0].cast(target) for target in types.SCALARS]

    definition = elementwise("test_convert", [source], list(types.SCALARS), compute)
    (values,) = hostile_arrays([source])
    results = [np.zeros(len(values), NUMPY_TYPES[target]) for target in types.SCALARS]
    run_everywhere(definition, len(values) // 8, [values, *results], lowered=True)


@pytest.mark.parametrize("source", types.NUMBERS, ids=repr)
def test_bitcast(source: Type) -> None:
    targets = [t for t in types.NUMBERS if t.bits == source.bits and t is not source]

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [k.bitcast(operands[0], target) for target in targets]

    definition = elementwise("test_bitcast", [source], targets, compute)
    (values,) = hostile_arrays([source])
    # Which bits a NaN has is not specified.
    values = np.where(np.isnan(values), values.dtype.type(0), values)
    results = [np.zeros(len(values), NUMPY_TYPES[target]) for target in targets]
    run_everywhere(definition, len(values) // 8, [values, *results], lowered=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_control_flow_and_memory(case: Case) -> None:
    run_everywhere(
        case.definition, 4, case.arguments, per_workgroup=case.per_workgroup, lowered=True
    )


@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_exchanges(exchange: Exchange) -> None:
    run_everywhere(
        exchange.definition, INSTANCES // 8, exchange.arguments, per_workgroup=True, lowered=True
    )


@pytest.mark.parametrize(("lanes", "subgroup"), [(8, 4), (16, 8), (4, 32), (64, 32)])
@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_exchanges_in_vectors_of_several_subgroups(
    exchange: Exchange, lanes: int, subgroup: int
) -> None:
    machine = Machine("llvm", lanes, frozenset({"u64", "subgroup"}), subgroup_size=subgroup)
    device = CpuDevice(strategy="scalar", threads=1, cache=CACHE)
    compiled = cpu_compiler.build(exchange.definition, machine, {}, CACHE)
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in exchange.arguments]
    device.launch(compiled, INSTANCES // lanes, *arguments)
    rows = [exchange.model(Shape(lanes, subgroup), i) for i in range(INSTANCES)]
    for column, buffer in enumerate(arguments[exchange.inputs :]):
        assert buffer.tolist() == [row[column] for row in rows]


def test_examples() -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 1 << 32, 61, np.uint32)
    y = random.integers(0, 1 << 32, 61, np.uint32)
    (_, _, added) = run_everywhere(
        examples.vector_add, 8, [61, x, y, np.zeros_like(x)], lowered=True
    )
    np.testing.assert_array_equal(added, x + y)

    a, b = random.standard_normal((2, 61)).astype(np.float32)
    (_, scaled) = run_everywhere(examples.saxpy, 8, [61, 1.5, a, b], lowered=True)
    np.testing.assert_array_equal(scaled, np.float32(1.5) * a + b)

    sums = np.zeros(64, np.uint32)
    (_, sums) = run_everywhere(
        examples.reduce_sum, 8, [61, x, sums], per_workgroup=True, lowered=True
    )
    np.testing.assert_array_equal(sums[:8], np.append(x, [0] * 3).reshape(8, 8).sum(1, np.uint32))

    counts = np.zeros(7, np.uint32)
    (_, counts) = run_everywhere(examples.histogram, 3, [61, x, 7, counts], lowered=True)
    np.testing.assert_array_equal(counts, np.bincount(x % 7, minlength=7))


@pytest.mark.parametrize("word", types.UNSIGNED, ids=repr)
def test_carry_chains(word: Type) -> None:
    """Sums, differences and products of four words, with carries that run through all of them."""
    size = 4

    def compute(k: Builder, inputs: list[Value]) -> list[Value]:
        a, b = inputs[:size], inputs[size:]
        zero = k.constant(0, word)
        results = []
        for first, following, last in (
            ("add_cc", "addc_cc", "addc"),
            ("sub_cc", "subc_cc", "subc"),
        ):
            part, carry = k.emit_many(first, (a[0], b[0]))
            results.append(part)
            for x, y in zip(a[1:], b[1:], strict=True):
                part, carry = k.emit_many(following, (x, y, carry))
                results.append(part)
            results.append(k.emit(last, (zero, zero, carry)))
        t = [*b, zero]
        for half, offset in (("lo", 0), ("hi", 1)):
            t[offset], carry = k.emit_many(f"mad_{half}_cc", (a[0], b[1], t[offset]))
            for j in range(1, size - offset):
                operands = (a[j], b[1], t[j + offset], carry)
                t[j + offset], carry = k.emit_many(f"madc_{half}_cc", operands)
            if half == "lo":
                t[size] = k.emit("addc", (t[size], zero, carry))
            else:
                t[size] = k.emit("madc_hi", (a[-1], b[1], t[size], carry))
        return [*results, *t]

    ones = (1 << word.bits) - 1
    random = np.random.default_rng(11)
    choices = np.array([0, 1, ones, ones - 1, 1 << (word.bits - 1)], NUMPY_TYPES[word])
    columns = random.choice(choices, (2 * size, 256))
    columns[:, 0:8:2], columns[:, 1:8:2] = ones, 0
    columns[size, :8] = 1
    results = [np.zeros(256, NUMPY_TYPES[word]) for _ in range(2 * (size + 1) + size + 1)]
    definition = elementwise("test_chains", [word] * (2 * size), [word] * len(results), compute)
    outputs = run_everywhere(definition, 32, [*columns, *results], lowered=True)[2 * size :]

    def number(words: list[np.ndarray[Any, Any]], lane: int) -> int:
        return sum(int(w[lane]) << (word.bits * j) for j, w in enumerate(words))

    modulus = 1 << (word.bits * (size + 1))
    for lane in range(256):
        a, b = number(list(columns[:size]), lane), number(list(columns[size:]), lane)
        assert number(outputs[:5], lane) == a + b
        # The last word of the difference is all ones where it borrowed.
        assert number(outputs[5:10], lane) == (a - b) % modulus
        assert number(outputs[10:], lane) == b + a * int(columns[size + 1][lane])


@given(kernels())
@settings(max_examples=25 if runs_all() else 12, deadline=None, derandomize=True)
def test_random_kernels(definition: KernelDefinition) -> None:
    """Random control flow over words, on lanes that take different ways."""
    x = np.random.default_rng(5).integers(0, 1 << 64, 16 * 16, np.uint64)
    x[:16] = (1 << 64) - 1
    x[16:32] = 0
    run_everywhere(definition, 2, [x, np.zeros_like(x)], lowered=True)
