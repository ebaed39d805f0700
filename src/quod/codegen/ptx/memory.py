"""PTX rules of the ops that access memory.

Consecutive elements are loaded and stored up to 16 bytes at a time if the address is known to be
aligned accordingly. All buffers and shared arrays are aligned to 16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from quod.codegen.ptx.body import BodyEmitter, Rule
from quod.codegen.ptx.facts import MOST, power_of_two
from quod.codegen.ptx.machine import has_dependent_launch
from quod.codegen.ptx.types import register_kind
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value

WIDEST = 16
"""The width of the widest access in bytes."""

_LINE = 128  # bytes of a cache line
_OFFSET_LIMIT = 1 << 31  # beyond the offsets that an address operand takes


def _pointer_type(pointer: Value) -> PointerType:
    assert isinstance(pointer.type, PointerType)
    return pointer.type


_SPACES = {"global": "global", "shared": "shared", "private": "local", "constant": "global"}
"""The PTX state spaces. Tables are in global memory: `.const` is slow for divergent indices."""


def _is_near(pointer: PointerType) -> bool:
    """Return whether addresses of the pointer's memory have 32 bits."""
    return pointer.space in ("shared", "private")


def _memory_suffix(element: Type) -> str:
    """Return the type suffix for accesses to an element; a bool is a byte.

    The element is extended to its register.
    """
    if element.kind == "float":
        return element.name
    extended = element in types.STORAGE and element.kind == "signed"
    return f"{'s' if extended else 'u'}{8 * element.bytes}"


class Address:
    """A register plus a byte offset, with the sum's `residue` modulo a power of two `multiple`."""

    def __init__(self, register: str, offset: int, multiple: int, residue: int) -> None:
        self._register = register
        self._offset = offset
        self._multiple = multiple
        self._residue = residue

    def text(self, further: int = 0) -> str:
        """Return the operand text of the address `further` bytes on."""
        offset = self._offset + further
        return f"[{self._register}{offset:+d}]" if offset else f"[{self._register}]"

    def parts(self) -> tuple[str, int]:
        """Return the register and the offset."""
        return self._register, self._offset

    def multiple(self, further: int) -> int:
        """Return the power of two known to divide the address `further` bytes on."""
        return min(self._multiple, power_of_two(self._residue + further))


def _split(body: BodyEmitter, pointer: PointerType, index: Value) -> tuple[Value | None, int]:
    """Split an index into a variable part, if any, and a constant.

    Global addresses wrap modulo 2**64, shared ones modulo 2**32. A 32-bit sum that indexes global
    memory is split only if it cannot wrap.
    """
    constant = 0
    while True:
        number = index.constant
        if number is not None:
            return None, constant + int(number)
        op = index.op
        if op is not None and op.name == "convert" and op.operands[0].type is types.u32:
            index = op.operands[0]
            continue
        if op is None or op.name != "add":
            return index, constant
        a, b = op.operands
        if a.constant is not None:
            a, b = b, a
        if b.constant is None:
            return index, constant
        step = int(b.constant)
        modular = index.type.bits == 64 or _is_near(pointer)
        if not modular and body.facts.maximum(a) + step >= 1 << 32:
            return index, constant
        if constant + step >= 1 << 24:
            return index, constant
        index, constant = a, constant + step


def _residue(body: BodyEmitter, index: Value) -> tuple[int, int]:
    """Return a power of two and the index modulo it, which wrapping preserves."""
    constant = 0
    while True:
        op = index.op
        if op is not None and op.name == "convert" and op.operands[0].type is types.u32:
            index = op.operands[0]
        elif op is not None and op.name == "add" and op.operands[1].constant is not None:
            index = op.operands[0]
            constant += int(op.operands[1].constant)
        elif index.constant is not None:
            return MOST, constant + int(index.constant)
        else:
            return body.facts.multiple(index), constant


