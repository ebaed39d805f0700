"""Run-time control flow: the objects that `with k.if_`, `k.range` and `k.while_` give."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from quod.kernel.errors import TraceError, current_location
from quod.kernel.ir import Block, Location
from quod.kernel.structure import describe, flatten
from quod.kernel.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder import Builder


class Branch:
    """`with k.if_(condition) as branch:`; give results with `branch.give(...)`.

    A branch that gives results needs the other side too, after it: `with branch.otherwise():` and
    `branch.give(...)`. `branch.results` is then the structure that the side which ran gave.
    """

    def __init__(self, builder: Builder, condition: Value) -> None:
        self._builder = builder
        self._condition = condition
        self._location = current_location()
        self._then: Block | None = None
        self._given: Any = ()
        self._given_at: Location | None = None
        self._results: Any = None
        self._has_both_sides = False
        self.home = builder.innermost

    def __enter__(self) -> Branch:
        self._then = self._builder.open_region(())
        return self

    def give(self, *structures: Any) -> None:
        """The values that this side gives."""
        self._given = structures
        self._given_at = current_location()

    def one_sided(self) -> TraceError:
        """The error of a branch that gave values on one side only."""
        return TraceError(
            "the branch gave values on one side only; add `with branch.otherwise():` with "
            "branch.give(...)",
            self._location,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._builder.abandon_region()
            return
        values, self._key, self._rebuild = flatten(tuple(self._given))
        self._builder.close_region(values, self._given_at)
        assert self._then is not None
        self._types = [value.type for value in values]
        if values:
            self._builder.await_otherwise(self)
        else:
            other = self._builder.open_region(())
            self._builder.close_region(())
            self._builder.record(
                "if", (self._condition,), (), {}, (self._then, other), self._location
            )
            self._operation = self._builder.last_operation()

    def otherwise(self) -> Otherwise:
        """`with branch.otherwise():` runs where the condition does not hold."""
        return Otherwise(self)

    @property
    def results(self) -> Any:
        """What the side that ran gave."""
        if self._results is None:
            if self._has_both_sides or not self._given:
                raise TraceError("the branch gave no values; give them with branch.give(...)")
            raise self.one_sided()
        return self._results if len(self._results) > 1 else self._results[0]


class Otherwise:
    """The other side of a branch."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch

    def __enter__(self) -> None:
        branch = self._branch
        if branch._has_both_sides:
            raise TraceError("a branch has one `otherwise`")
        if branch.home is not branch._builder.innermost:
            raise TraceError("`otherwise` stands in the same region as its branch")
        branch._has_both_sides = True
        branch._given, branch._given_at = (), None
        self._block = branch._builder.open_region(())

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        branch, builder = self._branch, self._branch._builder
        if kind is not None:
            builder.abandon_region()
            return
        values, key, _ = flatten(tuple(branch._given))
        builder.close_region(values, branch._given_at)
        if branch._key != key:
            raise TraceError(
                f"a branch gives {describe(branch._key)} where its condition holds and "
                f"{describe(key)} where it does not",
                branch._given_at,
            )
        assert branch._then is not None
        if not values:
            branch._operation.regions = (branch._then, self._block)
            return
        builder.complete(branch)
        results = builder.record(
            "if", (branch._condition,), branch._types, {}, (branch._then, self._block),
            branch._location,
        )  # fmt: skip
        branch._results = branch._rebuild(results)


class _Loop:
    """What counted and conditional loops share: the carried structure."""

    def __init__(self, builder: Builder, carry: Any) -> None:
        self._builder = builder
        self._location = current_location()
        self._initial, self._key, self._rebuild = flatten(carry)
        self._next: Sequence[Value] | None = () if not self._initial else None
        self._next_at: Location | None = None
        self._results: Any = None

    def next(self, carry: Any) -> None:
        """The carried values of the next iteration."""
        values, key, _ = flatten(carry)
        if self._key != key:
            raise TraceError(
                f"a loop carries {describe(self._key)}, but next gives {describe(key)}"
            )
        self._next = values
        self._next_at = current_location()

    @property
    def results(self) -> Any:
        """The carried values after the last iteration."""
        if self._results is None:
            raise TraceError("a loop has its results after its `with` block", self._location)
        return self._results

    def _close(self) -> None:
        if self._next is None:
            raise TraceError(
                "a loop that carries values must say what comes next: loop.next(...)",
                self._location,
            )
        self._builder.close_region(self._next, self._next_at)


class CountedLoop(_Loop):
    """`with k.range(start, stop, carry=x) as loop:`: `loop.index`, `loop.carried`, `loop.next(x)`.

    The bounds are read once, before the loop; the step is added until the index is not below stop.
    """

    def __init__(self, builder: Builder, bounds: Sequence[Value], carry: Any) -> None:
        super().__init__(builder, carry)
        self._bounds = tuple(bounds)

    def __enter__(self) -> CountedLoop:
        types = [self._bounds[0].type, *(value.type for value in self._initial)]
        self._block = self._builder.open_region(types)
        self.index = self._block.arguments[0]
        self.carried = self._rebuild(self._block.arguments[1:])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._builder.abandon_region()
            return
        self._close()
        results = self._builder.record(
            "for", (*self._bounds, *self._initial), [value.type for value in self._initial],
            {}, (self._block,), self._location,
        )  # fmt: skip
        self._results = self._rebuild(results)


class WhileLoop(_Loop):
    """`with k.while_(x) as loop:`: `loop.carried`, `loop.check(condition)`, `loop.next(x)`.

    Everything before `check` runs once more than what follows it.
    """

    def __enter__(self) -> WhileLoop:
        types = [value.type for value in self._initial]
        self._head = self._builder.open_region(types)
        self.carried = self._rebuild(self._head.arguments)
        self._condition: Value | None = None
        return self

    def check(self, condition: Value) -> None:
        """Leaves the loop unless the condition holds."""
        if self._condition is not None:
            raise TraceError("a loop has one check")
        self._builder.check_condition(condition)
        self._condition = condition
        self._checked_at = current_location()
        self._body = self._builder.open_region(())

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._condition is None:
            self._builder.abandon_region()
            if kind is None:
                raise TraceError("a while loop needs loop.check(condition)", self._location)
            return
        if kind is not None:
            self._builder.abandon_region()
            self._builder.abandon_region()
            return
        self._close()
        self._builder.close_region((self._condition,), self._checked_at)
        results = self._builder.record(
            "while", self._initial, [value.type for value in self._initial],
            {}, (self._head, self._body), self._location,
        )  # fmt: skip
        self._results = self._rebuild(results)
