"""The interpreter's memory: bounds-checked at each access, with race detection.

An address is a buffer and a byte offset, so no access crosses from one buffer into another. Shared
memory records which instances accessed each unit. A read after another instance's write, and a
write after another instance's access, is a race unless a barrier is between them.
"""

from __future__ import annotations

import numpy as np

from quod.frozen import frozen
from quod.kernel.errors import InterpreterError, an
from quod.kernel.interpreter.accesses import Accesses, SinceBarrier
from quod.kernel.interpreter.clocks import Clocks, OrderedAccesses
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Location
from quod.kernel.ir.types import Type
from quod.kernel.ops.scalar import OPS
from quod.kernel.ops.semantics import NUMPY_TYPES, Array
from quod.kernel.ops.tile import SUBGROUP, WARPGROUP

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SHARED_ALIGNMENT = 16
_ROW_BYTES = 16  # bytes in a row of a matrix of 8 by 8 16-bit elements
_MAX_OFFSET = 1 << 60  # a byte offset beyond any buffer, small enough that sums do not wrap


@frozen(eq=False)
class Pointers:
    """One address per lane: a buffer number, common or per lane, and a byte offset."""

    buffer: int | Array
    offset: Array

    def plus(self, index: Array, size: int) -> Pointers:
        """Advance the addresses by `index` elements of `size` bytes, saturating at 2**60."""
        if index.dtype == np.uint64:
            # So that the product with `size` does not wrap.
            index = np.minimum(index, np.uint64(1 << 50))
        offset = self.offset + index.astype(np.int64) * size
        return Pointers(self.buffer, np.minimum(offset, _MAX_OFFSET))

    def each(self, lanes: Array) -> list[tuple[int, Array]]:
        """Group lanes by the buffer that they point into."""
        if isinstance(self.buffer, int):
            return [(self.buffer, lanes)]
        buffer_indices = self.buffer[lanes]
        return [
            (int(buffer_index), lanes[buffer_indices == buffer_index])
            for buffer_index in np.unique(buffer_indices)
        ]


@frozen
class AccessSite:
    """The source location of an access, for messages.

    first_group: the first workgroup that runs.
    width: instances in a workgroup.
    """

    location: Location
    first_group: int
    width: int

    def error(self, lane: int, problem: str) -> InterpreterError:
        return InterpreterError(f"{self.instance(lane)} {problem}", self.location)

    def instance(self, lane: int) -> str:
        """Describe a lane's instance in messages."""
        group, instance = divmod(lane, self.width)
        return f"instance {instance} of workgroup {self.first_group + group}"


