"""Inclusion in Filecoin's trees: counts of `por_circuit.rs` of rust-fil-proofs, and digests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quod import r1cs
from quod.errors import InputError, MismatchError
from quod.filecoin.circuits import EmptySectorUpdateCircuit, FallbackPoStCircuit, StackedCircuit
from quod.filecoin.circuits.trees import leaf_count, tree_d_node, tree_r_node
from quod.filecoin.sectors import UpdateShape
from quod.r1cs.gadgets.bellman import publish_packed
from quod.r1cs.gadgets.inclusion import HashChildren, root_of_private_path
from tests.filecoin.circuits.instances import as_bytes, element_of, sha256

CURVE = "bls12_381"


def inclusion(
    arities: tuple[int, ...], hash_children: HashChildren, *, is_public: bool = True
) -> r1cs.Circuit:
    """Upstream's `PoRCircuit` of a leaf and a root that are not variables yet."""

    def function(system: r1cs.ConstraintSystem) -> None:
        leaf = system.private("leaf")
        computed_root, index = root_of_private_path(system, leaf, arities, hash_children)
        publish_packed(system, "index", index)
        root = system.private("root")
        system.enforce(computed_root, system.one, root)
        if is_public:
            system.output("public root", root)

    return r1cs.trace(function, CURVE)


@pytest.mark.parametrize(
    ("arities", "is_public", "rows", "aux", "digest"),
    [
        ((8, 8), True, 1063, 1076,
         "3bd8cb4719e1ce8b020c078159a77bd5cf9d8eca04ed094eaca290c621f10a20"),
        ((8, 8, 2), True, 1377, 1391,
         "a04df283d7f0ecff20e7c42f6bb497b2714c70c4124f5489e881c23e67814070"),
        ((8, 8, 8), True, 1593, 1613,
         "eca5c6440650cc590e477789dbbcc685627355c9c5dc6008dcb9fc6bfb8d34b8"),
        ((8, 8, 8, 2), True, 1907, 1928,
         "1aaf5b3ff8221455ad5ba57746f23db956a2de780213b68d65d8ea0165607e84"),
        ((8, 8), False, 1062, 1076,
         "a87d5c076c5882911c7073da19dba3a6bc1cfb7bd107afae8a18337734146519"),
        ((2,) * 6, True, 1887, None, None),
        ((4,) * 3, True, 1164, None, None),
        ((8, 8, 4, 2), True, 1764, None, None),
        ((8, 8, 2, 4), True, 1764, None, None),
        ((2,) * 6, False, 1886, None, None),
        ((4,) * 3, False, 1163, None, None),
    ],
)  # fmt: skip
def test_inclusion_in_tree_r(
    arities: tuple[int, ...], is_public: bool, rows: int, aux: int | None, digest: str | None
) -> None:
    """Rows are asserted upstream; an independent program computed the digests."""
    circuit = inclusion(arities, tree_r_node, is_public=is_public)
    assert (circuit.constraints, circuit.public) == (rows, 1 + is_public)
    if digest is not None:
        assert (circuit.wires - 1 - circuit.public, circuit.circuit_hash()) == (aux, digest)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arities", "rows", "digest"),
    [
        ((2,) * 6, 272_295, "06101b213e985a06aa97367fb756d504912d2edfa7169fe7390f3563e2b7bdbf"),
        ((4,) * 3, 216_258, None),
        ((8,) * 2, 250_987, None),
    ],
)
def test_inclusion_in_tree_d(arities: tuple[int, ...], rows: int, digest: str | None) -> None:
    """Trees of SHA-256; TreeD is binary, upstream tests others, too."""
    circuit = inclusion(arities, tree_d_node)
    assert (circuit.constraints, circuit.public) == (rows, 2)
    if digest is not None:
        assert (circuit.wires - 3, circuit.circuit_hash()) == (272_012, digest)


def node_of_tree_d(system: r1cs.ConstraintSystem) -> None:
    system.output("node", tree_d_node(system, system.private("children", 2)))


@pytest.mark.thorough
def test_a_node_of_tree_d() -> None:
    """Its verdict stays unknown, as bellman's bits of a child are not unique."""
    circuit = r1cs.trace(node_of_tree_d, CURVE)
    assert circuit.constraints == 45_379 + 1
    children = [5, (1 << 254) - 3]
    assert circuit.values({"children": children})[1] == element_of(sha256(as_bytes(*children)))


def test_arities_of_a_tree() -> None:
    assert leaf_count((8, 8, 2)) == 128
    for arities in ((), (8, 3), (16,)):
        with pytest.raises(InputError, match="must be 2, 4 or 8 at each level"):
            leaf_count(arities)


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        (lambda: StackedCircuit((3,), 2, 1), "must be 2, 4 or 8 at each level"),
        (lambda: StackedCircuit((8,), 3, 1), "the number of layers must be an arity of Poseidon"),
        (lambda: StackedCircuit((8,), 2, 0), "the number of challenges"),
        (lambda: FallbackPoStCircuit((8,), 0, 1), "the number of sectors"),
        (lambda: FallbackPoStCircuit((8,), 1, -1), "the number of challenges"),
        (lambda: update(3, 2, 1), "the number of partitions must be a power of two, not 3"),
        (lambda: update(1, 0, 1), "the number of apex leaves"),
        (lambda: update(2, 4, 1), "must be fewer than the 8 nodes"),
        (lambda: update(2, 2, 4), "a value of h"),
    ],
)
def test_numbers_that_no_circuit_has(circuit: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        circuit()


def update(partitions: int, apex_leaves: int, h: int) -> EmptySectorUpdateCircuit:
    return EmptySectorUpdateCircuit((8,), UpdateShape(partitions, 1, apex_leaves, (h,)))


def test_another_field() -> None:
    with pytest.raises(MismatchError, match="this gadget is over bls12_381"):
        r1cs.trace(FallbackPoStCircuit((8,), 1, 1), "bn254")
