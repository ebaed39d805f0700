"""The JSON files of snarkjs: proof.json, public.json and verification_key.json of Groth16.

Integers are decimal strings. A point of G1 is [x, y, z], one of G2 the same with pairs [c0, c1]; z
is 1, or 0 for infinity, which snarkjs writes as (0, 1, 0). In Python a point is the pair of its
affine coordinates, as integers, and infinity is None.

Reading is strict: a key that is missing or occurs twice, a number that is not a canonical decimal
string below its modulus, a list of another length, NaN and any other z are errors. Other
keys are ignored; in a proof "protocol" and "curve" may be missing, as other provers leave
them out. snarkjs before 0.3 called the protocol "groth", did not name the curve (always bn128), and
spelt "alpha" as "alfa" in keys: both forms are read. The cost of reading is bounded, see
`quod.formats.strict_json`. Written files equal those of snarkjs byte for byte.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from quod.curve.affine_law import plain_point
from quod.curve.parameters import PairingCurve
from quod.errors import InputError, MismatchError
from quod.field.moduli import Modulus
from quod.formats.curves import curve_named, curve_of_json_name, supported_curves
from quod.formats.source import Path
from quod.formats.strict_json import (
    PROOF,
    PROOFS,
    PUBLIC,
    PUBLICS,
    VERIFICATION_KEY,
    JsonKind,
    json_type_of,
    parse_json,
    read_json,
    shown,
)
from quod.frozen import frozen
from quod.validation import in_order, instance

Fq2 = tuple[int, int]
G1 = tuple[int, int] | None
G2 = tuple[Fq2, Fq2] | None
# (c0, c1) of Fq12 over Fq6, each of three elements of Fq2.
Fq12 = tuple[tuple[Fq2, Fq2, Fq2], tuple[Fq2, Fq2, Fq2]]

T = TypeVar("T")

PROTOCOL = "groth16"
_OLD_PROTOCOL = "groth"
_OLD_CURVE = "bn254"

_DECIMAL = re.compile(r"0|[1-9][0-9]*", re.ASCII)
# The largest modulus has 115 digits (q of BLS12-381). Text with more digits than this is not passed
# to int().
_MAX_DIGITS = 160
_INTEGER_LIMIT = 10**_MAX_DIGITS


@frozen
class ProofJson:
    """A proof: Quod's name of the curve, and three affine points."""

    curve: str
    a: G1
    b: G2
    c: G1


@frozen
class VerifyingKeyJson:
    """A verifying key; `ic` has one more point than there are public inputs.

    `alphabeta` is e(alpha, beta), or None if the file lacks it; verifiers must not rely on it.
    """

    curve: str
    alpha_g1: G1
    beta_g2: G2
    gamma_g2: G2
    delta_g2: G2
    ic: tuple[G1, ...]
    alphabeta: Fq12 | None = None

    @property
    def public(self) -> int:
        """The number of public inputs."""
        return len(self.ic) - 1


