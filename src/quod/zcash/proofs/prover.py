"""Provers of Sapling's and MASP's Spends, Outputs and Converts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Self

from quod.device.discovery import DeviceChoice
from quod.device.protocol import in_host_memory
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError, VerificationError
from quod.formats import Witness
from quod.formats.source import Path
from quod.groth16.proof import Proof
from quod.validation import in_order, shown_kind
from quod.zcash.proofs.description import Description
from quod.zcash.proofs.infos import ConvertInfo, OutputInfo, ProofInfo, SpendInfo
from quod.zcash.proofs.kinds import ProofKind
from quod.zcash.proofs.parameters import open_proving_key

MAX_BATCH = 256
"""The largest number of witnesses that are computed together."""

# A GPU computes fewer witnesses more slowly than the CPU.
_MIN_DEVICE_BATCH = 64


class Prover:
    """A prover of one kind of proof, which keeps its parameters open."""

    def __init__(
        self, kind: ProofKind, parameters: Path, device: DeviceChoice = "cpu",
        timeline: Timeline | None = None, *, checked: bool = True, allow_insecure: bool = False,
    ) -> None:  # fmt: skip
        """Open parameters; arguments and errors are those of `open_proving_key`."""
        self.kind = kind
        self.key = open_proving_key(
            kind, parameters, device, timeline, checked=checked, allow_insecure=allow_insecure
        )
        self.circuit = kind.circuit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def prove(
        self, info: ProofInfo, *, seed: int | None = None, timeline: Timeline | None = None
    ) -> Description:
        """Prove the statement of a Spend, an Output or a Convert; the proof is verified.

        seed: for tests, as a proof with a known seed is not zero-knowledge; see `ProvingKey.prove`.
            Default: random blinding.
        Raises MismatchError for another kind of proof, InputError for values that the kind refuses,
        and UnsatisfiedError, with the constraints that fail, for information that does not satisfy
        the circuit, such as a path that does not lead to the anchor.
        """
        timeline = or_null(timeline)
        with timeline.stage("inputs"):
            self._check_kind(info)
            inputs = info.inputs
        with timeline.stage("witness"):
            # The verification of the proof replaces the check of the constraints.
            witness = self.circuit.witness(inputs, check=False)
        try:
            proof, public = self.key.prove(witness, seed=seed, timeline=timeline)
        except VerificationError:
            self._raise_unsatisfied(info)
            raise
        return self._description(proof, public)

    def prove_many(
        self, infos: Iterable[ProofInfo], *, seed: int | None = None
    ) -> Iterator[Description]:
        """Prove many statements in order, as `prove` does; a generator of descriptions.

        Up to 256 witnesses are computed together, on a GPU in its memory, and the proofs are
        pipelined (`ProvingKey.prove_many`). An error is raised after the earlier descriptions.
        """
        infos = in_order("the infos", infos)
        pending: list[ProofInfo] = []
        count = 0
        proofs = self.key.prove_many(self._witnesses(infos, pending), seed=seed)
        while True:
            try:
                proof, public = next(proofs)
            except StopIteration:
                return
            except VerificationError:
                self._raise_unsatisfied(pending[count])
                raise
            count += 1
            yield self._description(proof, public)

    def witnesses(self, infos: Sequence[ProofInfo]) -> list[Witness]:
        """Compute the witnesses of many proofs together, without checking their constraints.

        For a key on a GPU, a batch of at least 64 is computed in the GPU's memory. Raises
        MismatchError and InputError as `prove`.
        """
        batch = list(in_order("the infos", infos))
        for info in batch:
            self._check_kind(info)
        device = self.key.device
        on_device = len(batch) >= _MIN_DEVICE_BATCH and not in_host_memory(device)
        return self.circuit.witnesses(
            [info.inputs for info in batch], check=False, device=device if on_device else None
        )

    def close(self) -> None:
        """Stop the threads that wait for the next proof."""
        self.key.close()

    def _witnesses(self, infos: Iterable[ProofInfo], pending: list[ProofInfo]) -> Iterator[Witness]:
        """Yield the witnesses of infos, which are appended to `pending`."""
        remaining = iter(infos)
        while batch := list(islice(remaining, MAX_BATCH)):
            pending += batch
            yield from self.witnesses(batch)

    def _check_kind(self, info: ProofInfo) -> None:
        if not isinstance(info, SpendInfo | OutputInfo | ConvertInfo):
            raise InputError(
                "the information must be a SpendInfo, an OutputInfo or a ConvertInfo, not "
                f"{shown_kind(info)}"
            )
        if info.kind != self.kind:
            raise MismatchError(f"the prover is one of {self.kind.name}, not of {info.kind.name}")

    def _raise_unsatisfied(self, info: ProofInfo) -> None:
        """Raise UnsatisfiedError for the constraints that fail, if any does."""
        self.circuit.witness(info.inputs)

    def _description(self, proof: Proof, public: Sequence[int]) -> Description:
        return Description(self.kind.statement.from_public(public), proof)
