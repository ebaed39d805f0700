"""Models of Qwen2: the float model equals the architecture as Hugging Face defines it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from quod.formats import Gguf
from quod.inference.transformer.float_model import FloatModel
from quod.inference.transformer.model import Model
from quod.inference.transformer.program import Program
from quod.inference.transformer.reference import Reference
from tests.inference.transformer.models import VOCABULARY

TOKENS = np.random.default_rng(6).integers(0, VOCABULARY, 12)
HEADS, KV_HEADS = 4, 2

Floats = NDArray[np.float64]


def norm(x: Floats, gains: Floats) -> Floats:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gains)


def rotated_halves(x: Floats) -> Floats:
    """x * cos + rotate_half(x) * sin, of shape (heads, positions, channels)."""
    size = x.shape[-1]
    angles = np.outer(np.arange(x.shape[1]), 10000.0 ** (-np.arange(0, size, 2) / size))
    cosine, sine = (np.concatenate([f(angles)] * 2, axis=-1) for f in (np.cos, np.sin))
    turned = np.concatenate([-x[..., size // 2 :], x[..., : size // 2]], axis=-1)
    return np.asarray(x * cosine + turned * sine)


def qwen2_logits(weights: dict[str, Floats], tokens: NDArray[Any]) -> Floats:
    """The logits after each token of a text."""
    x = weights["token_embd.weight"][tokens]
    for layer in range(2):
        w = {
            name.removeprefix(f"blk.{layer}."): value
            for name, value in weights.items()
            if name.startswith(f"blk.{layer}.")
        }
        n = norm(x, w["attn_norm.weight"])
        q, k, v = (
            (n @ w[f"attn_{name}.weight"].T + w[f"attn_{name}.bias"])
            .reshape(len(tokens), heads, -1)
            .transpose(1, 0, 2)
            for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
        )
        q, k = rotated_halves(q), np.repeat(rotated_halves(k), HEADS // KV_HEADS, axis=0)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores += np.triu(np.full(scores.shape[1:], -np.inf), 1)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = e / e.sum(-1, keepdims=True) @ np.repeat(v, HEADS // KV_HEADS, axis=0)
        x = x + mixed.transpose(1, 0, 2).reshape(len(tokens), -1) @ w["attn_output.weight"].T
        n = norm(x, w["ffn_norm.weight"])
        gate = n @ w["ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (n @ w["ffn_up.weight"].T)) @ w["ffn_down.weight"].T
    return np.asarray(norm(x, weights["output_norm.weight"]) @ weights["token_embd.weight"].T)


def test_logits(
    files: dict[str, Path], models: dict[str, Model], programs: dict[str, Program]
) -> None:
    weights = {}
    for name, tensor in Gguf.open(files["qwen2"]).tensors.items():
        kind = gguf.GGMLQuantizationType[tensor.type.name]
        values = gguf.quants.dequantize(tensor.array(), kind).astype(np.float64)
        weights[name] = values.reshape(tensor.shape)
    expected = qwen2_logits(weights, TOKENS)
    logits = FloatModel(models["qwen2"]).logits(TOKENS)
    assert np.abs(logits - expected).max() < 1e-4 * np.abs(expected).max()
    program = programs["qwen2"]
    integers = np.ldexp(Reference(program).logits(TOKENS).astype(float), -program.logit_bits)
    assert np.abs(integers - expected).max() < 1e-2 * np.abs(expected).max()
