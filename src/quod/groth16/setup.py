"""INSECURE keys for tests and benchmarks, made from a constraint system and a seed.

A real key comes from a ceremony in which nobody learns the secret (``quod zkey contribute``).
Here the seed determines the secret: anyone who knows the seed can forge proofs.

The key has the layout of snarkjs's setup, so that snarkjs's prover accepts it as well:

- The domain has a row for each constraint, then one for the constant 1 and each public variable. In
  these last rows, A has a 1 at the variable, and B and C are 0.
- The points of H belong to the Lagrange polynomials of the coset of the odd powers of the root of
  order 2n, divided by the vanishing polynomial Z(x) = x**n - 1.

Let L_i be the Lagrange polynomials of the domain at tau, a_j = sum of A[i][j] * L_i, b_j and c_j
likewise from B and C. The key has the generators times

- a_j and b_j for every variable;
- (beta*a_j + alpha*b_j + c_j) / gamma for the constant 1 and the public variables (ic);
- (beta*a_j + alpha*b_j + c_j) / delta for the other variables (c);
- L'_i * Z(tau) / ((shift**n - 1) * delta) for every point shift * root**i of the coset (h), where
  L'_i is the Lagrange polynomial of the coset at tau. The prover's scalars for h are the values of
  A*B - C = H*Z on the coset, where Z(x) is the constant shift**n - 1.
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
from quod.groth16.lagrange import lagrange_at, monomials_at, scaled, weighted_sum
from quod.groth16.tags import INSECURE_TAG, TEST_GAMMA
from quod.msm.fixed_base import FixedBase


@frozen
class Secret:
    """The secret scalars (toxic waste) of a test key."""

    tau: int
    alpha: int
    beta: int
    gamma: int
    delta: int

    @classmethod
    def from_seed(cls, seed: int, fr: Modulus, domain_size: int) -> Secret:
        """Derive the secrets from a seed.

        Each secret but gamma is the SHA-512, as a big-endian integer modulo r, of the ASCII line
        ``quod insecure groth16 key: FIELD SECRET SEED COUNTER``. The counter begins at 0 and
        increases while the secret is 0, or while tau**(2 * domain_size) = 1, as a denominator
        would then be 0. Gamma is `TEST_GAMMA`, which marks test keys and need not be secret.
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
        """Return the weights of a_j, b_j and c_j in (beta*a_j + alpha*b_j + c_j) / divisor."""
        factor = pow(divisor, -1, fr.value)
        return self.beta * factor % fr.value, self.alpha * factor % fr.value, factor

    def lagrange_scale(self, fr: Modulus, domain_size: int, shift: int) -> int:
        """Return the scale with which `lagrange_at` gives a coset's Lagrange polynomials."""
        n, r = domain_size, fr.value
        shift_power = pow(shift, n, r)
        return (pow(self.tau, n, r) - shift_power) * pow(n * shift_power, -1, r) % r

    def quotient_scale(self, fr: Modulus, domain_size: int, shift: int) -> int:
        """Return Z(tau) / ((shift**n - 1) * delta); see h in the module's docstring."""
        n, r = domain_size, fr.value
        return (pow(self.tau, n, r) - 1) * pow((pow(shift, n, r) - 1) * self.delta, -1, r) % r


