"""Groth16 parameters of Filecoin's circuits, under the file names of rust-fil-proofs.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.filecoin.parameters.files import (
        default_folder as default_folder,
    )
    from quod.filecoin.parameters.files import file_digest as file_digest
    from quod.filecoin.parameters.files import open_proving_key as open_proving_key
    from quod.filecoin.parameters.files import read_verifying_key as read_verifying_key
    from quod.filecoin.parameters.generation import make_parameters as make_parameters
    from quod.filecoin.parameters.identifiers import ParameterSet as ParameterSet
    from quod.filecoin.parameters.identifiers import ProofKind as ProofKind
else:
    __getattr__, __dir__ = lazy_names(__name__)
