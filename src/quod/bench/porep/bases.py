"""The bases of a `PartitionCircuit`'s key, computed in device memory from a secret.

The result equals the key that `quod.groth16.setup` makes, but each lane computes the scalars of one
wire's points from a formula, and they never leave the device.
"""

from __future__ import annotations

import numpy as np

from quod.bench.porep.circuit import B_STRIDE, WIRES_BEFORE_BLOCKS, PartitionCircuit
from quod.bench.porep.kernels import partition_columns
from quod.curve.array import Point, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.field.array import from_integers, integers_to_words
from quod.field.roots import quotient_coset_shift, root_of_unity
from quod.frozen import frozen
from quod.groth16.lagrange import lagrange_into
from quod.groth16.setup import Secret
from quod.msm.fixed_base import FixedBase

# The number of wires whose scalars are computed at a time.
_CHUNK = 1 << 22


def counts(circuit: PartitionCircuit) -> dict[str, tuple[int, int]]:
    """Return the group degree and the number of bases of each MSM."""
    return {
        "A": (1, circuit.used_in_a),
        "B1": (1, circuit.used_in_b),
        "C": (1, circuit.wires - WIRES_BEFORE_BLOCKS),
        "H": (1, 1 << circuit.log2_domain),
        "B2": (2, circuit.used_in_b),
    }


def base_bytes(circuit: PartitionCircuit) -> dict[str, int]:
    """Return the bytes of device memory of each MSM's bases."""
    return {
        name: count * 8 * group_of(circuit, degree).point_words
        for name, (degree, count) in counts(circuit).items()
    }


def group_of(circuit: PartitionCircuit, degree: int) -> Group:
    """Return G1 (degree 1) or G2 (degree 2)."""
    return GROUPS[f"{circuit.curve}.g{degree}"]


@frozen(eq=False)
class PartitionPoints:
    """The points of a key.

    bases: by MSM, in device memory.
    single: single points by name.
    ic: the points of the public inputs.
    """

    bases: dict[str, Buffer]
    single: dict[str, Point]
    ic: list[Point]


class _Maker:
    """The computation of the bases' scalars and points."""

    def __init__(self, device: AnyDevice, circuit: PartitionCircuit, secret: Secret) -> None:
        self._device, self._circuit, self._secret = device, circuit, secret
        self._size = circuit.fr.bytes
        self.values = device.allocate(self._size << circuit.log2_domain, zero=False)
        chunk = min(_CHUNK, circuit.wires)
        self._scalars = device.allocate(chunk * self._size, zero=False)
        self._chunk_wires = chunk

    def lagrange(self, shift: int, scale: int) -> None:
        """Set `values` to `scale` times the Lagrange polynomials of a coset, evaluated at tau."""
        fr, log2_domain = self._circuit.fr, self._circuit.log2_domain
        n = 1 << log2_domain
        factor = self._secret.lagrange_scale(fr, n, shift) * scale
        lagrange_into(
            self._device, fr, self.values, count=n, root=root_of_unity(fr, "snarkjs", log2_domain),
            shift=shift, point=self._secret.tau, scale=factor % fr.value,
        )  # fmt: skip

    def quotient(self) -> None:
        """Set `values` to the scalars of H."""
        fr, log2 = self._circuit.fr, self._circuit.log2_domain
        shift = quotient_coset_shift(fr, "snarkjs", log2)
        self.lagrange(shift, self._secret.quotient_scale(fr, 1 << log2, shift))

    def points(
        self, table: FixedBase, out: Buffer, weights: tuple[int, int, int], first: int, stride: int
    ) -> None:
        """Compute the points of wires first, first + stride, ... into `out`.

        weights: the factors of their a, b and c.
        """
        device, circuit = self._device, self._circuit
        point_bytes = 8 * table.group.point_words
        count = out.nbytes // point_bytes
        kernel = device.compile(partition_columns, circuit=circuit)
        words = device.upload(from_integers(circuit.fr, weights))
        for start in range(0, count, self._chunk_wires):
            stop = min(start + self._chunk_wires, count)
            scalars = self._scalars.slice(0, (stop - start) * self._size)
            device.launch(
                kernel, -(-(stop - start) // device.lanes), stop - start, first + start * stride,
                stride, words, self.values, scalars,
            )  # fmt: skip
            table.multiply_into(scalars, out.slice(start * point_bytes, stop * point_bytes))


def make_points(
    device: AnyDevice, circuit: PartitionCircuit, seed: int, timeline: Timeline
) -> PartitionPoints:
    """Make the INSECURE key of a seed; raises DeviceError if there is too little memory."""
    fr = circuit.fr
    secret = Secret.from_seed(seed, fr, 1 << circuit.log2_domain)
    maker = _Maker(device, circuit, secret)
    bases = {
        name: device.allocate(nbytes, zero=False) for name, nbytes in base_bytes(circuit).items()
    }
    c_weights = secret.combination(fr, secret.delta)
    single: dict[str, Point] = {}
    values_by_degree = {
        1: {"alpha_g1": secret.alpha, "beta_g1": secret.beta, "delta_g1": secret.delta},
        2: {"beta_g2": secret.beta, "gamma_g2": secret.gamma, "delta_g2": secret.delta},
    }
    tables = {}
    with timeline.stage("tables of the generators"):
        for degree, values_by_name in values_by_degree.items():
            group = group_of(circuit, degree)
            table = FixedBase(device, group, group.parameters.generator, circuit.wires)
            multiples = table.multiply(integers_to_words(fr, values_by_name.values()))
            single |= zip(values_by_name, to_points(group, multiples))
            tables[degree] = table
    with timeline.stage("Lagrange polynomials"):
        maker.lagrange(1, 1)
    for name, weights, first, stride in (
        ("A", (1, 0, 0), 0, 1),
        ("B1", (0, 1, 0), WIRES_BEFORE_BLOCKS, B_STRIDE),
        ("C", c_weights, WIRES_BEFORE_BLOCKS, 1),
        ("B2", (0, 1, 0), WIRES_BEFORE_BLOCKS, B_STRIDE),
    ):
        with timeline.stage(f"bases {name}"):
            degree = counts(circuit)[name][0]
            maker.points(tables[degree], bases[name], weights, first, stride)
    group = group_of(circuit, 1)
    public = device.allocate(WIRES_BEFORE_BLOCKS * 8 * group.point_words)
    maker.points(tables[1], public, secret.combination(fr, secret.gamma), 0, 1)
    words = np.zeros((WIRES_BEFORE_BLOCKS, *group.shape), np.uint32)
    device.download(public, words)
    with timeline.stage("bases H"):
        maker.quotient()
        tables[1].multiply_into(maker.values, bases["H"])
    return PartitionPoints(bases, single, to_points(group, words))
