"""The provers of one device: circuits and keys that stay open, the least recently used evicted."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping

from quod.curve.named import CURVES
from quod.device.discovery import resolve_device
from quod.device.memory.budget import ran_out_of_memory
from quod.device.protocol import in_host_memory
from quod.errors import InsecureKeyError, QuodError
from quod.filecoin.parameters.files import AnyPath, check_parameters, parameter_file
from quod.filecoin.parameters.identifiers import ParameterSet
from quod.filecoin.proving import Prover
from quod.formats import Zkey
from quod.formats.source import existing_size
from quod.frozen import frozen
from quod.groth16.device_key.bases import base_bytes
from quod.groth16.device_key.key import DeviceKey
from quod.groth16.device_key.memory import CUT, WITNESSES
from quod.service.errors import KeyInUseError, UnavailableError
from quod.service.filecoin.circuit_ids import circuit_id
from quod.service.keys import CacheStatus, Tier
from quod.service.keys.leases import KeyUse

_log = logging.getLogger(__name__)


@frozen
class _OpenProver:
    """An open prover.

    nbytes: the memory of its key, on a GPU with that of its proofs; see `memory_bytes`.
    seconds: the time that opening it took.
    """

    prover: Prover
    nbytes: int
    seconds: float


class Provers:
    """The open provers of a device by parameter set, opened on first use. Thread-safe.

    folder: the folder of the parameters.
    allow_insecure: whether to open test keys, which are refused otherwise.
    """

    EMPTY = CacheStatus(False, {}, {}, 0, ())

    def __init__(self, device: str, folder: AnyPath, *, allow_insecure: bool = False) -> None:
        self.device, self._folder = resolve_device(device), folder
        self._allow_insecure = allow_insecure
        # Held while parameters are opened or closed, not during proofs.
        self._lock = threading.Lock()
        self._provers: OrderedDict[ParameterSet, _OpenProver] = OrderedDict()
        self._in_use: ParameterSet | None = None
        self._closed = False

    def open(self, parameters: ParameterSet, *, use: bool = False) -> Prover:
        """Return the prover of a set; open it if necessary.

        If memory runs out, the least recently used provers are evicted.
        use: keep the prover from being evicted until `release`.
        Raises the errors of `Prover`, and UnavailableError after `close`.
        """
        with self._lock:
            if self._closed:
                raise UnavailableError(
                    f"{self.device.name} was closed; ask again", retry_seconds=1.0
                )
            entry = self._provers.get(parameters)
            if entry is None:
                entry = self._provers[parameters] = self._opened(parameters)
            self._provers.move_to_end(parameters)
            if use:
                self._in_use = parameters
            return entry.prover

    def release(self) -> None:
        """Permit the eviction of the prover in use."""
        self._in_use = None

    def _opened(self, parameters: ParameterSet) -> _OpenProver:
        name = circuit_id(parameters)
        file = parameter_file(parameters, self._folder, ("params",))
        # Before minutes are spent on opening a file that is damaged, or a key that is refused.
        check_parameters(parameters, file, allow_insecure=self._allow_insecure)
        fields = {"circuit": name, "device": self.device.name}
        _log.info("opening parameters", extra=fields | {"bytes": existing_size(file)})
        begin = time.monotonic()
        while True:
            try:
                prover = Prover(parameters, file, self.device)
                break
            except (QuodError, MemoryError) as error:
                idle = next((each for each in self._provers if each != self._in_use), None)
                if idle is None or not ran_out_of_memory(error):
                    raise
            self._close(idle)
        seconds = time.monotonic() - begin
        _log.info("opened parameters", extra=fields | {"seconds": round(seconds, 3)})
        if prover.insecure:
            if not self._allow_insecure:
                prover.close()
                raise InsecureKeyError(f"{file} was replaced by a key for which anyone can forge")
            _log.warning("%s has a test key: anyone can forge proofs for it", name)
        return _OpenProver(prover, memory_bytes(prover), seconds)

    def _close(self, parameters: ParameterSet) -> _OpenProver | None:
        """Close a prover, if it is open, and return its entry."""
        entry = self._provers.pop(parameters, None)
        if entry is not None:
            entry.prover.close()
            fields = {"circuit": circuit_id(parameters), "device": self.device.name}
            _log.info("closed parameters", extra=fields)
        return entry

    def evict(self, parameters: ParameterSet) -> int:
        """Close the prover of a set; return the bytes of its memory, 0 if it was not open.

        Raises KeyInUseError while a proof uses it.
        """
        with self._lock:
            if parameters == self._in_use:
                raise KeyInUseError(f"a proof uses {circuit_id(parameters)}; evict it later")
            entry = self._close(parameters)
            return 0 if entry is None else entry.nbytes

    def status(self, *, ready: bool) -> tuple[CacheStatus, Mapping[str, int]]:
        """Return the open provers, and the bytes of memory by purpose.

        ready: whether the warm parameters are loaded.
        A key in a GPU's memory has its workspaces, so these count as keys.
        """
        on_host = in_host_memory(self.device)
        tier = Tier.HOST if on_host else Tier.DEVICE
        # A snapshot without the lock, which is held for minutes while parameters are opened.
        entries, in_use = list(self._provers.items()), self._in_use
        used = sum(entry.nbytes for _, entry in entries)
        keys = tuple(
            KeyUse(
                circuit_id(parameters), tier, ready=True, loading=False,
                host_bytes=entry.nbytes * on_host, device_bytes=entry.nbytes * (not on_host),
                leases=int(parameters == in_use), hits=0, misses=1, loads=1, failures=0,
                evictions=0, load_seconds=entry.seconds,
            )
            for parameters, entry in entries
        )  # fmt: skip
        budget = 0 if on_host else self.device.memory_budget
        cache = CacheStatus(ready, {tier: budget}, {tier: used}, 0, keys)
        return cache, {"keys": used, "workspace": 0, "free": max(0, budget - used)}

    def close(self) -> None:
        """Close all provers, and open no more."""
        with self._lock:
            self._closed = True
            for entry in self._provers.values():
                entry.prover.close()
            self._provers.clear()


def memory_bytes(prover: Prover) -> int:
    """Return the bytes of a prover's key in the memory of its device."""
    key = prover.key
    if isinstance(key, DeviceKey):
        return key.memory.nbytes
    return key.resident.nbytes + (_array_bytes(key.zkey) if in_host_memory(key.device) else 0)


