"""Proofs of many witnesses in batches: order, errors and early exits, with sums on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quod.curve.array import from_points
from quod.device.memory.buffer import Buffer
from quod.device.runtime.timeline import NullTimeline
from quod.errors import DeviceError, InputError, MismatchError, VerificationError
from quod.field.array import Words
from quod.formats import Zkey
from quod.groth16 import Proof, ProvingKey, generate_key
from quod.groth16 import proof_stream as many
from quod.groth16.batch_prover import PendingBatch
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.prover import begin
from tests.groth16.circuits import recurrence

_MOST = 3
_COUNT = 2 * _MOST + 1


class Sums:
    """Sums of a batch: those of the processor, one after the other, with room for one more."""

    def __init__(
        self, key: ProvingKey, witnesses: Sequence[Any], host_tasks: Tasks, open_: list[Sums]
    ) -> None:
        self._key, self._witnesses, self._host_tasks, self._open = key, witnesses, host_tasks, open_
        open_.append(self)
        self._sums: list[dict[str, Any]] = []

    def early(self) -> dict[str, Any]:
        timeline = NullTimeline()
        for witness in self._witnesses:
            with timeline.stage("sums") as parent:
                pending = self._key.resident.start(witness, {}, ProofContext(timeline, parent))
                self._sums.append(pending.early() | pending.last())
        results = {name: task() for name, task in self._host_tasks.items()}
        return results | self._arrays("A", "B1", "B2")

    def last(self) -> dict[str, Any]:
        return self._arrays("C", "H")

    def _arrays(self, *names: str) -> dict[str, Any]:
        return {
            name: from_points(
                self._key.groups[name == "B2"], [*(sums[name] for sums in self._sums), None]
            )
            for name in names
        }

    def close(self) -> None:
        self._open.remove(self)


class Batches:
    """See `SumBatches`; `open` are those that were not closed."""

    most = _MOST

    def __init__(self, key: ProvingKey) -> None:
        self._key = key
        self.open: list[Sums] = []
        self.sizes: list[int] = []
        self.error: Exception | None = None

    def start(
        self, witnesses: Sequence[Words | Buffer], host_tasks: Tasks, context: ProofContext
    ) -> Sums:
        if self.error is not None:
            raise self.error
        self.sizes.append(len(witnesses))
        return Sums(self._key, witnesses, host_tasks, self.open)

    def prepare(self) -> None:
        """Nothing is made by the first one."""

    def wait(self, waiting: Callable[[], int]) -> None:
        """There is no other batch that could be waited for."""


class Made:
    """A key whose batches are the processor's, witnesses, and the proofs one after the other."""

    def __init__(self, folder: Path, curve: str) -> None:
        path = folder / "c.zkey"
        generate_key(recurrence(curve, 2).write_r1cs(folder / "c.r1cs"), path, 1)
        self.witnesses = [
            recurrence(curve, 2, start).write_wtns(folder / f"{start}.wtns")
            for start in range(3, 3 + _COUNT)
        ]
        wrong = recurrence(curve, 2)
        wrong.witness[-1] += 1
        self.wrong = wrong.write_wtns(folder / "wrong.wtns")
        other = recurrence(curve, 3)
        self.other = other.write_wtns(folder / "other.wtns")
        zkey = Zkey.open(path, owned=True)
        alone = ProvingKey(zkey)
        self.expected = [alone.prove(witness, seed=9) for witness in self.witnesses]
        self.key = ProvingKey(zkey)
        self.batches = Batches(self.key)
        self.key.resident.batches = self.batches  # type: ignore[misc]


@pytest.fixture(scope="module")
def proving_set(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("many"), "bn254")


@pytest.fixture(autouse=True)
def all_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(many, "_MAX_WAIT_SECONDS", 1e9)


