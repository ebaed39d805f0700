"""Columns of lookups in device memory, and the parameters of the leaves that kernels compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.device.memory.buffer import HOST, Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.field.integers import ELEMENT, Integers, dtype_of, item_bytes
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.lookup.columns import Array, Entry
from quod.lookup.leaf_form import HEADER_WORDS, LeafForm, Term
from quod.sumcheck.run import elements_to_words

ALIGNMENT = 64
"""The alignment in bytes of arrays that share one buffer."""

_WORD_BYTES = 4


class PlacedColumns:
    """Columns of equal types in one buffer of a device.

    Arrays that are aligned slices of one allocation of the device stay where they are; others are
    copied next to each other.
    """

    def __init__(
        self, device: AnyDevice, field: FieldSpec, columns: Sequence[Sequence[Entry]]
    ) -> None:
        """Place columns of equally many entries, whose arrays have the same types."""
        self._device, self._field, self._columns = device, field, columns
        self._arrays = [[a for entry in column for a in entry.arrays] for column in columns]
        self._rows = self._arrays[0][0].rows
        self.memory, self._starts = self._shared() or self._copied()

    def _item_bytes(self, type_name: str) -> int:
        return item_bytes(self._field.modulus, type_name)

    def _shared(self) -> tuple[Buffer, list[list[int]]] | None:
        """Return the memory that has all arrays in place and their offsets, or None."""
        buffers = [array.memory for column in self._arrays for array in column]
        if not all(isinstance(memory, Buffer) for memory in buffers):
            return None
        owners = {_root(memory) for memory in buffers if isinstance(memory, Buffer)}
        ranges = [
            (memory.address, memory.address + memory.nbytes)
            for memory in buffers if isinstance(memory, Buffer)
        ]  # fmt: skip
        whole_words = all((stop - start) % _WORD_BYTES == 0 for start, stop in ranges)
        if len(owners) > 1 or not whole_words or any(start % ALIGNMENT for start, _ in ranges):
            return None
        first, last = min(start for start, _ in ranges), max(stop for _, stop in ranges)
        first_buffer = buffers[0]
        assert isinstance(first_buffer, Buffer)
        memory = _covering(first_buffer, first, last)
        starts = iter([start - first for start, _ in ranges])
        return memory, [[next(starts) for _ in column] for column in self._arrays]

    def _copied(self) -> tuple[Buffer, list[list[int]]]:
        """Copy all arrays into one allocation; return it and their offsets in bytes."""
        device, total = self._device, 0
        starts = [[0] * len(column) for column in self._arrays]
        for term in range(len(self._arrays[0])):
            for column in range(len(self._arrays)):
                starts[column][term] = total
                size = self._rows * self._item_bytes(self._arrays[column][term].type)
                total += -(-size // ALIGNMENT) * ALIGNMENT
        device.check_budget("the columns of lookups", total)
        memory = device.allocate(total, zero=False)
        recording = device.stream("columns").record()
        copies = 0
        for column_starts, arrays in zip(starts, self._arrays, strict=True):
            for start, array in zip(column_starts, arrays, strict=True):
                target = memory.slice(start, start + array.memory.nbytes)
                if isinstance(array.memory, Buffer):
                    recording.copy(array.memory, target)
                    copies += 1
                else:
                    device.upload(array.memory, into=target)
        recorded = recording.finish()
        if copies:
            recorded.run()
        return memory, starts

    def buffers(self) -> list[list[tuple[Array, Buffer]]]:
        """Return for each column its arrays, entry by entry, and the words of their memory."""
        return [
            [
                (array, self.memory.slice(start, start + -(-size // _WORD_BYTES) * _WORD_BYTES))
                for array, start in zip(arrays, starts, strict=True)
                for size in (self._rows * self._item_bytes(array.type),)
            ]
            for arrays, starts in zip(self._arrays, self._starts, strict=True)
        ]

    def tables(self) -> list[list[Buffer | Integers]]:
        """Return for each column its arrays as tables to commit to."""
        return [
            [
                memory if array.type == ELEMENT else self._integers(array.type, memory)
                for array, memory in column
            ]
            for column in self.buffers()
        ]

    def _integers(self, type_name: str, memory: Buffer) -> Integers:
        size = self._rows * self._item_bytes(type_name)
        return Integers(memory.slice(0, size), dtype_of(type_name))

    def leaf_form(self, field: FieldSpec, *, entry: int | None = None) -> LeafForm:
        """Return the form of the leaves of all entries, or of one entry without padding."""
        numbers = range(len(self._columns[0])) if entry is None else [entry]
        terms = []
        for number in numbers:
            entries = [column[number] for column in self._columns]
            for term, array in enumerate(entries[0].arrays):
                ones = entry is None and not number and all(
                    e.form.coefficients[term] == 1 for e in entries
                )  # fmt: skip
                factor = "one" if ones else "extended" if number and entry is None else "base"
                terms.append(Term(array.type, factor))
        count = len(self._columns)
        padded = entry is None and bool(count & (count - 1))
        return LeafForm(field, tuple(terms), self._are_alike(), padded)

    def _are_alike(self) -> bool:
        """Return whether all columns have the same forms, and the arrays of a term are adjacent."""
        forms = [[entry.form for entry in column] for column in self._columns]
        return all(form == forms[0] for form in forms) and all(
            start == first + number * self._rows * self._item_bytes(array.type)
            for number, starts in enumerate(self._starts)
            for start, first, array in zip(starts, self._starts[0], self._arrays[0], strict=True)
        )

    def parameters(
        self, form: LeafForm, alpha: PlainElement, powers: Sequence[PlainElement], *,
        entry: int | None = None,
    ) -> tuple[Words, PlainElement]:  # fmt: skip
        """Return the parameters of leaves in memory, and the shift of the first column.

        A leaf is alpha - the sum of powers[j] * entry j. With `entry` there is one power, for it.
        """
        columns = self._columns[:1] if form.alike else self._columns
        offsets, elements = [], []
        for number, column in enumerate(columns):
            shift, factors, term = alpha, [], 0
            for position, entry_of_row in enumerate(column):
                if entry is not None and position != entry:
                    term += len(entry_of_row.arrays)
                    continue
                power = powers[0 if entry is not None else position]
                constant = entry_of_row.form.constant
                for coefficient, array in zip(
                    entry_of_row.form.coefficients, entry_of_row.arrays, strict=True
                ):
                    constant -= coefficient * array.bias
                    factors.append(power * coefficient)
                    start = self._starts[number][term]
                    offsets.append(start // self._item_bytes(array.type))
                    term += 1
                shift -= power * constant
            elements += [shift, *factors]
        element_bytes = 4 * form.field.words
        first = -(-(4 * HEADER_WORDS + 8 * len(offsets)) // element_bytes)
        words = np.zeros((first + len(elements)) * form.field.words, np.uint32)
        header = [self._rows.bit_length() - 1, len(self._columns), first]
        words[: len(header)] = header
        words[HEADER_WORDS:][: 2 * len(offsets)] = np.array(offsets, np.uint64).view(np.uint32)
        words[first * form.field.words :] = elements_to_words(
            form.field, coefficients_of(elements)
        ).reshape(-1)
        return words, elements[0]

    def parameters_bytes(self, form: LeafForm) -> int:
        """Return the size of `parameters`."""
        records, element_bytes = 1 if form.alike else len(self._columns), 4 * form.field.words
        first = -(-(4 * HEADER_WORDS + 8 * records * len(form.terms)) // element_bytes)
        return (first + records * (1 + len(form.terms))) * element_bytes


def _root(memory: Buffer) -> int:
    """Return the identity of the allocation that has a buffer."""
    owner = memory.owner
    while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
        owner = owner.base
    return id(owner)


def _covering(memory: Buffer, first: int, last: int) -> Buffer:
    """Return addresses `first` to `last` of a buffer's allocation."""
    if memory.space is not HOST:
        return Buffer(memory.owner, first, last - first, space=memory.space)
    root = memory.owner
    while isinstance(root, np.ndarray) and isinstance(root.base, np.ndarray):
        root = root.base
    assert isinstance(root, np.ndarray)
    view = root.reshape(-1).view(np.uint8)
    start = first - view.ctypes.data
    return Buffer.wrap(view[start : start + last - first])
