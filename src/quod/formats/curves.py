"""Which curve a file is for, told from the primes and names that it states."""

from __future__ import annotations

import numpy as np

from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.errors import InputError
from quod.field.moduli import BN254_FQ, GOLDILOCKS, PALLAS_FQ, PALLAS_FR, Modulus
from quod.formats.iden3 import SectionReader, Words
from quod.validation import shown

# Other primes that circom compiles for, by its names for them, so that an error can name them.
_OTHER_SCALAR_PRIMES = {
    GOLDILOCKS.value: "goldilocks",
    2**256 - 2**224 + 2**192 + 2**96 - 1: "secq256r1",
    BN254_FQ.value: "grumpkin",
    PALLAS_FQ.value: "pallas",
    PALLAS_FR.value: "vesta",
}


def supported_curves() -> str:
    """The known curves, for messages."""
    *rest, last = CURVES
    return ", ".join(rest) + f" and {last}"


def curve_named(name: object) -> PairingCurve:
    """The curve that a caller gives by Quod's name; InputError for anything else."""
    if not isinstance(name, str) or name not in CURVES:
        raise InputError(f"the curve must be one of {', '.join(CURVES)}, not {shown(name)}")
    return CURVES[name]


def curve_of_scalar_prime(prime: int) -> PairingCurve | None:
    """The curve whose group order is `prime`, or None."""
    return next((curve for curve in CURVES.values() if curve.fr.value == prime), None)


def curve_of_json_name(name: str) -> PairingCurve | None:
    """The curve that snarkjs or another tool calls `name`; case and punctuation do not count."""
    plain = "".join(filter(str.isalnum, name)).lower()
    for curve in CURVES.values():
        if plain in (curve.snarkjs_name, *curve.aliases):
            return curve
    return None


def name_of_unknown_prime(prime: int) -> str:
    """How an error names a scalar prime that belongs to no known curve."""
    return _OTHER_SCALAR_PRIMES.get(prime, f"0x{prime:x}")


def read_scalar_curve(header: SectionReader) -> PairingCurve:
    """Read the prime with which the headers of wtns and r1cs files begin, and find its curve."""
    start = header.offset
    prime = header.modulus("the prime")
    curve = curve_of_scalar_prime(prime)
    if curve is None:
        header.fail(
            f"the prime {name_of_unknown_prime(prime)} is not the scalar field of a curve that "
            f"Quod knows ({supported_curves()}); compile the circuit with --prime for one of them",
            start,
        )
    if header.offset - start != 4 + curve.fr.bytes:
        header.fail(
            f"the prime of {curve.name} takes {curve.fr.bytes} bytes, "
            f"not {header.offset - start - 4}; make the file again",
            start,
        )
    return curve


def first_at_or_above(words: Words, modulus: Modulus) -> int | None:
    """Index of the first element of `words` that is not below `modulus`, or None.

    `words` has shape (n, modulus.words): little-endian integers, any strides. Nearly every element
    is decided by its top word, so this costs little more than one pass over one column.
    """
    if not len(words) or int(words[:, -1].max()) < modulus.value >> (32 * (modulus.words - 1)):
        return None
    limits = [modulus.value >> (32 * word) & 0xFFFFFFFF for word in range(modulus.words)]
    undecided = np.flatnonzero(words[:, -1] >= np.uint32(limits[-1]))
    first: int | None = None
    for word in reversed(range(modulus.words)):
        if not undecided.size:
            return first
        column = words[undecided, word]
        above = undecided[column > np.uint32(limits[word])]
        if above.size and (first is None or above[0] < first):
            first = int(above[0])
        undecided = undecided[column == np.uint32(limits[word])]
    # What is left equals the modulus.
    if undecided.size and (first is None or undecided[0] < first):
        first = int(undecided[0])
    return first
