"""What transforms keep on a device: tables and scratch memory."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict

from quod.device.buffer import Buffer
from quod.device.protocol import HostDevice
from quod.field.array import Words, from_integers
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.ntt.twiddles import (
    Domain,
    build_column_table,
    build_row_table,
    column_table_bytes,
    row_table_bytes,
)

_MOST_TABLES = 8
"""Sets of tables that a device keeps: those used last."""


@frozen
class Tables:
    """The twiddles of each pass of a transform, lowest first, and the factors of its passes."""

    domain: Domain
    scale: int
    twiddles: list[Buffer]
    factors: Words

    @staticmethod
    def bytes_of(device: HostDevice, modulus: Modulus, log_rows: list[int]) -> int:
        """Bytes of the tables of a transform."""
        total = row_table_bytes(device, modulus, log_rows[0])
        below = log_rows[0]
        for rows in log_rows[1:]:
            total += column_table_bytes(device, modulus, rows, below)
            below += rows
        return total


class DeviceMemory:
    """The memory of one device; `lock` is held while a transform uses it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._twiddles: OrderedDict[tuple[Domain, tuple[int, ...]], list[Buffer]] = OrderedDict()
        self._scratch = Buffer.zeros(0)

    def tables(self, device: HostDevice, domain: Domain, log_rows: list[int], scale: int) -> Tables:
        """The tables for a domain and a split into passes, built if they are not there."""
        key = (domain, tuple(log_rows))
        if key not in self._twiddles:
            self._twiddles[key] = _build(device, domain, log_rows)
            while len(self._twiddles) > _MOST_TABLES:
                self._twiddles.popitem(last=False)
        self._twiddles.move_to_end(key)
        return Tables(domain, scale, self._twiddles[key], _factors(domain, scale))

    def scratch(self, nbytes: int) -> Buffer:
        """Memory for the rows of a pass."""
        if self._scratch.nbytes < nbytes:
            self._scratch = Buffer.zeros(nbytes)
        return self._scratch

    def release(self) -> None:
        """Gives up everything; what comes next builds it again."""
        with self.lock:
            self._twiddles.clear()
            self._scratch = Buffer.zeros(0)


def _build(device: HostDevice, domain: Domain, log_rows: list[int]) -> list[Buffer]:
    tables = [build_row_table(device, domain, log_rows[0])]
    below = log_rows[0]
    for rows in log_rows[1:]:
        tables.append(build_column_table(device, domain, rows, below))
        below += rows
    return tables


@functools.lru_cache(64)
def _factors(domain: Domain, scale: int) -> Words:
    """The scale, 1, then the powers of the roots of order 4 and 8 up to half their order."""
    p = domain.modulus.value
    integers = [scale, 1] + [1] * 6
    for log_half in (1, 2):
        if domain.log_size > log_half:
            _, root = domain.level(log_half)
            for power in range(1 << log_half):
                integers[(1 << log_half) + power] = pow(root, power, p)
    return from_integers(domain.modulus, integers)


_memories: weakref.WeakKeyDictionary[HostDevice, DeviceMemory] = weakref.WeakKeyDictionary()
_memories_lock = threading.Lock()


def memory_of(device: HostDevice) -> DeviceMemory:
    """The memory that transforms share on a device."""
    with _memories_lock:
        return _memories.setdefault(device, DeviceMemory())
