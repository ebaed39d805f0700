"""LLVM rules of the ops that access memory.

Lanes that read consecutive elements use one vector load. A lane that reads several consecutive
64-bit words (a field element) loads them as one short vector, and the lanes' vectors are transposed
in registers. Other accesses are gathers and scatters. Inactive lanes are masked, or redirected to
scratch memory if the access has no mask.
"""

from __future__ import annotations

from quod.codegen.llvm.addresses import (
    alignment,
    consecutive_address,
    element_of,
    interleaved_address,
    lane_addresses,
    offset_address,
    offset_addresses,
    scalar_address,
    varying_addresses,
    vector_addresses,
)
from quod.codegen.llvm.body import BodyEmitter, Rule
from quod.codegen.llvm.private_arrays import (
    interleaved_alignment,
    store_active_lanes,
)
from quod.codegen.llvm.types import memory_name
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value


def _widen(body: BodyEmitter, element: Type, kind: str, operand: str, *, varying: bool) -> str:
    """Convert an element in memory to the value that a load returns."""
    if element in types.STORAGE:
        target = body.vector("i32") if varying else "i32"
        extended = "sext" if element.kind == "signed" else "zext"
        return body.fresh(f"{extended} {kind} {operand} to {target}")
    if element is types.bool_:
        target = body.vector("i1") if varying else "i1"
        return body.fresh(f"trunc {kind} {operand} to {target}")
    return operand


def _narrow(body: BodyEmitter, value: Value, element: Type, *, varying: bool) -> str:
    operand = body.get(value, varying=varying)
    name = memory_name(element)
    target = body.vector(name) if varying else name
    if element in types.STORAGE:
        return body.fresh(f"trunc {body.type_of(value, varying=varying)} {operand} to {target}")
    if element is types.bool_:
        return body.fresh(f"zext {body.type_of(value, varying=varying)} {operand} to {target}")
    return operand


def _load(body: BodyEmitter, op: Op) -> None:
    pointer, index = op.operands
    element = element_of(pointer)
    name, align = memory_name(element), alignment(element)
    if not (body.is_varying(pointer) or body.is_varying(index)):
        address = scalar_address(body, pointer, index)
        for offset, result in enumerate(op.results):
            element_address = offset_address(body, address, name, offset)
            loaded = body.fresh(f"load {name}, ptr {element_address}, align {align}")
            body.names[result] = _widen(body, element, name, loaded, varying=False)
        return
    kind = body.vector(name)
    if pointer in body.interleaved:
        for offset, result in enumerate(op.results):
            address = interleaved_address(body, pointer, index, offset)
            if body.is_varying(index):
                loaded = gather(body, kind, name, address, align)
            else:
                align = interleaved_alignment(body, element)
                loaded = body.fresh(f"load {kind}, ptr {address}, align {align}")
            body.names[result] = _widen(body, element, kind, loaded, varying=True)
        return
    if _is_row(body, element, len(op.results)):
        _load_rows(body, op, element)
        return
    consecutive = body.strides.of(index) == 1 and not body.is_varying(pointer)
    if consecutive and len(op.results) == 1:
        address = consecutive_address(body, pointer, index)
        if body.mask is None:
            loaded = body.fresh(f"load {kind}, ptr {address}, align {align}")
        else:
            loaded = _masked_load(body, kind, address, align)
        body.names[op.results[0]] = _widen(body, element, kind, loaded, varying=True)
        return
    addresses = vector_addresses(body, pointer, index)
    for offset, result in enumerate(op.results):
        element_addresses = offset_addresses(body, addresses, name, offset)
        loaded = gather(body, kind, name, element_addresses, align)
        body.names[result] = _widen(body, element, kind, loaded, varying=True)


def _suffix(body: BodyEmitter, name: str) -> str:
    return f"v{body.lanes}{ {'float': 'f32', 'double': 'f64'}.get(name, name) }"


def mask_text(body: BodyEmitter) -> str:
    return f"{body.vector('i1')} {body.mask or 'splat (i1 true)'}"


def _masked_load(body: BodyEmitter, kind: str, address: str, align: int) -> str:
    name = f"@llvm.masked.load.{_suffix(body, kind[1:-1].partition(' x ')[2])}.p0"
    body.module.declare(f"{kind} {name}(ptr, i32, {body.vector('i1')}, {kind})")
    return body.fresh(
        f"call {kind} {name}(ptr {address}, i32 {align}, {mask_text(body)}, {kind} zeroinitializer)"
    )


