"""Tiny language models of random weights, written as GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from quod.formats import Gguf, write_gguf
from quod.inference.transformer.tokenizer import byte_characters

WORDS = ("t h", "th e", "Ġ the", "a n", "Ġ a", "Ġa n", "1 2")
CONTROLS = ("<|end|>", "<|start|>")
TEMPLATE = (
    "{% for m in messages %}{{ '<|start|>' + m['role'] + ' ' + m['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant ' }}{% endif %}"
)
LEGACY = ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "F16", "F32")


def tokenizer_metadata(pretokenizer: str = "smollm") -> dict[str, Any]:
    """The metadata of a tokenizer of all bytes, seven merges and two control tokens."""
    tokens = [*byte_characters(), *[word.replace(" ", "") for word in WORDS], *CONTROLS]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pretokenizer,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(
            [1] * (len(tokens) - len(CONTROLS)) + [3] * len(CONTROLS), np.int32
        ),
        "tokenizer.ggml.merges": list(WORDS),
        "tokenizer.ggml.eos_token_id": np.uint32(len(tokens) - 2),
        "tokenizer.ggml.bos_token_id": np.uint32(len(tokens) - 1),
        "tokenizer.chat_template": TEMPLATE,
    }


VOCABULARY = len(tokenizer_metadata()["tokenizer.ggml.tokens"])


def blocks_of(kind: str, values: NDArray[np.float32]) -> NDArray[Any]:
    """Values as blocks of a type; those of K-quants are random, with about the same scales."""
    if kind in ("F32", "F16"):
        return values.astype({"F32": np.float32, "F16": np.float16}[kind])
    if kind not in ("Q4_K", "Q5_K", "Q6_K"):
        return np.asarray(gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind]))
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    rng = np.random.default_rng(int(abs(values[0, 0]) * 1e6))
    blocks = rng.integers(0, 256, (len(values), values.shape[1] // 256, size), np.uint8)
    scale = rng.uniform(1e-4, 4e-4, (*blocks.shape[:2], 1)).astype(np.float16).view(np.uint8)
    if kind in ("Q4_K", "Q5_K"):
        blocks[..., 0:2], blocks[..., 2:4] = scale, (scale.view(np.float16) * 6).view(np.uint8)
    else:
        blocks[..., 208:210] = (scale.view(np.float16) / 4).view(np.uint8)
    return blocks.reshape(len(values), -1)


class _Tensors:
    """The tensors of a model, with the next type for each matrix."""

    def __init__(self, kinds: tuple[str, ...], seed: int) -> None:
        self._kinds = kinds
        self._rng = np.random.default_rng(seed)
        self.tensors: dict[str, tuple[str, NDArray[Any]]] = {}

    def matrix(self, name: str, rows: int, columns: int, size: float = 1.0) -> None:
        values = self._rng.standard_normal((rows, columns)) * size / columns**0.5
        kind = self._kinds[len(self.tensors) % len(self._kinds)]
        self.tensors[name + ".weight"] = kind, blocks_of(kind, values.astype(np.float32))

    def vector(self, name: str, length: int, mean: float) -> None:
        values = mean + 0.2 * self._rng.standard_normal(length)
        self.tensors[name] = "F32", values.astype(np.float32)


def write_llama(
    path: Path, *, width: int = 64, hidden: int = 96, heads: int = 4, kv_heads: int = 2,
    kinds: tuple[str, ...] = LEGACY, tied: bool = True, seed: int = 1, context: int = 256,
    family: str = "llama",
) -> Path:  # fmt: skip
    """Write a model of the Llama family with two layers; one of Qwen2's has biases."""
    tensors, kv_width = _Tensors(kinds, seed), width // heads * kv_heads
    tensors.matrix("token_embd", VOCABULARY, width, 8.0)
    for layer in range(2):
        prefix = f"blk.{layer}."
        tensors.vector(prefix + "attn_norm.weight", width, 1.0)
        tensors.matrix(prefix + "attn_q", width, width, 2.0)
        tensors.matrix(prefix + "attn_k", kv_width, width, 2.0)
        tensors.matrix(prefix + "attn_v", kv_width, width)
        if family == "qwen2":
            for name, length in (("q", width), ("k", kv_width), ("v", kv_width)):
                tensors.vector(f"{prefix}attn_{name}.bias", length, 0.5)
        tensors.matrix(prefix + "attn_output", width, width)
        tensors.vector(prefix + "ffn_norm.weight", width, 1.0)
        tensors.matrix(prefix + "ffn_gate", hidden, width, 2.0)
        tensors.matrix(prefix + "ffn_up", hidden, width)
        tensors.matrix(prefix + "ffn_down", width, hidden)
    tensors.vector("output_norm.weight", width, 1.0)
    if not tied:
        tensors.matrix("output", VOCABULARY, width)
    metadata = {
        "general.architecture": family,
        f"{family}.block_count": np.uint32(2),
        f"{family}.context_length": np.uint32(context),
        f"{family}.embedding_length": np.uint32(width),
        f"{family}.feed_forward_length": np.uint32(hidden),
        f"{family}.attention.head_count": np.uint32(heads),
        f"{family}.attention.head_count_kv": np.uint32(kv_heads),
        f"{family}.attention.layer_norm_rms_epsilon": np.float32(1e-5),
        f"{family}.rope.freq_base": np.float32(10000),
    }
    names = tokenizer_metadata("qwen2" if family == "qwen2" else "smollm")
    write_gguf(path, metadata | names, tensors.tensors)
    return path


