"""Analyses of kernels, each kernel with one defect, and the findings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.codegen.ptx.machine import ptx_machine
from quod.kernel import U32, U64, Builder, KernelDefinition, Pointer, Value, function, kernel
from quod.kernel.analysis import Analysis, Finding, analyze
from quod.kernel.analysis.lanes import Lanes
from quod.kernel.analysis.walk import follow
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types as t


def analysis(definition: KernelDefinition, workgroup: int = 128) -> Analysis:
    return analyze(definition.trace(ptx_machine(workgroup)))


def findings(definition: KernelDefinition, topic: str, workgroup: int = 128) -> list[Finding]:
    return [
        finding for finding in analysis(definition, workgroup).findings if finding.topic == topic
    ]


def line_of(definition: KernelDefinition, fragment: str) -> int:
    """The line of a kernel's source that has the fragment."""
    lines, start = inspect.getsourcelines(definition.function)
    (at,) = [n for n, line in enumerate(lines) if fragment in line]
    return start + at


# --- device memory


def copying(index: Callable[[Builder, Value, Value, Value], Value], count: int = 1) -> Any:
    """A kernel that loads `count` words from x[index(k, i, n, x)] on, and stores in order."""

    @kernel
    def copy(k: Builder, n: U32, x: Pointer[U32], out: Pointer[U32]) -> None:
        loaded = k.load(x, index(k, k.global_id(), n, x), count)  # here
        out[k.global_id()] = loaded[-1]

    return copy