class _Reader:
    """A validator of the values of one file; errors name the key, such as ``IC[2][0]``."""

    def __init__(self, path: str) -> None:
        self.path = instance("name", path, str, "name the source of the text")

    def fail(self, key: str, message: str) -> NoReturn:
        raise InputError(f"{key} {message}", path=self.path)

    def get(self, document: dict[str, Any], key: str) -> Any:
        if key not in document:
            self.fail(f'"{key}"', "is missing; check that this is the right file")
        return document[key]

    def either(self, document: dict[str, Any], key: str, old: str) -> tuple[str, Any]:
        """Return the name that the document uses for a key, `key` or `old`, and its value."""
        if key in document and old in document:
            self.fail(f'"{old}"', f'occurs together with "{key}", its new name; keep one')
        name = old if old in document else key
        return name, self.get(document, name)

    def sequence(self, value: Any, key: str, length: int | None = None) -> list[Any]:
        if not isinstance(value, list):
            self.fail(key, f"must be a list, not {json_type_of(value)}")
        if length is not None and len(value) != length:
            self.fail(key, f"must have {length} elements, not {len(value)}")
        return value

    def integer(self, value: Any, key: str, modulus: Modulus) -> int:
        if not isinstance(value, str):
            self.fail(key, f'must be a decimal string such as "7", not {json_type_of(value)}')
        if not _DECIMAL.fullmatch(value):
            self.fail(
                key,
                f"must be a decimal integer without sign, spaces or leading zeros, "
                f"not {shown(value)}",
            )
        number = int(value) if len(value) <= _MAX_DIGITS else modulus.value
        if number >= modulus.value:
            self.fail(key, f"must be below the modulus {modulus.name}; reduced forms only")
        return number

    def fq2(self, value: Any, key: str, fq: Modulus) -> Fq2:
        c0, c1 = self.sequence(value, key, 2)
        return self.integer(c0, f"{key}[0]", fq), self.integer(c1, f"{key}[1]", fq)

    def g1(self, value: Any, key: str, fq: Modulus) -> G1:
        x, y, z = (
            self.integer(coordinate, f"{key}[{index}]", fq)
            for index, coordinate in enumerate(self.sequence(value, key, 3))
        )
        return (x, y) if self._affine(z == 1, (x, y, z) == (0, 1, 0), key) else None

    def g2(self, value: Any, key: str, fq: Modulus) -> G2:
        x, y, z = (
            self.fq2(coordinate, f"{key}[{index}]", fq)
            for index, coordinate in enumerate(self.sequence(value, key, 3))
        )
        infinity = (x, y, z) == ((0, 0), (1, 0), (0, 0))
        return (x, y) if self._affine(z == (1, 0), infinity, key) else None

    def _affine(self, is_one: bool, infinity: bool, key: str) -> bool:
        """Return whether z is 1; raise InputError if the point is not infinity either."""
        if not is_one and not infinity:
            self.fail(
                f"{key}[2]",
                "must be 1; convert the point to affine coordinates (infinity is 0, 1, 0)",
            )
        return is_one

    def document(self, value: Any, kind: JsonKind) -> dict[str, Any]:
        """Return the object of a document, after checking the protocol that it states."""
        if not isinstance(value, dict):
            self.fail("the document", f"must be an object ({kind.what}), not {json_type_of(value)}")
        # Other provers leave the protocol out of a proof; keys must have it.
        if "protocol" not in value and kind is not PROOF:
            self.fail('"protocol"', f'is missing; a key of snarkjs has "protocol": "{PROTOCOL}"')
        protocol = value.get("protocol", PROTOCOL)
        if protocol not in (PROTOCOL, _OLD_PROTOCOL):
            self.fail('"protocol"', f'must be "{PROTOCOL}", not {shown(protocol)}')
        return value

    def curve(self, document: dict[str, Any]) -> PairingCurve:
        """Return the curve that a document names, or that its old protocol implies."""
        if "curve" not in document and document.get("protocol") == _OLD_PROTOCOL:
            return curve_named(_OLD_CURVE)
        name = self.get(document, "curve")
        curve = curve_of_json_name(name) if isinstance(name, str) else None
        if curve is None:
            self.fail('"curve"', f"must be one of {supported_curves()}, not {shown(name)}")
        return curve


def read_proof(path: Path, *, curve: str | None = None) -> ProofJson:
    """Read a proof.json, from a file or a pipe; see `parse_proof`."""
    return parse_proof(read_json(path, PROOF), curve=curve, name=os.fspath(path))


def read_public(path: Path, *, curve: str) -> tuple[int, ...]:
    """Read a public.json, from a file or a pipe; see `parse_public`."""
    return parse_public(read_json(path, PUBLIC), curve=curve, name=os.fspath(path))


def read_proofs(path: Path, *, curve: str) -> list[ProofJson | InputError]:
    """Read a list of proofs, from a file or a pipe; see `parse_proofs`."""
    return parse_proofs(read_json(path, PROOFS), curve=curve, name=os.fspath(path))


def read_publics(path: Path, *, curve: str) -> list[tuple[int, ...] | InputError]:
    """Read a list of lists of public inputs, one per proof; see `parse_publics`."""
    return parse_publics(read_json(path, PUBLICS), curve=curve, name=os.fspath(path))


def read_verification_key(path: Path) -> VerifyingKeyJson:
    """Read a verification_key.json, from a file or a pipe; see `parse_verification_key`."""
    return parse_verification_key(read_json(path, VERIFICATION_KEY), name=os.fspath(path))


