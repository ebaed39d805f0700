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

    Points are copied into tuples; InputError for what is no pair of int (in G2 of pairs of int).
    Nothing else about a proof is checked before it is verified.
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

        `curve` is that of the verifying key; without it the file must name its curve. Raises
        `InputError`, and `MismatchError` when the file names another curve.
        """
        return cls._of(read_proof(path, curve=curve))

    @classmethod
    def from_json_text(
        cls, text: str | bytes, *, curve: str | None = None, name: str = "proof"
    ) -> Proof:
        """Read the text of a proof.json, as strictly as `from_json` reads the file.

        `name` says in errors where it comes from.
        """
        return cls._of(parse_proof(text, curve=curve, name=name))

    @classmethod
    def from_dict(
        cls, document: Mapping[str, Any], *, curve: str | None = None, name: str = "proof"
    ) -> Proof:
        """Take a proof.json that is parsed already, as strictly as `from_json_text` reads its text.

        The document is what `json.load` returns, or `RemoteJob.proof` of a proving service.
        """
        try:
            text = json.dumps(dict(document), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise InputError(
                "is not a JSON document; pass the result of json.load", path=name
            ) from None
        return cls.from_json_text(text, curve=curve, name=name)

    @classmethod
    def _of(cls, read: ProofJson) -> Proof:
        return cls(read.curve, read.a, read.b, read.c)

    def to_json(self) -> str:
        """The text of a proof.json as snarkjs writes it; InputError for an unknown curve."""
        return proof_to_json(ProofJson(self.curve, self.a, self.b, self.c)).decode()


def public_from_json_text(text: str | bytes, *, curve: str) -> tuple[int, ...]:
    """The public inputs in the text of a public.json, for a verifying key over `curve`.

    Raises `InputError` for whatever is no list of canonical decimal strings below the order.
    """
    return parse_public(text, curve=curve)
