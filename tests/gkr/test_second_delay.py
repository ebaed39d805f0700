"""The sequential hash delay behind random coefficients: provers, both verifiers, and files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from quod.device.protocol import AnyDevice
from quod.errors import MismatchError, VerificationError
from quod.field import EXTENSIONS
from quod.gkr import (
    Prover,
    Reduction,
    Verifier,
    VerifyingKey,
    read_proof,
    read_verifying_key,
    verify,
    write_proof,
    write_verifying_key,
)
from quod.gkr.checker.data_parallel.messages import DataParallelMessages
from quod.gkr.checker.messages import Messages
from quod.gkr.checker.two_phase.messages import TwoPhaseMessages
from quod.gkr.files.describe import describe_file
from quod.gkr.statement import Statement
from quod.layered import CircuitBuilder, LayeredCircuit, Random
from quod.transcript import Label
from tests.reference.gkr import ModelByColumns, ModelProver, prove

FIELD = EXTENSIONS["m31.4"]
INPUTS = [[3, 4, 0, 9], [5, 6, 0, 1]]
MESSAGES: dict[Reduction, type[Messages]] = {
    Reduction.TWO_PHASE: TwoPhaseMessages, Reduction.DATA_PARALLEL: DataParallelMessages,
}  # fmt: skip


def circuit_of(randoms: int) -> LayeredCircuit:
    """Output 0 is 0 as the third input is; the other output is anything."""
    builder = CircuitBuilder(FIELD.modulus, 2)
    layer = builder.layer(1)
    layer.multiply(0, 2, 0, Random(randoms - 1) if randoms else 1)
    layer.add(1, 1, Random(0) if randoms else 1)
    return builder.finished(zeros=1)


WITH, WITHOUT = circuit_of(2), circuit_of(0)


@pytest.mark.parametrize("reduction", Reduction)
def test_the_device_verifier_hashes_twice(reduction: Reduction) -> None:
    """The order of the first messages; that of the plain one is in test_known_defects."""
    chain, following = 64, [Label.NEXT]
    labels = {}
    for circuit in (WITH, WITHOUT):
        messages: Any = MESSAGES[reduction](circuit, FIELD, delay_messages=chain, log_instances=1)
        labels[circuit] = [Label(start >> 24) for start, *_ in messages.rows]
    # Of a row of challenges the first needs no message of its own: a point of two coordinates.
    delay = [Label.CHAIN] * chain
    assert labels[WITH][: 2 * chain + 3] == [*delay, *following, *delay, *following, Label.ROUND]
    assert labels[WITHOUT] == labels[WITH][chain + 1 :]


@pytest.mark.parametrize(
    "reduction",
    [Reduction.TWO_PHASE, pytest.param(Reduction.DATA_PARALLEL, marks=pytest.mark.thorough)],
)
def test_provers_and_verifiers_agree(gpu_device: AnyDevice, reduction: Reduction) -> None:
    key = VerifyingKey.of(WITH, FIELD, reduction=reduction)
    proof = Prover(gpu_device, key, WITH, instances=2).prove(INPUTS, check=False)
    assert proof == prove(key, WITH, INPUTS)
    verify(key, WITH, [], proof, instances=2)
    Verifier(gpu_device, key, WITH, instances=2).verify([], proof)


@pytest.mark.parametrize("reduction", Reduction)
def test_provers_on_the_cpu_agree(reduction: Reduction) -> None:
    key = VerifyingKey.of(WITH, FIELD, reduction=reduction)
    proof = Prover("cpu", key, WITH, instances=2).prove(INPUTS)
    assert proof == prove(key, WITH, INPUTS)


class OneDelay(ModelProver):
    """Leaves out the delay behind the random coefficients."""

    def _apply_chain(self) -> None:
        if not self.randoms:
            super()._apply_chain()


class OneDelayByColumns(OneDelay, ModelByColumns):
    pass


@pytest.mark.parametrize("reduction", Reduction)
def test_a_proof_with_one_delay_is_refused(reduction: Reduction) -> None:
    key = VerifyingKey.of(WITH, FIELD, reduction=reduction)
    provers = {Reduction.TWO_PHASE: OneDelay, Reduction.DATA_PARALLEL: OneDelayByColumns}
    proof = provers[reduction](Statement(key, WITH, [[], []], 2), INPUTS).prove()
    assert len(proof) == len(prove(key, WITH, INPUTS))
    with pytest.raises(VerificationError):
        verify(key, WITH, [], proof, instances=2)
    with pytest.raises(VerificationError):
        Verifier("cpu", key, WITH, instances=2).verify([], proof)


@pytest.mark.parametrize(
    ("reduction", "digest"),
    [
        (Reduction.TWO_PHASE, "73d3de68f24ca2efb0a3cfb20cadacacc7e30b57bb064a6a53c343c6093f3218"),
        (
            Reduction.DATA_PARALLEL,
            "1e4b75bb03b16f7f52a6e6bbac69d26572e65166fbe661ab655091b1a1c3b654",
        ),
    ],
    ids=str,
)
def test_proofs_without_random_coefficients_are_unchanged(
    reduction: Reduction, digest: str
) -> None:
    key = VerifyingKey.of(WITHOUT, FIELD, reduction=reduction)
    assert hashlib.sha256(prove(key, WITHOUT, INPUTS)).hexdigest() == digest


def test_files_of_older_versions_are_reported(tmp_path: Path) -> None:
    """Only files of circuits with random coefficients have changed."""
    path = tmp_path / "key.json"
    key = VerifyingKey.of(WITH, FIELD)
    write_verifying_key(path, key, WITH)
    assert read_verifying_key(path, WITH) == key
    described = describe_file(memoryview(path.read_bytes()), "key.json")
    assert described is not None
    assert described["random_coefficients"] == 2
    document = json.loads(path.read_bytes())
    assert document.pop("randoms") == 2
    path.write_text(json.dumps(document))
    with pytest.raises(MismatchError, match=r"has 2; keys made before .* circuit again"):
        read_verifying_key(path, WITH)
    write_verifying_key(path, VerifyingKey.of(WITHOUT, FIELD), WITHOUT)
    assert "randoms" not in json.loads(path.read_bytes())

    write_proof(tmp_path / "proof", key, 1, b"")
    data = (tmp_path / "proof").read_bytes()
    assert b"quod gkr 3" in data
    read_proof(tmp_path / "proof").check(key, 1)
    (tmp_path / "proof").write_bytes(data.replace(b"quod gkr 3", b"quod gkr 2"))
    with pytest.raises(MismatchError, match=r"is 'quod gkr 2', .*'quod gkr 3'; prove again with"):
        read_proof(tmp_path / "proof").check(key, 1)
