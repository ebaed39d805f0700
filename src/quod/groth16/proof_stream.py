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
from quod.groth16.prover import KeyInUse, ProofInput, begin, check_request
from quod.groth16.resident import SumBatches
from quod.validation import shown

AnyWitness = str | PathLike[str] | Witness

# A batch begins once its witnesses have taken this many seconds to arrive: an idle device gains
# more from a smaller batch than from waiting.
_MAX_WAIT_SECONDS = 0.005

# Number of batches that begin before the proofs of the first are awaited: the device computes one
# while the next is copied.
_BATCHES_AHEAD = 2


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
    """Proofs with their public inputs, and the error of the next proof, if that failed."""

    proofs: list[tuple[Proof, list[int]]]
    error: Exception | None = None


_SelfCheck = Callable[[], _ProvedBatch]
"""A function that waits for the self-check of a batch and returns the proofs."""


def _in_batches(
    key: KeyInUse, batches: SumBatches, seed: int | None, self_check: bool,
    witnesses: Iterable[AnyWitness],
) -> Iterator[tuple[Proof, list[int]]]:  # fmt: skip
    """Prove batches: one is computed while the host finishes another and verifies a third."""
    host_thread = Background("quod-beside", 1)
    begin_group = partial(_begin_group, _Request(key, batches, seed, self_check, host_thread))
    groups = _groups(witnesses, batches.most)
    finished = overlapped(groups, begin_group, name="quod-proof", ahead=_BATCHES_AHEAD)
    try:
        with closing(finished):  # type: ignore[type-var]
            for self_check_of_batch in finished:
                finished_batch = self_check_of_batch()
                yield from finished_batch.proofs
                if finished_batch.error is not None:
                    raise finished_batch.error
    finally:
        host_thread.close()


def _groups(witnesses: Iterable[AnyWitness], max_size: int) -> Iterator[list[AnyWitness]]:
    """Yield groups of up to `max_size` witnesses that arrive together.

    An error of the iterable is raised after the last group.
    """
    group: list[AnyWitness] = []
    start = perf_counter()
    iteration_error: Exception | None = None
    try:
        for witness in witnesses:
            group.append(witness)
            if len(group) == max_size or perf_counter() - start > _MAX_WAIT_SECONDS:
                yield group
                group, start = [], perf_counter()
    except Exception as error:
        iteration_error = error
    if group:
        yield group
    if iteration_error is not None:
        raise iteration_error


def _begin_group(request: _Request, group: Sequence[AnyWitness]) -> Callable[[], _SelfCheck]:
    """Begin the proofs of a group of witnesses; return a function that finishes the proofs."""
    if len(group) == 1:
        return _begin_single(request, group[0], None)
    check_request(request.key, request.seed)
    proof_inputs: list[ProofInput] = []
    first_error: Exception | None = None
    for witness in group:
        try:
            proof_inputs.append(ProofInput.of(request.key, witness, request.seed))
        except Exception as error:
            first_error = error
            break
    if first_error is not None and not proof_inputs:
        raise first_error
    if len(proof_inputs) == 1:
        return _begin_single(request, group[0], first_error)
    return _Group(request, proof_inputs, first_error, request.self_check).finish


def _begin_single(
    request: _Request, witness: AnyWitness, next_error: Exception | None
) -> Callable[[], _SelfCheck]:
    """Begin one proof, as `_begin_group` does; `next_error` is returned with it."""
    pending = begin(request.key, witness, seed=request.seed, self_check=request.self_check)

    def finish() -> _SelfCheck:
        batch = _ProvedBatch([pending.finish()], next_error)
        return lambda: batch

    return finish


class _Group:
    """A batch in progress; the constructor begins it.

    error: the error of the witness after the batch, which is returned with the proofs.
    """

    def __init__(
        self, request: _Request, proof_inputs: list[ProofInput], error: Exception | None,
        self_check: bool,
    ) -> None:  # fmt: skip
        self._request, self._proof_inputs, self._error = request, proof_inputs, error
        self._self_check = self_check
        self._batch = PendingBatch(
            request.key, request.batches, proof_inputs, host_thread=request.host_thread
        )

    def finish(self) -> _SelfCheck:
        """Wait for the sums, and begin the self-check in another thread."""
        try:
            proofs = self._batch.compute()
        except InputError:
            # A witness value is not below the group's order. Proving the witnesses one by one finds
            # it. The caller does this later: here it could wait forever for a slot, as later
            # batches may have all slots, and only the thread that calls `finish` releases them.
            return self._prove_singly
        return self._request.key.checks.begin(lambda: self._verify(proofs)).result

    def _verify(self, proofs: Sequence[Proof]) -> _ProvedBatch:
        """Verify the proofs; return those before the first invalid one, and its error."""
        results: list[tuple[Proof, list[int]]] = []
        assumed_verdicts = [Verdict(True)] * len(proofs)
        verdicts = self._batch.verdicts(proofs) if self._self_check else assumed_verdicts
        for index, (proof, verdict) in enumerate(zip(proofs, verdicts, strict=True)):
            try:
                self._batch.check(index, verdict)
            except Exception as error:
                return _ProvedBatch(results, error)
            results.append((proof, self._proof_inputs[index].public))
        return _ProvedBatch(results, self._error)

    def _prove_singly(self) -> _ProvedBatch:
        """Prove the witnesses one by one, up to the first that fails."""
        results: list[tuple[Proof, list[int]]] = []
        for proof_input in self._proof_inputs:
            try:
                results += _begin_single(self._request, proof_input.witness, None)()().proofs
            except Exception as error:
                return _ProvedBatch(results, error)
        return _ProvedBatch(results, self._error)
