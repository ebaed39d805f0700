"""The kernels compiled before a self-check are those that the self-check runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quod.device import CpuDevice
from quod.device.protocol import has_ifma
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.groth16 import ProvingKey, prover, warm_up

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "membership"


def test_warm_up_compiles_only_kernels_a_proof_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[Any, ...]] = []
    compile_now = CpuDevice.compile

    def noting(self: CpuDevice, definition: Any, *, lanes: int | None = None, **static: Any) -> Any:
        seen.append((definition, lanes, tuple(sorted(static.items()))))
        return compile_now(self, definition, lanes=lanes, **static)

    monkeypatch.setattr(CpuDevice, "compile", noting)
    monkeypatch.setattr(prover, "compile_checks", lambda *_: None)
    device = CpuDevice(threads=2)
    key = ProvingKey.from_zkey(EXAMPLE / "circuit.zkey", device=device)
    key.prove(EXAMPLE / "witness.wtns")
    taken = set(seen)
    seen.clear()

    def begin(self: Background, task: Any) -> Outcome[Any]:
        return Outcome.of(task())

    monkeypatch.setattr(Background, "begin", begin)
    monkeypatch.setattr(CpuDevice, "has", lambda *_, **__: False)
    warm_up.compile_checks(device, key.curve, key.groups)
    assert len(seen) == (5 if has_ifma(device) else 7)
    assert set(seen) <= taken
    seen.clear()
    monkeypatch.setattr(CpuDevice, "has", lambda *_, **__: True)
    warm_up.compile_checks(device, key.curve, key.groups)
    assert not seen
    key.close()