def parse_proof(data: bytes | str, *, curve: str | None = None, name: str = "proof") -> ProofJson:
    """Parse the text of a proof.json; `name` stands for the path in errors.

    `curve` is the curve of the verifying key. Some provers (rapidsnark) do not name it in the
    proof; without a curve from either source a proof cannot be read. Raises `InputError`, and
    `MismatchError` if the proof names another curve.
    """
    curve = None if curve is None else curve_named(curve).name
    return _proof(_Reader(name), parse_json(data, name, PROOF), curve)


def parse_proofs(
    data: bytes | str, *, curve: str, name: str = "proofs"
) -> list[ProofJson | InputError]:
    """Parse a JSON list of proofs; a malformed proof is replaced by its error.

    Raises `InputError` if the text is not a list.
    """
    curve = curve_named(curve).name
    values = _Reader(name).sequence(parse_json(data, name, PROOFS), "the document")
    return _each(values, name, lambda reader, value: _proof(reader, value, curve))


def parse_publics(
    data: bytes | str, *, curve: str, name: str = "public inputs"
) -> list[tuple[int, ...] | InputError]:
    """Parse a JSON list of lists of public inputs, one for each proof; see `parse_proofs`."""
    values = _Reader(name).sequence(parse_json(data, name, PUBLICS), "the document")
    fr = curve_named(curve).fr
    return _each(values, name, lambda reader, value: _public(reader, value, fr))


def _each(
    values: Sequence[Any], name: str, read: Callable[[_Reader, Any], T]
) -> list[T | InputError]:
    """Read each value; the error of a malformed one takes its place."""
    parsed: list[T | InputError] = []
    for index, value in enumerate(values):
        try:
            parsed.append(read(_Reader(f"{name}[{index}]"), value))
        except InputError as error:
            parsed.append(error)
    return parsed


def _proof(reader: _Reader, value: Any, curve: str | None) -> ProofJson:
    """Return a proof from its parsed JSON; `curve` is that of the verifying key, if known."""
    document = reader.document(value, PROOF)
    if "curve" in document:
        proof_curve = reader.curve(document)
    elif document.get("protocol") == _OLD_PROTOCOL:
        proof_curve = curve_named(_OLD_CURVE)
    elif curve is not None:
        proof_curve = curve_named(curve)
    else:
        reader.fail('"curve"', 'is missing; add it, for example "curve": "bn128"')
    if curve is not None and proof_curve.name != curve:
        raise MismatchError(
            f"the proof is over {proof_curve.name} and the verifying key over {curve}; "
            "use the key of the circuit that was proved",
            path=reader.path,
        )
    return ProofJson(
        proof_curve.name,
        reader.g1(reader.get(document, "pi_a"), "pi_a", proof_curve.fq),
        reader.g2(reader.get(document, "pi_b"), "pi_b", proof_curve.fq),
        reader.g1(reader.get(document, "pi_c"), "pi_c", proof_curve.fq),
    )


def parse_public(data: bytes | str, *, curve: str, name: str = "public inputs") -> tuple[int, ...]:
    """Parse the text of a public.json: integers below the scalar prime of `curve`.

    Raises `InputError`, also for ``x + r`` in place of x.
    """
    return _public(_Reader(name), parse_json(data, name, PUBLIC), curve_named(curve).fr)


def _public(reader: _Reader, value: Any, fr: Modulus) -> tuple[int, ...]:
    values = reader.sequence(value, "the document")
    return tuple(reader.integer(value, f"[{i}]", fr) for i, value in enumerate(values))


def parse_verification_key(
    data: bytes | str, *, name: str = "verification key"
) -> VerifyingKeyJson:
    """Parse the text of a verification_key.json. Raises `InputError`."""
    reader = _Reader(name)
    document = reader.document(parse_json(data, name, VERIFICATION_KEY), VERIFICATION_KEY)
    curve = reader.curve(document)
    public = reader.get(document, "nPublic")
    if type(public) is not int or public < 0:
        reader.fail('"nPublic"', f"must be a count, not {shown(public)}")
    ic = reader.sequence(reader.get(document, "IC"), "IC")
    if len(ic) != public + 1:
        reader.fail("IC", f"must have nPublic + 1 = {public + 1} points, not {len(ic)}")
    fq = curve.fq
    alpha = reader.either(document, "vk_alpha_1", "vk_alfa_1")
    alphabeta: tuple[str, Any] = "vk_alphabeta_12", None
    if "vk_alphabeta_12" in document or "vk_alfabeta_12" in document:
        alphabeta = reader.either(document, "vk_alphabeta_12", "vk_alfabeta_12")
    return VerifyingKeyJson(
        curve.name,
        reader.g1(alpha[1], alpha[0], fq),
        reader.g2(reader.get(document, "vk_beta_2"), "vk_beta_2", fq),
        reader.g2(reader.get(document, "vk_gamma_2"), "vk_gamma_2", fq),
        reader.g2(reader.get(document, "vk_delta_2"), "vk_delta_2", fq),
        tuple(reader.g1(point, f"IC[{i}]", fq) for i, point in enumerate(ic)),
        None if alphabeta[1] is None else _fq12(reader, *alphabeta, fq),
    )


