"""The curve or field of a file, identified by the prime or the name in it.

circom also compiles for primes without a pairing curve. Quod reads and writes witnesses and
constraint systems over them, but Groth16 cannot prove them.
"""

from __future__ import annotations

import re

import numpy as np

from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.errors import InputError
from quod.field.moduli import BN254_FQ, GOLDILOCKS, PALLAS_FQ, PALLAS_FR, Modulus
from quod.formats.iden3 import SectionReader, Words
from quod.validation import shown

_P256_FQ = Modulus.unchecked("secq256r1", 2**256 - 2**224 + 2**192 + 2**96 - 1)

OTHER_FIELDS: dict[str, Modulus] = {
    "goldilocks": GOLDILOCKS,
    "grumpkin": BN254_FQ,
    "pallas": PALLAS_FQ,
    "vesta": PALLAS_FR,
    "secq256r1": _P256_FQ,
}
"""The primes of circom (`--prime`) without a pairing curve, by circom's names."""

_UNNAMED = re.compile(r"prime 0x([1-9a-f][0-9a-f]*)")
"""The name of a field without a name in `CURVES` and `OTHER_FIELDS`."""


def supported_curves() -> str:
    """Return the names of the known curves, for messages."""
    *others, last = CURVES
    return ", ".join(others) + f" and {last}"


def curve_named(name: object) -> PairingCurve:
    """Return the curve with Quod's name `name`; raise InputError for anything else."""
    if not isinstance(name, str) or name not in CURVES:
        raise InputError(f"the curve must be one of {', '.join(CURVES)}, not {shown(name)}")
    return CURVES[name]


def curve_of_json_name(name: str) -> PairingCurve | None:
    """Return the curve that snarkjs or another tool calls `name`, or None.

    Case and punctuation are ignored.
    """
    normalised = "".join(filter(str.isalnum, name)).lower()
    for curve in CURVES.values():
        if normalised in (curve.snarkjs_name, *curve.aliases):
            return curve
    return None


def pairing_curve(name: str, path: str) -> PairingCurve:
    """Return the curve of a constraint system that is to be proved; errors call it `path`.

    Raises InputError if the field has no pairing curve.
    """
    if name in OTHER_FIELDS:
        raise InputError(
            f"is over {name}, which has no pairing, as Groth16 requires; compile the "
            f"circuit with --prime for one of {supported_curves()}",
            path=path,
        )
    return curve_named(name)


def field_named(name: object) -> Modulus:
    """Return the field of a witness or a constraint system, by its curve's or circom's name.

    Raises InputError for anything else.
    """
    if isinstance(name, str) and name in OTHER_FIELDS:
        return OTHER_FIELDS[name]
    unnamed = _UNNAMED.fullmatch(name) if isinstance(name, str) else None
    if unnamed and (value := int(unnamed[1], 16)) > 1:
        return _unnamed_field(value)
    if not isinstance(name, str) or name not in CURVES:
        names = ", ".join([*CURVES, *OTHER_FIELDS])
        raise InputError(f"the curve must be one of {names}, not {shown(name)}")
    return CURVES[name].fr


def _unnamed_field(value: int) -> Modulus:
    """Return the field of any modulus; files store its elements in multiples of 8 bytes."""
    field = Modulus.unchecked(f"prime 0x{value:x}", value)
    field.__dict__["words"] = 2 * -(-value.bit_length() // 64)
    return field


def field_of_prime(prime: int) -> tuple[str, Modulus] | None:
    """Return the name and the field of a prime that circom compiles for, or None."""
    names = (*CURVES, *OTHER_FIELDS)
    fields = ((name, field_named(name)) for name in names)
    return next(((name, field) for name, field in fields if field.value == prime), None)


def field_rows(name: str) -> dict[str, object]:
    """Return the rows about the field in the description of a file."""
    return {"curve": None, "prime": name} if name in OTHER_FIELDS else {"curve": name}


def read_field(header: SectionReader, *, any_prime: bool = False) -> tuple[str, Modulus]:
    """Read the prime at the start of a wtns or r1cs header; return its name and its field.

    With `any_prime` the field need not have a name; the caller checks that its modulus is prime.
    """
    start = header.offset
    prime = header.modulus("the prime")
    named_field = field_of_prime(prime)
    if named_field is None and any_prime and prime > 1:
        field = _unnamed_field(prime)
        named_field = field.name, field
    if named_field is None:
        header.fail(
            f"the prime 0x{prime:x} is not supported: it must be the prime of "
            f"{', '.join([*CURVES, *OTHER_FIELDS])}; compile the circuit with --prime "
            "for one of them",
            start,
        )
    name, field = named_field
    if header.offset - start != 4 + field.bytes:
        header.fail(
            f"the prime of {name} takes {field.bytes} bytes, "
            f"not {header.offset - start - 4}; make the file again",
            start,
        )
    return named_field


def first_at_or_above(words: Words, modulus: Modulus) -> int | None:
    """Return the index of the first element of `words` that is not below `modulus`, or None.

    `words` has shape (n, modulus.words): little-endian integers, any strides. The highest word
    decides nearly every element, so the check costs little more than one pass over that column.
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
    # The remaining elements equal the modulus.
    if undecided.size and (first is None or undecided[0] < first):
        first = int(undecided[0])
    return first
