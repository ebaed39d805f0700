"""Writing Groth16 proving keys; `quod.formats.zkey.file` has their layout."""

from __future__ import annotations

import hashlib

from quod.formats.curves import curve_named
from quod.formats.iden3 import Buffer, Words, as_bytes, little_u32, write_iden3
from quod.formats.source import Path
from quod.formats.zkey.file import KIND, VERSION, Coefficients, check_arrays
from quod.formats.zkey.header import GROTH16


def write_zkey(
    path: Path,
    *,
    curve: str,
    public: int,
    domain_size: int,
    alpha_g1: Words,
    beta_g1: Words,
    beta_g2: Words,
    gamma_g2: Words,
    delta_g1: Words,
    delta_g2: Words,
    ic: Words,
    a: Words,
    b_g1: Words,
    b_g2: Words,
    c: Words,
    h: Words,
    coefficients: Coefficients,
    circuit_hash: bytes | None = None,
) -> None:
    """Write a Groth16 proving key atomically, with no contributions.

    Shapes and forms are those of `Zkey`; the number of variables is ``len(a)``. `circuit_hash` is
    64 bytes that identify the circuit. `snarkjs zkey verify` requires snarkjs's own
    hash, which is of a transcript over the powers of tau. The default is BLAKE2b-512 over all
    points and coefficients as they are written.

    Raises InputError for arrays that do not fit together, `OutputError` if writing fails.
    """
    points = {
        "alpha_g1": alpha_g1, "beta_g1": beta_g1, "beta_g2": beta_g2, "gamma_g2": gamma_g2,
        "delta_g1": delta_g1, "delta_g2": delta_g2, "ic": ic, "a": a, "b_g1": b_g1, "b_g2": b_g2,
        "c": c, "h": h,
    }  # fmt: skip
    pairing_curve = curve_named(curve)
    fq, fr = pairing_curve.fq, pairing_curve.fr
    public, domain_size = check_arrays(
        pairing_curve, public, domain_size, coefficients, points, circuit_hash
    )
    header: list[Buffer] = [
        little_u32(fq.bytes),
        fq.value.to_bytes(fq.bytes, "little"),
        little_u32(fr.bytes),
        fr.value.to_bytes(fr.bytes, "little"),
        little_u32(len(a)),
        little_u32(public),
        little_u32(domain_size),
        *(alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2),
    ]
    body: list[tuple[int, list[Buffer]]] = [
        (1, [little_u32(GROTH16)]),
        (2, header),
        (3, [ic]),
        (4, [little_u32(len(coefficients)), coefficients]),
        (5, [a]),
        (6, [b_g1]),
        (7, [b_g2]),
        (8, [c]),
        (9, [h]),
    ]
    if circuit_hash is None:
        hasher = hashlib.blake2b(digest_size=64)
        for _, parts in body:
            for part in parts:
                hasher.update(as_bytes(part))
        circuit_hash = hasher.digest()
    body.append((10, [circuit_hash, little_u32(0)]))
    write_iden3(path, KIND, VERSION, body)
