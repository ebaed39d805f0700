"""Run-time control flow: the context managers that `k.if_`, `k.range` and `k.while_` return."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, NoReturn, Protocol

from quod.kernel.builder.structure import describe, flatten, remedy
from quod.kernel.errors import OWN_FILES, TraceError, an, is_library
from quod.kernel.ir.nodes import Block, Location, Op
from quod.kernel.ir.types import Type, bool_
from quod.kernel.ir.value import Value


class Regions(Protocol):
    """The tracer's interface for control flow; see `quod.kernel.builder.tracer.Tracer`."""

    @property
    def locate(self) -> Callable[[], Location]: ...
    @property
    def innermost(self) -> Block: ...

    def record(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        attributes: dict[str, Any] | None = None,
        regions: tuple[Block, ...] = (),
        location: Location | None = None,
    ) -> tuple[Value, ...]: ...

    def open_region(self, argument_types: Sequence[Type]) -> Block: ...

    def close_region(self, values: Sequence[Value], location: Location | None = None) -> None: ...

    def abandon_region(self) -> None: ...

    def note_abandoned(self, error: TraceError) -> None: ...

    def last_operation(self) -> Op: ...

    def await_entry(self, form: Form) -> None: ...

    def enter(self, form: Form) -> None: ...

    def await_otherwise(self, branch: Branch) -> None: ...

    def complete(self, branch: Branch) -> None: ...


def check_condition(condition: Value) -> None:
    """Raise TraceError unless the condition is a kernel value of type bool."""
    if not isinstance(condition, Value):
        raise TraceError(
            "this condition is a Python value, known while the kernel is traced; use `if`"
        )
    if condition.type is not bool_:
        raise TraceError(f"a condition is a bool, not {an(condition.type)}; write x != 0")


class Form(ABC):
    """The context manager of a control-flow form, entered exactly once by a `with` statement."""

    spelling: ClassVar[str]

    def __init__(self, tracer: Regions) -> None:
        self._tracer = tracer
        self._location = tracer.locate()
        self._region: Block | None = None
        self._is_entered = False
        tracer.await_entry(self)

    @abstractmethod
    def _begin(self) -> None:
        """Open the region."""

    def _enter(self) -> None:
        if self._is_entered:
            raise TraceError(f"`with {self.spelling}` was entered twice; write another one")
        self._check_leaving()
        self._is_entered = True
        self._tracer.enter(self)
        self._begin()

    def _check_leaving(self) -> None:
        # The frame of the `with` statement; this method, `_enter` and `__enter__` are below it.
        frame = sys._getframe(3)
        # A test checks Quod's own sources once.
        if frame.f_code.co_filename.startswith(OWN_FILES):
            return
        from quod.kernel.builder.early_exit import check_leaving

        check_leaving(frame)

    def never_entered(self) -> TraceError:
        """Return the error for a form created without a `with` statement."""
        return TraceError(
            f"the result of {self.spelling.partition('(')[0]} was never entered, so it has no "
            f"effect; write `with {self.spelling}:`",
            self._location,
        )

    def _abandon(self, error: type[BaseException], regions: int = 1) -> None:
        """Discard the form's regions after an exception in user code."""
        for _ in range(regions):
            self._tracer.abandon_region()
        self._tracer.note_abandoned(
            TraceError(
                f"{error.__name__} left the region of `with {self.spelling}` and was caught "
                "outside, so the kernel lacks the region; catch it inside the region, or not at "
                "all",
                self._location,
            )
        )

    def __bool__(self) -> NoReturn:
        raise self.never_entered()

    def __iter__(self) -> NoReturn:
        raise self.never_entered()

    def _check_place(self, what: str) -> None:
        """Raise TraceError unless the innermost region is the form's own."""
        if not self._is_entered:
            raise self.never_entered()
        if self._region is not self._tracer.innermost:
            raise TraceError(
                f"{what} must be directly in the region of its own `with`, neither in a nested "
                "region nor after the `with`"
            )


