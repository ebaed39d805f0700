"""The lines of multi-scalar products, added up in Node."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from quod.curve.groups import GROUPS
from quod.msm.gpu.layout import GpuMsmPlan
from quod.web.site import msm_shape
from tests.msm.inputs import points, reference
from tests.msm.reduce.test_weighted_sums import lines_of, results_of
from tests.msm.sums import sums_of
from tests.web.runtime import Node

pytestmark = pytest.mark.node

ADD = """
    const { addPartialSums } = await import("./msm.js");
    const c = curve.curveOf(given.curve);
    const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    return given.lines.map((text) => addPartialSums(c, given.degree, given.shape, bytes(text)));
"""


def numbers(point: Any) -> Any:
    """A point as the test's JSON has it, with big integers as text."""
    if point is None:
        return None
    return [str(c) if isinstance(c, int) else [*map(str, c)] for c in point]


@pytest.mark.parametrize("name", ["bn254.g1", "bn254.g2", "bls12_381.g1", "bls12_381.g2"])
@pytest.mark.parametrize(("window_bits", "windows"), [(2, 1), (4, 3), (8, 2)])
def test_lines_of_buckets(node: Node, name: str, window_bits: int, windows: int) -> None:
    """Empty buckets, one bucket, several, and buckets that cancel out."""
    group, law = GROUPS[name], reference(GROUPS[name])
    plan = GpuMsmPlan(group, 10, window_bits, windows, 1, 1, 4)
    p, q = points(group, 2)
    last = plan.all_buckets - 1
    cases: list[dict[int, Any]] = [
        {}, {0: p}, {last: q}, {0: p, 1: p, last // 2: q, last: law.neg(p)},
        {0: law.neg(law.add(p, p)), 1: p}, dict.fromkeys(range(min(9, last + 1)), p),
    ]  # fmt: skip
    lines = [sums_of(group, lines_of(plan, buckets)).tobytes() for buckets in cases]
    answers = node(
        ADD, curve=group.curve.name, degree=group.degree, shape=msm_shape(plan),
        lines=[base64.b64encode(line_bytes).decode() for line_bytes in lines],
    )  # fmt: skip
    expected = [results_of(plan, buckets)[0] for buckets in cases]
    assert None in expected
    assert answers == [numbers(point) for point in expected]


def test_lines_of_another_size(node: Node) -> None:
    plan = GpuMsmPlan(GROUPS["bn254.g1"], 10, 4, 3, 1, 1, 4)
    body = f"return tried(async () => {{ {ADD} }});"
    text = base64.b64encode(bytes(128)).decode()
    answer = node(body, curve="bn254", degree=1, shape=msm_shape(plan), lines=[text])
    assert answer == ["InputError", "24 points of G1 have 3072 bytes, not 128"]