def write_gpt2(path: Path, *, kinds: tuple[str, ...] = ("F16", "Q8_0"), seed: int = 2) -> Path:
    """Write a model of the GPT-2 family with two layers."""
    width, hidden, heads, context = 64, 128, 4, 128
    tensors = _Tensors(kinds, seed)
    tensors.matrix("token_embd", VOCABULARY, width, 8.0)
    tensors.matrix("position_embd", context, width, 2.0)
    for layer in range(2):
        prefix = f"blk.{layer}."
        for name in ("attn_norm", "ffn_norm"):
            tensors.vector(prefix + name + ".weight", width, 1.0)
            tensors.vector(prefix + name + ".bias", width, 0.0)
        for name, rows, columns in (
            ("attn_qkv", 3 * width, width), ("attn_output", width, width),
            ("ffn_up", hidden, width), ("ffn_down", width, hidden),
        ):  # fmt: skip
            tensors.matrix(prefix + name, rows, columns, 1.5)
            tensors.vector(prefix + name + ".bias", rows, 0.1)
    tensors.vector("output_norm.weight", width, 1.0)
    tensors.vector("output_norm.bias", width, 0.0)
    metadata = {
        "general.architecture": "gpt2",
        "gpt2.block_count": np.uint32(2),
        "gpt2.context_length": np.uint32(context),
        "gpt2.embedding_length": np.uint32(width),
        "gpt2.feed_forward_length": np.uint32(hidden),
        "gpt2.attention.head_count": np.uint32(heads),
        "gpt2.attention.layer_norm_epsilon": np.float32(1e-5),
    }
    write_gguf(path, metadata | tokenizer_metadata("gpt-2"), tensors.tensors)
    return path


def altered(path: Path, source: Path, metadata: dict[str, Any], tensors: dict[str, Any]) -> Gguf:
    """A file with other metadata and tensors; None removes one."""
    file = Gguf.open(source)
    pairs = {**file.metadata, **metadata}
    arrays = {name: (tensor.type.name, tensor.array()) for name, tensor in file.tensors.items()}
    arrays |= tensors
    write_gguf(
        path,
        {key: value for key, value in pairs.items() if value is not None},
        {name: tensor for name, tensor in arrays.items() if tensor is not None},
    )
    return Gguf.open(path)
