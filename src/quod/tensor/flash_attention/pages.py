"""Paged keys and values: attention that reads them through a page table, and appending to them.

After Kwon et al., Efficient memory management for large language model serving with PagedAttention,
2023.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen
from quod.tensor.arrays import AnyArray, Tensor, check_apart, indices, tensor, tensor_like
from quod.tensor.flash_attention.decode.call import Decoding, parts_of
from quod.tensor.flash_attention.decode.lines import DecodeForm
from quod.tensor.flash_attention.heads import results_of
from quod.tensor.flash_attention.pages_kernel import APPEND_TO_PAGES
from quod.tensor.flash_attention.plan import LARGEST_HEAD
from quod.tensor.rows.plan import plan_groups, widest
from quod.tensor.scalars import positive

_MAX_KEYS = 1 << 30
"""The maximum number of keys of a sequence, as in `attention`."""


def paged_attention(
    device: DeviceChoice, q: AnyArray, key_pages: AnyArray, value_pages: AnyArray, table: AnyArray,
    lengths: AnyArray, *, scale: float | None = None, causal: bool = True,
    log_sums: AnyArray | None = None, parts: int | None = None, out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return `attention_decode` of paged keys and values, in `out` or in new memory.

    `q` has the shape (sequences, heads, queries, size), `key_pages` and `value_pages` (pages,
    kv_heads, page_size, size). Key i of a sequence is line i % page_size of page table[sequence, i
    // page_size]. `table`, of shape (sequences, max_pages), and `lengths`, of shape (sequences,),
    are of int32 or uint32. `lengths` gives the number of keys of each sequence, all of which the
    last query sees; a length that is negative or exceeds the sequence's row of the table means all
    keys of that row. Table entries beyond the keys are ignored, and so are unused pages.

    Memory beyond the pages is never read. If `table` and `lengths` are arrays in host memory, an
    entry in use that is out of range raises InputError, which names the first such entry. Otherwise
    the host does not read them, and the keys of such an entry are masked. The other arguments and
    errors are as in `attention_decode`.
    """
    device = resolve_device(device)
    queries = tensor(device, "q", q)
    if len(queries.shape) != 4:
        raise InputError(
            f"q must have the axes (sequences, heads, queries, size), not {queries.text}"
        )
    pages = _pages(device, queries, key_pages, value_pages, table, lengths)
    _, heads, count, size = queries.shape
    if heads % pages.heads:
        raise InputError(f"key_pages has {pages.heads} heads, but must divide the {heads} of q")
    if count > _MAX_KEYS:
        raise InputError(f"q has {count} queries; the limit is {_MAX_KEYS}")
    factor = 1 / math.sqrt(size) if scale is None else positive("scale", scale)
    read = (queries, *pages.tensors)
    target, out_tensor, sums = results_of(device, q, queries, read, log_sums, out)
    part_count = parts_of(parts)
    pages.check_used()
    form = DecodeForm(causal, True, sums is not None, page_size=pages.size)
    memory = [each.memory for each in (queries, pages.keys, pages.values, pages.lengths)]
    # A table without entries is not read.
    memory.append(pages.table.memory if pages.most else pages.lengths.memory)
    call = Decoding(
        queries, count, pages.most * pages.size, pages.heads, form, factor, memory, pages.count
    )
    call.launch(device, out_tensor, sums, part_count)
    return target