def gather(body: BodyEmitter, kind: str, name: str, addresses: str, align: int) -> str:
    """Emit a load from the address of each active lane."""
    function = f"@llvm.masked.gather.{_suffix(body, name)}.v{body.lanes}p0"
    pointers = body.vector("ptr")
    body.module.declare(f"{kind} {function}({pointers}, i32, {body.vector('i1')}, {kind})")
    return body.fresh(
        f"call {kind} {function}({pointers} {addresses}, i32 {align}, {mask_text(body)}, "
        f"{kind} zeroinitializer)"
    )


def scatter(body: BodyEmitter, name: str, values: str, addresses: str, align: int) -> None:
    """Emit a store of each active lane's value to its address."""
    kind, pointers = body.vector(name), body.vector("ptr")
    function = f"@llvm.masked.scatter.{_suffix(body, name)}.v{body.lanes}p0"
    body.module.declare(f"void {function}({kind}, {pointers}, i32, {body.vector('i1')})")
    body.line(
        f"call void {function}({kind} {values}, {pointers} {addresses}, i32 {align}, "
        f"{mask_text(body)})"
    )


def _chunks(count: int) -> list[tuple[int, int]]:
    """Split a run of words into chunks of 4, 2 and 1; returns (start, size) of each."""
    chunks, start = [], 0
    while start < count:
        size = next(size for size in (4, 2, 1) if start + size <= count)
        chunks.append((start, size))
        start += size
    return chunks


def _shuffle(body: BodyEmitter, kind: str, a: str, b: str, indices: list[int]) -> str:
    mask = ", ".join(f"i32 {index}" for index in indices)
    return body.fresh(f"shufflevector {kind} {a}, {kind} {b}, <{len(indices)} x i32> <{mask}>")


def _pair_shuffles(lanes: int) -> tuple[list[int], list[int]]:
    """Return the shuffles of two vectors that interleave their even and their odd lanes."""
    low, high = (
        [index for lane in range(first, lanes, 2) for index in (lane, lanes + lane)]
        for first in (0, 1)
    )
    return low, high


def _quad_shuffles(lanes: int) -> tuple[list[int], list[int]]:
    """Return the shuffles that interleave the lower and the upper pairs of each four lanes."""
    low, high = (
        [
            index
            for lane in range(first, lanes, 4)
            for index in (lane, lane + 1, lanes + lane, lanes + lane + 1)
        ]
        for first in (0, 2)
    )
    return low, high


def _is_row(body: BodyEmitter, element: Type, count: int) -> bool:
    """Return whether each lane's elements are loaded as a row of 64-bit words and transposed.

    That is so for several 64-bit elements, or an even number of 32-bit integers, and four or eight
    lanes.
    """
    pairs = element in (types.u32, types.i32) and count % 2 == 0
    return body.lanes in (4, 8) and count > 1 and (element.bits == 64 or pairs)


