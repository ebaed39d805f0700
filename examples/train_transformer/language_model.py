"""Train a language model of two layers on the licence of this repository, and write it as GGUF.

python examples/train_transformer/language_model.py -o model.gguf

Needs PyTorch, whose gradients call Quod's operators. The model has the architecture of Llama, with
byte-pair tokens that are merged from the same text, so every program that reads GGUF runs it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quod.formats import write_gguf
from quod.inference.transformer.pretokenizers import PRETOKENIZERS
from quod.inference.transformer.tokenizer import byte_characters
from quod.tensor import rope_table
from quod.tensor.quantised import quantise
from quod.tensor.torch import attention, cross_entropy, rms_norm, rope, swiglu

TEXT = Path(__file__).parents[2] / "LICENSE"
CONTROLS = ("<|end|>", "<|start|>")
TEMPLATE = (
    "{% for m in messages %}{{ '<|start|>' + m['role'] + ' ' + m['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant ' }}{% endif %}"
)
MERGES = 160
LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, CONTEXT = 2, 64, 128, 4, 2, 256
HEAD = WIDTH // HEADS
EPSILON, BASE = 1e-5, 10000.0
BATCH = 8
TYPES = ("Q8_0", "F16", "Q8_0", "Q4_0")
"""The types of matrices in turn, so that tests read several."""

Merge = tuple[str, str]


def learned_merges(words: Counter[tuple[str, ...]], count: int) -> Iterator[Merge]:
    """Yield the most frequent pair of neighbouring symbols, and merge it, `count` times."""
    for _ in range(count):
        pairs: Counter[Merge] = Counter()
        for word, number in words.items():
            for pair in pairwise(word):
                pairs[pair] += number
        # Of equally frequent pairs the first in the alphabet.
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        yield best
        merged: Counter[tuple[str, ...]] = Counter()
        for word, number in words.items():
            merged[merged_word(word, best)] += number
        words = merged


def merged_word(word: tuple[str, ...], pair: Merge) -> tuple[str, ...]:
    """Return the symbols of a word after a merge."""
    symbols: list[str] = []
    for symbol in word:
        if symbols and (symbols[-1], symbol) == pair:
            symbols[-1] += symbol
        else:
            symbols.append(symbol)
    return tuple(symbols)


class Tokens:
    """The tokens of a text: all bytes, the merges of its words, and two control tokens."""

    def __init__(self, text: str) -> None:
        characters = byte_characters()
        words = [
            tuple([characters[byte] for byte in word.encode()])
            for word in PRETOKENIZERS["gpt-2"].split(text)
        ]
        self.merges = list(learned_merges(Counter(words), MERGES))
        self.names = [*characters, *[a + b for a, b in self.merges], *CONTROLS]
        numbers = {name: number for number, name in enumerate(self.names)}
        self.text: list[int] = []
        for word in words:
            for merge in self.merges:
                word = merged_word(word, merge)
            self.text += [numbers[symbol] for symbol in word]


class Model:
    """The parameters, and the forward pass of Llama."""

    def __init__(self, vocabulary: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def matrix(rows: int, columns: int) -> Tensor:
            values = torch.randn(rows, columns, generator=generator) * columns**-0.5
            return values.requires_grad_()

        def gains() -> Tensor:
            return torch.ones(WIDTH).requires_grad_()

        self.parameters = {"token_embd": matrix(vocabulary, WIDTH)}
        for layer in range(LAYERS):
            self.parameters |= {
                f"blk.{layer}.attn_norm": gains(),
                f"blk.{layer}.attn_q": matrix(WIDTH, WIDTH),
                f"blk.{layer}.attn_k": matrix(KV_HEADS * HEAD, WIDTH),
                f"blk.{layer}.attn_v": matrix(KV_HEADS * HEAD, WIDTH),
                f"blk.{layer}.attn_output": matrix(WIDTH, WIDTH),
                f"blk.{layer}.ffn_norm": gains(),
                f"blk.{layer}.ffn_gate": matrix(HIDDEN, WIDTH),
                f"blk.{layer}.ffn_up": matrix(HIDDEN, WIDTH),
                f"blk.{layer}.ffn_down": matrix(WIDTH, HIDDEN),
            }
        self.parameters["output_norm"] = gains()
        self._table = torch.from_numpy(rope_table(CONTEXT, HEAD, base=BASE))

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch of texts."""
        x = self.parameters["token_embd"][tokens]
        for layer in range(LAYERS):
            weight = self._weights(f"blk.{layer}.")
            x = x + self._attention(weight, rms_norm(x, weight("attn_norm"), epsilon=EPSILON))
            y = rms_norm(x, weight("ffn_norm"), epsilon=EPSILON)
            hidden = swiglu(y @ weight("ffn_gate").T, y @ weight("ffn_up").T)
            x = x + hidden @ weight("ffn_down").T
        x = rms_norm(x, self.parameters["output_norm"], epsilon=EPSILON)
        logits = x @ self.parameters["token_embd"].T
        return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    def _weights(self, prefix: str) -> Callable[[str], Tensor]:
        return lambda name: self.parameters[prefix + name]

    def _attention(self, weight: Callable[[str], Tensor], x: Tensor) -> Tensor:
        batch, count, _ = x.shape

        def heads(name: str, number: int) -> Tensor:
            y = (x @ weight(name).T).reshape(batch, count, number, HEAD)
            return y.transpose(1, 2).contiguous()

        table = self._table[:count]
        q = rope(heads("attn_q", HEADS), table, pairs="interleaved")
        k = rope(heads("attn_k", KV_HEADS), table, pairs="interleaved")
        mixed = attention(q, k, heads("attn_v", KV_HEADS), causal=True)
        return mixed.transpose(1, 2).reshape(batch, count, WIDTH) @ weight("attn_output").T