@pytest.mark.parametrize(
    ("index", "count", "sectors", "least", "said"),
    [
        (lambda k, i, n, x: i, 1, 4, 4, "4 would do$"),
        (lambda k, i, n, x: i + 3, 1, 5, 4, "4 bytes apart"),
        (lambda k, i, n, x: n, 1, 1, 1, "1 would do$"),
        (lambda k, i, n, x: i * 2, 1, 8, 4, "8 bytes apart"),
        (lambda k, i, n, x: i * 8, 1, 32, 4, "32 bytes apart"),
        (lambda k, i, n, x: i * 12, 12, 48, 48, "asked for 96 times"),
        (lambda k, i, n, x: (i * 2654435761) ^ n, 1, 32, 4, "not followed"),
        (lambda k, i, n, x: i * n, 1, 32, 4, "known at run time only"),
        (lambda k, i, n, x: x[i], 1, 32, 4, "scattered: the address depends on data loaded"),
        (lambda k, i, n, x: k.shuffle(i, 3), 1, 32, 4, "takes values of other lanes"),
        (lambda k, i, n, x: i ^ 5, 1, 4, 4, "4 would do$"),
        (lambda k, i, n, x: 4096 - k.local_id(), 1, 5, 4, "-4 bytes apart"),
        (lambda k, i, n, x: (i & 15) * 8, 1, 16, 2, "at uneven distances"),
        (lambda k, i, n, x: i % 32 * 32 + i // 32, 1, 32, 4, "128 bytes apart"),
    ],
)
def test_coalescing(
    index: Callable[..., Value], count: int, sectors: int, least: int, said: str
) -> None:
    definition = copying(index, count)
    line = line_of(definition, "# here")
    loads = [
        finding
        for finding in findings(definition, "memory")
        if finding.text.startswith("load") and finding.location.line == line
    ]
    (finding,) = loads
    assert f" {sectors} sector" in finding.text
    assert f"{least} would do" in finding.text
    assert re.search(said, finding.text), finding.text
    assert finding.good == (sectors <= least)


def test_a_store_of_few_lanes() -> None:
    @kernel
    def lead(k: Builder, out: Pointer[U32]) -> None:
        with k.if_(k.local_id() % 32 == 0):
            out[k.global_id() * 64] = k.global_id()

    (store,) = findings(lead, "memory")
    assert "1 sector a warp, 1 would do" in store.text


def test_a_grid_stride_loop_is_coalesced() -> None:
    @kernel
    def add(k: Builder, n: U32, x: Pointer[U64], out: Pointer[U64]) -> None:
        everyone = k.num_workgroups() * k.workgroup_size
        with k.range(k.global_id(), n, everyone) as loop:
            out[loop.index] = x[loop.index] + 1

    assert all(
        "8 sectors a warp, 8 would do" in finding.text for finding in findings(add, "memory")
    )
    (branch,) = findings(add, "divergence")
    assert "one warp or few" in branch.text


def test_loop_carried_pointers_keep_their_strides() -> None:
    @kernel
    def walk(k: Builder, n: U32, x: Pointer[U32], out: Pointer[U32]) -> None:
        start = (k.pointer_add(x, k.global_id()), k.constant(0, t.u32))
        with k.range(0, n, carry=start) as loop:
            pointer, total = loop.carried
            loop.next((k.pointer_add(pointer, 4096), total + pointer[0]))
        out[k.global_id()] = loop.results[1]

    (load,) = (finding for finding in findings(walk, "memory") if finding.text.startswith("load"))
    assert load.good

    @kernel
    def drift(k: Builder, n: U32, x: Pointer[U32], out: Pointer[U32]) -> None:
        with k.range(0, n, carry=k.local_id()) as loop:
            index = loop.carried
            out[index] = x[index]
            loop.next(index + k.local_id())

    assert not any(finding.good for finding in findings(drift, "memory"))


def test_function_accesses_are_analysed_per_call() -> None:
    @function
    def fetch(k: Builder, x: Value, i: Value) -> Value:
        return x[i] + x[i + 1024]

    @kernel
    def twice(k: Builder, x: Pointer[U32], out: Pointer[U32]) -> None:
        i = k.global_id()
        out[i] = fetch(k, x, i) + fetch(k, x, i * 16)

    loads = [finding for finding in findings(twice, "memory") if finding.text.startswith("load")]
    assert [(finding.good, finding.count) for finding in loads] == [(False, 2), (True, 2)]


# --- shared memory


def transposing(stride: int, word: t.Type = t.u32) -> KernelDefinition:
    @kernel
    def transpose(k: Builder, out: Pointer[U32]) -> None:
        room = k.shared(word, 32 * max(stride, 32) + 128)
        room[k.local_id()] = k.local_id().cast(word)
        k.barrier()
        out[k.global_id()] = room[k.local_id() % 32 * stride].cast(t.u32)  # here

    return transpose


@pytest.mark.parametrize(
    ("stride", "word", "turns", "least", "padded", "swizzled"),
    [
        (1, t.u32, 1, 1, None, None),
        (0, t.u32, 1, 1, None, None),
        (2, t.u32, 2, 1, 1, None),
        (32, t.u32, 32, 1, 1, 1),
        (33, t.u32, 1, 1, None, None),
        (1, t.u64, 2, 2, None, None),
        (16, t.u64, 32, 2, 2, None),
        (17, t.u64, 2, 2, None, None),
    ],
)
def test_bank_conflicts(
    stride: int, word: t.Type, turns: int, least: int, padded: int | None, swizzled: int | None
) -> None:
    definition = transposing(stride, word)
    line = line_of(definition, "# here")
    (finding,) = (
        finding for finding in findings(definition, "banks") if finding.location.line == line
    )
    assert f" {turns} turn" in finding.text
    assert finding.good == (turns == least)
    if turns > least:
        assert f"{least} would do" in finding.text
    assert ("padding" in finding.text) == (padded is not None)
    if padded is not None:
        assert f"it takes {padded}" in finding.text
    if swizzled is not None:
        assert finding.text.endswith(f"32nd part {swizzled}")


def test_data_dependent_banks() -> None:
    @kernel
    def look_up(k: Builder, x: Pointer[U32], out: Pointer[U32]) -> None:
        room = k.shared(t.u32, 256)
        room[k.local_id()] = k.local_id()
        k.barrier()
        out[k.global_id()] = room[x[k.global_id()] % 128]  # here

    bad = [finding for finding in findings(look_up, "banks") if not finding.good]
    assert [finding.location.line for finding in bad] == [line_of(look_up, "# here")]
    assert "not known: the address depends on data" in bad[0].text


# --- divergence


def branching(condition: Callable[[Builder, Value, Value, Value], Value]) -> KernelDefinition:
    @kernel
    def branch(k: Builder, n: U32, x: Pointer[U32], out: Pointer[U32]) -> None:
        with k.if_(condition(k, k.local_id(), n, x)):  # here
            out[k.global_id()] = n

    return branch


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (lambda k, lane, n, x: n == 3, None),
        (lambda k, lane, n, x: lane < 64, None),
        (lambda k, lane, n, x: k.subgroup_id() == n, None),
        (lambda k, lane, n, x: x[n] == 3, None),
        (lambda k, lane, n, x: k.any_lane(x[lane] == 3), None),
        (lambda k, lane, n, x: lane < 40, "divides 1 of"),
        (lambda k, lane, n, x: lane % 2 == 0, "divides 4 of"),
        (lambda k, lane, n, x: k.global_id() < n, "one warp or few"),
        (lambda k, lane, n, x: x[lane] == 3, "depends on data loaded at"),
        (lambda k, lane, n, x: (x[lane] == 3) & (lane < n), "depends on data loaded at"),
    ],
)
def test_branches(condition: Callable[..., Value], said: str | None) -> None:
    definition = branching(condition)
    divergences = findings(definition, "divergence")
    if said is None:
        assert divergences == []
        return
    (finding,) = divergences
    assert said in finding.text
    assert finding.location.line == line_of(definition, "# here")
    assert finding.good == ("one warp" in said)


