"""Kernels as WGSL, on the drivers of this machine, agree with the interpreter, bit for bit.

Portable WGSL has no 64-bit integers, no carries, no subgroups, and stores whole words: here it is
shown that what stands in for them is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE, WgslTarget
from quod.codegen.wgsl.module import WgslModule
from quod.errors import KernelError
from quod.frozen import replace
from quod.kernel import Builder, KernelDefinition, Value, examples
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ops.scalar import NUMPY_TYPES
from tests.conftest import need
from tests.kernel.control_kernels import CASES, Case
from tests.kernel.hostile import hostile_arrays
from tests.kernel.op_kernels import OP_CASES, OpCase, elementwise, op_kernel
from tests.kernel.random_kernels import kernels
from tests.kernel.subgroup_kernels import EXCHANGES, INSTANCES, Exchange, Shape
from tests.support.executors import assert_same_bits
from tests.support.wgsl_runner import DRIVERS, DriverError, WgslRunner, runner

Array = np.ndarray[Any, Any]

_AT_ONCE = 256


class Executor:
    """One driver with kernels for one strength."""

    def __init__(self, driver: WgslRunner, target: WgslTarget) -> None:
        self.driver, self.target = driver, target

    def check(
        self,
        definition: KernelDefinition,
        groups: int,
        arguments: Sequence[Any],
        *,
        lanes: int = 8,
        merged: bool = False,
    ) -> list[Any]:
        """Run workgroups; gives the arguments, whose buffers are as the interpreter leaves them."""
        machine = self.target.machine(lanes)
        kernel = definition.trace(machine)
        expected, actual = ([_copied(a) for a in arguments] for _ in range(2))
        interpret(kernel, groups, expected, groups_at_once=_AT_ONCE // lanes)
        self.driver.run(kernel, machine, groups, actual, merged=merged)
        buffers = [a for a in actual if isinstance(a, np.ndarray)]
        wanted = [a for a in expected if isinstance(a, np.ndarray)]
        for number, pair in enumerate(zip(buffers, wanted, strict=True)):
            assert_same_bits(*pair, f"buffer {number} of {definition.name} on {self.driver.name}")
        return actual


def _copied(argument: Any) -> Any:
    return argument.copy() if isinstance(argument, np.ndarray) else argument


def _open(driver: str, strength: str) -> Executor:
    try:
        wgsl_runner = runner(driver)
    except DriverError as error:
        # The drivers for processors are part of what is installed for the tests.
        need(str(error), "" if driver == "gpu" else "QUOD_TEST_DRIVERS")
        raise
    return Executor(wgsl_runner, wgsl_runner.strengths[strength])


_EXECUTORS = [
    # The same text runs on each driver.
    pytest.param(
        f"{driver}-{strength}", marks=pytest.mark.thorough if driver == "swiftshader" else ()
    )
    for driver in DRIVERS
    for strength in ("portable", "extended")
]


@pytest.fixture(scope="module", params=_EXECUTORS)
def executor(request: pytest.FixtureRequest) -> Executor:
    """Each driver at each strength."""
    driver, strength = request.param.split("-")
    return _open(driver, strength)


def _by_operands() -> list[list[OpCase]]:
    """Ops on integers of the same operand types together, so that few kernels are compiled."""
    groups: dict[tuple[Type, ...], list[OpCase]] = {}
    for case in OP_CASES:
        if all(type_.kind != "float" for type_ in (*case.operand_types, *case.result_types)):
            groups.setdefault(case.operand_types, []).append(case)
    return list(groups.values())


@pytest.mark.parametrize("cases", _by_operands(), ids=lambda cases: str(cases[0].operand_types))
def test_ops(executor: Executor, cases: list[OpCase]) -> None:
    arrays = hostile_arrays(list(cases[0].operand_types), limit=768)
    words = cases[0].stored(cases[0].operand_types)
    sources = [a.astype(NUMPY_TYPES[word]) for a, word in zip(arrays, words, strict=True)]
    results = [
        np.zeros(len(sources[0]), NUMPY_TYPES[type_])
        for case in cases
        for type_ in case.stored(case.result_types)
    ]
    executor.check(op_kernel(cases), len(sources[0]) // 8, [*sources, *results])


@pytest.mark.parametrize("type_", [types.u32, types.i32, types.i64], ids=repr)
def test_division_by_constants(executor: Executor, type_: Type) -> None:
    """One operand is a constant, for which a target may emit other code."""
    top = 1 << type_.bits - (type_.kind == "signed")
    constants = [1, 2, 3, 8, top - 1]
    if type_.kind == "signed":
        constants += [-1, -2, -3, -8, -top]
    if type_.bits == 64:
        # A driver compiles a long division for seconds.
        constants = [-3]

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        (a,) = operands
        return [part for number in constants for part in (a // number, a % number, number // a)]

    definition = elementwise("known", [type_], [type_] * (3 * len(constants)), compute)
    (values,) = hostile_arrays([type_])
    results = [np.zeros(len(values), NUMPY_TYPES[type_]) for _ in range(3 * len(constants))]
    executor.check(definition, len(values) // 8, [values, *results])


_WITHOUT_DOUBLE = [type_ for type_ in types.SCALARS if type_ is not types.f64]
_ROUNDED = [types.u32, types.i32]
"""Types that WGSL's own conversion makes floats of."""


