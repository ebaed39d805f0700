"""Memory of the PTX interpreter, with 64-bit addresses that encode a buffer and a byte offset.

The arrays of arguments are far apart, so that accesses out of bounds are detected. Shared memory is
one buffer for all arrays that the text declares.
"""

from __future__ import annotations

import numpy as np

from quod.codegen.ptx.interpreter.parse import Instruction, SharedArray
from quod.kernel.interpreter.clocks import Clocks
from quod.kernel.interpreter.copies import PendingCopies
from quod.kernel.interpreter.memory import AccessSite, Buffer, PrivateBuffer, SharedBuffer
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Location
from quod.kernel.ir.types import Type
from quod.kernel.ops.semantics import Array

_ELEMENTS: dict[int, Type] = {8: types.u8, 16: types.u16, 32: types.u32, 64: types.u64}
_OFFSET_BITS = np.uint64(40)
"""The number of low bits of an address that are the offset; the higher ones are the number of the
buffer plus 1."""

SHARED_START = 1024
"""The base address of shared and of private memory, so that 0 is not a valid address."""

FIRST_TABLE = 1 << 16
"""The number of the first table; tables are numbered from here on, as arguments are from 0."""


def global_address(number: int) -> int:
    """Return the address of the array of argument `number`."""
    return number + 1 << int(_OFFSET_BITS)


