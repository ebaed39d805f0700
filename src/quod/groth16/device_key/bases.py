"""The bases of a key, computed in device memory from a secret.

The result equals the key that `quod.groth16.setup` makes of the same secret, but the scalars and
the bases never leave the device.
"""

from __future__ import annotations

import numpy as np

from quod.curve.array import Point, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.field.array import from_integers, integers_to_words
from quod.field.roots import RootFamily, quotient_coset_shift, root_of_unity
from quod.frozen import frozen
from quod.groth16.device_key.circuit import ColumnSums, DeviceCircuit
from quod.groth16.lagrange import lagrange_into, monomials_into
from quod.groth16.setup import Secret
from quod.msm.fixed_base import FixedBase

# The number of bases whose scalars are computed at a time.
_CHUNK = 1 << 22


def counts(circuit: DeviceCircuit) -> dict[str, tuple[int, int]]:
    """Return the group degree and the number of bases of each MSM."""
    return {
        "A": (1, len(circuit.wires_of_a)),
        "B1": (1, len(circuit.wires_of_b)),
        "C": (1, circuit.wires - circuit.public - 1),
        # The last of bellman's points h is never used.
        "H": (1, (1 << circuit.log2_domain) - circuit.monomial),
        "B2": (2, len(circuit.wires_of_b)),
    }


def base_bytes(circuit: DeviceCircuit) -> dict[str, int]:
    """Return the bytes of device memory of each MSM's bases."""
    return {
        name: count * 8 * group_of(circuit, degree).point_words
        for name, (degree, count) in counts(circuit).items()
    }


def group_of(circuit: DeviceCircuit, degree: int) -> Group:
    """Return G1 (degree 1) or G2 (degree 2)."""
    return GROUPS[f"{circuit.curve}.g{degree}"]


@frozen(eq=False)
class KeyPoints:
    """The points of a key.

    bases: by MSM, in device memory.
    single: single points by name.
    ic: the points of the public inputs.
    """

    bases: dict[str, Buffer]
    single: dict[str, Point]
    ic: list[Point]


class _Maker:
    """The computation of the bases' scalars, and of the bases as their multiples of a generator.

    values: a buffer with one field element for each row of the domain.
    """

    def __init__(self, device: AnyDevice, circuit: DeviceCircuit, secret: Secret) -> None:
        self._device, self._circuit, self._secret = device, circuit, secret
        self._size = circuit.fr.bytes
        self.values = device.allocate(self._size << circuit.log2_domain, zero=False)
        self._chunk = min(_CHUNK, circuit.wires)
        self._scalars = device.allocate(self._chunk * self._size, zero=False)

    def _lagrange(self, shift: int, scale: int) -> None:
        """Set `values` to `scale` times the Lagrange polynomials of a coset, evaluated at tau."""
        fr, log2_domain = self._circuit.fr, self._circuit.log2_domain
        n = 1 << log2_domain
        factor = self._secret.lagrange_scale(fr, n, shift) * scale
        family: RootFamily = "arkworks" if self._circuit.monomial else "snarkjs"
        lagrange_into(
            self._device, fr, self.values, count=n, root=root_of_unity(fr, family, log2_domain),
            shift=shift, point=self._secret.tau, scale=factor % fr.value,
        )  # fmt: skip

    def columns(self) -> ColumnSums:
        """Return the column sums for the Lagrange polynomials of the domain, evaluated at tau."""
        self._lagrange(1, 1)
        return self._circuit.columns(self._device, self.values)

    def quotient(self) -> None:
        """Set `values` to the scalars of H."""
        fr, log2, secret = self._circuit.fr, self._circuit.log2_domain, self._secret
        if self._circuit.monomial:
            first = (pow(secret.tau, 1 << log2, fr.value) - 1) * pow(secret.delta, -1, fr.value)
            monomials_into(self._device, fr, self.values, log2, secret.tau, first % fr.value)
            return
        shift = quotient_coset_shift(fr, "snarkjs", log2)
        self._lagrange(shift, secret.quotient_scale(fr, 1 << log2, shift))

    def points(
        self, table: FixedBase, columns: ColumnSums, name: str, weights: tuple[int, int, int],
        out: Buffer,
    ) -> None:  # fmt: skip
        """Compute the bases of an MSM into `out`; see `ColumnSums.scalars`."""
        device = self._device
        point_bytes = 8 * table.group.point_words
        count = out.nbytes // point_bytes
        words = device.upload(from_integers(self._circuit.fr, weights))
        for start in range(0, count, self._chunk):
            stop = min(start + self._chunk, count)
            scalars = self._scalars.slice(0, (stop - start) * self._size)
            columns.scalars(name, words, start, scalars)
            table.multiply_into(scalars, out.slice(start * point_bytes, stop * point_bytes))


def make_points(
    device: AnyDevice, circuit: DeviceCircuit, seed: int, timeline: Timeline
) -> KeyPoints:
    """Compute the points of the INSECURE key of a seed.

    Raises DeviceError if the device has too little memory.
    """
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
    with timeline.stage("sums over columns"):
        columns = maker.columns()
    for name, weights in (
        ("A", (1, 0, 0)), ("B1", (0, 1, 0)), ("C", c_weights), ("B2", (0, 1, 0)),
    ):  # fmt: skip
        with timeline.stage(f"bases {name}"):
            degree = counts(circuit)[name][0]
            maker.points(tables[degree], columns, name, weights, bases[name])
    group, count = group_of(circuit, 1), circuit.public + 1
    public = device.allocate(count * 8 * group.point_words)
    maker.points(tables[1], columns, "ic", secret.combination(fr, secret.gamma), public)
    words = np.zeros((count, *group.shape), np.uint32)
    device.download(public, words)
    del columns
    with timeline.stage("bases H"):
        maker.quotient()
        scalars = maker.values.slice(0, counts(circuit)["H"][1] * fr.bytes)
        tables[1].multiply_into(scalars, bases["H"])
    return KeyPoints(bases, single, to_points(group, words))
