"""Neptune's Poseidon as a gadget: values, counts of neptune's tests, and digests."""

from __future__ import annotations

import pytest

from quod import hash as hashes
from quod import r1cs
from quod.errors import InputError, MismatchError
from quod.hash.neptune import ARBITRARY_TAG
from quod.r1cs import gadgets
from quod.testing import assert_deterministic
from tests.r1cs.gadgets.gadget import outputs, sound
from tests.support.thorough import one_and_others

CURVE = "bls12_381"
P = r1cs.ConstraintSystem(CURVE).prime


def hashed(arity: int, tag: int | None = None, *, is_public: bool = False) -> r1cs.Circuit:
    def function(system: r1cs.ConstraintSystem) -> None:
        result = gadgets.neptune_hash(system, system.private("x", arity), tag=tag)
        if is_public:
            system.output("hash", result)

    return r1cs.trace(function, CURVE)


@pytest.mark.parametrize(
    ("arity", "tag", "counts", "digest"),
    [
        (2, None, (311, 2119, 313, 386),
         "658f013f99360e164ad8e7f96290944601cc064f93c153d9ea7ac1275927175f"),
        (4, None, (377, 2573, 381, 467),
         "2360602a7c4555d454b46891236273f4ae308090bc916fdcef1fb81d00ebbe70"),
        (8, None, (505, 3598, 513, 624),
         "ab50aeda63344f7125999ef5c4af7777380b9015ec82ad48bac2213e9353b163"),
        (11, None, (598, 4462, 609, 738),
         "e94a28106cbb9a718e525f0f2593ce3b138350047854ebcc3c83472ed482a6f6"),
        (2, ARBITRARY_TAG, (311, 2119, 313, 386),
         "9675551c881122d99caf9a20a4bf87878e1863c432265a33e98e1c1a74e246a8"),
    ],
)  # fmt: skip
def test_constraints(
    arity: int, tag: int | None, counts: tuple[int, int, int, int], digest: str
) -> None:
    """Rows and nonzero coefficients; an independent program computed the digests."""
    circuit = hashed(arity, tag)
    assert (circuit.constraints, *(matrix.nonzeros for matrix in circuit.matrices)) == counts
    assert circuit.wires == 1 + arity + circuit.constraints
    assert circuit.circuit_hash() == digest


@pytest.mark.thorough
@pytest.mark.parametrize(("arity", "count"), [(16, 761), (24, 1009), (36, 1385)])
def test_constraints_of_other_arities(arity: int, count: int) -> None:
    assert hashed(arity).constraints == count


@pytest.mark.parametrize(
    ("arity", "tag"),
    one_and_others([(8, None), (2, None), (4, None), (11, None), (2, ARBITRARY_TAG)]),
)
def test_values(arity: int, tag: int | None) -> None:
    circuit = hashed(arity, tag, is_public=True)
    for inputs in ([*range(arity)], [0] * arity, [P - 1] * arity):
        assert outputs(circuit, x=inputs) == [hashes.neptune_hash(inputs, tag=tag)]


def test_changed_values() -> None:
    sound(hashed(2, is_public=True), 3, x=[1, 2])


def test_hash_is_unique() -> None:
    assert_deterministic(hashed(2, is_public=True))


def test_constants_are_inputs() -> None:
    """A constant input has the constraints of any other, as in neptune."""
    circuit = r1cs.trace(
        lambda system: system.output("h", gadgets.neptune_hash(system, [3, system.private("x")])),
        CURVE,
    )
    assert outputs(circuit, x=4) == [hashes.neptune_hash([3, 4])]


def test_mistakes() -> None:
    with pytest.raises(InputError, match="the arity of Poseidon must be 2, 4"):
        hashed(3)
    with pytest.raises(InputError, match="the tag"):
        hashed(2, P)
    with pytest.raises(MismatchError, match="the circuit is over"):
        r1cs.trace(lambda system: gadgets.neptune_hash(system, system.private("x", 2)))
