"""A Groth16 proof as a value."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from quod.curve.parameters import G1Point, G2Point
from quod.formats import ProofJson, proof_to_json, read_proof


@dataclass(frozen=True)
class Proof:
    """Three affine points on `curve` as plain integers; None is the point at infinity.

    Nothing about a proof is checked before it is verified.
    """

    curve: str
    a: G1Point
    b: G2Point
    c: G1Point

    @classmethod
    def from_json(cls, path: str | PathLike[str], *, curve: str | None = None) -> Proof:
        """Read a proof.json of snarkjs or rapidsnark.

        `curve` is that of the verifying key; without it the file must name its curve. Raises
        `InputError`, and `MismatchError` when the file names another curve.
        """
        read = read_proof(path, curve=curve)
        return cls(read.curve, read.a, read.b, read.c)

    def to_json(self) -> str:
        """The text of a proof.json as snarkjs writes it."""
        return proof_to_json(ProofJson(self.curve, self.a, self.b, self.c)).decode()