def _load_rows(body: BodyEmitter, op: Op, element: Type) -> None:
    """Emit loads of each lane's words as short vectors, transposed to one vector per word."""
    pointer, index = op.operands
    addresses = lane_addresses(body, pointer, index, len(op.results))
    if element.bits == 64:
        name = memory_name(element)
        words = _transposed_rows(body, addresses, len(op.results), name)
    else:
        words = []
        for word in _transposed_rows(body, addresses, len(op.results) // 2, "i64"):
            wide, narrow = body.vector("i64"), body.vector("i32")
            high = body.fresh(f"lshr {wide} {word}, splat (i64 32)")
            words += [body.fresh(f"trunc {wide} {half} to {narrow}") for half in (word, high)]
    for result, word in zip(op.results, words, strict=True):
        body.names[result] = word


def _transposed_rows(body: BodyEmitter, addresses: list[str], count: int, name: str) -> list[str]:
    """Emit loads of `count` words from each lane's address; returns one vector per word."""
    full, vectors = body.vector(name), []
    for start, size in _chunks(count):
        rows = []
        for address in addresses:
            chunk_address = offset_address(body, address, name, start)
            kind = f"<{size} x {name}>"
            rows.append(body.fresh(f"load {kind}, ptr {chunk_address}, align 4"))
        if size == 4:
            vectors += _transpose_4(body, full, f"<4 x {name}>", rows)
        elif size == 2:
            vectors += _transpose_2(body, full, f"<2 x {name}>", rows)
        else:
            vectors.append(_join(body, f"<1 x {name}>", rows))
    return vectors


def _join(body: BodyEmitter, kind: str, parts: list[str]) -> str:
    """Emit the concatenation of vectors of equal length."""
    size = int(kind[1:].split()[0])
    element = kind[1:-1].partition(" x ")[2]
    while len(parts) > 1:
        indices = list(range(2 * size))
        vector = f"<{size} x {element}>"
        parts = [
            _shuffle(body, vector, parts[i], parts[i + 1], indices) for i in range(0, len(parts), 2)
        ]
        size *= 2
    return parts[0]


def _transpose_4(body: BodyEmitter, full: str, row: str, rows: list[str]) -> list[str]:
    pairs, (low_quads, high_quads) = _pair_shuffles(body.lanes), _quad_shuffles(body.lanes)
    c = [_join(body, row, rows[i::4]) for i in range(4)]
    low01, high01 = (_shuffle(body, full, c[0], c[1], m) for m in pairs)
    low23, high23 = (_shuffle(body, full, c[2], c[3], m) for m in pairs)
    return [
        _shuffle(body, full, low01, low23, low_quads),
        _shuffle(body, full, high01, high23, low_quads),
        _shuffle(body, full, low01, low23, high_quads),
        _shuffle(body, full, high01, high23, high_quads),
    ]


def _transpose_2(body: BodyEmitter, full: str, row: str, rows: list[str]) -> list[str]:
    even = _join(body, row, rows[0::2])
    odd = _join(body, row, rows[1::2])
    return [_shuffle(body, full, even, odd, m) for m in _pair_shuffles(body.lanes)]


def _store(body: BodyEmitter, op: Op) -> None:
    pointer, index, *values = op.operands
    element = element_of(pointer)
    name, align = memory_name(element), alignment(element)
    address_varies = body.is_varying(pointer) or body.is_varying(index)
    if not address_varies and not any(map(body.is_varying, values)):
        address = scalar_address(body, pointer, index)
        for offset, value in enumerate(values):
            element_address = offset_address(body, address, name, offset)
            stored = _narrow(body, value, element, varying=False)
            body.line(f"store {name} {stored}, ptr {element_address}, align {align}")
        return
    kind = body.vector(name)
    if pointer in body.interleaved:
        for offset, value in enumerate(values):
            stored = _narrow(body, value, element, varying=True)
            address = interleaved_address(body, pointer, index, offset)
            if body.is_varying(index):
                scatter(body, name, stored, address, align)
            else:
                align = interleaved_alignment(body, element)
                store_active_lanes(body, kind, stored, address, align)
        return
    if address_varies and _is_row(body, element, len(values)):
        _store_rows(body, pointer, index, values)
        return
    if len(values) == 1 and body.strides.of(index) == 1 and not body.is_varying(pointer):
        address = consecutive_address(body, pointer, index)
        stored = _narrow(body, values[0], element, varying=True)
        if body.mask is None:
            body.line(f"store {kind} {stored}, ptr {address}, align {align}")
        else:
            function = f"@llvm.masked.store.{_suffix(body, name)}.p0"
            body.module.declare(f"void {function}({kind}, ptr, i32, {body.vector('i1')})")
            body.line(
                f"call void {function}({kind} {stored}, ptr {address}, i32 {align}, "
                f"{mask_text(body)})"
            )
        return
    addresses = varying_addresses(body, pointer, index)
    for offset, value in enumerate(values):
        element_addresses = offset_addresses(body, addresses, name, offset)
        scatter(body, name, _narrow(body, value, element, varying=True), element_addresses, align)


def _store_rows(body: BodyEmitter, pointer: Value, index: Value, values: list[Value]) -> None:
    addresses = lane_addresses(body, pointer, index, len(values))
    all_words, element = [body.get(value, varying=True) for value in values], element_of(pointer)
    name = memory_name(element)
    if element.bits == 32:
        all_words, name = _pairs(body, all_words), "i64"
    full = body.vector(name)
    for start, size in _chunks(len(all_words)):
        words = all_words[start : start + size]
        if size == 4:
            rows = _rows_of_4(body, full, words)
        elif size == 2:
            rows = _rows_of_2(body, full, words)
        else:
            rows = [_shuffle(body, full, words[0], "poison", [lane]) for lane in range(body.lanes)]
        for address, row in zip(addresses, rows, strict=True):
            chunk_address = offset_address(body, address, name, start)
            body.line(f"store <{size} x {name}> {row}, ptr {chunk_address}, align 4")


def _pairs(body: BodyEmitter, halves: list[str]) -> list[str]:
    """Combine pairs of vectors of 32-bit integers to vectors of 64-bit words."""
    narrow, full = body.vector("i32"), body.vector("i64")
    wide = [body.fresh(f"zext {narrow} {half} to {full}") for half in halves]
    words = []
    for low, high in zip(wide[::2], wide[1::2], strict=True):
        upper = body.fresh(f"shl {full} {high}, splat (i64 32)")
        words.append(body.fresh(f"or {full} {low}, {upper}"))
    return words


def _rows_of_4(body: BodyEmitter, full: str, words: list[str]) -> list[str]:
    rows = [""] * body.lanes
    for parity, pairs in enumerate(_pair_shuffles(body.lanes)):
        first = _shuffle(body, full, words[0], words[1], pairs)
        second = _shuffle(body, full, words[2], words[3], pairs)
        for half, quads in enumerate(_quad_shuffles(body.lanes)):
            quads_of_lanes = _shuffle(body, full, first, second, quads)
            for start in range(0, body.lanes, 4):
                indices = [*range(start, start + 4)]
                row = _shuffle(body, full, quads_of_lanes, "poison", indices)
                rows[start + parity + 2 * half] = row
    return rows


def _rows_of_2(body: BodyEmitter, full: str, words: list[str]) -> list[str]:
    rows = [""] * body.lanes
    for parity, pairs in enumerate(_pair_shuffles(body.lanes)):
        interleaved = _shuffle(body, full, words[0], words[1], pairs)
        for lane in range(0, body.lanes, 2):
            rows[parity + lane] = _shuffle(body, full, interleaved, "poison", [lane, lane + 1])
    return rows


def _prefetch(body: BodyEmitter, op: Op) -> None:
    pointer, index = op.operands
    body.module.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    if body.is_varying(pointer) or body.is_varying(index):
        addresses = lane_addresses(body, pointer, index, 1)
    else:
        addresses = [scalar_address(body, pointer, index)]
    element = memory_name(element_of(pointer))
    size, count = element_of(pointer).bytes, op.attributes["count"]
    # The first element of each cache line, and the last element, which may be in one more line.
    element_indices = sorted({*range(0, count, max(1, 64 // size)), count - 1})
    for address in addresses:
        for element_index in element_indices:
            line = offset_address(body, address, element, element_index)
            body.line(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")


def _pointer_cast(body: BodyEmitter, op: Op) -> None:
    body.names[op.results[0]] = body.get(op.operands[0])


def _pointer_add(body: BodyEmitter, op: Op) -> None:
    pointer, index = op.operands
    if body.is_varying(op.results[0]):
        body.names[op.results[0]] = vector_addresses(body, pointer, index)
    else:
        body.names[op.results[0]] = scalar_address(body, pointer, index)


def _shared(body: BodyEmitter, op: Op) -> None:
    (result,) = op.results
    name = memory_name(element_of(result))
    body.names[result] = body.allocate(f"[{op.attributes['count']} x {name}]", 64)


def _private(body: BodyEmitter, op: Op) -> None:
    """Allocate an array per lane: one after the other, or interleaved (see `private_arrays`)."""
    (result,) = op.results
    name, count = memory_name(element_of(result)), int(op.attributes["count"])
    arrays = body.allocate(f"[{count * body.lanes} x {name}]", 64)
    if body.lanes == 1 or result in body.interleaved:
        body.names[result] = arrays
        return
    starts = ", ".join(f"i64 {lane * count}" for lane in range(body.lanes))
    body.names[result] = body.fresh(
        f"getelementptr {name}, ptr {arrays}, {body.vector('i64')} <{starts}>"
    )


def _table(body: BodyEmitter, op: Op) -> None:
    element = element_of(op.results[0])
    data = bytes.fromhex(op.attributes["data"])
    numbers = ", ".join(f"i8 {byte}" for byte in data)
    body.names[op.results[0]] = body.module.constant(f"[{len(data)} x i8] [{numbers}]", element)


RULES: dict[str, Rule] = {
    "load": _load,
    "store": _store,
    "prefetch": _prefetch,
    "pointer_cast": _pointer_cast,
    "pointer_add": _pointer_add,
    "shared": _shared,
    "private": _private,
    "table": _table,
}
