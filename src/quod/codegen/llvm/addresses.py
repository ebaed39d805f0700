"""Addresses of memory accesses: of one for all lanes, and of one for each lane."""

from __future__ import annotations

from quod.codegen.llvm.body import BodyEmitter
from quod.codegen.llvm.first_lane import index64_of_lane0
from quod.codegen.llvm.types import memory_name
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value


def element_of(pointer: Value) -> Type:
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def alignment(element: Type) -> int:
    """Return the guaranteed alignment of an element in bytes.

    Arrays may begin at any 32-bit word.
    """
    return min(4, element.bytes)


def index64(body: BodyEmitter, index: Value, *, varying: bool) -> str:
    operand = body.get(index, varying=varying)
    if index.type.bits == 64 or index.constant is not None:
        if index.constant is not None and index.type.bits != 64:
            return f"splat (i64 {index.constant})" if varying else str(index.constant)
        return operand
    wide = body.vector("i64") if varying else "i64"
    return body.fresh(f"zext {body.type_of(index, varying=varying)} {operand} to {wide}")


def scalar_address(body: BodyEmitter, pointer: Value, index: Value) -> str:
    element = memory_name(element_of(pointer))
    index_text = index64(body, index, varying=False)
    return body.fresh(f"getelementptr {element}, ptr {body.get(pointer)}, i64 {index_text}")


def vector_addresses(body: BodyEmitter, pointer: Value, index: Value) -> str:
    element = memory_name(element_of(pointer))
    base = f"{body.type_of(pointer)} {body.get(pointer)}"
    index_text = index64(body, index, varying=True)
    return body.fresh(f"getelementptr {element}, {base}, {body.vector('i64')} {index_text}")


def interleaved_address(body: BodyEmitter, pointer: Value, index: Value, offset: int) -> str:
    """Emit the address of the elements of all lanes, or of each lane's if the index varies."""
    element, first = memory_name(element_of(pointer)), offset * body.lanes
    kind, factor, addend = "i64", str(body.lanes), str(first)
    varying = body.is_varying(index)
    if varying:
        numbers = ", ".join(f"i64 {first + lane}" for lane in range(body.lanes))
        kind, factor, addend = body.vector("i64"), f"splat (i64 {factor})", f"<{numbers}>"
    scaled = body.fresh(f"mul {kind} {index64(body, index, varying=varying)}, {factor}")
    whole_index = body.fresh(f"add {kind} {scaled}, {addend}")
    return body.fresh(f"getelementptr {element}, ptr {body.get(pointer)}, {kind} {whole_index}")


def lane_addresses(body: BodyEmitter, pointer: Value, index: Value, count: int) -> list[str]:
    """Emit an address of `count` elements per lane; inactive lanes get scratch memory."""
    element = memory_name(element_of(pointer))
    stride = body.strides.of(index)
    if body.mask is None and stride is not None and not body.is_varying(pointer):
        lane0 = index64_of_lane0(body, index)
        base = body.fresh(f"getelementptr {element}, ptr {body.get(pointer)}, i64 {lane0}")
        return [
            body.fresh(f"getelementptr {element}, ptr {base}, i64 {lane * stride}")
            for lane in range(body.lanes)
        ]
    addresses = vector_addresses(body, pointer, index)
    kind = body.vector("ptr")
    if body.mask is not None:
        scratch_addresses = body.splat_text(body.scratch(count * element_of(pointer).bytes), "ptr")
        masks = body.vector("i1")
        addresses = body.fresh(
            f"select {masks} {body.mask}, {kind} {addresses}, {kind} {scratch_addresses}"
        )
    return [body.fresh(f"extractelement {kind} {addresses}, i64 {n}") for n in range(body.lanes)]


def consecutive_address(body: BodyEmitter, pointer: Value, index: Value) -> str:
    """Emit lane 0's address of a consecutive access, from the index of the first active lane.

    Lane 0 may be inactive, and its index may then have wrapped around.
    """
    element = memory_name(element_of(pointer))
    kind = body.type_of(index, varying=True)
    vector = body.get(index, varying=True)
    if body.lane0_is_active:
        first_index = index64_of_lane0(body, index)
    else:
        bits = f"i{body.lanes}"
        mask = body.fresh(f"bitcast {body.vector('i1')} {body.mask} to {bits}")
        body.module.declare(f"{bits} @llvm.cttz.{bits}({bits}, i1)")
        narrow = body.fresh(f"call {bits} @llvm.cttz.{bits}({bits} {mask}, i1 true)")
        convert = "zext" if body.lanes < 64 else "trunc"
        lane = narrow if body.lanes == 64 else body.fresh(f"{convert} {bits} {narrow} to i64")
        first_index = body.fresh(f"extractelement {kind} {vector}, i64 {lane}")
        if index.type.bits != 64:
            first_index = body.fresh(f"zext i32 {first_index} to i64")
        first_index = body.fresh(f"sub i64 {first_index}, {lane}")
    return body.fresh(f"getelementptr {element}, ptr {body.get(pointer)}, i64 {first_index}")


def offset_address(body: BodyEmitter, base: str, element: str, offset: int) -> str:
    if offset == 0:
        return base
    return body.fresh(f"getelementptr {element}, ptr {base}, i64 {offset}")


def offset_addresses(body: BodyEmitter, addresses: str, element: str, offset: int) -> str:
    if offset == 0:
        return addresses
    return body.fresh(f"getelementptr {element}, {body.vector('ptr')} {addresses}, i64 {offset}")


def varying_addresses(body: BodyEmitter, pointer: Value, index: Value) -> str:
    """Emit a vector of addresses, also for a uniform address."""
    if body.is_varying(pointer) or body.is_varying(index):
        return vector_addresses(body, pointer, index)
    return body.splat_text(scalar_address(body, pointer, index), "ptr")
