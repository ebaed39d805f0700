"""Make the test parameters of Filecoin's circuits for sectors of 2 KiB under build/bench."""

from __future__ import annotations

from pathlib import Path

from quod.bench.proofs.filecoin import KINDS as KINDS
from quod.filecoin.parameters import ParameterSet, ProofKind, make_parameters
from quod.filecoin.sectors import sector_shape

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDER = "build/bench/filecoin"
"""The folder of the parameters, relative to the checkout."""

_SEED = 1


def prepare(kind: str, device: str) -> None:
    """Make the parameters of a kind of proof, unless they are present.

    Those of PoRep take minutes on a CPU.
    """
    parameters = ParameterSet(ProofKind(kind), sector_shape(2 << 10))
    folder = CHECKOUT / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / parameters.file_name("params")).exists():
        make_parameters(parameters, folder, _SEED, device=device)
