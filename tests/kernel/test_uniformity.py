"""Values that the analysis finds to differ between instances."""

from __future__ import annotations

from quod.kernel import U32, Builder, Kernel, Pointer, Value, function, kernel
from quod.kernel.ir.nodes import walk
from quod.kernel.verifier.uniformity import Uniformity
from tests.kernel.machines import EIGHT


def stored_kinds(traced: Kernel, *, trust_loads: bool) -> list[bool]:
    """Return, for each store of the kernel's own body in order, whether its value varies."""
    uniformity = Uniformity((), trust_loads=trust_loads)
    uniformity.visit(traced.block)
    stores = [op for op in walk(traced.block) if op.name == "store"]
    return [uniformity.is_varying(op.operands[2]) for op in stores]


def test_sources_of_non_uniform_values() -> None:
    @kernel
    def sources(k: Builder, n: U32, x: Pointer[U32]) -> None:
        for value in (
            n,
            k.workgroup_id() + k.num_workgroups(),
            k.local_id(),
            k.local_id() * 0 + n,
            k.select(k.local_id() < 3, n, n + 1),
            x[n],
            x[k.local_id()],
            k.pointer_add(x, k.local_id())[0],
            k.atomic_add(x, 0, 1),
        ):
            x[0] = value

    common = [False, False, True, False, True]
    traced = sources.trace(EIGHT)
    assert stored_kinds(traced, trust_loads=True) == [*common, False, True, True, True]
    assert stored_kinds(traced, trust_loads=False) == [*common, True, True, True, True]


def test_branches_and_loops() -> None:
    @kernel
    def regions(k: Builder, n: U32, x: Pointer[U32]) -> None:
        i = k.local_id()
        for condition in (n < 3, i < 3):
            with k.if_(condition) as branch:
                branch.yield_(n, n)
            with branch.otherwise():
                branch.yield_(n, i)
            x[0], x[1] = branch.results
        for stop in (n, i):
            with k.range(0, stop, carry=n) as loop:
                x[2] = loop.index
                loop.next(loop.carried + 1)
            x[3] = loop.results
        with k.range(0, n, carry=(n, n, n)) as loop:
            a, b, c = loop.carried
            # What varies moves from one carried value to the next, a round each.
            x[4] = a
            loop.next((b, c, i))
        with k.while_(n) as turns:
            turns.check(turns.carried < i)
            turns.next(turns.carried + 1)
        x[5] = turns.results
        with k.while_(n) as turns:
            turns.check(turns.carried < 7)
            turns.next(turns.carried + 1)
        x[6] = turns.results

    assert stored_kinds(regions.trace(EIGHT), trust_loads=True) == [
        False, True, True, True,  # branches
        False, False, True, True,  # loops with uniform and varying bounds
        True, True, False,
    ]  # fmt: skip


def test_calls_are_analysed_per_argument_uniformity() -> None:
    @function
    def both(k: Builder, a: Value, b: Value) -> tuple[Value, Value]:
        return a + b, b * 3

    @kernel
    def calls(k: Builder, n: U32, x: Pointer[U32]) -> None:
        i = k.local_id()
        for a, b in ((n, n), (i, n), (n, i)):
            x[0], x[1] = both(k, a, b)

    traced = calls.trace(EIGHT)
    assert len(traced.functions) == 1
    varying = stored_kinds(traced, trust_loads=True)
    assert varying == [False, False, True, False, True, True]


def test_nested_calls_are_analysed_once_for_each_pattern() -> None:
    """A tower of functions, each calling the one below four times, must not take 4**30 visits."""

    def level(depth: int) -> object:
        def body(k: Builder, a: Value) -> Value:
            if depth == 0:
                return a + 1
            for _ in range(4):
                a = k.call(f"level{depth - 1}", level(depth - 1), a, key=depth - 1)  # type: ignore[arg-type]
            return a

        return body

    @kernel
    def tower(k: Builder, x: Pointer[U32]) -> None:
        x[0] = k.call("level30", level(30), x[0] + k.local_id(), key=30)  # type: ignore[arg-type]

    traced = tower.trace(EIGHT)
    assert len(traced.functions) == 31
    assert stored_kinds(traced, trust_loads=True) == [True]
