"""Type rules of ops whose types a signature cannot state; a row's `type_rule` names its function.

Each raises VerificationFailure if operands, results, attributes or regions do not fit the op.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Function, Op
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value
from quod.kernel.ops.tile import IN_TILES, MBARRIER_COUNTS, REGISTER_COUNTS, SHORT
from quod.wording import alternatives

_type_of = attrgetter("type")


def types_of(values: Sequence[Value]) -> tuple[Type, ...]:
    return tuple(map(_type_of, values))


def names_of(kinds: Sequence[Type]) -> str:
    return "(" + ", ".join(kind.name for kind in kinds) + ")"


def _fail(op: Op, message: str) -> VerificationFailure:
    return VerificationFailure(message, op.location)


def _check_counts(op: Op, operands: int, results: int) -> None:
    for noun, expected, actual in (
        ("operands", operands, len(op.operands)),
        ("results", results, len(op.results)),
    ):
        if expected != actual:
            raise _fail(op, f"{op.name} has {expected} {noun}, not {actual}")


def constant(op: Op) -> None:
    _check_counts(op, 0, 1)
    type_, value = op.results[0].type, op.attributes.get("value")
    if type_ is types.bool_:
        fits = isinstance(value, bool)
    elif type_.is_integer:
        low = -(1 << (type_.bits - 1)) if type_.kind == "signed" else 0
        high = 1 << (type_.bits - (type_.kind == "signed"))
        fits = type(value) is int and low <= value < high
    else:
        fits = type_.kind == "float" and isinstance(value, float)
    if not fits or type_ not in types.SCALARS:
        raise _fail(op, f"{value!r} is no constant of type {type_}")


def conversion(op: Op) -> None:
    _check_counts(op, 1, 1)
    source, target = op.operands[0].type, op.results[0].type
    if source not in types.SCALARS or target not in types.SCALARS:
        raise _fail(op, f"cannot convert {source} to {target}")


def bitcast(op: Op) -> None:
    _check_counts(op, 1, 1)
    source, target = op.operands[0].type, op.results[0].type
    are_numbers = source in types.NUMBERS and target in types.NUMBERS
    if not are_numbers or source.bits != target.bits:
        raise _fail(op, f"cannot take the bits of {source} as {target}")


def _pointer(op: Op) -> PointerType:
    if not op.operands or not isinstance(op.operands[0].type, PointerType):
        first_type = op.operands[0].type if op.operands else "nothing"
        raise _fail(op, f"{op.name} needs a pointer, not {first_type}")
    return op.operands[0].type


def _indexed_pointer(op: Op) -> PointerType:
    """Return the pointer of an op whose first operands are a pointer and an index."""
    pointer = _pointer(op)
    if len(op.operands) < 2 or op.operands[1].type not in types.UNSIGNED:
        index_type = op.operands[1].type if len(op.operands) > 1 else "nothing"
        raise _fail(op, f"the index of {op.name} must be u32 or u64, not {index_type}")
    return pointer


def pointer_cast(op: Op) -> None:
    _check_counts(op, 1, 1)
    source, target = _pointer(op), op.results[0].type
    if not isinstance(target, PointerType) or source.space != target.space:
        raise _fail(op, f"cannot cast {source} to {target}")


def pointer_add(op: Op) -> None:
    _check_counts(op, 2, 1)
    if op.results[0].type is not _indexed_pointer(op):
        raise _fail(op, f"pointer_add gives {_indexed_pointer(op)}, not {op.results[0].type}")


def _element(op: Op) -> Type:
    """Return the type of the values that a load or store through the op's pointer moves."""
    element = _indexed_pointer(op).element
    if element in types.NARROW_FLOATS:
        bits = types.bits_type(element)
        raise _fail(op, f"{element} is in memory as {bits}: {op.name} through a pointer to that")
    return types.loaded_type(element)


def load(op: Op) -> None:
    element = _element(op)
    _check_counts(op, 2, max(1, len(op.results)))
    if any(result.type is not element for result in op.results):
        raise _fail(
            op,
            f"load through {_indexed_pointer(op)} gives {element}, not "
            f"{names_of(types_of(op.results))}",
        )
    if op.attributes.get("count") != len(op.results):
        raise _fail(
            op, f"load of {op.attributes.get('count')} elements with {len(op.results)} results"
        )


def _refuse_constant(op: Op) -> None:
    if types.is_constant(_pointer(op)):
        raise _fail(op, "a table is only read: copy it to shared or private memory to change it")