def _fq12(reader: _Reader, key: str, value: Any, fq: Modulus) -> Fq12:
    def fq6(value: Any, key: str) -> tuple[Fq2, Fq2, Fq2]:
        c0, c1, c2 = reader.sequence(value, key, 3)
        return (
            reader.fq2(c0, f"{key}[0]", fq),
            reader.fq2(c1, f"{key}[1]", fq),
            reader.fq2(c2, f"{key}[2]", fq),
        )

    first, second = reader.sequence(value, key, 2)
    return fq6(first, f"{key}[0]"), fq6(second, f"{key}[1]")


def proof_to_json(proof: ProofJson) -> bytes:
    """Return the text of a proof.json.

    Raises InputError for an unknown curve, and for points that the reader would refuse.
    """
    curve = curve_named(proof.curve)
    return _dump(
        {
            "pi_a": point_strings(proof.a, 1, "pi_a", curve.fq),
            "pi_b": point_strings(proof.b, 2, "pi_b", curve.fq),
            "pi_c": point_strings(proof.c, 1, "pi_c", curve.fq),
            "protocol": PROTOCOL,
            "curve": curve.snarkjs_name,
        }
    )


def public_to_json(public: Sequence[int]) -> bytes:
    """Return the text of a public.json, from canonical integers.

    Raises InputError for anything but a list of non-negative int.
    """
    values = [*in_order("public inputs", public)]
    # The curve is not known here, so only integers above every modulus are refused.
    if not all(type(value) is int and 0 <= value < _INTEGER_LIMIT for value in values):
        raise InputError("public inputs must be non-negative int below the prime of a curve")
    return _dump([str(value) for value in values])


def verification_key_to_json(key: VerifyingKeyJson) -> bytes:
    """Return the text of a verification_key.json.

    Raises InputError if `key.alphabeta` is None, and for points that the reader would refuse.
    """
    if key.alphabeta is None:
        raise InputError("the verification key needs alphabeta = e(alpha, beta)")
    curve = curve_named(key.curve)
    fq = curve.fq
    return _dump(
        {
            "protocol": PROTOCOL,
            "curve": curve.snarkjs_name,
            "nPublic": key.public,
            "vk_alpha_1": point_strings(key.alpha_g1, 1, "vk_alpha_1", fq),
            "vk_beta_2": point_strings(key.beta_g2, 2, "vk_beta_2", fq),
            "vk_gamma_2": point_strings(key.gamma_g2, 2, "vk_gamma_2", fq),
            "vk_delta_2": point_strings(key.delta_g2, 2, "vk_delta_2", fq),
            "vk_alphabeta_12": [
                [[str(c0), str(c1)] for c0, c1 in coefficients] for coefficients in key.alphabeta
            ],
            "IC": [point_strings(point, 1, f"IC[{i}]", fq) for i, point in enumerate(key.ic)],
        }
    )


def point_strings(point: G1 | G2, degree: int, name: str, fq: Modulus) -> list[Any]:
    """Return a point with its third coordinate, as decimal strings."""
    plain = plain_point(point, degree, name)
    if degree == 1:
        rows = [(0, 1, 0) if plain is None else (*plain, 1)]
    else:
        rows = [(0, 0), (1, 0), (0, 0)] if plain is None else [*plain, (1, 0)]
    if not all(0 <= value < fq.value for row in rows for value in row):
        raise InputError(f"a coordinate of {name} is negative, or not below the modulus {fq.name}")
    strings = [[str(value) for value in row] for row in rows]
    return strings[0] if degree == 1 else strings


def _dump(value: object) -> bytes:
    # snarkjs writes a line break into an empty list.
    return b"[\n]" if value == [] else json.dumps(value, indent=1).encode()
