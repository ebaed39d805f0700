"""The WGSL compilers reject invalid texts, with known differences."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.tint import Tint

Errors = Callable[[str], list[str]]

KERNEL = """@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_id) id: vec3<u32>) {{
  {}
}}"""
RIGHT = KERNEL.format("x[id.x] = x[id.x + 1u];")
UNKNOWN = KERNEL.format("x[0] = y;")
DIVERGENT = KERNEL.format("if (x[id.x] > 1u) { workgroupBarrier(); }")
LARGE = "var<workgroup> w: array<u32, 5000>;\n" + KERNEL.format("w[0] = 1u;")
LONG = KERNEL.format("x[id.x] = u32(u64(x[id.x]) * u64(x[0]));")
SUBGROUPS = KERNEL.format("x[id.x] = subgroupAdd(x[id.x]);")


def test_tint(tint: Tint) -> None:
    assert tint.errors(RIGHT) == []
    assert tint.errors(UNKNOWN) == ["line 3: unresolved value 'y'"]
    barrier = "'workgroupBarrier' must only be called from uniform control flow"
    assert tint.errors(DIVERGENT) == [f"line 3: {barrier}"]
    (error,) = tint.errors(LARGE)
    assert error.startswith("The total use of workgroup storage (20000 bytes) is larger than")
    # Errors and pipelines leave nothing behind.
    assert [tint.errors(text) for text in [RIGHT] * 5] == [[]] * 5


def test_dialect_of_tint(tint: Tint) -> None:
    assert "u64" in tint.errors(LONG)[0]
    assert "subgroups" in tint.errors(SUBGROUPS)[0]
    assert tint.errors("enable subgroups;\n" + SUBGROUPS) == []


def test_naga(naga: Errors) -> None:
    assert naga(RIGHT) == []
    (error,) = naga(UNKNOWN)
    assert "no definition in scope for identifier: `y`" in error
    # It does no analysis of uniformity, so that Quod's verifier must: see test_uniformity.
    assert naga(DIVERGENT) == []


def test_dialect_of_naga(naga: Errors) -> None:
    assert naga(LONG) == []
    assert naga(SUBGROUPS) == []
    (error,) = naga("enable subgroups;\n" + SUBGROUPS)
    assert "`subgroups` enable-extension is not yet supported" in error
    # A constant is not converted from 64 bits.
    (error,) = naga(KERNEL.format("x[0] = u32(1lu);"))
    assert "Cannot cast" in error