def store(op: Op) -> None:
    _refuse_constant(op)
    element = _element(op)
    _check_counts(op, max(3, len(op.operands)), 0)
    values = types_of(op.operands[2:])
    if any(type_ is not element for type_ in values):
        raise _fail(
            op, f"store through {_indexed_pointer(op)} takes {element}, not {names_of(values)}"
        )


def atomic(op: Op) -> None:
    _refuse_constant(op)
    element = _indexed_pointer(op).element
    _check_counts(op, len(op.definition.operands), 1)
    if element not in types.UNSIGNED:
        raise _fail(op, f"{op.name} works on u32 and u64, not on {element}")
    for value in (*op.operands[2:], op.results[0]):
        if value.type is not element:
            raise _fail(
                op, f"{op.name} through {_indexed_pointer(op)} works on {element}, not {value.type}"
            )


def copy_async(op: Op) -> None:
    """Check an asynchronous copy, with an optional condition."""
    _check_counts(op, len(op.definition.operands), 0)
    shared, target_index, source, source_index, *condition = types_of(op.operands)
    if any(kind is not types.bool_ for kind in condition):
        raise _fail(op, f"the condition of {op.name} must be bool, not {condition[0]}")
    if not (
        isinstance(shared, PointerType)
        and isinstance(source, PointerType)
        and (source.space, shared.space) == ("global", "shared")
    ):
        raise _fail(
            op, f"copy_async copies from global to shared memory, not from {source} to {shared}"
        )
    if shared.element is not source.element:
        raise _fail(op, f"copy_async copies elements of one type, not {source} to {shared}")
    for index in (target_index, source_index):
        if index not in types.UNSIGNED:
            raise _fail(op, f"the index of copy_async must be u32 or u64, not {index}")
    count = op.attributes.get("count")
    if type(count) is not int or count * shared.element.bytes not in (4, 8, 16):
        raise _fail(
            op, f"copy_async copies 4, 8 or 16 bytes, not {count} elements of {shared.element}"
        )


def load_matrices(op: Op) -> None:
    _check_counts(op, 2, 4)
    pointer, index = types_of(op.operands)
    if pointer is not types.pointer(types.u32, "shared") or index is not types.u32:
        raise _fail(
            op, f"{op.name} takes a pointer to u32 in shared memory and a u32, not "
            f"{names_of((pointer, index))}",
        )  # fmt: skip
    if any(result.type is not types.u32 for result in op.results):
        raise _fail(op, f"{op.name} gives u32, not {names_of(types_of(op.results))}")


def named_barrier(op: Op) -> None:
    _check_counts(op, 0, 0)
    number, count = op.attributes.get("number"), op.attributes.get("count")
    if type(number) is not int or not 1 <= number <= 15:
        raise _fail(op, f"a named barrier has a number from 1 to 15, not {number}")
    if type(count) is not int or count < 1:
        raise _fail(op, f"a named barrier is of a whole number of instances, not {count}")


def registers(op: Op) -> None:
    _check_counts(op, 0, 0)
    count = op.attributes.get("count")
    if type(count) is not int or count not in REGISTER_COUNTS:
        raise _fail(op, f"an instance gets 24 to 256 registers, a multiple of 8, not {count}")


def store_matrices(op: Op) -> None:
    pointer, words = types.pointer(types.u32, "shared"), op.operands[2:]
    if len(words) not in (1, 2, 4):
        raise _fail(op, f"{op.name} stores 1, 2 or 4 matrices, not {len(words)}")
    _check_counts(op, 2 + len(words), 0)
    _expect(op, [pointer, types.u32, *[types.u32] * len(words)])
    if type(op.attributes.get("transposed")) is not bool:
        raise _fail(op, f"{op.name} says whether matrices are transposed")


def copy_async_wait(op: Op) -> None:
    _check_counts(op, 0, 0)
    pending = op.attributes.get("pending")
    if type(pending) is not int or not 0 <= pending < 1 << 16:
        raise _fail(op, f"0 to 65535 groups of copies may be pending, not {pending}")


def _expect(op: Op, expected: Sequence[Type]) -> None:
    actual = types_of(op.operands)
    if actual != tuple(expected):
        raise _fail(op, f"{op.name} takes {names_of(expected)}, not {names_of(actual)}")


_BLOCK_DISTANCES = range(0, 1 << 16, 256)
"""The valid distances in words between blocks of a matrix in shared memory."""


def cluster_barrier(op: Op) -> None:
    _check_counts(op, 0, 0)
    if type(op.attributes.get("memory")) is not bool:
        raise _fail(op, "cluster_barrier says whether it orders loads and stores")


