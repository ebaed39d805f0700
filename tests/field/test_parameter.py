"""Field elements as parameters of kernels, and the operators of elements with ints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.field import Element, ElementOf, FieldSpec, Modulus, from_integers, to_integers
from quod.field.any_field import field_arithmetic
from quod.field.extension import ExtensionElement
from quod.field.moduli import BN254_FQ, BN254_FR, GOLDILOCKS, M31
from quod.kernel import U32, U64, Builder, Pointer, TraceError, kernel
from tests.conftest import open_for_test
from tests.kernel.refusals import refuses
from tests.support.devices import present

Q2 = CURVES["bn254"].tower.fq2
SMALL = Modulus("small", 17)

DEVICES = present(
    "ifma",
    "avx2",
    "neon",
    "scalar",
    "cpu:checked",
    "emulated:ptx",
    "emulated:wgsl",
    "cuda",
    "webgpu",
)


@pytest.fixture(scope="module", params=DEVICES)
def some_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as opened:
        yield opened


@kernel
def fold(
    k: Builder, n: U32, r: Annotated[Element, ElementOf("modulus")], x: Pointer[U32],
    shift: U64, *, modulus: Modulus,
) -> None:  # fmt: skip
    """x[i] = x[i] + r * (x[n + i] - x[i]) + shift, for i below n."""
    f, i = field_arithmetic(k, modulus), k.global_id()
    with k.if_(i < n):
        low, high = f.load(x, i), f.load(x, n + i)
        moved = low + r * (high - low)
        with k.if_(shift != 0) as branch:
            branch.yield_(f.bounded(moved + 1))
        with branch.otherwise():
            branch.yield_(f.bounded(moved))
        f.store(x, i, branch.results)


@pytest.mark.parametrize("modulus", [SMALL, M31, GOLDILOCKS, BN254_FR], ids=lambda m: m.name)
def test_an_element_by_value(some_device: AnyDevice, modulus: Modulus) -> None:
    p, n = modulus.value, 5
    a, b = [0, 1, p - 1, p // 2, 3], [p - 1, p - 1, 1, 5, 3]
    folded = fold.on(some_device, modulus=modulus)
    for r in (0, 1, p - 1, p // 3, 2):
        table = from_integers(modulus, a + b)
        folded(n, r, table, r % 2)
        expected = [(x + r * (y - x) + r % 2) % p for x, y in zip(a, b, strict=True)]
        assert to_integers(modulus, table)[:n] == expected
    stream = some_device.stream().record()
    table = from_integers(modulus, a + b)
    on_device = some_device.upload(table)
    stream.launch(folded.kernel, folded.groups(n), n, p - 2, on_device, 0)
    stream.download(on_device, table)
    stream.finish().submit().wait()
    expected = [(x - 2 * (y - x)) % p for x, y in zip(a, b, strict=True)]
    assert to_integers(modulus, table)[:n] == expected


@kernel
def power_sum(
    k: Builder, r: Annotated[ExtensionElement, ElementOf(Q2)], r_0: U32, out: Pointer[U64]
) -> None:
    """out[i] = (r + r_0) * r, where a slot would have the name of another parameter."""
    f = field_arithmetic(k, Q2)
    with k.if_(k.global_id() == 0):
        with k.range(0, r_0, carry=f.bounded(r)) as loop:
            loop.next(f.bounded(loop.carried + 1))
        f.store(out, 0, loop.results * r)


def test_an_element_of_an_extension(some_device: AnyDevice) -> None:
    p = BN254_FQ.value
    out = np.zeros((2, 8), np.uint32)
    compiled = some_device.compile(power_sum)
    assert list(compiled.parameters) == ["r", "r_0", "out"]
    assert len(compiled.slots) == 10
    assert "r: bn254.fq2" in repr(compiled)
    a, b = p - 5, 7
    some_device.launch(compiled, 1, (a, b), 3, out)
    assert to_integers(BN254_FQ, out) == [((a + 3) * a - b * b) % p, (b * a + (a + 3) * b) % p]


def test_invalid_arguments_are_rejected() -> None:
    with open_device("cpu") as device:
        folded, table = fold.on(device, modulus=M31), np.zeros((2, 1), np.uint32)
        shown = "argument r of kernel fold is an element of m31, an int from 0 to the modulus less"
        for wrong in (-1, M31.value, 1.0, True, "1", table, None):
            with pytest.raises(DeviceError, match=shown):
                folded(1, wrong, table, 0)
        with pytest.raises(DeviceError, match="missing: shift"):
            folded(1, 5, table)
        with pytest.raises(DeviceError, match=r"takes 4 arguments \(n, r, x, shift\), not 3"):
            device.launch(folded.kernel, 1, 1, 5, table)
        squared = device.compile(power_sum)
        shown = r"argument r of kernel power_sum is an element of bn254.fq2: 2 ints"
        for wrong in (1, (1,), (1, 2, 3)):
            with pytest.raises(DeviceError, match=shown):
                device.launch(squared, 1, wrong, 3, np.zeros(16, np.uint32))
        with pytest.raises(DeviceError, match="an int from 0 to the modulus less one, not -1"):
            device.launch(squared, 1, (1, -1), 3, np.zeros(16, np.uint32))
        assert folded.kernel.size_class(1, (1, 5, table, 0)) == (1, 1, 0)


def test_invalid_fields_are_rejected() -> None:
    with pytest.raises(TraceError, match="parameter r is a field element, but its static "):
        fold.trace(open_device("cpu").machine(8), modulus=17)

    def pointing(k: Builder, x: Pointer[Annotated[Any, ElementOf(M31)]]) -> None: ...

    with pytest.raises(TraceError, match="which is not a kernel type; use U32"):
        kernel(pointing)


# --- operators


@kernel
def expressions(k: Builder, x: Pointer[U64], y: Pointer[U64], *, spec: FieldSpec) -> None:
    """Results of Python's operators of elements and ints, one after the other."""
    f = field_arithmetic(k, spec)
    a, b = f.load(x, 0), f.load(x, 1)
    results = [
        a * 2, 3 * a, a * -16, a * 17, 12345678901234567890 * a, a * 0, a + 1, 1 + a, a - 5, 5 - a,
        a + -7, a / b, 1 / a, 5 / b, a / 7, a / (b - b), 3 / (a - a),
    ]  # fmt: skip
    for at, value in enumerate(results):
        f.store(y, at, value)


