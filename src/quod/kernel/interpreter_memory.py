"""Memory as the interpreter sees it: checked at each access, and watched for races.

An address is a buffer and a byte offset in it, so nothing reaches from one buffer into another.
In shared memory each byte remembers who touched it since the last barrier: an instance that reads
what another wrote, or writes what another read, without a barrier between, is a race.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from quod.kernel import types
from quod.kernel.errors import InterpreterError
from quod.kernel.ir import Location
from quod.kernel.semantics import NUMPY_TYPES, Array
from quod.kernel.types import Type

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _compare_exchange(old: Array, expected: Array, value: Array) -> Array:
    return np.where(old == expected, value, old)


_ATOMICS: dict[str, Callable[..., Array]] = {
    "atomic_add": lambda old, value: old + value,
    "atomic_max": np.maximum,
    "atomic_min": np.minimum,
    "atomic_or": lambda old, value: old | value,
    "atomic_exchange": lambda old, value: value,
    "atomic_compare_exchange": _compare_exchange,
}
_NOBODY, _MANY, _ATOMIC = -1, -2, -3
_FAR = 1 << 60  # an offset that no buffer has, and that sums cannot wrap


@dataclass(frozen=True, eq=False)
class Pointers:
    """One address a lane: the number of a buffer and a byte offset."""

    buffer: Array
    offset: Array

    def plus(self, index: Array, element: Type) -> Pointers:
        """The addresses `index` elements on; an address past 2**60 bytes stays there."""
        steps = np.minimum(index.astype(np.uint64), np.uint64(1 << 50)).astype(np.int64)
        return Pointers(self.buffer, np.minimum(self.offset + steps * element.bytes, _FAR))


@dataclass(frozen=True)
class Place:
    """Where an access stands: for the messages."""

    location: Location
    group: int

    def error(self, lane: int, problem: str) -> InterpreterError:
        return InterpreterError(
            f"instance {lane} of workgroup {self.group} {problem}", self.location
        )


class Buffer:
    """Bytes that pointers point into."""

    def __init__(self, name: str, data: Array) -> None:
        self.name = name
        self._bytes = data.reshape(-1).view(np.uint8)
        self._writeable = data.flags.writeable

    def _words(self, element: Type) -> Array:
        whole = len(self._bytes) // element.bytes * element.bytes
        return self._bytes[:whole].view(_WORDS[element.bytes])

    def locate(
        self, offsets: Array, lanes: Array, element: Type, count: int, verb: str, place: Place
    ) -> Array:
        """The index of each lane's first element; each access is aligned and inside."""
        size = element.bytes
        unaligned = offsets % size != 0
        if unaligned.any():
            first = int(np.argmax(unaligned))
            raise place.error(
                int(lanes[first]),
                f"{verb} a {element} at byte {offsets[first]} of {self.name}, which is not a "
                f"multiple of {size}",
            )
        indices = offsets // size
        length = len(self._bytes) // size
        outside = indices + count > length
        if outside.any():
            first = int(np.argmax(outside))
            which = max(int(indices[first]), length) if count > 1 else int(indices[first])
            raise place.error(
                int(lanes[first]),
                f"{verb} element {which} of {self.name}, which has {length} of type {element}",
            )
        return indices

    def load(
        self, offsets: Array, lanes: Array, element: Type, count: int, place: Place
    ) -> list[Array]:
        """`count` consecutive elements for each lane, one array an element."""
        first = self.locate(offsets, lanes, element, count, "loads", place)
        self._before_load(offsets, lanes, element.bytes * count, place)
        words = self._words(element)
        loaded = [words[first + offset].view(NUMPY_TYPES[element]) for offset in range(count)]
        if element is types.bool_:
            strange = np.array([part.view(np.uint8) > 1 for part in loaded]).any(axis=0)
            if strange.any():
                lane = int(lanes[int(np.argmax(strange))])
                raise place.error(lane, f"loads a bool from {self.name} that is neither 0 nor 1")
        return loaded

    def store(
        self, offsets: Array, lanes: Array, element: Type, values: list[Array], place: Place
    ) -> None:
        """Stores one array an element to the places after each lane's offset."""
        if not self._writeable:
            raise place.error(int(lanes[0]), f"stores to {self.name}, which is read-only")
        first = self.locate(offsets, lanes, element, len(values), "stores to", place)
        words = self._words(element)
        stored = [value.astype(NUMPY_TYPES[element]).view(words.dtype) for value in values]
        changed = np.zeros(len(lanes), np.bool_)
        for offset, part in enumerate(stored):
            changed |= words[first + offset] != part
        self._before_store(offsets, lanes, changed, element.bytes * len(values), place)
        for offset, part in enumerate(stored):
            words[first + offset] = part
        for offset, part in enumerate(stored):
            lost = words[first + offset] != part
            if lost.any():
                at = int(np.argmax(lost))
                raise place.error(
                    int(lanes[at]),
                    f"and another of its instances store different values to element "
                    f"{int(first[at]) + offset} of {self.name} at once",
                )

    def atomic(
        self, name: str, offsets: Array, lanes: Array, element: Type, values: list[Array],
        place: Place,
    ) -> Array:  # fmt: skip
        """Changes places for one lane after the other; gives what each found."""
        verb = "adds to" if name == "atomic_add" else "changes"
        if not self._writeable:
            raise place.error(int(lanes[0]), f"{verb} {self.name}, which is read-only")
        first = self.locate(offsets, lanes, element, 1, verb, place)
        self._before_atomic(offsets, lanes, element.bytes, verb, place)
        words, combine = self._words(element), _ATOMICS[name]
        if len(np.unique(first)) == len(first):
            before: Array = words[first]
            words[first] = combine(before, *values)
            return before
        before = np.empty_like(values[0])
        for position, index in enumerate(first):
            at = slice(position, position + 1)
            before[at] = words[index]
            words[index] = combine(before[at], *(value[at] for value in values))[0]
        return before

    def _before_load(self, offsets: Array, lanes: Array, size: int, place: Place) -> None:
        """What shared memory checks."""

    def _before_store(
        self, offsets: Array, lanes: Array, changed: Array, size: int, place: Place
    ) -> None:
        """What shared memory checks."""

    def _before_atomic(
        self, offsets: Array, lanes: Array, size: int, verb: str, place: Place
    ) -> None:
        """What shared memory checks."""


