"""Circuits of Expander as layered ones: their segments taken apart, and back."""

from __future__ import annotations

from collections import Counter
from random import Random as Chance

import pytest

from quod.errors import InputError
from quod.field import NAMED
from quod.formats import Circuit6, write_circuit6
from quod.layered import CircuitBuilder, LayeredCircuit, Public, Random, from_circuit6, to_circuit6
from tests.formats import expander
from tests.formats.expander import BN254, GOLDILOCKS, M31, RANDOM, Segment, circuit_bytes


def read(data: bytes) -> Circuit6:
    return Circuit6.parse(memoryview(data), "file.circ")


def nested(chance: Chance, prime: int) -> list[Segment]:
    """Three depths of segments, the last one a layer on 16 values that gives 8."""

    def coefficient() -> object:
        return chance.choice([1, prime - 1, chance.randrange(prime), ("public", 0)])

    def number() -> int:
        return chance.randrange(1, prime)

    def gates(inputs: int, outputs: int) -> dict[str, list[object]]:
        x, z = (lambda: chance.randrange(inputs)), (lambda: chance.randrange(outputs))
        return {
            "mul": [(x(), x(), z(), number()) for _ in range(3)],
            "add": [(x(), z(), number()) for _ in range(3)],
            "const": [(z(), coefficient()) for _ in range(2)],
            "uni": [(chance.choice((12345, 12346)), x(), z(), number()) for _ in range(2)],
        }

    def copies(room: int, out: int) -> list[tuple[int, int]]:
        return [(chance.randrange(room), chance.randrange(out)) for _ in range(3)]

    # Children stand before and behind their parents.
    return [
        Segment(16, 8, [(1, copies(9, 5)), (2, copies(13, 7))], **gates(16, 8)),
        Segment(8, 4, [(2, copies(5, 3)), (3, [])], **gates(8, 4)),
        Segment(4, 2, **gates(4, 2)),
        Segment(1 << 20, 1 << 20, **gates(2, 2)),
        Segment(8, 1, **gates(8, 1)),
    ]


@pytest.mark.parametrize("prime", [M31, GOLDILOCKS, expander.BABY_BEAR, BN254])
def test_layered_values_match_the_segments(prime: int) -> None:
    for seed in range(4):
        check_values(prime, seed)


def check_values(prime: int, seed: int) -> None:
    chance = Chance(seed)
    segments = nested(chance, prime)
    circuit = from_circuit6(read(circuit_bytes(prime, segments, [0, 4], public=1)))
    inputs, public = [chance.randrange(prime) for _ in range(16)], [chance.randrange(prime)]
    middle = expander.values(prime, segments, 0, inputs, public)
    last = expander.values(prime, segments, 4, middle, public)
    levels = circuit.evaluate(inputs, public)
    # The inputs, the layer that copies them, and the layers of the file; one value is made two.
    assert levels == [inputs, inputs, middle, [*last, 0]]
    assert (circuit.log_inputs, circuit.log_outputs, circuit.zeros, circuit.public) == (4, 1, 1, 1)
    without = from_circuit6(read(circuit_bytes(prime, segments, [0, 4], public=1)), relay=False)
    assert without.evaluate(inputs, public) == levels[1:]


def test_the_small_circuit_of_expander() -> None:
    circuit = from_circuit6(read(expander.SMALL_CIRCUIT))
    # Four inputs, then a layer that copies them; one value a layer is made two.
    assert [layer.log_size for layer in circuit.layers] == [2, 1, 1, 1, 1, 1, 1]
    assert len(circuit.layers[0].gates["add"]) == 4
    assert circuit.randoms == 1
    assert circuit.coefficients[circuit.layers[2].gates["add"].coefficient[0]] == Random(0)
    product = circuit.layers[1].gates["multiply"]
    assert [column.tolist() for column in product.inputs] == [[2], [1]]
    assert circuit.coefficients[product.coefficient[0]] == M31 - 1


def test_each_copy_of_a_random_gate_has_a_challenge() -> None:
    inner = Segment(2, 2, add=[(0, 0, RANDOM), (1, 1, RANDOM), (1, 0, 3)], const=[(1, RANDOM)])
    outer = Segment(8, 8, [(0, [(0, 0), (2, 2), (6, 4)])], uni=[(12346, 0, 7, RANDOM)])
    circuit = from_circuit6(read(circuit_bytes(M31, [inner, outer], [1])))
    assert circuit.randoms == 10
    coefficients = Counter(
        circuit.coefficients[place]
        for gates in circuit.layers[0].gates.values()
        for place in gates.coefficient.tolist()
    )
    assert coefficients == Counter([*map(Random, range(10)), 3, 3, 3])


