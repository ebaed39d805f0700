"""The text form: printed, read back, and printed again; golden files; errors of the parser.

After a change that is meant to change the text:

    QUOD_UPDATE_GOLDEN=1 python -m pytest tests/kernel/test_text.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.kernel import (
    F32,
    F64,
    U32,
    U64,
    Builder,
    Kernel,
    KernelDefinition,
    Pointer,
    Value,
    examples,
    f32,
    f64,
    function,
    kernel,
    u32,
    u64,
)
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import walk
from quod.kernel.ir.parse import ParseError, parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify
from tests.kernel.control_kernels import CASES, Case
from tests.kernel.machines import EIGHT, FOUR
from tests.kernel.op_kernels import OP_CASES, op_kernel
from tests.kernel.random_kernels import kernels
from tests.support.selection import runs_all

GOLDEN = Path(__file__).parent / "golden"


def round_trip(traced: Kernel) -> Kernel:
    """The kernel that the text gives; the text of that is the same, and it verifies."""
    for locations in (False, True):
        text = to_text(traced, locations=locations)
        again = parse(text)
        assert to_text(again, locations=locations) == text
        verify(again)
    return again


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parsed_kernels_mean_the_same(case: Case) -> None:
    again = round_trip(case.definition.trace(EIGHT))
    given_ = [a.copy() if isinstance(a, np.ndarray) else a for a in case.arguments]
    interpret(again, 4, given_)
    for number, expected in case.expected.items():
        assert given_[number].tolist() == expected


@pytest.mark.parametrize("case", OP_CASES, ids=str)
def test_every_op(case: object) -> None:
    round_trip(op_kernel([case]).trace(EIGHT))  # type: ignore[list-item]


def test_locations() -> None:
    traced = examples.reduce_sum.trace(EIGHT)
    again = parse(to_text(traced, locations=True))
    assert again.location == traced.location
    locations = [op.location for op in walk(again.block)]
    assert locations == [op.location for op in walk(traced.block)]
    # Without them an op stands where its text stands.
    bare = parse(to_text(traced), "reduce.ir")
    assert str(bare.block.ops[0].location) == "reduce.ir:2"


def test_locations_of_functions_and_strange_files() -> None:
    @function
    def helper(k: Builder, a: Value) -> Value:
        return a + 1

    @kernel
    def calls(k: Builder, y: Pointer[U32]) -> None:
        y[0] = helper(k, y[0])

    traced = calls.trace(EIGHT)
    traced.functions[0].location = type(traced.location)('a "quoted"\\folder\n.py', 3)
    text = to_text(traced, locations=True)
    again = parse(text)
    assert again.functions[0].location == traced.functions[0].location
    assert to_text(again, locations=True) == text


def test_constants_keep_their_bits() -> None:
    numbers = [0.1, -0.0, 1e-45, 5e-324, 1e300, float("inf"), -float("inf"), 3.0, 1e16, 1 / 3]

    @kernel
    def constants(k: Builder, y: Pointer[F64], z: Pointer[F32], w: Pointer[U64]) -> None:
        for index, number in enumerate(numbers):
            y[index] = k.constant(number, f64)
            if number != 1e300:
                z[index] = k.constant(number, f32)
        y[10] = k.constant(float("nan"), f64)
        k.store(w, 0, k.constant((1 << 64) - 1, u64), k.constant(0, u64))

    traced = constants.trace(EIGHT)
    buffers: list[list[bytes]] = []
    for each in (traced, round_trip(traced)):
        arrays: list[Any] = [
            np.zeros(11, np.float64),
            np.zeros(11, np.float32),
            np.zeros(2, np.uint64),
        ]
        interpret(each, 1, arrays)
        buffers.append([array.tobytes() for array in arrays])
    assert buffers[0] == buffers[1]
    assert np.frombuffer(buffers[0][0])[:10].tolist() == numbers


def test_names_that_need_quotes() -> None:
    definition = examples.saxpy
    odd = KernelDefinition(
        'sax "py" é', definition.function, definition.parameters, definition.location
    )
    assert round_trip(odd.trace(EIGHT)).name == 'sax "py" é'


def test_attributes_inline_and_unknown_attributes() -> None:
    @kernel
    def inlined(k: Builder, y: Pointer[U32]) -> None:
        y[0] = k.call("twice", lambda k, a: a + a, y[0], inline=True)

    traced = inlined.trace(EIGHT)
    assert round_trip(traced).functions[0].inline
    traced.block.ops[0].attributes |= {"note": "a, b]", "weight": 2.5, "hot": True, "level": -3}
    text = to_text(traced)
    assert '[note = "a, b]", weight = 2.5, hot = true, level = -3]' in text
    assert parse(text).block.ops[0].attributes == traced.block.ops[0].attributes


def test_comments_and_layout_do_not_matter() -> None:
    text = """
    # A comment, before anything.
    kernel @k (%n : u32, %x: ptr < u32 , global >) workgroup 4 shared 0 { # one more
      %0 : u32 = const 5 %1: u32 = add %n, %0
      store %x,%0,%1 yield }
    """
    x = np.zeros(8, np.uint32)
    read = parse(text)
    verify(read)
    interpret(read, 1, [3, x])
    assert x[5] == 8


@given(kernels())
@settings(max_examples=60 if runs_all() else 25, deadline=None)
def test_random_kernels(definition: KernelDefinition) -> None:
    traced = definition.trace(FOUR)
    again = round_trip(traced)
    x = np.random.default_rng(3).integers(0, 1 << 64, 8 * 16, np.uint64)
    x[:16] = (1 << 64) - 1
    results = [np.zeros_like(x) for _ in range(2)]
    for each, y in zip((traced, again), results, strict=True):
        interpret(each, 2, [x.copy(), y])
    np.testing.assert_array_equal(*results)


@function
def _next_random(k: Builder, state: Value, *, step: int) -> Value:
    return (state ^ (state << 13)) * step


@kernel
def _walk(k: Builder, n: U32, seed: U64, x: Pointer[U64], y: Pointer[U64]) -> None:
    """Every form of the text: functions, loops, a while, carries, shared memory, casts."""
    room = k.shared(u32, k.workgroup_size)
    i = k.local_id()
    room[i] = n
    k.barrier()
    with k.range(0, n, 2, carry=(seed, room[(i + 1) % k.workgroup_size])) as loop:
        state, count = loop.carried
        state = _next_random(k, state, step=0x9E3779B97F4A7C15)
        with k.if_((state & 1) == 1) as branch:
            low, carry = k.emit_many("add_cc", (state, x[i]))
            branch.yield_(low, k.emit("addc", (k.constant(0, u64), state, carry)))
        with branch.otherwise():
            branch.yield_(state, k.bitcast(state.cast(f64) * 0.5, u64))
        low, high = branch.results
        loop.next((low ^ high, count + 1))
    with k.while_(loop.results) as turns:
        state, count = turns.carried
        turns.check(count != 0)
        turns.next((state >> count.cast(u64), count - 1))
    k.store(y.cast(u32), i * 2, turns.results[1], turns.results[0].cast(u32))
    k.atomic_add(y, n, turns.results[0])


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("saxpy", examples.saxpy),
        ("reduce_sum", examples.reduce_sum),
        ("histogram", examples.histogram),
        ("walk", _walk),
    ],
)
def test_golden(name: str, definition: KernelDefinition) -> None:
    text = to_text(definition.trace(EIGHT))
    file = GOLDEN / f"{name}.ir"
    if os.environ.get("QUOD_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "see the docstring of this file for how to update"
    round_trip(parse(file.read_text()))


HEAD = "kernel @k(%n: u32, %x: ptr<u32, global>) workgroup 8 shared 0 {\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected kernel, found the end of the text"),
        ("kernel k", 1, 8, "expected a name with @, found k"),
        ("kernel @k(%n u32)", 1, 14, "expected :, found u32"),
        ("kernel @k(%n: u33)", 1, 15, "'u33' is not a type"),
        ("kernel @k(%n: ptr<u32, local>)", 1, 15, "'ptr<u32, local>' is not a type"),
        ("kernel @k(%n: u32, %n: u32)", 1, 20, "%n is defined twice"),
        ("kernel @k(%n: u32 %m: u32)", 1, 19, "expected ,, found %m"),
        ("kernel @k() workgroup x", 1, 23, "expected the workgroup size, found x"),
        ("kernel @k() workgroup 1.5", 1, 23, "expected the workgroup size, found 1.5"),
        ("kernel @k() workgroup 8 shared 0 at 3", 1, 37, "expected a text in quotes, found 3"),
        (HEAD + "  yield", 2, 8, "expected an op, found the end of the text"),
        (HEAD + "  yield\n}\nkernel", 4, 1, "expected the end of the text, found kernel"),
        (HEAD + "  %0: u32 = jump %n", 2, 13, "there is no op jump"),
        (HEAD + "  %0: u32 = add %n, %m", 2, 21, "%m is not defined"),
        (HEAD + "  %0: u32 = add %n,", 2, 20, "expected a value, found the end of the text"),
        (HEAD + "  %n: u32 = const 1", 2, 3, "%n is defined twice"),
        (HEAD + "  %0: u32 const 1", 2, 11, "expected =, found const"),
        (HEAD + "  %0: u32 = const", 2, 18, "expected a constant, found the end of the text"),
        (HEAD + "  %0: u32 = const %n", 2, 19, "expected a constant, found %n"),
        (HEAD + "  call @f %n", 2, 8, "there is no function f above"),
        (HEAD + "  yield [count]", 2, 15, "expected =, found ]"),
        (HEAD + "  yield ;", 2, 9, "';' begins nothing"),
        (HEAD + "  12abc", 2, 3, "'1' begins nothing"),
        (HEAD + '  yield [a = "\\q"]', 2, 14, '"\\q" is no text in JSON form'),
        (
            "function @f() -> () {\n  yield\n}\nfunction @f() -> () {\n  yield\n}\n",
            4,
            10,
            "the function f is defined twice",
        ),
        (
            "function @f(%0: u32) -> (u64) {\n  yield %0\n}\n",
            1,
            10,
            "the function f yields (u32), not (u64)",
        ),
    ],
)
def test_parse_errors(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, "broken.ir")
    assert str(caught.value) == f"broken.ir:{line}:{column}: {message}"
    assert (caught.value.line, caught.value.column) == (line, column)


DEEP = "  if %n {\n" * 65
LONG = "9" * 5000


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEAD + DEEP, 65, "more than 64 regions lie within each other"),
        (HEAD + "  if %n {\n" * 5000, 65, "more than 64 regions lie within each other"),
        ("kernel @k(%n: " + "ptr<" * 5000, 1, "a pointer leads to numbers, not to pointers"),
        (HEAD + f"  %0: u32 = const {LONG}", 2, "an integer of 5000 digits is too long"),
        (f"kernel @k() workgroup {LONG}", 1, "an integer of 5000 digits is too long"),
        (HEAD + f"  yield %{LONG}", 2, f"%{'9' * 196}..."),
        (HEAD + f"  yield [a = {LONG}]", 2, "an integer of 5000 digits is too long"),
    ],
)
def test_deep_or_long_texts_are_rejected(text: str, line: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, "broken.ir")
    assert caught.value.line == line
    assert str(caught.value).endswith(f": {message}")


def test_deepest_accepted_regions() -> None:
    text = HEAD + "  %0: bool = const true\n" + "  if %0 {\n" * 63 + "  }\n" * 63 + "}\n"
    read = parse(text)
    assert to_text(parse(to_text(read))) == to_text(read)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_text_is_refused_or_read(data: st.DataObject) -> None:
    """Damaged text raises ParseError or gives a kernel."""
    text = (GOLDEN / "walk.ir").read_text()
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 12))
    filler = data.draw(st.text(st.sampled_from('%@{}()[]<>,:="1aé.- \n'), max_size=6))
    damaged = text[:start] + filler + text[start + length :]
    try:
        read = parse(damaged)
    except ParseError:
        return
    assert to_text(parse(to_text(read))) == to_text(read)
