"""Kernels print and assert on devices that check; neither costs anything elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE
from quod.device import open_device
from quod.errors import KernelError
from quod.field import NAMED, prime_field
from quod.frozen import replace
from quod.kernel import (
    U32,
    AssertionFailure,
    Builder,
    KernelDefinition,
    Machine,
    Pointer,
    TraceError,
    Value,
    function,
    kernel,
)
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import line_of, refuses

CHECKING = replace(EIGHT, features=EIGHT.features | {"checks"})


@kernel
def halve(k: Builder, n: U32, x: Pointer[U32]) -> None:
    """Halves even numbers."""
    i = k.global_id()

    @function
    def half(k: Builder, value: Value) -> Value:
        k.assert_(value % 2 == 0, "an odd number")  # the assertion
        return value // 2

    with k.if_(i < n):
        k.print("before", x[i], i == 2)  # the print
        x[i] = half(k, x[i])


@kernel
def plain(k: Builder, n: U32, x: Pointer[U32]) -> None:
    i = k.global_id()

    @function
    def half(k: Builder, value: Value) -> Value:
        return value // 2

    with k.if_(i < n):
        x[i] = half(k, x[i])


def test_a_checked_device(capsys: pytest.CaptureFixture[str]) -> None:
    with open_device("cpu:checked") as device:
        x = np.array([4, 2, 8], np.uint32)
        halve.on(device, lanes=2)(3, x)
        assert x.tolist() == [2, 1, 4]
        place = f"{__file__}:{line_of(halve, '# the print')}"
        assert capsys.readouterr().out.splitlines() == [
            f"{place}: instance {at % 2} of workgroup {at // 2}: before {value} {at == 2}"
            for at, value in enumerate([4, 2, 8])
        ]
        with pytest.raises(AssertionFailure) as caught:
            halve.on(device, lanes=2)(3, x)
    place = f"{__file__}:{line_of(halve, '# the assertion')}"
    assert str(caught.value) == f"{place}: an odd number (instance 1 of workgroup 0)"
    assert isinstance(caught.value, KernelError)


def test_items_are_printed_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def several(k: Builder, n: U32, x: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i < n):
            k.print(i, "of", n, "{is}", x[i], "{}")
            k.print()
            k.assert_(x[i] < 9)

    message = r": this does not hold \(instance 1 of work"
    with (
        open_device("cpu:checked") as device,
        pytest.raises(AssertionFailure, match=message),
    ):
        several.on(device, lanes=2)(2, np.array([7, 9], np.uint32))
    printed = [line.rpartition("group 0: ")[2] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["0 of 2 {is} 7 {}", "1 of 2 {is} 9 {}", "", ""]
    traced = several.trace(CHECKING)
    assert to_text(parse(to_text(traced))) == to_text(traced)
    for wrong in ("{} of {} {{is}}", "{} of {} {{is}} {} {{}} {}", "{} of {} {is} {} {{}}"):
        with pytest.raises(KernelError, match=r"a \{\} for each of its numbers"):
            verify(parse(to_text(traced).replace("{} of {} {{is}} {} {{}}", wrong)))


@pytest.mark.parametrize("name", ["cpu", "emulated", "emulated:ptx", "emulated:wgsl"])
def test_other_devices_ignore_checks(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_device(name) as device:
        x = np.array([5, 2], np.uint32)
        halve.on(device, lanes=8)(2, x)
        assert x.tolist() == [2, 1]
    assert capsys.readouterr().out == ""


def without_names(definition: KernelDefinition, machine: Machine) -> str:
    return to_text(definition.trace(machine)).replace(definition.name, "kernel")


def test_checks_emit_nothing_on_other_devices() -> None:
    for machine in (EIGHT, ptx_machine(32), PORTABLE.machine(8)):
        assert without_names(halve, machine) == without_names(plain, machine)
    assert without_names(halve, CHECKING) != without_names(plain, CHECKING)


def test_text_and_targets() -> None:
    traced = halve.trace(CHECKING)
    assert "print %" in to_text(traced)
    assert to_text(parse(to_text(traced))) == to_text(traced)
    for machine, emit in ((ptx_machine(32), ptx.emit), (PORTABLE.machine(8), wgsl.emit)):
        checking = replace(machine, features=machine.features | {"checks"})
        assert emit(halve.trace(checking), checking).splitlines()[1:]


def test_invalid_checks_are_rejected() -> None:
    def element(k: Builder, x: Pointer[U32]) -> None:
        k.print("x", 3)  # type: ignore[arg-type]  # here

    def pointer(k: Builder, x: Pointer[U32]) -> None:
        k.print(x)  # here

    def known(k: Builder, x: Pointer[U32]) -> None:
        k.assert_(True, "no")  # type: ignore[arg-type]  # here

    def silent(k: Builder, x: Pointer[U32]) -> None:
        k.assert_(x[0] == 0, 5)  # type: ignore[arg-type]  # here

    def shown(k: Builder, x: Pointer[U32]) -> None:
        k.print(f"x is {x[0]}")  # here

    def shown_element(k: Builder, x: Pointer[U32]) -> None:
        k.print(f"{prime_field(k, NAMED['m31']).load(x, 0)}")  # here

    def told(k: Builder, x: Pointer[U32]) -> None:
        k.assert_(x[0] == 0, f"not 0 but {x[0]}")  # here

    in_text = "a text has a kernel value in it, which is no number yet while the kernel is traced; "
    item = in_text + "give the value as an item of its own: k.print('x is', x)"
    words = "for a field element print *field.to_words(a)"
    for body, message in (
        (element, f"k.print takes texts and kernel values, not an int; {words}"),
        (pointer, f"k.print takes texts and kernel values, not a Value; {words}"),
        (shown, item),
        (shown_element, item),
        (told, in_text + "k.print shows values: k.print('x is', x)"),
        (known, "this condition is a Python value, known while the kernel is traced; use `if`"),
        (silent, "k.assert_ takes a condition and a text that says what is wrong"),
    ):
        refuses(body, TraceError, message)
