"""Proving keys from bellman's parameters and the constraint system of their circuit.

Parameters have no matrices and omit the points of variables that a matrix does not use; both follow
from the constraints. Variables are wires of the same number: the constant 1, the public inputs,
then the others in bellman's order. After the circuit's rows, A has a row with the coefficient 1 for
the constant and for each public input. The lists of a and b have a point for each variable with a
coefficient other than 0 in A and in B, after terms of one variable in one row are summed; the list
of a also has one for each public variable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from quod.curve.groups import GROUPS
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import MismatchError
from quod.field.array import Words, to_montgomery, words_to_integers
from quod.formats import BellmanParameters, R1cs, SparseMatrix, Zkey
from quod.formats.source import Path
from quod.groth16.setup import coefficients_of
from quod.ntt.ordering import bit_reversal


def zkey_of(
    path: Path,
    r1cs: Path | R1cs,
    device: AnyDevice,
    timeline: Timeline,
    *,
    checked: bool,
) -> Zkey:
    """Convert parameters to a zkey in memory; its points of h are in monomial form.

    Raises `MismatchError` if counts show that the parameters are for another circuit, and with
    `checked` `InputError` for a point off the curve or outside its subgroup.
    """
    with timeline.stage("read"):
        parameters = BellmanParameters.open(path)
        system = r1cs
        if not isinstance(system, R1cs):
            system = R1cs.open(system)
    log2_domain = (system.constraints + system.public).bit_length()
    densities = _densities(parameters, system, log2_domain)
    if checked:
        _check_points_once(parameters, device, timeline)
    # Their conversion and the entries of the matrices are arrays of the host.
    host = resolve_device("cpu")
    with timeline.stage("convert points"):
        points = {
            name: to_montgomery(host, BLS12_381.fq, words)
            for name, words in parameters.points.items()
        }
    h = np.zeros((1 << log2_domain, *points["h"].shape[1:]), np.uint32)
    h[:-1] = points["h"]
    points["h"] = h[bit_reversal(log2_domain)]
    points["c"] = points.pop("l")
    for name, used in densities.items():
        full = np.zeros((system.wires, *points[name].shape[1:]), np.uint32)
        full[used] = points[name]
        points[name] = full
    with timeline.stage("matrices of the circuit"):
        coefficients = coefficients_of(system, host)
    return Zkey.from_arrays(
        parameters.path,
        curve=BLS12_381.name,
        public=system.public,
        domain_size=1 << log2_domain,
        constraints=system.constraints,
        coefficients=coefficients,
        circuit_hash=parameters.circuit_hash,
        owned=True,
        monomial=True,
        **points,
    )


def _densities(
    parameters: BellmanParameters, system: R1cs, log2_domain: int
) -> Mapping[str, NDArray[np.bool_]]:
    """Return masks of the variables that have points in the lists a, b_g1 and b_g2."""
    if system.curve != BLS12_381.name:
        raise MismatchError(
            f"parameters of bellman are over {BLS12_381.name} and {system.path} is over "
            f"{system.curve}; compile the circuit with --prime bls12381",
            path=parameters.path,
        )
    in_a, in_b = (_used(matrix, system.wires) for matrix in system.matrices[:2])
    in_a[: system.public + 1] = True
    for name, needed in (
        ("ic", system.public + 1),
        ("h", (1 << log2_domain) - 1),
        ("l", system.wires - system.public - 1),
        ("a", int(in_a.sum())),
        ("b_g1", int(in_b.sum())),
    ):
        point_count, place = len(parameters.points[name]), parameters.places[name]
        if point_count != needed:
            raise MismatchError(
                f"there are {point_count} points and the circuit of {system.path} needs {needed}; "
                "use the parameters and the constraint system of one circuit",
                path=place.path,
                section=place.section,
                offset=place.offset,
            )
    return {"a": in_a, "b_g1": in_b, "b_g2": in_b}


def _used(matrix: SparseMatrix, wires: int) -> NDArray[np.bool_]:
    """Return a mask of a matrix's nonzero columns, after summing the terms of each entry."""
    used = np.zeros(wires, np.bool_)
    rows = np.repeat(np.arange(matrix.rows, dtype=np.int64), np.diff(matrix.row_ptr))
    places = rows * wires + matrix.column
    order = np.argsort(places, kind="stable")
    _, first, counts = np.unique(places[order], return_index=True, return_counts=True)
    single = order[first[counts == 1]]
    used[matrix.column[single[matrix.value[single].any(axis=1)]]] = True
    # Those that occur twice are few.
    r = BLS12_381.fr.value
    for start, count in zip(first[counts > 1], counts[counts > 1], strict=True):
        terms = order[start : start + count]
        if sum(words_to_integers(BLS12_381.fr, matrix.value[terms])) % r:
            used[matrix.column[terms[0]]] = True
    return used


def _check_points_once(
    parameters: BellmanParameters, device: AnyDevice, timeline: Timeline
) -> None:
    """Check every point, skipping arrays that were already validated.

    The user's cache records them by digest; it is trusted with machine code as well.
    """
    digest = hashlib.sha256()
    with timeline.stage("digest of points"):
        for name, words in parameters.points.items():
            digest.update(f"{name} {len(words)}\n".encode())
            digest.update(np.ascontiguousarray(words).data)
    cache = CompileCache()
    key = key_of("points of bellman's parameters", sources.digest(), digest.digest())
    if cache.get(key) is None:
        _check_points(parameters, device, timeline)
        cache.put(key, b"")


def _check_points(parameters: BellmanParameters, device: AnyDevice, timeline: Timeline) -> None:
    host = resolve_device("cpu")
    for name, words in parameters.points.items():
        place = parameters.places[name]
        group = GROUPS[f"{BLS12_381.name}.g{place.group}"]
        rows: Words = to_montgomery(host, group.coordinates, words).reshape(-1, *group.shape)
        with timeline.stage(f"check {name}", bytes=rows.nbytes):
            bad = first_bad_point(device, group, rows, subgroup=True, infinity=False)
        if bad is not None:
            raise place.error(bad[0], f"point {bad[0]} of {name} {bad[1]}")
