"""The parameters a kernel stores to: pointers through arithmetic, loops, branches and calls."""

from __future__ import annotations

import pytest

from quod.codegen.pointers import pointer_uses
from quod.kernel import (
    U8,
    U32,
    U64,
    Builder,
    KernelDefinition,
    Pointer,
    Value,
    function,
    kernel,
)
from tests.device import kernels
from tests.kernel.machines import EIGHT, ONE


@kernel
def shifted(k: Builder, n: U32, a: Pointer[U32], b: Pointer[U32]) -> None:
    """Stores through pointers with an offset."""
    place = k.pointer_add(k.pointer_add(b, 4), n)
    place[0] = a[0]


@kernel
def counted(k: Builder, a: Pointer[U32], b: Pointer[U64], c: Pointer[U32]) -> None:
    """Adds atomically to one, stores to another."""
    k.atomic_add(b, 0, 1)
    c[0] = a[0]


@kernel
def walking(k: Builder, n: U32, a: Pointer[U32], b: Pointer[U32]) -> None:
    """A pointer that a loop carries."""
    with k.range(0, n, carry=b) as loop:
        loop.carried[0] = a[loop.index]
        loop.next(k.pointer_add(loop.carried, 1))


@kernel
def swapping(k: Builder, n: U32, a: Pointer[U32], b: Pointer[U32], c: Pointer[U32]) -> None:
    """Two pointers that a loop swaps: after it either may be either."""
    with k.range(0, n, carry=(a, b)) as loop:
        first, second = loop.carried
        loop.next((second, first))
    loop.results[0][0] = c[0]


@kernel
def searching(k: Builder, a: Pointer[U32], b: Pointer[U32]) -> None:
    """A while loop that moves a pointer until it finds a zero, and stores there."""
    with k.while_(a) as loop:
        loop.check(loop.carried[0] != 0)
        loop.next(k.pointer_add(loop.carried, 1))
    loop.results[0] = b[0]


@kernel
def choosing(k: Builder, n: U32, a: Pointer[U32], b: Pointer[U32], c: Pointer[U32]) -> None:
    """A pointer that a branch chooses."""
    with k.if_(n == 0) as branch:
        branch.yield_(a)
    with branch.otherwise():
        branch.yield_(c)
    branch.results[n] = b[0]


@function
def put(k: Builder, place: Value, value: Value) -> None:
    place[0] = value


@function
def further(k: Builder, place: Value) -> Value:
    return k.pointer_add(place, 1)


@kernel
def calling(k: Builder, n: U32, a: Pointer[U32], b: Pointer[U32], c: Pointer[U32]) -> None:
    """A function that stores, at a place that another one gives."""
    put(k, further(k, c), a[0] + b[0])


@function
def put_twice(k: Builder, place: Value, value: Value) -> None:
    put(k, place, value)
    put(k, further(k, place), value)


@kernel
def calling_deeper(k: Builder, n: U32, a: Pointer[U32], b: Pointer[U32]) -> None:
    """A function that calls one that stores."""
    with k.if_(n != 0):
        put_twice(k, b, a[0])


@kernel
def local(k: Builder, n: U32, a: Pointer[U32]) -> None:
    """Stores to shared memory only."""
    from quod.kernel import u32

    memory = k.shared(u32, 8)
    memory[0] = a[0]


@kernel
def narrow(k: Builder, a: Pointer[U8], b: Pointer[U8]) -> None:
    """Bytes."""
    b[0] = a[0]


@pytest.mark.parametrize("machine", [ONE, EIGHT], ids=["one lane", "eight lanes"])
@pytest.mark.parametrize(
    ("definition", "stored", "atomic"),
    [
        (kernels.scale, [3], []),
        (shifted, [2], []),
        (counted, [1, 2], [1]),
        (walking, [2], []),
        (swapping, [1, 2], []),
        (searching, [0], []),
        (choosing, [1, 3], []),
        (calling, [3], []),
        (calling_deeper, [2], []),
        (local, [], []),
        (narrow, [1], []),
    ],
    ids=lambda value: value.name if isinstance(value, KernelDefinition) else "",
)
def test_stored_parameters(
    definition: KernelDefinition, stored: list[int], atomic: list[int], machine: object
) -> None:
    uses = pointer_uses(definition.trace(machine))  # type: ignore[arg-type]
    assert (list(uses.stored), list(uses.atomic)) == (stored, atomic)
