"""Language models in use: generation, chat and scores; files that are refused."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.errors import InputError, MismatchError, QuodError
from quod.formats import Gguf, write_gguf
from quod.inference import Plan, Transformer
from quod.inference.transformer.model import read_model
from quod.inference.transformer.reference import Reference
from tests.inference.transformer.models import VOCABULARY, altered

PROMPT = "the 12 an"


@pytest.fixture(scope="module")
def transformer(files: dict[str, Path], plans: dict[str, Plan]) -> Transformer:
    return Transformer.open(files["llama"], plan=plans["llama"])


def test_greedy_tokens_are_those_of_the_reference(transformer: Transformer) -> None:
    generated = list(transformer.generate(PROMPT, 9))
    assert len(generated) == 9
    reference = Reference(transformer.program)
    tokens = transformer.tokens_of(PROMPT)
    for item in generated:
        logits = reference.logits(np.array(tokens))[-1]
        assert item.token == int(logits.argmax())
        scaled = np.ldexp(logits.astype(float), -transformer.program.logit_bits)
        probability = (
            np.exp(scaled - scaled.max())[item.token] / np.exp(scaled - scaled.max()).sum()
        )
        assert item.log_probability == pytest.approx(np.log(probability))
        tokens.append(item.token)
    text = "".join(item.text for item in generated)
    assert transformer.tokenizer.decode([item.token for item in generated]).startswith(text)
    # What a run left in the cache does not change the next.
    assert list(transformer.generate(PROMPT, 9)) == generated
    assert [item.token for item in transformer.generate(tokens[:-3], 3)] == tokens[-3:]


def test_sampling_follows_the_seed(transformer: Transformer) -> None:
    def tokens(**options: Any) -> list[int]:
        return [item.token for item in transformer.generate(PROMPT, 12, **options)]

    hot = tokens(temperature=2.5, seed=b"1")
    assert hot == tokens(temperature=2.5, seed=b"1")
    assert hot != tokens(temperature=2.5, seed=b"2")
    prompt = np.array(transformer.tokens_of(PROMPT), "<u4")
    assert tokens(temperature=2.5) == tokens(
        temperature=2.5, seed=sha256(prompt.tobytes()).digest()
    )
    assert tokens(temperature=0.01, seed=b"1") == tokens()


def test_generation_ends(transformer: Transformer) -> None:
    tokens = [item.token for item in transformer.generate(PROMPT, 6)]
    first = tokens.index(tokens[4])
    stopped = [item.token for item in transformer.generate(PROMPT, 6, stop=[tokens[4]])]
    assert stopped == tokens[:first]
    assert list(transformer.generate(PROMPT, 0)) == []
    long = [5] * (transformer.context - 2)
    assert len(list(transformer.generate(long, 50))) <= 2


@pytest.mark.parametrize("temperature", [0, 2.5])
def test_a_batch_generates_what_single_prompts_do(
    transformer: Transformer, files: dict[str, Path], plans: dict[str, Plan], temperature: float
) -> None:
    prompts = [PROMPT, "a", [5, 6, 7], "the the 1 an", "b" * 9, "12", "zz", "an 12 the"]
    # A token that ends some of the texts early.
    stop = [list(transformer.generate("a", 6, temperature=temperature))[3].token]
    options = {"max_tokens": 7, "temperature": temperature, "stop": stop}
    expected = [list(transformer.generate(prompt, **options)) for prompt in prompts]  # type: ignore[arg-type]
    batch = Transformer.open(files["llama"], plan=plans["llama"], context=64, sequences=8)
    generated: list[list[Any]] = [[] for _ in prompts]
    for index, item in batch.generate_batch(prompts, **options):  # type: ignore[arg-type]
        generated[index].append(item)
    assert generated == expected
    assert len(expected[1]) < 7
    assert list(batch.generate(PROMPT, **options)) == expected[0]  # type: ignore[arg-type]
    with pytest.raises(InputError, match="2 prompts exceed the 1 sequences that the model was"):
        transformer.generate_batch(["a", "b"])


def test_log_probabilities_are_those_of_logits(transformer: Transformer) -> None:
    tokens = np.random.default_rng(2).integers(0, VOCABULARY, 150).tolist()
    values = transformer.log_probabilities(tokens)
    assert len(values) == 149
    logits = np.ldexp(
        transformer.logits(tokens, rows=150).astype(float), -transformer.program.logit_bits
    )
    logits -= logits.max(axis=1, keepdims=True)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert values == pytest.approx(expected[np.arange(149), tokens[1:]])
    assert transformer.log_probabilities([3]).tolist() == []


def test_chat_uses_the_template_of_the_file(transformer: Transformer) -> None:
    pytest.importorskip("jinja2")
    prompt = transformer.chat([{"role": "user", "content": "hi"}])
    assert prompt == "<|start|>user hi<|end|><|start|>assistant "
    assert transformer.chat([{"role": "user", "content": "hi"}], answer=False)[-7:] == "<|end|>"
    tokens = transformer.tokens_of(prompt)
    assert tokens[0] == VOCABULARY - 1
    assert tokens.count(VOCABULARY - 2) == 1
    with pytest.raises(InputError, match="a message has a role and a content"):
        transformer.chat([{"role": "user"}])


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ messages[", "fails: "),
        ("{{ raise_exception('no system message') }}", "fails: no system message"),
        ("{{ ''.__class__.__mro__ }}", "fails: access to attribute"),
        ("{{ 1 // 0 }}", "fails: "),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "fails: it calls itself"),
        (
            "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
            "fails: it calls itself",
        ),
        ("x" * 70000, "has 70000 characters, more than 65536"),
        (None, "has no chat template"),
    ],
)
def test_bad_templates_are_refused(
    transformer: Transformer, tmp_path: Path, template: str | None, message: str
) -> None:
    pytest.importorskip("jinja2")
    metadata = {} if template is None else {"tokenizer.chat_template": template}
    write_gguf(tmp_path / "m.gguf", metadata, {})
    other = Transformer(
        Gguf.open(tmp_path / "m.gguf"), transformer.model, transformer.tokenizer, transformer.plan,
        transformer.program, transformer._device_model,
    )  # fmt: skip
    with pytest.raises(InputError, match=message) as caught:
        other.chat([{"role": "user", "content": "hi"}])
    assert caught.value.path == str(tmp_path / "m.gguf")


def test_chat_names_its_package(transformer: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(
        QuodError, match=r"chat templates need jinja2: run `pip install '.\[chat\]'"
    ):
        transformer.chat([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": []}, "the prompt has no tokens"),
        ({"prompt": [VOCABULARY]}, f"token {VOCABULARY} is not in the vocabulary"),
        ({"prompt": [1] * 256}, "the prompt has 256 tokens, which leave no room in the context"),
        ({"prompt": "a", "max_tokens": -1}, "max_tokens must be a whole number from 0"),
        ({"prompt": "a", "temperature": 1e-3}, "the temperature must be 0, or from 0.01 to 100"),
        ({"prompt": "a", "temperature": float("nan")}, "the temperature is no number"),
        ({"prompt": "a", "temperature": 1, "seed": 5}, "seed is bytes, not a int"),
        ({"prompt": ["a"]}, "a token must be a whole number"),
    ],
)
def test_wrong_arguments_are_refused(
    transformer: Transformer, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        next(transformer.generate(**arguments))


def test_models_need_their_plan(files: dict[str, Path], plans: dict[str, Plan]) -> None:
    with pytest.raises(InputError, match=r"has no plan: .*llama.gguf.plan.json does not exist"):
        Transformer.open(files["llama"])
    with pytest.raises(MismatchError, match="the plan is for the model with SHA-256"):
        Transformer.open(files["llama"], plan=plans["gpt2"])


def _ones(*shape: int) -> tuple[str, NDArray[np.float32]]:
    return "F32", np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ({"general.architecture": "mamba"}, {}, "has the architecture 'mamba'; Quod runs llama"),
        ({"general.architecture": None}, {}, "has no architecture, so it is no language model"),
        ({"llama.block_count": None}, {}, "'llama.block_count': is missing; the model is incomple"),
        ({"llama.block_count": np.uint32(3)}, {}, "has no tensor 'blk.2.attn_q.weight'"),
        ({"llama.block_count": np.uint32(1)}, {}, r"tensor 'blk.1.*is not a part of this archite"),
        ({"llama.embedding_length": np.uint32(0)}, {}, "is 0, which is not from 1 to"),
        ({"llama.attention.head_count": np.uint32(3)}, {}, "3 query heads do not share 2 key"),
        ({"llama.attention.head_count_kv": np.float32(2)}, {}, "is no whole number"),
        ({"llama.attention.key_length": np.uint32(5)}, {}, "heads of 5 channels are odd"),
        ({"llama.attention.value_length": np.uint32(8)}, {}, "keys and values have different len"),
        ({"llama.rope.dimension_count": np.uint32(8)}, {}, "only a part of each head is rotated"),
        ({"llama.rope.scaling.type": "yarn"}, {}, "scaled rotary positions are not supported"),
        ({"llama.rope.freq_base": np.float32(np.inf)}, {}, "is inf, which is not above 1"),
        ({"llama.attention.layer_norm_rms_epsilon": "x"}, {}, "is no number"),
        ({}, {"blk.0.attn_q.weight": None}, "has no tensor 'blk.0.attn_q.weight'"),
        ({}, {"blk.0.attn_q.weight": _ones(32, 64)}, "has 32 rows of 64; the metadata of the mod"),
        ({}, {"blk.0.attn_norm.weight": _ones(32)}, r"has the shape \(32,\), not \(64,\)"),
        ({}, {"rope_freqs.weight": ("F32", np.zeros(8, np.float32))}, "a divisor that is not abo"),
    ],
)  # fmt: skip
def test_contradictory_models_are_refused(
    files: dict[str, Path], tmp_path: Path, metadata: dict[str, Any], tensors: dict[str, Any],
    message: str,
) -> None:  # fmt: skip
    with pytest.raises(InputError, match=message) as caught:
        read_model(altered(tmp_path / "m.gguf", files["llama"], metadata, tensors))
    assert caught.value.path == str(tmp_path / "m.gguf")


def test_tokenizer_and_embedding_must_agree(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    altered(path, files["llama"], {}, {"token_embd.weight": _ones(VOCABULARY - 1, 64)})
    plan = Transformer.make_plan(files["llama"], ["a b c"])
    with pytest.raises(InputError, match=f"has {VOCABULARY} tokens and embeds {VOCABULARY - 1}"):
        Transformer.open(path, plan=Transformer.make_plan(path, ["a b c"]))
    assert plan.report is None


def test_frequencies_may_have_factors(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    factors = np.arange(1, 9, dtype=np.float32)
    altered(path, files["llama"], {}, {"rope_freqs.weight": ("F32", factors)})
    transformer = Transformer.open(path, plan=Transformer.make_plan(path, ["a b c"]))
    tokens = np.arange(9)
    expected = Reference(transformer.program).logits(tokens)
    assert np.array_equal(transformer.logits(tokens.tolist(), rows=9), expected)
    plain = Transformer.open(
        files["llama"], plan=Transformer.make_plan(files["llama"], ["a b c"])
    ).logits(tokens.tolist(), rows=9)
    assert not np.array_equal(plain, expected)


def test_files_that_are_cut_or_changed(files: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(files["llama"].read_bytes())
    path = tmp_path / "m.gguf"
    path.write_bytes(data[:-100])
    with pytest.raises(InputError, match=r"section tensor .*, offset .*: its .* run past the end"):
        Gguf.open(path)
    tensor = Gguf.open(files["llama"]).tensors["blk.0.attn_q.weight"]
    data[tensor.offset : tensor.offset + 2] = b"\xff\x7f"
    path.write_bytes(data)
    with pytest.raises(InputError, match="has the value nan") as caught:
        read_model(Gguf.open(path))
    assert caught.value.section == "tensor 'blk.0.attn_q.weight'"
    assert caught.value.offset == tensor.offset
