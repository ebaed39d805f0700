"""Sectors for tests: vanilla proofs of whole and of sparse sectors are consistent."""

from __future__ import annotations

import random

import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import random_elements
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.challenges import window_challenges, winning_challenges
from quod.filecoin.checks import check_commit, check_post_sector, check_update_partition
from quod.filecoin.checks.post import check_post_sectors
from quod.filecoin.files import commit_to_bincode, parse_commit
from quod.filecoin.poseidon import NodeHasher
from quod.filecoin.records import CommitOutput
from quod.filecoin.registered_proofs import ApiVersion, seal_proof
from quod.filecoin.sealing import (
    UpdatedSector,
    seal,
    sparse_commit,
    sparse_posts,
    uniform_update,
    update,
)
from quod.filecoin.sealing.partial_trees import node_source, run_length_tree, sparse_tree
from quod.filecoin.sectors import SECTORS, SectorShape, sector_shape
from quod.filecoin.trees import tree_d, tree_r_last, words_to_node
from tests.filecoin.sealed import (
    MINER,
    RANDOMNESS,
    SECTOR,
    SEED,
    TICKET,
    random_data,
    sealed,
    updated,
)
from tests.support.thorough import one_and_others

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL, LARGE = sector_shape(2 * KIB), sector_shape(64 * GIB)


def sparse(number: int, *, random_seed: int = 0, device: AnyDevice | None = None) -> CommitOutput:
    return sparse_commit(
        seal_proof(number), miner=MINER, sector_number=SECTOR, ticket=TICKET, seed=SEED,
        random_seed=random_seed, device=device,
    )  # fmt: skip


def check_update(updated_sector: UpdatedSector, device: AnyDevice | None = None) -> None:
    """Check the first and the last partition."""
    shape, statement = updated_sector.shape, updated_sector.statement
    commitments = statement.comm_r_old, statement.comm_d_new, statement.comm_r_new
    for partition in {0, shape.update.partitions - 1}:
        proof = updated_sector.partition_proof(partition)
        check_update_partition(proof, shape, partition, *commitments, device=device)


@pytest.mark.parametrize("number", one_and_others([5, 0, 10, 15]))
def test_whole_sectors(number: int) -> None:
    output = sealed(number).commit_output(SEED)
    check_commit(output, miner=MINER, sector_number=SECTOR)
    challenges = window_challenges(SMALL, ApiVersion.V1_2, RANDOMNESS, SECTOR, 0)
    check_post_sector(sealed(number).post_proof(SECTOR, challenges), SMALL, challenges)


def test_an_updated_sector() -> None:
    check_update(updated())
    assert len(updated().partition_proofs) == 1


@pytest.mark.thorough
def test_a_whole_sector_of_8_mib(device: AnyDevice) -> None:
    proof = seal_proof(6)
    sector = seal(
        proof, random_data(proof.sector.nodes, 1), miner=MINER, sector_number=SECTOR,
        ticket=TICKET, device=device,
    )  # fmt: skip
    check_commit(sector.commit_output(SEED), miner=MINER, sector_number=SECTOR, device=device)
    check_update(update(sector, random_data(proof.sector.nodes, 2), device=device), device)


@pytest.mark.parametrize("number", [5, 6])
def test_sparse_outputs_of_c1(number: int) -> None:
    output = sparse(number)
    check_commit(output, miner=MINER, sector_number=SECTOR)
    assert parse_commit(commit_to_bincode(output)).output == output
    other = sparse(number, random_seed=1)
    assert other.comm_r != output.comm_r
    assert other.replica_id == output.replica_id


def test_parents_that_are_challenged() -> None:
    """In a sector of 64 nodes, a challenged node may be the parent of another."""
    occurrences = 0
    for seed in range(1, 5):
        output = sparse_commit(
            seal_proof(5), miner=MINER, sector_number=SECTOR, ticket=TICKET, seed=bytes([seed] * 32)
        )
        check_commit(output, miner=MINER, sector_number=SECTOR)
        first, second = (each.replica_column_proofs.columns for each in output.vanilla_proofs[0])
        nodes = [columns["c_x"].column.index for columns in (first, second)]
        for columns, node in ((first, nodes[1]), (second, nodes[0])):
            occurrences += any(each.column.index == node for each in columns.values())
    assert occurrences


