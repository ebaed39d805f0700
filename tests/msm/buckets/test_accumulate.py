"""Sums of chunks, ordinary and not, by the interpreter against plain integers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import PORTABLE
from quod.curve.groups import GROUPS
from quod.kernel.interpreter.interpreter import interpret
from quod.msm.gpu.buckets.accumulate import (
    accumulate,
    accumulate_again,
    accumulate_completely,
)
from tests.msm.inputs import points, reference
from tests.msm.sums import bases_of, machine, points_of
from tests.support.thorough import one_and_others

SIGN = 1 << 31


def u32(*values: int) -> Any:
    return np.array(values, np.uint32)


@pytest.mark.parametrize(
    ("name", "ahead", "inlined", "words"),
    one_and_others(
        [("bn254.g1", False, True, 32), ("bn254.g1", True, True, 32),
         ("bls12_381.g1", False, True, 32), ("bls12_377.g1", False, True, 32),
         ("bn254.g2", False, True, 32), ("bls12_377.g2", True, False, 32),
         ("bn254.g1", False, False, 13), ("bn254.g2", False, False, 13)],
        always=[("bn254.g1", True, True, 32), ("bn254.g1", False, False, 13)],
    ),
)  # fmt: skip
def test_accumulation(name: str, ahead: bool, inlined: bool, words: int) -> None:
    """With 13 bits to a limb as WGSL has them, where formulas are loops."""
    own_machine = PORTABLE.machine(8) if words == 13 else machine(8, 4, words=words)
    group, rng = GROUPS[name], random.Random(name)
    law = reference(group)
    p, q, s, t = points(group, 4)
    bases = [p, q, s, t, law.add(p, q), law.neg(q), p]
    special = [
        [0, 0], [0, 6], [0, 0 | SIGN], [1, 5], [1, 5, 2], [0, 1, 4], [0, 1, 4 | SIGN],
        [0, 1, 4 | SIGN, 3], [0, 0, 0 | SIGN], [1 | SIGN, 5], [2, 2 | SIGN, 2, 2 | SIGN, 2],
    ]  # fmt: skip
    ordinary = [
        [0], [3 | SIGN], [0, 1], [0, 1 | SIGN, 2], [4 | SIGN, 3, 2 | SIGN],
        *([i | rng.choice([0, SIGN]) for i in rng.sample([0, 2, 3, 4], 4)] for _ in range(3)),
    ]  # fmt: skip
    chunks = sorted(special + ordinary, key=len, reverse=True)
    count, room = len(chunks), len(chunks) + 5
    lengths = [len(chunk) for chunk in chunks]
    starts = [3 + sum(lengths[:i]) for i in range(count)]
    entries = u32(9, 9, 9, *(entry for chunk in chunks for entry in chunk))
    numbers = rng.sample(range(room), count)
    sums = np.full(room * 4 * group.coordinate_words, 7, np.uint64)
    retries = np.full(room + 1, 99, np.uint32)
    retries[0] = 0
    arrays = (u32(*starts), u32(*lengths), u32(*numbers), entries, bases_of(group, bases), sums,
              retries)  # fmt: skip
    static: dict[str, Any] = {"group": group, "form": "weierstrass"}
    traced = accumulate.trace(own_machine, **static, resident=3, ahead=ahead, inlined=inlined)
    assert traced.resident == 3
    interpret(traced, -(-room // 8), [u32(count), *arrays])
    noted = {int(i) for i in retries[1 : 1 + retries[0]]}
    expected: list[Any] = []
    for chunk in chunks:
        total = None
        for entry in chunk:
            point = bases[entry & ~SIGN]
            total = law.add(total, law.neg(point) if entry & SIGN else point)
        expected.append(total)
    # Those that cannot be summed in haste are noted, all others are right.
    assert noted == {i for i, chunk in enumerate(chunks) if chunk in special}
    words = sums.reshape(room, -1)
    sums_read = points_of(group, words[numbers])
    assert all(sums_read[i] == expected[i] for i in range(count) if i not in noted)
    # One workgroup goes over the list more than once.
    interpret(accumulate_again.trace(own_machine, **static), 1, list(arrays))
    assert points_of(group, words[numbers]) == expected
    sums[:] = 7
    completely = accumulate_completely.trace(own_machine, **static)
    interpret(completely, -(-room // 8), [u32(count), *arrays[:-1]])
    assert points_of(group, words[numbers]) == expected
    untouched = set(range(room)) - set(numbers)
    assert untouched
    assert all((words[i] == 7).all() for i in untouched)


def test_empty_input() -> None:
    """No chunks, and no retries."""
    group = GROUPS["bn254.g1"]
    sums, retries = np.full(32, 7, np.uint64), u32(0, 5)
    nothing, bases = u32(0), np.zeros(8, np.uint64)
    static: dict[str, Any] = {"group": group, "form": "weierstrass"}
    arrays = (nothing, nothing, nothing, nothing, bases, sums, retries)
    traced = accumulate.trace(machine(8, 4), **static, resident=1, ahead=True, inlined=True)
    interpret(traced, 1, [u32(0), *arrays])
    interpret(accumulate_again.trace(machine(8, 4), **static), 1, list(arrays))
    assert (sums == 7).all()
    assert retries.tolist() == [0, 5]