def with_mbarrier(op: Op) -> None:
    _check_counts(op, len(op.definition.operands), 0)
    other_types = [types.u32] * (len(op.operands) - 1)
    _expect(op, [types.pointer(types.u64, "shared"), *other_types])


def mbarrier_init(op: Op) -> None:
    with_mbarrier(op)
    count = op.attributes.get("count")
    if type(count) is not int or count not in MBARRIER_COUNTS:
        raise _fail(op, f"a phase of an mbarrier has 1 to {MBARRIER_COUNTS[-1]} arrivals")


def tensor_map_acquire(op: Op) -> None:
    _expect(op, [types.pointer(types.u64)])


def copy_tile(op: Op) -> None:
    _check_counts(op, 12, 0)
    shared_pointers = [types.pointer(types.u32, "shared"), types.pointer(types.u64, "shared")]
    global_pointers = [types.pointer(types.u64), types.pointer(types.u32)]
    _expect(
        op,
        [
            shared_pointers[0],
            types.u32,
            shared_pointers[1],
            types.u32,
            *global_pointers,
            *[types.u32] * 6,
        ],
    )
    lines = op.attributes.get("lines")
    if type(lines) is not int or not 8 <= lines <= 256 or lines % 8:
        raise _fail(op, f"a tile has 8 to 256 lines, a multiple of 8, not {lines}")
    if type(op.attributes.get("multicast")) is not bool:
        raise _fail(op, "copy_tile says whether it is for the whole cluster")


def mma_tiles(op: Op) -> None:
    _product(op, [types.pointer(types.u32, "shared"), types.u32], "ab", IN_TILES)
    element = op.attributes["element"]
    if element in (*SHORT, "f32") and (op.attributes["a_along"] or op.attributes["b_along"]):
        raise _fail(op, f"tiles of {element} have lines along K")
    # PTX ISA 9.0, "wgmma.mma_async": for i8, n (two per sum) is a multiple of 16 above 32.
    if element == "i8" and len(op.results) > 16 and len(op.results) % 8:
        raise _fail(
            op,
            f"of i8 an instance with more than 16 sums has a multiple of 8, not {len(op.results)}",
        )


def mma_rows(op: Op) -> None:
    _product(op, [types.u32] * 4, "b", ("f16", "bf16"))


def _product(op: Op, a_types: Sequence[Type], tiles: str, elements: Sequence[str]) -> None:
    """Check a product; `a_types` are the types of A's operands, `tiles` the factors in tiles."""
    element = op.attributes.get("element")
    if element not in elements:
        raise _fail(op, f"products are of {alternatives(elements)}, not of {element}")
    expected_types = [*a_types, types.pointer(types.u32, "shared"), types.u32]
    sums = op.operands[len(expected_types) :]
    _expect(op, [*expected_types, *[types.i32 if element == "i8" else types.f32] * len(sums)])
    if types_of(op.results) != types_of(sums):
        raise _fail(op, f"{op.name} gives its sums, not {names_of(types_of(op.results))}")
    if not 4 <= len(sums) <= 128 or len(sums) % 4:
        raise _fail(op, f"an instance has 4 to 128 sums, a multiple of 4, not {len(sums)}")
    for name in tiles:
        is_along, distance = op.attributes.get(f"{name}_along"), op.attributes.get(f"{name}_apart")
        if (
            type(is_along) is not bool
            or type(distance) is not int
            or distance not in _BLOCK_DISTANCES
        ):
            raise _fail(
                op, f"{name}_along is a bool, and {name}_apart a multiple of 256 words below 65536"
            )


def mma_wait(op: Op) -> None:
    _check_counts(op, len(op.operands), len(op.operands))
    if types_of(op.operands) != types_of(op.results):
        raise _fail(op, "mma_wait gives what it takes")
    pending = op.attributes.get("pending")
    if type(pending) is not int or not 0 <= pending <= 7:
        raise _fail(op, f"0 to 7 groups of products may be pending, not {pending}")


def prefetch(op: Op) -> None:
    _indexed_pointer(op)
    _check_counts(op, 2, 0)
    count = op.attributes.get("count")
    if type(count) is not int or count < 1:
        raise _fail(op, f"prefetch is for at least one element, not {count}")


