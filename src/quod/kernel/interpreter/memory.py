"""The interpreter's memory: bounds-checked at each access, with race detection.

An address is a buffer and a byte offset, so no access crosses from one buffer into another. Shared
memory records the instances that accessed each unit: a read after another instance's write, or a
write after another's read, is a race without a barrier between.
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
_ROW_BYTES = 16  # of a matrix of 8 by 8 halves
_FAR = 1 << 60  # an offset that no buffer has, and that sums cannot wrap


@frozen(eq=False)
class Pointers:
    """One address per lane: a buffer number, common or per lane, and a byte offset."""

    buffer: int | Array
    offset: Array

    def plus(self, index: Array, size: int) -> Pointers:
        """Advance the addresses by `index` elements of `size` bytes, saturating at 2**60."""
        if index.dtype == np.uint64:
            index = np.minimum(index, np.uint64(1 << 50))
        offset = self.offset + index.astype(np.int64) * size
        return Pointers(self.buffer, np.minimum(offset, _FAR))

    def each(self, lanes: Array) -> list[tuple[int, Array]]:
        """Group lanes by the buffer that they point into."""
        if isinstance(self.buffer, int):
            return [(self.buffer, lanes)]
        numbers = self.buffer[lanes]
        return [(int(number), lanes[numbers == number]) for number in np.unique(numbers)]


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
        self._writeable = data.flags.writeable
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
        self, offsets: Array, lanes: Array, element: Type, count: int, verb: str, place: AccessSite
    ) -> Array:
        """Return the index of each lane's first element.

        Raises InterpreterError if an address is unaligned or outside the buffer.
        """
        size = element.bytes
        if size > 1 and np.count_nonzero(offsets & (size - 1)):
            first = int(np.argmax(offsets % size != 0))
            raise place.error(
                int(lanes[first]),
                f"{verb} {an(element)} at byte {offsets[first]} of {self.name}, which is not a "
                f"multiple of {size}",
            )
        indices: Array = offsets >> (size.bit_length() - 1)
        length = self.nbytes // size
        if len(indices) and indices.max() + count > length:
            outside = indices + count > length
            first = int(np.argmax(outside))
            which = max(int(indices[first]), length) if count > 1 else int(indices[first])
            raise place.error(
                int(lanes[first]),
                f"{verb} element {which} of {self.name}, which has {length} of type {element}",
            )
        return indices

    def load(
        self, offsets: Array, lanes: Array, element: Type, count: int, place: AccessSite
    ) -> list[Array]:
        """Load `count` consecutive elements for each lane; returns one array per element."""
        first = self.locate(offsets, lanes, element, count, "loads", place)
        self._before_load(offsets, lanes, element.bytes * count, place)
        words = self._words(element.bytes)
        at = self._indices(first, lanes, element.bytes)
        loaded = [
            words.take(at + offset if offset else at).view(NUMPY_TYPES[element])
            for offset in range(count)
        ]
        if element is types.bool_:
            strange = np.array([part.view(np.uint8) > 1 for part in loaded]).any(axis=0)
            if strange.any():
                lane = int(lanes[int(np.argmax(strange))])
                raise place.error(lane, f"loads a bool from {self.name} that is neither 0 nor 1")
        return loaded

    def store(
        self, offsets: Array, lanes: Array, element: Type, values: list[Array], place: AccessSite
    ) -> None:
        """Store consecutive elements from each lane's offset on; `values` has an array for each."""
        if not self._writeable:
            raise place.error(int(lanes[0]), f"stores to {self.name}, which is read-only")
        first = self.locate(offsets, lanes, element, len(values), "stores to", place)
        words = self._words(element.bytes)
        dtype = NUMPY_TYPES[element]
        stored = [value.astype(dtype, copy=False).view(words.dtype) for value in values]
        places = self._indices(first, lanes, element.bytes)
        indices = [places + offset for offset in range(len(values))]
        self._before_store(offsets, lanes, words, indices, stored, place)
        for at, part in zip(indices, stored, strict=True):
            words[at] = part
        for offset, part in enumerate(stored):
            lost = words[indices[offset]] != part
            if np.count_nonzero(lost):
                lane = int(np.argmax(lost))
                winner = _last_store(indices, indices[offset][lane])
                raise place.error(
                    int(lanes[lane]),
                    f"and {place.instance(int(lanes[winner]))} store different values to element "
                    f"{int(first[lane]) + offset} of {self.name} at once",
                )

    def atomic(
        self, name: str, offsets: Array, lanes: Array, element: Type, values: list[Array],
        place: AccessSite,
    ) -> Array:  # fmt: skip
        """Change elements atomically, for one lane after the other; return the old values."""
        verb = "adds to" if name == "atomic_add" else "changes"
        if not self._writeable:
            raise place.error(int(lanes[0]), f"{verb} {self.name}, which is read-only")
        first = self.locate(offsets, lanes, element, 1, verb, place)
        self._before_atomic(offsets, lanes, element.bytes, verb, place)
        words, update = self._words(element.bytes), OPS[name].update
        assert update is not None
        first = self._indices(first, lanes, element.bytes)
        if len(np.unique(first)) == len(first):
            before: Array = words[first]
            words[first] = update(before, *values)
            return before
        if name == "atomic_add":
            return _added_in_turn(words, first, values[0])
        before = np.empty_like(values[0])
        for position, index in enumerate(first):
            at = slice(position, position + 1)
            before[at] = words[index]
            words[index] = update(before[at], *(value[at] for value in values))[0]
        return before

    def _before_load(self, offsets: Array, lanes: Array, size: int, place: AccessSite) -> None:
        """Check and record a load, in shared and private memory."""

    def _before_store(
        self, offsets: Array, lanes: Array, words: Array, indices: list[Array],
        stored: list[Array], place: AccessSite,
    ) -> None:  # fmt: skip
        """Check and record a store, in shared and private memory."""

    def _before_atomic(
        self, offsets: Array, lanes: Array, size: int, verb: str, place: AccessSite
    ) -> None:
        """Check and record an atomic access, in shared memory."""


