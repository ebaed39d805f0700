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
from quod.tensor.arrays import Given, Tensor, check_apart, indices, like, tensor
from quod.tensor.flash_attention.decode.call import Decoding, parts_of
from quod.tensor.flash_attention.decode.lines import DecodeForm
from quod.tensor.flash_attention.heads import results_of
from quod.tensor.flash_attention.pages_kernel import APPEND_TO_PAGES
from quod.tensor.flash_attention.plan import LARGEST_HEAD
from quod.tensor.rows.plan import plan_groups, widest
from quod.tensor.scalars import positive

_MOST = 1 << 30
"""The most keys of a sequence, as in `attention`."""


def paged_attention(
    device: DeviceChoice, q: Given, key_pages: Given, value_pages: Given, table: Given,
    lengths: Given, *, scale: float | None = None, causal: bool = True,
    log_sums: Given | None = None, parts: int | None = None, out: Given | None = None,
) -> Any:  # fmt: skip
    """Return `attention_decode` of paged keys and values, in `out` or in new memory.

    `q` has the shape (sequences, heads, queries, size), `key_pages` and `value_pages` (pages,
    kv_heads, page_size, size). Key i of a sequence is line i % page_size of page table[sequence, i
    // page_size]. `table`, of shape (sequences, most_pages), and `lengths`, of shape (sequences,),
    are of int32 or uint32. `lengths` gives the keys of each sequence, all of which the last query
    sees; a length that is negative or exceeds the sequence's row of the table means all keys of
    that row. Table entries beyond the keys are ignored, as are pages and lines of no sequence.

    Memory beyond the pages is never read. If `table` and `lengths` are arrays in host memory, an
    entry in use that is out of range raises InputError, naming the first; otherwise the host does
    not read them, and keys of such an entry are masked. Everything else is as in
    `attention_decode`.
    """
    device = resolve_device(device)
    queries = tensor(device, "q", q)
    if len(queries.shape) != 4:
        raise InputError(f"q has the axes sequences, heads, queries, size, and is {queries.text}")
    pages = _pages(device, queries, key_pages, value_pages, table, lengths)
    _, heads, count, size = queries.shape
    if heads % pages.heads:
        raise InputError(f"key_pages has {pages.heads} heads, which do not divide the {heads} of q")
    if count > _MOST:
        raise InputError(f"q has {count} queries; at most {_MOST} go")
    factor = 1 / math.sqrt(size) if scale is None else positive("scale", scale)
    read = (queries, *pages.tensors)
    target, out_tensor, sums = results_of(device, q, queries, read, log_sums, out)
    split = parts_of(parts)
    pages.check_used()
    form = DecodeForm(causal, True, sums is not None, page_size=pages.size)
    memory = [each.memory for each in (queries, pages.keys, pages.values, pages.lengths)]
    # A table without entries is not read.
    memory.append(pages.table.memory if pages.most else pages.lengths.memory)
    call = Decoding(
        queries, count, pages.most * pages.size, pages.heads, form, factor, memory, pages.count
    )
    call.launch(device, out_tensor, sums, split)
    return target