class SizedCircuit(Protocol):
    """The sizes of a constraint system: A(w) * B(w) = C(w) for the rows of three matrices.

    wires: the number of wires, including the constant 1, which is wire 0.
    public: the number of public inputs, which are the next wires.
    constraints: the number of rows.
    path: the name in errors.
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


class Constraints(SizedCircuit, Protocol):
    """A constraint system with its matrices."""

    @property
    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]:
        """A, B and C, with one row per constraint."""
        ...


def generate_key(
    r1cs: str | PathLike[str],
    zkey: str | PathLike[str],
    seed: int,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
) -> None:
    """Write an INSECURE proving key for the constraint system `r1cs` to `zkey`.

    For tests and benchmarks: anyone who knows `seed` can forge proofs for the key. Equal seeds and
    circuits make equal files. The key is marked as a test key by its circuit hash, which begins
    with `INSECURE_TAG`, and by its gamma, which is in the verifying key as well. Raises
    `InputError` for a malformed constraint system, one too large for the curve, or a seed that is
    not an int of at least 0, and `OutputError` if the key cannot be written.
    """
    check_seed(seed)
    timeline = or_null(timeline)
    with timeline.stage("read constraints"):
        system = R1cs.open(r1cs)
        # The property parses them on first access.
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
    monomial: bool = False,
) -> Zkey:
    """Return the key that `generate_key` writes; the constraint system need not be in a file.

    monomial: makes a key with bellman's root of unity and points h, tau**i * Z(tau) / delta, in
        place of snarkjs's (see `Zkey`); `write_key` does not write such a key.
    """
    check_seed(seed)
    timeline = or_null(timeline)
    target_device = resolve_device(device)
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
        # Zkeys store values times R**2, where R is the Montgomery radix.
        entries["value"] = scaled(target_device, fr, entries["value"], fr.montgomery_radix**2)
        scalars = _scalars(target_device, system, entries, secret, domain_size, monomial)
        coefficients = _snarkjs_order(entries)
        del entries
    points: dict[str, Words] = {}
    for degree, names in ((1, ("a", "b_g1", "ic", "c", "h")), (2, ("b_g2",))):
        group = GROUPS[f"{curve.name}.g{degree}"]
        with timeline.stage(f"points of G{degree}"):
            count = sum(len(scalars[name]) for name in names)
            table = FixedBase(target_device, group, group.parameters.generator, count)
            for name in names:
                points[name] = table.multiply(scalars[name])
            single_scalars = {
                1: {"alpha_g1": secret.alpha, "beta_g1": secret.beta, "delta_g1": secret.delta},
                2: {"beta_g2": secret.beta, "gamma_g2": secret.gamma, "delta_g2": secret.delta},
            }[degree]
            multiples = table.multiply(integers_to_words(fr, single_scalars.values()))
            points.update(zip(single_scalars, multiples))
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
        owned=True,  # nobody else has the arrays, so the key need not copy them
        monomial=monomial,
        **points,
    )


def coefficients_of(system: Constraints, device: AnyDevice) -> NDArray[Any]:
    """Return the entries of A and B in the format and order of zkeys."""
    fr = CURVES[system.curve].fr
    entries = _entries(system, fr, 2)
    # Zkeys store values times R**2, where R is the Montgomery radix.
    entries["value"] = scaled(device, fr, entries["value"], fr.montgomery_radix**2)
    return _snarkjs_order(entries)


def _entries(system: Constraints, fr: Modulus, count: int = 3) -> NDArray[Any]:
    """Return the entries of A, B and C in the format of zkeys, with canonical values, by matrix.

    The rows of A for the constant 1 and the public variables are at the end.
    count: the number of matrices, from A on.
    """
    public_wires, matrices = system.public + 1, system.matrices[:count]
    nonzeros = [matrix.nonzeros for matrix in matrices]
    entries = np.zeros(sum(nonzeros) + public_wires, dtype=coefficient_dtype(fr.words))
    start = 0
    for matrix_index, matrix in enumerate(matrices):
        matrix_entries = entries[start : start + matrix.nonzeros]
        matrix_entries["matrix"] = matrix_index
        matrix_entries["constraint"] = np.repeat(
            np.arange(matrix.rows, dtype=np.uint32), np.diff(matrix.row_ptr)
        )
        matrix_entries["signal"] = matrix.column
        matrix_entries["value"] = matrix.value
        start += matrix.nonzeros
    matrix_entries = entries[start:]
    matrix_entries["constraint"] = system.constraints + np.arange(public_wires, dtype=np.uint32)
    matrix_entries["signal"] = np.arange(public_wires, dtype=np.uint32)
    matrix_entries["value"][:, 0] = 1
    return entries


def _snarkjs_order(entries: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of A and B by constraint, then matrix, which is snarkjs's order."""
    selected = np.flatnonzero(entries["matrix"] < 2)
    order = entries["constraint"][selected] * np.uint64(2) + entries["matrix"][selected]
    return gathered(entries, selected[np.argsort(order, kind="stable")])


def _scalars(
    device: AnyDevice,
    system: Constraints,
    entries: NDArray[Any],
    secret: Secret,
    domain_size: int,
    monomial: bool,
) -> dict[str, Words]:
    """Return the canonical scalars of every array of points, by parameter name of `write_zkey`."""
    curve = CURVES[system.curve]
    fr = curve.fr
    r, n, wires = fr.value, domain_size, system.wires
    log_size = n.bit_length() - 1
    root = root_of_unity(curve.fr, "arkworks" if monomial else "snarkjs", log_size)

    def lagrange(shift: int, scale: int) -> Words:
        """Return scale times the Lagrange polynomials of the coset at tau."""
        factor = secret.lagrange_scale(fr, n, shift) * scale % r
        return lagrange_at(
            device, fr, count=n, root=root, shift=shift, point=secret.tau, scale=factor
        )

    def coset_polynomials() -> Words:
        shift = quotient_coset_shift(curve.fr, "snarkjs", log_size)
        return lagrange(shift, secret.quotient_scale(fr, n, shift))

    def monomials() -> Words:
        """Return tau**i * Z(tau) / delta for i < n - 1, and 0, in bit-reversed order."""
        first = (pow(secret.tau, n, r) - 1) * pow(secret.delta, -1, r) % r
        values = monomials_at(device, fr, log_size, secret.tau, first)
        values[-1] = 0
        return values

    sums = np.zeros((3 * wires, fr.words), dtype=np.uint32)
    matrix = HostMatrix if device.host_memory else DeviceMatrix
    matrix.transposed(device, fr, entries, 3, wires).multiply(lagrange(1, 1), sums)
    a, b, c = sums[:wires], sums[wires : 2 * wires], sums[2 * wires :]
    # Weights times this factor turn sums in Montgomery form into canonical integers.
    inverse_radix = pow(fr.montgomery_radix, -1, r)

    def combine(first: int, end: int, divisor: int) -> Words:
        a_weight, b_weight, c_weight = (
            factor * inverse_radix % r for factor in secret.combination(fr, divisor)
        )
        return weighted_sum(
            device, fr, (a_weight, b_weight, c_weight), a[first:end], b[first:end], c[first:end]
        )

    public_wires = system.public + 1
    b_scalars = from_montgomery(device, fr, b)
    return {
        "a": from_montgomery(device, fr, a),
        "b_g1": b_scalars,
        "b_g2": b_scalars,
        "ic": combine(0, public_wires, secret.gamma),
        "c": combine(public_wires, wires, secret.delta),
        "h": monomials() if monomial else coset_polynomials(),
    }


def _digest(points: dict[str, Words]) -> bytes:
    """Hash the digests of all arrays in the order of names; computes them concurrently."""

    def digest_of(name: str) -> bytes:
        return hashlib.blake2b(np.ascontiguousarray(points[name]).data).digest()

    tasks = {name: functools.partial(digest_of, name) for name in sorted(points)}
    # The digests are fast, so cancelling them does nothing.
    digests = run_concurrently(tasks, len(tasks), "quod-digest", lambda: None)
    joined = b"".join(digests.values())
    return hashlib.blake2b(joined, digest_size=64 - len(INSECURE_TAG)).digest()
