"""Parents of nodes against upstream's digests of parent caches, and ChaCha against RFC 8439."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from quod.filecoin.chacha import chacha20_stream, chacha_blocks
from quod.filecoin.graph import StackedGraph
from quod.filecoin.registered_proofs import ApiVersion, porep_id, seal_proof
from tests.support.thorough import one_and_others

DIGESTS = {
    0: "3da49221e2ed55371b86d0bf3d6526fcf128af61bed904f966428db1b531750d",
    5: "840057702eea7652cf97e04306c30fe57174714d90de156a25eddd6075c25b97",
    1: "a76604f2f59f2744c7151653bbb1d8596b6b57d295e6fa6c1f0c41d725b502ce",
    6: "03cd13565ded97c240a5f52e54295ad127bd0461b57904cb3a4d79b097bbecab",
    2: "3adcc092423aa76d6a7184016893406da44dd974b219a89cd3ece25e4e3018f5",
    7: "b5877d1963793efebc261fd8fde4dd6bc59e6b5c7abf52617a4ee023b8dc173a",
}
"""SHA-256 of all parents by registered seal proof (rust-fil-proofs, parent_cache.json)."""


@pytest.mark.parametrize("number", one_and_others(DIGESTS, always=(0, 5, 1, 6)))
def test_digest_of_all_parents(number: int) -> None:
    assert StackedGraph.of(seal_proof(number).config()).digest().hex() == DIGESTS[number]


@pytest.mark.fixtures
def test_digests_are_those_of_upstream(shared_fixtures: Path) -> None:
    document = json.loads((shared_fixtures / "filecoin" / "parent_cache.json").read_text())
    recorded = {(entry["sector_size"], entry["digest"]) for entry in document.values()}
    assert {(seal_proof(n).sector.size, digest) for n, digest in DIGESTS.items()} <= recorded


def test_parents_of_a_challenged_node() -> None:
    """The challenge 151786 of the sector of `test_commit_check`, and node 22 of 64."""
    graph = StackedGraph.of(seal_proof(6).config())
    assert graph.parents([151786]).tolist() == [
        [151785, 151785, 151785, 151740, 151616, 151785]
        + [156850, 185828, 128537, 121364, 183781, 164990, 92372, 230258]
    ]
    small = StackedGraph.of(seal_proof(5).config())
    assert small.parents([22]).tolist() == [[21, 20, 16, 3, 21, 21, 50, 53, 8, 27, 34, 1, 47, 19]]


@pytest.mark.parametrize("number", [0, 5, 3, 9])
def test_single_nodes_equal_ranges(number: int) -> None:
    """Few nodes compute the Feistel rounds directly, many take them from tables."""
    graph = StackedGraph.of(seal_proof(number).config())
    first = min(graph.nodes - 64, 1 << 29)
    nodes = np.arange(first, first + 64)
    single = np.concatenate([graph.parents([node]) for node in nodes])
    assert (single == graph.parents(nodes)).all()
    assert (graph.drg_parents(nodes) < np.maximum(nodes, 1)[:, None]).all()
    assert (graph.expander_parents(nodes) < graph.nodes).all()


def test_expander_is_a_permutation() -> None:
    graph = StackedGraph(1 << 9, porep_id(5), ApiVersion.V1_1)
    parents = graph.expander_parents(np.arange(graph.nodes))
    assert (np.bincount(parents.reshape(-1)) == 8).all()


def test_versions_order_the_preceding_node() -> None:
    nodes = [0, 1, 2, 40]
    first, last = (
        StackedGraph(64, porep_id(5), version).drg_parents(nodes)
        for version in (ApiVersion.V1_2, ApiVersion.V1_0)
    )
    assert first[:, 0].tolist() == last[:, -1].tolist() == [0, 0, 1, 39]
    assert (first[:, 1:] == last[:, :-1]).all()
    assert not first[:2].any()


def test_chacha20_vectors() -> None:
    """The block of RFC 8439, 2.3.2, and the key stream of 2.4.2."""
    key = bytes(range(32))
    words = np.frombuffer(key, "<u4").astype(np.uint32).reshape(1, 8)
    nonce = bytes.fromhex("000000090000004a00000000")
    position = np.array([[1, *np.frombuffer(nonce, "<u4")]], np.uint32)
    block = chacha_blocks(words, position, 20).astype("<u4").tobytes()
    assert block.hex().startswith("10f1e7e4d13b5915500fdd1fa32071c4")
    offsets = np.array([96, 64, 64])
    parts = chacha20_stream(key, nonce, offsets, 32)
    assert parts[2].tobytes() == block[:32]
    assert parts[0].tobytes() == block[32:]
    nonce = bytes.fromhex("000000000000004a00000000")
    stream = chacha20_stream(key, nonce, np.array([64]), 64)[0].tobytes()
    text = b"Ladies and Gentl"
    cipher = bytes(a ^ b for a, b in zip(stream, text, strict=False))
    assert cipher.hex() == "6e2e359a2568f98041ba0728dd0d6981"
