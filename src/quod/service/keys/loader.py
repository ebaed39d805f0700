"""Loads Groth16 keys from a repository, or another source, to a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from quod.device.protocol import AnyDevice, in_host_memory
from quod.formats import Zkey
from quod.formats.iden3 import Iden3File
from quod.formats.zkey.file import KIND, VERSION
from quod.groth16 import ProvingKey
from quod.groth16.memory_estimate import KeyCounts, device_parts, host_parts
from quod.service.keys.needs import Needs, Tier
from quod.service.keys.record import ZKEY, KeyRecord

# A key may use half of the budget for memory that only makes proofs faster, so that other keys fit.
_BUDGET_DIVISOR = 2
# Proofs over domains up to this size do not fill any GPU.
_SMALL_DOMAIN = 1 << 17
# The default number of concurrent proofs if one leaves half of the device idle.
DEFAULT_LANES = 2
# The name, in a memory estimate, of the part for concurrent proofs after the first.
_LANES_PART = "lanes"


class KeySource(Protocol):
    """The source of keys by identity, such as a `KeyRepository`."""

    def record(self, identity: str) -> KeyRecord:
        """Return the counts of a key and the length of its file."""

    def read_zkey(self, identity: str, check_cancelled: Callable[[], None]) -> memoryview:
        """Read a zkey into memory; `check_cancelled` is called regularly and may raise."""


class Groth16Loader:
    """A `Loader` of Groth16 keys.

    A held key is the parsed zkey in host memory; a ready one is the `ProvingKey` on the device.

    device_bytes: the budget of all keys on the device.
    lanes: the number of concurrent proofs of a small key; default: chosen by domain and device.
    max_batch: the maximum batch of proofs of a very small key.
    """

    def __init__(
        self,
        source: KeySource,
        device: AnyDevice,
        device_bytes: int,
        lanes: int | None = None,
        max_batch: int | None = None,
    ) -> None:
        self._source, self._lanes, self._max_batch = source, lanes, max_batch
        self._device = device
        self._device_bytes = device_bytes

    def needs(self, key: str) -> Needs:
        """Return upper bounds on the bytes that a key takes when held and when ready."""
        record = self._source.record(key)
        held_parts = {"file": record.files[ZKEY].bytes}
        counts = KeyCounts(
            record.curve, record.variables, record.public, record.domain, record.entries
        )
        if in_host_memory(self._device):
            return Needs(held_parts, host_parts(counts), Tier.HOST)
        budget = self._device_bytes
        lanes = self._concurrent_proofs(record.domain)
        estimate = partial(
            device_parts,
            counts,
            self._device,
            budget // _BUDGET_DIVISOR,
            budget,
            max_batch=self._max_batch,
        )
        ready_parts = estimate(lanes=lanes)
        if self._lanes is None and lanes > 1 and sum(ready_parts.values()) > budget:
            # The default number of concurrent proofs does not fit: plan for one proof.
            ready_parts = estimate()
        return Needs(held_parts, ready_parts, Tier.DEVICE)

    def read(self, key: str, check_cancelled: Callable[[], None]) -> Zkey:
        """Read and validate the zkey. `check_cancelled` raises an error after cancellation."""
        data = self._source.read_zkey(key, check_cancelled)
        check_cancelled()
        zkey = Zkey.of(Iden3File.parse(data, f"key {key}", KIND, VERSION))
        zkey.check_points()
        return zkey

    def prepare(
        self, key: str, held: Zkey, needs: Needs, check_cancelled: Callable[[], None]
    ) -> tuple[ProvingKey, Needs]:
        """Load the key to the device within the reserved memory.

        Returns the key and the memory it takes. `check_cancelled` raises an error after
        cancellation. After any error the key is closed.
        """
        budget = None if needs.tier is Tier.HOST else needs.bytes(Tier.DEVICE)
        # Insecure keys were accepted or refused at registration. The estimate has the part of
        # concurrent proofs only if memory for them was reserved.
        lanes = self._concurrent_proofs(held.domain_size) if _LANES_PART in needs.ready else 1
        ready = ProvingKey(
            held, self._device, allow_insecure=True, memory_budget=budget, lanes=lanes,
            max_batch=self._max_batch,
        )  # fmt: skip
        try:
            check_cancelled()
            # Otherwise the first proof, and the first batch, would wait for compilation.
            ready.prepare(with_batches=True)
        except BaseException:
            ready.close()
            raise
        return ready, Needs(needs.held, {"key": ready.resident.nbytes}, needs.tier)

    def _concurrent_proofs(self, domain: int) -> int:
        """Return the number of concurrent proofs.

        It is 1 for large domains, in host memory, and on a device with a single queue, whatever
        `lanes` is.
        """
        device = self._device
        if domain > _SMALL_DOMAIN or in_host_memory(device) or device.single_queue:
            return 1
        if self._lanes is not None:
            return self._lanes
        return DEFAULT_LANES if DEFAULT_LANES * domain <= device.resident_lanes else 1

    def close(self, ready: ProvingKey) -> None:
        """Close the key: stop its threads and free its memory."""
        ready.close()
