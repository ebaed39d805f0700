"""Mistakes that Python would silently accept: each is an error with its line."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from quod import catalogue
from quod.codegen.rules import Rules
from quod.codegen.targets import emit, emit_registered
from quod.codegen.wgsl.emitter import emit as emit_wgsl
from quod.codegen.wgsl.machine import PORTABLE
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.point import PointArithmetic
from quod.device import open_device
from quod.errors import KernelError
from quod.field.extension import extension_field
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
)
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types  # fmt: skip
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import refuses


def words(numbers: list[int], modulus: Modulus) -> np.ndarray[Any, Any]:
    size = modulus.bytes
    return np.frombuffer(b"".join(n.to_bytes(size, "little") for n in numbers), np.uint64).copy()


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
        "// divides integers, and this is an f32; write / for the quotient (the op div), and "
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
        f = extension_field(k, GROUPS["bn254.g2"].field)
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


def test_comparison_functions_are_accepted() -> None:
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
        (lambda k, f, x: 3.0 * f.load(x, 0), "a float cannot be combined with an element of"),
        (lambda k, f, x: f.load(x, 0) - x[0], "a Value cannot be combined with an element of"),
        (lambda k, f, x: x[0] - f.one(), "beside a value of u64: an element goes with elements"),
        (lambda k, f, x: f.table([f.one(), 2]), "not an Element; store a computed"),
        (lambda k, f, x: f.table([1, 2.5]), "known while the kernel is traced, not 2.5"),
        (lambda k, f, x: f.table(["x"]), "known while the kernel is traced, not 'x'"),
        (lambda k, f, x: f.table([(1, 2)]), r"known while the kernel is traced, not (1, 2)"),
        (lambda k, f, x: f.table([x[0]]), "known while the kernel is traced, not a Value"),
        (lambda k, f, x: f.load(x, 0) ** 5, "an element of bn254.fr has no operator **; write"),
        (lambda k, f, x: f.store(x, 0, x[0]), "a Value is used as an element of bn254.fr"),
        (lambda k, f, x: f.equal(f.load(x, 0), 3), "an int is used as an element of bn254.fr"),
        (lambda k, f, x: x.__setitem__(0, f.load(x, 0)), "field.store(pointer, index, a)"),
        (lambda k, f, x: k.select(x[0] < 1, f.zero(), f.zero()), "write field.select(...)"),
        (
            lambda k, f, x: 3.0 * extension_field(k, GROUPS["bn254.g2"].field).one(),
            "a float cannot be combined with an element of",
        ),
        (lambda k, f, x: x[0] ** 2, "there is no ** of kernel values; write x * x"),
        (lambda k, f, x: 2 ** x[0], "there is no ** of kernel values; write x * x"),
        (lambda k, f, x: divmod(x[0], 3), "there is no divmod of kernel values"),
        (lambda k, f, x: k.exp(x[0]), "k.exp is for f32, not a u64; write value.cast(f32)"),
        (lambda k, f, x: float(x[0]), "use value.cast(f32)"),
        (lambda k, f, x: len(x), "has no length that the kernel knows; take it as a parameter"),
        (lambda k, f, x: k.range(x[0]), "k.range(0, n)"),
        (lambda k, f, x: k.shared(types.u32, x[0]), "the size of shared memory is fixed while"),
    ],
)
def test_unsupported_python_operations_are_rejected(
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
        prime_field(k, BN254_FR).load(x, 0) * 3.0  # here

    def other(k: Builder, x: Pointer[U64]) -> None:
        a, b = prime_field(k, BN254_FR).load(x, 0), prime_field(k, BN254_FQ).load(x, 1)
        prime_field(k, BN254_FR).sum_of_products([(a, b)])  # here

    refuses(
        number, TraceError,
        "a float cannot be combined with an element of bn254.fr; write an int, or "
        "field.load(pointer, index)",
    )  # fmt: skip
    refuses(
        other, TraceError,
        "an element of bn254.fq is used as an element of bn254.fr: the fields, or their "
        "representations in registers, are different",
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

    message = "an exponent is -1, below zero; take field.inverse(a) first"
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
    assert message.endswith("give each with the field's standard bounds, as `field.bounded(x)`")
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
    message = (
        r"^the kernel msm\.accumulate\[bn254\.g1\] is not written for the machine of wgsl "
        r"\(take the target llvm( or \w+)*\): "
    )
    with pytest.raises(KernelError, match=message):
        emit_registered(catalogue.find("msm.accumulate[bn254.g1]"), "wgsl")


def test_kernels_for_unknown_targets_are_rejected() -> None:
    @kernel
    def wrong(k: Builder, n: U32, x: Pointer[U32]) -> None:
        if k.global_id() < n:
            x[0] = 3

    for target in ("ir", "llvm", "ptx", "wgsl"):
        with pytest.raises(KernelError) as caught:
            emit(wrong, target)
        assert str(caught.value).startswith("the kernel wrong cannot be traced: ")


def test_subgroup_ops_in_cpu_texts_are_rejected() -> None:
    @kernel
    def total(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        y[k.global_id()] = k.subgroup_sum(x[k.global_id()])

    for definition in (total, kernel(workgroup=64)(total.function)):
        assert "define" in emit(definition, "llvm")
        assert "subgroup_sum" in emit(definition, "ir")


def test_a_modulus_without_a_value() -> None:
    @kernel
    def one(k: Builder, y: Pointer[U32], *, modulus: Modulus) -> None:
        y[0] = k.constant(modulus.bits, types.u32)

    with pytest.raises(KernelError) as caught:
        emit(one, "ptx")
    assert str(caught.value) == (
        "the kernel one has static parameters without a value: modulus; write a default in its "
        'signature (modulus: Modulus = MODULI["bn254.fr"]), or give the value in Python: '
        'quod.codegen.emit(kernel, modulus=MODULI["bn254.fr"])'
    )


def test_an_op_without_a_rule_names_its_line() -> None:
    @kernel
    def one(k: Builder, n: U32, y: Pointer[U32]) -> None:
        y[0] = n + 1

    (op,) = (op for op in one.trace(EIGHT).block.ops if op.name == "add")
    with pytest.raises(KernelError, match=r"test_silent.*: WGSL has no rule for the op add"):
        Rules[Any]("WGSL", (), {}).of(op)


# --- two fields of one name


def test_moduli_with_equal_names_are_distinguished() -> None:
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
        values = [int.from_bytes(part.tobytes(), "little") for part in out.reshape(-1, 4)]
        expected = []
        for a, b in zip(numbers, others, strict=True):
            for modulus in (first, second):
                p, radix = modulus.value, modulus.montgomery_radix
                unit = pow(radix, -1, p)
                expected += [a * b * unit % p, a * a * unit % p, pow(a, -1, p) * radix**2 % p]
        assert values == expected


# --- static arguments


def test_equal_static_arguments_of_other_types() -> None:
    """Python compares them equal, but kernels may differ."""

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
        words = np.zeros(8, np.uint32)
        for what, length in zip(whats, lengths, strict=True):
            device.launch(device.compile(telling, lanes=8, what=what), 1, words)
            assert words[0] == length
        interpret(calling.trace(EIGHT, whats=whats), 1, [words])
        assert words[: len(whats)].tolist() == lengths


@dataclass(frozen=True)
class Fixed:
    width: int


# --- what is no kernel, or is not used as one


def test_bodies_without_recorded_ops_are_rejected() -> None:
    def gives(k: Builder, y: Pointer[U32]) -> Value:  # here
        return y[0]

    told = "returns a value, which is lost; store it through a pointer instead"
    refuses(gives, TraceError, f"the kernel gives {told}", line="# here")

    def suspends(k: Builder, y: Pointer[U32]) -> Iterator[None]:
        y[0] = 1
        yield

    async def awaits(k: Builder, y: Pointer[U32]) -> None:
        y[0] = 1

    for word, body in (("yield", suspends), ("async", awaits)):
        for decorator in (kernel, function):
            with pytest.raises(TraceError, match=f"`{word}` in {body.__name__} makes a generator"):
                decorator(body)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["cpu", "cpu:checked", "emulated"])
def test_only_kernels_are_compiled_and_launched(name: str) -> None:
    def plain(k: Builder, y: Pointer[U32]) -> None:
        y[0] = 1

    definition, device, words = kernel(plain), open_device(name), np.zeros(8, np.uint32)
    with pytest.raises(KernelError, match="plain is not a kernel; write @kernel above"):
        device.compile(plain)  # type: ignore[arg-type]
    with pytest.raises(KernelError, match=r"plain is not compiled; launch the result of device"):
        device.launch(definition, 1, words)
    with pytest.raises(TraceError, match=r"plain is not called; run it with device\.launch"):
        definition(words)
