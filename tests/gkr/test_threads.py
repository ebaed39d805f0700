"""Threads that share one prover or verifier get the results of single-threaded use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, TypeVar

import pytest

from quod.errors import VerificationError
from quod.field import EXTENSIONS
from quod.gkr import Prover, Verifier, VerifyingKey
from tests.gkr.circuits import satisfied

FIELD = EXTENSIONS["m31.4"]
CIRCUIT, INPUTS, PUBLIC = satisfied(
    FIELD.modulus, 7, instances=2, powers=False, layers=1, log_inputs=2, gates=2
)
KEY = VerifyingKey.of(CIRCUIT, FIELD)

# Long enough for a thread that does not wait to be done meanwhile.
_SECONDS = 0.2

Result = TypeVar("Result")


def both(
    monkeypatch: pytest.MonkeyPatch, owner: object, step: str, first: Callable[[], Result],
    second: Callable[[], Result],
) -> tuple[Result, Result]:  # fmt: skip
    """Return two threads' results; the second may run while the first is held behind a step."""
    plain, waiting, over = getattr(owner, step), Event(), Event()

    def held(*arguments: Any) -> Any:
        outcome = plain(*arguments)
        if not waiting.is_set():
            waiting.set()
            over.wait(_SECONDS)
        return outcome

    def later() -> Result:
        waiting.wait()
        try:
            return second()
        finally:
            over.set()

    monkeypatch.setattr(owner, step, held)
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(first), threads.submit(later)
        return running[0].result(), running[1].result()


def test_threads_serialise_on_a_prover(monkeypatch: pytest.MonkeyPatch) -> None:
    prover = Prover("cpu", KEY, CIRCUIT)
    alone = prover.prove_many(INPUTS, PUBLIC)
    results = both(
        monkeypatch, prover._in_progress[0], "begin",
        lambda: prover.prove(INPUTS[0], PUBLIC[0]), lambda: prover.prove(INPUTS[1], PUBLIC[1]),
    )  # fmt: skip
    assert list(results) == alone


def test_threads_serialise_on_a_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = Prover("cpu", KEY, CIRCUIT).prove(INPUTS[0], PUBLIC[0])
    false = proof[:-1] + bytes([proof[-1] ^ 1])
    verifier = Verifier("cpu", KEY, CIRCUIT)
    wrong, right = both(
        monkeypatch, verifier, "_upload", lambda: verifier.errors([PUBLIC[0]], [false]),
        lambda: verifier.errors([PUBLIC[0]], [proof]),
    )  # fmt: skip
    assert isinstance(wrong[0], VerificationError)
    assert right == [None]
