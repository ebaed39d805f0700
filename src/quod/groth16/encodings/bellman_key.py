"""Proving keys from bellman's parameters and the constraint system of their circuit.

Parameters have no matrices, and omit the points of variables that a matrix does not use. Both are
derived from the constraints. Variable i is wire i: the constant 1, the public inputs, then the
other variables in bellman's order. After the circuit's rows, A has a row with the coefficient 1 for
the constant and for each public input. The list a (or b) has a point for each variable with a
nonzero coefficient in A (or B), after terms of one variable in one row are summed. The list a also
has a point for each public variable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.groups import GROUPS
from quod.curve.named.bls12_381 import BLS12_381
from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, MismatchError
from quod.field.array import Words, from_montgomery, to_montgomery, words_to_integers
from quod.formats import BellmanParameters, R1cs, SparseMatrix, Zkey
from quod.formats.bellman import PURPOSES, VERIFYING_KEY
from quod.formats.source import Path
from quod.groth16.setup import Constraints, coefficients_of
from quod.msm.subgroup import first_bad_point
from quod.ntt.ordering import bit_reversal


def zkey_of(
    path: Path,
    r1cs: Path | Constraints,
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
        source: Any = r1cs
        # An instance check of the protocol would compute the matrices.
        system: Constraints = source if hasattr(type(source), "matrices") else R1cs.open(source)
    log2_domain = (system.constraints + system.public).bit_length()
    with timeline.stage("variables with points"):
        masks = _point_masks(parameters, system, log2_domain)
    # Points are converted and matrices are built on the host, as they are host arrays.
    host = resolve_device("cpu")
    with timeline.stage("convert points"):
        points = {
            name: to_montgomery(host, BLS12_381.fq, words)
            for name, words in parameters.points.items()
        }
    if checked:
        _check_points_once(parameters, points, device, timeline)
    # As in a monomial `Zkey`: padded to the domain's size, in bit-reversed order.
    h = np.zeros((1 << log2_domain, *points["h"].shape[1:]), np.uint32)
    h[:-1] = points["h"]
    points["h"] = h[bit_reversal(log2_domain)]
    points["c"] = points.pop("l")
    for name, mask in masks.items():
        all_points = np.zeros((system.wires, *points[name].shape[1:]), np.uint32)
        all_points[mask] = points[name]
        points[name] = all_points
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


def points_of(zkey: Zkey) -> dict[str, Words]:
    """Return the points of a monomial key as `write_bellman_parameters` takes them.

    They omit the points at infinity of variables that a matrix does not use. Raises InputError for
    a key that is not monomial, or over another curve.
    """
    if not zkey.monomial or zkey.curve != BLS12_381.name:
        raise InputError(f"parameters of bellman need a monomial key over {BLS12_381.name}")
    host = resolve_device("cpu")
    arrays = {name: getattr(zkey, name) for name in (*VERIFYING_KEY, "ic", "a", "b_g1", "b_g2")}
    arrays |= {"l": zkey.c, "h": zkey.h[bit_reversal(zkey.log2_domain)][:-1]}
    for name in ("a", "b_g1", "b_g2"):
        rows = arrays[name]
        arrays[name] = rows[rows.reshape(len(rows), -1).any(axis=1)]
    return {name: from_montgomery(host, BLS12_381.fq, array) for name, array in arrays.items()}


def _point_masks(
    parameters: BellmanParameters, system: Constraints, log2_domain: int
) -> Mapping[str, NDArray[np.bool_]]:
    """Return masks of the variables that have points in the lists a, b_g1 and b_g2."""
    if system.curve != BLS12_381.name:
        raise MismatchError(
            f"parameters of bellman are over {BLS12_381.name} and {system.path} is over "
            f"{system.curve}; compile the circuit with --prime bls12381",
            path=parameters.path,
        )
    in_a, in_b = (_nonzero_columns(matrix, system.wires) for matrix in system.matrices[:2])
    in_a[: system.public + 1] = True
    for name, expected in (
        ("ic", system.public + 1),
        ("h", (1 << log2_domain) - 1),
        ("l", system.wires - system.public - 1),
        ("a", int(in_a.sum())),
        ("b_g1", int(in_b.sum())),
    ):
        count, location = len(parameters.points[name]), parameters.places[name]
        if count != expected:
            raise MismatchError(
                f"there are {count} points; {expected} are needed for {system.path}: use the "
                "parameters and the constraint system of one circuit",
                path=location.path,
                section=location.section,
                offset=location.offset,
            )
    return {"a": in_a, "b_g1": in_b, "b_g2": in_b}


def _nonzero_columns(matrix: SparseMatrix, wires: int) -> NDArray[np.bool_]:
    """Return a mask of the columns with a nonzero entry, after summing the terms of each entry."""
    mask = np.zeros(wires, np.bool_)
    rows = np.repeat(np.arange(matrix.rows, dtype=np.int64), np.diff(matrix.row_ptr))
    entry_indices = rows * wires + matrix.column
    if (entry_indices[1:] > entry_indices[:-1]).all():
        # No row has two terms of one variable.
        mask[matrix.column[matrix.value.any(axis=1)]] = True
        return mask
    order = np.argsort(entry_indices, kind="stable")
    _, first_term, counts = np.unique(entry_indices[order], return_index=True, return_counts=True)
    single_terms = order[first_term[counts == 1]]
    mask[matrix.column[single_terms[matrix.value[single_terms].any(axis=1)]]] = True
    # Few entries have several terms, so these are summed in Python.
    r = BLS12_381.fr.value
    for start, count in zip(first_term[counts > 1], counts[counts > 1], strict=True):
        terms = order[start : start + count]
        if sum(words_to_integers(BLS12_381.fr, matrix.value[terms])) % r:
            mask[matrix.column[terms[0]]] = True
    return mask


def _check_points_once(
    parameters: BellmanParameters, points: Mapping[str, Words], device: AnyDevice,
    timeline: Timeline,
) -> None:  # fmt: skip
    """Check every point, skipping arrays that were already validated.

    points: the points in Montgomery form.
    The user's cache records the digests of valid ones. The cache is trusted anyway, as it has
    machine code.
    """
    digest = hashlib.sha256()
    with timeline.stage("digest of points"):
        for name, words in parameters.points.items():
            digest.update(f"{name} {len(words)}\n".encode())
            digest.update(np.ascontiguousarray(words).data)
    cache = CompileCache()
    key = key_of("points of bellman's parameters", sources.digest(), digest.digest())
    if cache.get(key) is None:
        _check_points(parameters, points, device, timeline)
        if sources.are_unchanged():
            cache.put(key, b"")


def _check_points(
    parameters: BellmanParameters, points: Mapping[str, Words], device: AnyDevice,
    timeline: Timeline,
) -> None:  # fmt: skip
    """Raise InputError, with its offset, for a point off the curve or outside its subgroup."""
    for name, words in points.items():
        location = parameters.places[name]
        group = GROUPS[f"{BLS12_381.name}.g{location.group}"]
        rows = words.reshape(-1, *group.shape)
        with timeline.stage(f"check points for {PURPOSES.get(name, name)}", bytes=rows.nbytes):
            bad_point = first_bad_point(device, group, rows, subgroup=True, infinity=False)
        if bad_point is not None:
            raise location.error(bad_point[0], f"point {bad_point[0]} of {name} {bad_point[1]}")
