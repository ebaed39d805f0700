"""Kernels and device functions as a user writes them: decorated Python functions."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ForwardRef,
    NoReturn,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_origin,
    overload,
)

from quod.errors import KernelError
from quod.frozen import field_names, frozen
from quod.kernel.builder.structs import Struct, StructType
from quod.kernel.builder.structure import exact
from quod.kernel.errors import (
    Location,
    TraceError,
    VerificationFailure,
    current_location,
    is_library,
    user_location,
)
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Composite, ParameterType, Pointer, Value
from quod.kernel.machine import Machine
from quod.wording import listed

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder
    from quod.kernel.builder.captured_variables import CapturedVariables
    from quod.kernel.ir.nodes import Kernel
    from quod.kernel.launcher import K, Launcher, Launches

P = ParamSpec("P")
R = TypeVar("R")

# The maximum depth of quoted annotations that evaluate to quoted annotations.
_MAX_QUOTES = 8

# Attributes of compiled kernels that devices access at a launch.
_COMPILED_ATTRIBUTES = ("pack", "slots", "signature", "stored", "digest", "lanes", "static")


@frozen(eq=False)
class KernelDefinition:
    """A kernel's Python function with the types of its parameters.

    name, function, location: the name, the Python function and its source line.
    parameters: the types of launch parameters. Keyword-only parameters of the function are static,
        fixed in a trace (a field, a curve, a window size).
    workgroup: the default workgroup size; None for the device's default.
    instances: per axis, the parameter with the number of instances; empty if unknown.
    axes: the number of axes of the grid.
    shape: the extents of a workgroup along the axes, if given.
    constant: parameters with arrays that no concurrent launch stores to.
    """

    name: str
    function: Callable[..., None]
    parameters: dict[str, ParameterType]
    location: Location
    workgroup: int | None = None
    instances: tuple[str, ...] = ()
    axes: int = 1
    shape: tuple[int, ...] | None = None
    constant: tuple[str, ...] = ()

    @property
    def doc(self) -> str:
        """The first paragraph of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")

    def __repr__(self) -> str:
        return f"<kernel {self.name}({declared(self.parameters)}), {self.location}>"

    @functools.cached_property
    def outside(self) -> CapturedVariables:
        """The globals and captured variables that the function reads, which must not change."""
        from quod.kernel.builder.captured_variables import CapturedVariables

        return CapturedVariables(self.function, self.name)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TraceError(
            f"the kernel {self.name} is not called; run it with device.launch(device.compile("
            f"{self.name}), groups, ...) or {self.name}.on(device)(...), or make it a plain "
            "function or @function to call it from a kernel"
        )

    def on(self, device: Launches[K], *, lanes: int | None = None, **static: Any) -> Launcher[K]:
        """Compile the kernel for a device; return a launcher to call with its arguments.

        The launcher computes the number of workgroups. `lanes` and `static` are those of
        `device.compile`. Raises KernelError for an invalid kernel or an unknown instance count.
        """
        from quod.kernel.launcher import bind

        return bind(self, device, lanes, static)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _COMPILED_ATTRIBUTES:
            raise KernelError(
                f"the kernel {self.name} is not compiled; launch the result of "
                f"device.compile({self.name})"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def parameters_for(
        self, static: Mapping[str, Any]
    ) -> tuple[dict[str, ParameterType], dict[str, Type]]:
        """Return the parameters for static arguments, and the scalars and pointers they consist of.

        Both are the same object if every parameter is a scalar or pointer. Raises TraceError if a
        parameter depends on a missing static argument.
        """
        if self._is_simple:
            return self.parameters, self.parameters  # type: ignore[return-value]
        from quod.kernel.builder.composites import resolved, slots

        parameters = resolved(self, static)
        return parameters, slots(parameters, self.axes)

    @functools.cached_property
    def _is_simple(self) -> bool:
        """True if each parameter is a scalar or pointer and the grid has one axis."""
        return self.axes == 1 and not any(
            isinstance(type_, Composite) for type_ in self.parameters.values()
        )

    def check_outside(self) -> None:
        """Raise TraceError if a global or captured variable has changed since the first trace."""
        if "outside" in vars(self):
            self.outside.check()

    def trace(self, machine: Machine, **static: Any) -> Kernel:
        """Trace the kernel for one machine; return its simplified and verified IR."""
        # Imported here, as a process that finds compiled code in the cache never traces.
        from quod.kernel.builder.garbage_collection import paused
        from quod.kernel.verifier.verify import verify

        with paused():
            kernel = self._record(machine, static, current_location)
            try:
                verify(kernel, machine)
            except VerificationFailure as error:
                if not is_library(error.location.file):
                    raise
                # Raise it again with the line of user code that calls the library.
                verify(self._record(machine, static, user_location), machine)
                raise
            return kernel

    def trace_to_user_lines(self, machine: Machine, static: Mapping[str, Any]) -> Kernel:
        """Trace as `trace` does, attributing each op to a line of user code.

        Ops that fields and curves record get the line that calls these, for run-time messages.
        """
        from quod.kernel.builder.garbage_collection import paused
        from quod.kernel.verifier.verify import verify

        with paused():
            kernel = self._record(machine, static, user_location)
            verify(kernel, machine)
            return kernel

    def _record(
        self, machine: Machine, static: Mapping[str, Any], locate: Callable[[], Location]
    ) -> Kernel:
        from quod.kernel.builder.builder import Builder, tracer_of
        from quod.kernel.ir.nodes import Kernel
        from quod.kernel.ir.passes import eliminate_dead_code

        self._check_static(static)
        builder = Builder(machine, locate=locate)
        tracer = tracer_of(builder)
        parameters, slots = self.parameters_for(static)
        arguments: tuple[Any, ...] = tuple(Value(type_, builder) for type_ in slots.values())
        tracer.block.arguments = arguments
        if parameters is not slots:
            from quod.kernel.builder.composites import joined

            arguments = joined(tracer, parameters, arguments, self.location)
        tracer.shape = self._shape(machine)
        self.outside.watch(lambda: self._run(builder, *arguments, **static))
        tracer.check_entries()
        tracer.close_region((), self.location)
        kernel = Kernel(
            self.name, tuple(slots), tracer.block, machine.workgroup_size,
            tracer.functions, self.location, tracer.shared_bytes, machine.subgroup_size,
            tracer.resident, tracer.cluster, self._constant(parameters, slots),
        )  # fmt: skip
        eliminate_dead_code(kernel)
        return kernel

    def _constant(
        self, parameters: Mapping[str, ParameterType], slots: Mapping[str, Type]
    ) -> tuple[str, ...]:
        """Return the pointer slots of constant parameters.

        Raises TraceError for a constant parameter without pointers.
        """
        if not self.constant:
            return ()
        from quod.kernel.builder.composites import pointers_of

        return pointers_of(parameters, slots, self.constant, self.location)

    def _shape(self, machine: Machine) -> tuple[int, ...]:
        """Return the extents of a workgroup; raises TraceError if the machine's size differs."""
        if self.shape is None:
            return (machine.workgroup_size, *[1] * (self.axes - 1))
        if math.prod(self.shape) != machine.workgroup_size:
            raise TraceError(
                f"the kernel {self.name} has workgroups of {' * '.join(map(str, self.shape))} "
                f"instances, not of {machine.workgroup_size}; omit `lanes` or pass that number",
                self.location,
            )
        return self.shape

    def _check_static(self, static: Mapping[str, Any]) -> None:
        """Raise TraceError for missing or unknown static arguments."""
        keys = {
            name: parameter.default is parameter.empty
            for name, parameter in inspect.signature(self.function).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        problems = listed(
            {
                "missing": [name for name, needed in keys.items() if needed and name not in static],
                "unknown": [name for name in static if name not in keys],
            }
        )
        if problems:
            takes = f"the static arguments {', '.join(keys)}" if keys else "no static arguments"
            raise TraceError(
                f"the kernel {self.name} takes {takes}; {problems}",
                self.location,
            )

    def _run(self, builder: Builder, *arguments: Any, **static: Any) -> None:
        function: Callable[..., object] = self.function
        if function(builder, *arguments, **static) is not None:
            raise TraceError(
                f"the kernel {self.name} returns a value, which is lost; store it through a "
                "pointer instead",
                self.location,
            )


def declared(parameters: Mapping[str, ParameterType]) -> str:
    """Format parameters as in ``n: u32, x: ptr<f32, global>``."""
    return ", ".join(f"{name}: {type_}" for name, type_ in parameters.items())


Extents = int | tuple[int, ...]
Names = str | tuple[str, ...]


@overload
def kernel(function: Callable[..., None], /) -> KernelDefinition: ...
@overload
def kernel(
    *, workgroup: Extents | None = None, instances: Names | None = None, axes: int | None = None,
    constant: Names = (),
) -> Callable[[Callable[..., None]], KernelDefinition]: ...  # fmt: skip
def kernel(
    function: Callable[..., None] | None = None, /, *, workgroup: Extents | None = None,
    instances: Names | None = None, axes: int | None = None, constant: Names = (),
) -> KernelDefinition | Callable[[Callable[..., None]], KernelDefinition]:  # fmt: skip
    """Define a kernel from a Python function `f(k, parameter: U32, ..., *, static)`.

    workgroup: the default workgroup size, or its extents in a grid of several axes, such as
        ``workgroup=(16, 8)``. One size puts all instances along the first axis.
    instances: the parameter that holds the number of instances, or one per axis. Default: ``n`` if
        that is an unsigned integer. `on` computes the number of workgroups from it.
    axes: the axes of the grid, 1 to 3. A launch takes a count of workgroups per axis, and
        `k.global_id(axis)` is an instance's index along one.
    constant: pointer parameters to data that no concurrent launch changes, such as weights. The
        kernel may load them before `k.dependency_wait` and must not store through them.
    """
    make = functools.partial(
        _define, workgroup=workgroup, instances=instances, axes=axes, constant=constant
    )
    return make if function is None else make(function)


def _define(
    function: Callable[..., None], *, workgroup: Extents | None, instances: Names | None,
    axes: int | None, constant: Names,
) -> KernelDefinition:  # fmt: skip
    if not hasattr(function, "__code__"):
        name = getattr(function, "__name__", type(function).__name__)
        raise TraceError(f"@kernel decorates a Python function, not {name}")
    code = function.__code__
    location = Location(code.co_filename, code.co_firstlineno)
    _refuse_suspended(function, location)
    parameters = _parameters(function, location)
    shape = workgroup if isinstance(workgroup, tuple) else None
    extents = (
        workgroup if isinstance(workgroup, tuple) else (1 if workgroup is None else workgroup,)
    )
    if not all(map(_is_count, extents)):
        raise TraceError(
            f"a workgroup has a whole number of instances, at least one, not {workgroup!r}",
            location,
        )
    axis_count = axes or (1 if shape is None else len(shape))
    if axis_count not in (1, 2, 3) or (shape is not None and len(shape) != axis_count):
        raise TraceError(
            f"a grid has 1, 2 or 3 axes, and a workgroup as many extents, not {axis_count} and "
            f"{workgroup!r}",
            location,
        )
    return KernelDefinition(
        function.__name__, function, parameters, location,
        None if workgroup is None else math.prod(extents),
        _instance_counts(parameters, instances, axis_count, location), axis_count, shape,
        _constant(parameters, constant, location),
    )  # fmt: skip


def _parameters(function: Callable[..., None], location: Location) -> dict[str, ParameterType]:
    """Return the launch parameters by name; TraceError for a missing or unsupported annotation."""
    names, stars = _names(function)
    if stars:
        raise TraceError(
            f"a kernel must name each of its parameters; it cannot take {stars[0]}", location
        )
    unwrapped = inspect.unwrap(function)
    annotated: dict[str, ParameterType] = {}
    for name in names[1:]:
        if name not in unwrapped.__annotations__:
            raise TraceError(
                f"parameter {name} needs a kernel type, such as U32 or Pointer[U32]", location
            )
        hint = _evaluated(unwrapped.__annotations__[name], unwrapped.__globals__, name, location)
        annotated[name] = _annotated_type(hint, unwrapped.__globals__, name, location)
    return annotated


def _names(function: Callable[..., None]) -> tuple[list[str], list[str]]:
    """Return the names of positional parameters, and those of starred parameters."""
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        # The signature of methods and wrappers as seen by callers.
        items = inspect.signature(function).parameters.values()
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signs = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        return [parameter.name for parameter in items if parameter.kind in positional], [
            signs[parameter.kind] + parameter.name for parameter in items if parameter.kind in signs
        ]
    # Much faster than `signature`, and a proving process defines forty kernels.
    code = function.__code__
    names = list(code.co_varnames)
    starred_names = iter(names[code.co_argcount + code.co_kwonlyargcount :])
    flags = (("*", inspect.CO_VARARGS), ("**", inspect.CO_VARKEYWORDS))
    return names[: code.co_argcount], [
        f"{stars}{next(starred_names)}" for stars, flag in flags if code.co_flags & flag
    ]


def _evaluated(hint: Any, names: dict[str, Any], parameter: str, location: Location) -> Any:
    """Evaluate an annotation, which may be quoted repeatedly; TraceError if evaluation fails."""
    for _ in range(_MAX_QUOTES):
        if isinstance(hint, ForwardRef):
            hint = hint.__forward_arg__
        if not isinstance(hint, str):
            return hint
        try:
            hint = eval(_expression(hint.strip()), names)
        except Exception as error:
            raise TraceError(
                f"the type of parameter {parameter}, {hint!r}, cannot be read ({error}); import it "
                "where the kernel is",
                location,
            ) from error
    return hint


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


def _instance_counts(
    parameters: dict[str, ParameterType], option: Names | None, axes: int, location: Location
) -> tuple[str, ...]:
    """Return the parameters with the number of instances per axis: the given names, else ``n``.

    Empty if there is no ``n``; TraceError for a given name that is not an unsigned parameter.
    """
    default_names = ("n",) if axes == 1 else ()
    names = default_names if option is None else (option,) if isinstance(option, str) else option
    unknown = [name for name in names if parameters.get(name) not in types.UNSIGNED]
    if not unknown and len(names) == axes:
        return names
    if option is not None:
        problem = f"names {len(names)} parameters, and the grid has {axes} axes"
        if unknown:
            problem = "names no parameter that is U32 or U64"
        problem += ", so that it cannot be the number of instances"
        if not unknown and 1 < len(names) <= 3:
            problem += f"; @kernel(axes={len(names)}, ...) makes a grid of {len(names)} axes"
        raise TraceError(f"instances={option!r} {problem}", location)
    return ()


@functools.cache
def _expression(hint: str) -> CodeType:
    """Compile a quoted annotation; cached, as kernels share a few."""
    return compile(hint, "<annotation>", "eval")


def _refuse_suspended(body: Callable[..., Any], location: Location) -> None:
    """Raise TraceError for a generator or coroutine: calling it would not run its body."""
    for word, flags in (
        ("yield", inspect.CO_GENERATOR),
        ("async", inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR),
    ):
        if body.__code__.co_flags & flags:
            raise TraceError(
                f"`{word}` in {body.__name__} makes a generator or coroutine, whose body does not "
                "run when it is called; write a plain function",
                location,
            )


def _annotated_type(
    hint: Any, names: dict[str, Any], name: str, location: Location
) -> ParameterType:
    if get_origin(hint) is Pointer:
        element = _evaluated(get_args(hint)[0], names, name, location)
        element_type = _annotated_type(element, names, name, location)
        if isinstance(element_type, Type):
            return types.pointer(element_type)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return StructType(hint, _fields(hint, name, location))
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, (Type, Composite)):
            return extra
    raise TraceError(
        f"parameter {name} is annotated with {hint!r}, which is not a kernel type; use U32, U64, "
        "F32, ..., Pointer[...] of one, or a Struct of these",
        location,
    )


def _fields(struct: type[Struct], name: str, location: Location) -> dict[str, ParameterType]:
    """Return the types of a struct's fields; quoted ones are evaluated in the class's module."""
    hints: dict[str, tuple[Any, dict[str, Any]]] = {}
    for cls in reversed(struct.__mro__):
        names = vars(sys.modules[cls.__module__])
        annotations = vars(cls).get("__annotations__", {})
        hints |= {field: (hint, names) for field, hint in annotations.items()}
    fields: dict[str, ParameterType] = {}
    # In the order of the constructor's arguments, as the kernel's instance is constructed by it.
    for field in field_names(struct) or ():
        hint, names = hints[field]
        label = f"{name}.{field}"
        type_ = _evaluated(hint, names, label, location)
        fields[field] = _annotated_type(type_, names, label, location)
    return fields


def _constant(allowed: Mapping[str, object], option: Names, location: Location) -> tuple[str, ...]:
    """Return the names of constant parameters; TraceError for an unknown one."""
    if not isinstance(option, (str, tuple, list)):
        raise TraceError(f"constant={option!r} is neither a parameter name nor a tuple", location)
    names = (option,) if isinstance(option, str) else tuple(option)
    if unknown := [name for name in names if name not in allowed]:
        raise TraceError(f"constant={option!r} names no parameter {unknown[0]!r}", location)
    return names


def function(
    body: Callable[Concatenate[Builder, P], R],
) -> Callable[Concatenate[Builder, P], R]:
    """Define a device function, called rather than inlined, from `f(k, a, b, ...)`."""
    _refuse_suspended(body, Location(body.__code__.co_filename, body.__code__.co_firstlineno))

    @functools.wraps(body)
    def call(k: Builder, *arguments: P.args, **static: P.kwargs) -> R:
        key = body, tuple((name, exact(value)) for name, value in sorted(static.items()))
        with_static = functools.partial(body, **static)
        return cast("R", k.call(body.__name__, with_static, *arguments, key=key))

    return cast("Callable[Concatenate[Builder, P], R]", call)
