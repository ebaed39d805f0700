"""Real keys: proofs while their files change, within the memory estimate."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from quod.device.emulated.device import EmulatedDevice
from quod.errors import DeviceError, InputError
from quod.formats import Zkey
from quod.groth16 import ProvingKey, VerifyingKey
from quod.service.errors import KeyChangedError, KeyTooLargeError, NotFoundError
from quod.service.keys import KeyRepository, ResidentKeys, Tier
from quod.service.keys.loader import Groth16Loader
from quod.service.keys.record import ZKEY
from tests.groth16.gpu.test_memory import Idle as IdleInABrowser
from tests.service.keys.conftest import BLS, BN254, folder_of
from tests.support.thorough import one_and_others

MEMBERSHIP = Path(__file__).parents[3] / "examples" / "membership"


class Idle(IdleInABrowser):
    """Runs no kernels; those of this target are traced sooner."""

    def __init__(self) -> None:
        EmulatedDevice.__init__(self, executor="ptx", resident_lanes=1 << 12, memory_budget=1 << 34)
        self.largest_allocation = 0


def test_proof_continues_while_its_key_file_is_replaced(repository: KeyRepository) -> None:
    identity, path = repository.resolve("small"), folder_of(repository) / ZKEY
    verifying = VerifyingKey.from_json(BN254 / "verification_key.json")
    with ResidentKeys(repository) as keys:
        keys.warm(["small"])
        assert keys.ready
        with keys.lease("small") as lease:
            # In place, and then by another: a mapped file would end the process, or change.
            os.truncate(path, 0)
            path.unlink()
            path.write_bytes((BLS / "circuit.zkey").read_bytes())
            for _ in range(2):
                proof, public = lease.value.prove(BN254 / "witness.wtns")
                assert verifying.verify(public, proof)
            assert lease.key == identity
        # It is still there for others; only a new load looks at the file.
        keys.lease(identity).release()
        assert keys.evict("small")
        with pytest.raises(KeyChangedError, match=ZKEY):
            keys.lease("small")
        repository.add(BN254 / "circuit.zkey")
        keys.preload("small")
        repository.remove("small")
        with pytest.raises(NotFoundError):
            keys.lease("small")
        assert keys.evict(identity)
        [use] = keys.status().keys
        assert (use.loads, use.failures, use.hits, use.tier) == (2, 1, 2, Tier.DISK)
        assert set(keys.status().used.values()) == {0}


def test_memory_estimate_is_sufficient(tmp_path: Path) -> None:
    repository = KeyRepository(tmp_path / "keys", create=True)
    record = repository.add(MEMBERSHIP / "circuit.zkey", names=["membership"])
    with ResidentKeys(repository) as keys:
        reckoned = Groth16Loader(repository, keys.device, 0).needs(record.identity)
        keys.preload("membership")
        keys.evict("membership")
        tracemalloc.start()
        keys.preload("membership")
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        told = keys.status().used[Tier.HOST]
    assert peak <= reckoned.bytes(Tier.HOST)
    # Beside the arrays there are some objects.
    assert abs(kept - told) < 0.05 * told
    with (
        ResidentKeys(repository, host_bytes=record.files[ZKEY].bytes) as keys,
        pytest.raises(KeyTooLargeError) as caught,
    ):
        keys.lease("membership")
    assert set(caught.value.parts) == {"file", "matrices", "bases"}


def test_a_device_with_memory_of_its_own(repository: KeyRepository) -> None:
    record = repository.add(MEMBERSHIP / "circuit.zkey", names=["membership"])
    device, share = Idle(), 14 << 20
    larger_needs = Groth16Loader(repository, device, 1 << 30).needs(record.identity)
    needs = Groth16Loader(repository, device, share).needs(record.identity)
    assert needs.parts(Tier.HOST) == {"file": record.files[ZKEY].bytes}
    assert set(needs.ready) == {"matrices", "transforms", "witnesses", "bases and sums"}
    assert needs.bytes(Tier.DEVICE) <= share < larger_needs.bytes(Tier.DEVICE) <= 1 << 29
    with ResidentKeys(repository, device, device_bytes=share) as keys:
        with keys.lease("membership") as lease:
            assert lease.value.device is device
            [use] = keys.status().keys
            assert use.tier is Tier.DEVICE
            # Tables and results are some more.
            assert 0 < device.memory.in_use < 1.01 * use.device_bytes
            assert max(device.memory.peak, use.device_bytes) <= needs.bytes(Tier.DEVICE)
        assert keys.evict("membership")
    with ResidentKeys(repository, device, device_bytes=100) as keys:
        with pytest.raises(KeyTooLargeError, match="on the device") as caught:
            keys.lease("small")
        assert list(caught.value.parts) == list(needs.ready)
        assert keys.status().budgets[Tier.DEVICE] == 100
    # What is not told is shared with others of the device, and of the machine.
    with ResidentKeys(repository, device, of_device=4, of_host=2) as keys:
        budgets, machine = keys.status().budgets, ResidentKeys(repository).status().budgets
        assert budgets[Tier.DEVICE] == device.memory_budget // 4
        assert budgets[Tier.HOST] == machine[Tier.HOST] // 2
    # The key takes no more of the device than it is told.
    zkey = Zkey.open(BN254 / "circuit.zkey")
    with pytest.raises(DeviceError, match="available for them"):
        ProvingKey(zkey, device, memory_budget=1000)


@pytest.mark.parametrize(("together", "most"), one_and_others([(7, 4), (None, 32), (1, 1)]))
def test_batch_memory_is_estimated_before_loading(
    repository: KeyRepository, together: int | None, most: int
) -> None:
    """A key uses the memory assigned to it, and none for disabled batches."""
    device, key = Idle(), repository.resolve("small")
    with ResidentKeys(repository, device, device_bytes=1 << 30, max_batch=together) as keys:
        needs = Groth16Loader(repository, device, 1 << 30, max_batch=together).needs(key)
        assert ("batches" in needs.ready) == (most > 1)
        alone = Groth16Loader(repository, device, 1 << 30, max_batch=1).needs(key)
        assert alone.ready == {name: needs.ready[name] for name in needs.ready if name != "batches"}
        with keys.lease("small") as lease:
            assert lease.value.max_batch == most
            [use] = keys.status().keys
            # Tables and results are some more.
            assert 0 < device.memory.in_use < 1.05 * use.device_bytes
            assert max(device.memory.peak, use.device_bytes) <= needs.bytes(Tier.DEVICE)


def test_small_key_gets_two_streams_if_memory_allows(
    repository: KeyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts(
        _: object, __: object, most: int, budget: int, lanes: int = 1, max_batch: int | None = None
    ) -> dict[str, int]:
        assert (most, max_batch) == (budget // 2, None)
        return {"bases": 60} | ({"lanes": 50 * (lanes - 1)} if lanes > 1 else {})

    monkeypatch.setattr("quod.service.keys.loader.device_parts", parts)
    device, key = Idle(), repository.resolve("small")
    domain = repository.record(key).domain

    def found(budget: int, lanes: int | None) -> int:
        return Groth16Loader(repository, device, budget, lanes).needs(key).bytes(Tier.DEVICE)

    assert [found(1000, lanes) for lanes in (None, 1, 2, 3)] == [110, 60, 110, 160]
    # It is not refused for the sake of the second; who asks for it is told what it takes.
    assert [found(100, lanes) for lanes in (None, 1, 2)] == [60, 60, 110]
    # Half of the device must be idle without the second.
    device.resident_lanes = 2 * domain
    assert found(1000, None) == 110
    device.resident_lanes = 2 * domain - 1
    assert [found(1000, lanes) for lanes in (None, 2)] == [60, 110]
    # One that computes one submission after the other has no use for it.
    monkeypatch.setattr(Idle, "single_queue", True)
    assert [found(1000, lanes) for lanes in (None, 2)] == [60, 60]


def test_wrong_arguments(repository: KeyRepository) -> None:
    with pytest.raises(InputError, match="host_bytes"):
        ResidentKeys(repository, host_bytes=-1)
    for name in ("of_host", "of_device"):
        with pytest.raises(InputError, match=f"{name} must be a whole number from 1 on"):
            ResidentKeys(repository, **{name: 0})
    with ResidentKeys(repository) as keys:
        for bad in ("small", 7):
            with pytest.raises(InputError, match="list"):
                keys.warm(bad)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError):
            keys.warm(["small", "other"])
        assert not keys.ready