class Buffer:
    """A block of memory that pointers refer to."""

    def __init__(self, name: str, data: Array) -> None:
        self.name = name
        self.nbytes = data.nbytes
        self._bytes = data.reshape(-1).view(np.uint8)
        self._is_writeable = data.flags.writeable
        self._views: dict[int, Array] = {}

    def _words(self, size: int) -> Array:
        """View the memory as words of `size` bytes."""
        if size not in self._views:
            length = len(self._bytes) // size * size
            self._views[size] = self._bytes[:length].view(_WORDS[size])
        return self._views[size]

    def _indices(self, first: Array, lanes: Array, size: int) -> Array:
        """Convert the lanes' element indices to indices into `_words`."""
        return first

    def locate(
        self, offsets: Array, lanes: Array, element: Type, count: int, verb: str, site: AccessSite
    ) -> Array:
        """Return the index of each lane's first element.

        Raises InterpreterError if an address is unaligned or outside the buffer.
        """
        size = element.bytes
        if size > 1 and np.count_nonzero(offsets & (size - 1)):
            first = int(np.argmax(offsets % size != 0))
            raise site.error(
                int(lanes[first]),
                f"{verb} {an(element)} at byte {offsets[first]} of {self.name}, which is not a "
                f"multiple of {size}",
            )
        indices: Array = offsets >> (size.bit_length() - 1)
        length = self.nbytes // size
        if len(indices) and indices.max() + count > length:
            is_outside = indices + count > length
            first = int(np.argmax(is_outside))
            element_index = max(int(indices[first]), length) if count > 1 else int(indices[first])
            raise site.error(
                int(lanes[first]),
                f"{verb} element {element_index} of {self.name}, which has {length} of type "
                f"{element}",
            )
        return indices

    def load(
        self, offsets: Array, lanes: Array, element: Type, count: int, site: AccessSite
    ) -> list[Array]:
        """Load `count` consecutive elements for each lane; returns one array per element."""
        element_indices = self.locate(offsets, lanes, element, count, "loads", site)
        self._before_load(offsets, lanes, element.bytes * count, site)
        words = self._words(element.bytes)
        word_indices = self._indices(element_indices, lanes, element.bytes)
        loaded = [
            words.take(word_indices + offset if offset else word_indices).view(NUMPY_TYPES[element])
            for offset in range(count)
        ]
        if element is types.bool_:
            is_invalid = np.array([element.view(np.uint8) > 1 for element in loaded]).any(axis=0)
            if is_invalid.any():
                lane = int(lanes[int(np.argmax(is_invalid))])
                raise site.error(lane, f"loads a bool from {self.name} that is neither 0 nor 1")
        return loaded

    def store(
        self, offsets: Array, lanes: Array, element: Type, values: list[Array], site: AccessSite
    ) -> None:
        """Store consecutive elements from each lane's offset on; `values` has an array for each."""
        if not self._is_writeable:
            raise site.error(int(lanes[0]), f"stores to {self.name}, which is read-only")
        element_indices = self.locate(offsets, lanes, element, len(values), "stores to", site)
        words = self._words(element.bytes)
        dtype = NUMPY_TYPES[element]
        stored = [value.astype(dtype, copy=False).view(words.dtype) for value in values]
        word_indices = self._indices(element_indices, lanes, element.bytes)
        indices = [word_indices + offset for offset in range(len(values))]
        self._before_store(offsets, lanes, words, indices, stored, site)
        for target, values_ in zip(indices, stored, strict=True):
            words[target] = values_
        for offset, values_ in enumerate(stored):
            was_overwritten = words[indices[offset]] != values_
            if np.count_nonzero(was_overwritten):
                lane = int(np.argmax(was_overwritten))
                winner = _last_store(indices, indices[offset][lane])
                raise site.error(
                    int(lanes[lane]),
                    f"and {site.instance(int(lanes[winner]))} store different values to element "
                    f"{int(element_indices[lane]) + offset} of {self.name} at once",
                )

    def atomic(
        self, name: str, offsets: Array, lanes: Array, element: Type, values: list[Array],
        site: AccessSite,
    ) -> Array:  # fmt: skip
        """Change elements atomically, for one lane after the other; return the old values."""
        verb = "adds to" if name == "atomic_add" else "changes"
        if not self._is_writeable:
            raise site.error(int(lanes[0]), f"{verb} {self.name}, which is read-only")
        element_indices = self.locate(offsets, lanes, element, 1, verb, site)
        self._before_atomic(offsets, lanes, element.bytes, verb, site)
        words, update = self._words(element.bytes), OPS[name].update
        assert update is not None
        element_indices = self._indices(element_indices, lanes, element.bytes)
        if len(np.unique(element_indices)) == len(element_indices):
            old_values: Array = words[element_indices]
            words[element_indices] = update(old_values, *values)
            return old_values
        if name == "atomic_add":
            return _add_in_order(words, element_indices, values[0])
        old_values = np.empty_like(values[0])
        for position, index in enumerate(element_indices):
            entry = slice(position, position + 1)
            old_values[entry] = words[index]
            words[index] = update(old_values[entry], *(value[entry] for value in values))[0]
        return old_values

    def _before_load(self, offsets: Array, lanes: Array, size: int, site: AccessSite) -> None:
        """Check and record a load, in shared and private memory."""

    def _before_store(
        self, offsets: Array, lanes: Array, words: Array, indices: list[Array],
        new_words: list[Array], site: AccessSite,
    ) -> None:  # fmt: skip
        """Check and record a store, in shared and private memory."""

    def _before_atomic(
        self, offsets: Array, lanes: Array, size: int, verb: str, site: AccessSite
    ) -> None:
        """Check and record an atomic access, in shared memory."""


def _last_store(indices: list[Array], index: int) -> int:
    """Return the position of the lane whose store to a word is the last and so remains."""
    for word_indices in reversed(indices):
        (positions,) = np.nonzero(word_indices == index)
        if len(positions):
            return int(positions[-1])
    raise AssertionError("no lane stores there")


