"""Selection of the kernel arithmetic for the bases and sums of an MSM."""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.curve.sums.bytecode import keeps_elements
from quod.curve.sums.edwards import EdwardsSums
from quod.curve.sums.forms import Form, SumArithmetic, WeierstrassSums
from quod.curve.sums.packed import PackedEdwardsSums, PackedWeierstrassSums
from quod.kernel.builder.builder import Builder


def sum_arithmetic(
    k: Builder, group: Group, form: Form, *, inlined: bool = False
) -> SumArithmetic[Any]:
    """Return the arithmetic of bases and sums of a form; see `field_arithmetic` for `inlined`."""
    if keeps_elements(k, group):
        return PackedEdwardsSums(k, group) if form == "edwards" else PackedWeierstrassSums(k, group)
    if form == "edwards":
        return EdwardsSums(k, group)
    return WeierstrassSums(k, group, inlined=inlined)
