"""The witness calculators of registered keys, loaded on first use."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quod.errors import InputError, QuodError
from quod.service.keys.record import WASM
from quod.service.keys.repository import KeyRepository
from quod.service.queue.validation import checked_list, checked_name
from quod.validation import whole_number
from quod.witness.limits import WitnessLimits

if TYPE_CHECKING:
    from quod.witness.calculator import WitnessCalculator

_log = logging.getLogger(__name__)


class RegisteredCalculators:
    """A cache of the calculators of a repository's keys; a call computes a witness. Thread-safe.

    most: the maximum number of cached calculators; the least recently used one is evicted first.
    warm: keys whose calculators a background thread prepares; it logs errors, which are raised
        again at use. A calculator that was compiled by another version of wasmtime, or not at
        registration, is compiled at its first use, which may take long; `prepare` does so in
        advance.
    """

    def __init__(
        self, repository: KeyRepository, *, limits: WitnessLimits | None = None, most: int = 64,
        warm: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._repository = repository
        self._limits = WitnessLimits() if limits is None else limits
        self._most = whole_number("the maximum number of calculators", most, 1)
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, _CalculatorSlot] = OrderedDict()
        keys = list(dict.fromkeys(checked_list("the keys to prepare at start", warm)))
        for key in keys:
            checked_name("a key", key)
        if keys:
            threading.Thread(
                target=self._prepare_all, args=(keys,), name="quod-calculators", daemon=True
            ).start()

    def __call__(self, key: str, inputs: bytes) -> bytes:
        """Compute the .wtns file of a key (identity or name) from inputs as JSON.

        Raises InputError if the key has no calculator, and the errors of `KeyRepository.read` and
        `WitnessCalculator`.
        """
        return self._calculator(key).calculate(inputs)

    def prepare(self, key: str) -> None:
        """Load the calculator of a key; raises the same errors as a call."""
        self._calculator(key)

    def _prepare_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                if WASM in self._repository.record(key).files:
                    self.prepare(key)
            except QuodError as error:
                _log.warning("the witness calculator of %s is not ready: %s", key, error)

    def _calculator(self, key: str) -> WitnessCalculator:
        identity = self._repository.resolve(key)
        with self._lock:
            slot = self._slots.setdefault(identity, _CalculatorSlot())
            self._slots.move_to_end(identity)
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
        # Callers of other calculators do not wait for this one.
        with slot.lock:
            if slot.calculator is None:
                slot.calculator = self._open_calculator(identity)
            return slot.calculator

    def _open_calculator(self, identity: str) -> WitnessCalculator:
        # wasmtime is needed only if clients send inputs.
        from quod.witness.calculator import WitnessCalculator

        record = self._repository.record(identity)
        if WASM not in record.files:
            raise InputError(
                f"the key {identity} accepts no inputs because it was registered "
                "without a witness calculator; send a witness, or register the key "
                "again (quod keys add --wasm)"
            )
        return WitnessCalculator(
            self._repository.read(identity, WASM), name=f"{WASM} of the key {identity}",
            curve=record.curve, variables=record.variables, limits=self._limits,
        )  # fmt: skip


class _CalculatorSlot:
    """The slot of a key's calculator, filled on first use."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calculator: WitnessCalculator | None = None