def train(model: Model, text: list[int], steps: int) -> float:
    """Train on random pieces of a text; return the last loss."""
    tokens, generator = torch.tensor(text), torch.Generator().manual_seed(1)
    optimiser = torch.optim.AdamW(model.parameters.values(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    loss = torch.zeros(())
    for step in range(steps):
        starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=generator)
        pieces = tokens[starts + torch.arange(CONTEXT + 1)]
        loss = model.loss(pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f}", flush=True)
    return float(loss.item())


def write(path: Path, model: Model, tokens: Tokens) -> None:
    """Write a model as GGUF, with its tokens and a chat template."""
    types = iter(TYPES * len(model.parameters))
    tensors: dict[str, tuple[str, Any]] = {}
    for name, parameter in model.parameters.items():
        values = parameter.detach().numpy()
        kind = next(types) if values.ndim == 2 else "F32"
        if kind == "F16":
            values = values.astype(np.float16)
        elif kind != "F32":
            values = quantise(kind, values)
        tensors[name + ".weight"] = kind, values
    controls = len(CONTROLS)
    kinds = [1] * (len(tokens.names) - controls) + [3] * controls
    metadata = {
        "general.architecture": "llama",
        "general.name": "The Apache licence, two layers",
        "llama.block_count": np.uint32(LAYERS),
        "llama.context_length": np.uint32(CONTEXT),
        "llama.embedding_length": np.uint32(WIDTH),
        "llama.feed_forward_length": np.uint32(HIDDEN),
        "llama.attention.head_count": np.uint32(HEADS),
        "llama.attention.head_count_kv": np.uint32(KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": np.float32(EPSILON),
        "llama.rope.freq_base": np.float32(BASE),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens.names,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
        "tokenizer.ggml.merges": [" ".join(merge) for merge in tokens.merges],
        "tokenizer.ggml.eos_token_id": np.uint32(len(tokens.names) - controls),
        "tokenizer.ggml.bos_token_id": np.uint32(len(tokens.names) - controls + 1),
        "tokenizer.chat_template": TEMPLATE,
    }
    write_gguf(path, metadata, tensors)


def main() -> None:
    """Train and write the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="the GGUF file")
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    tokens = Tokens(TEXT.read_text())
    model = Model(len(tokens.names))
    print(f"{len(tokens.text)} tokens of {len(tokens.names)}")
    print(f"loss {train(model, tokens.text, arguments.steps):.3f}")
    write(arguments.output, model, tokens)


if __name__ == "__main__":
    main()
