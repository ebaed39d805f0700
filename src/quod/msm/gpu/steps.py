"""Formulas as loops of products, for compilers that copy what is called to every call.

A product of 381 bits in small limbs is thousands of instructions. Ten of them in a row are more
than a cache of instructions holds, and take a compiler ten times as long. Here each formula is a
loop whose every step is one product, of operands that the number of the step selects:

    target = left * right - less

so the loop holds one product and some moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quod.curve.groups import Group
from quod.curve.point import CoordinateElement
from quod.field.arithmetic import FieldArithmetic
from quod.kernel.builder import Builder
from quod.kernel.value import Value


@dataclass(frozen=True)
class Step:
    """One product: names of the elements that it takes, and of that which it becomes.

    Beside those that the loop carries there are ``nothing``, ``c-x``, and sums with small factors:
    ``a+2c``, ``2c``, ``3d``.
    """

    target: str
    left: str
    right: str
    less: str = "nothing"


_DIFFERENCES = (
    Step("a", "a", "zz", "x"),  # run
    Step("b", "b", "zzz", "y"),  # rise
)

# From the differences on, sums of any two points are alike.
_SUM_BY_DIFFERENCES = (
    Step("c", "a", "a"),
    Step("zz", "zz", "c"),
    Step("a", "a", "c"),
    Step("zzz", "zzz", "a"),
    Step("c", "x", "c"),
    Step("x", "b", "b", "a+2c"),
    Step("a", "y", "a"),
    Step("y", "b", "c-x", "a"),
)

# madd-2008-s of the Explicit-Formulas Database, to x, y, zz, zzz of the affine point (a, b).
_ADD_BASE = (*_DIFFERENCES, *_SUM_BY_DIFFERENCES)

# add-2008-s, to x, y, zz, zzz of the point a, b, c, d.
_ADD = (
    Step("x", "x", "c"),
    Step("y", "y", "d"),
    *_DIFFERENCES,
    Step("zz", "zz", "c"),
    Step("zzz", "zzz", "d"),
    *_SUM_BY_DIFFERENCES,
)

# dbl-2008-s-1 on a curve with a = 0, where the element a is 2y.
_DOUBLE = (
    Step("b", "a", "a"),
    Step("zz", "zz", "b"),
    Step("a", "a", "b"),
    Step("zzz", "zzz", "a"),
    Step("c", "x", "b"),
    Step("d", "x", "x"),
    Step("x", "3d", "3d", "2c"),
    Step("a", "y", "a"),
    Step("y", "3d", "c-x", "a"),
)

Held = dict[str, CoordinateElement]


def suit(k: Builder) -> bool:
    """Whether formulas should be loops: compilers of WGSL copy functions."""
    return k.machine.target == "wgsl"


def suit_doubling(k: Builder, group: Group) -> bool:
    """Whether `double` should be taken for a group's points, which are on a curve with a = 0."""
    a = group.parameters.a
    return suit(k) and not any(a if isinstance(a, tuple) else (a,))


def add_base(
    k: Builder,
    f: FieldArithmetic[Any],
    total: Sequence[CoordinateElement],
    x: CoordinateElement,
    y: CoordinateElement,
) -> tuple[CoordinateElement, ...]:
    """The XYZZ coordinates of a sum and the point (x, y): zeros for ZZ if their x are equal."""
    elements = dict(zip(("x", "y", "zz", "zzz"), total, strict=True)) | {"a": x, "b": y, "c": x}
    held = _run(k, f, _ADD_BASE, elements)
    return tuple(held[name] for name in ("x", "y", "zz", "zzz"))


def add(
    k: Builder,
    f: FieldArithmetic[Any],
    p: Sequence[CoordinateElement],
    q: Sequence[CoordinateElement],
) -> tuple[tuple[CoordinateElement, ...], CoordinateElement]:
    """The XYZZ coordinates of the sum of finite points, and the rise between them.

    ZZ is zero if their x are equal; then the rise tells whether they are the same point.
    """
    names = ("x", "y", "zz", "zzz", "a", "b", "c", "d")
    held = _run(k, f, _ADD, dict(zip(names, (*p, *q), strict=True)))
    return tuple(held[name] for name in names[:4]), held["b"]


def double(
    k: Builder, f: FieldArithmetic[Any], p: Sequence[CoordinateElement]
) -> tuple[CoordinateElement, ...]:
    """The XYZZ coordinates of twice a point of a curve with a = 0."""
    x, y, zz, zzz = p
    elements = {"x": x, "y": y, "zz": zz, "zzz": zzz, "a": y + y, "b": x, "c": x, "d": x}
    held = _run(k, f, _DOUBLE, elements)
    return tuple(held[name] for name in ("x", "y", "zz", "zzz"))


def _run(
    k: Builder, f: FieldArithmetic[Any], program: Sequence[Step], elements: Held
) -> Held:  # fmt: skip
    """The elements that the steps leave."""
    names = tuple(elements)
    targets = [step.target for step in program]
    start = tuple(f.carried_many(list(elements.values())))
    with k.range(0, len(program), carry=start) as loop:
        held = dict(zip(names, loop.carried, strict=True))
        left, right, less = (
            _picked(k, f, loop.index, held, [getattr(step, part) for step in program])
            for part in ("left", "right", "less")
        )
        made = f.carried(left * right - less)
        loop.next(
            tuple(
                f.select(_is_any(loop.index, name, targets), made, held[name])
                if name in targets
                else held[name]
                for name in names
            )
        )
    return dict(zip(names, loop.results, strict=True))


def _is_any(index: Value, name: str, names: Sequence[str]) -> Value:
    """Whether the index is that of the name in some place."""
    mask = sum(1 << place for place, other in enumerate(names) if other == name)
    return index.builder.constant(mask, index.type) >> index & 1 != 0


def _element(f: FieldArithmetic[Any], held: Held, name: str) -> CoordinateElement:
    """An element that a step names."""
    match name:
        case "nothing":
            return f.carried(f.zero())
        case "a+2c":
            return f.carried(held["a"] + held["c"] + held["c"])
        case "c-x":
            return f.carried(held["c"] - held["x"])
        case "2c":
            return f.carried(held["c"] + held["c"])
        case "3d":
            return f.carried(held["d"] + held["d"] + held["d"])
    return held[name]


def _picked(
    k: Builder, f: FieldArithmetic[Any], index: Value, held: Held, names: Sequence[str]
) -> CoordinateElement:
    """The element whose name has the place `index`."""
    most = max(dict.fromkeys(names), key=names.count)
    chosen = _element(f, held, most)
    for name in dict.fromkeys(names):
        if name != most:
            with k.if_(_is_any(index, name, names)) as branch:
                branch.give(_element(f, held, name))
            with branch.otherwise():
                branch.give(chosen)
            chosen = branch.results
    return chosen
