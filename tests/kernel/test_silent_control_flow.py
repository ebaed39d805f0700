"""Control flow that Python would silently accept: each mistake is an error with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from quod.kernel import (
    U32,
    Builder,
    Pointer,
    TraceError,
    Value,
    kernel,
)  # fmt: skip
from quod.kernel.builder.early_exit import leaving_statements
from quod.kernel.interpreter.interpreter import interpret
from tests.conftest import REPOSITORY
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import refuses


def test_effects_between_if_and_otherwise_are_rejected() -> None:
    def plain(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            y[0] = n
        y[1] = n  # here
        with branch.otherwise():
            y[2] = y[1]

    def giving(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            branch.yield_(n)
        x = y[1]  # here
        with branch.otherwise():
            branch.yield_(x)

    text = "is between a branch and its `otherwise`, and would run before or after both sides; "
    hint = "move it before the branch or after `otherwise`"
    refuses(plain, TraceError, f"a store {text}{hint}")
    refuses(giving, TraceError, f"a load {text}{hint}")


def test_pure_ops_between_if_and_otherwise_are_accepted() -> None:
    @kernel
    def between(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.local_id()
        value = x[i]
        with k.if_(value < 3) as branch:
            y[i] = value
        twice = value * 2
        with branch.otherwise():
            y[i] = twice

    out = np.zeros(8, np.uint32)
    interpret(between.trace(EIGHT), 1, [np.arange(8, dtype=np.uint32), out])
    assert out.tolist() == [0, 1, 2, 6, 8, 10, 12, 14]


def left(word: str) -> str:
    return (
        f"`{word}` leaves the region of a `with` while the kernel is traced, for every instance, "
        "and what follows is not recorded; put what follows in a branch of its own, or give a "
        "value with branch.yield_(...) or loop.next(...)"
    )


@contextmanager
def when(k: Builder, condition: Value) -> Iterator[None]:
    with k.if_(condition):
        yield


class When:
    def __init__(self, k: Builder, condition: Value) -> None:
        self.k, self.condition = k, condition

    def __enter__(self) -> None:
        self.branch = self.k.if_(self.condition)
        self.branch.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.branch.__exit__(*error)


def test_leaving_a_region() -> None:
    def returns(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3):
            return  # here
        y[0] = n

    def breaks(k: Builder, n: U32, y: Pointer[U32]) -> None:
        for j in range(3):
            with k.if_(n < j):
                y[0] = n
                break  # here

    def continues(k: Builder, n: U32, y: Pointer[U32]) -> None:
        for j in range(3):
            with k.range(0, n) as loop, k.if_(loop.index < j):
                for _ in range(2):
                    break
                else:
                    continue  # here

    def in_otherwise(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            y[0] = n
        with branch.otherwise():
            if n is not None:
                return  # here
        y[1] = n

    refuses(returns, TraceError, left("return"))
    refuses(breaks, TraceError, left("break"))
    refuses(continues, TraceError, left("continue"))
    refuses(in_otherwise, TraceError, left("return"))

    def by_a_manager(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with when(k, n < 3):
            return  # here
        y[0] = n

    def by_a_class(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with When(k, n < 3):
            return  # here
        y[0] = n

    refuses(by_a_manager, TraceError, left("return"))
    refuses(by_a_class, TraceError, left("return"))

    @kernel
    def inside(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with when(k, n < 2), When(k, n < 3):
            y[8] = n
        with k.if_(n < 3):
            for j in range(3):
                if j == 1:
                    break
                y[j] = n

            def helper() -> int:
                return 7

            y[7] = helper()

    inside.trace(EIGHT)


def test_no_kernel_of_the_package_leaves_a_region() -> None:
    checked = 0
    forms = ("k.if_(", "k.range(", "k.while_(", ".otherwise()")
    for path in (REPOSITORY / "src" / "quod").rglob("*.py"):
        source = path.read_text()
        if not any(form in source for form in forms):
            continue
        lines = source.splitlines()
        for at, word, line in leaving_statements(source):
            assert not any(form in lines[at - 1] for form in forms), f"{path}:{line}: {word}"
        checked += source.count("with k.if_(")
    assert checked > 50


def never(what: str, spelling: str) -> str:
    return f"the result of {what} was never entered, so it has no effect; write `with {spelling}:`"


def test_control_flow_forms_never_entered_are_rejected() -> None:
    branch = never("k.if_", "k.if_(condition)")
    loop = never("k.range", "k.range(start, stop) as loop")

    def bare(k: Builder, n: U32, y: Pointer[U32]) -> None:
        k.if_(n < 3)  # here
        y[0] = n

    def python_if(k: Builder, n: U32, y: Pointer[U32]) -> None:
        if k.if_(n < 3):  # here
            y[0] = n

    def python_for(k: Builder, n: U32, y: Pointer[U32]) -> None:
        for j in k.range(0, n):  # here
            y[j] = n

    def unused_loop(k: Builder, n: U32, y: Pointer[U32]) -> None:
        loop = k.range(0, n)  # here
        y[loop.index] = n

    def bare_while(k: Builder, n: U32) -> None:
        k.while_(n)  # here

    def bare_otherwise(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            y[0] = n
        branch.otherwise()  # here
        y[1] = n

    for body, message in (
        (bare, branch), (python_if, branch), (python_for, loop), (unused_loop, loop),
        (bare_while, never("k.while_", "k.while_(carried) as loop")),
        (bare_otherwise, never("branch.otherwise", "branch.otherwise()")),
    ):  # fmt: skip
        refuses(body, TraceError, message)


def test_control_flow_forms_are_entered_once_in_their_region() -> None:
    def twice(k: Builder, n: U32, y: Pointer[U32]) -> None:
        branch = k.if_(n < 3)
        with branch:
            y[0] = n
        with branch:  # here
            y[1] = n

    def deeper(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.range(0, n, carry=n) as loop, k.if_(loop.index < 3):
            loop.next(loop.carried)  # here

    def behind(k: Builder, n: U32) -> None:
        with k.if_(n < 3) as branch:
            pass
        branch.yield_(n)  # here

    where = (
        "must be directly in the region of its own `with`, neither in a nested region nor after "
        "the `with`"
    )
    refuses(twice, TraceError, "`with k.if_(condition)` was entered twice; write another one")
    refuses(deeper, TraceError, f"loop.next(...) {where}")
    refuses(behind, TraceError, f"branch.yield_(...) {where}")


def test_an_error_that_is_caught_outside_its_region() -> None:
    """The region and its stores would be missing."""

    def branch(k: Builder, y: Pointer[U32]) -> None:
        with suppress(ZeroDivisionError), k.if_(y[0] < 3):  # here
            y[1] = 5
            raise ZeroDivisionError

    def other(k: Builder, y: Pointer[U32]) -> None:
        with k.if_(y[0] < 3) as either:
            y[1] = 5
        with suppress(KeyError), either.otherwise():  # here
            y[2] = {}[0]

    def loop(k: Builder, n: U32, y: Pointer[U32]) -> None:
        try:
            with k.range(0, n):  # here
                y[1] = 5
                y[2] = "five"
        except TraceError:
            y[3] = 1

    def unchecked(k: Builder, n: U32) -> None:
        with suppress(ValueError), k.while_(n):  # here
            raise ValueError

    def checked(k: Builder, n: U32) -> None:
        with suppress(ValueError), k.while_(n) as loop:  # here
            loop.check(loop.carried != 0)
            raise ValueError

    for kernel_of, error, spelling in (
        (branch, "ZeroDivisionError", "k.if_(condition)"),
        (other, "KeyError", "branch.otherwise()"),
        (loop, "TraceError", "k.range(start, stop) as loop"),
        (unchecked, "ValueError", "k.while_(carried) as loop"),
        (checked, "ValueError", "k.while_(carried) as loop"),
    ):
        refuses(
            kernel_of, TraceError,
            f"{error} left the region of `with {spelling}` and was caught outside, so the kernel "
            "lacks the region; catch it inside the region, or not at all",
        )  # fmt: skip


def test_an_error_that_is_caught_within_its_region() -> None:
    @kernel
    def within(k: Builder, y: Pointer[U32]) -> None:
        with k.if_(y[0] < 3), suppress(ZeroDivisionError):
            y[1] = 5
            raise ZeroDivisionError

    y = np.zeros(2, np.uint32)
    interpret(within.trace(EIGHT), 1, [y])
    assert y.tolist() == [0, 5]


def test_a_body_that_raises_can_be_called_again() -> None:
    state = {"fails": True}

    @kernel
    def caught(k: Builder, y: Pointer[U32]) -> None:
        def body(k: Builder, a: Value) -> Value:
            if state["fails"]:
                state["fails"] = False
                k.if_(a < 3)
                with k.if_(a < 4):
                    raise ZeroDivisionError
            return a + 1

        try:
            k.call("body", body, y[0])
        except ZeroDivisionError:
            y[1] = k.call("body", body, y[0])

    caught.trace(EIGHT)


def test_functions_of_one_name() -> None:
    """The second function would silently replace the first."""

    def scaled(factor: int) -> Callable[[Builder, Value], Value]:
        return lambda _, a: a * factor

    def product(_: Builder, a: Value, *, factor: int) -> Value:
        return a * factor

    @kernel
    def several(k: Builder, y: Pointer[U32]) -> None:
        for place in (1, 2):
            y[place] = k.call("scaled", scaled(place + 1), y[0])
            y[place + 2] = k.call("product", partial(product, factor=place + 4), y[0])
        y[5] = k.call("product", partial(product, factor=5), y[0])

    y = np.full(8, 7, np.uint32)
    traced = several.trace(EIGHT)
    interpret(traced, 1, [y])
    assert y.tolist() == [7, 14, 21, 35, 42, 35, 7, 7]
    # A partial is what it fixes.
    assert len(traced.functions) == 4

    def itself(k: Builder, n: U32) -> None:
        def body(k: Builder, a: Value) -> Value:
            return k.call("again", lambda k, b: body(k, b), a)  # here

        k.call("first", body, n)

    refuses(itself, TraceError, "the function again calls itself; write a loop")

    def number(k: Builder, n: U32) -> None:
        k.call(5, lambda _, a: a, n)  # type: ignore[arg-type]  # here

    refuses(number, TraceError, "the name of a function is text, not int")


def test_unknown_ops() -> None:
    def unknown(k: Builder, n: U32) -> None:
        k.emit("unknown", (n, n))  # here

    def close(k: Builder, n: U32) -> None:
        k.emit_many("mull_hi", (n, n))  # here

    refuses(unknown, TraceError, "there is no op unknown; docs/kernel-ops.md lists them")
    refuses(close, TraceError, "there is no op mull_hi; did you mean mul_hi?")

    def begun(k: Builder, n: U32) -> None:
        k.emit("ad", (n, n))  # here

    # `and` is as similar.
    refuses(begun, TraceError, "there is no op ad; did you mean add?")
