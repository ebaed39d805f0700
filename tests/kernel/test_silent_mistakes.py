"""Mistakes that Python would let pass without a word: each is an error at its line."""

from __future__ import annotations

import random
import time
from argparse import Namespace
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.curve.point import PointArithmetic
from quod.device import open_device
from quod.errors import KernelError
from quod.field.extension import QuadraticField
from quod.field.moduli import BN254_FQ, BN254_FR, Modulus
from quod.field.strategy import prime_field
from quod.kernel import (
    F32,
    F64,
    U32,
    U64,
    Builder,
    Pointer,
    TraceError,
    Value,
    VerificationFailure,
    function,
    kernel,
    types,
)  # fmt: skip
from quod.kernel.interpreter import interpret
from quod.kernel.leaving import leaving_statements
from quod.kernel.registry import emit
from quod.target.rules import rule_of
from quod.target.wgsl import emit as emit_wgsl
from quod.target.wgsl_machine import PORTABLE
from tests.conftest import REPOSITORY
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import refuses


def words(numbers: list[int], modulus: Modulus) -> np.ndarray[Any, Any]:
    size = modulus.bytes
    return np.frombuffer(b"".join(n.to_bytes(size, "little") for n in numbers), np.uint64).copy()


# --- control flow


def test_effects_between_a_branch_and_its_otherwise() -> None:
    def plain(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            y[0] = n
        y[1] = n  # here
        with branch.otherwise():
            y[2] = y[1]

    def giving(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            branch.give(n)
        x = y[1]  # here
        with branch.otherwise():
            branch.give(x)

    text = "stands between a branch and its `otherwise`, and would run before or after both sides; "
    hint = "move it before the branch or behind `otherwise`"
    refuses(plain, TraceError, f"a store {text}{hint}")
    refuses(giving, TraceError, f"a load {text}{hint}")


def test_what_only_computes_may_stand_between() -> None:
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
        "value with branch.give(...) or loop.next(...)"
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
    for path in (REPOSITORY / "src" / "quod").rglob("*.py"):
        source = path.read_text()
        lines = source.splitlines()
        for at, word, line in leaving_statements(source):
            forms = ("k.if_(", "k.range(", "k.while_(", ".otherwise()")
            assert not any(form in lines[at - 1] for form in forms), f"{path}:{line}: {word}"
        checked += source.count("with k.if_(")
    assert checked > 50


def never(what: str, spelling: str) -> str:
    return (
        f"what {what} gives was never entered, so nothing depends on it; write `with {spelling}:`"
    )


def test_forms_that_are_never_entered() -> None:
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


def test_forms_are_entered_once_and_told_in_their_own_region() -> None:
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
        branch.give(n)  # here

    where = (
        "stands in the region of its own `with`, not in one inside or behind it: it is said once, "
        "whichever way an instance goes"
    )
    refuses(twice, TraceError, "`with k.if_(condition)` is entered once; write another")
    refuses(deeper, TraceError, f"loop.next(...) {where}")
    refuses(behind, TraceError, f"branch.give(...) {where}")


def test_a_body_that_raises_can_be_called_again() -> None:
    state = {"fails": True}

    @kernel
    def caught(k: Builder, y: Pointer[U32]) -> None:
        def body(k: Builder, a: Value) -> Value:
            if state["fails"]:
                state["fails"] = False
                k.if_(a < 3)
                raise ZeroDivisionError
            return a + 1

        try:
            k.call("body", body, y[0])
        except ZeroDivisionError:
            y[1] = k.call("body", body, y[0])

    caught.trace(EIGHT)


def test_unknown_ops() -> None:
    def unknown(k: Builder, n: U32) -> None:
        k.emit("unknown", (n, n))  # here

    def close(k: Builder, n: U32) -> None:
        k.emit_many("mull_hi", (n, n))  # here

    refuses(unknown, TraceError, "there is no op unknown; docs/kernel-ops.md lists them")
    refuses(close, TraceError, "there is no op mull_hi; did you mean mul_hi?")


# --- operators


def test_divisions() -> None:
    def whole(k: Builder, n: U32) -> None:
        n / 3  # here

    def fraction(k: Builder, a: F32) -> None:
        2.0 // a  # here

    refuses(
        whole, TraceError,
        "/ divides floats, and this is a u32; write // for the whole quotient (the op div), or "
        "value.cast(f32) / ... for a fraction",
    )  # fmt: skip
    refuses(
        fraction, TraceError,
        "// divides integers, and this is a f32; write / for the quotient (the op div), and "
        "(a / b).cast(i32) to round it toward zero",
    )  # fmt: skip


EQUAL = (
    "whether these are equal is not known while the kernel is traced; write field.equal(a, b) or "
    "field.is_zero(a), with `with k.if_(...)` or field.select(...)"
)


def test_comparisons_of_elements_and_points() -> None:
    def equal(k: Builder, x: Pointer[U64], y: Pointer[U32]) -> None:
        f = prime_field(k, BN254_FR)
        if f.load(x, 0) == f.load(x, 1):  # here
            y[0] = 1

    def number(k: Builder, x: Pointer[U64], y: Pointer[U32]) -> None:
        f = QuadraticField(prime_field(k, BN254_FQ), -1)
        y[0] = 1 if f.load(x, 0) != 0 else 2  # here

    def truth(k: Builder, x: Pointer[U64], y: Pointer[U32]) -> None:
        f = prime_field(k, BN254_FR)
        if not f.load(x, 0):  # here
            y[0] = 1

    def points(k: Builder, x: Pointer[U64], y: Pointer[U32]) -> None:
        p = PointArithmetic(k, GROUPS["bn254.g1"])
        if p.load_extended(x, 0) in (p.load_extended(x, 1),):  # here
            y[0] = 1

    def order(k: Builder, x: Pointer[U64]) -> None:
        p = PointArithmetic(k, GROUPS["bn254.g1"])
        max(p.load_affine(x, 0), p.load_affine(x, 1))  # here

    form = "with `with k.if_(...)` or points.select(...)"
    affine = f"write points.equal(points.extend(p), points.extend(q)), {form}"
    refuses(equal, TraceError, EQUAL)
    refuses(number, TraceError, EQUAL)
    refuses(truth, TraceError, EQUAL.replace("whether these are equal", "the truth of this"))
    extended = f"write points.equal(p, q), {form}"
    when = "is not known while the kernel is traced"
    refuses(points, TraceError, f"whether these are equal {when}; {extended}")
    refuses(order, TraceError, f"which of these is less {when}; {affine}")


def test_the_forms_that_compare() -> None:
    @kernel
    def compare(k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U32]) -> None:
        i = k.local_id()
        f = prime_field(k, BN254_FR)
        out[i] = f.equal(f.load(x, i), f.load(y, i)).cast(types.u32)

    p = BN254_FR.value
    out = np.zeros(8, np.uint32)
    a, b = [0, 1, p - 1, 5, 6, 7, 0, 9], [0, 1, p - 1, 5, 7, 7, p - 1, 8]
    interpret(compare.trace(EIGHT), 1, [words(a, BN254_FR), words(b, BN254_FR), out])
    assert out.tolist() == [int(x == y) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda k, f, x: 3 * f.load(x, 0), "a int cannot stand beside an element of bn254.fr"),
        (lambda k, f, x: 1 - f.load(x, 0), "a int cannot stand beside an element of bn254.fr"),
        (lambda k, f, x: f.load(x, 0) / f.load(x, 1), "is not divided with /; write a * field.inv"),
        (lambda k, f, x: f.load(x, 0) ** 5, "an element of bn254.fr has no **; write field.square"),
        (lambda k, f, x: f.store(x, 0, x[0]), "a Value stands where an element of bn254.fr is"),
        (lambda k, f, x: f.equal(f.load(x, 0), 3), "a int stands where an element of bn254.fr is"),
        (lambda k, f, x: x.__setitem__(0, f.load(x, 0)), "; write field.store(pointer, index, a)"),
        (lambda k, f, x: k.select(x[0] < 1, f.zero(), f.zero()), "write field.select(...)"),
        (
            lambda k, f, x: 3 * QuadraticField(f, -1).one(),
            "a int cannot stand beside an element of",
        ),
        (lambda k, f, x: x[0] ** 2, "there is no ** of kernel values; write x * x"),
        (lambda k, f, x: 2 ** x[0], "there is no ** of kernel values; write x * x"),
        (lambda k, f, x: divmod(x[0], 3), "there is no divmod of kernel values"),
        (lambda k, f, x: abs(x[0]), "there is no abs of kernel values"),
        (lambda k, f, x: float(x[0]), "use value.cast(f32)"),
        (lambda k, f, x: len(x), "has no length that the kernel knows; take it as a parameter"),
        (lambda k, f, x: k.range(x[0]), "k.range(0, n)"),
        (lambda k, f, x: k.shared(types.u32, x[0]), "the size of shared memory is fixed while"),
    ],
)
def test_what_python_writes_and_the_language_has_not(
    use: Callable[[Any, Any, Any], object], message: str
) -> None:
    @kernel
    def mistaken(k: Builder, x: Pointer[U64]) -> None:
        use(k, prime_field(k, BN254_FR), x)

    with pytest.raises(TraceError) as caught:
        mistaken.trace(EIGHT)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")