def test_unprovable_files_are_rejected() -> None:
    segment = Segment(2, 2, add=[(0, 0, 1)])
    with pytest.raises(InputError, match=r"file.circ, section header.*gf2.*two elements"):
        from_circuit6(read(circuit_bytes(2, [segment], [0])))
    with pytest.raises(InputError, match=r"file.circ, section header: .* requires no output"):
        from_circuit6(read(circuit_bytes(M31, [segment], [0], zeros=0)))
    doubling = [Segment(2, 2, [(at + 1, [(0, 0)] * 2)]) for at in range(60)]
    bomb = read(circuit_bytes(M31, [*doubling, segment], [0]))
    with pytest.raises(InputError, match=r"file.circ: .* more than 67108864 gates"):
        from_circuit6(bomb)
    hollow = read(circuit_bytes(M31, [*doubling, Segment(2, 2)], [0]))
    with pytest.raises(InputError, match="more than 67108864 copies of segments"):
        from_circuit6(hollow)
    four = read(circuit_bytes(M31, [*doubling[:2], segment], [0]))
    with pytest.raises(InputError, match="more than 3 gates"):
        from_circuit6(four, max_gates=3)
    assert len(from_circuit6(four, max_gates=7).layers[0].gates["add"]) == 4
    layers = read(circuit_bytes(M31, [segment], [0] * 4097))
    with pytest.raises(InputError, match="more than 4096 layers"):
        from_circuit6(layers)
    wide = read(circuit_bytes(M31, [Segment(1 << 26, 1, mul=[(0, 0, 0, 1)])], [0]))
    with pytest.raises(InputError, match="more than 67108864 gates"):
        from_circuit6(wide)
    assert len(from_circuit6(wide, relay=False).layers) == 1
    randoms = Segment(2, 2, add=[(0, 0, RANDOM)] * 4)
    doubling = [Segment(2, 2, [(at + 1, [(0, 0)] * 2)]) for at in range(19)]
    many = read(circuit_bytes(M31, [*doubling, randoms], [0]))
    with pytest.raises(InputError, match="more than 1048576 random coefficients"):
        from_circuit6(many)


def layered(prime: str = "m31") -> LayeredCircuit:
    builder = CircuitBuilder(NAMED[prime], 2, public=2)
    first = builder.layer(2)
    first.multiply(0, 1, 2, -3)
    first.add(3, 0, Random(4))
    first.constant(1, Public(1))
    last = builder.layer(1)
    last.power(0, 3, 5, 7)
    last.constant(1, Random(0))
    return builder.finished(zeros=1)


@pytest.mark.parametrize("prime", ["m31", "goldilocks", "bn254.fr"])
def test_layered_circuits_as_files(prime: str, tmp_path: object) -> None:
    circuit = layered(prime)
    path = f"{tmp_path}/circuit"
    write_circuit6(path, to_circuit6(circuit))
    again = from_circuit6(Circuit6.open(path), relay=False)
    assert (again.log_inputs, again.public, again.zeros) == (2, 2, 1)

    def gates(of: LayeredCircuit) -> list[list[tuple[object, ...]]]:
        return [
            [
                (kind, output, x, "random" if isinstance(c, Random) else c)
                for kind, kind_gates in layer.gates.items()
                for at, output in enumerate(kind_gates.output.tolist())
                for x in [tuple(int(column[at]) for column in kind_gates.inputs)]
                for c in [of.coefficients[kind_gates.coefficient[at]]]
            ]
            for layer in of.layers
        ]

    assert gates(again) == gates(circuit)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda layer: layer.power(0, 0, 3), "layer 0 has power3 gates"),
        (lambda layer: layer.add(0, 0, Public(0)), "a public input multiplies"),
        (lambda layer: [layer.add(0, x, Random(0)) for x in (0, 1)], "several gates share a"),
        (
            lambda layer: (layer.add(0, 0, Random(0)), layer.constant(0, Random(0))),
            "several gates share a",
        ),
    ],
)
def test_gates_unsupported_by_expander_are_rejected(build: object, said: str) -> None:
    builder = CircuitBuilder(NAMED["m31"], 1, public=1)
    build(builder.layer(1))  # type: ignore[operator]
    with pytest.raises(InputError, match=said):
        to_circuit6(builder.finished())


def test_fields_unsupported_by_expander_are_rejected() -> None:
    with pytest.raises(InputError, match=r"Expander's files are over m31, .* not over koala_bear"):
        to_circuit6(layered("koala_bear"))
