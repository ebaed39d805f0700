"""Files of any size: readers check the header before they allocate memory."""

from __future__ import annotations

import os
import re
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.cli.service import jobs
from quod.errors import InputError, MismatchError
from quod.field import NAMED
from quod.filecoin.describe import describe_file
from quod.filecoin.files import read_commit
from quod.filecoin.seal_records import read_seal_records
from quod.filecoin.statement_files import read_statement
from quod.formats import (
    BellmanParameters,
    BellmanVerifyingKey,
    Circuit6,
    Circuit6Witness,
    Gguf,
    PowersOfTau,
    R1cs,
    Witness,
    Zkey,
    describe,
    read_proof,
    source,
)
from quod.formats.wtns import witness_bytes, wtns_head
from quod.gkr.files.inputs import read_inputs
from quod.gkr.files.key import read_verifying_key as read_gkr_key
from quod.gkr.files.proof import read_proof as read_gkr_proof
from quod.groth16.prover import ProofInput
from quod.inference.files.key import read_verifying_key as read_inference_key
from quod.inference.files.proof import read_proof as read_inference_proof
from quod.inference.perceptron import Perceptron
from quod.inference.transformer.proof import read_answer
from quod.inference.transformer.proof import read_key as read_model_key
from quod.inference.transformer.proof.files.tokens import read_tokens
from quod.layered import CircuitBuilder, LayeredCircuit
from quod.layered.file import read_circuit
from quod.service.server.listeners import _content as read_certificate
from quod.service.server.settings import read_config
from quod.witness import check_witness
from quod.witness.calculator import read_wasm
from tests.formats.expander import witness_bytes as expander_witness
from tests.formats.tiny import DATA, container

# No disk has it: it is a hole. Memory for it is nowhere either.
SIZE = 1 << 40
# What a reader may take before it refuses a file.
MEMORY = 1 << 20

Reader = Callable[[Path], object]


def circuit_of_four() -> LayeredCircuit:
    builder = CircuitBuilder(NAMED["m31"], 2)
    layer = builder.layer(1)
    layer.multiply(0, 0, 1, 1)
    return builder.finished(zeros=1)


CIRCUIT = circuit_of_four()

READERS: dict[str, tuple[bytes, Reader]] = {
    "zkey": (b"zkey" + struct.pack("<II", 1, 10), Zkey.open),
    "owned zkey": (
        b"zkey" + struct.pack("<II", 1, 10), lambda path: Zkey.open(path, owned=True)
    ),
    "wtns": (b"wtns" + struct.pack("<II", 2, 2), Witness.open),
    "wtns for a service": (b"wtns" + struct.pack("<II", 2, 2), witness_bytes),
    "r1cs": (b"r1cs" + struct.pack("<II", 1, 3), R1cs.open),
    "ptau": (b"ptau" + struct.pack("<II", 1, 7), PowersOfTau.open),
    "circuit6": (b"CIRCUIT6", Circuit6.open),
    "circuit": (b"qcir" + struct.pack("<II", 1, 4), read_circuit),
    "expander witness": (expander_witness(2**31 - 1, [[1]], [[]])[:56], Circuit6Witness.open),
    "gkr inputs": (
        expander_witness(2**31 - 1, [[1] * 4], [[]])[:56], lambda path: read_inputs(path, CIRCUIT)
    ),
    "gkr key": (b"{", lambda path: read_gkr_key(path, CIRCUIT)),
    "gkr proof": (b"qgkp" + struct.pack("<II", 2, 2), read_gkr_proof),
    "inference key": (b"qivk" + struct.pack("<II", 1, 4), read_inference_key),
    "inference proof": (b"qinp" + struct.pack("<II", 1, 3), read_inference_proof),
    "key of a language model": (b"qtvk" + struct.pack("<II", 1, 5), read_model_key),
    "answer": (b"qtip" + struct.pack("<II", 1, 3), read_answer),
    "tokens": (b"{", read_tokens),
    "gguf": (b"GGUF" + struct.pack("<IQQ", 3, 1, 0), Gguf.open),
    "owned gguf": (
        b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), lambda path: Gguf.open(path, owned=True)
    ),
    "perceptron": (b"GGUF" + struct.pack("<IQQ", 3, 5, 1), Perceptron.open),
    "bellman parameters": (b"zkey", BellmanParameters.open),
    "bellman key": (b"zkey", BellmanVerifyingKey.open),
    "output of c1": (bytes(4), read_commit),
    "statement": (b"{", read_statement),
    "seal records": (b"{", read_seal_records),
    "inspect filecoin": (b'{"porep_config":', describe_file),
    "proof": (b"{", lambda path: read_proof(path, curve="bn254")),
    "inputs of a job": (b"{", jobs._inputs),
    "wasm": (b"\0asm", read_wasm),
    "certificate": (b"-----BEGIN", read_certificate),
    "configuration": (b"[limits]", lambda path: read_config(path, {})),
    "inspect": (b"wtns" + struct.pack("<II", 2, 2), describe),
}  # fmt: skip