def test_operands_of_fields() -> None:
    def number(k: Builder, x: Pointer[U64]) -> None:
        prime_field(k, BN254_FR).load(x, 0) * 3  # here

    def other(k: Builder, x: Pointer[U64]) -> None:
        a, b = prime_field(k, BN254_FR).load(x, 0), prime_field(k, BN254_FQ).load(x, 1)
        prime_field(k, BN254_FR).sum_of_products([(a, b)])  # here

    refuses(
        number, TraceError,
        "a int cannot stand beside an element of bn254.fr; write field.constant(number), or "
        "field.times(a, number) for a small factor",
    )  # fmt: skip
    refuses(
        other, TraceError,
        "an element of bn254.fq stands where one of bn254.fr is computed with: they are different "
        "fields, or held in different ways",
    )  # fmt: skip


# --- what messages name


def test_errors_in_fields_name_the_authors_line() -> None:
    def power(k: Builder, x: Pointer[U64]) -> None:
        f = prime_field(k, BN254_FR)
        f.power(f.load(x, 0), -1)  # here

    def region(k: Builder, n: U32, x: Pointer[U64]) -> None:
        f = prime_field(k, BN254_FR)
        kept = []
        with k.if_(n < 3):
            kept.append(f.load(x, 0))
        f.store(x, 1, kept[0] + kept[0])  # here

    message = "an exponent is not below zero, as -1 is; take field.inverse(a) first"
    refuses(power, TraceError, message)
    with pytest.raises(VerificationFailure, match="uses a value from another region") as caught:
        kernel(region).trace(EIGHT)
    assert caught.value.location.file == __file__


