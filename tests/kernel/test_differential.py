"""Every executor agrees with the interpreter, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from quod.kernel import Builder, Value, types
from quod.kernel.ops import NUMPY_TYPES
from quod.kernel.types import Type
from tests.executors import run_everywhere
from tests.kernel.hostile import hostile_arrays
from tests.kernel.op_kernels import OP_CASES, OpCase, elementwise, op_kernel


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
    given = [a.astype(NUMPY_TYPES[word]) for a, word in zip(arrays, words, strict=True)]
    results = [
        np.zeros(len(given[0]), NUMPY_TYPES[type_])
        for case in cases
        for type_ in case.stored(case.result_types)
    ]
    run_everywhere(op_kernel(cases), len(given[0]) // 8, [*given, *results])


@pytest.mark.parametrize("source", types.SCALARS, ids=repr)
def test_convert(source: Type) -> None:
    def compute(k: Builder, given: list[Value]) -> list[Value]:
        return [given[0].cast(target) for target in types.SCALARS]

    definition = elementwise("test_convert", [source], list(types.SCALARS), compute)
    (values,) = hostile_arrays([source])
    results = [np.zeros(len(values), NUMPY_TYPES[target]) for target in types.SCALARS]
    run_everywhere(definition, len(values) // 8, [values, *results])


@pytest.mark.parametrize("source", types.NUMBERS, ids=repr)
def test_bitcast(source: Type) -> None:
    targets = [t for t in types.NUMBERS if t.bits == source.bits and t is not source]

    def compute(k: Builder, given: list[Value]) -> list[Value]:
        return [k.bitcast(given[0], target) for target in targets]

    definition = elementwise("test_bitcast", [source], targets, compute)
    (values,) = hostile_arrays([source])
    # Which bits a NaN has is not specified.
    values = np.where(np.isnan(values), values.dtype.type(0), values)
    results = [np.zeros(len(values), NUMPY_TYPES[target]) for target in targets]
    run_everywhere(definition, len(values) // 8, [values, *results])
