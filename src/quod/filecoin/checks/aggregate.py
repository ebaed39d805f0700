"""Check that an aggregate of Groth16 proofs (SnarkPack) is well formed; it is not verified.

An aggregate has, for n proofs, n padded to a power of two (Gailly, Maller and Nitulescu, SnarkPack,
https://eprint.iacr.org/2021/529; bellperson's groth16/aggregate/proof.rs has the order)::

    com_ab 2 Gt, com_c 2 Gt, ip_ab Gt, agg_c G1
    n as 4 bytes, little-endian
    log2(n) times 4 Gt, log2(n) times 4 Gt, log2(n) times 2 Gt, log2(n) times 2 G1
    final a G1, b G2, c G1, vkey 2 G2, wkey 2 G1
    openings of vkey 2 G2, of wkey 2 G1

Points of G1 and G2 are in the Zcash form, compressed. An element of Gt has 288 bytes: the 6
coefficients of its compression to the torus, each a little-endian integer below q.
"""

from __future__ import annotations

from collections.abc import Iterator

from quod.curve.encoding.points import decode_zcash_g1, decode_zcash_g2
from quod.curve.named.bls12_381 import BLS12_381
from quod.errors import InputError
from quod.validation import plain_bytes

_FP, _G1, _G2, _GT, _COUNT = 48, 48, 96, 288, 4
_COUNT_OFFSET = 5 * _GT + _G1
_MAX_LOG2 = 13


def check_aggregate(data: bytes, name: str | None = None) -> int:
    """Check that an aggregate is well formed, and return its number of proofs.

    The aggregate is not verified: a well-formed one may be invalid.
    name: its file, for errors.
    Raises InputError, with the offset, for a wrong length, a point that is not in G1 or G2, and a
    coefficient of Gt that is not below q. That an element of Gt has the order r is not checked.
    """
    data = plain_bytes("an aggregate", data)
    count = int.from_bytes(data[_COUNT_OFFSET : _COUNT_OFFSET + _COUNT], "little")
    log2 = count.bit_length() - 1
    if not 1 <= log2 <= _MAX_LOG2 or count != 1 << log2:
        raise InputError(
            f"is not an aggregate: {count} is not a power of two from 2 to {1 << _MAX_LOG2}",
            path=name, offset=_COUNT_OFFSET,
        )  # fmt: skip
    offset = 0
    for part, size in _parts(log2):
        value = data[offset : offset + size]
        if len(value) < size:
            raise InputError("the aggregate is cut off", path=name, offset=len(data))
        try:
            _check_part(part, value)
        except InputError as error:
            raise InputError(f"{part}: {error.message}", path=name, offset=offset) from None
        offset += size
    if offset != len(data):
        raise InputError(
            f"has {len(data) - offset} bytes after the aggregate", path=name, offset=offset
        )
    return count


def has_aggregate_size(size: int) -> bool:
    """Return true if an aggregate of some number of proofs has this many bytes."""
    return any(size == sum(each for _, each in _parts(log2)) for log2 in range(1, _MAX_LOG2 + 1))


def _parts(log2: int) -> Iterator[tuple[str, int]]:
    """Yield the group and the bytes of each part in order."""
    sizes = {"Gt": _GT, "G1": _G1, "G2": _G2, "the number of proofs": _COUNT}
    for group, repeats in (
        ("Gt", 5), ("G1", 1), ("the number of proofs", 1), ("Gt", 10 * log2), ("G1", 2 * log2),
        ("G1", 1), ("G2", 1), ("G1", 1), ("G2", 2), ("G1", 2), ("G2", 2), ("G1", 2),
    ):  # fmt: skip
        yield from [(group, sizes[group])] * repeats


def _check_part(part: str, value: bytes) -> None:
    if part == "G1":
        decode_zcash_g1(value)
    elif part == "G2":
        decode_zcash_g2(value)
    elif part == "Gt":
        for start in range(0, _GT, _FP):
            if int.from_bytes(value[start : start + _FP], "little") >= BLS12_381.fq.value:
                raise InputError(f"coefficient {start // _FP} is not below q")