def test_bounds_that_differ() -> None:
    def loop(k: Builder, n: U32, x: Pointer[U64]) -> None:
        f = prime_field(k, BN254_FR)
        with k.range(0, n, carry=f.load(x, 0)) as loop:
            loop.next(loop.carried + loop.carried)  # here

    with pytest.raises(TraceError) as caught:
        kernel(loop).trace(EIGHT)
    message = str(caught.value)
    assert "an element of bn254.fr below 1p" in message
    assert message.endswith("give each with the field's standard bounds, as `field.carried(x)`")
    assert not any(len(word) > 40 and word.isdigit() for word in message.split())


def test_doubles_in_wgsl_name_a_line() -> None:
    @kernel
    def load(k: Builder, x: Pointer[F64], y: Pointer[U32]) -> None:
        y[0] = (x[0] + 1.0).cast(types.u32)  # here

    @kernel
    def parameter(k: Builder, a: F64, y: Pointer[U32]) -> None:
        y[0] = 1

    machine = PORTABLE.machine()
    for definition in (load, parameter):
        with pytest.raises(KernelError, match=r"WGSL has no 64-bit floating point") as caught:
            emit_wgsl(definition.trace(machine), machine)
        assert str(caught.value).startswith(f"{__file__}:")


def test_kernels_for_other_targets() -> None:
    with pytest.raises(KernelError) as caught:
        emit("msm.accumulate[bn254.g1]", "wgsl")
    assert str(caught.value) == (
        "the kernel msm.accumulate[bn254.g1] is not written for the machine of wgsl; take the "
        "target llvm"
    )


def test_an_op_without_a_rule_names_its_line() -> None:
    @kernel
    def one(k: Builder, n: U32, y: Pointer[U32]) -> None:
        y[0] = n + 1

    (op,) = (op for op in one.trace(EIGHT).block.ops if op.name == "add")
    with pytest.raises(KernelError, match=r"test_silent.*: WGSL has no rule for the op add"):
        rule_of({}, op, "WGSL")


# --- two fields of one name


