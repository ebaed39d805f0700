"""Stand-ins for the layers below the command line, so that its own behaviour is tested alone."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from quod.device.runtime.timeline import Timeline, or_null


class FakeProof:
    def __init__(self, valid: bool = True) -> None:
        self.valid = valid

    def to_json(self) -> str:
        return json.dumps({"valid": self.valid})

    @classmethod
    def from_json_text(cls, text: bytes, *, curve: str, name: str) -> FakeProof:
        assert curve == FakeVerifyingKey.curve
        assert Path(name).read_bytes() == text
        return cls(json.loads(text)["valid"])


class FakeVerifyingKey:
    curve = "bn254"
    devices: list[str] = []  # noqa: RUF012

    @classmethod
    def from_json(
        cls, path: Path, *, device: str = "cpu", allow_insecure: bool = False
    ) -> FakeVerifyingKey:
        cls.devices.append(device)
        return cls()

    @classmethod
    def from_zkey(cls, path: Path, *, allow_insecure: bool = False) -> FakeVerifyingKey:
        return cls()

    def to_json(self) -> str:
        return '{"protocol": "groth16"}'

    def verify(self, public: list[int], proof: FakeProof) -> bool:
        return proof.valid


class FakeProvingKey:
    """Proves at once, or raises what the test has put into `failure`."""

    failure: BaseException | None = None
    calls: list[dict[str, Any]] = []  # noqa: RUF012
    weakness = None

    @classmethod
    def from_zkey(
        cls, path: Path, device: str = "cpu", timeline: Timeline | None = None
    ) -> FakeProvingKey:
        with or_null(timeline).stage("map", bytes=10):
            cls.calls.append({"zkey": path, "device": device})
        return cls()

    def prove(
        self,
        witness: Path,
        *,
        seed: int | None = None,
        self_check: bool = True,
        timeline: Timeline | None = None,
    ) -> tuple[FakeProof, list[int]]:
        type(self).calls.append({"witness": witness, "seed": seed, "self_check": self_check})
        with or_null(timeline).stage("msm", modmuls=10):
            if self.failure is not None:
                raise self.failure
        return FakeProof(), [1, 2, 3]


def fake_groth16(monkeypatch: pytest.MonkeyPatch) -> type[FakeProvingKey]:
    """Put a module of fakes in place of quod.groth16."""

    class Key(FakeProvingKey):
        calls: list[dict[str, Any]] = []  # noqa: RUF012

    module = types.ModuleType("quod.groth16")
    setups: list[tuple[Path, Path, int, str]] = []

    def generate_key(r1cs: Path, zkey: Path, seed: int, *, device: str = "cpu") -> None:
        setups.append((r1cs, zkey, seed, device))
        Path(zkey).write_bytes(b"key")

    contents = {
        "ProvingKey": Key,
        "VerifyingKey": FakeVerifyingKey,
        "Proof": FakeProof,
        "generate_key": generate_key,
        "setups": setups,
    }
    for name, value in contents.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "quod.groth16", module)
    return Key