def host_peak_bytes(prover: Prover, file_bytes: int) -> int:
    """Estimate the host memory of a key in bytes, with the most that a proof or opening adds.

    A key in a GPU's memory alone takes the host's for what is streamed from it.
    file_bytes: the size of the parameter file.
    """
    key = prover.key
    if isinstance(key, DeviceKey):
        memory = key.memory
        if memory.staying is None:
            return 0
        sizes = base_bytes(memory.circuit)
        return sum(sizes[name] for name in CUT) - memory.staying
    on_host = in_host_memory(key.device)
    # The witness of the next partition is computed during a proof.
    witnesses = WITNESSES * prover.circuit.wires * CURVES[key.curve].fr.bytes
    # While a key is opened, the points as they are in the file and those in Montgomery form.
    extra_bytes = max(2 * file_bytes, witnesses + key.peak_bytes)
    return _array_bytes(key.zkey) + on_host * key.resident.nbytes + extra_bytes


def _array_bytes(zkey: Zkey) -> int:
    """Return the bytes of a zkey of converted parameters, whose arrays have all wires."""
    arrays = zkey.a, zkey.b_g1, zkey.b_g2, zkey.c, zkey.h, zkey.ic
    return sum(array.nbytes for array in arrays) + zkey.coefficients.nbytes
