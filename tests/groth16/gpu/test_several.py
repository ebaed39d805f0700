"""One proof on several GPUs: the bytes of a single GPU, or an error and no proof."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quod.bench.chain import ChainCircuit
from quod.device.emulated.device import EmulatedDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError
from quod.formats import Witness
from quod.groth16 import ProvingKey
from quod.groth16.gpu import bases
from quod.groth16.gpu.multi_gpu import MultiGpuKey, shares
from quod.groth16.setup import make_key
from tests.conftest import open_for_test
from tests.groth16.conftest import Made
from tests.support.selection import runs_all

Make = Callable[..., Made]


@pytest.fixture(autouse=True)
def no_multiples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "_MULTIPLES", (1,))


@pytest.mark.parametrize(
    ("name", "steps", "devices", "budget"),
    [
        ("emulated", 4, 2, 900_000),
        pytest.param("emulated", 20, 2, None, marks=pytest.mark.thorough),
        pytest.param("emulated", 20, 3, 900_000, marks=pytest.mark.thorough),
        pytest.param("cuda", 20, 2, None, marks=pytest.mark.device("cuda")),
    ],
)
def test_proof_matches_a_single_device(
    circuit_files: Make, name: str, steps: int, devices: int, budget: int | None
) -> None:
    """With little memory one workspace serves all sums of a device, and H waits for the others.

    One GPU that is opened twice is two devices with one memory.
    """
    files = circuit_files("bn254", steps)
    gpus = [open_for_test(name) for _ in range(devices)]
    key = ProvingKey.from_zkey(files.zkey, devices=gpus, memory_budget=budget)
    assert isinstance(key.resident, MultiGpuKey)
    assert [link.source for link in key.resident.links] == [gpus[0]] * (devices - 1)
    expected = ProvingKey.from_zkey(files.zkey).prove(files.wtns, seed=9)
    witness = Witness.open(files.wtns)
    values = witness.values.copy()
    values[-1] = 0xFFFFFFFF
    with pytest.raises(InputError, match="is not below the order"):
        key.prove(Witness("wrong.wtns", witness.curve, values, values.nbytes))
    timeline = Timeline()
    assert key.prove(files.wtns, seed=9, timeline=timeline) == expected
    links = [stage for stage in timeline.rows() if stage.name == "link"]
    parts = key.resident.parts
    assert [stage.bytes for stage in links] == [
        2 * 32 * (part.h_stop - part.h_start) for part in parts[1:]
    ]
    assert parts[0].h_start == 0
    assert parts[-1].h_stop == len(key.zkey.h)
    assert all(part.msms.has_own_workspace("H") for part in parts) == (budget is None)
    if runs_all():
        assert list(key.prove_many([files.wtns], seed=9)) == [expected]
    key.close()
    for gpu in gpus:
        gpu.close()


def test_device_shares_finish_at_the_same_time() -> None:
    assert shares(1, 5, 95) == [1.0]
    for devices, transforms in ((2, 5.0), (3, 10.0), (8, 1.0)):
        device_shares = shares(devices, transforms, 100 - transforms)
        assert sum(device_shares) == pytest.approx(1)
        ends = [share * (100 - transforms) for share in device_shares]
        ends[0] += transforms
        assert ends == pytest.approx([100 / devices] * devices)
    # Where transforms alone take longer than a share, the first device has nothing else to do.
    assert shares(4, 50, 50) == [0, *[pytest.approx(1 / 3)] * 3]
    assert shares(2, 1, 0) == [0.5, 0.5]


def test_invalid_device_lists_are_rejected(circuit_files: Make) -> None:
    path, gpu = circuit_files("bn254").zkey, EmulatedDevice()
    with pytest.raises(InputError, match="at least two devices, each once"):
        ProvingKey.from_zkey(path, devices=[gpu])
    with pytest.raises(InputError, match="at least two devices, each once"):
        ProvingKey.from_zkey(path, devices=[gpu, gpu])
    with pytest.raises(InputError, match="cpu cannot share a proof"):
        ProvingKey.from_zkey(path, devices=[gpu, "cpu"])


def test_insufficient_memory_on_one_device() -> None:
    key = make_key(ChainCircuit("bn254", 20), 1)
    with pytest.raises(DeviceError, match="device memory"):
        ProvingKey(key, devices=[EmulatedDevice(), EmulatedDevice(memory_budget=5000)])