def _last_store(indices: list[Array], index: int) -> int:
    """Return the position of the lane whose store to a word is the last and so remains."""
    for at in reversed(indices):
        (positions,) = np.nonzero(at == index)
        if len(positions):
            return int(positions[-1])
    raise AssertionError("no lane stores there")


def _added_in_turn(words: Array, places: Array, values: Array) -> Array:
    """Add values to words, in order, with repeated indices; return the old value for each."""
    order = np.argsort(places, kind="stable")
    places, values = places[order], values[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    counts = np.diff(starts, append=len(places))
    # Sums wrap, so that what was added before a place's first value can be taken off again.
    totals = np.cumsum(values, dtype=words.dtype)
    offsets = words[places[starts]] - (totals - values)[starts]
    after = totals + np.repeat(offsets, counts)
    words[places[starts]] = after[starts + counts - 1]
    before: Array = np.empty_like(after)
    before[order] = after - values
    return before


class PrivateBuffer(Buffer):
    """The private memory of instances, initially unset."""

    def __init__(self, name: str, size: int, element_bytes: int, lanes: int) -> None:
        super().__init__(name, np.zeros(size * lanes, np.uint8))
        self.nbytes = size
        self._element_bytes = element_bytes
        self._set = np.zeros((lanes, size // element_bytes), np.bool_)

    def _indices(self, first: Array, lanes: Array, size: int) -> Array:
        indices: Array = first + lanes * (self.nbytes // size)
        return indices

    def _before_load(self, offsets: Array, lanes: Array, size: int, place: AccessSite) -> None:
        first = offsets // self._element_bytes
        for offset in range(self._units(size)):
            unset = ~self._set[lanes, first + offset]
            if np.count_nonzero(unset):
                lane = int(lanes[int(np.argmax(unset))])
                raise place.error(lane, f"loads from {self.name} what was not set")

    def _before_store(
        self, offsets: Array, lanes: Array, words: Array, indices: list[Array],
        stored: list[Array], place: AccessSite,
    ) -> None:  # fmt: skip
        first = offsets // self._element_bytes
        for offset in range(self._units(words.itemsize * len(stored))):
            self._set[lanes, first + offset] = True

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
        self._is_one = groups == 1
        self._starts: dict[int, Array] = {}
        """The start of each lane's workgroup's memory in words, by the bytes of a word."""
        self._set = np.zeros(groups * units, np.bool_)
        self._copied_to = np.zeros(groups * units, np.bool_)
        self._mbarriers = np.zeros(groups * units, np.bool_)
        self._ordered = None if clocks is None else OrderedAccesses(clocks, units)
        self._accesses: Accesses = self._ordered or SinceBarrier(groups, units)
        # Reads of a product count for one lane, or with clocks for one lane of each subgroup.
        self._reading = 1 if clocks is None else WARPGROUP

    def barrier(self, groups: Array | None, *, products_only: bool = False) -> None:
        """Forget accesses, or only those of products, for all or some workgroups."""
        self._accesses.barrier(groups, products_only=products_only)

    def _indices(self, first: Array, lanes: Array, size: int) -> Array:
        if self._is_one:
            return first
        starts = self._starts.get(size)
        if starts is None:
            groups = np.arange(len(self._bytes) // self._stride)
            starts = np.repeat(groups * (self._stride // size), self._width)
            self._starts[size] = starts
        indices: Array = first + starts.take(lanes)
        return indices

    def _places(self, offsets: Array, lanes: Array, size: int) -> Array:
        """Return the units that each lane accesses, one row per lane."""
        first = self._indices(offsets // self._granule, lanes, self._granule)[:, None]
        count = size // self._granule
        result: Array = first if count == 1 else first + np.arange(count)
        return result

    def _refuse(self, bad: Array, lanes: Array, problem: str, place: AccessSite) -> None:
        if np.count_nonzero(bad):
            lane = int(lanes[int(np.argmax(bad.any(axis=1)))])
            raise place.error(lane, problem)

    def _before_load(self, offsets: Array, lanes: Array, size: int, place: AccessSite) -> None:
        places = self._places(offsets, lanes, size)
        self._refuse(~self._set[places], lanes, f"loads from {self.name} what was not set", place)
        self._refuse(
            self._accesses.stored(places, lanes),
            lanes,
            f"loads from {self.name} what another instance stored; a barrier is needed between",
            place,
        )
        self._accesses.record_loads(places, lanes)

    def load_rows(self, offsets: Array, lanes: Array, place: AccessSite) -> Array:
        """Load four words per lane that other lanes of the subgroup receive; one row per lane."""
        self._check_rows("loads", offsets, lanes, place)
        rows = np.stack(self.load(offsets, lanes, types.u32, _ROW_BYTES // 4, place), axis=1)
        places = self._places(offsets, lanes, _ROW_BYTES)
        self._refuse(
            self._accesses.stored(places, lanes, by_itself=True),
            lanes,
            f"loads for others from {self.name} what it stored; a barrier is needed between",
            place,
        )
        self._accesses.record_loads(places, lanes, for_others=True)
        return rows

    def store_rows(self, offsets: Array, lanes: Array, rows: Array, place: AccessSite) -> None:
        """Store four words per lane that other lanes of the subgroup supply."""
        self._check_rows("stores", offsets, lanes, place)
        self.store(offsets, lanes, types.u32, list(rows.T), place)
        # No lane may load them before a barrier, not even the storing one.
        places = self._places(offsets, lanes, _ROW_BYTES)
        self._accesses.record_stores(places, lanes, for_others=True)

    def _check_rows(self, verb: str, offsets: Array, lanes: Array, place: AccessSite) -> None:
        unaligned = offsets % _ROW_BYTES != 0
        if unaligned.any():
            at = int(np.argmax(unaligned))
            raise place.error(
                int(lanes[at]),
                f"{verb} a row of a matrix at byte {offsets[at]} of {self.name}, which is not a "
                f"multiple of {_ROW_BYTES}",
            )

    def tile(self, offsets: Array, lane: int, place: AccessSite) -> Array:
        """Read 16-bit elements at byte offsets, for a product of instances from `lane` on."""
        flat = offsets.reshape(-1)
        indices = self.locate(flat, np.full(len(flat), lane), types.u16, 1, "multiplies", place)
        self.read_tile(offsets, lane, place)
        elements: Array = self._words(2)[self._indices(indices, np.full(len(flat), lane), 2)]
        return elements.reshape(offsets.shape)

    def read_tile(self, offsets: Array, lane: int, place: AccessSite) -> None:
        """Check and record a product's reads of byte offsets, at its start and at its end."""
        first = np.unique(offsets.reshape(-1) // self._granule * self._granule)
        for each in range(lane, lane + self._reading, SUBGROUP):
            lanes = np.full(len(first), each)
            places = self._places(first, lanes, self._granule)
            problem = f"multiplies what is not in {self.name} yet"
            self._refuse(~self._set[places], lanes, problem, place)
            self._refuse(
                self._accesses.stored(places, lanes, by_itself=True),
                lanes,
                f"multiplies what was stored to {self.name}; a barrier is needed between",
                place,
            )
            self._accesses.record_products(places, lanes)

    def arrive(self, offset: int, group: int, data: Array) -> None:
        """Set the bytes of a finished tile copy to a workgroup, visible to all its instances."""
        begin = group * self._stride + offset
        self._bytes[begin : begin + len(data)] = data
        places = slice(begin // self._granule, (begin + len(data)) // self._granule)
        self._set[places], self._copied_to[places] = True, False
        self._accesses.copied(places)

    def _before_store(
        self, offsets: Array, lanes: Array, words: Array, indices: list[Array],
        stored: list[Array], place: AccessSite,
    ) -> None:  # fmt: skip
        changed = np.zeros(len(lanes), np.bool_)
        for at, part in zip(indices, stored, strict=True):
            changed |= words[at] != part
        places = self._places(offsets, lanes, words.itemsize * len(stored))
        self._refuse_arriving("stores to", places, lanes, place)
        changes = changed[:, None] & self._set[places]
        self._refuse_change(changes, places, lanes, place)
        self._set[places] = True
        self._accesses.record_stores(places, lanes)

    def _before_atomic(
        self, offsets: Array, lanes: Array, size: int, verb: str, place: AccessSite
    ) -> None:
        places = self._places(offsets, lanes, size)
        self._refuse(~self._set[places], lanes, f"{verb} {self.name} what was not set", place)
        everywhere = np.ones(places.shape, np.bool_)
        self._refuse_change(everywhere, places, lanes, place, atomically=True)
        self._accesses.record_atomics(places, lanes)

    def begin_copy(
        self,
        offsets: Array,
        lanes: Array,
        size: int,
        place: AccessSite,
        mbarrier: int | None = None,
    ) -> None:
        """Mark the target of an asynchronous copy as unset until the copy has been waited for.

        `mbarrier` is the clock of the mbarrier that counts the copy, if it has one.
        """
        places = self._places(offsets, lanes, size)
        self._refuse_arriving("copies to", places, lanes, place)
        everywhere = np.ones(places.shape, np.bool_)
        self._refuse_change(everywhere, places, lanes, place)
        self._set[places] = False
        if mbarrier is not None and self._ordered is not None:
            self._ordered.record_copy(places, mbarrier)
            self._copied_to[places] = True
            return
        self._accesses.record_stores(places, lanes)
        problem = f"copies to {self.name} where another instance copies to at once"
        self._refuse(self._accesses.stored(places, lanes), lanes, problem, place)
        self._copied_to[places] = True

    def make_mbarrier(self, offset: int, lane: int, place: AccessSite) -> None:
        """Reserve eight bytes for an mbarrier, accessible to mbarrier ops only."""
        at, lanes = np.array([offset]), np.array([lane])
        self.begin_copy(at, lanes, 8, place)
        places = self._places(at, lanes, 8)
        self._copied_to[places], self._mbarriers[places] = False, True
        self._accesses.forget_stores(places)

    def end_copy(self, offsets: Array, lanes: Array, data: Array) -> None:
        """Set the target of a finished copy; `data` has one row of bytes per lane."""
        first = self._indices(offsets, lanes, 1)
        self._bytes[first[:, None] + np.arange(data.shape[1])] = data
        places = self._places(offsets, lanes, data.shape[1])
        self._set[places] = True
        self._copied_to[places] = False
        self._accesses.record_stores(places, lanes)

    def _refuse_arriving(self, verb: str, places: Array, lanes: Array, place: AccessSite) -> None:
        """Raise InterpreterError for units with a pending copy, which may land at any time."""
        problem = f"{verb} {self.name} where a copy is on its way; it is to be waited for before"
        self._refuse(self._copied_to[places], lanes, problem, place)
        problem = f"{verb} {self.name} where an mbarrier is"
        self._refuse(self._mbarriers[places], lanes, problem, place)

    def _refuse_change(
        self,
        changes: Array,
        places: Array,
        lanes: Array,
        place: AccessSite,
        *,
        atomically: bool = False,
    ) -> None:
        """Raise InterpreterError for changes that race; atomic ones do not race with each other."""
        loaded = self._accesses.loaded(places, lanes)
        stored = self._accesses.stored(places, lanes, atomically=not atomically)
        for accessed, did in ((loaded, "loaded"), (stored, "stored")):
            self._refuse(
                changes & accessed,
                lanes,
                f"changes in {self.name} what another instance {did}; a barrier is needed between",
                place,
            )