def test_two_moduli_of_one_name() -> None:
    first, second = Modulus("same", BN254_FR.value), Modulus("same", BN254_FQ.value)

    @kernel
    def both(k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64]) -> None:
        i = k.local_id()
        for number, modulus in enumerate((first, second)):
            f = prime_field(k, modulus)
            a = f.load(x, i)
            for place, result in enumerate((a * f.load(y, i), f.square(a), f.inverse(a))):
                f.store(out, (i * 2 + number) * 3 + place, result)

    rng = random.Random(7)
    numbers = [rng.randrange(2, BN254_FR.value) for _ in range(8)]
    others = [rng.randrange(2, BN254_FR.value) for _ in range(8)]
    for device in (open_device("cpu"), open_device("cpu", checked=True), open_device("emulated")):
        out = np.zeros(8 * 6 * 4, np.uint64)
        compiled = device.compile(both, lanes=8)
        device.launch(compiled, 1, words(numbers, first), words(others, first), out)
        found = [int.from_bytes(part.tobytes(), "little") for part in out.reshape(-1, 4)]
        expected = []
        for a, b in zip(numbers, others, strict=True):
            for modulus in (first, second):
                p, radix = modulus.value, modulus.montgomery_radix
                unit = pow(radix, -1, p)
                expected += [a * b * unit % p, a * a * unit % p, pow(a, -1, p) * radix**2 % p]
        assert found == expected


# --- static arguments


def test_equal_static_arguments_of_other_types() -> None:
    """Python finds them equal, and a kernel need not."""

    @function
    def told(k: Builder, value: Value, *, what: object) -> Value:
        return value * 0 + len(repr(what))

    @kernel
    def telling(k: Builder, y: Pointer[U32], *, what: object) -> None:
        y[0] = len(repr(what))

    @kernel
    def calling(k: Builder, y: Pointer[U32], *, whats: tuple[object, ...]) -> None:
        for j, what in enumerate(whats):
            y[j] = told(k, y[j], what=what)

    device = open_device("cpu")
    whats: tuple[object, ...]
    for whats in (
        (1, True, 1.0), (0.0, -0.0), ((1,), (True,), (1.0,)), (frozenset({0}), frozenset({False})),
        (Fixed(1), Fixed(True)), (((0.0,),), ((-0.0,),)),
    ):  # fmt: skip
        lengths = [len(repr(what)) for what in whats]
        found = np.zeros(8, np.uint32)
        for what, length in zip(whats, lengths, strict=True):
            device.launch(device.compile(telling, lanes=8, what=what), 1, found)
            assert found[0] == length
        interpret(calling.trace(EIGHT, whats=whats), 1, [found])
        assert found[: len(whats)].tolist() == lengths


@dataclass(frozen=True)
class Fixed:
    width: int


# --- what is no kernel, or is not used as one


def test_bodies_that_record_nothing() -> None:
    def gives(k: Builder, y: Pointer[U32]) -> Value:  # here
        return y[0]

    told = "gives something back, which nobody gets; store it through a pointer"
    refuses(gives, TraceError, f"the kernel gives {told}", line="# here")

    def suspends(k: Builder, y: Pointer[U32]) -> Iterator[None]:
        y[0] = 1
        yield

    async def awaits(k: Builder, y: Pointer[U32]) -> None:
        y[0] = 1

    for word, body in (("yield", suspends), ("async", awaits)):
        for decorator in (kernel, function):
            with pytest.raises(TraceError, match=f"`{word}` makes {body.__name__} something"):
                decorator(body)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["cpu", "cpu:checked", "emulated"])
def test_what_is_compiled_and_launched(name: str) -> None:
    def plain(k: Builder, y: Pointer[U32]) -> None:
        y[0] = 1

    made, device, words = kernel(plain), open_device(name), np.zeros(8, np.uint32)
    with pytest.raises(KernelError, match="plain is no kernel; write @kernel above"):
        device.compile(plain)  # type: ignore[arg-type]
    with pytest.raises(KernelError, match=r"plain is not compiled; launch what device\.compile"):
        device.launch(made, 1, words)
    with pytest.raises(TraceError, match=r"plain is not called; run it with device\.launch"):
        made(words)


# --- variables outside

FACTOR = 3
TABLE = [1, 2, 3]


class Settings:
    width = 4


def helper(value: Value) -> Value:
    return value * TABLE[0] + Settings.width


@kernel
def reads(k: Builder, y: Pointer[U32]) -> None:
    y[k.local_id()] = helper(y[k.local_id()]) * FACTOR