class SharedBuffer(Buffer):
    """Memory of one workgroup: at first unset, and watched for races."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, np.zeros(size, np.uint8))
        self._set = np.zeros(size, np.bool_)
        self._writer = np.full(size, _NOBODY, np.int64)
        self._reader = np.full(size, _NOBODY, np.int64)

    def barrier(self) -> None:
        """Forgets who touched what."""
        self._writer.fill(_NOBODY)
        self._reader.fill(_NOBODY)

    @staticmethod
    def _places(offsets: Array, size: int) -> Array:
        result: Array = offsets[:, None] + np.arange(size)
        return result

    def _refuse(self, bad: Array, lanes: Array, problem: str, place: Place) -> None:
        if bad.any():
            lane = int(lanes[int(np.argmax(bad.any(axis=1)))])
            raise place.error(lane, problem)

    def _before_load(self, offsets: Array, lanes: Array, size: int, place: Place) -> None:
        places, who = self._places(offsets, size), lanes[:, None]
        self._refuse(~self._set[places], lanes, f"loads from {self.name} what was not set", place)
        writer = self._writer[places]
        self._refuse(
            (writer != _NOBODY) & (writer != who),
            lanes,
            f"loads from {self.name} what another instance stored; a barrier is needed between",
            place,
        )
        self._note_readers(places, who)

    def _note_readers(self, places: Array, who: Array) -> None:
        known = self._reader[places]
        self._reader[places] = np.where((known == _NOBODY) | (known == who), who, _MANY)
        # Two lanes of this very load at one place: the later one overwrote the earlier.
        several = (self._reader[places] != who) | (known == _MANY)
        self._reader[places[several]] = _MANY

    def _before_store(
        self, offsets: Array, lanes: Array, changed: Array, size: int, place: Place
    ) -> None:
        places, who = self._places(offsets, size), lanes[:, None]
        changes = changed[:, None] & self._set[places]
        self._refuse_change(changes, places, lanes, allowed_writer=_NOBODY, place=place)
        self._set[places] = True
        self._writer[places] = who

    def _before_atomic(
        self, offsets: Array, lanes: Array, size: int, verb: str, place: Place
    ) -> None:
        places = self._places(offsets, size)
        self._refuse(~self._set[places], lanes, f"{verb} {self.name} what was not set", place)
        everywhere = np.ones(places.shape, np.bool_)
        self._refuse_change(everywhere, places, lanes, allowed_writer=_ATOMIC, place=place)
        self._writer[places] = _ATOMIC

    def begin_copy(self, offsets: Array, lanes: Array, size: int, place: Place) -> None:
        """Makes the places of an asynchronous copy unset until it has been waited for."""
        everywhere = np.ones((len(lanes), size), np.bool_)
        places = self._places(offsets, size)
        self._refuse_change(everywhere, places, lanes, allowed_writer=_NOBODY, place=place)
        self._set[places] = False
        self._writer[places] = lanes[:, None]

    def end_copy(self, offsets: Array, lanes: Array, data: Array) -> None:
        """Sets the places of a copy: `data` are the bytes of each lane."""
        places = self._places(offsets, data.shape[1])
        self._bytes[places] = data
        self._set[places] = True
        self._writer[places] = lanes[:, None]

    def _refuse_change(
        self, changes: Array, places: Array, lanes: Array, *, allowed_writer: int, place: Place
    ) -> None:
        who = lanes[:, None]
        for record, allowed, did in (
            (self._reader, _NOBODY, "loaded"),
            (self._writer, allowed_writer, "stored"),
        ):
            known = record[places]
            other = (known != _NOBODY) & (known != allowed) & (known != who)
            self._refuse(
                changes & other,
                lanes,
                f"changes in {self.name} what another instance {did}; a barrier is needed between",
                place,
            )
