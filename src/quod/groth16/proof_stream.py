"""Pipelined and batched proofs of many witnesses.

If launches and the host's part of a proof take longer than the device's part, witnesses that arrive
together are proved as a batch (`quod.groth16.batch_prover`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from time import perf_counter

from quod.device.runtime.background import Background
from quod.device.runtime.pipeline import overlapped
from quod.errors import InputError
from quod.formats import Witness
from quod.frozen import frozen
from quod.groth16.batch_prover import PendingBatch
from quod.groth16.batch_verification import Verdict
from quod.groth16.proof import Proof
from quod.groth16.prover import KeyInUse, Statement, begin, check_request
from quod.groth16.resident import SumBatches
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
    source: object = witnesses
    if not isinstance(source, Iterable) or isinstance(source, (str, bytes, Mapping)):
        raise InputError(f"witnesses must be an iterable such as a list, not {shown(witnesses)}")
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
    """Settings of all proofs of a stream.

    key: the proving key.
    batches: the sums of batches of witnesses.
    seed: the seed of the blinding scalars; None for random ones.
    self_check: whether each proof is verified.
    host_thread: the thread for work that does not depend on the sums.
    """

    key: KeyInUse
    batches: SumBatches
    seed: int | None
    self_check: bool
    host_thread: Background


@frozen(eq=False)
class _ProvedBatch:
    """Proofs with their public inputs, and the error of the proof after them, if it failed."""

    proofs: list[tuple[Proof, list[int]]]
    error: Exception | None = None


_Checking = Callable[[], _ProvedBatch]
"""A function that waits for the self-check of a batch."""


def _in_batches(
    key: KeyInUse, batches: SumBatches, seed: int | None, self_check: bool,
    witnesses: Iterable[AnyWitness],
) -> Iterator[tuple[Proof, list[int]]]:  # fmt: skip
    """Prove batches: one is computed while the host finishes another and verifies a third."""
    host_thread = Background("quod-beside", 1)
    begin = partial(_begin_group, _Request(key, batches, seed, self_check, host_thread))
    groups = _groups(witnesses, batches.most)
    finished = overlapped(groups, begin, name="quod-proof", ahead=_AHEAD)
    try:
        with closing(finished):  # type: ignore[type-var]
            for checking in finished:
                finished_batch = checking()
                yield from finished_batch.proofs
                if finished_batch.error is not None:
                    raise finished_batch.error
    finally:
        host_thread.close()


def _groups(witnesses: Iterable[AnyWitness], most: int) -> Iterator[list[AnyWitness]]:
    """Yield groups of up to `most` witnesses that arrive together; then their iterator's error."""
    group: list[AnyWitness] = []
    since = perf_counter()
    failed: Exception | None = None
    try:
        for witness in witnesses:
            group.append(witness)
            if len(group) == most or perf_counter() - since > _PATIENCE:
                yield group
                group, since = [], perf_counter()
    except Exception as error:
        failed = error
    if group:
        yield group
    if failed is not None:
        raise failed


def _begin_group(request: _Request, group: Sequence[AnyWitness]) -> Callable[[], _Checking]:
    """Begin the proofs of a group; return a function that finishes them."""
    if len(group) == 1:
        return _begin_single(request, group[0], None)
    check_request(request.key, request.seed)
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
        return _begin_single(request, group[0], failed)
    return _Group(request, statements, failed, request.self_check).finish


def _begin_single(
    request: _Request, witness: AnyWitness, failed: Exception | None
) -> Callable[[], _Checking]:
    pending = begin(request.key, witness, seed=request.seed, self_check=request.self_check)

    def finish() -> _Checking:
        batch = _ProvedBatch([pending.finish()], failed)
        return lambda: batch

    return finish


class _Group:
    """A batch in progress; the constructor begins it. `failed` is an error after its proofs."""

    def __init__(
        self, request: _Request, statements: list[Statement], failed: Exception | None,
        checked: bool,
    ) -> None:  # fmt: skip
        self._request, self._statements, self._failed = request, statements, failed
        self._checked = checked
        self._batch = PendingBatch(
            request.key, request.batches, statements, host_thread=request.host_thread
        )

    def finish(self) -> _Checking:
        """Wait for the sums, and begin the self-check in another thread."""
        try:
            proofs = self._batch.compute()
        except InputError:
            # Of a value that is none. Which witness has it is found one by one, by whoever waits:
            # those behind may have all slots, and only the thread that calls this gives them back.
            return self._prove_singly
        return self._request.key.checks.begin(lambda: self._verified(proofs)).result

    def _verified(self, proofs: Sequence[Proof]) -> _ProvedBatch:
        """Return the proofs before the first that does not verify."""
        pairs: list[tuple[Proof, list[int]]] = []
        unchecked = [Verdict(True)] * len(proofs)
        verdicts = self._batch.verdicts(proofs) if self._checked else unchecked
        for place, (proof, verdict) in enumerate(zip(proofs, verdicts, strict=True)):
            try:
                self._batch.check(place, verdict)
            except Exception as error:
                return _ProvedBatch(pairs, error)
            pairs.append((proof, self._statements[place].public))
        return _ProvedBatch(pairs, self._failed)

    def _prove_singly(self) -> _ProvedBatch:
        pairs: list[tuple[Proof, list[int]]] = []
        for statement in self._statements:
            try:
                pairs += _begin_single(self._request, statement.witness, None)()().proofs
            except Exception as error:
                return _ProvedBatch(pairs, error)
        return _ProvedBatch(pairs, self._failed)
