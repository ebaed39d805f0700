"""The arguments of a launch, checked and packed into slots.

A pointer takes a `Buffer`, a NumPy array, or an array of another library
(`quod.device.memory.foreign`); the kernel accesses its memory in place. An array must be contiguous
in C order, in the machine's byte order, and writeable if the kernel stores through the pointer. It
must begin at a multiple of 4 bytes, or of its element's size if that is smaller or the kernel adds
to it atomically.

Items must have the width and the kind (integer, float, bool) of the pointer's elements, with one
exception: a kernel may read integers of another width if the total size is a multiple of its own,
so a kernel over `u64` takes the packed 32-bit words of field elements. Elements of bf16 are
`ml_dtypes.bfloat16`, or u16 with their bits; elements of e4m3 and e5m2 are
`ml_dtypes.float8_e4m3fn` and `float8_e5m2`, or u8 with their bits.

A device with its own memory takes only buffers of that memory, which begin at a multiple of 16
bytes; it copies arrays there first.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from quod.codegen.pointers import PointerUses
from quod.device.elements import ArgumentMismatch, check_elements
from quod.device.memory.buffer import HOST, Array, Buffer, Space, base_array
from quod.device.runtime.launch_checks import LaunchDevice, check_kernel
from quod.errors import DeviceError
from quod.kernel.ir.types import PointerType, Type
from quod.validation import shown

if TYPE_CHECKING:
    from quod.device.memory.array_protocols import ForeignArray
    from quod.kernel.builder.structs import Struct
    from quod.kernel.compiled import Compiled
    from quod.kernel.launcher import Groups

Argument: TypeAlias = "Buffer | np.ndarray[Any, Any] | ForeignArray | int | float | bool"
"""An argument for one slot of a kernel."""

LaunchArgument: TypeAlias = "Argument | Struct | tuple[int, ...]"
"""An argument for one parameter: a struct or an element of an extension has several slots."""

DIRECT = (Buffer, np.ndarray, int, float)
"""The types that need no conversion; any other value may be an array of another library."""

Slots = ctypes.Array[ctypes.c_uint64]

_INTEGER_RANGES = {
    "u32": (0, (1 << 32) - 1), "u64": (0, (1 << 64) - 1),
    "i32": (-(1 << 31), (1 << 31) - 1), "i64": (-(1 << 63), (1 << 63) - 1),
}  # fmt: skip
_FORMATS = {"bool": "Q", "u32": "Q", "u64": "Q", "i32": "q", "i64": "q", "f32": "f4x", "f64": "d"}
_ADDRESS_ALIGNMENT = 4


class Signature:
    """The parameters of one kernel, and the pointers that it stores or accesses atomically."""

    def __init__(
        self, kernel: str, parameters: Mapping[str, Type], uses: PointerUses, *,
        space: Space = HOST, alignment: int | None = None,
    ) -> None:  # fmt: skip
        """Compile the parameter list.

        space: memory that the kernel accesses.
        alignment: alignment in bytes of every pointer, instead of the rule in the module's
        docstring.
        """
        self.kernel = kernel
        self.parameters = dict(parameters)
        self._space = space
        self._rows = [
            (
                name, type_, index in uses.stored,
                alignment or _alignment(type_, atomic=index in uses.atomic),
            )
            for index, (name, type_) in enumerate(self.parameters.items())
        ]  # fmt: skip
        formats = [_FORMATS.get(type_.name, "Q") for type_ in self.parameters.values()]
        self._layout = struct.Struct("<" + "".join(formats))
        self._slots = ctypes.c_uint64 * max(1, len(formats))

    def pack(self, arguments: Sequence[Argument]) -> Slots:
        """Pack arguments into slots of 8 bytes: the address of memory, or the value of a number.

        Raises DeviceError for an argument that does not fit its parameter.
        """
        self._space.check()
        self._check_count(arguments)
        values: list[int | float] = []
        for row, argument in zip(self._rows, arguments, strict=True):
            name, type_, stored, alignment = row
            try:
                values.append(
                    _address(argument, type_, stored, alignment, self._space)
                    if isinstance(type_, PointerType)
                    else _number(argument, type_)
                )
            except ArgumentMismatch as error:
                raise DeviceError(f"argument {name} of kernel {self.kernel} {error}") from None
        slots: Slots = self._slots()
        self._layout.pack_into(slots, 0, *values)
        return slots

    def arrays(self, arguments: Sequence[Argument]) -> list[tuple[int, Array, bool]]:
        """Return the arguments that are arrays: index, array, and whether the kernel stores to it.

        A device with its own memory copies them there. Raises DeviceError for an array that does
        not fit its parameter.
        """
        self._check_count(arguments)
        arrays = []
        for index, (row, argument) in enumerate(zip(self._rows, arguments, strict=True)):
            name, type_, stored, _ = row
            if isinstance(argument, np.ndarray) and isinstance(type_, PointerType):
                argument = base_array(argument)
                try:
                    _check_array(argument, type_)
                    _check_memory(argument.nbytes, argument.flags.writeable, type_, stored)
                except ArgumentMismatch as error:
                    raise DeviceError(f"argument {name} of kernel {self.kernel} {error}") from None
                arrays.append((index, argument, stored))
        return arrays

    def _check_count(self, arguments: Sequence[Argument]) -> None:
        if len(arguments) != len(self._rows):
            raise DeviceError(
                f"kernel {self.kernel} takes {len(self._rows)} arguments "
                f"({', '.join(self.parameters)}), not {len(arguments)}"
            )


class Owner(LaunchDevice, Protocol):
    """The device of a launch; see `Device.foreign_memory`."""

    def foreign_memory(self, value: object) -> Buffer | None: ...


def adopt(
    device: Owner, kernel: Compiled, groups: Groups, arguments: tuple[LaunchArgument, ...]
) -> tuple[int, tuple[Argument, ...]]:
    """Return the number of workgroups of a launch, and an argument for each slot.

    Arrays of other libraries are converted to buffers and NumPy arrays in place. Raises DeviceError
    for an argument that does not fit its parameter, and for a kernel of another device.
    """
    check_kernel(device, kernel)
    slots: tuple[Any, ...] = arguments
    # They are the same object if each parameter has one slot and the grid has one axis.
    if kernel.parameters is not kernel.slots or type(groups) is not int:
        from quod.kernel.builder.composites import split

        groups, slots = split(kernel, groups, arguments)
    for argument in slots:
        if not isinstance(argument, DIRECT):
            return groups, _convert_foreign(device, kernel, slots)
    return groups, slots


def _convert_foreign(
    device: Owner, kernel: Compiled, arguments: tuple[Argument, ...]
) -> tuple[Argument, ...]:
    """Convert the arrays of other libraries among arguments to buffers and NumPy arrays."""
    # Most launches pass no such array and need no import.
    from quod.device.memory.foreign import in_place

    result: list[Any] = list(arguments)
    for index, (name, type_) in enumerate(kernel.slots.items()):
        if index >= len(result) or not isinstance(type_, PointerType):
            continue
        if isinstance(result[index], DIRECT):
            continue
        try:
            buffer = device.foreign_memory(result[index])
            if buffer is not None and buffer.dtype is not None:
                check_elements(buffer.dtype, type_)
            memory = in_place(result[index]) if buffer is None else buffer
        except (DeviceError, ArgumentMismatch) as error:
            colon = "" if isinstance(error, ArgumentMismatch) else ":"
            raise DeviceError(f"argument {name} of kernel {kernel.name}{colon} {error}") from None
        if memory is not None:
            result[index] = memory
    return tuple(result)


def _alignment(type_: Type, *, atomic: bool) -> int:
    element = type_.element.bytes if isinstance(type_, PointerType) else 1
    return element if atomic else min(element, _ADDRESS_ALIGNMENT)


def _address(
    argument: Argument, type_: PointerType, stored: bool, alignment: int, space: Space
) -> int:
    if isinstance(argument, Buffer):
        if argument.space is not space:
            raise ArgumentMismatch(
                f"is memory of {argument.space.name}, and the kernel reads that of "
                f"{'another of that name' if space.name == argument.space.name else space.name}; "
                "upload or download it"
            )
        address, nbytes, writeable = argument.address, argument.nbytes, argument.writeable
    elif isinstance(argument, np.ndarray):
        if space is not HOST:
            raise ArgumentMismatch(
                f"is an array, and the kernel reads memory of {space.name}; upload it"
            )
        array: Array = base_array(argument)
        _check_array(array, type_)
        address, nbytes = array.__array_interface__["data"][0], array.nbytes
        writeable = array.flags.writeable
    else:
        raise ArgumentMismatch(
            f"must be a buffer or an array ({type_.element} elements), "
            f"not {type(argument).__name__}"
        )
    _check_memory(nbytes, writeable, type_, stored)
    if address % alignment and nbytes:
        raise ArgumentMismatch(
            f"begins at an address that is not a multiple of {alignment}; copy it"
        )
    return address


def _check_memory(nbytes: int, writeable: bool, type_: PointerType, stored: bool) -> None:
    if stored and not writeable:
        raise ArgumentMismatch("is read-only, and the kernel stores to it")
    if nbytes % type_.element.bytes:
        raise ArgumentMismatch(
            f"has {nbytes} bytes, which is not a whole number of {type_.element}"
        )


def _check_array(array: Array, type_: PointerType) -> None:
    check_elements(array.dtype, type_)
    if not array.flags.c_contiguous:
        raise ArgumentMismatch("is not contiguous; use numpy.ascontiguousarray")


def _number(argument: Any, type_: Type) -> int | float:
    if isinstance(argument, (Buffer, np.ndarray)):
        raise ArgumentMismatch(f"must be a number ({type_}), not {type(argument).__name__}")
    if isinstance(argument, (bool, np.bool_)) and type_.kind != "bool":
        raise ArgumentMismatch(
            f"must be a number ({type_}), not {argument}, which is a truth value"
        )
    if type_.kind == "float":
        return _float(argument, type_)
    try:
        number = operator.index(argument)
    except Exception:
        # `__index__` of a foreign class may raise anything.
        if isinstance(argument, np.bool_):
            number = int(argument)
        else:
            raise ArgumentMismatch(
                f"must be a whole number ({type_}), not {shown(argument)}"
            ) from None
    low, high = (0, 1) if type_.kind == "bool" else _INTEGER_RANGES[type_.name]
    if not low <= number <= high:
        raise ArgumentMismatch(f"is {number}, which {type_} cannot hold ({low} to {high})")
    return number


def _float(argument: object, type_: Type) -> float:
    if not isinstance(argument, (int, float, np.integer, np.floating)):
        raise ArgumentMismatch(f"must be a number ({type_}), not {type(argument).__name__}")
    try:
        number = float(argument)
        struct.pack("<f" if type_.bits == 32 else "<d", number)
    except OverflowError:
        raise ArgumentMismatch(f"is {argument}, which {type_} cannot hold") from None
    return number
