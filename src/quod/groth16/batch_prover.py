"""Batched proofs: the same launches prove several witnesses with one key.

`PendingBatch` computes the proofs of a batch. Each step on the host is one launch for all proofs,
and the proofs are verified as a batch (`quod.groth16.batch_verification`). `begin_batch` returns
a pending proof for each witness, like `quod.groth16.prover.begin`. The first pending proof whose
result is requested computes the results of all; cancelling or closing a proof does not affect the
others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from quod.curve.array import from_points, to_points
from quod.curve.weierstrass import operations
from quod.device.memory.buffer import Buffer
from quod.device.runtime.background import Background
from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.future import Outcome
from quod.device.runtime.timeline import NullTimeline
from quod.errors import InputError
from quod.field.array import Words, all_canonical, integers_to_words
from quod.formats import Witness
from quod.groth16.batch_verification import Verdict, verify_batch
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.points import multiply
from quod.groth16.proof import Proof
from quod.groth16.prover import (
    KeyInUse,
    PendingProof,
    ProofInput,
    begin,
    check_answer,
    check_request,
)
from quod.groth16.resident import SumBatches

T = TypeVar("T")


class PendingBatch:
    """A batch of proofs; the constructor begins it.

    The sums are the multi-scalar multiplications A, B1, B2, C and H. Host work that does not depend
    on them runs on `host_thread` or, if that is None, when the sums are requested.
    `meter` counts the time in which the device computes.
    """

    def __init__(
        self, key: KeyInUse, batches: SumBatches, proof_inputs: Sequence[ProofInput], *,
        host_thread: Background | None = None, meter: BusyMeter | None = None,
    ) -> None:  # fmt: skip
        self.key, self.proof_inputs = key, proof_inputs
        self._timeline = NullTimeline()
        multiples = self._multiples_of_delta
        if host_thread is not None:
            multiples = host_thread.begin(multiples).result
        tasks: Tasks = {"multiples_of_delta": multiples}
        with ExitStack() as resources:
            self.context = ProofContext(
                self._timeline, resources.enter_context(self._timeline.stage("sums")), meter
            )
            self._sums = resources.enter_context(
                closing(
                    batches.start(
                        [proof_input.values for proof_input in proof_inputs], tasks, self.context
                    )
                )
            )
            self._resources = resources.pop_all()

    def close(self) -> None:
        """Release the key's buffers that this batch uses; no result can be computed afterwards."""
        self._resources.close()

    def verdicts(self, proofs: Sequence[Proof]) -> list[Verdict]:
        """Return the verifier's verdicts on proofs, one for each of `proof_inputs`."""
        verifying_key = self.key.self_check_key
        return verify_batch(
            (verifying_key, proof_input.public, proof)
            for proof_input, proof in zip(self.proof_inputs, proofs, strict=True)
        )

    def check(self, index: int, verdict: Verdict) -> None:
        """Raise VerificationError unless the verdict on the proof at index `index` is valid."""
        proof_input = self.proof_inputs[index]
        check_answer(self.key, proof_input, self._timeline, partial(_is_valid, verdict))

    def compute(self) -> list[Proof]:
        """Wait for the sums, and return the proofs before their self-check.

        Raises InputError if a witness value is not below the group's order.
        """
        key, count = self.key, len(self.proof_inputs)
        g1, g2 = key.groups
        with self._resources:
            sums: dict[str, Any] = self._sums.early()
            r_delta, rs_delta, s_delta = sums["multiples_of_delta"]
            # As in `quod.groth16.prover`: A' = alpha + sum A, B' = beta + sum B1, A = A' + r*delta,
            # C = sum C + sum H + s*A' + r*B' + r*s*delta. Independent additions share a launch.
            alpha_beta = np.repeat(from_points(g1, [key.alpha_g1, key.beta_g1]), count, axis=0)
            a_and_b1 = self._add(
                0, alpha_beta, np.concatenate([sums["A"][:count], sums["B1"][:count]])
            )
            b_sum = self._add(1, _copies(g2, key.beta_g2, count), sums["B2"][:count])
            b = self._add(1, b_sum, s_delta)
            s_and_r = [proof_input.s for proof_input in self.proof_inputs] + [
                proof_input.r for proof_input in self.proof_inputs
            ]
            s_a_and_r_b = self._multiply(0, a_and_b1, s_and_r)
            a, blinding_term = np.split(
                self._add(
                    0, np.concatenate([a_and_b1[:count], s_a_and_r_b[:count]]),
                    np.concatenate([r_delta, s_a_and_r_b[count:]]),
                ), 2,
            )  # fmt: skip
            last_sums: dict[str, Any] = self._sums.last()
        partial_c = self._add(
            0, np.concatenate([last_sums["C"][:count], blinding_term]),
            np.concatenate([last_sums["H"][:count], rs_delta]),
        )  # fmt: skip
        c = self._add(0, *np.split(partial_c, 2))
        points = zip(to_points(g1, a), to_points(g2, b), to_points(g1, c), strict=True)
        return [Proof(key.curve, *abc) for abc in points]

    # --- the steps of `quod.groth16.prover`, with arrays of points

    def _multiples_of_delta(self) -> tuple[Words, Words, Words]:
        """Return r*delta and r*s*delta in G1, and s*delta in G2."""
        key, proof_inputs = self.key, self.proof_inputs
        order = key.zkey.fr.value
        r, s = ([getattr(proof_input, name) for proof_input in proof_inputs] for name in ("r", "s"))
        g1_multiples = self._multiply(0, _copies(key.groups[0], key.delta_g1, 2 * len(r)), [
            *r, *(proof_input.r * proof_input.s % order for proof_input in proof_inputs),
        ])  # fmt: skip
        s_delta = self._multiply(1, _copies(key.groups[1], key.delta_g2, len(s)), s)
        return g1_multiples[: len(r)], g1_multiples[len(r) :], s_delta

    def _add(self, group_index: int, a: Words, b: Words) -> Words:
        return operations.add(self.key.host, self.key.groups[group_index], a, b)

    def _multiply(self, group_index: int, points: Words, factors: Sequence[int]) -> Words:
        key_group = self.key.groups[group_index]
        words = integers_to_words(key_group.scalars, factors)
        return multiply(self.key.host, key_group, points, words)


