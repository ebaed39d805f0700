"""LLVM rules of atomic ops, fences and asynchronous copies.

Atomic ops run for one lane after the other; inactive lanes use scratch memory. Asynchronous copies
are synchronous.
"""

from __future__ import annotations

from collections.abc import Callable

from quod.codegen.llvm.addresses import (
    alignment,
    element_of,
    offset_address,
    offset_addresses,
    scalar_address,
    varying_addresses,
)
from quod.codegen.llvm.body import BodyEmitter, Rule
from quod.codegen.llvm.memory import gather, scatter
from quod.codegen.llvm.types import memory_name
from quod.kernel.ir.nodes import Op

Change = Callable[[BodyEmitter, str, str, list[str]], str]
"""The emitter of an atomic change of an element at an address; returns the old value."""


def _read_modify_write(operation: str) -> Change:
    """Make the emitter of an atomicrmw instruction."""

    def change(body: BodyEmitter, element: str, address: str, operands: list[str]) -> str:
        text = f"atomicrmw {operation} ptr {address}, {element} {operands[0]} monotonic"
        return body.fresh(text)

    return change


def _compare_exchange(body: BodyEmitter, element: str, address: str, operands: list[str]) -> str:
    expected, value = operands
    value_and_success = body.fresh(
        f"cmpxchg ptr {address}, {element} {expected}, {element} {value} monotonic monotonic"
    )
    return body.fresh(f"extractvalue {{ {element}, i1 }} {value_and_success}, 0")


def _atomic(change: Change) -> Rule:
    return lambda body, op: _emit_atomic(body, op, change)


def _emit_atomic(body: BodyEmitter, op: Op, change: Change) -> None:
    pointer, index, *values = op.operands
    element = memory_name(element_of(pointer))
    if body.lanes == 1:
        address = scalar_address(body, pointer, index)
        operands = [body.get(value) for value in values]
        body.names[op.results[0]] = change(body, element, address, operands)
        return
    addresses = varying_addresses(body, pointer, index)
    pointers = body.vector("ptr")
    if body.mask is not None:
        scratch_addresses = body.splat_text(body.scratch(element_of(pointer).bytes), "ptr")
        masks = body.vector("i1")
        addresses = body.fresh(
            f"select {masks} {body.mask}, {pointers} {addresses}, {pointers} {scratch_addresses}"
        )
    kind = body.vector(element)
    vectors = [body.get(value, varying=True) for value in values]
    old_values = "poison"
    for lane in range(body.lanes):
        address = body.fresh(f"extractelement {pointers} {addresses}, i64 {lane}")
        operands = [body.fresh(f"extractelement {kind} {vector}, i64 {lane}") for vector in vectors]
        old = change(body, element, address, operands)
        old_values = body.fresh(f"insertelement {kind} {old_values}, {element} {old}, i64 {lane}")
    body.names[op.results[0]] = old_values


def _fence(body: BodyEmitter, op: Op) -> None:
    body.line("fence seq_cst")


def _copy_async(body: BodyEmitter, op: Op) -> None:
    target_pointer, target_index, source_pointer, source_index = op.operands
    element = element_of(target_pointer)
    name, align = memory_name(element), alignment(element)
    count = range(op.attributes["count"])
    if not any(map(body.is_varying, op.operands)):
        target, origin = (
            scalar_address(body, target_pointer, target_index),
            scalar_address(body, source_pointer, source_index),
        )
        for offset in count:
            element_address = offset_address(body, origin, name, offset)
            loaded = body.fresh(f"load {name}, ptr {element_address}, align {align}")
            element_address = offset_address(body, target, name, offset)
            body.line(f"store {name} {loaded}, ptr {element_address}, align {align}")
        return
    targets, origins = (
        varying_addresses(body, target_pointer, target_index),
        varying_addresses(body, source_pointer, source_index),
    )
    for offset in count:
        source_addresses = offset_addresses(body, origins, name, offset)
        loaded = gather(body, body.vector(name), name, source_addresses, align)
        scatter(body, name, loaded, offset_addresses(body, targets, name, offset), align)


def _nothing(body: BodyEmitter, op: Op) -> None:
    """Emit nothing: copies are synchronous and launches sequential, so no wait is needed."""


RULES: dict[str, Rule] = {
    "atomic_add": _atomic(_read_modify_write("add")),
    "atomic_max": _atomic(_read_modify_write("umax")),
    "atomic_min": _atomic(_read_modify_write("umin")),
    "atomic_or": _atomic(_read_modify_write("or")),
    "atomic_exchange": _atomic(_read_modify_write("xchg")),
    "atomic_compare_exchange": _atomic(_compare_exchange),
    "fence": _fence,
    "copy_async": _copy_async,
    "copy_async_commit": _nothing,
    "copy_async_wait": _nothing,
    "dependency_wait": _nothing,
    "launch_dependents": _nothing,
}
