"""Files of other programs, one module a format: read with every check, written atomically.

Arrays are NumPy and, where the file allows it, views of the mapped file. Whatever is wrong with a
file is an `InputError` that names the file, the section and the offset, and says what to do.
"""

from __future__ import annotations

from quod.formats.inspect import describe
from quod.formats.output import write_all_atomically, write_atomically
from quod.formats.r1cs import R1cs, SparseMatrix, write_r1cs
from quod.formats.snarkjs_json import (
    ProofJson,
    VerifyingKeyJson,
    parse_proof,
    parse_public,
    parse_verification_key,
    proof_to_json,
    public_to_json,
    read_proof,
    read_public,
    read_verification_key,
    verification_key_to_json,
)
from quod.formats.wtns import Witness, write_wtns
from quod.formats.zkey import Zkey, coefficient_dtype, write_zkey

__all__ = [
    "Zkey",
    "coefficient_dtype",
    "write_zkey",
    "Witness",
    "write_wtns",
    "R1cs",
    "SparseMatrix",
    "write_r1cs",
    "ProofJson",
    "VerifyingKeyJson",
    "read_proof",
    "read_public",
    "read_verification_key",
    "parse_proof",
    "parse_public",
    "parse_verification_key",
    "proof_to_json",
    "public_to_json",
    "verification_key_to_json",
    "describe",
    "write_atomically",
    "write_all_atomically",
]
