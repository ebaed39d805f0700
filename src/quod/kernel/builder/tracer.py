"""The tracer: records the ops, regions and functions of a kernel while its Python function runs.

It is the backend of a `Builder`; code that transforms kernels gets it with `tracer_of`.
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
from quod.kernel.ops.scalar import OPS

FunctionBody = Callable[..., Any]

# Maximum call depth: a recursive function that creates a new body each time is never recognised.
_MAX_NESTED = 100


def _location_of(body: FunctionBody) -> Location:
    """Return the location of a function's definition."""
    while isinstance(body, functools.partial):
        body = body.func
    code = getattr(body, "__code__", None)
    if code is None:
        return current_location()
    return Location(code.co_filename, code.co_firstlineno)


def _identity(body: FunctionBody) -> Hashable:
    """Return a key that identifies a body among bodies of the same name."""
    if isinstance(body, functools.partial):
        keywords = tuple(sorted(body.keywords.items()))
        return functools.partial, _identity(body.func), body.args, keywords
    return body


class Tracer:
    """The recorded state of one kernel.

    block: the kernel's body.
    functions: its device functions.
    shared_bytes: shared memory per workgroup.
    resident: the number of workgroups that should fit on a multiprocessor; 0 leaves it to the
        assembler.
    cluster: the number of workgroups in a cluster.
    shape: the extents of a workgroup.
    grid: the extents of the grid along all axes but the last.
    """

    def __init__(
        self, builder: Recorder, workgroup_size: int, locate: Callable[[], Location]
    ) -> None:
        """Start a trace.

        builder: values record further ops to it.
        locate: returns the source line of an op.
        """
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
        """The location to attribute ops to, if not the line that records them."""
        self._blocks: list[Block] = [self.block]
        self._shared: dict[Hashable, tuple[Value, ...]] = {}
        """The results of the pure ops and constants in scope, by op and operands."""
        self._keys: list[list[Hashable]] = [[]]
        """The keys of `_shared` that each open region has added."""
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
        *,
        shared: bool = False,
    ) -> tuple[Value, ...]:
        """Append an op; return its results.

        shared: reuse the results of an equal op in scope. The op must be pure, and its operands and
            attributes must determine the types of its results.
        """
        if shared:
            key: Hashable = (name, *map(id, operands))
            if attributes:
                key = (key, *attributes.items())
            results = self._shared.get(key)
            if results is not None:
                return results
        op = Op(
            OPS[name], tuple(operands), (), attributes or {}, regions,
            location or self.location or self.locate(),
        )  # fmt: skip
        builder = self.builder
        op.results = results = tuple([Value(type_, builder, op) for type_ in result_types])
        self._blocks[-1].ops.append(op)
        if shared:
            self._share(key, results)
        return results

    def _share(self, key: Hashable, results: tuple[Value, ...]) -> None:
        self._shared[key] = results
        self._keys[-1].append(key)

    def integer(self, number: int, type_: Type) -> Value | None:
        """Return the constant of an integer type in scope that equals a number, or None."""
        results = self._shared.get((number, type_))
        return None if results is None else results[0]

    def constant(self, number: int | float | bool, type_: Type) -> Value:
        """Append a constant, or reuse an equal one in scope; the number must fit the type."""
        # repr distinguishes -0.0 from 0.0, which compare equal.
        key = (number if type_.is_integer else repr(number), type_)
        results = self._shared.get(key)
        if results is None:
            results = self.record("const", (), (type_,), {"value": number})
            results[0].constant = number
            self._share(key, results)
        return results[0]

    # --- regions

    def open_region(self, argument_types: Sequence[Type]) -> Block:
        """Start recording into a new region."""
        block = Block(tuple(Value(type_, self.builder) for type_ in argument_types))
        self._blocks.append(block)
        self._keys.append([])
        return block

    def close_region(self, values: Sequence[Value], location: Location | None = None) -> None:
        """End the innermost region with a yield."""
        for branch in self._awaiting:
            if branch.home is self._blocks[-1]:
                raise branch.one_sided()
        self.record("yield", values, (), location=location)
        self.abandon_region()

    def abandon_region(self) -> None:
        """Leave the innermost region, without a yield after an exception in user code."""
        self._blocks.pop()
        for key in self._keys.pop():
            del self._shared[key]

    def note_abandoned(self, error: TraceError) -> None:
        """Register the error to raise if the trace continues after a region was abandoned."""
        self._abandoned.append(error)

    @property
    def innermost(self) -> Block:
        """The region that ops are recorded into."""
        return self._blocks[-1]

    @property
    def is_at_top(self) -> bool:
        """True if ops are recorded outside any region or function."""
        return self._blocks == [self.block]

    def last_operation(self) -> Op:
        """Return the op recorded last."""
        return self._blocks[-1].ops[-1]

    # --- forms of control flow

    def await_entry(self, form: Form) -> None:
        """Register a new control-flow form, which a `with` statement must enter."""
        self._unentered.append(form)

    def enter(self, form: Form) -> None:
        """Mark the form as entered by a `with` statement."""
        self._unentered.remove(form)

    def check_entries(self) -> None:
        """Raise TraceError if a control-flow form was never entered, or left by a caught exception.

        The ops in it would be dropped silently.
        """
        if self._unentered:
            raise self._unentered[0].never_entered()
        if self._abandoned:
            raise self._abandoned[0]

    def await_otherwise(self, branch: Branch) -> None:
        """Register a branch that has values on one side and needs its other side."""
        self._awaiting.append(branch)

    def complete(self, branch: Branch) -> None:
        """Mark the branch as complete with both sides."""
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
        """Call a device function, tracing it unless it was traced for these argument types.

        A `key` identifies the function in place of its body, so that equivalent bodies share one.
        """
        if not isinstance(name, str):
            raise TraceError(f"the name of a function is text, not {type(name).__name__}")
        values, arguments_key, rebuild = flatten(arguments)
        traced_key = (name, _identity(body) if key is None else key, arguments_key)
        try:
            traced = self._traced.get(traced_key)
        except TypeError as error:
            raise TraceError(
                f"what the function {name} is fixed to cannot be a key: {error}"
            ) from None
        if traced is None:
            if traced_key in self._tracing or len(self._tracing) >= _MAX_NESTED:
                raise TraceError(f"the function {name} calls itself; write a loop")
            self._tracing.append(traced_key)
            awaiting, unentered = list(self._awaiting), list(self._unentered)
            abandoned = list(self._abandoned)
            try:
                traced = self.trace_function(name, body, values, rebuild, inline)
            except BaseException:
                # If user code catches the exception, the trace continues as if without the call.
                self._awaiting, self._unentered = awaiting, unentered
                self._abandoned = abandoned
                raise
            finally:
                self._tracing.pop()
            self._traced[traced_key] = traced
        function, rebuild_results = traced
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
        """Trace `body` for arguments of the types of `values`; `rebuild` assembles them.

        Returns the function and a callable that rebuilds its results from values.
        """
        outside = self._blocks, self._keys, self._shared
        self._blocks, self._keys, self._shared = [], [], {}
        try:
            block = self.open_region([value.type for value in values])
            results, _, rebuild_results = flatten(body(self.builder, *rebuild(block.arguments)))
            self.close_region(results)
        finally:
            self._blocks, self._keys, self._shared = outside
        unique_name = name if name not in self._names else f"{name}.{self._names[name]}"
        self._names[name] = self._names.get(name, 0) + 1
        function = Function(unique_name, block, _location_of(body), inline)
        self.functions.append(function)
        return function, rebuild_results
