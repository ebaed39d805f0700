"""Inference in exact integers: language models, and proofs of perceptrons of 8-bit weights.

`Transformer` runs a language model, with the same bits on every device. `Perceptron` reads a GGUF
file, `Prover` runs it and proves the logits, and `verify` is plain Python. The weights are
committed to, not hidden. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.inference.files.key import read_verifying_key as read_verifying_key
    from quod.inference.files.key import write_verifying_key as write_verifying_key
    from quod.inference.files.proof import read_proof as read_proof
    from quod.inference.files.proof import write_proof as write_proof
    from quod.inference.network import Activations as Activations
    from quod.inference.network import run as run
    from quod.inference.perceptron import Layer as Layer
    from quod.inference.perceptron import Perceptron as Perceptron
    from quod.inference.prover import Inference as Inference
    from quod.inference.prover import Prover as Prover
    from quod.inference.quantisation import QuantisedPerceptron as QuantisedPerceptron
    from quod.inference.quantisation import quantise_layers as quantise_layers
    from quod.inference.quantisation import quantise_module as quantise_module
    from quod.inference.statement import VerifyingKey as VerifyingKey
    from quod.inference.statement import error_terms as error_terms
    from quod.inference.transformer.generation import Batch as Batch
    from quod.inference.transformer.generation import Generated as Generated
    from quod.inference.transformer.plan import Plan as Plan
    from quod.inference.transformer.plan import Report as Report
    from quod.inference.transformer.plan import read_plan as read_plan
    from quod.inference.transformer.transformer import Transformer as Transformer
    from quod.inference.verifier import verify as verify
else:
    __getattr__, __dir__ = lazy_names(__name__)
