"""LLVM rules of atomic ops, fences and asynchronous copies.

An atomic op is done for one lane after the other; an inactive lane does it in scratch memory. An
asynchronous copy is done at once.
"""

from __future__ import annotations

from quod.codegen.llvm.body import BodyEmitter, Rule
from quod.codegen.llvm.memory import (
    alignment,
    element_of,
    gather,
    offset_address,
    offset_addresses,
    scalar_address,
    scatter,
    varying_addresses,
)
from quod.codegen.llvm.types import memory_name
from quod.kernel.ir import Op

_INSTRUCTIONS = {
    "atomic_add": "add", "atomic_max": "umax", "atomic_min": "umin", "atomic_or": "or",
    "atomic_exchange": "xchg",
}  # fmt: skip


def _atomic(body: BodyEmitter, op: Op) -> None:
    pointer, index, *values = op.operands
    element = memory_name(element_of(pointer))
    if body.lanes == 1:
        address = scalar_address(body, pointer, index)
        operands = [body.get(value) for value in values]
        body.names[op.results[0]] = _change(body, op.name, element, address, operands)
        return
    addresses = varying_addresses(body, pointer, index)
    pointers = body.vector("ptr")
    if body.mask is not None:
        elsewhere = body.splat_text(body.scratch(element_of(pointer).bytes), "ptr")
        masks = body.vector("i1")
        addresses = body.fresh(
            f"select {masks} {body.mask}, {pointers} {addresses}, {pointers} {elsewhere}"
        )
    kind = body.vector(element)
    vectors = [body.get(value, varying=True) for value in values]
    before = "poison"
    for lane in range(body.lanes):
        address = body.fresh(f"extractelement {pointers} {addresses}, i64 {lane}")
        operands = [body.fresh(f"extractelement {kind} {vector}, i64 {lane}") for vector in vectors]
        old = _change(body, op.name, element, address, operands)
        before = body.fresh(f"insertelement {kind} {before}, {element} {old}, i64 {lane}")
    body.names[op.results[0]] = before


def _change(body: BodyEmitter, name: str, element: str, address: str, operands: list[str]) -> str:
    """One atomic change; gives the value before."""
    if name == "atomic_compare_exchange":
        expected, value = operands
        both = body.fresh(
            f"cmpxchg ptr {address}, {element} {expected}, {element} {value} monotonic monotonic"
        )
        return body.fresh(f"extractvalue {{ {element}, i1 }} {both}, 0")
    return body.fresh(
        f"atomicrmw {_INSTRUCTIONS[name]} ptr {address}, {element} {operands[0]} monotonic"
    )


def _fence(body: BodyEmitter, op: Op) -> None:
    body.line("fence seq_cst")


def _copy_async(body: BodyEmitter, op: Op) -> None:
    shared, to, source, start = op.operands
    element = element_of(shared)
    name, align = memory_name(element), alignment(element)
    count = range(op.attributes["count"])
    if not any(map(body.is_varying, op.operands)):
        target, origin = scalar_address(body, shared, to), scalar_address(body, source, start)
        for offset in count:
            place = offset_address(body, origin, name, offset)
            loaded = body.fresh(f"load {name}, ptr {place}, align {align}")
            place = offset_address(body, target, name, offset)
            body.line(f"store {name} {loaded}, ptr {place}, align {align}")
        return
    targets, origins = varying_addresses(body, shared, to), varying_addresses(body, source, start)
    for offset in count:
        places = offset_addresses(body, origins, name, offset)
        loaded = gather(body, body.vector(name), name, places, align)
        scatter(body, name, loaded, offset_addresses(body, targets, name, offset), align)


def _nothing(body: BodyEmitter, op: Op) -> None:
    """Copies are done where they begin: there is nothing to wait for."""


RULES: dict[str, Rule] = {
    **dict.fromkeys((*_INSTRUCTIONS, "atomic_compare_exchange"), _atomic),
    "fence": _fence,
    "copy_async": _copy_async,
    "copy_async_commit": _nothing,
    "copy_async_wait": _nothing,
}
