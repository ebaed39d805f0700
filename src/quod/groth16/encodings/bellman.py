"""Conversion of bellman's proofs and verifying keys from and to bytes.

A proof is A, B and C in the Zcash encoding of points, concatenated: 192 bytes compressed, as
bellman writes them, or 384 uncompressed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import Any

from quod.curve.encoding.decompression import decompressed
from quod.curve.named.bls12_381 import BLS12_381
from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import InputError
from quod.field.array import Words, words_to_integers
from quod.formats.bellman import BellmanVerifyingKey
from quod.formats.source import read_small
from quod.groth16.encodings.proof_bytes import (
    PointForm,
    checked_bytes,
    decode_proof,
    encode_proof,
    finite,
    located,
)
from quod.groth16.proof import Proof
from quod.groth16.soundness import Weakness, weakness
from quod.groth16.verifier import VerifyingKey

PROOF_BYTES = 192
"""The bytes of a compressed proof; an uncompressed proof has twice as many."""

_FORM = PointForm("bellman", BLS12_381)
_MAX_BYTES = 1 << 28


def proof_to_bytes(proof: Proof, *, compressed: bool = True) -> bytes:
    """Encode a proof as bellman does; InputError for another curve, and for infinity in a proof."""
    return encode_proof(_FORM, proof, compressed=compressed)


def proof_from_bytes(data: bytes, *, check_subgroup: bool = True, name: str | None = None) -> Proof:
    """Decode a proof of 192 bytes, or 384 if uncompressed.

    name: the source of the data, for error messages.
    Raises `InputError` for another length, wrong flags, a coordinate that is not below q, a point
    off the curve, at infinity or, with `check_subgroup`, outside the subgroup of order r.
    Verification checks the subgroup in any case.
    """
    return decode_proof(_FORM, data, check_subgroup=check_subgroup, name=name)


def proofs_from_bytes(
    data: bytes, *, device: DeviceChoice = "cpu", name: str | None = None
) -> list[Proof | InputError]:
    """Decode concatenated proofs of 192 bytes; a malformed proof becomes its error.

    The results are those of `proof_from_bytes` without the check of subgroups; one batch on the
    device computes all square roots. Raises `InputError` unless the length is a multiple of 192.
    """
    data = checked_bytes(_FORM, data)
    if len(data) % PROOF_BYTES:
        raise InputError(
            f"{len(data)} bytes are not a whole number of proofs of {PROOF_BYTES} bytes each",
            path=name,
            offset=len(data) - len(data) % PROOF_BYTES,
        )
    starts = range(0, len(data), PROOF_BYTES)
    a, b, c = (
        [data[offset + part[2] : offset + part[3]] for offset in starts] for part in _FORM.parts()
    )
    g1, g2 = decompressed(resolve_device(device), [*a, *c], b)
    proofs: list[Proof | InputError] = []
    for index, offset in enumerate(starts):
        points = (g1[index], g2[index], g1[len(starts) + index])
        proofs.append(_proof_or_error(points, name, offset))
    return proofs


def read_proof(path: str | PathLike[str], *, check_subgroup: bool = True) -> Proof:
    """Read a proof from a file or pipe; see `proof_from_bytes`."""
    data = read_small(path, limit=2 * PROOF_BYTES, what="a proof of bellman")
    return proof_from_bytes(data, check_subgroup=check_subgroup, name=os.fspath(path))


def read_proofs(
    path: str | PathLike[str], *, device: DeviceChoice = "cpu"
) -> list[Proof | InputError]:
    """Read proofs from a file or pipe; see `proofs_from_bytes`."""
    data = read_small(path, limit=_MAX_BYTES, what="a list of proofs")
    return proofs_from_bytes(data, device=device, name=os.fspath(path))


def read_verifying_key(
    path: str | PathLike[str], *, device: DeviceChoice = "cpu", allow_insecure: bool = False
) -> VerifyingKey:
    """Read and check a verifying key, from its own file or the beginning of parameters.

    Raises `InputError` as `quod.formats.bellman.BellmanVerifyingKey.open` and `VerifyingKey` do,
    and `InsecureKeyError`.
    """
    return _verifying_key(BellmanVerifyingKey.open(path), device, allow_insecure)


def parse_verifying_key(data: bytes, name: str, *, device: DeviceChoice = "cpu") -> VerifyingKey:
    """Read bytes as `read_verifying_key` reads a file; `name` stands for the path in errors."""
    return _verifying_key(BellmanVerifyingKey.parse(memoryview(data), name), device, False)


def _verifying_key(
    encoded_key: BellmanVerifyingKey, device: DeviceChoice, allow_insecure: bool
) -> VerifyingKey:
    alpha, beta, gamma, delta = _single_points(encoded_key)
    return VerifyingKey(
        BLS12_381.name,
        alpha,
        beta,
        gamma,
        delta,
        _to_points(encoded_key.points["ic"], 1),
        device=device,
        path=encoded_key.path,
        allow_insecure=allow_insecure,
    )


def weakness_in(key: BellmanVerifyingKey) -> Weakness | None:
    """Return the weakness that a key's points show and that lets anyone forge proofs, or None."""
    return weakness(BLS12_381.name, *_single_points(key))


def _single_points(key: BellmanVerifyingKey) -> list[Any]:
    """Return alpha, beta, gamma and delta as integers."""
    names = ("alpha_g1", "beta_g2", "gamma_g2", "delta_g2")
    return [_to_points(key.points[name], key.places[name].group)[0] for name in names]


def _to_points(words: Words, degree: int) -> list[Any]:
    """Return points of `quod.formats.bellman` as a list of tuples of integers."""
    values: list[Any] = words_to_integers(BLS12_381.fq, words)
    for _ in range(degree):
        values = list(zip(values[::2], values[1::2], strict=True))
    return values


def _proof_or_error(points: Sequence[Any], name: str | None, offset: int) -> Proof | InputError:
    """Return the proof with these points, or the error of the first malformed point.

    offset: the offset of the proof in bytes.
    """
    for (part, _, start, _), point in zip(_FORM.parts(), points, strict=True):
        try:
            if isinstance(point, InputError):
                raise point
            finite(point)
        except InputError as error:
            return located(error, name, part, offset + start)
    return Proof(BLS12_381.name, *points)
