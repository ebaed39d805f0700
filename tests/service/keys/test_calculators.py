"""A repository's witness calculators: made once, cached, and matched with their key."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.service.errors import KeyChangedError, NotFoundError
from quod.service.keys import KeyRepository, RegisteredCalculators
from quod.witness import WitnessCalculator
from quod.witness.errors import CircuitError
from tests.service.keys.conftest import BN254

EXAMPLE = Path(__file__).parents[3] / "examples" / "membership"
INPUT = (EXAMPLE / "input.json").read_bytes()


@pytest.fixture
def repository(tmp_path: Path) -> KeyRepository:
    keys = KeyRepository(tmp_path / "keys", create=True)
    keys.add(EXAMPLE / "circuit.zkey", wasm=EXAMPLE / "circuit.wasm", names=["membership"])
    keys.add(BN254 / "circuit.zkey", names=["small"])
    return keys


def test_witnesses_are_computed_for_keys(
    repository: KeyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []
    start = WitnessCalculator.__init__
    monkeypatch.setattr(
        WitnessCalculator,
        "__init__",
        lambda *arguments, **options: starts.append(1) or start(*arguments, **options),
    )
    calculators = RegisteredCalculators(repository, most=1)
    expected = (EXAMPLE / "witness.wtns").read_bytes()
    with ThreadPoolExecutor(4) as pool:
        requests = [(key, INPUT) for key in ("membership", repository.resolve("membership")) * 4]
        assert set(pool.map(calculators, *zip(*requests))) == {expected}
    assert len(starts) == 1
    calculators.prepare("membership")
    assert len(starts) == 1
    # Another key takes its place, though it has no calculator.
    with pytest.raises(InputError, match="accepts no inputs"):
        calculators.prepare("small")
    calculators.prepare("membership")
    assert len(starts) == 2
    with pytest.raises(CircuitError):
        calculators("membership", json.dumps(json.loads(INPUT) | {"root": 1}).encode())
    with pytest.raises(NotFoundError):
        calculators("none", INPUT)


def test_replaced_calculator_file_is_detected(repository: KeyRepository) -> None:
    folder = Path(repository.path) / "keys" / repository.resolve("membership")
    (folder / "circuit.wasm").write_bytes(b"\0asm\1\0\0\0")
    with pytest.raises(KeyChangedError, match=r"circuit\.wasm"):
        RegisteredCalculators(repository)("membership", INPUT)


def test_initial_keys_are_prepared_in_the_background(
    repository: KeyRepository, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepared = threading.Semaphore(0)
    start = WitnessCalculator.__init__

    def slow(*arguments: Any, **options: Any) -> None:
        start(*arguments, **options)
        prepared.release()

    monkeypatch.setattr(WitnessCalculator, "__init__", slow)
    # One has no calculator, one is none, and the last is made all the same.
    calculators = RegisteredCalculators(repository, warm=["small", "none", "membership"])
    assert prepared.acquire(timeout=60)
    assert calculators("membership", INPUT) == (EXAMPLE / "witness.wtns").read_bytes()
    assert not prepared.acquire(blocking=False)
    assert [record.args[0] for record in caplog.records if record.args] == ["none"]
