"""Keys for tests and benchmarks from a constraint system: INSECURE, the seed is the secret.

A real key comes from a ceremony in which nobody learns the secret (``quod zkey contribute``).
Here all of it follows from a number: whoever knows the seed can prove anything.

The key is laid out as snarkjs's set-up does it, so that its prover takes the key too: the domain
has room for the constraints and one row more for the constant and each public variable, which ties
that variable to itself in A; the points of H belong to the Lagrange polynomials of the odd coset,
the division by the vanishing polynomial included.

With L_i the Lagrange polynomials of the domain at tau, a_j = sum of A[i][j] * L_i (b_j and c_j
alike) and Z = tau**n - 1, the key holds the multiples of the generators by

- a_j, b_j for every variable;
- (beta*a_j + alpha*b_j + c_j) / gamma for the constant and the public ones (ic), / delta for the
  others (c);
- L'_i * Z / ((shift**n - 1) * delta) for every x_i = shift * root**i (h), L'_i the Lagrange
  polynomial of that coset at tau. Its values there are those of A*B - C = H*Z, and Z is
  shift**n - 1 on all of the coset.
"""

from __future__ import annotations

import functools
import hashlib
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.concurrent import run_concurrently
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError
from quod.field.array import Words, check_seed, from_montgomery, integers_to_words
from quod.field.moduli import Modulus
from quod.field.roots import quotient_coset_shift, root_of_unity
from quod.formats import R1cs, SparseMatrix, Zkey, coefficient_dtype, write_zkey
from quod.formats.curves import pairing_curve
from quod.formats.zkey.file import POINTS
from quod.frozen import frozen
from quod.groth16.gpu.matrix import DeviceMatrix
from quod.groth16.host.sparse_matrix import HostMatrix, gathered
from quod.groth16.lagrange import lagrange_at, scaled, weighted_sum
from quod.groth16.tags import INSECURE_TAG, TEST_GAMMA
from quod.msm.fixed_base import FixedBase


@frozen
class Secret:
    """The toxic waste of a key for tests."""

    tau: int
    alpha: int
    beta: int
    gamma: int
    delta: int

    @classmethod
    def from_seed(cls, seed: int, fr: Modulus, domain_size: int) -> Secret:
        """Each secret but gamma is SHA-512 of a line that names it, a big-endian integer modulo r.

        The line is ``quod insecure groth16 key: FIELD SECRET SEED COUNTER`` in ASCII; the counter,
        from 0 on, passes over zero and over a tau for which a denominator would vanish. The gamma
        of all keys is `TEST_GAMMA`, which need not be secret and says what they are.
        """

        def draw(name: str) -> int:
            counter = 0
            while True:
                line = f"quod insecure groth16 key: {fr.name} {name} {seed} {counter}"
                value = int.from_bytes(hashlib.sha512(line.encode()).digest(), "big") % fr.value
                if value and (name != "tau" or pow(value, 2 * domain_size, fr.value) != 1):
                    return value
                counter += 1

        tau, alpha, beta, delta = map(draw, ("tau", "alpha", "beta", "delta"))
        return cls(tau, alpha, beta, TEST_GAMMA, delta)

    def combination(self, fr: Modulus, divisor: int) -> tuple[int, int, int]:
        """The weights of a_j, b_j and c_j in (beta*a_j + alpha*b_j + c_j) / divisor."""
        factor = pow(divisor, -1, fr.value)
        return self.beta * factor % fr.value, self.alpha * factor % fr.value, factor

    def lagrange_scale(self, fr: Modulus, domain_size: int, shift: int) -> int:
        """The factor of `lagrange_at` for the Lagrange polynomials of a coset at tau."""
        n, r = domain_size, fr.value
        outer = pow(shift, n, r)
        return (pow(self.tau, n, r) - outer) * pow(n * outer, -1, r) % r

    def quotient_scale(self, fr: Modulus, domain_size: int, shift: int) -> int:
        """Z over delta, divided by what Z is on the coset: see h above."""
        n, r = domain_size, fr.value
        return (pow(self.tau, n, r) - 1) * pow((pow(shift, n, r) - 1) * self.delta, -1, r) % r


