"""Proofs of many witnesses: one begun while another is finished, or several made together.

Where a proof is so small that launches and the host's part of it take longer than the device does,
`ResidentKey.batches` computes the sums of several witnesses together. What the host does is one
launch for all of them then, too, and their proofs are verified as a batch (`quod.groth16.batch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from os import PathLike
from time import perf_counter
from typing import Any

import numpy as np

from quod.curve import operations
from quod.curve.array import from_points, to_points
from quod.device.background import Background
from quod.device.pipeline import overlapped
from quod.device.timeline import NullTimeline
from quod.errors import InputError
from quod.field.array import Words, integers_to_words
from quod.formats import Witness
from quod.frozen import frozen
from quod.groth16.batch import Verdict, verify_batch
from quod.groth16.proof import Proof
from quod.groth16.prover import KeyInUse, Statement, begin, check_answer, check_request
from quod.groth16.resident import SumBatches
from quod.proving.context import ProofContext, Tasks
from quod.validation import shown

AnyWitness = str | PathLike[str] | Witness

# Witnesses that take longer to come than this, in seconds, are not waited for to be proved
# together: a device that has nothing to do gains more by one proof.
_PATIENCE = 0.005

# Groups that are begun before the first one's proofs are waited for: the device has one in hand
# while the next is copied.
_AHEAD = 2


def prove_many(
    key: KeyInUse,
    witnesses: Iterable[AnyWitness],
    *,
    seed: int | None = None,
    self_check: bool = True,
) -> Iterator[tuple[Proof, list[int]]]:
    """See `ProvingKey.prove_many`."""
    given: object = witnesses
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise InputError(f"witnesses come in a list or the like, not {shown(witnesses)}")
    batches = key.resident.batches
    if batches is None:
        return overlapped(
            witnesses,
            lambda witness: begin(key, witness, seed=seed, self_check=self_check).finish,
            name="quod-proof",
        )
    return _in_batches(key, batches, seed, self_check, witnesses)


@frozen(eq=False)
class _Request:
    """What is asked for of all proofs; `beside` does what does not wait for any sum."""

    key: KeyInUse
    batches: SumBatches
    seed: int | None
    self_check: bool
    beside: Background


@frozen(eq=False)
class _Made:
    """Proofs with their public inputs, and the error of the one behind them, if that has one."""

    proofs: list[tuple[Proof, list[int]]]
    error: Exception | None = None


_Checking = Callable[[], _Made]
"""Waits for the self-check of a group."""


def _in_batches(
    key: KeyInUse, batches: SumBatches, seed: int | None, self_check: bool,
    witnesses: Iterable[AnyWitness],
) -> Iterator[tuple[Proof, list[int]]]:  # fmt: skip
    """One group is computed while another is finished by the host, and a third is verified."""
    beside = Background("quod-beside", 1)
    begin = partial(_begun, _Request(key, batches, seed, self_check, beside))
    groups = _groups(witnesses, batches.most)
    finished = overlapped(groups, begin, name="quod-proof", ahead=_AHEAD)
    try:
        with closing(finished):  # type: ignore[type-var]
            for checking in finished:
                made = checking()
                yield from made.proofs
                if made.error is not None:
                    raise made.error
    finally:
        beside.close()


def _groups(witnesses: Iterable[AnyWitness], most: int) -> Iterator[list[AnyWitness]]:
    """Witnesses that come together, `most` at a time; an error of theirs comes after them."""
    group: list[AnyWitness] = []
    since = perf_counter()
    failed: Exception | None = None
    try:
        for one in witnesses:
            group.append(one)
            if len(group) == most or perf_counter() - since > _PATIENCE:
                yield group
                group, since = [], perf_counter()
    except Exception as error:
        failed = error
    if group:
        yield group
    if failed is not None:
        raise failed


def _begun(request: _Request, group: Sequence[AnyWitness]) -> Callable[[], _Checking]:
    """Begins the proofs of a group; gives what waits for them."""
    if len(group) == 1:
        return _begun_alone(request, group[0], None)
    checked = check_request(request.key, request.seed, request.self_check)
    statements: list[Statement] = []
    failed: Exception | None = None
    for witness in group:
        try:
            statements.append(Statement.of(request.key, witness, request.seed))
        except Exception as error:
            failed = error
            break
    if failed is not None and not statements:
        raise failed
    if len(statements) == 1:
        return _begun_alone(request, group[0], failed)
    return _PendingBatch(request, statements, failed, checked).finish


def _begun_alone(
    request: _Request, witness: AnyWitness, failed: Exception | None
) -> Callable[[], _Checking]:
    pending = begin(request.key, witness, seed=request.seed, self_check=request.self_check)

    def finish() -> _Checking:
        made = _Made([pending.finish()], failed)
        return lambda: made

    return finish


class _PendingBatch:
    """Proofs of several statements, begun when it is made; the error behind them is `failed`."""

    def __init__(
        self, request: _Request, statements: list[Statement], failed: Exception | None,
        checked: bool,
    ) -> None:  # fmt: skip
        self._request, self._key, self._failed = request, request.key, failed
        self._statements, self._checked = statements, checked
        self._timeline = NullTimeline()
        tasks: Tasks = {"delta": request.beside.begin(self._multiples_of_delta).result}
        with ExitStack() as opening:
            context = ProofContext(
                self._timeline, opening.enter_context(self._timeline.stage("sums"))
            )
            self._sums = opening.enter_context(
                closing(request.batches.start([own.values for own in statements], tasks, context))
            )
            self._open = opening.pop_all()

    def finish(self) -> _Checking:
        """Waits for the sums, and begins the self-check, which takes a thread of its own."""
        try:
            proofs = self._proofs()
        except InputError:
            # Of a value that is none. Which witness has it is found one by one, by whoever waits:
            # those behind may have all slots, and only the thread that calls this gives them back.
            return self._one_by_one
        return self._key.checks.begin(lambda: self._made(proofs)).result

    def _made(self, proofs: Sequence[Proof]) -> _Made:
        """The proofs before the first that does not verify."""
        made: list[tuple[Proof, list[int]]] = []
        for statement, proof, verdict in zip(
            self._statements, proofs, self._verdicts(proofs), strict=True
        ):
            try:
                check_answer(self._key, statement, self._timeline, partial(_answer, verdict))
            except Exception as error:
                return _Made(made, error)
            made.append((proof, statement.public))
        return _Made(made, self._failed)

    def _verdicts(self, proofs: Sequence[Proof]) -> list[Verdict]:
        if not self._checked:
            return [Verdict(True)] * len(proofs)
        verifying = self._key.self_check_key
        return verify_batch(
            (verifying, statement.public, proof)
            for statement, proof in zip(self._statements, proofs, strict=True)
        )

    def _one_by_one(self) -> _Made:
        made: list[tuple[Proof, list[int]]] = []
        for statement in self._statements:
            try:
                made += _begun_alone(self._request, statement.witness, None)()().proofs
            except Exception as error:
                return _Made(made, error)
        return _Made(made, self._failed)

    # --- what `quod.groth16.prover` does for one proof, with arrays of points

    def _multiples_of_delta(self) -> tuple[Words, Words, Words]:
        """r*delta and r*s*delta in G1, s*delta in G2."""
        key, statements = self._key, self._statements
        order = key.zkey.fr.value
        r, s = ([getattr(own, name) for own in statements] for name in ("r", "s"))
        both = self._multiply(0, _repeated(key.groups[0], key.delta_g1, 2 * len(r)), [
            *r, *(own.r * own.s % order for own in statements),
        ])  # fmt: skip
        third = self._multiply(1, _repeated(key.groups[1], key.delta_g2, len(s)), s)
        return both[: len(r)], both[len(r) :], third

    def _proofs(self) -> list[Proof]:
        key, count = self._key, len(self._statements)
        g1, g2 = key.groups
        with self._open:
            sums: dict[str, Any] = self._sums.early()
            r_delta, rs_delta, s_delta = sums["delta"]
            # Additions that do not wait for one another are one launch.
            known = np.repeat(from_points(g1, [key.alpha_g1, key.beta_g1]), count, axis=0)
            bare = self._add(0, known, np.concatenate([sums["A"][:count], sums["B1"][:count]]))
            bare_b = self._add(1, _repeated(g2, key.beta_g2, count), sums["B2"][:count])
            b = self._add(1, bare_b, s_delta)
            factors = [own.s for own in self._statements] + [own.r for own in self._statements]
            scaled = self._multiply(0, bare, factors)
            a, rest = np.split(
                self._add(
                    0, np.concatenate([bare[:count], scaled[:count]]),
                    np.concatenate([r_delta, scaled[count:]]),
                ), 2,
            )  # fmt: skip
            late: dict[str, Any] = self._sums.last()
        parts = self._add(
            0, np.concatenate([late["C"][:count], rest]),
            np.concatenate([late["H"][:count], rs_delta]),
        )  # fmt: skip
        c = self._add(0, *np.split(parts, 2))
        points = zip(to_points(g1, a), to_points(g2, b), to_points(g1, c), strict=True)
        return [Proof(key.curve, *own) for own in points]

    def _add(self, group: int, a: Words, b: Words) -> Words:
        return operations.add(self._key.host, self._key.groups[group], a, b)

    def _multiply(self, group: int, points: Words, factors: Sequence[int]) -> Words:
        own = self._key.groups[group]
        words = integers_to_words(own.scalars, factors)
        return operations.multiply(self._key.host, own, points, words)


def _repeated(group: Any, point: Any, count: int) -> Words:
    """An array of one point, so many times."""
    return np.repeat(from_points(group, [point]), count, axis=0)


def _answer(verdict: Verdict) -> bool:
    if verdict.error is not None:
        raise verdict.error
    return verdict.valid
