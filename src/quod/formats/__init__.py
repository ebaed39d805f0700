"""Files of other programs, one module a format: read with full validation, written atomically.

Arrays are NumPy arrays and, where the file allows it, views of the mapped file. Any fault of a file
raises an `InputError` that names the file, the section and the offset, and says what to do.

The names below load on first use (PEP 562), so that a prover does not import the writers of keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.formats.bellman import BellmanParameters as BellmanParameters
    from quod.formats.bellman import BellmanVerifyingKey as BellmanVerifyingKey
    from quod.formats.bellman import write_bellman_key as write_bellman_key
    from quod.formats.bellman import write_bellman_parameters as write_bellman_parameters
    from quod.formats.circuit6.file import Circuit6 as Circuit6
    from quod.formats.circuit6.file import write_circuit6 as write_circuit6
    from quod.formats.circuit6.witness import Circuit6Witness as Circuit6Witness
    from quod.formats.circuit6.witness import write_circuit6_witness as write_circuit6_witness
    from quod.formats.gguf.file import Gguf as Gguf
    from quod.formats.gguf.file import GgufTensor as GgufTensor
    from quod.formats.gguf.types import GGUF_TYPES as GGUF_TYPES
    from quod.formats.gguf.types import GgufType as GgufType
    from quod.formats.gguf.writer import write_gguf as write_gguf
    from quod.formats.inspect import describe as describe
    from quod.formats.output import write_all_atomically as write_all_atomically
    from quod.formats.output import write_atomically as write_atomically
    from quod.formats.ptau import PowersOfTau as PowersOfTau
    from quod.formats.r1cs import R1cs as R1cs
    from quod.formats.r1cs import SparseMatrix as SparseMatrix
    from quod.formats.r1cs import write_r1cs as write_r1cs
    from quod.formats.snarkjs_json import ProofJson as ProofJson
    from quod.formats.snarkjs_json import VerifyingKeyJson as VerifyingKeyJson
    from quod.formats.snarkjs_json import parse_proof as parse_proof
    from quod.formats.snarkjs_json import parse_proofs as parse_proofs
    from quod.formats.snarkjs_json import parse_public as parse_public
    from quod.formats.snarkjs_json import parse_publics as parse_publics
    from quod.formats.snarkjs_json import parse_verification_key as parse_verification_key
    from quod.formats.snarkjs_json import proof_to_json as proof_to_json
    from quod.formats.snarkjs_json import public_to_json as public_to_json
    from quod.formats.snarkjs_json import read_proof as read_proof
    from quod.formats.snarkjs_json import read_proofs as read_proofs
    from quod.formats.snarkjs_json import read_public as read_public
    from quod.formats.snarkjs_json import read_publics as read_publics
    from quod.formats.snarkjs_json import read_verification_key as read_verification_key
    from quod.formats.snarkjs_json import verification_key_to_json as verification_key_to_json
    from quod.formats.wtns import Witness as Witness
    from quod.formats.wtns import write_wtns as write_wtns
    from quod.formats.zkey.file import Zkey as Zkey
    from quod.formats.zkey.file import coefficient_dtype as coefficient_dtype
    from quod.formats.zkey.writer import write_zkey as write_zkey
else:
    __getattr__, __dir__ = lazy_names(__name__)