COUNT = 17


@pytest.mark.parametrize(
    ("name", "modulus"),
    [
        ("cpu", BN254_FR), ("cpu", GOLDILOCKS), ("emulated:ptx", GOLDILOCKS),
        ("emulated:wgsl", GOLDILOCKS),
    ],
)  # fmt: skip
def test_int_operands_with_elements(name: str, modulus: Modulus) -> None:
    p = modulus.value
    a, b = p - 3, p // 5
    out = np.zeros((COUNT, modulus.words), np.uint32)
    with open_device(name) as device:
        compiled = device.compile(expressions, lanes=1, spec=modulus)
        device.launch(compiled, 1, from_integers(modulus, [a, b]), out)
    assert to_integers(modulus, out) == [n % p for n in (
        a * 2, 3 * a, a * -16, a * 17, 12345678901234567890 * a, 0, a + 1, 1 + a, a - 5, 5 - a,
        a - 7, a * pow(b, -1, p), pow(a, -1, p), 5 * pow(b, -1, p), a * pow(7, -1, p), 0, 0,
    )]  # fmt: skip


def test_int_operands_with_extension_elements() -> None:
    p = BN254_FQ.value

    def product(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
        return (x[0] * y[0] - x[1] * y[1]) % p, (x[0] * y[1] + x[1] * y[0]) % p

    def inverse(x: tuple[int, int]) -> tuple[int, int]:
        norm = pow(x[0] * x[0] + x[1] * x[1], -1, p)
        return x[0] * norm % p, -x[1] * norm % p

    def scaled(x: tuple[int, int], n: int) -> tuple[int, int]:
        return x[0] * n % p, x[1] * n % p

    a, b = (p - 3, 4), (p // 5, p - 1)
    large = 12345678901234567890
    expected = [scaled(a, n) for n in (2, 3, -16, 17, large, 0)]
    expected += [((a[0] + n) % p, a[1]) for n in (1, 1, -5)]
    expected += [((5 - a[0]) % p, -a[1] % p), ((a[0] - 7) % p, a[1])]
    expected += [product(a, inverse(b)), inverse(a), scaled(inverse(b), 5)]
    expected += [scaled(a, pow(7, -1, p)), (0, 0), (0, 0)]
    out = np.zeros((2 * COUNT, 8), np.uint32)
    with open_device("cpu") as device:
        compiled = device.compile(expressions, lanes=1, spec=Q2)
        device.launch(compiled, 1, from_integers(BN254_FQ, [*a, *b]), out)
    results = to_integers(BN254_FQ, out)
    assert list(zip(results[::2], results[1::2], strict=True)) == expected


def test_invalid_operands_with_elements_are_rejected() -> None:
    shown = "cannot be combined with an element of m31; write an int, or field.load(pointer, index)"
    field = M31

    def a_float(k: Builder, x: Pointer[U32]) -> None:
        _ = 1.5 * field_arithmetic(k, field).load(x, 0)  # here

    def a_bool(k: Builder, x: Pointer[U32]) -> None:
        _ = field_arithmetic(k, field).load(x, 0) + True  # here

    def a_value(k: Builder, x: Pointer[U32]) -> None:
        _ = field_arithmetic(k, field).load(x, 0) / x[0]  # here

    def by_zero(k: Builder, x: Pointer[U32]) -> None:
        _ = field_arithmetic(k, field).load(x, 0) / (2 * M31.value)  # here

    refuses(a_float, TraceError, f"a float {shown}")
    refuses(a_bool, TraceError, f"a bool {shown}")
    refuses(a_value, TraceError, f"a Value {shown}")
    refuses(
        by_zero, TraceError, "an element of m31 is divided by 4294967294, which is 0 in the field"
    )
