"""`quod bench field --limbs`: products in limbs that Quod does not choose by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quod.bench.arithmetic.field import cases as cases_of
from quod.cli import entry
from quod.errors import InputError

if TYPE_CHECKING:
    from quod.device.webgpu.device import WebGpuDevice


@pytest.mark.thorough
def test_cases_cover_the_requested_limbs(webgpu_device: WebGpuDevice) -> None:
    cases = cases_of(webgpu_device.name, ["bn254.fr"], ["15:rolled"])
    measured = [(case.parameters["what"], case.parameters["limbs"], case.run()) for case in cases]
    assert [row[:2] for row in measured] == [("product", "15:rolled"), ("square", "15:rolled")]
    assert all(isinstance(rate, float) and rate > 0 for *_, rate in measured)


@pytest.mark.parametrize(
    ("device", "limbs", "message"),
    [
        ("cpu", "13", "cpu does not support --limbs"),
        ("", "11", "--limbs: limbs with columns of 32 bits have 12 to 16 bits, not 11"),
        ("", "thirteen", "--limbs: 'thirteen' is not a choice of limbs"),
        ("", "30/64", "limbs 30/64 need 64-bit integers, which webgpu:.* does not support"),
    ],
)
def test_invalid_limb_choices_are_rejected(
    webgpu_device: WebGpuDevice, device: str, limbs: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        next(cases_of(device or webgpu_device.name, [], [limbs]))


def test_chosen_and_limbs_options_are_exclusive(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert entry.run(["bench", "field", "--device", "webgpu", "--chosen", "--limbs", "13"]) == 2
    assert "--limbs" in capsys.readouterr().err