@pytest.mark.parametrize("source", _WITHOUT_DOUBLE, ids=repr)
def test_convert(executor: Executor, source: Type) -> None:
    targets = [t for t in _WITHOUT_DOUBLE if t is not types.f32 or source not in _ROUNDED]

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [operands[0].cast(target) for target in targets]

    definition = elementwise("test_convert", [source], targets, compute)
    (values,) = hostile_arrays([source])
    if source is types.f32:
        values = _without_subnormals(values)
    results = [np.zeros(len(values), NUMPY_TYPES[target]) for target in targets]
    executor.check(definition, len(values) // 8, [values, *results])


@pytest.mark.parametrize("source", _ROUNDED, ids=repr)
def test_convert_to_float(executor: Executor, source: Type) -> None:
    """A word that is no float becomes one of the two beside it, whichever the driver likes."""
    definition = elementwise(
        "to_float", [source], [types.f32], lambda k, operands: [operands[0].cast(types.f32)]
    )
    (values,) = hostile_arrays([source])
    machine = executor.target.machine(8)
    floats = np.zeros(len(values), np.float32)
    executor.driver.run(definition.trace(machine), machine, len(values) // 8, [values, floats])
    error = abs(floats.astype(np.float64) - values)
    assert (error <= np.spacing(abs(values.astype(np.float32)))).all()
    exact = abs(values.astype(np.float64)) <= 1 << 24
    assert (error[exact] == 0).all()


def test_bitcast(executor: Executor) -> None:
    sources = [t for t in _WITHOUT_DOUBLE if t is not types.bool_]
    pairs = [(s, t) for s in sources for t in sources if s.bits == t.bits and s is not t]

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [k.bitcast(operands[sources.index(s)], t) for s, t in pairs]

    definition = elementwise("test_bitcast", sources, [t for _, t in pairs], compute)
    columns = [hostile_arrays([source])[0][:64] for source in sources]
    # Which bits a NaN has is not specified.
    columns = [_normal(column) if column.dtype == np.float32 else column for column in columns]
    columns = [np.resize(column, 64) for column in columns]
    results = [np.zeros(64, NUMPY_TYPES[t]) for _, t in pairs]
    executor.check(definition, 8, [*columns, *results])


def _without_subnormals(values: Array) -> Array:
    """WGSL may take them for 0."""
    tiny = np.finfo(np.float32).tiny
    return np.where((values != 0) & (abs(values) < tiny), np.float32(7), values)


def _normal(values: Array) -> Array:
    return np.where(np.isnan(values), np.float32(1), _without_subnormals(values))


def test_floats_are_compared(executor: Executor) -> None:
    """Comparisons are exact, of infinities and NaN too."""
    a, b = map(_without_subnormals, hostile_arrays([types.f32, types.f32]))
    names = ("eq", "ne", "lt", "le")

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [k.emit(name, operands) for name in names]

    definition = elementwise("compare", [types.f32] * 2, [types.bool_] * len(names), compute)
    results = [np.zeros(len(a), bool) for _ in names]
    executor.check(definition, len(a) // 8, [a, b, *results])


def test_float_arithmetic(executor: Executor) -> None:
    """To two units in the last place or so: WGSL asks no more of drivers (section 15.7)."""
    random = np.random.default_rng(4)
    a, b, c = random.uniform(-1000, 1000, (3, 256)).astype(np.float32)

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        x, y, z = operands
        exact = [x + y, x - y, x * y, -x, k.minimum(x, y), k.maximum(x, y)]
        return [*exact, x / y, k.emit("sqrt", (k.maximum(x, -x),)), k.emit("fma", (x, y, z))]

    definition = elementwise("floats", [types.f32] * 3, [types.f32] * 9, compute)
    arrays = [a, b, c, *(np.zeros(256, np.float32) for _ in range(9))]
    machine = executor.target.machine(8)
    executor.driver.run(definition.trace(machine), machine, 32, arrays)
    exact = [a + b, a - b, a * b, -a, np.minimum(a, b), np.maximum(a, b)]
    for result, expected in zip(arrays[3:9], exact, strict=True):
        assert_same_bits(result, expected, "exact")
    np.testing.assert_allclose(arrays[9], a / b, rtol=4e-7)
    np.testing.assert_allclose(arrays[10], np.sqrt(abs(a)), rtol=4e-7)
    np.testing.assert_allclose(arrays[11], a * b + c, rtol=1e-6, atol=0.1)


REFUSED = {
    "pointers": "a pointer that may be in one of two arrays",
    "atomics": "WGSL has no atomic operations on u64",
    "atomics_of_every_kind": "WGSL has no atomic operations on u64",
    "shuffles_of_every_type": "WGSL has no 64-bit floating point numbers",
}
"""Kernels that WGSL cannot express."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_control_flow_and_memory(executor: Executor, case: Case) -> None:
    if str(case) in REFUSED:
        with pytest.raises(KernelError, match=REFUSED[str(case)]):
            executor.check(case.definition, 4, case.arguments)
        return
    outputs = executor.check(case.definition, 4, case.arguments)
    for number, expected in case.expected.items():
        assert outputs[number].tolist() == expected


def test_arrays_in_one_binding(executor: Executor) -> None:
    """Pointers that share a binding have their offsets from the launch."""
    for case in CASES[::4]:
        executor.check(case.definition, 4, case.arguments, merged=True)


@pytest.mark.parametrize("lanes", [8, 64])
@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_exchanges(executor: Executor, exchange: Exchange, lanes: int) -> None:
    groups = INSTANCES // lanes
    if str(exchange) in REFUSED:
        with pytest.raises(KernelError, match=REFUSED[str(exchange)]):
            executor.check(exchange.definition, groups, exchange.arguments, lanes=lanes)
        return
    outputs = executor.check(exchange.definition, groups, exchange.arguments, lanes=lanes)
    shape = Shape(lanes, executor.target.machine(lanes).subgroup_size)
    rows = [exchange.model(shape, i) for i in range(INSTANCES)]
    for column, buffer in enumerate(outputs[exchange.inputs :]):
        assert buffer.tolist() == [row[column] for row in rows]


def test_a_grid_of_two_dimensions(executor: Executor) -> None:
    """More workgroups than a dimension has, and not so many as the grid."""
    groups = 2 * 65535 - 7
    x = np.arange(groups, dtype=np.uint32)
    arguments = [len(x), x, x, np.zeros_like(x)]
    machine = executor.target.machine(1)
    kernel = examples.vector_add.trace(machine)
    executor.driver.run(kernel, machine, groups, arguments)
    np.testing.assert_array_equal(arguments[3], 2 * x)


@given(definition=kernels())
@settings(
    max_examples=15, derandomize=True, deadline=None,
    # Each smaller example would be a shader to compile: minutes.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def test_random_kernels(executor: Executor, definition: KernelDefinition) -> None:
    """Random control flow over 64-bit words, on lanes that take different ways."""
    x = np.random.default_rng(5).integers(0, 1 << 64, 16 * 16, np.uint64)
    x[:16] = (1 << 64) - 1
    x[16:32] = 0
    executor.check(definition, 2, [x, np.zeros_like(x)])


def test_double_precision_is_refused() -> None:
    definition = elementwise(
        "doubles", [types.f64], [types.f64], lambda k, operands: [operands[0] + operands[0]]
    )
    machine = PORTABLE.machine(8)
    with pytest.raises(KernelError, match="WGSL has no 64-bit floating point numbers"):
        wgsl.emit(definition.trace(machine), machine)


@pytest.mark.parametrize(
    ("emitted", "mistaken"),
    [("v2 + v3", "v2 - v3"), ("buffer2[v1]", "buffer2[v1 + 1u]"), ("group_id * 8u", "group_id")],
)
def test_mistakes_are_detected(
    executor: Executor, emitted: str, mistaken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = wgsl.translate

    def wrong(*arguments: Any, **options: Any) -> WgslModule:
        module = right(*arguments, **options)
        assert emitted in module.text
        return replace(module, text=module.text.replace(emitted, mistaken))

    monkeypatch.setattr(wgsl, "translate", wrong)
    x = np.arange(1 << 16, (1 << 16) + 32, dtype=np.uint32)
    with pytest.raises(AssertionError, match="buffer 2 of vector_add"):
        executor.check(examples.vector_add, 4, [30, x, x, np.zeros(32, np.uint32)])