def test_loops_of_several_lengths() -> None:
    @kernel
    def sums(k: Builder, ends: Pointer[U32], x: Pointer[U32], out: Pointer[U32]) -> None:
        with k.range(0, ends[k.global_id()], carry=k.constant(0, t.u32)) as loop:  # here
            loop.next(loop.carried + x[loop.index])
        out[k.global_id()] = loop.results

    (finding,) = findings(sums, "divergence")
    assert "loop ends at different times" in finding.text
    assert finding.location.line == line_of(sums, "# here")

    @kernel
    def halve(k: Builder, x: Pointer[U32], out: Pointer[U32]) -> None:
        with k.while_((x[k.global_id()], k.constant(0, t.u32))) as loop:
            loop.check(loop.carried[0] > 0)
            loop.next((loop.carried[0] >> 1, loop.carried[1] + 1))
        out[k.global_id()] = loop.results[1]

    (finding,) = findings(halve, "divergence")
    assert "depends on data" in finding.text

    @kernel
    def same(k: Builder, n: U32, x: Pointer[U32], out: Pointer[U32]) -> None:
        with k.range(0, n, carry=k.constant(0, t.u32)) as loop:
            loop.next(loop.carried + x[loop.index])
        out[k.global_id()] = loop.results

    assert findings(same, "divergence") == []


# --- registers, instructions, limits


@pytest.mark.parametrize("count", [4, 20])
def test_register_pressure(count: int) -> None:
    """All loaded words are live until the last is there: the product needs them in reverse."""

    @kernel
    def reverse(k: Builder, x: Pointer[U64], out: Pointer[U64]) -> None:
        loaded = [x[k.global_id() + 128 * n] for n in range(count)]  # here
        total = loaded[-1]
        for value in reversed(loaded[:-1]):
            total = total * 3 + value
        out[k.global_id()] = total

    pressure = analysis(reverse).pressure
    # Besides, the pointer to the result, and the index.
    assert 2 * count <= pressure.words <= 2 * count + 6
    line = line_of(reverse, "# here")
    assert [words for where, words in pressure.sources if where.line == line] == [2 * count]


def test_pressure_within_calls_and_loops() -> None:
    @function
    def wide(k: Builder, x: Value) -> Value:
        parts = [x * (n + 2) for n in range(10)]
        total = parts[-1]
        for part in reversed(parts[:-1]):
            total = (total ^ part) * 5
        return total

    @kernel
    def keep(k: Builder, n: U32, x: Pointer[U64], out: Pointer[U64]) -> None:
        kept = [x[k.global_id() + 128 * m] for m in range(8)]
        with k.range(0, n, carry=kept[0]) as loop:
            loop.next(wide(k, loop.carried))
        total = loop.results
        for value in kept:
            total = total ^ value
        out[k.global_id()] = total

    pressure = analysis(keep).pressure
    # Eight words that are kept across the loop and ten in the function, all of 64 bits.
    assert 2 * 18 <= pressure.words <= 2 * 18 + 8
    assert pressure.location.line in range(*_span(wide))