def _scaled(body: BodyEmitter, base: str, index: Value, size: int, *, is_near: bool) -> str:
    """Emit the address `index` elements of `size` bytes after `base`."""
    index_text = body.get(index)
    if is_near:
        if index.type.bits == 64:
            index_text = body.shared_result("r", "cvt.u32.u64", index_text)
        if size == 1:
            return body.shared_result("r", "add.u32", f"{base}, {index_text}")
        return body.shared_result("r", "mad.lo.u32", f"{index_text}, {size}, {base}")
    if index.type.bits == 32:
        return body.shared_result("rd", "mad.wide.u32", f"{index_text}, {size}, {base}")
    if size > 1:
        index_text = body.shared_result("rd", "shl.b64", f"{index_text}, {size.bit_length() - 1}")
    return body.shared_result("rd", "add.u64", f"{base}, {index_text}")


def address_of(body: BodyEmitter, pointer: Value, index: Value) -> Address:
    """Emit the address of pointer[index]."""
    pointer_type = _pointer_type(pointer)
    size, is_near = pointer_type.element.bytes, _is_near(pointer_type)
    base = body.get(pointer)
    index_multiple, residue = _residue(body, index)
    multiple = min(body.facts.multiple(pointer), index_multiple * size)
    variable_index, constant = _split(body, pointer_type, index)
    offset = constant * size
    if variable_index is not None:
        base = _scaled(body, base, variable_index, size, is_near=is_near)
    if offset >= _OFFSET_LIMIT:
        register, name = ("r", "add.u32") if is_near else ("rd", "add.u64")
        base = body.shared_result(register, name, f"{base}, {offset}")
        offset = 0
    return Address(base, offset, multiple, residue * size)