def test_a_variable_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_device("cpu")
    device.compile(reads, lanes=8)
    monkeypatch.setitem(globals(), "FACTOR", int("3"))
    device.compile(reads, lanes=8)
    for change, name, before, now in (
        (lambda: monkeypatch.setitem(globals(), "FACTOR", 5), "FACTOR", "3", "5"),
        (lambda: TABLE.__setitem__(0, 9), "TABLE", "[1, 2, 3]", "[9, 2, 3]"),
        (lambda: monkeypatch.setattr(Settings, "width", 5), "Settings.width", "4", "5"),
    ):
        change()
        for use in (lambda: device.compile(reads, lanes=8), lambda: reads.trace(EIGHT)):
            with pytest.raises(TraceError) as caught:
                use()
            message = f"the kernel reads was traced with {name} = {before}, which is {now} now; "
            assert message in str(caught.value)
            assert str(caught.value).startswith(f"{__file__}:")
        monkeypatch.undo()
        TABLE[0] = 1
        device.compile(reads, lanes=8)


def test_a_captured_variable_that_changes() -> None:
    factor = 3

    @function
    def scaled(k: Builder, value: Value) -> Value:
        return value * factor

    @kernel
    def captured(k: Builder, y: Pointer[U32]) -> None:
        y[0] = scaled(k, y[0])

    device = open_device("emulated")
    device.compile(captured)
    factor = 4
    with pytest.raises(TraceError, match=r"traced with factor = 3, which is 4 now"):
        device.compile(captured)


class Bare:
    """Of the author, without any method that would tell so."""


@dataclass
class Sizes:
    width: int


@dataclass(slots=True)
class Slotted:
    width: int


def by_default(width: int = 2, *, more: int = 0) -> int:
    return width + more


def chained() -> Bare:
    outer = Bare()
    outer.inner = Bare()  # type: ignore[attr-defined]
    outer.inner.width = 2  # type: ignore[attr-defined]
    outer.inner.back = outer  # type: ignore[attr-defined]
    return outer


@pytest.mark.parametrize(
    ("value", "read", "change"),
    [
        (Sizes(2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (Slotted(2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (SimpleNamespace(width=2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (Namespace(width=2), lambda v: v.width, lambda v: setattr(v, "width", 3)),
        (chained(), lambda v: v.inner.width, lambda v: setattr(v.inner, "width", 3)),
        (deque([2]), lambda v: v[0], lambda v: v.append(v.popleft() + 1)),
        (bytearray(b"2"), lambda v: v[0], lambda v: v.__setitem__(0, 3)),
        (array("I", [2]), lambda v: v[0], lambda v: v.__setitem__(0, 3)),
        (by_default, lambda v: v(), lambda v: setattr(v, "__defaults__", (3,))),
        (by_default, lambda v: v(), lambda v: v.__kwdefaults__.update(more=1)),
    ],
)
def test_an_object_that_changes_in_place(
    value: Any, read: Callable[[Any], int], change: Callable[[Any], None]
) -> None:
    @kernel
    def reading(k: Builder, y: Pointer[U32]) -> None:
        y[0] = read(value)

    reading.trace(EIGHT)
    reading.trace(EIGHT)
    change(value)
    with pytest.raises(TraceError, match="the kernel reading was traced with value = "):
        reading.trace(EIGHT)


def test_an_equal_value_in_its_place() -> None:
    value: Any = np.uint32(2)

    @kernel
    def reading(k: Builder, y: Pointer[U32]) -> None:
        y[0] = value if np.ndim(value) == 0 and not isinstance(value, range) else len(value)

    for equal in (lambda: np.uint32(2), lambda: range(2)):
        value = equal()
        again = kernel(reading.function)
        again.trace(EIGHT)
        value = equal()
        again.trace(EIGHT)


def test_what_a_kernel_itself_changes_is_not_held() -> None:
    traces: list[int] = []

    @kernel
    def counted(k: Builder, y: Pointer[U32], *, factor: int) -> None:
        traces.append(factor)
        y[0] = factor

    device = open_device("emulated")
    for factor in (1, 2, 1):
        device.compile(counted, factor=factor)
    assert traces == [1, 2]


def test_looking_up_costs_little() -> None:
    device = open_device("cpu")
    device.compile(reads, lanes=8)
    start = time.perf_counter()
    for _ in range(1000):
        device.compile(reads, lanes=8)
    assert time.perf_counter() - start < 0.2, "more than 200 us a look-up"


def test_files_are_read_for_this(tmp_path: Path) -> None:
    """A kernel of a module that is loaded from a file is looked at, too."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from quod.kernel import *\n@kernel\ndef mine(k: Builder, n: U32) -> None:\n"
        "    with k.if_(n < 3):\n        return\n"
    )
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(TraceError, match=r"mine\.py:5: `return` leaves"):
        names["mine"].trace(EIGHT)