def append_to_pages(
    device: DeviceChoice, k: AnyArray, v: AnyArray, key_pages: AnyArray, value_pages: AnyArray,
    table: AnyArray, lengths: AnyArray,
) -> None:  # fmt: skip
    """Store new keys and values in the pages of their sequences, bit for bit.

    `k` and `v` have the shape (sequences, kv_heads, tokens, size). The pages, `table` and `lengths`
    are those of `paged_attention`; pages have the type of `k`. Lengths include the new keys: token
    t of a sequence becomes key lengths - tokens + t, and the last token becomes key lengths - 1.
    Tokens whose key would be negative are not stored, so a sequence may have fewer new keys than
    `tokens`, at the end of its row. No two tokens may have the same slot of a page.

    Memory beyond the pages is never written. If `table` and `lengths` are arrays in host memory,
    InputError is raised before anything is stored for an entry out of range, a length beyond the
    table's row, or a slot that two tokens share. Otherwise a token without a valid slot is not
    stored, and of two tokens that share a slot either may be stored.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    new_keys = tensor(device, "k", k)
    if len(new_keys.shape) != 4:
        raise InputError(
            f"k must have the axes (sequences, kv_heads, tokens, size), not {new_keys.text}"
        )
    new_values = tensor_like(device, "v", v, new_keys)
    pages = _pages(device, new_keys, key_pages, value_pages, table, lengths)
    heads, tokens, size = new_keys.shape[1:]
    if heads != pages.heads:
        raise InputError(f"key_pages has {pages.heads} heads, and k {heads}")
    if tokens > _MAX_KEYS:
        raise InputError(f"k has {tokens} tokens; the limit is {_MAX_KEYS}")
    check_apart(pages.keys, new_keys, new_values, pages.values, pages.table, pages.lengths)
    check_apart(pages.values, new_keys, new_values, pages.table, pages.lengths)
    pages.check_slots(tokens)
    if not math.prod(new_keys.shape) or not pages.most:
        return
    plan = plan_groups(device, widest(new_keys.element, size), size)
    compiled = device.compile(
        APPEND_TO_PAGES[new_keys.element], lanes=plan.lanes, element=new_keys.element, plan=plan
    )
    device.launch(
        compiled, plan.groups(new_keys.rows), new_keys.rows, size // plan.vector, tokens, heads,
        pages.size, pages.most, pages.count, new_keys.memory, new_values.memory,
        *(operand.memory for operand in pages.tensors),
    )  # fmt: skip


@frozen(eq=False)
class _Pages:
    """The pools of key and value pages, and the page table and lengths of sequences."""

    keys: Tensor
    values: Tensor
    table: Tensor
    lengths: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.keys, self.values, self.table, self.lengths

    @property
    def count(self) -> int:
        return self.keys.shape[0]

    @property
    def heads(self) -> int:
        return self.keys.shape[1]

    @property
    def size(self) -> int:
        """The number of keys of a page."""
        return self.keys.shape[2]

    @property
    def most(self) -> int:
        """The maximum number of pages of a sequence."""
        return self.table.columns

    def _on_host(self) -> tuple[Array, Array] | None:
        """Return the table and the lengths as int64 arrays, or None if not in host memory."""
        arrays = self.table.memory, self.lengths.memory
        if any(isinstance(each, Buffer) for each in arrays):
            return None
        table, lengths = (np.asarray(each).view(np.uint32).astype(np.int64) for each in arrays)
        return table, lengths

    def check_used(self) -> None:
        """Raise InputError if the table lists a page that does not exist for a key in use.

        Does nothing if the table or the lengths are in device memory.
        """
        on_host = self._on_host()
        if on_host is not None:
            table, lengths = on_host
            used = -(-np.minimum(lengths, self.most * self.size) // self.size)
            self._check_entries((np.arange(self.most) < used[:, None]) & (table >= self.count))

    def check_slots(self, tokens: int) -> None:
        """Check that no two of the last `tokens` keys of all sequences share a slot of a page.

        Raises InputError if two do, or if a page of such a key does not exist. Does nothing if the
        table or the lengths are in device memory.
        """
        on_host = self._on_host()
        if on_host is None or not tokens:
            return
        table, lengths = on_host
        capacity = self.most * self.size
        if (lengths > capacity).any():
            sequence = int(np.argmax(lengths > capacity))
            raise InputError(
                f"lengths[{sequence}] is {self.lengths.memory[sequence]}, but the pages in a row "
                f"of the table have room for only {capacity} keys"
            )
        first_new, last_new = np.maximum(lengths - tokens, 0), lengths - 1
        entry = np.arange(self.most)
        new_entries = (entry >= (first_new // self.size)[:, None]) & (
            entry <= (last_new // self.size)[:, None]
        )
        new_entries &= (lengths > 0)[:, None]
        self._check_entries(new_entries & (table >= self.count))
        slots: list[Array] = []
        for row, start, end in zip(table, first_new, lengths, strict=True):
            keys = np.arange(start, end)
            slots.append(row[keys // self.size] * self.size + keys % self.size)
        unique_slots, counts = np.unique(
            np.concatenate([*slots, np.zeros(0, int)]), return_counts=True
        )
        if (counts > 1).any():
            page, slot = divmod(int(unique_slots[np.argmax(counts > 1)]), self.size)
            raise InputError(f"table assigns slot {slot} of page {page} to two new keys")

    def _check_entries(self, wrong: Array) -> None:
        """Raise InputError, naming the first, if an entry of the table is marked wrong."""
        if wrong.any():
            row, column = map(int, np.argwhere(wrong)[0])
            raise InputError(
                f"table[{row}, {column}] is {self.table.memory[row, column]}, but pages have the "
                f"numbers 0 to {self.count - 1}; {int(wrong.sum())} entries are out of range"
            )


def _pages(
    device: AnyDevice, operand: Tensor, key_pages: AnyArray, value_pages: AnyArray, table: AnyArray,
    lengths: AnyArray,
) -> _Pages:  # fmt: skip
    """Validate the pages, table and lengths of a call; InputError if one does not fit `operand`."""
    keys = tensor(device, "key_pages", key_pages)
    matches = (
        keys.element is operand.element and len(keys.shape) == 4 and keys.columns == operand.columns
    )
    if not matches:
        raise InputError(
            f"key_pages must be {operand.element} of shape (pages, kv_heads, page_size, "
            f"{operand.columns}), not {keys.text}"
        )
    if not 0 < keys.columns <= LARGEST_HEAD:
        raise InputError(
            f"{operand.name} has heads of {keys.columns} elements; the range is 1 to {LARGEST_HEAD}"
        )
    if not min(keys.shape):
        raise InputError(f"key_pages has the shape {keys.shape}; no axis may be empty")
    values = tensor_like(device, "value_pages", value_pages, keys)
    entries, counts = indices(device, "table", table), indices(device, "lengths", lengths)
    sequences = operand.shape[0]
    if len(entries.shape) != 2 or entries.shape[0] != sequences:
        raise InputError(f"table must have the shape ({sequences}, pages), not {entries.shape}")
    if counts.shape != (sequences,):
        raise InputError(f"lengths must have the shape {(sequences,)}, not {counts.shape}")
    if entries.columns * keys.shape[2] > _MAX_KEYS:
        raise InputError(
            f"table has {entries.columns} pages of {keys.shape[2]} keys per sequence; the limit is "
            f"{_MAX_KEYS} keys"
        )
    return _Pages(keys, values, entries, counts)