def _accesses(address: Address, count: int, size: int) -> Iterator[tuple[int, int]]:
    """Split a run of elements into accesses; yields (first, count) of each."""
    start = 0
    while start < count:
        alignment = address.multiple(start * size)
        max_count = min(alignment // size, WIDEST // size, count - start)
        width = 4 if max_count >= 4 else 2 if max_count >= 2 else 1
        yield start, width
        start += width


def _load(body: BodyEmitter, op: Op) -> None:
    pointer, index = op.operands
    pointer_type = _pointer_type(pointer)
    element = pointer_type.element
    address = address_of(body, pointer, index)
    suffix = _memory_suffix(element)
    register = "r" if element is types.bool_ else register_kind(element)
    for first, width in _accesses(address, len(op.results), element.bytes):
        registers = [body.new(register) for _ in range(width)]
        vector, target = _vector(registers)
        access_address = address.text(first * element.bytes)
        body.line(f"ld.{_SPACES[pointer_type.space]}{vector}.{suffix} {target}, {access_address};")
        for result, loaded in zip(op.results[first : first + width], registers, strict=True):
            if element is types.bool_:
                body.define(result, "setp.ne.u32", f"{loaded}, 0")
            else:
                body.names[result] = loaded


def _vector(registers: list[str]) -> tuple[str, str]:
    """Return the modifier and operand text of an access to one or more registers."""
    if len(registers) == 1:
        return "", registers[0]
    return f".v{len(registers)}", f"{{{', '.join(registers)}}}"


def _store(body: BodyEmitter, op: Op) -> None:
    pointer, index, *values = op.operands
    pointer_type = _pointer_type(pointer)
    element = pointer_type.element
    address = address_of(body, pointer, index)
    suffix = _memory_suffix(element)
    if element is types.bool_:
        stored = [body.fresh("r", "selp.b32", f"1, 0, {body.get(value)}") for value in values]
    else:
        stored = [body.register(value) for value in values]
    for first, width in _accesses(address, len(values), element.bytes):
        vector, source = _vector(stored[first : first + width])
        access_address = address.text(first * element.bytes)
        body.line(f"st.{_SPACES[pointer_type.space]}{vector}.{suffix} {access_address}, {source};")


def _atomic(operation: str) -> Rule:
    """Make the rule of an atomic operation."""

    def rule(body: BodyEmitter, op: Op) -> None:
        pointer, index, *values = op.operands
        (result,) = op.results
        space = _SPACES[_pointer_type(pointer).space]
        address = address_of(body, pointer, index).text()
        operands = ", ".join([address, *(body.register(value) for value in values)])
        body.define(result, f"atom.{space}.{operation}{result.type.bits}", operands)

    return rule


def _fence(body: BodyEmitter, op: Op) -> None:
    body.line("membar.gl;")


def _copy_async(body: BodyEmitter, op: Op) -> None:
    """Emit cp.async; copies of 16 bytes bypass L1, as each byte is read once."""
    target, target_index, source, source_index, *condition = op.operands
    body.require(op, (7, 0), 80)
    size = _pointer_type(source).element.bytes * int(op.attributes["count"])
    dst = address_of(body, target, target_index).text()
    src = address_of(body, source, source_index).text()
    cache = "cg" if size == WIDEST else "ca"
    # cp.async zero-fills beyond the source size, which is 0 where the condition is false.
    read_size = [body.fresh("r", "selp.b32", f"{size}, 0, {body.get(c)}") for c in condition]
    body.line(f"cp.async.{cache}.shared.global {', '.join([dst, src, str(size), *read_size])};")


def _copy_async_commit(body: BodyEmitter, op: Op) -> None:
    body.require(op, (7, 0), 80)
    body.line("cp.async.commit_group;")


def _copy_async_wait(body: BodyEmitter, op: Op) -> None:
    body.require(op, (7, 0), 80)
    body.line(f"cp.async.wait_group {op.attributes['pending']};")


def _launches(instruction: str) -> Rule:
    """Make the rule of a griddepcontrol op; nothing on architectures without it."""

    def rule(body: BodyEmitter, op: Op) -> None:
        if has_dependent_launch(body.module.architecture.name):
            body.line(f"griddepcontrol.{instruction};")

    return rule


def _prefetch(body: BodyEmitter, op: Op) -> None:
    """Emit prefetches of global memory to L2; other spaces need none."""
    pointer, index = op.operands
    pointer_type = _pointer_type(pointer)
    if pointer_type.space != "global":
        return
    address = address_of(body, pointer, index)
    last_byte = (int(op.attributes["count"]) - 1) * pointer_type.element.bytes
    for byte_offset in sorted({*range(0, last_byte + 1, _LINE), last_byte}):
        body.line(f"prefetch.global.L2 {address.text(byte_offset)};")


def _pointer_cast(body: BodyEmitter, op: Op) -> None:
    body.names[op.results[0]] = body.get(op.operands[0])


def _pointer_add(body: BodyEmitter, op: Op) -> None:
    """Emit pointer + index; its alignment is tracked by `Facts`."""
    pointer, index = op.operands
    pointer_type = _pointer_type(pointer)
    is_near, size = _is_near(pointer_type), pointer_type.element.bytes
    if index.constant is not None:
        name = "add.u32" if is_near else "add.u64"
        text = f"{body.get(pointer)}, {int(index.constant) * size}"
        body.define(op.results[0], name, text)
        return
    if index.op is not None and index.op.name == "convert":
        source = index.op.operands[0]
        index = source if source.type is types.u32 else index
    base = body.get(pointer)
    body.names[op.results[0]] = _scaled(body, base, index, size, is_near=is_near)


def _shared(body: BodyEmitter, op: Op) -> None:
    (result,) = op.results
    offset = body.module.place_shared(op)
    body.define(result, "mov.u32", f"shared_memory+{offset}" if offset else "shared_memory")


def _private(body: BodyEmitter, op: Op) -> None:
    (result,) = op.results
    nbytes = _pointer_type(result).element.bytes * int(op.attributes["count"])
    body.define(result, "mov.u32", body.private_array(nbytes))


def _table(body: BodyEmitter, op: Op) -> None:
    data = bytes.fromhex(op.attributes["data"])
    body.define(op.results[0], "mov.u64", body.module.table(data))


RULES: dict[str, Rule] = {
    "load": _load,
    "store": _store,
    "atomic_add": _atomic("add.u"),
    "atomic_max": _atomic("max.u"),
    "atomic_min": _atomic("min.u"),
    "atomic_or": _atomic("or.b"),
    "atomic_exchange": _atomic("exch.b"),
    "atomic_compare_exchange": _atomic("cas.b"),
    "fence": _fence,
    "copy_async": _copy_async,
    "copy_async_or_zero": _copy_async,
    "copy_async_commit": _copy_async_commit,
    "copy_async_wait": _copy_async_wait,
    "dependency_wait": _launches("wait"),
    "launch_dependents": _launches("launch_dependents"),
    "prefetch": _prefetch,
    "pointer_cast": _pointer_cast,
    "pointer_add": _pointer_add,
    "shared": _shared,
    "private": _private,
    "table": _table,
}
