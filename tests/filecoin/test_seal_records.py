"""Records of sealed sectors: those of upstream's regression tests, and malformed ones."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from quod.cli import entry
from quod.errors import InputError
from quod.filecoin.checks import check_aggregate
from quod.filecoin.parameters.digests import NETWORK_SETS
from quod.filecoin.parameters.identifiers import ProofKind
from quod.filecoin.registered_proofs import ApiVersion, seal_proof
from quod.filecoin.seal_records import SealRecord, parse_seal_records, read_seal_records
from quod.filecoin.statements import SealStatement
from quod.groth16.encodings.bellman import proof_from_bytes
from tests.filecoin.simulated import SimulatedKey
from tests.support.thorough import one_and_others

VERSIONS = ("v16", "v18")


@pytest.fixture(scope="module")
def files(shared_fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Upstream's files of records, by version."""
    folder, paths = tmp_path_factory.mktemp("records"), {}
    for version in VERSIONS:
        name = f"seal_regression_records-{version}.json"
        paths[version] = folder / name
        data = (shared_fixtures / f"filecoin/{name}.gz").read_bytes()
        paths[version].write_bytes(gzip.decompress(data))
    return paths


@pytest.fixture(scope="module")
def records(files: dict[str, Path]) -> dict[str, list[SealRecord]]:
    return {version: read_seal_records(path) for version, path in files.items()}


@pytest.mark.fixtures
@pytest.mark.parametrize("step", one_and_others([20, 1]))
def test_records_of_upstream(records: dict[str, list[SealRecord]], step: int) -> None:
    """Each proof is three points of the groups, and each partition has its public inputs."""
    assert {version: len(rows) for version, rows in records.items()} == {"v16": 448, "v18": 113}
    every = records["v16"] + records["v18"]
    sizes = Counter(record.config.sector.name for record in every)
    assert sizes == {"2KiB": 124, "8MiB": 148, "512MiB": 280, "32GiB": 7, "64GiB": 2}
    assert sum(record.is_aggregate for record in every) == 24
    for record in every[::step]:
        config = record.config
        partitions = range(config.partitions) if step == 1 else (0, config.partitions - 1)
        inputs = [record.public_inputs(partition) for partition in partitions]
        assert {len(row) for row in inputs} == {3 + 18 * config.sector.challenges}
        assert record.is_aggregate or len(record.partition_proofs) == config.partitions
        if record.is_aggregate:
            assert check_aggregate(record.proof) == 1 << (config.partitions - 1).bit_length()
        for proof in record.partition_proofs[:: max(1, step // 2)]:
            proof_from_bytes(proof)


CASES = [("v16", "2KiB", 12)]
CASES += [("v16", size, 448) for size in ("2KiB", "8MiB", "512MiB", "32GiB", "64GiB")]
CASES += [("v18", size, 113) for size in ("8MiB", "512MiB", "32GiB")]


@pytest.mark.fixtures
@pytest.mark.parametrize(("version", "size", "limit"), one_and_others(CASES))
def test_verdicts_on_records_of_upstream(
    version: str, size: str, limit: int, files: dict[str, Path], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The real proofs are not of a key of this test; proofs that it simulates in their place are.

    The network's keys, under which the real ones are valid, are not among the fixtures.
    """
    documents, simulated, aggregates = [], [], 0
    (parameters,) = (
        each for each in NETWORK_SETS if (each.kind, each.sector.name) == (ProofKind.POREP, size)
    )
    key = SimulatedKey(parameters.public)
    for line in files[version].read_bytes().splitlines():
        (record,) = parse_seal_records(line)
        if record.config.sector == parameters.sector and len(documents) < limit:
            document = json.loads(line)
            documents.append(document)
            aggregates += record.is_aggregate
            if not record.is_aggregate:
                proof = key.prove_statement(SealStatement.of_record(record))
                document = document | {"proof": [*proof]}
            simulated.append(document)
    count = len(documents) - aggregates
    path, vk = tmp_path / "records.json", key.write(tmp_path / "vk")
    words = ["filecoin", "verify", str(path), "--vk", str(vk)]
    path.write_text("\n".join(map(json.dumps, documents)))
    assert entry.run(words) == 6
    assert f"{count} of {count} proofs are not valid" in capsys.readouterr().err
    path.write_text("\n".join(map(json.dumps, simulated)))
    assert entry.run(words) == (3 if aggregates else 0)
    said = f"{count} proofs are valid" if count > 1 else "the proof is valid"
    assert said in "".join(capsys.readouterr())


def record_document() -> dict[str, Any]:
    config = {"sector_size": 2048, "partitions": 1, "porep_id": [5] + [0] * 31}
    return {
        "porep_config": config | {"api_version": "V1_1_0", "api_features": []},
        "comm_r": [1] * 32, "comm_d": [2] * 32, "prover_id": [3] * 32, "sector_id": 1 << 63,
        "ticket": [4] * 32, "seed": [255] * 32, "proof": [6] * 192,
    }  # fmt: skip


def test_a_record() -> None:
    text = json.dumps(record_document()).encode()
    (record,) = parse_seal_records(b"\n" + text + b"\n\n")
    assert record.config == seal_proof(5).config()
    assert record.config.api_version is ApiVersion.V1_1
    assert record.sector_number == 1 << 63
    assert record.partition_proofs == [bytes([6]) * 192]
    assert len(record.public_inputs(0)) == 39
    assert record.public_inputs(0)[0] == int.from_bytes(record.replica_id, "little")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"proof": [6] * 191}, "line 1.proof: must be a list of 192 bytes"),
        ({"sector_id": -1}, "line 1.sector_id: must be a whole number below"),
        ({"comm_r": [255] * 32}, "line 1.comm_r: is not below the modulus"),
        ({"seed": 5}, "line 1.seed: must be a list of 32 bytes"),
        ({"speed": 5}, 'line 1: has an unknown key "speed"'),
        ({"porep_config": 5}, "line 1.porep_config: must be an object, not a number"),
    ],
)
def test_wrong_records(change: dict[str, object], message: str) -> None:
    text = json.dumps(record_document() | change).encode()
    with pytest.raises(InputError, match=re.escape(message)):
        parse_seal_records(text, "records.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sector_size": 1024}, "porep_config.sector_size: the sector size must be 2KiB"),
        ({"partitions": 2}, "porep_config.partitions: must be 1, not 2"),
        ({"api_version": "V2"}, 'porep_config.api_version: "V2" is not supported'),
        ({"api_version": []}, "porep_config.api_version: [] is not supported"),
        ({"api_features": ["X"]}, 'porep_config.api_features: ["X"] is not supported'),
        ({"api_features": "X"}, "porep_config.api_features: must be a list, not a string"),
        ({"api_features": ["NonInteractivePoRep"]}, "porep_config.partitions: must be 13, not 1"),
    ],
)
def test_wrong_configurations(change: dict[str, object], message: str) -> None:
    document = record_document()
    document["porep_config"].update(change)
    with pytest.raises(InputError, match=re.escape(message)):
        parse_seal_records(json.dumps(document).encode(), "records.json")
