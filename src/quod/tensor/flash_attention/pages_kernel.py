"""The kernel that appends keys and values to pages."""

from __future__ import annotations

from quod.kernel import (
    Builder,
    KernelDefinition,
    Location,
    Value,
    bf16,
    pointer,
    u16,
    u32,
    u64,
)
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.registry import register
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.rows.groups import own_accesses, own_rows
from quod.tensor.rows.plan import GroupPlan


def _append_to_pages(
    k: Builder, rows: Value, width: Value, tokens: Value, heads: Value, page_size: Value,
    most: Value, pages: Value, new_keys: Value, new_values: Value, keys: Value, values: Value,
    table: Value, lengths: Value, *, element: Type, plan: GroupPlan,
) -> None:  # fmt: skip
    """Store token t of sequence s in line i % page_size of page table[s, i // page_size].

    The key i is lengths[s] - tokens + t. Nothing is stored if i is negative or exceeds the table's
    row, or if the page is out of range.
    """
    access_bytes = element.bytes * plan.vector
    unit = u32 if access_bytes % 4 == 0 else u16
    words = access_bytes // unit.bytes
    with own_rows(k, plan, rows) as loop:
        token, head = loop.index % tokens, loop.index // tokens
        sequence, head = head // heads, head % heads
        length = lengths[sequence]
        key_end = length + token
        is_stored = (length <= most * page_size) & (key_end >= tokens)
        key_index = k.select(is_stored, key_end - tokens, 0)
        page = table[sequence.cast(u64) * most.cast(u64) + (key_index // page_size).cast(u64)]
        with k.if_(is_stored & (page < pages)):
            pool_row = (page.cast(u64) * heads.cast(u64) + head.cast(u64)) * page_size.cast(u64)
            pool_row = pool_row + (key_index % page_size).cast(u64)
            row_words = (width * words).cast(u64)
            for new_rows, pool in ((new_keys, keys), (new_values, values)):
                source = k.pointer_add(new_rows.cast(unit), loop.index.cast(u64) * row_words)
                target = k.pointer_add(pool.cast(unit), pool_row * row_words)
                with own_accesses(k, plan, width) as items:
                    offset = items.index * words
                    k.store(target, offset, *k.load(source, offset, words))


def _kernel(element: Type) -> KernelDefinition:
    counts = ("rows", "width", "tokens", "heads", "page_size", "most", "pages")
    parameters: dict[str, ParameterType] = dict.fromkeys(counts, u32)
    tensors = ("new_keys", "new_values", "keys", "values")
    parameters |= dict.fromkeys(tensors, pointer(element))
    parameters |= dict.fromkeys(("table", "lengths"), pointer(u32))
    body = _append_to_pages
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(f"append_to_pages_{element}", body, parameters, location)


APPEND_TO_PAGES = {element: _kernel(element) for element in TYPES}
"""The kernels by element type."""

register(
    "tensor.append_to_pages_bf16", APPEND_TO_PAGES[bf16], element=bf16,
    plan=GroupPlan(lanes=8, threads=8, vector=8, rows=1),
)  # fmt: skip
