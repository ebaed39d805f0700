"""Benchmarks of GKR proofs, from inputs on the host to the last byte, and verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from quod.bench.arithmetic.short_field import seconds_of_products
from quod.bench.measure.harness import Case, Parameter
from quod.bench.merkle_paths import path_circuit, random_paths
from quod.commitment.scheme_names import scheme_named
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError
from quod.field.array import Words, from_integers, random_elements
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.gkr.checker.device_verifier import Verifier
from quod.gkr.key import VerifyingKey
from quod.gkr.prover.prover import Prover
from quod.gkr.reduction import Reduction
from quod.layered.circuit import KINDS, Gates, Layer, LayeredCircuit
from quod.layered.gadgets.keccak import STATE, keccak_f
from quod.layered.program import Program

Draw = Callable[[int], tuple[Words, Any]]
"""A function from a number of instances to random inputs and their public inputs."""

PRODUCTS_OF_KECCAK = 11_000_000
"""M31 products that a proof of one Keccak-f takes: the lowest published figure of provers that work
gate by gate."""


def cases(
    device: str, field: FieldSpec, circuit: str, instances: Sequence[int], *, batch: int,
    commitment: str, reduction: Reduction, proofs: int | None = None, threads: int | None = None,
) -> Iterator[Case]:  # fmt: skip
    """Yield a case of proving and a case of verifying for each number of instances.

    proofs: the number of proofs, computed `batch` at a time; default: `batch`.
    threads: the number of CPU threads.
    For Keccak-f the peer "products" computes `PRODUCTS_OF_KECCAK` products per instance in
    registers, on the same threads.
    """
    opened = open_device(device, threads=threads)
    layered, draw = CIRCUITS[circuit](field.modulus)
    key = VerifyingKey.of(
        layered, field, commitment=scheme_named(commitment), allow_bits=0, reduction=reduction
    )
    for count in instances:
        prover = Prover(opened, key, layered, instances=count, batch=batch, allow_bits=0)
        proof_count = batch if proofs is None else proofs
        instance_inputs, instance_public = draw(count)
        inputs, public = [instance_inputs] * proof_count, [instance_public] * proof_count

        def prove(
            timeline: Timeline | None = None, *, prover: Prover = prover,
            inputs: list[Any] = inputs, public: list[Any] = public,
        ) -> list[bytes]:  # fmt: skip
            return prover.prove_many(inputs, public, check=False, timeline=timeline)

        made_proofs = prove()
        parameters: dict[str, Parameter] = {
            "circuit": circuit, "field": field.name, "instances": count, "batch": batch,
            "commitment": commitment, "reduction": reduction.value, "bytes": len(made_proofs[0]),
            "what": "prove", **({} if proofs is None else {"proofs": proofs}),
            **({} if threads is None else {"threads": threads}),
        }  # fmt: skip
        peers, absent = _products(opened, circuit, layered.field, count * proof_count)
        yield Case(
            parameters, prove, "ms/instance", operations=count * proof_count, peers=peers,
            absent=absent, peer_note="in registers", traced=prove,
        )  # fmt: skip

        verifier = Verifier(opened, key, layered, instances=count, batch=batch, allow_bits=0)

        def verify(
            timeline: Timeline | None = None, *, verifier: Verifier = verifier,
            proofs: list[bytes] = made_proofs[:batch],
            public: list[Any] = public[:batch],
        ) -> None:  # fmt: skip
            verifier.verify_many(public, proofs, timeline=timeline)

        yield Case(
            {**parameters, "what": "verify"},
            verify,
            "ms/proof",
            operations=min(batch, proof_count),
            traced=verify,
        )


def _products(
    device: AnyDevice, circuit: str, modulus: Modulus, instances: int
) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    """Return the peer "products", or the reason for its absence."""
    if circuit != "keccak" or modulus.name != "m31":
        return {}, {"products": "they are compared only for Keccak-f over M31"}
    if not in_host_memory(device):
        return {}, {"products": "they are compared on the CPU only"}
    return {"products": seconds_of_products(modulus, device, instances * PRODUCTS_OF_KECCAK)}, {}


@cache
def keccak(modulus: Modulus) -> tuple[LayeredCircuit, Draw]:
    """Build a circuit of one Keccak-f[1600] per instance.

    A bit is encoded as 1 or -1, and each output is asserted to be one of the two.
    """
    program = Program(modulus)
    state = keccak_f(program, program.inputs("state", STATE))
    for index, value in enumerate(state):
        program.assert_equal(value * value, program.constant(1), f"sign[{index}]")
    circuit = program.finished().circuit
    signs = from_integers(modulus, [1, -1])

    def draw(instances: int) -> tuple[Words, Any]:
        generator = np.random.default_rng(instances)
        drawn = np.zeros((instances, 1 << circuit.log_inputs, modulus.words), np.uint32)
        drawn[:, :STATE] = signs[generator.integers(0, 2, (instances, STATE))]
        return drawn, ()

    return circuit, draw


_LAYERS, _LOG_SIZE = 16, 16


@cache
def wide(modulus: Modulus) -> tuple[LayeredCircuit, Draw]:
    """Build 16 layers of 2^16 values, with 2^16 random sums and 2^16 random products each.

    The circuit thus has 2^20 gates of each kind. A layer without gates follows, whose values must
    be 0.
    """
    gate_counts = dict.fromkeys(("add", "multiply"), 1 << _LOG_SIZE)
    return _with_draw(random_layers(modulus, _LAYERS, _LOG_SIZE, gate_counts))


@cache
def small(modulus: Modulus) -> tuple[LayeredCircuit, Draw]:
    """Build ten layers of 2^8 values with about 2^12 random gates in all, half of them products.

    A layer without gates follows, whose values must be 0.
    """
    gate_counts = dict.fromkeys(("add", "multiply"), 205)
    return _with_draw(random_layers(modulus, 10, 8, gate_counts))


def random_layers(
    modulus: Modulus, layers: int, log_size: int, gate_counts: Mapping[str, int]
) -> LayeredCircuit:
    """Build `layers` layers of 2**log_size values with random gates, and an empty layer.

    gate_counts: the number of gates per layer by kind. The empty layer is the last one,
        whose values must be 0.
    """
    generator = np.random.default_rng(1)

    def gates(kind: str, count: int) -> Gates:
        output, *inputs = (
            generator.integers(0, 1 << log_size, count).astype(np.uint32)
            for _ in range(1 + KINDS[kind])
        )
        return Gates(output, tuple(inputs), np.zeros(count, np.uint32))

    all_layers = []
    for index in range(layers + 1):
        layer_counts = {} if index == layers else gate_counts
        all_layers.append(
            Layer(log_size, {kind: gates(kind, layer_counts.get(kind, 0)) for kind in KINDS})
        )
    # All gates have the coefficient 1, the only one of the table.
    return LayeredCircuit(modulus, log_size, [1], all_layers)


def _with_draw(circuit: LayeredCircuit) -> tuple[LayeredCircuit, Draw]:
    """Return a circuit with a function that draws random inputs; there are no public ones."""
    modulus, log_size = circuit.field, circuit.log_inputs

    def draw(instances: int) -> tuple[Words, Any]:
        drawn = random_elements(modulus, instances << log_size, seed=instances)
        return drawn.reshape(instances, 1 << log_size, modulus.words), ()

    return circuit, draw


_DEPTH = 16


@cache
def merkle_paths(modulus: Modulus) -> tuple[LayeredCircuit, Draw]:
    """Build the path circuit of one leaf per instance in a tree of 2^16 leaves."""
    layout = path_circuit(_DEPTH)
    if modulus != layout.circuit.field:
        raise InputError(
            f"the hash of the tree is over {layout.circuit.field.name}, not {modulus.name}"
        )

    def draw(instances: int) -> tuple[Words, Any]:
        values = random_paths(instances, _DEPTH)
        return (
            layout.inputs(values, instances=instances),
            layout.public(values, instances=instances),
        )

    return layout.circuit, draw


CIRCUITS = {"keccak": keccak, "wide": wide, "small": small, "merkle-paths": merkle_paths}
"""The benchmark circuits by name."""