def array(op: Op) -> None:
    """Check the declaration of an array in the memory space that the op is named after."""
    _check_counts(op, 0, 1)
    result, count = op.results[0].type, op.attributes.get("count")
    if not isinstance(result, PointerType) or result.space != op.definition.declares:
        space = op.definition.declares
        raise _fail(op, f"{op.name} gives a pointer to {space} memory, not {result}")
    if type(count) is not int or count < 1:
        raise _fail(op, f"{op.name} memory holds at least one element, not {count}")
    alignment = op.attributes.get("alignment", 16)
    if type(alignment) is not int or alignment not in _ALIGNMENTS:
        raise _fail(op, f"an array begins at a multiple of one of {_ALIGNMENTS}, not {alignment}")


_ALIGNMENTS = (16, 128, 1024)


def table(op: Op) -> None:
    array(op)
    element, data = _result_pointer(op).element, op.attributes.get("data")
    digit_count = 2 * element.bytes * int(op.attributes["count"])
    if not isinstance(data, str) or len(data) != digit_count or not set(data) <= set(_DIGITS):
        raise _fail(
            op, f"a table of {op.attributes['count']} {element} has {digit_count} digits of hex"
        )


_DIGITS = "0123456789abcdef"


def _result_pointer(op: Op) -> PointerType:
    """Return the type of the pointer that an op returns."""
    result = op.results[0].type
    assert isinstance(result, PointerType)
    return result


def shown(op: Op) -> None:
    _check_counts(op, len(op.operands), 0)
    for operand in op.operands:
        if operand.type not in types.SCALARS:
            raise _fail(op, f"print shows numbers, not {operand.type}")
    text = op.attributes.get("text")
    text_parts = (
        text.replace("{{", "").replace("}}", "").split("{}") if isinstance(text, str) else []
    )
    if len(text_parts) != len(op.operands) + 1 or any(
        brace in "".join(text_parts) for brace in "{}"
    ):
        raise _fail(op, "the text of print has a {} for each of its numbers, and {{ for a brace")


def call(op: Op) -> None:
    function = op.attributes.get("function")
    if not isinstance(function, Function):
        raise _fail(op, "call names no function")
    for what, expected, actual in (
        ("takes", types_of(function.block.arguments), types_of(op.operands)),
        ("gives", function.result_types, types_of(op.results)),
    ):
        if expected != actual:
            raise _fail(op, f"{function.name} {what} {names_of(expected)}, not {names_of(actual)}")


def _regions(op: Op, count: int) -> None:
    if len(op.regions) != count:
        raise _fail(op, f"{op.name} has {count} regions, not {len(op.regions)}")


def _signature(op: Op, what: str, values: Sequence[Value], expected: Sequence[Type]) -> None:
    if types_of(values) != tuple(expected):
        raise _fail(
            op,
            f"{what} of {op.name} must be {names_of(expected)}, not {names_of(types_of(values))}",
        )


def branch(op: Op) -> None:
    _check_counts(op, 1, len(op.results))
    _regions(op, 2)
    if op.operands[0].type is not types.bool_:
        raise _fail(op, f"the condition of if must be bool, not {op.operands[0].type}")
    for region in op.regions:
        _signature(op, "the region arguments", region.arguments, ())
        _yields(op, region, types_of(op.results))


def counted_loop(op: Op) -> None:
    _regions(op, 1)
    _check_counts(op, max(3, len(op.operands)), max(0, len(op.operands) - 3))
    bounds, initial = types_of(op.operands[:3]), types_of(op.operands[3:])
    if bounds[0] not in types.INTEGERS or bounds != (bounds[0],) * 3:
        raise _fail(op, f"the bounds of for must be of one integer type, not {names_of(bounds)}")
    _signature(op, "the results", op.results, initial)
    _signature(op, "the region arguments", op.regions[0].arguments, [bounds[0], *initial])
    _yields(op, op.regions[0], initial)


def checked_loop(op: Op) -> None:
    _regions(op, 2)
    head, body = op.regions
    carried = types_of(op.operands)
    _signature(op, "the results", op.results, carried)
    _signature(op, "the arguments of the first region", head.arguments, carried)
    _signature(op, "the arguments of the second region", body.arguments, ())
    _yields(op, head, [types.bool_])
    _yields(op, body, carried)


def _yields(op: Op, region: Block, expected: Sequence[Type]) -> None:
    if not region.ops or region.ops[-1].name != "yield":
        raise _fail(op, f"a region of {op.name} ends without a yield")
    actual = types_of(region.yielded)
    if actual != tuple(expected):
        raise VerificationFailure(
            f"a region of {op.name} must yield {names_of(expected)}, not {names_of(actual)}",
            region.ops[-1].location,
        )


def region_end(op: Op) -> None:
    _check_counts(op, len(op.operands), 0)
