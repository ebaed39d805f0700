"""Proofs and verifying keys of ark-groth16 0.4 and later, in the bytes of ark-serialize.

A proof is A, B and C. A verifying key is alpha in G1; beta, gamma and delta in G2; the number of
points of IC, in 8 little-endian bytes; and IC in G1. Either all points are compressed or none.
Points over BLS12-381 have the Zcash encoding, points over other curves that of arkworks
(`quod.curve.encoding.points`).
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

from quod.device.discovery import DeviceChoice
from quod.errors import InputError
from quod.formats.curves import curve_named
from quod.formats.iden3 import SectionReader
from quod.formats.source import read_small
from quod.groth16.encodings.proof_bytes import PointForm, decode_proof, encode_proof
from quod.groth16.proof import Proof
from quod.groth16.verifier import VerifyingKey
from quod.validation import plain_bytes

_PROGRAM = "arkworks"
_MAX_BYTES = 1 << 28
_POINTS = (("alpha_g1", 1), ("beta_g2", 2), ("gamma_g2", 2), ("delta_g2", 2))
_COUNT_BYTES = 8
_DAMAGED = "the key is damaged or forged, get it again from its source"


def proof_to_bytes(proof: Proof, *, compressed: bool = True) -> bytes:
    """Encode a proof as arkworks does; raise InputError for infinity in a proof."""
    return encode_proof(_form(proof.curve), proof, compressed=compressed)


def proof_from_bytes(
    data: bytes, curve: str, *, check_subgroup: bool = True, name: str | None = None
) -> Proof:
    """Decode a proof over `curve`, compressed or not.

    data: 128 bytes over BN254, 192 over other curves, and twice as many if uncompressed.
    name: the source of the data, for error messages.
    Raises `InputError` for another length, wrong flags, a coordinate that is not below q, a point
    off the curve, at infinity or, with `check_subgroup`, outside the subgroup of order r.
    Verification checks the subgroup in any case.
    """
    return decode_proof(_form(curve), data, check_subgroup=check_subgroup, name=name)


def read_proof(path: str | PathLike[str], curve: str, *, check_subgroup: bool = True) -> Proof:
    """Read a proof from a file or pipe; see `proof_from_bytes`."""
    max_bytes = 2 * _form(curve).proof_bytes
    data = read_small(path, limit=max_bytes, what="a proof of arkworks")
    return proof_from_bytes(data, curve, check_subgroup=check_subgroup, name=os.fspath(path))


def verifying_key_to_bytes(key: VerifyingKey, *, compressed: bool = True) -> bytes:
    """Encode a verifying key as arkworks does."""
    form = _form(key.curve)
    parts = [
        form.encode(degree, getattr(key, name), compressed=compressed) for name, degree in _POINTS
    ]
    parts.append(len(key.ic).to_bytes(_COUNT_BYTES, "little"))
    parts += [form.encode(1, point, compressed=compressed) for point in key.ic]
    return b"".join(parts)


def verifying_key_from_bytes(
    data: bytes,
    curve: str,
    *,
    device: DeviceChoice = "cpu",
    allow_insecure: bool = False,
    name: str | None = None,
) -> VerifyingKey:
    """Decode and check a verifying key over `curve`, compressed or not.

    The number of points and the length determine whether points are compressed. Raises `InputError`
    for a length that fits neither, for wrong flags or coordinates, and as `VerifyingKey` does; also
    raises `InsecureKeyError`.
    """
    form = _form(curve)
    data = plain_bytes("a key of arkworks", data)
    for compressed in (True, False):
        start = sum(form.size(degree, compressed=compressed) for _, degree in _POINTS)
        count = int.from_bytes(data[start : start + _COUNT_BYTES], "little")
        if len(data) == start + _COUNT_BYTES + count * form.size(1, compressed=compressed):
            break
    else:
        raise InputError(
            f"{len(data)} bytes are not a verifying key of arkworks over {curve}, "
            "compressed or uncompressed; check that the right file was given",
            path=name,
            offset=len(data),
        )
    reader = SectionReader(name or "verifying key", "verifying key", memoryview(data), 0, len(data))

    def point(part: str, degree: int) -> Any:
        offset = reader.offset
        encoded = bytes(reader.take(form.size(degree, compressed=compressed), part))
        try:
            # `VerifyingKey` checks the subgroups of all points in one launch.
            return form.decode(degree, encoded, compressed=compressed, check_subgroup=False)
        except InputError as error:
            raise InputError(
                f"{error}; {_DAMAGED}", path=name, section=part, offset=offset
            ) from None

    alpha_g1, beta_g2, gamma_g2, delta_g2 = (point(part, degree) for part, degree in _POINTS)
    reader.take(_COUNT_BYTES, "the count of IC")
    ic = [point(f"IC[{index}]", 1) for index in range(count)]
    return VerifyingKey(
        curve, alpha_g1, beta_g2, gamma_g2, delta_g2, ic,
        device=device, path=name, allow_insecure=allow_insecure,
    )  # fmt: skip


def read_verifying_key(
    path: str | PathLike[str],
    curve: str,
    *,
    device: DeviceChoice = "cpu",
    allow_insecure: bool = False,
) -> VerifyingKey:
    """Read a verifying key from a file or pipe; see `verifying_key_from_bytes`."""
    data = read_small(path, limit=_MAX_BYTES, what="a verifying key")
    return verifying_key_from_bytes(
        data, curve, device=device, allow_insecure=allow_insecure, name=os.fspath(path)
    )


def _form(curve: str) -> PointForm:
    return PointForm(_PROGRAM, curve_named(curve))