def _span(definition: Callable[..., Any]) -> tuple[int, int]:
    lines, start = inspect.getsourcelines(definition)
    return start, start + len(lines)


def test_instruction_mix() -> None:
    @kernel
    def work(k: Builder, n: U32, x: Pointer[U32], out: Pointer[U32]) -> None:
        a, b = k.load(x, k.global_id() * 2, 2)
        low, carry = k.emit_many("mad_lo_cc", (a, b, a))
        high = k.emit("madc_hi", (a, b, b, carry))
        with k.range(0, 10, carry=low) as loop:
            loop.next(loop.carried * high)
        k.barrier()
        with k.range(0, n, carry=loop.results) as second_loop:
            second_loop.next(second_loop.carried * second_loop.carried)
        wide = second_loop.results.cast(t.u64) * high.cast(t.u64)
        out[k.global_id()] = (wide >> 32).cast(t.u32)

    analysed = analysis(work)
    # One fused pair, ten rounds of one product, three words of the product of 64 bits.
    assert analysed.mix.counts["multiply-adds"] == 1 + 10 + 3
    assert analysed.mix.whole()["multiply-adds"] == 15
    assert analysed.mix.counts["barriers"] == 1
    assert (analysed.mix.counts["loaded"], analysed.mix.counts["stored"]) == (8, 4)
    assert analysed.mix.counts["moved"] == 12
    total, loop = analysed.roofline(4e12, 8e12)
    assert (total.multiply_adds, total.bytes, total.limit) == (15, 12, "memory")
    assert total.seconds_by_memory == 3e-12
    assert (loop.multiply_adds, loop.bytes, loop.limit) == (1, 0, "multiplier")
    assert loop.instances_per_second == 8e12


# --- what is known of lanes is true

_UNARY = ("shl", "shr", "and", "mul", "rem", "div", "add")


@st.composite
def indices(draw: Callable[[Any], Any]) -> list[tuple[str, int]]:
    return [
        (draw(st.sampled_from((*_UNARY, "xor", "or", "twice"))), draw(st.integers(0, 40)))
        for _ in range(draw(st.integers(1, 6)))
    ]


@given(indices(), st.sampled_from([1, 64, 128, 3]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_derived_strides_match_execution(steps: list[tuple[str, int]], scale: int) -> None:
    """Distances derived for an index, over lanes and any workgroup, hold when the kernel runs."""

    def index(k: Builder) -> Value:
        value = k.workgroup_id() * scale + k.local_id()
        for name, number in steps:
            if name == "twice":
                value = value + k.local_id()
            elif name in ("shl", "shr"):
                value = k.emit(name, (value, k.constant(number % 8, t.u32)))
            elif name in ("rem", "div"):
                value = k.emit(name, (value, k.constant(max(1, number), t.u32)))
            elif name == "and":
                value = value & ((1 << number % 12) - 1)
            else:
                value = k.emit(name, (value, k.constant(number, t.u32)))
        return value

    @kernel
    def store(k: Builder, out: Pointer[U32]) -> None:
        out[index(k)] = k.local_id()

    @kernel
    def show(k: Builder, out: Pointer[U32]) -> None:
        out[k.global_id()] = index(k)

    address: Lanes = follow(store.trace(ptx_machine(64))).accesses[0].address
    if address.offsets is None:
        return
    out = np.zeros(5 * 64, np.uint32)
    interpret(show.trace(ptx_machine(64)), 5, [out])
    expected = (address.offsets - address.offsets[0]) // 4
    for row in out.reshape(5, 64).astype(np.int64):
        np.testing.assert_array_equal(row - row[0], expected)
        assert (row * 4 - address.offsets)[0] % min(address.multiple, 256) == 0
