"""The tracer: keeps the ops, regions and functions of one kernel while its Python function runs.

It is behind a `Builder`, which has the language; who makes kernels of kernels asks `tracer_of`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from quod.kernel.builder.control import Branch, Form
from quod.kernel.builder.structure import Rebuild, flatten
from quod.kernel.errors import TraceError, current_location
from quod.kernel.ir.nodes import Block, Function, Location, Op
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Recorder, Value

FunctionBody = Callable[..., Any]

# Functions within each other: one that calls itself is another each time if it is made anew.
_MOST_NESTED = 100


def _location_of(body: FunctionBody) -> Location:
    """Where a function's Python source begins."""
    while isinstance(body, functools.partial):
        body = body.func
    code = getattr(body, "__code__", None)
    if code is None:
        return current_location()
    return Location(code.co_filename, code.co_firstlineno)


def _identity(body: FunctionBody) -> Hashable:
    """What tells a body from another of the same name."""
    if isinstance(body, functools.partial):
        given = tuple(sorted(body.keywords.items()))
        return functools.partial, _identity(body.func), body.args, given
    return body


class Tracer:
    """What has been recorded of one kernel.

    `block` is the kernel's body, `functions` are its device functions, `shared_bytes` its memory of
    a workgroup, `resident` the workgroups that should fit one multiprocessor and `cluster` those of
    a cluster. `shape` has the extents of a workgroup, `grid` those of the grid but the last.
    """

    def __init__(
        self, builder: Recorder, workgroup_size: int, locate: Callable[[], Location]
    ) -> None:
        """`builder` is what values record further ops to; `locate` says which line of the source
        records an op."""
        self.builder = builder
        self.locate = locate
        self.block = Block()
        self.functions: list[Function] = []
        self.shared_bytes = 0
        self.resident = 0
        self.cluster = 1
        self.shape: tuple[int, ...] = (workgroup_size,)
        self.grid: tuple[Value, ...] = ()
        self.location: Location | None = None
        """Where ops are from, where it is not the line that records them."""
        self._blocks: list[Block] = [self.block]
        self._known: list[dict[Hashable, tuple[Value, ...]]] = [{}]
        self._traced: dict[Hashable, tuple[Function, Rebuild]] = {}
        self._names: dict[str, int] = {}
        self._tracing: list[Hashable] = []
        self._awaiting: list[Branch] = []
        self._unentered: list[Form] = []
        self._abandoned: list[TraceError] = []

    # --- ops

    def record(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        attributes: dict[str, Any] | None = None,
        regions: tuple[Block, ...] = (),
        location: Location | None = None,
    ) -> tuple[Value, ...]:
        """Appends one op as it is given; the results are new values."""
        op = Op(
            name, tuple(operands), (), attributes or {}, regions,
            location or self.location or self.locate(),
        )  # fmt: skip
        builder = self.builder
        op.results = tuple([Value(type_, builder, op) for type_ in result_types])
        self._blocks[-1].ops.append(op)
        return op.results

    def record_pure(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        attributes: dict[str, Any] | None = None,
    ) -> tuple[Value, ...]:
        """Appends a pure op unless the same one is visible already."""
        extra = tuple(attributes.items()) if attributes else ()
        key = (name, tuple(map(id, operands)), extra, result_types[0])
        for known in reversed(self._known):
            if key in known:
                return known[key]
        results = self.record(name, operands, result_types, attributes)
        self._known[-1][key] = results
        return results

    def constant(self, number: int | float | bool, type_: Type) -> Value:
        """A constant, of a number that the type holds, unless the same one is visible already."""
        # repr tells -0.0 from 0.0 and 1 from True, which compare equal.
        key = ("const", repr(number), type_)
        for known in reversed(self._known):
            if key in known:
                return known[key][0]
        results = self.record("const", (), (type_,), {"value": number})
        self._known[-1][key] = results
        return results[0]

    # --- regions

    def open_region(self, argument_types: Sequence[Type]) -> Block:
        """Starts recording into a new region."""
        block = Block(tuple(Value(type_, self.builder) for type_ in argument_types))
        self._blocks.append(block)
        self._known.append({})
        return block

    def close_region(self, values: Sequence[Value], location: Location | None = None) -> None:
        """Ends the innermost region with a yield."""
        for branch in self._awaiting:
            if branch.home is self._blocks[-1]:
                raise branch.one_sided()
        self.record("yield", values, (), location=location)
        self._blocks.pop()
        self._known.pop()

    def abandon_region(self) -> None:
        """Leaves the innermost region after an error in the user's code."""
        self._blocks.pop()
        self._known.pop()

    def note_abandoned(self, error: TraceError) -> None:
        """What to raise of a kernel that is made although a region of it was abandoned."""
        self._abandoned.append(error)

    @property
    def innermost(self) -> Block:
        """The region that ops are recorded into."""
        return self._blocks[-1]

    @property
    def is_at_top(self) -> bool:
        """Whether ops are recorded outside any region or function."""
        return self._blocks == [self.block]

    def last_operation(self) -> Op:
        """The op recorded last."""
        return self._blocks[-1].ops[-1]

    # --- forms of control flow

    def await_entry(self, form: Form) -> None:
        """A form of control flow that a `with` statement must enter was made."""
        self._unentered.append(form)

    def enter(self, form: Form) -> None:
        """A `with` statement has entered the form."""
        self._unentered.remove(form)

    def check_entries(self) -> None:
        """TraceError if a form of control flow was never entered, or left by an error that was
        caught: what stands in it would be missing without a word."""
        if self._unentered:
            raise self._unentered[0].never_entered()
        if self._abandoned:
            raise self._abandoned[0]

    def await_otherwise(self, branch: Branch) -> None:
        """Notes that the branch gave values and needs its other side."""
        self._awaiting.append(branch)

    def complete(self, branch: Branch) -> None:
        """Notes that the branch has its other side."""
        self._awaiting.remove(branch)

    # --- functions

    def call(
        self,
        name: str,
        body: FunctionBody,
        arguments: tuple[Any, ...],
        key: Hashable,
        inline: bool,
    ) -> Any:
        """Calls a device function, which is traced unless it has been for such arguments.

        With a `key` it stands for the body, of which there may be many then that do the same.
        """
        if not isinstance(name, str):
            raise TraceError(f"the name of a function is text, not {type(name).__name__}")
        values, static, rebuild = flatten(arguments)
        traced_key = (name, _identity(body) if key is None else key, static)
        try:
            found = self._traced.get(traced_key)
        except TypeError as error:
            raise TraceError(
                f"what the function {name} is fixed to cannot be a key: {error}"
            ) from None
        if found is None:
            if traced_key in self._tracing or len(self._tracing) >= _MOST_NESTED:
                raise TraceError(f"the function {name} calls itself; write a loop")
            self._tracing.append(traced_key)
            awaiting, unentered = list(self._awaiting), list(self._unentered)
            abandoned = list(self._abandoned)
            try:
                found = self.trace_function(name, body, values, rebuild, inline)
            except BaseException:
                # Who catches it goes on as if there had been no call.
                self._awaiting, self._unentered = awaiting, unentered
                self._abandoned = abandoned
                raise
            finally:
                self._tracing.pop()
            self._traced[traced_key] = found
        function, rebuild_results = found
        attributes = {"function": function}
        return rebuild_results(self.record("call", values, function.result_types, attributes))

    def trace_function(
        self,
        name: str,
        body: FunctionBody,
        values: Sequence[Value],
        rebuild: Rebuild,
        inline: bool,
    ) -> tuple[Function, Rebuild]:
        """Traces `body` for arguments like `values`, which `rebuild` makes its arguments of.

        Gives the function, and what rebuilds its results from values.
        """
        blocks, known = self._blocks, self._known
        self._blocks, self._known = [], []
        try:
            block = self.open_region([value.type for value in values])
            results, _, rebuild_results = flatten(body(self.builder, *rebuild(block.arguments)))
            self.close_region(results)
        finally:
            self._blocks, self._known = blocks, known
        unique = name if name not in self._names else f"{name}.{self._names[name]}"
        self._names[name] = self._names.get(name, 0) + 1
        function = Function(unique, block, _location_of(body), inline)
        self.functions.append(function)
        return function, rebuild_results
