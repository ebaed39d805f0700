"""The programs of keys that compute witnesses, compiled once and kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from quod.errors import InputError
from quod.service.keys import KeyRepository
from quod.service.keys.record import WASM

if TYPE_CHECKING:
    from quod.service.witness import WitnessCalculator

# Of a circuit some megabytes each.
_MOST_KEPT = 32


class Calculators:
    """The calculators of a repository's keys; those used least recently are forgotten first."""

    def __init__(self, repository: KeyRepository) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, WitnessCalculator] = OrderedDict()

    def __call__(self, key: str, inputs: bytes) -> bytes:
        """The .wtns file for inputs of a key; see `WitnessCalculator.calculate`."""
        identity = self._repository.resolve(key)
        with self._lock:
            found = self._kept.get(identity)
            if found is None:
                found = self._kept[identity] = self._opened(identity)
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(identity)
        return found.calculate(inputs)

    def _opened(self, identity: str) -> WitnessCalculator:
        # Only who is sent inputs needs wasmtime.
        from quod.service.witness import WitnessCalculator

        record = self._repository.record(identity)
        if WASM not in record.files:
            raise InputError(
                f"the key {identity} has no program that computes witnesses from inputs; register "
                "it with its circuit.wasm, or send witnesses"
            )
        return WitnessCalculator(
            self._repository.read(identity, WASM), name=f"the program of the key {identity}",
            curve=record.curve, variables=record.variables,
        )  # fmt: skip
