"""Public inputs of the circuits, and upstream's records of sealed sectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.errors import InputError
from quod.filecoin.challenges import porep_challenges
from quod.filecoin.files import parse_commit
from quod.filecoin.public_inputs import porep_inputs, post_inputs, update_inputs
from quod.filecoin.registered_proofs import seal_proof
from quod.filecoin.sectors import sector_shape
from tests.filecoin.sealed import SEED, sealed


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