@pytest.mark.thorough
@pytest.mark.parametrize("number", [2, 3, 8, 9])
def test_sparse_outputs_of_large_sectors(device: AnyDevice, number: int) -> None:
    check_commit(sparse(number, device=device), miner=MINER, sector_number=SECTOR, device=device)


def test_a_sparse_proof_of_spacetime() -> None:
    for challenges in (
        winning_challenges(LARGE, RANDOMNESS, SECTOR)[:20],
        window_challenges(LARGE, ApiVersion.V1_2, RANDOMNESS, SECTOR, 0),
    ):
        (proof,) = sparse_posts(LARGE, {SECTOR: challenges})
        check_post_sector(proof, LARGE, challenges)
        assert sparse_posts(LARGE, {SECTOR: challenges}) == [proof]


def test_sparse_proofs_of_several_sectors(device: AnyDevice) -> None:
    numbers = range(4, 7)
    challenges = {
        number: window_challenges(LARGE, ApiVersion.V1_2, RANDOMNESS, number, 0)
        for number in numbers
    }
    proofs = sparse_posts(LARGE, challenges, device=device)
    assert [proof.sector_id for proof in proofs] == [*numbers]
    check_post_sectors(proofs, LARGE, [*challenges.values()], device=device)


@pytest.mark.parametrize(
    "shape",
    one_and_others(
        SECTORS.values(),
        always=[sector_shape(size) for size in (2 * KIB, 16 * KIB, 32 * KIB)],
    ),
    ids=lambda shape: shape.name,
)
def test_uniform_updates(shape: SectorShape, device: AnyDevice) -> None:
    check_update(uniform_update(shape, device=device), device)


def test_run_length_trees_are_trees() -> None:
    """All nodes equal those of the whole tree, whatever the length of the runs."""
    shape, hasher = sector_shape(32 * KIB), NodeHasher()
    for runs in (1, 4, 64):
        leaves = random_elements(BLS12_381_FR, runs, 1)
        tree = run_length_tree(shape.arities, shape.base_levels, leaves, hasher.hash_groups)
        count = shape.nodes // runs
        expected = tree_r_last(shape, leaves.repeat(count, axis=0), hasher)
        for level, nodes in enumerate(expected.levels):
            assert [tree.node(level, index) for index in range(len(nodes))] == [
                words_to_node(node) for node in nodes
            ]
        assert tree.proof(777) == expected.proof(777)


def test_sparse_trees() -> None:
    """With all leaves a sparse tree is the tree; other nodes of a sparse one are not stored."""
    shape, hasher = sector_shape(4 * KIB), NodeHasher()
    nodes = random_elements(BLS12_381_FR, shape.nodes, 1)
    leaves = {index: words_to_node(node) for index, node in enumerate(nodes)}
    tree = sparse_tree(shape.arities, shape.base_levels, leaves, hasher.hash_groups, node_source(1))
    expected = tree_r_last(shape, nodes, hasher)
    assert tree.root == expected.root
    assert tree.proof(99) == expected.proof(99)
    few = {leaf: leaves[leaf] for leaf in random.Random(1).sample(range(64), 3)}
    tree = sparse_tree(shape.arities, shape.base_levels, few, hasher.hash_groups, node_source(1))
    for leaf, node in few.items():
        assert tree.proof(leaf).leaf == node
    with pytest.raises(InputError, match=r"node \d+ of level 0 is not stored"):
        tree.proof(127)


def test_sectors_that_are_refused() -> None:
    with pytest.raises(InputError, match="sectors of up to 8MiB can be sealed, not of 512MiB"):
        seal(seal_proof(7), b"", miner=MINER, sector_number=SECTOR, ticket=TICKET)
    with pytest.raises(InputError, match="the data must be 2048 bytes, not 2047"):
        seal(seal_proof(5), bytes(2047), miner=MINER, sector_number=SECTOR, ticket=TICKET)
    with pytest.raises(InputError, match="is not below the modulus"):
        seal(seal_proof(5), b"\xff" * 2048, miner=MINER, sector_number=SECTOR, ticket=TICKET)
    for number in (10, 18):
        with pytest.raises(InputError, match="depend on all nodes; choose an interactive proof"):
            sparse(number)
    with pytest.raises(InputError, match="the data must be 2048 bytes, not 64"):
        update(sealed(), bytes(64))
    with pytest.raises(InputError, match="the leaf must be a whole number from 0 to 63, not 64"):
        sealed().post_proof(SECTOR, [64])
    assert tree_d(bytes(2048)).root == sparse(5).comm_d