class Constraints(Protocol):
    """A constraint system: A(w) * B(w) = C(w) for the rows of three matrices.

    `wires` counts the constant 1, which is wire 0, as well; the `public` ones come next. The
    matrices are A, B and C, with one row a constraint.
    """

    @property
    def curve(self) -> str: ...
    @property
    def wires(self) -> int: ...
    @property
    def public(self) -> int: ...
    @property
    def constraints(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]: ...


def generate_key(
    r1cs: str | PathLike[str],
    zkey: str | PathLike[str],
    seed: int,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
) -> None:
    """Write an INSECURE proving key for the constraint system `r1cs` to `zkey`.

    For tests and benchmarks: whoever knows `seed` can forge proofs for the key. Equal seeds and
    circuits make equal files. The key says what it is in its circuit hash, which begins with
    `INSECURE_TAG`, and by its gamma, which its verifying key has as well. Raises `InputError` for
    a file that is no constraint system or is too large for the curve and for a seed that is no int
    from 0 on, `OutputError` if the key cannot be written.
    """
    check_seed(seed)
    timeline = or_null(timeline)
    with timeline.stage("read constraints"):
        system = R1cs.open(r1cs)
        _ = system.matrices
    key = make_key(system, seed, device=device, timeline=timeline)
    with timeline.stage("write key"):
        write_key(key, zkey)


def write_key(key: Zkey, path: str | PathLike[str]) -> None:
    """Write a key from `make_key`. Raises `OutputError`."""
    write_zkey(
        path,
        curve=key.curve,
        public=key.public,
        domain_size=key.domain_size,
        coefficients=key.coefficients,
        circuit_hash=key.circuit_hash,
        **{name: getattr(key, name) for name in POINTS},
    )


def make_key(
    system: Constraints,
    seed: int,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
) -> Zkey:
    """The key that `generate_key` writes, in memory: for circuits that are in no file either."""
    check_seed(seed)
    timeline = or_null(timeline)
    chosen = resolve_device(device)
    curve = pairing_curve(system.curve, system.path)
    fr = curve.fr
    domain_size = 1 << (system.constraints + system.public).bit_length()
    if domain_size > 1 << fr.two_adicity:
        raise InputError(
            f"{system.constraints} constraints need a domain of {domain_size}, more than "
            f"{curve.name} has (2**{fr.two_adicity}); split the circuit",
            path=system.path,
        )
    secret = Secret.from_seed(seed, fr, domain_size)
    with timeline.stage("scalars"):
        entries = _entries(system, fr)
        entries["value"] = scaled(chosen, fr, entries["value"], fr.montgomery_radix**2)
        scalars = _scalars(chosen, system, entries, secret, domain_size)
        coefficients = _ordered(entries)
        del entries
    points: dict[str, Words] = {}
    for degree, names in ((1, ("a", "b_g1", "ic", "c", "h")), (2, ("b_g2",))):
        group = GROUPS[f"{curve.name}.g{degree}"]
        with timeline.stage(f"points of G{degree}"):
            count = sum(len(scalars[name]) for name in names)
            table = FixedBase(chosen, group, group.parameters.generator, count)
            for name in names:
                points[name] = table.multiply(scalars[name])
            single = {
                1: {"alpha_g1": secret.alpha, "beta_g1": secret.beta, "delta_g1": secret.delta},
                2: {"beta_g2": secret.beta, "gamma_g2": secret.gamma, "delta_g2": secret.delta},
            }[degree]
            multiples = table.multiply(integers_to_words(fr, single.values()))
            points.update(zip(single, multiples))
    with timeline.stage("digest"):
        circuit_hash = INSECURE_TAG + _digest(points)
    return Zkey.from_arrays(
        f"the test key of {system.path}",
        curve=curve.name,
        public=system.public,
        domain_size=domain_size,
        constraints=system.constraints,
        coefficients=coefficients,
        circuit_hash=circuit_hash,
        owned=True,
        monomial=False,
        **points,
    )


def coefficients_of(system: Constraints, device: AnyDevice) -> NDArray[Any]:
    """The entries of A and B as zkeys have them."""
    fr = CURVES[system.curve].fr
    entries = _entries(system, fr)
    entries["value"] = scaled(device, fr, entries["value"], fr.montgomery_radix**2)
    return _ordered(entries)