def _copies(group: Any, point: Any, count: int) -> Words:
    """Return an array of `count` copies of a point."""
    return np.repeat(from_points(group, [point]), count, axis=0)


def _is_valid(verdict: Verdict) -> bool:
    """Return whether a proof is valid; raise the error of a malformed proof."""
    if verdict.error is not None:
        raise verdict.error
    return verdict.valid


class _LazyResult(Generic[T]):
    """A result or error; the first thread that requests it computes it for all threads."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._outcome: Outcome[T] | None = None

    def result(self) -> T:
        with self._lock:
            if self._outcome is None:
                outcome: Outcome[T] = Outcome()
                try:
                    outcome.set(self._make())
                except BaseException as error:
                    outcome.fail(error)
                self._outcome = outcome
        return self._outcome.result()


class _Shared:
    """State shared by the proofs of a batch; `cancel` and `close` take the index of one proof."""

    def __init__(self, batch: PendingBatch) -> None:
        self.batch = batch
        self.proofs = _LazyResult(batch.compute)
        self.verdicts = _LazyResult(lambda: batch.verdicts(self.proofs.result()))
        self._lock = threading.Lock()
        self._active_proofs = set(range(len(batch.proof_inputs)))
        self._open_proofs = set(self._active_proofs)

    def cancel(self, index: int) -> None:
        """Cancel the proof at index `index`; the batch stops once all its proofs are cancelled."""
        if self._discard(self._active_proofs, index):
            self.batch.context.cancellation.cancel()

    def close(self, index: int) -> None:
        # A proof may be closed without having been cancelled; the batch must not wait for it.
        self.cancel(index)
        if self._discard(self._open_proofs, index):
            self.batch.close()

    def _discard(self, indices: set[int], index: int) -> bool:
        """Remove an index from the set if it is there; return whether the set is empty."""
        with self._lock:
            indices.discard(index)
            return not indices


class BatchedProof:
    """A `PendingProof` of a batch, which is computed and verified as a whole.

    One thread may finish all proofs of a batch in turn, because they share their buffers. A thread
    with several single proofs could wait for buffers that its other unfinished proofs hold.
    """

    def __init__(self, shared: _Shared, index: int) -> None:
        self._shared, self._index = shared, index

    @property
    def public(self) -> list[int]:
        """See `PendingProof`."""
        return self._shared.batch.proof_inputs[self._index].public

    @property
    def spans(self) -> Mapping[str, tuple[int, int]]:
        """See `PendingProof`; "upload" is an equal share of the batch's, "compute" the batch's."""
        spans = dict(self._shared.batch.context.spans)
        if "upload" in spans:
            begin, end = spans["upload"]
            count = len(self._shared.batch.proof_inputs)
            proof_begin, proof_end = (
                begin + (end - begin) * index // count for index in (self._index, self._index + 1)
            )
            spans["upload"] = proof_begin, proof_end
        return spans

    def cancel(self) -> None:
        """Cancel this proof; the others continue."""
        self._shared.cancel(self._index)

    def close(self) -> None:
        """See `PendingProof`; closing the last open proof closes the batch."""
        self._shared.close(self._index)

    def compute(self) -> Proof:
        """Wait for the sums of the batch, and return this proof before its self-check."""
        return self._shared.proofs.result()[self._index]

    def check(self, proof: Proof) -> None:
        """See `PendingProof`; `proof` is the result of `compute`."""
        self._shared.batch.check(self._index, self._shared.verdicts.result()[self._index])


AnyPending = PendingProof | BatchedProof

PendingOrError = AnyPending | Exception
"""A pending proof, or the error that prevented its start."""


def begin_batch(
    key: KeyInUse, witnesses: Sequence[Witness], meter: BusyMeter | None = None
) -> list[PendingOrError]:
    """See `ProvingKey.begin_batch`."""
    check_request(key, None)
    batches = key.resident.batches
    most = 1 if batches is None else batches.most
    if len(witnesses) > most:
        raise InputError(
            f"{len(witnesses)} witnesses are too many for a batch with {key.zkey.path}: "
            f"give at most {most} (max_batch)"
        )
    pending: dict[int, PendingOrError] = {}
    proof_inputs: dict[int, ProofInput] = {}
    for index, witness in enumerate(witnesses):
        try:
            proof_inputs[index] = _proof_input(key, witness)
        except Exception as error:
            pending[index] = error
    try:
        if batches is None or len(proof_inputs) < 2:
            pending |= {index: begin(key, witnesses[index], meter=meter) for index in proof_inputs}
        else:
            shared = _Shared(PendingBatch(key, batches, [*proof_inputs.values()], meter=meter))
            pending |= {
                index: BatchedProof(shared, batch_index)
                for batch_index, index in enumerate(proof_inputs)
            }
    except Exception as error:
        pending |= dict.fromkeys(proof_inputs, error)
    return [pending[index] for index in range(len(witnesses))]


def _proof_input(key: KeyInUse, witness: Witness) -> ProofInput:
    """Return a witness's proof input; InputError for a value not below the group's order.

    Such a value would make the sums of the whole batch fail.
    """
    proof_input = ProofInput.of(key, witness, None)
    values = proof_input.values
    # Values in device memory were computed by the device, so they are canonical.
    if not isinstance(values, Buffer) and not all_canonical(key.zkey.fr, values):
        raise InputError(
            f"has a value that is not below the order of {key.groups[0].name}", path=witness.path
        )
    return proof_input
