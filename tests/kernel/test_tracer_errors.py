"""Refusals of the tracer: each message in full, with the line that it names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from quod.kernel import (
    F32,
    I32,
    U8,
    U32,
    U64,
    Bool,
    Builder,
    Pointer,
    TraceError,
    Value,
    bool_,
    f32,
    f64,
    function,
    i32,
    kernel,
    u16,
    u32,
    u64,
)
from quod.kernel.errors import an
from quod.kernel.ir import types
from quod.kernel.ir.types import pointer
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import refuses

TRUTH = (
    "a kernel value has no truth value while the kernel is traced; use `with k.if_(condition):`, "
    "`with k.while_(...)` or `k.select(condition, a, b)`, and & | ~ instead of and, or, not"
)
INDEX = (
    "a kernel value is not a Python integer: Python's range() and lists run while the kernel is "
    "traced; use `with k.range(start, stop) as loop:` or pointer[index]"
)


def test_truth_value_of_a_value() -> None:
    def if_statement(k: Builder, n: U32) -> None:
        if n < 3:  # here
            pass

    def and_operator(k: Builder, n: U32) -> None:
        (n < 3) and (n > 1)  # noqa: B018  # here

    def not_operator(k: Builder, n: Bool) -> None:
        not n  # noqa: B018  # here

    def python_min(k: Builder, n: U32, m: U32) -> None:
        min(n, m)  # here

    for body in (if_statement, and_operator, not_operator, python_min):
        refuses(body, TraceError, TRUTH)


def test_iteration() -> None:
    def over_a_pointer(k: Builder, x: Pointer[U32]) -> None:
        for _ in x:  # here
            pass

    def unpacking(k: Builder, n: U32) -> None:
        _, _ = n  # here

    message = "a kernel value cannot be iterated over; use `with k.range(start, stop) as loop:`"
    refuses(over_a_pointer, TraceError, message)
    refuses(unpacking, TraceError, message)


def test_integer() -> None:
    def python_range(k: Builder, n: U32) -> None:
        for _ in range(n):  # type: ignore[call-overload]  # here
            pass

    def python_list(k: Builder, n: U32) -> None:
        [1, 2, 3][n]  # type: ignore[call-overload]  # here

    refuses(python_range, TraceError, INDEX)
    refuses(python_list, TraceError, INDEX)


def test_missing_next() -> None:
    def no_next(k: Builder, n: U32) -> None:
        with k.range(0, n, carry=n):  # here
            pass

    def no_next_in_while(k: Builder, n: U32) -> None:
        with k.while_(n) as loop:  # here
            loop.check(loop.carried < 5)

    message = "a loop that carries values must set their next values by loop.next(...)"
    refuses(no_next, TraceError, message)
    refuses(no_next_in_while, TraceError, message)


def test_carried_types() -> None:
    def other_type(k: Builder, n: U32) -> None:
        with k.range(0, n, carry=(n, [n])) as loop:
            loop.next((n, [n.cast(u64)]))  # here

    def other_count(k: Builder, n: U32) -> None:
        with k.while_(n) as loop:
            loop.check(n < 3)
            loop.next((n, n))  # here

    refuses(other_type, TraceError, "a loop carries (u32, [u32]), but next gives (u32, [u64])")
    refuses(other_count, TraceError, "a loop carries u32, but next gives (u32, u32)")


def test_carrying_python_numbers() -> None:
    def number(k: Builder, n: U32) -> None:
        with k.range(0, n, carry=0):  # here
            pass

    def text(k: Builder, n: U32) -> None:
        with k.range(0, n, carry=("a", n)):  # here
            pass

    refuses(
        number, TraceError, "0 is no kernel value and has no type here; write k.constant(0, type)"
    )
    refuses(
        text,
        TraceError,
        "a str holds no kernel values; use values, tuples and lists of them, or an object with a "
        "`flatten` method",
    )


def test_while_needs_one_check() -> None:
    def none(k: Builder, n: U32) -> None:
        with k.while_(n) as loop:  # here
            loop.next(n)

    def two(k: Builder, n: U32) -> None:
        with k.while_(n) as loop:
            loop.check(n < 3)
            loop.check(n < 4)  # here
            loop.next(n)

    def number(k: Builder, n: U32) -> None:
        with k.while_(n) as loop:
            loop.check(n)  # here
            loop.next(n)

    refuses(none, TraceError, "a while loop needs loop.check(condition)")
    refuses(two, TraceError, "a while loop can have only one loop.check(...)")
    refuses(number, TraceError, "a condition is a bool, not a u32; write x != 0")


def test_loop_results_inside() -> None:
    def early(k: Builder, n: U32) -> None:
        with k.range(0, n, carry=n) as loop:  # here
            loop.next(loop.results)

    refuses(early, TraceError, "loop.results is available only after the `with` block")


ONE_SIDED = (
    "the branch has values on one side only; add `with branch.otherwise():` with branch.yield_(...)"
)


def test_one_sided_branch() -> None:
    def asked(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:  # here
            branch.yield_(n)
        y[0] = branch.results

    def never_asked(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:  # here
            y[0] = n
            branch.yield_(n)

    def in_a_loop(k: Builder, n: U32) -> None:
        with k.range(0, n) as loop, k.if_(loop.index < 3) as branch:  # here
            branch.yield_(n)

    for body in (asked, never_asked, in_a_loop):
        refuses(body, TraceError, ONE_SIDED)


def test_branch_without_values() -> None:
    def nothing(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            y[0] = n
        y[1] = branch.results  # here

    refuses(nothing, TraceError, "the branch has no results; set them by branch.yield_(...)")


def test_branches_of_different_types() -> None:
    def types_differ(k: Builder, n: U32) -> None:
        with k.if_(n < 3) as branch:
            branch.yield_(n)
        with branch.otherwise():
            branch.yield_(n.cast(f32))  # here

    def counts_differ(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            branch.yield_(n, n)
        with branch.otherwise():  # here
            y[0] = n

    def only_the_other_side(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            y[0] = n
        with branch.otherwise():
            branch.yield_(n)  # here

    where = "a branch gives {} where its condition holds and {} where it does not"
    refuses(types_differ, TraceError, where.format("(u32)", "(f32)"))
    refuses(counts_differ, TraceError, where.format("(u32, u32)", "()"))
    refuses(only_the_other_side, TraceError, where.format("()", "(u32)"))


def test_misplaced_otherwise() -> None:
    def twice(k: Builder, n: U32) -> None:
        with k.if_(n < 3) as branch:
            branch.yield_(n)
        with branch.otherwise():
            branch.yield_(n)
        with branch.otherwise():  # here
            branch.yield_(n)

    def deeper(k: Builder, n: U32) -> None:
        with k.if_(n < 3) as branch:
            branch.yield_(n)
        with k.if_(n < 4), branch.otherwise():  # here
            branch.yield_(n)

    refuses(twice, TraceError, "a branch can have only one `otherwise`")
    refuses(deeper, TraceError, "`otherwise` must be in the same region as its branch")


def test_conditions() -> None:
    def number(k: Builder, n: U32) -> None:
        with k.if_(n):  # here
            pass

    def known(k: Builder, n: U32) -> None:
        with k.if_(k.workgroup_size > 3):  # type: ignore[arg-type]  # here
            pass

    refuses(number, TraceError, "a condition is a bool, not a u32; write x != 0")
    refuses(
        known,
        TraceError,
        "this condition is a Python value, known while the kernel is traced; use `if`",
    )


def test_stores_of_another_type() -> None:
    def value(k: Builder, a: F32, y: Pointer[U32]) -> None:
        y[0] = a  # here

    def narrow(k: Builder, a: U64, y: Pointer[U8]) -> None:
        y[0] = a  # here

    def no_pointer(k: Builder, a: U32) -> None:
        a[0] = 1  # here

    def nothing(k: Builder, y: Pointer[U32]) -> None:
        k.store(y, 0)  # here

    convert = "; convert it with value.cast(type)"
    refuses(value, TraceError, f"a u32 is stored here, not an f32{convert}")
    refuses(narrow, TraceError, f"a u32 is stored here, not a u64{convert}")
    refuses(no_pointer, TraceError, "only a pointer can be stored through, not a u32")
    refuses(nothing, TraceError, "a store needs at least one value")


def test_memory() -> None:
    def load_from_number(k: Builder, a: U32) -> None:
        a[0]  # here

    def signed_index(k: Builder, i: I32, x: Pointer[U32]) -> None:
        x[i]  # here

    def negative_index(k: Builder, x: Pointer[U32]) -> None:
        x[-1]  # here

    def load_nothing(k: Builder, x: Pointer[U32]) -> None:
        k.load(x, 0, 0)  # here

    def atomic_on_floats(k: Builder, x: Pointer[F32]) -> None:
        k.atomic_add(x, 0, 1.0)  # here

    refuses(load_from_number, TraceError, "only a pointer can be loaded from, not a u32")
    refuses(signed_index, TraceError, "an index must be u32 or u64, not i32")
    refuses(negative_index, TraceError, "-1 does not fit u32")
    refuses(load_nothing, TraceError, "a load gives at least one value, not 0")
    refuses(atomic_on_floats, TraceError, "atomic_add works on u32 and u64, not on f32")


@pytest.mark.parametrize(
    ("number", "type_", "message"),
    [
        (1 << 32, u32, "4294967296 does not fit u32"),
        (-1, u64, "-1 does not fit u64"),
        (1 << 31, i32, "2147483648 does not fit i32"),
        (1.0, u32, "1.0 is not an integer; the value beside it is u32"),
        (2, bool_, "2 is not a bool; compare with x != 0"),
        (1e39, f32, "1e+39 does not fit f32"),
        (1 << 2000, f64, f"{1 << 2000} does not fit f64"),
        ((1 << 24) + 1, f32, "16777217 is not exact in f32; write 16777217.0 to round it"),
        ("1", u32, "a str cannot stand beside a value of u32"),
        (None, u32, "a NoneType cannot stand beside a value of u32"),
        (1, u16, "there are no constants of type u16"),
    ],
)
def test_constants(number: Any, type_: Any, message: str) -> None:
    def constant(k: Builder) -> None:
        k.constant(number, type_)  # here

    refuses(constant, TraceError, message)


def test_constant_operands_with_values() -> None:
    def too_large(k: Builder, n: U8) -> None:
        pass

    def beside(k: Builder, n: U32) -> None:
        n + (1 << 40)  # here

    def compared(k: Builder, n: U32) -> None:
        _ = n == None  # noqa: E711  # here

    refuses(beside, TraceError, "1099511627776 does not fit u32")
    refuses(compared, TraceError, "a NoneType cannot stand beside a value of u32")


def test_numpy_scalars_are_valid_operands() -> None:
    @kernel
    def scalars(k: Builder, y: Pointer[U32]) -> None:
        y[0] = np.uint32(7) * y[0] + np.int64(3)

    assert [op.name for op in scalars.trace(EIGHT).block.ops][-3:] == ["add", "store", "yield"]


def test_mixed_types() -> None:
    def add(k: Builder, a: U32, b: U64) -> None:
        a + b  # here

    def shift(k: Builder, a: U64, b: U32) -> None:
        a << b  # here

    def floats(k: Builder, a: F32) -> None:
        a & a  # here

    def select(k: Builder, a: U32, b: U64) -> None:
        k.select(a < 3, a, b)  # here

    template = "must have one type, not {}; convert one with value.cast(type)"
    refuses(add, TraceError, f"operands of add {template.format('u32 and u64')}")
    refuses(shift, TraceError, f"operands of shl {template.format('u64 and u32')}")
    refuses(select, TraceError, f"operands of select {template.format('u32 and u64')}")
    refuses(
        floats,
        TraceError,
        "operand 1 of and must be one of bool, u32, u64, i32, i64, not f32; convert one with "
        "value.cast(type)",
    )


def test_select_of_numbers() -> None:
    def numbers(k: Builder, a: U32) -> None:
        k.select(a < 3, 1, 2)  # here

    refuses(
        numbers,
        TraceError,
        "select needs at least one kernel value to know its type; for field elements and points "
        "write field.select(...) or points.select(...)",
    )


def test_loop_bounds() -> None:
    def floats(k: Builder, a: F32) -> None:
        with k.range(0.0, a):  # here
            pass

    def mixed(k: Builder, a: U32, b: U64) -> None:
        with k.range(a, b):  # here
            pass

    def step(k: Builder, a: I32) -> None:
        with k.range(a, 0, -1):  # here
            pass

    refuses(floats, TraceError, "a loop counts in integers, not in f32")
    refuses(mixed, TraceError, "start, stop and step of a loop must have one type")
    refuses(step, TraceError, "the step of a loop must be above zero, not -1")


def test_casts() -> None:
    def to_pointer(k: Builder, x: Pointer[U32]) -> None:
        x.cast(x[0].type).cast(x.type)  # here

    def storage(k: Builder, a: U32) -> None:
        a.cast(u16)  # here

    def width(k: Builder, a: U32) -> None:
        k.bitcast(a, f64)  # here

    def pointer_bits(k: Builder, x: Pointer[U32]) -> None:
        k.bitcast(x, u64)  # here

    refuses(storage, TraceError, "cannot convert u32 to u16")
    refuses(width, TraceError, "u32 and f64 differ in width")
    refuses(pointer_bits, TraceError, "cannot take the bits of ptr<u32, global> as u64")


def test_pointer_cast_to_a_pointer() -> None:
    def doubled(k: Builder, x: Pointer[U32], y: Pointer[U64]) -> None:
        x.cast(y.type)  # here

    message = "cast a pointer to the type of its elements, not to a pointer"
    refuses(doubled, TraceError, message)


def test_shared_memory() -> None:
    def inside(k: Builder, n: U32) -> None:
        with k.if_(n < 3):
            k.shared(u32, 4)  # here

    def empty(k: Builder) -> None:
        k.shared(u32, 0)  # here

    @function
    def helper(k: Builder, n: Value) -> None:
        k.shared(u32, 4)

    def in_a_function(k: Builder, n: U32) -> None:
        helper(k, n)

    message = "shared memory is declared at the top of a kernel, outside any region or function"
    refuses(inside, TraceError, message)
    refuses(empty, TraceError, "shared memory holds at least one element, not 0")
    with pytest.raises(TraceError, match=f"{message}$"):
        kernel(in_a_function).trace(EIGHT)


def test_functions() -> None:
    @function
    def endless(k: Builder, n: Value) -> Value:
        return endless(k, n)

    def recursive(k: Builder, n: U32) -> None:
        endless(k, n)

    with pytest.raises(TraceError, match=r"the function endless calls itself; write a loop$"):
        kernel(recursive).trace(EIGHT)

    @function
    def with_static(k: Builder, n: Value, *, table: list[int]) -> Value:
        return n + table[0]

    def unhashable(k: Builder, n: U32) -> None:
        with_static(k, n, table=[1])  # here

    message = "what the function with_static is fixed to cannot be a key: unhashable type: 'list'"
    refuses(unhashable, TraceError, message)


def test_values_of_another_kernel() -> None:
    kept: list[Value] = []

    def first(k: Builder, n: U32) -> None:
        kept.append(n)

    def second(k: Builder, n: U32) -> None:
        n + kept[0]  # here

    kernel(first).trace(EIGHT)
    refuses(second, TraceError, "an operand of add belongs to another kernel")


def test_emitting_a_special_op() -> None:
    def emitted(k: Builder, x: Pointer[U32]) -> None:
        k.emit("load", (x, k.local_id()))  # here

    message = "load has a method of its own on the builder; it is not emitted"
    refuses(emitted, TraceError, message)


def test_parameters() -> None:
    def unannotated(k: Builder, n) -> None:  # type: ignore[no-untyped-def]
        pass

    def of_no_kernel_type(k: Builder, n: int) -> None:
        pass

    def many(k: Builder, *values: U32) -> None:
        pass

    for body, message in (
        (unannotated, "parameter n needs a kernel type, such as U32 or Pointer[U32]"),
        (
            of_no_kernel_type,
            "parameter n is annotated with <class 'int'>, which is not a kernel type; use U32, "
            "U64, F32, ..., Pointer[...] of one, or a Struct of these",
        ),
        (many, "a kernel must name each of its parameters; it cannot take *values"),
    ):
        with pytest.raises(TraceError) as caught:
            kernel(body)
        place = f"{__file__}:{body.__code__.co_firstlineno}"
        assert str(caught.value) == f"{place}: {message}"


Alias = "U32"
Itself = "Itself"


def test_string_annotations() -> None:
    class Holder:
        def body(self, k: Builder, n: U32, x: Pointer[U32]) -> None:
            pass

    def quoted(k: Builder, n: "U32", x: "Pointer[U32]") -> None:  # noqa: UP037
        pass

    def inner(k: Builder, n: Alias, x: Pointer["U32"]) -> None:  # type: ignore[valid-type]  # noqa: UP037
        pass

    @functools.wraps(quoted)
    def wrapper(*values: object, **named: object) -> None:
        quoted(*values, **named)  # type: ignore[arg-type]

    for body in (quoted, inner, Holder().body, wrapper):
        assert list(kernel(body).parameters.items()) == [("n", types.u32), ("x", pointer(u32))]


def test_unresolvable_annotations() -> None:
    def missing(k: Builder, n: "NoSuchType") -> None:  # type: ignore[name-defined]  # noqa
        pass

    def malformed(k: Builder, n: "U32 U32") -> None:  # type: ignore[valid-type]  # noqa
        pass

    def circular(k: Builder, n: "Itself") -> None:  # type: ignore[valid-type]  # noqa
        pass

    for body, message in (
        (missing, "cannot be read (name 'NoSuchType' is not defined); import it where the kernel"),
        (malformed, "cannot be read (invalid syntax"),
        (circular, "is annotated with 'Itself', which is not a kernel type"),
    ):
        with pytest.raises(TraceError) as caught:
            kernel(body)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{__file__}:{body.__code__.co_firstlineno}: ")


def test_user_exceptions_pass_unchanged() -> None:
    def broken(k: Builder, n: U32) -> None:
        with k.range(0, n) as loop, k.if_(loop.index < 3):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        kernel(broken).trace(EIGHT)


def test_articles_in_error_messages() -> None:
    nouns = ["int", "Element", "i32", "f32", "atomic_add", "object", "UnknownOp"]
    assert [an(noun).split()[0] for noun in nouns] == ["an"] * len(nouns)
    others = ["u32", "float", "bool", "str", "list", "ptr<u32, global>", "unit"]
    assert [an(noun) for noun in others] == [f"a {noun}" for noun in others]