def shared_layout(arrays: list[SharedArray]) -> tuple[dict[str, int], int]:
    """Return the address of each shared array, and the total bytes of those of known size.

    The array whose size the launch determines comes last.
    """
    addresses: dict[str, int] = {}
    end = SHARED_START
    for array in sorted(arrays, key=lambda array: array.size is None):
        start = -(-end // array.alignment) * array.alignment
        addresses[array.name] = start
        end = start + (array.size or 0)
    return addresses, end - SHARED_START


class Memory:
    """The memory accessible to the running workgroups: global, shared and private."""

    def __init__(
        self, arrays: dict[int, Buffer], shared_bytes: int, granule: int, first_group: int,
        groups: int, width: int, private_bytes: int = 0, clocks: Clocks | None = None,
    ) -> None:  # fmt: skip
        self._buffers = arrays
        self.shared = SharedBuffer(
            "shared memory", shared_bytes, granule, width, groups, clocks=clocks
        )
        self._private = PrivateBuffer("private memory", private_bytes, granule, width * groups)
        self._group = first_group
        self._width = width
        self._copies = PendingCopies(width * groups)
        self._read_only: set[int] = set()
        self._written: set[int] = set()

    def place(self, location: Location) -> AccessSite:
        """Return the site of an access, for errors."""
        return AccessSite(location, self._group, self._width)

    def _by_buffer(
        self, instruction: Instruction, space: str, addresses: Array, lanes: Array
    ) -> list[tuple[int, Buffer, Array, Array]]:
        """Return number, buffer, lanes and byte offsets of each buffer that lanes point to."""
        if space == "shared":
            offsets = addresses.astype(np.int64) - SHARED_START
            return [
                (0, self.shared, lanes, self._check_not_before_start(instruction, offsets, lanes))
            ]
        if space == "local":
            offsets = addresses.astype(np.int64) - SHARED_START
            return [
                (0, self._private, lanes, self._check_not_before_start(instruction, offsets, lanes))
            ]
        numbers = (addresses >> _OFFSET_BITS).astype(np.int64)
        offsets = (addresses & np.uint64((1 << 40) - 1)).astype(np.int64)
        ranges = []
        for number in np.unique(numbers).tolist():
            in_buffer = numbers == number
            buffer = self._buffers.get(number - 1)
            if buffer is None:
                site = self.place(instruction.location)
                address = int(addresses[in_buffer][0])
                raise site.error(
                    int(lanes[in_buffer][0]), f"points to {address:#x}, outside any buffer"
                )
            ranges.append((number, buffer, lanes[in_buffer], offsets[in_buffer]))
        return ranges

    def _check_not_before_start(
        self, instruction: Instruction, offsets: Array, lanes: Array
    ) -> Array:
        if (offsets < 0).any():
            lane = int(lanes[int(np.argmax(offsets < 0))])
            site = self.place(instruction.location)
            raise site.error(lane, "points before the beginning of its memory")
        return offsets

    @staticmethod
    def _check_aligned(
        name: str, offsets: Array, lanes: Array, size: int, count: int, site: AccessSite
    ) -> None:
        """Raise InterpreterError for a vector access that is not aligned to its full size."""
        unaligned = offsets % (size * count) != 0
        if count > 1 and unaligned.any():
            index = int(np.argmax(unaligned))
            raise site.error(
                int(lanes[index]),
                f"accesses {count} words of {size} bytes at byte {offsets[index]} of {name}, which "
                f"is not a multiple of {size * count}",
            )

    def buffer(self, argument: int) -> Buffer:
        """Return the memory of an argument."""
        return self._buffers[argument]

    def load_halves(self, argument: int, offsets: Array, lane: int, place: AccessSite) -> Array:
        """Load 16-bit elements of an argument's memory, for one lane."""
        lanes = np.full(len(offsets), lane)
        (halves,) = self._buffers[argument].load(offsets, lanes, types.u16, 1, place)
        return halves

    def load(
        self, instruction: Instruction, space: str, addresses: Array, mask: Array,
        bits: int, count: int, constant: bool,
    ) -> list[Array]:  # fmt: skip
        """Load `count` words of `bits` bits for each lane; inactive lanes get 0."""
        lanes = np.flatnonzero(mask)
        site, element = self.place(instruction.location), _ELEMENTS[bits]
        results = [np.zeros(len(mask), f"u{bits // 8}") for _ in range(count)]
        for number, buffer, buffer_lanes, offsets in self._by_buffer(
            instruction, space, addresses[lanes], lanes
        ):
            self._check_aligned(buffer.name, offsets, buffer_lanes, bits // 8, count, site)
            if constant:
                self._read_only.add(number)
                self._check_constant(number, buffer, instruction.location)
            parts = buffer.load(offsets, buffer_lanes, element, count, site)
            for result, part in zip(results, parts, strict=True):
                result[buffer_lanes] = part
        return results

    def load_rows(self, instruction: Instruction, addresses: Array, mask: Array) -> Array:
        """Load the 16 bytes of a matrix row, as words, for each lane in the mask."""
        lanes = np.flatnonzero(mask)
        offsets = addresses[lanes].astype(np.int64) - SHARED_START
        self._check_not_before_start(instruction, offsets, lanes)
        return self.shared.load_rows(offsets, lanes, self.place(instruction.location))

    def store_rows(
        self, instruction: Instruction, addresses: Array, mask: Array, rows: Array
    ) -> None:
        """Store the 16 bytes of a matrix row at the address of each lane in the mask."""
        lanes = np.flatnonzero(mask)
        offsets = addresses[lanes].astype(np.int64) - SHARED_START
        self._check_not_before_start(instruction, offsets, lanes)
        self.shared.store_rows(offsets, lanes, rows, self.place(instruction.location))

    def store(
        self, instruction: Instruction, space: str, addresses: Array, mask: Array,
        bits: int, values: list[Array],
    ) -> None:  # fmt: skip
        """Store words of `bits` bits for each lane."""
        lanes = np.flatnonzero(mask)
        site = self.place(instruction.location)
        for number, buffer, buffer_lanes, offsets in self._by_buffer(
            instruction, space, addresses[lanes], lanes
        ):
            self._check_aligned(buffer.name, offsets, buffer_lanes, bits // 8, len(values), site)
            self._record_written(space, number, buffer, instruction.location)
            buffer.store(
                offsets,
                buffer_lanes,
                _ELEMENTS[bits],
                [value[buffer_lanes] for value in values],
                site,
            )

    def atomic(
        self, instruction: Instruction, space: str, name: str, addresses: Array, mask: Array,
        bits: int, values: list[Array],
    ) -> Array:  # fmt: skip
        """Change one word atomically for each lane in turn; return the old values."""
        lanes = np.flatnonzero(mask)
        old_values = np.zeros(len(mask), f"u{bits // 8}")
        site = self.place(instruction.location)
        for number, buffer, buffer_lanes, offsets in self._by_buffer(
            instruction, space, addresses[lanes], lanes
        ):
            self._record_written(space, number, buffer, instruction.location)
            lane_values = [value[buffer_lanes] for value in values]
            old_values[buffer_lanes] = buffer.atomic(
                name, offsets, buffer_lanes, _ELEMENTS[bits], lane_values, site
            )
        return old_values

    def _record_written(self, space: str, number: int, buffer: Buffer, location: Location) -> None:
        if space == "global":
            self._written.add(number)
            self._check_constant(number, buffer, location)

    def _check_constant(self, number: int, buffer: Buffer, location: Location) -> None:
        if number in self._read_only and number in self._written:
            raise self.place(location).error(
                0, f"or another loads from {buffer.name} with .nc, which the kernel stores to"
            )

    # --- asynchronous copies

    def begin_copy(
        self, instruction: Instruction, to: Array, start: Array, mask: Array, size: int, read: Array
    ) -> None:
        """Start a copy of `size` bytes from global to shared memory for each lane.

        Lanes that do not `read` get zeros.
        """
        lanes = np.flatnonzero(mask)
        site = self.place(instruction.location)
        targets = to.astype(np.int64) - SHARED_START
        self._check_not_before_start(instruction, targets[lanes], lanes)
        for _, buffer, buffer_lanes, starts in self._by_buffer(
            instruction, "global", start[lanes], lanes
        ):
            self._copies.begin(
                buffer, starts, self.shared, targets[buffer_lanes], buffer_lanes, types.u32,
                size // 4, site, read[buffer_lanes],
            )  # fmt: skip

    def commit(self, mask: Array) -> None:
        self._copies.commit(mask)

    def wait(self, pending: int, mask: Array) -> None:
        self._copies.wait(pending, mask)
