"""Parameters and proofs of Filecoin with the key in a GPU's memory alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.filecoin.parameters import files as parameter_files
from quod.filecoin.parameters import make_parameters, read_verifying_key
from quod.filecoin.parameters.digests import network_digests
from quod.filecoin.proving import Prover, prove_post, verify_proof
from quod.groth16.device_key.bases import base_bytes
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.groth16.device_key.key import DeviceKey
from quod.groth16.device_key.memory import KeyMemory
from quod.service.filecoin.provers import host_peak_bytes
from tests.filecoin.made_parameters import SEED, WINDOW
from tests.filecoin.test_proving import statement_of, vanilla_proof

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def cuda(gpu_device: AnyDevice) -> AnyDevice:
    if gpu_device.kind != "cuda":
        pytest.skip("interpreted kernels are too slow for Filecoin's circuits")
    return gpu_device


def test_parameters_made_on_the_device_are_those_of_the_host(
    cuda: AnyDevice, window_folder: Path, tmp_path: Path
) -> None:
    for path in make_parameters(WINDOW, tmp_path, SEED, device=cuda):
        assert path.read_bytes() == (window_folder / path.name).read_bytes(), path.name


def test_proofs_with_parameters_and_with_a_key_in_memory(
    cuda: AnyDevice, window_folder: Path
) -> None:
    key = read_verifying_key(WINDOW, window_folder, allow_insecure=True)
    statement, vanilla_proofs = statement_of(7, 8), [vanilla_proof(7), vanilla_proof(8, 1)]
    for prover in (Prover(WINDOW, window_folder, cuda), Prover(WINDOW, None, cuda, test_seed=SEED)):
        assert isinstance(prover.key, DeviceKey)
        assert prover.insecure
        assert host_peak_bytes(prover, 0) == 0
        proof = prove_post(prover, statement, vanilla_proofs)
        assert verify_proof(key, statement, proof)
        prover.close()


def test_the_digest_of_the_network_s_file_is_computed_and_remembered(
    cuda: AnyDevice, window_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / WINDOW.file_name("params")
    path.write_bytes((window_folder / path.name).read_bytes())
    # A file that does not look like a test key must have a digest of the network's.
    monkeypatch.setattr(parameter_files, "weakness_in", lambda key: None)
    with pytest.raises(InputError, match=r"has the digest [0-9a-f]{32}, which is not that of"):
        Prover(WINDOW, tmp_path, cuda)
    path.write_bytes(path.read_bytes())
    digests = iter(network_digests(WINDOW)[:1])
    monkeypatch.setattr(parameter_files, "file_digest", lambda file: next(digests))
    for _ in range(2):
        Prover(WINDOW, tmp_path, cuda).close()


def test_a_key_that_exceeds_the_gpu_is_streamed_from_host_memory(
    cuda: AnyDevice, window_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def three_quarters(
        kind: type[KeyMemory], device: AnyDevice, circuit: DeviceCircuit, chunk: int = 0
    ) -> KeyMemory:
        return kind.of_share(device, circuit, 0.75, 1 << 10)

    monkeypatch.setattr(KeyMemory, "fitting", classmethod(three_quarters))
    prover = Prover(WINDOW, window_folder, cuda)
    assert isinstance(prover.key, DeviceKey)
    memory = prover.key.memory
    assert memory.staying is not None
    sizes = base_bytes(memory.circuit)
    assert host_peak_bytes(prover, 0) == sizes["H"] + sizes["A"] + sizes["C"] - memory.staying > 0
    statement, vanilla_proofs = statement_of(7, 8), [vanilla_proof(7), vanilla_proof(8, 1)]
    proof = prove_post(prover, statement, vanilla_proofs)
    key = read_verifying_key(WINDOW, window_folder, allow_insecure=True)
    assert verify_proof(key, statement, proof)
    prover.close()
