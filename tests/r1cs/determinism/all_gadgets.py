"""Quod's gadgets with inputs of usual sizes, whose results are outputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

from quod import r1cs
from quod.curve import EDWARDS
from quod.curve.edwards.affine import edwards_group
from quod.r1cs import gadgets
from quod.r1cs.circuit import Circuit
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.sources import rows_of_circuit
from quod.r1cs.gadgets.bellman.sha import sha256 as bellman_sha256
from quod.r1cs.inputs import Inputs
from quod.r1cs.reference.eddsa import eddsa_public_key, eddsa_sign
from quod.r1cs.system import Operand

System = r1cs.ConstraintSystem
BABY_JUBJUB = EDWARDS["baby_jubjub"]


class Gadget(NamedTuple):
    """A gadget with its inputs.

    results: builds it and returns its results; assertions have none.
    is_small: whether `make test` decides it, with the time that it has.
    curve: the curve over whose scalar field it is.
    inputs: inputs that satisfy the constraints, if random ones do not.
    """

    results: Callable[[System], Iterable[Operand] | None]
    is_small: bool = True
    curve: str = "bn254"
    inputs: Callable[[random.Random], Inputs] | None = None


def gadget_rows(name: str) -> Rows:
    """The constraints of a gadget, whose results are the targets.

    Constraints that define the outputs follow those of the gadget: one for each target.
    """
    return rows_of_circuit(gadget_circuit(name).system)


def gadget_circuit(name: str) -> Circuit:
    """A gadget with its results as outputs."""

    def circuit(system: System) -> None:
        results = GADGETS[name].results(system)
        for index, signal in enumerate(() if results is None else results):
            system.output(f"out[{index}]", signal)

    return r1cs.trace(circuit, GADGETS[name].curve)


def gadget_witnesses(name: str, count: int, seed: int = 1) -> list[list[int]]:
    """Witnesses of a gadget from its program, for random inputs; some or none where these fail."""
    circuit, generator = gadget_circuit(name), random.Random(seed)
    witnesses: list[list[int]] = []
    inputs = GADGETS[name].inputs
    for trial in range(_TRIALS):
        limit = (circuit.field.value, 1 << 16, 1 << generator.randrange(1, 254))[trial % 3]
        values = circuit.values(
            _random_inputs(circuit, generator, limit) if inputs is None else inputs(generator)
        )
        if not circuit.check(values):
            witnesses.append(values)
        if len(witnesses) == count:
            break
    return witnesses


_TRIALS = 40


def _random_inputs(circuit: Circuit, generator: random.Random, limit: int) -> Inputs:
    """Random bits, and numbers below a limit."""
    inputs: dict[str, int | list[int]] = {}
    for name, declared in circuit.inputs.items():
        count = len(declared.wires)
        if declared.bits:
            inputs[name] = generator.getrandbits(count)
            continue
        numbers = [generator.randrange(limit) for _ in declared.wires]
        inputs[name] = numbers[0] if declared.single else numbers
    return inputs


def _numbers(system: System, size: int) -> tuple[r1cs.Signal, r1cs.Signal]:
    first, second = system.private("a"), system.private("b")
    for number in (first, second):
        system.bits(number, size)
    return first, second


def _points(system: System) -> gadgets.EdwardsPoints:
    return gadgets.EdwardsPoints(system, BABY_JUBJUB)


def _added(system: System) -> gadgets.CurvePoint:
    points = _points(system)
    return points.add(points.private("p"), points.private("q"))


def _selected(system: System) -> gadgets.CurvePoint:
    points = _points(system)
    bit = system.private_bits("bit", 1)[0]
    return points.select(bit, points.private("p"), points.private("q"))


def _montgomery(system: System) -> tuple[gadgets.MontgomeryPoints, gadgets.MontgomeryPoint]:
    points = gadgets.MontgomeryPoints(system, BABY_JUBJUB)
    return points, points.from_edwards(points.edwards.private("p"))


def _montgomery_sum(system: System) -> gadgets.MontgomeryPoint:
    points, p = _montgomery(system)
    return points.add(p, points.from_edwards(points.edwards.private("q")))


def _montgomery_double(system: System) -> gadgets.MontgomeryPoint:
    points, p = _montgomery(system)
    return points.double(p)


def _montgomery_to_edwards(system: System) -> gadgets.CurvePoint:
    points, p = _montgomery(system)
    return points.to_edwards(p)


def _montgomery_multiple(system: System) -> gadgets.CurvePoint:
    points = gadgets.MontgomeryPoints(system, BABY_JUBJUB)
    point = points.edwards.assert_not_small_order(points.edwards.private("p"))
    return points.multiply(system.private_bits("k", 8), point)


def _assert_eddsa(system: System) -> None:
    gadgets.assert_eddsa(
        system, system.public("key", 2), system.public("message"), system.private("r8", 2),
        system.private("s"),
    )  # fmt: skip


def _signature(generator: random.Random) -> Inputs:
    key, message = generator.randbytes(32), generator.getrandbits(200)
    signature = eddsa_sign(key, message)
    return {
        "key": eddsa_public_key(key), "message": message, "r8": signature.r8, "s": signature.s
    }  # fmt: skip


def _multiple(generator: random.Random) -> Inputs:
    scalar = generator.randrange(1, BABY_JUBJUB.fr.value)
    point = edwards_group(BABY_JUBJUB).multiply(scalar, BABY_JUBJUB.generator)
    return {"k": generator.getrandbits(8), "p": point}


def _root_of_path(system: System) -> list[r1cs.Signal]:
    root, _ = gadgets.root_of_private_path(
        system, system.private("leaf"), [2, 4], lambda s, nodes: s.multiply(s.sum(nodes), nodes[0])
    )
    return [root]


def _neptune_path(system: System) -> list[r1cs.Signal]:
    root, _ = gadgets.root_of_private_path(
        system, system.private("leaf"), [4], gadgets.neptune_hash
    )  # fmt: skip
    return [root]


GADGETS: dict[str, Gadget] = {
    "bits": Gadget(lambda s: s.bits(s.private("x"), 32)),
    "bits of the field": Gadget(lambda s: s.bits(s.private("x")), is_small=False),
    "is_zero": Gadget(lambda s: [s.is_zero(s.private("x"))]),
    "is_equal": Gadget(lambda s: [s.is_equal(s.private("x"), s.private("y"))]),
    "assert_nonzero": Gadget(lambda s: s.assert_nonzero(s.private("x"))),
    "select": Gadget(lambda s: [s.select(s.private_bits("b", 1)[0], *s.private("v", 2))]),
    "is_less": Gadget(lambda s: [gadgets.is_less(s, *_numbers(s, 16), 16)]),
    "is_at_most": Gadget(lambda s: [gadgets.is_at_most(s, *_numbers(s, 16), 16)]),
    "assert_less": Gadget(lambda s: gadgets.assert_less(s, *_numbers(s, 16), 16)),
    "assert_at_most": Gadget(lambda s: gadgets.assert_at_most(s, *_numbers(s, 16), 16)),
    "assert_bits_at_most": Gadget(
        lambda s: gadgets.assert_bits_at_most(s, s.bits(s.private("x"), 16), 40_000)
    ),
    "assert_bits": Gadget(lambda s: gadgets.assert_bits(s, s.private("b", 4))),
    "unpack_elements": Gadget(lambda s: gadgets.unpack_elements(s, s.private("x", 2), 16)),
    "exclusive_or": Gadget(lambda s: [gadgets.exclusive_or(s, *s.private_bits("b", 2))]),
    "exclusive_or_of_three": Gadget(
        lambda s: [gadgets.exclusive_or_of_three(s, *s.private_bits("b", 3))]
    ),
    "inclusive_or": Gadget(lambda s: [gadgets.inclusive_or(s, *s.private_bits("b", 2))]),
    "majority": Gadget(lambda s: [gadgets.majority(s, *s.private_bits("b", 3))]),
    "one_hot": Gadget(lambda s: gadgets.one_hot(s, s.private("i"), 8)),
    "choose": Gadget(lambda s: [gadgets.choose(s, s.private_bits("i", 3), s.private("v", 8))]),
    "choose_at": Gadget(lambda s: [gadgets.choose_at(s, s.private("i"), s.private("v", 8))]),
    "look_up": Gadget(lambda s: gadgets.look_up(s, s.private_bits("i", 4), [list(range(16))])),
    "pick": Gadget(lambda s: [gadgets.pick(s, s.private_bits("b", 1)[0], *s.private("v", 2))]),
    "insert in a list of 2": Gadget(
        lambda s: gadgets.insert(s, s.private("x"), [s.private("v")], s.private_bits("i", 1))
    ),
    "insert in a list of 4": Gadget(
        lambda s: gadgets.insert(s, s.private("x"), s.private("v", 3), s.private_bits("i", 2))
    ),
    "insert in a list of 8": Gadget(
        lambda s: gadgets.insert(s, s.private("x"), s.private("v", 7), s.private_bits("i", 3))
    ),
    "select from a list": Gadget(
        lambda s: [gadgets.select(s, s.private("v", 8), s.private_bits("i", 3))]
    ),
    "root_of_private_path": Gadget(_root_of_path),
    "root_of_private_path with neptune_hash": Gadget(_neptune_path, False, "bls12_381"),
    "neptune_hash": Gadget(
        lambda s: [gadgets.neptune_hash(s, s.private("x", 2))], False, "bls12_381"
    ),
    "mimc_feistel": Gadget(
        lambda s: gadgets.mimc_feistel(s, s.private("left"), s.private("right"), s.private("key"))
    ),
    "poseidon_hash": Gadget(lambda s: [gadgets.poseidon_hash(s, s.private("x", 2))]),
    "mimc7": Gadget(lambda s: [gadgets.mimc7(s, s.private("x"), s.private("k"))]),
    "mimc7_hash": Gadget(lambda s: [gadgets.mimc7_hash(s, s.private("x", 2))]),
    "mimc_sponge": Gadget(lambda s: gadgets.mimc_sponge(s, s.private("x", 2))),
    "EdwardsPoints.assert_on_curve": Gadget(
        lambda s: _points(s).assert_on_curve(s.private("p", 2))
    ),
    "EdwardsPoints.assert_not_small_order": Gadget(
        lambda s: _points(s).assert_not_small_order(_points(s).private("p"))
    ),
    "EdwardsPoints.add": Gadget(_added),
    "EdwardsPoints.double": Gadget(lambda s: _points(s).double(_points(s).private("p"))),
    "EdwardsPoints.select": Gadget(_selected),
    "EdwardsPoints.multiply": Gadget(
        lambda s: _points(s).multiply(s.private_bits("k", 8), _points(s).private("p"))
    ),
    "EdwardsPoints.multiply_fixed": Gadget(
        lambda s: _points(s).multiply_fixed(s.private_bits("k", 9), BABY_JUBJUB.generator)
    ),
    "MontgomeryPoints.from_edwards": Gadget(lambda s: _montgomery(s)[1]),
    "MontgomeryPoints.to_edwards": Gadget(_montgomery_to_edwards),
    "MontgomeryPoints.add": Gadget(_montgomery_sum),
    # Unknown: v is nonzero, as no point of order two is on the curve.
    "MontgomeryPoints.double": Gadget(_montgomery_double, is_small=False),
    "MontgomeryPoints.multiply": Gadget(_montgomery_multiple, is_small=False, inputs=_multiple),
    "pedersen_point": Gadget(
        lambda s: gadgets.pedersen_point(s, s.private_bits("b", 16)), is_small=False
    ),
    "merkle_root": Gadget(
        lambda s: [
            gadgets.merkle_root(s, s.private("leaf"), s.private("path", 3), s.private("index", 3))
        ]
    ),
    "assert_eddsa": Gadget(_assert_eddsa, is_small=False, inputs=_signature),
    "blake2s_hash": Gadget(
        lambda s: gadgets.blake2s_hash(s, s.private_bits("x", 8), b"12345678"), is_small=False
    ),
    "sha256": Gadget(lambda s: gadgets.sha256(s, s.private_bits("x", 8)), is_small=False),
    "bellman's sha256": Gadget(
        lambda s: bellman_sha256(s, s.private_bits("x", 8)), False, "bls12_381"
    ),
}
