"""Proofs that a language model, run as the integer program of its plan, chose the tokens of a text.

`Prover` commits to a model's weights and proves answers; `verify` needs its `Key` only. The names
below load on first use (PEP 562). docs/design/verified-transformer.md states the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.inference.transformer.proof.files.answer import Answer as Answer
    from quod.inference.transformer.proof.files.answer import read_answer as read_answer
    from quod.inference.transformer.proof.files.answer import write_answer as write_answer
    from quod.inference.transformer.proof.files.key import read_key as read_key
    from quod.inference.transformer.proof.files.key import write_key as write_key
    from quod.inference.transformer.proof.key import Key as Key
    from quod.inference.transformer.proof.prover import Prover as Prover
    from quod.inference.transformer.proof.statement import Statement as Statement
    from quod.inference.transformer.proof.verifier import verify as verify
else:
    __getattr__, __dir__ = lazy_names(__name__)
