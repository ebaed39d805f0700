"""The kinds of proofs of Sapling and MASP: each has a circuit, a statement and a ceremony."""

from __future__ import annotations

from collections.abc import Callable

from quod.frozen import frozen
from quod.names import NameTable
from quod.r1cs import Circuit
from quod.zcash.masp import masp_convert_circuit, masp_output_circuit, masp_spend_circuit
from quod.zcash.output import output_circuit
from quod.zcash.output_statement import OutputStatement
from quod.zcash.protocol import MASP, SAPLING, Protocol
from quod.zcash.spend import spend_circuit
from quod.zcash.spend_statement import ConvertStatement, SpendStatement

Statement = SpendStatement | OutputStatement | ConvertStatement


@frozen
class ProofKind:
    """A kind of proof.

    name: such as ``sapling-spend``.
    protocol: SAPLING or MASP.
    statement: the class of its statements.
    circuit: returns the circuit.
    file_bytes: the size of the ceremony's parameters, with their transcript.
    file_digest: BLAKE2b-512 of that file, in hex, as its ceremony published it.
    """

    name: str
    protocol: Protocol
    statement: type[Statement]
    circuit: Callable[[], Circuit]
    file_bytes: int
    file_digest: str

    def __repr__(self) -> str:
        return self.name

    @property
    def file_name(self) -> str:
        """The name of the ceremony's file."""
        return f"{self.name}.params"

    @property
    def public(self) -> int:
        """The number of public inputs."""
        return self.statement.public_inputs


SAPLING_SPEND = ProofKind(
    "sapling-spend", SAPLING, SpendStatement, spend_circuit, 47_958_396,
    "8270785a1a0d0bc77196f000ee6d221c9c9894f55307bd9357c3f0105d31ca63"
    "991ab91324160d8f53e2bbd3c2633a6eb8bdf5205d822e7f3f73edac51b2b70c",
)  # fmt: skip
SAPLING_OUTPUT = ProofKind(
    "sapling-output", SAPLING, OutputStatement, output_circuit, 3_592_860,
    "657e3d38dbb5cb5e7dd2970e8b03d69b4787dd907285b5a7f0790dcc8072f60b"
    "f593b32cc2d1c030e00ff5ae64bf84c5c3beb84ddc841d48264b4a171744d028",
)  # fmt: skip
MASP_SPEND = ProofKind(
    "masp-spend", MASP, SpendStatement, masp_spend_circuit, 49_848_572,
    "196e7c717f25e16653431559ce2c8816e750a4490f98696e3c031efca37e25e0"
    "647182b7b013660806db11eb2b1e365fb2d6a0f24dbbd9a4a8314fef10a7cba2",
)  # fmt: skip
MASP_OUTPUT = ProofKind(
    "masp-output", MASP, OutputStatement, masp_output_circuit, 16_398_620,
    "eafc3b1746cccc8b9eed2b69395692c5892f6aca83552a07dceb2dcbaa64dcd0"
    "e22434260b3aa3b049b633a08b008988cbe0d31effc77e2bc09bfab690a23724",
)  # fmt: skip
MASP_CONVERT = ProofKind(
    "masp-convert", MASP, ConvertStatement, masp_convert_circuit, 22_570_940,
    "dc4aaf3c3ce056ab448b6c4a7f43c1d68502c2902ea89ab8769b1524a2e8ace9"
    "a5369621a73ee1daa52aec826907a19974a37874391cf8f11bbe0b0420de1ab7",
)  # fmt: skip

KINDS: NameTable[ProofKind] = NameTable(
    "quod.zcash.proofs.kinds.KINDS", "a kind of proof",
    {
        kind.name: kind
        for kind in (SAPLING_OUTPUT, MASP_OUTPUT, SAPLING_SPEND, MASP_SPEND, MASP_CONVERT)
    },
)  # fmt: skip
"""The kinds by name, as commands and benchmarks take them."""


def kind_of(protocol: Protocol, statement: type[Statement]) -> ProofKind | None:
    """Return the kind of a protocol with these statements; None for Converts of Sapling."""
    for kind in KINDS.values():
        if kind.protocol == protocol and kind.statement is statement:
            return kind
    return None
