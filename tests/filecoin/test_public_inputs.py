"""Public inputs of the circuits, and upstream's records of sealed sectors."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.filecoin.challenges import porep_challenges
from quod.filecoin.files import parse_commit
from quod.filecoin.public_inputs import porep_inputs, post_inputs, update_inputs
from quod.filecoin.registered_proofs import ApiVersion, seal_proof
from quod.filecoin.seal_records import SealRecord, parse_seal_records, read_seal_records
from quod.filecoin.sectors import sector_shape
from quod.groth16.encodings.bellman import proof_from_bytes
from tests.filecoin.sealed import SEED, sealed
from tests.support.thorough import one_and_others


def node(value: int) -> bytes:
    return value.to_bytes(32, "little")


def test_inputs_of_a_partition() -> None:
    sector = sealed()
    config = sector.registered_proof.config()
    challenges = porep_challenges(config, sector.replica_id, sector.comm_r, SEED, 0)
    inputs = porep_inputs(config, sector.replica_id, sector.tree_d.root, sector.comm_r, challenges)
    assert len(inputs) == 39
    assert [inputs[3], inputs[18], inputs[19], inputs[20]] == [challenges[0]] * 4
    assert inputs[4] == challenges[0] - 1
    large = seal_proof(8).config()
    challenges = porep_challenges(large, node(1), node(2), SEED, 9)
    assert len(porep_inputs(large, node(1), node(3), node(2), challenges)) == 327


@pytest.mark.fixtures
def test_inputs_of_the_real_sector(shared_fixtures: Path) -> None:
    data = (shared_fixtures / "filecoin" / "c2-input-8MiB.bincode").read_bytes()[4:-40]
    output = parse_commit(data).output
    config = output.registered_proof.config()
    inputs = porep_inputs(config, output.replica_id, output.comm_d, output.comm_r, [151786, 237493])
    assert inputs[:21] == [
        28353203059889156223057716669633536265676160127696079638542554991186765277144,
        12783005753752995197445268891980315358880915809567374161990016198369169306213,
        34258127092215134429162481441039671700458407919622543320481038619841873615228,
        151786, 151785, 151785, 151785, 151740, 151616, 151785, 156850, 185828, 128537, 121364,
        183781, 164990, 92372, 230258, 151786, 151786, 151786,
    ]  # fmt: skip


def test_inputs_of_other_proofs() -> None:
    sectors = [(node(5), range(10)), (node(6), range(10, 20))]
    assert post_inputs(sectors, 4) == [5, *range(10)] + [6, *range(10, 20)] * 3
    assert len(post_inputs(sectors, 2349)) == 25839
    for wrong in ([], [sectors[0]] * 3):
        with pytest.raises(InputError, match="must have 1 to 2 sectors"):
            post_inputs(wrong, 2)
    shape = sector_shape(32 << 30)
    assert update_inputs(shape, 3, node(7), node(8), node(9)) == [0b1000_0011, 7, 8, 9]


@pytest.fixture(scope="module")
def records(
    shared_fixtures: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[SealRecord]]:
    versions = {}
    for version in ("v16", "v18"):
        name = f"seal_regression_records-{version}.json"
        path = tmp_path_factory.mktemp("records") / name
        path.write_bytes(gzip.decompress((shared_fixtures / f"filecoin/{name}.gz").read_bytes()))
        versions[version] = read_seal_records(path)
    return versions


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
        inputs = [record.public_inputs(partition) for partition in (0, config.partitions - 1)]
        assert {len(row) for row in inputs} == {3 + 18 * config.sector.challenges}
        assert record.is_aggregate or len(record.partition_proofs) == config.partitions
        for proof in record.partition_proofs[:1]:
            proof_from_bytes(proof)


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
