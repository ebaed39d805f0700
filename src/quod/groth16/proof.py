"""A Groth16 proof as a value, and the public inputs that belong to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

from quod.curve.affine_law import plain_point
from quod.curve.parameters import G1Point, G2Point
from quod.errors import InputError
from quod.formats import ProofJson, proof_to_json, read_proof
from quod.formats.snarkjs_json import parse_proof, parse_public
from quod.frozen import frozen


@frozen
class Proof:
    """Three affine points on `curve` as plain integers; None is the point at infinity.

    Points are copied into tuples. Raises InputError unless each is None or a pair of ints, in G2 a
    pair of pairs of ints. The verifier checks everything else.
    """

    curve: str
    a: G1Point
    b: G2Point
    c: G1Point

    def __post_init__(self) -> None:
        for name, degree in (("a", 1), ("b", 2), ("c", 1)):
            object.__setattr__(self, name, plain_point(getattr(self, name), degree, f"pi_{name}"))

    @classmethod
    def from_json(cls, path: str | PathLike[str], *, curve: str | None = None) -> Proof:
        """Read a proof.json of snarkjs or rapidsnark.

        curve: the curve of the verifying key; without it, the file must name its curve.
        Raises `InputError`, and `MismatchError` if the file names another curve.
        """
        return cls._of(read_proof(path, curve=curve))

    @classmethod
    def from_json_text(
        cls, text: str | bytes, *, curve: str | None = None, name: str = "proof"
    ) -> Proof:
        """Read the text of a proof.json, as strictly as `from_json` reads the file.

        name: the source of the text, for error messages.
        """
        return cls._of(parse_proof(text, curve=curve, name=name))

    @classmethod
    def from_dict(
        cls, document: Mapping[str, Any], *, curve: str | None = None, name: str = "proof"
    ) -> Proof:
        """Convert a parsed proof.json, with the checks of `from_json_text`.

        document: the result of `json.load`, or `RemoteJob.proof` of a proving service.
        """
        try:
            text = json.dumps(dict(document), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise InputError(
                "is not a JSON document; pass the result of json.load", path=name
            ) from None
        return cls.from_json_text(text, curve=curve, name=name)

    @classmethod
    def _of(cls, fields: ProofJson) -> Proof:
        return cls(fields.curve, fields.a, fields.b, fields.c)

    def to_json(self) -> str:
        """Return the text of a proof.json as snarkjs writes it; InputError for an unknown curve."""
        return proof_to_json(ProofJson(self.curve, self.a, self.b, self.c)).decode()


def public_from_json_text(text: str | bytes, *, curve: str) -> tuple[int, ...]:
    """Return the public inputs in the text of a public.json, for a verifying key over `curve`.

    Raises `InputError` unless the text is a list of canonical decimal strings below the order.
    """
    return parse_public(text, curve=curve)