def sparse(path: Path, start: bytes, size: int = SIZE) -> Path:
    path.write_bytes(start)
    os.truncate(path, size)
    return path


def refusal(read: Reader, path: Path) -> InputError:
    """The error of a reader, which has taken little memory before it."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as refused:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    return refused.value


@pytest.mark.parametrize("name", READERS)
def test_a_file_of_another_kind_is_not_read(name: str, tmp_path: Path) -> None:
    read = READERS[name][1]
    with suppress(InputError):  # what loads on first use is not counted
        read(sparse(tmp_path / "small", b"", 64))
    error = refusal(read, sparse(tmp_path / "zeros", b""))
    assert error.path == str(tmp_path / "zeros")


@pytest.mark.parametrize("name", READERS)
def test_large_file_with_only_a_valid_header_is_not_read(name: str, tmp_path: Path) -> None:
    start, read = READERS[name]
    with suppress(InputError):
        read(sparse(tmp_path / "small", start, 64))
    assert refusal(read, sparse(tmp_path / "large", start)).path == str(tmp_path / "large")


def large_witness(path: Path, count: int = (1 << 32) - 1) -> Path:
    """A file with a sound header, and as many values as it says."""
    head = wtns_head("bn254", count)
    return sparse(path, head + (1).to_bytes(32, "little"), len(head) + 32 * count)


def test_a_witness_is_not_read_for_a_key_of_another_circuit(tmp_path: Path) -> None:
    path, folder = large_witness(tmp_path / "w.wtns"), DATA / "bn254"
    zkey = Zkey.open(folder / "circuit.zkey")
    key: Any = SimpleNamespace(zkey=zkey, curve="bn254", variables=zkey.variables)
    error = refusal(lambda path: ProofInput.of(key, path, None), path)
    assert isinstance(error, MismatchError)
    assert "the witness has 4294967295 values" in str(error)


def test_a_witness_is_not_read_for_constraints_of_another_circuit(tmp_path: Path) -> None:
    path, folder = large_witness(tmp_path / "w.wtns"), DATA / "bn254"
    system = R1cs.open(folder / "circuit.r1cs")
    error = refusal(lambda path: check_witness(system, path), path)
    assert isinstance(error, MismatchError)
    assert "has 4294967295 values over bn254" in str(error)


def test_first_witness_value_is_checked_first(tmp_path: Path) -> None:
    head, count = wtns_head("bn254", 1 << 31), 1 << 31
    path = sparse(tmp_path / "w.wtns", head, len(head) + 32 * count)
    for read in (Witness.open, describe):
        assert "value 0 must be the constant 1" in str(refusal(read, path))


def test_inspect_reads_a_witness_in_chunks(tmp_path: Path) -> None:
    path = large_witness(tmp_path / "w.wtns", 1 << 20)
    describe(path)
    tracemalloc.start()
    try:
        report = describe(path)
        # All values together are 32 MiB, and their comparisons 7.
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (report["values"], report["zeros_and_ones"]) == (1 << 20, 1 << 20)


def test_proof_length_is_bounded(tmp_path: Path) -> None:
    header = bytes(32) + struct.pack("<QI", 1, 1)
    limit = 1 << 30
    start = container(b"qinp", 1, [(1, header), (2, bytes(4)), (3, b"")])
    start = start[:-8] + limit.to_bytes(8, "little")
    path = sparse(tmp_path / "p.qinp", start, len(start) + limit)
    error = refusal(read_inference_proof, path)
    assert "is longer than the limit for a proof of inferences" in str(error)


def test_the_length_of_an_answer_is_bounded(tmp_path: Path) -> None:
    header, limit = bytes(32) + struct.pack("<II", 2, 1), 1 << 28
    start = container(b"qtip", 1, [(1, header), (2, bytes(8)), (3, b"")])
    start = start[:-8] + limit.to_bytes(8, "little")
    path = sparse(tmp_path / "a.qtip", start, len(start) + limit)
    assert "is longer than the limit for a proven answer" in str(refusal(read_answer, path))


def test_inputs_of_another_circuit_are_not_read(tmp_path: Path) -> None:
    head = struct.pack("<QQQ", 1 << 36, 1, 0) + (2**31 - 1).to_bytes(32, "little")
    path = sparse(tmp_path / "w", head, len(head) + (4 << 36))
    assert "the witness has 1 inputs" in str(refusal(lambda path: read_inputs(path, CIRCUIT), path))


def test_a_lack_of_memory_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("quod.formats.source.np.empty", full)
    with pytest.raises(InputError, match=r"witness\.wtns: needs more memory than is available"):
        Witness.open(DATA / "bn254" / "witness.wtns")
    monkeypatch.setattr("quod.formats.source.io.BytesIO", full)
    with pytest.raises(InputError, match=r"proof\.json: needs more memory than is available"):
        read_proof(DATA / "bn254" / "proof.json", curve="bn254")


def test_view_reads_the_requested_slices(tmp_path: Path) -> None:
    data = np.random.default_rng(3).bytes(20_000)
    path = tmp_path / "file"
    path.write_bytes(data)
    slices = [(0, 4), (4, 12), (19_990, 20_000), (100, 9_000), (8_999, 9_001), (5, 5), (0, 30_000)]

    def check(view: source.FileView) -> None:
        assert len(view) == len(data)
        for start, stop in slices:
            assert view[start:stop] == data[start:stop]
        with open(path, "rb") as file:
            part = source.FileView("file", file, 100, 50)
            assert (bytes(part[:10]), bytes(part[90:])) == (data[50:60], data[140:150])

    assert source.read_file(path, check) == data


# Files that no user gives: of the system, of Quod's installation, of its own workers and benches.
OTHERS = {
    "quod/formats/source.py", "quod/web/runtime_text.py",
    "quod/kernel/builder/captured_variables.py",
    "quod/bench/peers/programs.py", "quod/bench/peers/v8.py", "quod/bench/peers/zorch_driver.py",
    "quod/bench/measure/results.py", "quod/bench/proofs/solidity.py",
    "quod/service/worker/process/supervisor.py", "quod/service/protocol/generate.py",
    "quod/service/queue/stores/boots.py", "quod/service/queue/stores/sqlite.py",
    "quod/device/cache/sources.py", "quod/device/host.py", "quod/ceremony/powers/ptau_layout.py",
    "quod/witness/compile_child.py", "quod/device/cpu/native_code.py",
    "quod/cli/kernel/wheel.py",
}  # fmt: skip
WHOLE = re.compile(
    r"\.(read_bytes|read_text|fromfile|memmap|mmap)\(|\b(json|tomllib|np)\.load\(|file\.read\(\)"
)


def test_all_file_readers_use_the_source_module() -> None:
    """Whole files are read through `quod.formats.source`, or with a stated limit."""
    root = Path(source.__file__).parents[2]
    readers = {
        path.relative_to(root).as_posix()
        for path in root.glob("quod/**/*.py")
        if WHOLE.search(path.read_text())
    }
    assert readers <= OTHERS
    assert "quod/formats/source.py" in readers