@pytest.mark.parametrize("count", [0, 1, 2, _MOST, 2 * _MOST + 1])
def test_batched_proofs_equal_sequential_proofs(proving_set: Made, count: int) -> None:
    case = proving_set
    case.batches.sizes.clear()
    assert list(case.key.prove_many(case.witnesses[:count], seed=9)) == case.expected[:count]
    remainder = [count % _MOST] if count % _MOST > 1 else []
    assert case.batches.sizes == [_MOST] * (count // _MOST) + remainder
    assert not case.batches.open


def test_witnesses_of_any_iterable(proving_set: Made) -> None:
    def given() -> Iterator[Path]:
        yield from proving_set.witnesses

    assert list(proving_set.key.prove_many(given(), seed=9)) == proving_set.expected
    # Without a seed the blinding is new each time.
    first, second = (list(proving_set.key.prove_many(proving_set.witnesses[:2])) for _ in range(2))
    assert [public for _, public in first] == [public for _, public in proving_set.expected[:2]]
    assert not {proof.a for proof, _ in first} & {proof.a for proof, _ in second}


@pytest.mark.parametrize(
    ("kind", "place"),
    [*(("wrong", place) for place in range(_MOST + 1)), ("of another circuit", 0),
     ("of another circuit", _MOST), ("missing", 1)],
)  # fmt: skip
def test_invalid_witness_is_raised_after_earlier_proofs(
    proving_set: Made, kind: str, place: int
) -> None:
    bad, error = {
        "wrong": (proving_set.wrong, VerificationError),
        "of another circuit": (proving_set.other, MismatchError),
        "missing": (proving_set.wrong.with_name("none.wtns"), InputError),
    }[kind]
    with pytest.raises(error) as alone:
        proving_set.key.prove(bad)
    proofs: list[tuple[Proof, list[int]]] = []
    witnesses = [*proving_set.witnesses[:place], bad, *proving_set.witnesses[place:]]
    with pytest.raises(error) as together:
        proofs.extend(proving_set.key.prove_many(witnesses, seed=9))
    assert proofs == proving_set.expected[:place]
    assert str(together.value) == str(alone.value)
    assert not proving_set.batches.open


def test_without_a_self_check(proving_set: Made) -> None:
    proofs = list(
        proving_set.key.prove_many(
            [proving_set.wrong, proving_set.witnesses[0]], seed=9, self_check=False
        )
    )
    assert proofs == [
        proving_set.key.prove(proving_set.wrong, seed=9, self_check=False),
        proving_set.expected[0],
    ]
    with pytest.raises(InputError, match="seed"):
        list(proving_set.key.prove_many(proving_set.witnesses[:2], seed=-1))


@pytest.mark.parametrize("before", [0, 1, _MOST, 2 * _MOST - 1])
def test_an_iterable_that_raises_midway(proving_set: Made, before: int) -> None:
    def given() -> Iterator[Path]:
        yield from proving_set.witnesses[:before]
        raise ZeroDivisionError

    proofs: list[tuple[Proof, list[int]]] = []
    with pytest.raises(ZeroDivisionError):
        proofs.extend(proving_set.key.prove_many(given(), seed=9))
    assert proofs == proving_set.expected[:before]


def test_unrequested_proofs_finish(proving_set: Made) -> None:
    """Started proofs finish, and no more witnesses are taken."""
    taken: list[Path] = []

    def given() -> Iterator[Path]:
        for witness in proving_set.witnesses * 3:
            taken.append(witness)
            yield witness

    proofs: Any = proving_set.key.prove_many(given(), seed=9)
    assert next(proofs) == proving_set.expected[0]
    started = len(taken)
    assert started in (2 * _MOST, 3 * _MOST)
    proofs.close()
    assert len(taken) == started
    assert not proving_set.batches.open


def test_late_witnesses_are_not_awaited(proving_set: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is proved alone, and yielded when the next one has begun."""
    monkeypatch.setattr(many, "_MAX_WAIT_SECONDS", 0.0)
    proving_set.batches.sizes.clear()
    taken: list[Path] = []

    def given() -> Iterator[Path]:
        for witness in proving_set.witnesses:
            taken.append(witness)
            yield witness

    proofs = proving_set.key.prove_many(given(), seed=9)
    for number, expected in enumerate(proving_set.expected):
        assert next(proofs) == expected
        assert min(number + 2, _COUNT) <= len(taken) <= number + 3
    assert proving_set.batches.sizes == []


@pytest.mark.parametrize("error", [DeviceError("lost"), MemoryError()])
def test_device_failure_is_raised(proving_set: Made, error: Exception) -> None:
    proving_set.batches.error = error
    with pytest.raises(type(error)):
        list(proving_set.key.prove_many(proving_set.witnesses[:2]))
    proving_set.batches.error = None
    assert (
        list(proving_set.key.prove_many(proving_set.witnesses[:2], seed=9))
        == proving_set.expected[:2]
    )


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("part", ["early", "last"])
def test_sums_that_fail(proving_set: Made, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setattr(Sums, part, failing(DeviceError("lost")))
    with pytest.raises(DeviceError, match="lost"):
        list(proving_set.key.prove_many(proving_set.witnesses[:2]))
    assert not proving_set.batches.open


def test_unreduced_scalar_is_found_by_single_proofs(
    proving_set: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch only detects that one of its witnesses has such a scalar."""
    monkeypatch.setattr(Sums, "last", failing(InputError("scalar 3 is not below the order")))
    assert (
        list(proving_set.key.prove_many(proving_set.witnesses[:3], seed=9))
        == proving_set.expected[:3]
    )
    proofs: list[Any] = []
    with pytest.raises(MismatchError):
        proofs.extend(
            proving_set.key.prove_many([*proving_set.witnesses[:2], proving_set.other], seed=9)
        )
    assert proofs == proving_set.expected[:2]


def test_finishing_thread_begins_no_proofs(
    proving_set: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for slots that only it releases."""

    def begun(*arguments: Any, **keywords: Any) -> Any:
        names.append(threading.current_thread().name)
        return begin(*arguments, **keywords)

    names: list[str] = []
    monkeypatch.setattr(many, "begin", begun)
    monkeypatch.setattr(Sums, "last", failing(InputError("scalar 3 is not below the order")))
    witnesses = proving_set.witnesses[: _MOST + 1]
    assert list(proving_set.key.prove_many(witnesses, seed=9)) == proving_set.expected[: _MOST + 1]
    assert names == [threading.current_thread().name] * (_MOST + 1)


def test_invalid_point_is_blamed_on_the_key(
    proving_set: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error equals that of a single proof: C of the second is infinity."""

    def without_c(self: PendingBatch) -> list[Proof]:
        first, second = proofs(self)
        return [first, Proof(second.curve, second.a, second.b, None)]

    proofs = PendingBatch.compute
    monkeypatch.setattr(PendingBatch, "compute", without_c)
    proof_pairs = proving_set.key.prove_many(proving_set.witnesses[:2], seed=9)
    assert next(proof_pairs) == proving_set.expected[0]
    with pytest.raises(VerificationError, match="the key gives a proof with a bad point"):
        next(proof_pairs)