def _entries(system: Constraints, fr: Modulus) -> NDArray[Any]:
    """The entries of A, B and C as zkeys have them, with canonical values, by matrix.

    With the rows of the public variables in A at the end.
    """
    tied = system.public + 1
    nonzeros = [matrix.nonzeros for matrix in system.matrices]
    entries = np.zeros(sum(nonzeros) + tied, dtype=coefficient_dtype(fr.words))
    start = 0
    for number, matrix in enumerate(system.matrices):
        part = entries[start : start + matrix.nonzeros]
        part["matrix"] = number
        part["constraint"] = np.repeat(
            np.arange(matrix.rows, dtype=np.uint32), np.diff(matrix.row_ptr)
        )
        part["signal"] = matrix.column
        part["value"] = matrix.value
        start += matrix.nonzeros
    part = entries[start:]
    part["constraint"] = system.constraints + np.arange(tied, dtype=np.uint32)
    part["signal"] = np.arange(tied, dtype=np.uint32)
    part["value"][:, 0] = 1
    return entries


def _ordered(entries: NDArray[Any]) -> NDArray[Any]:
    """The entries of A and B by constraint, then matrix, as snarkjs writes them."""
    kept = np.flatnonzero(entries["matrix"] < 2)
    order = entries["constraint"][kept] * np.uint64(2) + entries["matrix"][kept]
    return gathered(entries, kept[np.argsort(order, kind="stable")])


def _scalars(
    device: AnyDevice,
    system: Constraints,
    entries: NDArray[Any],
    secret: Secret,
    domain_size: int,
) -> dict[str, Words]:
    """The canonical scalars of every array of points, by the names of `write_zkey`."""
    curve = CURVES[system.curve]
    fr = curve.fr
    r, n, wires = fr.value, domain_size, system.wires
    log_size = n.bit_length() - 1
    root = root_of_unity(curve.fr, "snarkjs", log_size)
    shift = quotient_coset_shift(curve.fr, "snarkjs", log_size)

    def lagrange(shift: int, scale: int) -> Words:
        """scale times the Lagrange polynomials of the coset, at tau."""
        factor = secret.lagrange_scale(fr, n, shift) * scale % r
        return lagrange_at(
            device, fr, count=n, root=root, shift=shift, point=secret.tau, scale=factor
        )

    sums = np.zeros((3 * wires, fr.words), dtype=np.uint32)
    matrix = HostMatrix if device.host_memory else DeviceMatrix
    matrix.transposed(device, fr, entries, 3, wires).multiply(lagrange(1, 1), sums)
    a, b, c = sums[:wires], sums[wires : 2 * wires], sums[2 * wires :]
    # What brings Montgomery form back to integers.
    leave = pow(fr.montgomery_radix, -1, r)

    def combined(first: int, last: int, divisor: int) -> Words:
        of_a, of_b, of_c = (factor * leave % r for factor in secret.combination(fr, divisor))
        return weighted_sum(
            device, fr, (of_a, of_b, of_c), a[first:last], b[first:last], c[first:last]
        )

    tied = system.public + 1
    b_scalars = from_montgomery(device, fr, b)
    return {
        "a": from_montgomery(device, fr, a),
        "b_g1": b_scalars,
        "b_g2": b_scalars,
        "ic": combined(0, tied, secret.gamma),
        "c": combined(tied, wires, secret.delta),
        "h": lagrange(shift, secret.quotient_scale(fr, n, shift)),
    }


def _digest(points: dict[str, Words]) -> bytes:
    """Hash the digests of all arrays by name, which are computed concurrently."""

    def of(name: str) -> bytes:
        return hashlib.blake2b(np.ascontiguousarray(points[name]).data).digest()

    tasks = {name: functools.partial(of, name) for name in sorted(points)}
    # Nothing of it takes long enough to be stopped.
    digests = run_concurrently(tasks, len(tasks), "quod-digest", lambda: None)
    joined = b"".join(digests.values())
    return hashlib.blake2b(joined, digest_size=64 - len(INSECURE_TAG)).digest()
