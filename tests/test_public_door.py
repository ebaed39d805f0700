"""Every public callable refuses wrong arguments with an error of ours: a new one joins by a row.

Rows are in tests/doors: a row is a callable, arguments that are right, and the values of `WRONG`
that are right, too. Each argument in turn is each wrong value.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import quod
from quod.errors import QuodError
from tests.doors import (
    circuits,
    devices,
    gadgets,
    inferences,
    natives,
    points,
    proofs,
    r1cs,
    services,
    sums,
    tensors,
    transcripts,
)
from tests.doors.row import WRONG

DOORS = (
    devices,
    sums,
    circuits,
    r1cs,
    gadgets,
    inferences,
    transcripts,
    points,
    natives,
    proofs,
    services,
    tensors,
)
TABLE = dict(row for door in DOORS for row in door.rows())


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken for a folder's makes none in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", TABLE)
def test_wrong_arguments_are_errors_of_ours(name: str) -> None:
    call, right, fine = TABLE[name]
    for argument in right:
        for kind, value in WRONG.items():
            if kind in fine.get(argument, ()):
                continue
            with pytest.raises(QuodError) as refused:
                call(**right | {argument: value})
            assert "\n" not in str(refused.value), (argument, kind)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if inspect.isclass(row.call)])
def test_records_have_plain_numbers(name: str) -> None:
    """Those of NumPy wrap around, and neither JSON nor a database takes them."""
    call, right, _ = TABLE[name]
    for argument, value in right.items():
        if type(value) is int and not value >> 62:
            try:
                made = call(**right | {argument: np.int64(value)})
            except QuodError:
                continue  # It takes none of NumPy's.
            assert type(getattr(made, argument, value)) is int, argument


NOT_IN_IT = {
    # They take nothing, or are made by others, and their methods are in the table.
    "devices", "Device", "DeviceInfo", "Buffer", "IdleStream", "RecordingStream", "RecordedStream",
    "SubmittedStream", "Recording", "Event", "Cancellation", "Timeline", "MsmPlan", "Ordering",
    "VerifyingKey", "Proof", "Layout", "Wire", "Poseidon2", "POSEIDON2",
    # Opened by open_device.
    "CpuDevice", "CudaDevice",
    # Of whoever writes kernels; see tests/kernel/test_tracer_errors.py.
    "Element", "ElementOf", "Hash", "Reduction", "Label", "Reduced", "SumcheckProof",
    "LookupProof",
    # Protocols, the record of what is claimed, and a scheme, whose calls are in the table.
    "Claim", "Scheme", "Committer", "Commitment", "Raw", "Hyrax",
    "Inputs", "prime_field", "extension_field", "Extension",
    # Plain records and laws of points, which do not look at what they are given.
    "PairingCurve", "EdwardsCurve", "MontgomeryForm", "affine_group", "Group", "Verdict",
    "AffineGroup", "g1_group", "g2_group", "EdwardsGroup",
    # Takes nothing.
    "random_scalar",
    # Records of what files hold; writers look at them.
    "SparseMatrix", "ProofJson", "VerifyingKeyJson",
    # What their `open` makes, which is in the table.
    "Zkey", "Witness", "R1cs", "PowersOfTau", "Circuit6", "Circuit6Witness",
    "BellmanParameters", "BellmanVerifyingKey", "Gguf", "GgufTensor", "GgufType",
    # Records that the queue makes, its clock, and itself, whose calls are in the table.
    "Job", "JobState", "Lease", "Attempt", "Outcome", "QueueStatus", "KeyStatus", "Clock",
    "JobQueue",
    # Records that servers tell.
    "RemoteJob", "RemoteKey", "ServerStatus",
    # Records of keys, what a loader is, and what a cache is given, which tests/service/keys has.
    "KeyRecord", "FileRecord", "ListedKey", "Removed", "CacheStatus", "KeyUse", "KeyCache",
    "Loader", "Needs", "Tier",
    # What a check of a witness finds.
    "WitnessCheck", "FailedConstraint",
    # What circuits in Python are made of and say, whose operators tests/r1cs has.
    "Signal", "Failure", "Lint", "Profile", "Accepted", "ResidentWitness",
    # Pairs of signals, by which a caller says what other constraints show of them.
    "CurvePoint", "SubgroupPoint", "MontgomeryPoint",
    # Records of layers and of what is computed, which `Perceptron` and `Prover` look at and make.
    "Layer", "Activations", "Inference",
    # What workers tell, and the protocol of a pool.
    "WorkerPool", "WorkerStatus", "WorkerState", "Stage", "StageRecord",
}  # fmt: skip


@pytest.mark.parametrize(
    "package",
    ["", "device", "msm", "ntt", "sumcheck", "transcript", "commitment", "lookup", "circuit", "gkr"]
    + [
        "curve",
        "field",
        "formats",
        "groth16",
        "hash",
        "circuit.gadgets",
        "service.queue",
        "service.keys",
    ]
    + [
        "service.worker",
        "service.client",
        "witness",
        "r1cs",
        "r1cs.native",
        "r1cs.gadgets",
        "sapling",
        "tensor",
        "inference",
        "tensor.quantised",
    ],
)
def test_every_public_callable_has_a_row(package: str) -> None:
    module = import_module(f"quod.{package}") if package else quod
    for name in module.__all__:
        found = getattr(module, name)
        is_error = inspect.isclass(found) and issubclass(found, Exception)
        if callable(found) and not is_error:
            own = f"{package}.{name}"
            assert {name, own} & {*TABLE, *NOT_IN_IT}, f"{name} of quod.{package} needs a row"