class Branch(Form):
    """`with k.if_(condition) as branch:`; give results with `branch.yield_(...)`.

    A branch with results also needs the other side, right after it: `with branch.otherwise():` and
    `branch.yield_(...)`. `branch.results` is then the structure given by the side taken.
    """

    spelling = "k.if_(condition)"

    def __init__(self, tracer: Regions, condition: Value) -> None:
        super().__init__(tracer)
        self._condition = condition
        self._then: Block | None = None
        self._yielded: Any = None
        self._yielded_at: Location | None = None
        self._results: Any = None
        self._has_both_sides = False
        self._ops_before_otherwise = 0
        self.home = tracer.innermost
        """The region that contains the branch."""

    def __enter__(self) -> Branch:
        self._enter()
        return self

    def _begin(self) -> None:
        self._region = self._then = self._tracer.open_region(())

    def yield_(self, *structures: Any) -> None:
        """Set the results of this side."""
        self._check_place("branch.yield_(...)")
        if self._yielded is not None:
            raise TraceError("branch.yield_(...) was called twice on one side of a branch")
        self._yielded = structures
        self._yielded_at = self._tracer.locate()

    def one_sided(self) -> TraceError:
        """Return the error for a branch with results on one side only."""
        return TraceError(
            "the branch has values on one side only; add `with branch.otherwise():` with "
            "branch.yield_(...)",
            self._location,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._region = None
        if kind is not None:
            self._abandon(kind)
            return
        values, self._key, self._rebuild = flatten(tuple(self._yielded or ()))
        self._tracer.close_region(values, self._yielded_at)
        assert self._then is not None
        self._types = [value.type for value in values]
        if values:
            self._tracer.await_otherwise(self)
        else:
            other = self._tracer.open_region(())
            self._tracer.close_region(())
            self._tracer.record(
                "if", (self._condition,), (), {}, (self._then, other), self._location
            )
            self._operation = self._tracer.last_operation()
        self._ops_before_otherwise = len(self.home.ops)

    def otherwise(self) -> Otherwise:
        """Run a region where the condition is false: `with branch.otherwise():`."""
        return Otherwise(self)

    @property
    def results(self) -> Any:
        """The results of the side taken."""
        if self._results is None:
            if not self._is_entered:
                raise self.never_entered()
            if self._has_both_sides or not self._yielded:
                raise TraceError("the branch has no results; set them by branch.yield_(...)")
            raise self.one_sided()
        return self._results if len(self._results) > 1 else self._results[0]


class Otherwise(Form):
    """The other side of a branch."""

    spelling = "branch.otherwise()"

    def __init__(self, branch: Branch) -> None:
        super().__init__(branch._tracer)
        self._branch = branch

    def __enter__(self) -> None:
        self._enter()

    def _begin(self) -> None:
        branch = self._branch
        if branch._has_both_sides:
            raise TraceError("a branch can have only one `otherwise`")
        if branch._then is None:
            raise branch.never_entered()
        if branch.home is not branch._tracer.innermost:
            raise TraceError("`otherwise` must be in the same region as its branch")
        self._check_between()
        branch._has_both_sides = True
        branch._yielded, branch._yielded_at = None, None
        self._block = branch._tracer.open_region(())
        branch._region = self._block

    def _check_between(self) -> None:
        """Raise TraceError for an effect between the sides, which the branch would reorder."""
        from quod.kernel.ir.passes import only_computes

        for op in self._branch.home.ops[self._branch._ops_before_otherwise :]:
            if not only_computes(op):
                raise TraceError(
                    f"{an(op.name)} is between a branch and its `otherwise`, and would run before "
                    "or after both sides; move it before the branch or after `otherwise`",
                    None if is_library(op.location.file) else op.location,
                )

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        branch, tracer = self._branch, self._branch._tracer
        branch._region = None
        if kind is not None:
            self._abandon(kind)
            return
        values, key, _ = flatten(tuple(branch._yielded or ()))
        tracer.close_region(values, branch._yielded_at)
        if branch._key != key:
            raise TraceError(
                f"a branch gives {describe(branch._key)} where its condition holds and "
                f"{describe(key)} where it does not{remedy(branch._key, key)}",
                branch._yielded_at,
            )
        assert branch._then is not None
        if not values:
            branch._operation.regions = (branch._then, self._block)
            # The other side may use pure ops recorded after the branch, so the branch moves behind
            # them.
            if branch.home.ops[-1] is not branch._operation:
                branch.home.ops.remove(branch._operation)
                branch.home.ops.append(branch._operation)
            return
        tracer.complete(branch)
        results = tracer.record(
            "if", (branch._condition,), branch._types, {}, (branch._then, self._block),
            branch._location,
        )  # fmt: skip
        branch._results = branch._rebuild(results)


class _Loop(Form):
    """The carried structure of counted and conditional loops."""

    def __init__(self, tracer: Regions, carry: Any) -> None:
        super().__init__(tracer)
        self._initial, self._key, self._rebuild = flatten(carry)
        self._next: Sequence[Value] | None = () if not self._initial else None
        self._next_at: Location | None = None
        self._results: Any = None

    def next(self, carry: Any) -> None:
        """Set the carried values of the next iteration."""
        self._check_place("loop.next(...)")
        if self._next_at is not None:
            raise TraceError("loop.next(...) was called twice in a loop")
        values, key, _ = flatten(carry)
        if self._key != key:
            raise TraceError(
                f"a loop carries {describe(self._key)}, but next gives {describe(key)}"
                f"{remedy(self._key, key)}"
            )
        self._next = values
        self._next_at = self._tracer.locate()

    @property
    def results(self) -> Any:
        """The carried values after the last iteration."""
        if self._results is None:
            if not self._is_entered:
                raise self.never_entered()
            raise TraceError(
                "loop.results is available only after the `with` block", self._location
            )
        return self._results

    def __getattr__(self, name: str) -> NoReturn:
        # These attributes exist once the loop has been entered.
        if name in ("carried", "index") and not self._is_entered:
            raise self.never_entered()
        raise AttributeError(f"{an(type(self).__name__)} has no {name}")

    def _close(self) -> None:
        self._region = None
        if self._next is None:
            raise TraceError(
                "a loop that carries values must set their next values by loop.next(...)",
                self._location,
            )
        self._tracer.close_region(self._next, self._next_at)


class CountedLoop(_Loop):
    """`with k.range(start, stop, carry=x) as loop:`: `loop.index`, `loop.carried`, `loop.next(x)`.

    The bounds are read once, before the loop, which ends when the index reaches or passes stop.
    """

    spelling = "k.range(start, stop) as loop"

    def __init__(self, tracer: Regions, bounds: Sequence[Value], carry: Any) -> None:
        super().__init__(tracer, carry)
        self._bounds = tuple(bounds)

    def __enter__(self) -> CountedLoop:
        self._enter()
        return self

    def _begin(self) -> None:
        types = [self._bounds[0].type, *(value.type for value in self._initial)]
        self._region = self._block = self._tracer.open_region(types)
        self.index = self._block.arguments[0]
        self.carried = self._rebuild(self._block.arguments[1:])

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon(kind)
            return
        self._close()
        results = self._tracer.record(
            "for", (*self._bounds, *self._initial), [value.type for value in self._initial],
            {}, (self._block,), self._location,
        )  # fmt: skip
        self._results = self._rebuild(results)


class WhileLoop(_Loop):
    """`with k.while_(x) as loop:`: `loop.carried`, `loop.check(condition)`, `loop.next(x)`.

    The statements before `check` run once more than those after it.
    """

    spelling = "k.while_(carried) as loop"

    def __enter__(self) -> WhileLoop:
        self._enter()
        return self

    def _begin(self) -> None:
        types = [value.type for value in self._initial]
        self._region = self._head = self._tracer.open_region(types)
        self.carried = self._rebuild(self._head.arguments)
        self._condition: Value | None = None

    def check(self, condition: Value) -> None:
        """Leave the loop unless the condition holds."""
        self._check_place("loop.check(...)")
        if self._condition is not None:
            raise TraceError("a while loop can have only one loop.check(...)")
        check_condition(condition)
        self._condition = condition
        self._checked_at = self._tracer.locate()
        self._region = self._body = self._tracer.open_region(())

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon(kind, regions=1 if self._condition is None else 2)
            return
        if self._condition is None:
            self._tracer.abandon_region()
            raise TraceError("a while loop needs loop.check(condition)", self._location)
        self._close()
        self._tracer.close_region((self._condition,), self._checked_at)
        results = self._tracer.record(
            "while", self._initial, [value.type for value in self._initial],
            {}, (self._head, self._body), self._location,
        )  # fmt: skip
        self._results = self._rebuild(results)