def append_to_pages(
    device: DeviceChoice, k: Given, v: Given, key_pages: Given, value_pages: Given, table: Given,
    lengths: Given,
) -> None:  # fmt: skip
    """Store new keys and values in the pages of their sequences, bit for bit.

    `k` and `v` have the shape (sequences, kv_heads, tokens, size); pages, `table` and `lengths` are
    those of `paged_attention`, of one type with `k`. Lengths include the new keys, as
    `paged_attention` needs them: token t of a sequence becomes key lengths - tokens + t, and the
    last one key lengths - 1. Tokens with a negative key are not stored, so that sequences may have
    fewer new keys, the last ones of their row. No two tokens may have the same place.

    Memory beyond the pages is never written. If `table` and `lengths` are arrays in host memory, an
    entry out of range, a length beyond the table's row and a place of two tokens raise InputError
    before anything is stored. Otherwise such a token is not stored, and of two tokens with one
    place either may be.

    Raises InputError, with the name of the argument, for arguments that do not fit; DeviceError for
    memory that the device cannot reach.
    """
    device = resolve_device(device)
    new = tensor(device, "k", k)
    if len(new.shape) != 4:
        raise InputError(f"k has the axes sequences, kv_heads, tokens and size, and is {new.text}")
    new_values = like(device, "v", v, new)
    pages = _pages(device, new, key_pages, value_pages, table, lengths)
    heads, tokens, size = new.shape[1:]
    if heads != pages.heads:
        raise InputError(f"key_pages has {pages.heads} heads, and k {heads}")
    if tokens > _MOST:
        raise InputError(f"k has {tokens} tokens; at most {_MOST} go")
    check_apart(pages.keys, new, new_values, pages.values, pages.table, pages.lengths)
    check_apart(pages.values, new, new_values, pages.table, pages.lengths)
    pages.check_places(tokens)
    if not math.prod(new.shape) or not pages.most:
        return
    plan = plan_groups(device, widest(new.element, size), size)
    compiled = device.compile(
        APPEND_TO_PAGES[new.element], lanes=plan.lanes, element=new.element, plan=plan
    )
    device.launch(
        compiled, plan.groups(new.rows), new.rows, size // plan.vector, tokens, heads, pages.size,
        pages.most, pages.count, new.memory, new_values.memory,
        *(each.memory for each in pages.tensors),
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
        """Keys of a page."""
        return self.keys.shape[2]

    @property
    def most(self) -> int:
        """The most pages of a sequence."""
        return self.table.columns

    def _on_host(self) -> tuple[Array, Array] | None:
        """Return the table and lengths as unsigned numbers, or None if not in host memory."""
        arrays = self.table.memory, self.lengths.memory
        if any(isinstance(each, Buffer) for each in arrays):
            return None
        table, lengths = (np.asarray(each).view(np.uint32).astype(np.int64) for each in arrays)
        return table, lengths

    def check_used(self) -> None:
        """Raise InputError for an entry in use that is out of range, if the host can read it."""
        on_host = self._on_host()
        if on_host is not None:
            table, lengths = on_host
            used = -(-np.minimum(lengths, self.most * self.size) // self.size)
            self._refuse((np.arange(self.most) < used[:, None]) & (table >= self.count))

    def check_places(self, tokens: int) -> None:
        """Check that each new key has a page and a place of its own, if the host can read them.

        Raises InputError if not.
        """
        on_host = self._on_host()
        if on_host is None or not tokens:
            return
        table, lengths = on_host
        room = self.most * self.size
        if (lengths > room).any():
            at = int(np.argmax(lengths > room))
            raise InputError(
                f"lengths[{at}] is {self.lengths.memory[at]}, and a row of the table has room for "
                f"{room} keys"
            )
        first, last = np.maximum(lengths - tokens, 0), lengths - 1
        entry = np.arange(self.most)
        new_entries = (entry >= (first // self.size)[:, None]) & (
            entry <= (last // self.size)[:, None]
        )
        new_entries &= (lengths > 0)[:, None]
        self._refuse(new_entries & (table >= self.count))
        places: list[Array] = []
        for row, begin, end in zip(table, first, lengths, strict=True):
            keys = np.arange(begin, end)
            places.append(row[keys // self.size] * self.size + keys % self.size)
        unique_places, counts = np.unique(
            np.concatenate([*places, np.zeros(0, int)]), return_counts=True
        )
        if (counts > 1).any():
            page, line = divmod(int(unique_places[np.argmax(counts > 1)]), self.size)
            raise InputError(f"table gives line {line} of page {page} to two new keys")

    def _refuse(self, wrong: Array) -> None:
        if wrong.any():
            row, column = map(int, np.argwhere(wrong)[0])
            raise InputError(
                f"table[{row}, {column}] is {self.table.memory[row, column]}, and the "
                f"{self.count} pages are counted from 0; {int(wrong.sum())} such"
            )


def _pages(
    device: AnyDevice, model: Tensor, key_pages: Given, value_pages: Given, table: Given,
    lengths: Given,
) -> _Pages:  # fmt: skip
    """Validate the pages, table and lengths of a call; InputError if one does not fit `model`."""
    keys = tensor(device, "key_pages", key_pages)
    fits = keys.element is model.element and len(keys.shape) == 4 and keys.columns == model.columns
    if not fits:
        raise InputError(
            f"key_pages must be {model.element} of shape (pages, kv_heads, page_size, "
            f"{model.columns}), not {keys.text}"
        )
    if not 0 < keys.columns <= LARGEST_HEAD:
        raise InputError(
            f"{model.name} has heads of {keys.columns} elements; they go from 1 to {LARGEST_HEAD}"
        )
    if not min(keys.shape):
        raise InputError(f"key_pages has the shape {keys.shape}; there is a key at least")
    values = like(device, "value_pages", value_pages, keys)
    entries, counts = indices(device, "table", table), indices(device, "lengths", lengths)
    sequences = model.shape[0]
    if len(entries.shape) != 2 or entries.shape[0] != sequences:
        raise InputError(f"table must have the shape ({sequences}, pages), not {entries.shape}")
    if counts.shape != (sequences,):
        raise InputError(f"lengths must have the shape {(sequences,)}, not {counts.shape}")
    if entries.columns * keys.shape[2] > _MOST:
        raise InputError(
            f"table has {entries.columns} pages of {keys.shape[2]} keys a sequence; at most "
            f"{_MOST} keys go"
        )
    return _Pages(keys, values, entries, counts)