def _add_in_order(words: Array, word_indices: Array, values: Array) -> Array:
    """Add values to words in order, where indices may repeat; return the old value for each."""
    order = np.argsort(word_indices, kind="stable")
    word_indices, values = word_indices[order], values[order]
    starts = np.flatnonzero(np.concatenate(([True], word_indices[1:] != word_indices[:-1])))
    counts = np.diff(starts, append=len(word_indices))
    # One running total serves all indices: sums wrap, so the total before the first value of an
    # index can be subtracted again.
    totals = np.cumsum(values, dtype=words.dtype)
    offsets = words[word_indices[starts]] - (totals - values)[starts]
    new_values = totals + np.repeat(offsets, counts)
    words[word_indices[starts]] = new_values[starts + counts - 1]
    old_values: Array = np.empty_like(new_values)
    old_values[order] = new_values - values
    return old_values


class PrivateBuffer(Buffer):
    """The private memory of instances, initially unset."""

    def __init__(self, name: str, size: int, element_bytes: int, lanes: int) -> None:
        super().__init__(name, np.zeros(size * lanes, np.uint8))
        self.nbytes = size
        self._element_bytes = element_bytes
        self._is_set = np.zeros((lanes, size // element_bytes), np.bool_)

    def _indices(self, first: Array, lanes: Array, size: int) -> Array:
        indices: Array = first + lanes * (self.nbytes // size)
        return indices

    def _before_load(self, offsets: Array, lanes: Array, size: int, site: AccessSite) -> None:
        first_elements = offsets // self._element_bytes
        for offset in range(self._units(size)):
            unset = ~self._is_set[lanes, first_elements + offset]
            if np.count_nonzero(unset):
                lane = int(lanes[int(np.argmax(unset))])
                raise site.error(lane, f"loads from {self.name} what was not set")

    def _before_store(
        self, offsets: Array, lanes: Array, words: Array, indices: list[Array],
        new_words: list[Array], site: AccessSite,
    ) -> None:  # fmt: skip
        first_elements = offsets // self._element_bytes
        for offset in range(self._units(words.itemsize * len(new_words))):
            self._is_set[lanes, first_elements + offset] = True

    def _units(self, nbytes: int) -> int:
        """Return the number of elements that an access of `nbytes` touches."""
        return max(1, nbytes // self._element_bytes)


class SharedBuffer(Buffer):
    """The shared memory of workgroups, initially unset, with race detection.

    The unit of detection is `granule` bytes, the smallest element that the kernel accesses. With
    `clocks` there is one workgroup, whose subgroups use named barriers.
    """

    def __init__(
        self, name: str, size: int, granule: int, width: int, groups: int,
        alignment: int = SHARED_ALIGNMENT, clocks: Clocks | None = None,
    ) -> None:  # fmt: skip
        self.alignment = alignment
        self._stride = -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
        super().__init__(name, np.zeros(self._stride * groups, np.uint8))
        self.nbytes = size
        self._granule = granule
        self._width = width
        units = self._stride // granule
        self._has_one_group = groups == 1
        self._starts: dict[int, Array] = {}
        """By word size in bytes: per lane, the index of its workgroup's first word."""
        self._is_set = np.zeros(groups * units, np.bool_)
        self._has_pending_copy = np.zeros(groups * units, np.bool_)
        self._has_mbarrier = np.zeros(groups * units, np.bool_)
        self._ordered = None if clocks is None else OrderedAccesses(clocks, units)
        self._accesses: Accesses = self._ordered or SinceBarrier(groups, units)
        # A product's reads are recorded for one lane, or with clocks for one lane of each subgroup.
        self._product_lanes = 1 if clocks is None else WARPGROUP

    def barrier(self, groups: Array | None, *, products_only: bool = False) -> None:
        """Forget accesses, or only those of products, for all or some workgroups."""
        self._accesses.barrier(groups, products_only=products_only)

    def _indices(self, first: Array, lanes: Array, size: int) -> Array:
        if self._has_one_group:
            return first
        starts = self._starts.get(size)
        if starts is None:
            groups = np.arange(len(self._bytes) // self._stride)
            starts = np.repeat(groups * (self._stride // size), self._width)
            self._starts[size] = starts
        indices: Array = first + starts.take(lanes)
        return indices

    def _units_of(self, offsets: Array, lanes: Array, size: int) -> Array:
        """Return the units that each lane accesses, one row per lane."""
        first_units = self._indices(offsets // self._granule, lanes, self._granule)[:, None]
        count = size // self._granule
        result: Array = first_units if count == 1 else first_units + np.arange(count)
        return result

    def _check(self, is_wrong: Array, lanes: Array, problem: str, site: AccessSite) -> None:
        if np.count_nonzero(is_wrong):
            lane = int(lanes[int(np.argmax(is_wrong.any(axis=1)))])
            raise site.error(lane, problem)

    def _before_load(self, offsets: Array, lanes: Array, size: int, site: AccessSite) -> None:
        units = self._units_of(offsets, lanes, size)
        self._check(~self._is_set[units], lanes, f"loads from {self.name} what was not set", site)
        self._check(
            self._accesses.stored(units, lanes),
            lanes,
            f"loads from {self.name} what another instance stored; a barrier is needed between",
            site,
        )
        self._accesses.record_loads(units, lanes)

    def load_rows(self, offsets: Array, lanes: Array, site: AccessSite) -> Array:
        """Load four words per lane that other lanes of the subgroup receive; one row per lane."""
        self._check_rows("loads", offsets, lanes, site)
        rows = np.stack(self.load(offsets, lanes, types.u32, _ROW_BYTES // 4, site), axis=1)
        units = self._units_of(offsets, lanes, _ROW_BYTES)
        self._check(
            self._accesses.stored(units, lanes, by_itself=True),
            lanes,
            f"loads for others from {self.name} what it stored; a barrier is needed between",
            site,
        )
        self._accesses.record_loads(units, lanes, for_others=True)
        return rows

    def store_rows(self, offsets: Array, lanes: Array, rows: Array, site: AccessSite) -> None:
        """Store four words per lane that other lanes of the subgroup supply."""
        self._check_rows("stores", offsets, lanes, site)
        self.store(offsets, lanes, types.u32, list(rows.T), site)
        # No lane may load these words before a barrier, not even the lane that stores them.
        units = self._units_of(offsets, lanes, _ROW_BYTES)
        self._accesses.record_stores(units, lanes, for_others=True)

    def _check_rows(self, verb: str, offsets: Array, lanes: Array, site: AccessSite) -> None:
        unaligned = offsets % _ROW_BYTES != 0
        if unaligned.any():
            index = int(np.argmax(unaligned))
            raise site.error(
                int(lanes[index]),
                f"{verb} a row of a matrix at byte {offsets[index]} of {self.name}, which is not a "
                f"multiple of {_ROW_BYTES}",
            )

    def tile(self, offsets: Array, lane: int, site: AccessSite) -> Array:
        """Read 16-bit elements at byte offsets, for a product of instances from `lane` on."""
        flat_offsets = offsets.reshape(-1)
        indices = self.locate(
            flat_offsets, np.full(len(flat_offsets), lane), types.u16, 1, "multiplies", site
        )
        self.read_tile(offsets, lane, site)
        elements: Array = self._words(2)[
            self._indices(indices, np.full(len(flat_offsets), lane), 2)
        ]
        return elements.reshape(offsets.shape)

    def read_tile(self, offsets: Array, lane: int, site: AccessSite) -> None:
        """Check and record a product's reads of byte offsets, at its start and at its end."""
        unit_offsets = np.unique(offsets.reshape(-1) // self._granule * self._granule)
        for reader in range(lane, lane + self._product_lanes, SUBGROUP):
            lanes = np.full(len(unit_offsets), reader)
            units = self._units_of(unit_offsets, lanes, self._granule)
            problem = f"multiplies what is not in {self.name} yet"
            self._check(~self._is_set[units], lanes, problem, site)
            self._check(
                self._accesses.stored(units, lanes, by_itself=True),
                lanes,
                f"multiplies what was stored to {self.name}; a barrier is needed between",
                site,
            )
            self._accesses.record_products(units, lanes)

    def arrive(self, offset: int, group: int, data: Array) -> None:
        """Set the bytes of a finished tile copy to a workgroup, visible to all its instances."""
        start = group * self._stride + offset
        self._bytes[start : start + len(data)] = data
        units = slice(start // self._granule, (start + len(data)) // self._granule)
        self._is_set[units], self._has_pending_copy[units] = True, False
        self._accesses.copied(units)

    def _before_store(
        self, offsets: Array, lanes: Array, words: Array, indices: list[Array],
        new_words: list[Array], site: AccessSite,
    ) -> None:  # fmt: skip
        changed = np.zeros(len(lanes), np.bool_)
        for word_indices, values in zip(indices, new_words, strict=True):
            changed |= words[word_indices] != values
        units = self._units_of(offsets, lanes, words.itemsize * len(new_words))
        self._check_no_pending_copy("stores to", units, lanes, site)
        changes = changed[:, None] & self._is_set[units]
        self._check_no_race(changes, units, lanes, site)
        self._is_set[units] = True
        self._accesses.record_stores(units, lanes)

    def _before_atomic(
        self, offsets: Array, lanes: Array, size: int, verb: str, site: AccessSite
    ) -> None:
        units = self._units_of(offsets, lanes, size)
        self._check(~self._is_set[units], lanes, f"{verb} {self.name} what was not set", site)
        all_units = np.ones(units.shape, np.bool_)
        self._check_no_race(all_units, units, lanes, site, atomically=True)
        self._accesses.record_atomics(units, lanes)

    def begin_copy(
        self,
        offsets: Array,
        lanes: Array,
        size: int,
        site: AccessSite,
        mbarrier: int | None = None,
    ) -> None:
        """Mark the target of an asynchronous copy as unset until the copy has been waited for.

        `mbarrier` is the clock of the mbarrier that counts the copy, if it has one.
        """
        units = self._units_of(offsets, lanes, size)
        self._check_no_pending_copy("copies to", units, lanes, site)
        all_units = np.ones(units.shape, np.bool_)
        self._check_no_race(all_units, units, lanes, site)
        self._is_set[units] = False
        if mbarrier is not None and self._ordered is not None:
            self._ordered.record_copy(units, mbarrier)
            self._has_pending_copy[units] = True
            return
        self._accesses.record_stores(units, lanes)
        problem = f"copies to {self.name} where another instance copies to at once"
        self._check(self._accesses.stored(units, lanes), lanes, problem, site)
        self._has_pending_copy[units] = True

    def make_mbarrier(self, offset: int, lane: int, site: AccessSite) -> None:
        """Reserve eight bytes for an mbarrier, accessible to mbarrier ops only."""
        offsets, lanes = np.array([offset]), np.array([lane])
        self.begin_copy(offsets, lanes, 8, site)
        units = self._units_of(offsets, lanes, 8)
        self._has_pending_copy[units], self._has_mbarrier[units] = False, True
        self._accesses.forget_stores(units)

    def end_copy(self, offsets: Array, lanes: Array, data: Array) -> None:
        """Set the target of a finished copy; `data` has one row of bytes per lane."""
        first_bytes = self._indices(offsets, lanes, 1)
        self._bytes[first_bytes[:, None] + np.arange(data.shape[1])] = data
        units = self._units_of(offsets, lanes, data.shape[1])
        self._is_set[units] = True
        self._has_pending_copy[units] = False
        self._accesses.record_stores(units, lanes)

    def _check_no_pending_copy(
        self, verb: str, units: Array, lanes: Array, site: AccessSite
    ) -> None:
        """Raise InterpreterError for units with a pending copy, which may land at any time."""
        problem = f"{verb} {self.name} where a copy is on its way; it is to be waited for before"
        self._check(self._has_pending_copy[units], lanes, problem, site)
        problem = f"{verb} {self.name} where an mbarrier is"
        self._check(self._has_mbarrier[units], lanes, problem, site)

    def _check_no_race(
        self,
        changes: Array,
        units: Array,
        lanes: Array,
        site: AccessSite,
        *,
        atomically: bool = False,
    ) -> None:
        """Raise InterpreterError for changes that race; atomic ones do not race with each other."""
        loaded = self._accesses.loaded(units, lanes)
        stored = self._accesses.stored(units, lanes, atomically=not atomically)
        for is_conflict, verb in ((loaded, "loaded"), (stored, "stored")):
            self._check(
                changes & is_conflict,
                lanes,
                f"changes in {self.name} what another instance {verb}; a barrier is needed between",
                site,
            )
