"""A real model, SmolLM2-135M-Instruct: its tokens, its accuracy, and its bits on the processor."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.formats import Gguf
from quod.inference import Plan, Transformer
from quod.inference.transformer.device.model import DeviceModel
from quod.inference.transformer.plan import accuracy
from quod.inference.transformer.pretokenizers import PRETOKENIZERS
from quod.inference.transformer.program import build
from quod.inference.transformer.reference import Reference, Trace
from quod.inference.transformer.tokenizer import Tokenizer
from tests.conftest import REPOSITORY, open_for_test
from tests.inference.transformer.test_tokenizer import random_texts
from tests.support.devices import present

MODEL = REPOSITORY / "build" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

pytestmark = pytest.mark.skipif(
    not MODEL.exists(), reason="needs SmolLM2: run tools/setup.sh smollm2"
)


@pytest.fixture(scope="module")
def file() -> Gguf:
    assert hashlib.sha256(MODEL.read_bytes()).hexdigest() == SHA256
    return Gguf.open(MODEL)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan of the scales that the calibration texts of Quod give."""
    return Transformer.make_plan(MODEL)


@pytest.mark.parametrize("name", ["smollm", "gpt-2", "llama-bpe", "qwen2"])
def test_tokens_are_those_of_hugging_face(file: Gguf, name: str) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="run tools/setup.sh smollm2")
    split = tokenizers.pre_tokenizers
    tokenizer, byte_level = Tokenizer(file), split.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer._pretokenizer = PRETOKENIZERS[name]
    expected = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={
                text: token for token, text in enumerate(file.metadata["tokenizer.ggml.tokens"])
            },  # type: ignore[arg-type]
            merges=[tuple(m.split(" ")) for m in file.metadata["tokenizer.ggml.merges"]],  # type: ignore[union-attr]
            ignore_merges=name == "llama-bpe",
        )
    )
    byte_level_alone = split.ByteLevel(add_prefix_space=False, use_regex=False)
    llama3, qwen2 = (
        split.Split(tokenizers.Regex(pattern), "isolated")
        for pattern in (LLAMA3, LLAMA3.replace("{1,3}", ""))
    )
    expected.pre_tokenizer = {
        "smollm": split.Sequence([split.Digits(individual_digits=True), byte_level]),
        "gpt-2": byte_level,
        "llama-bpe": split.Sequence([llama3, byte_level_alone]),
        "qwen2": split.Sequence([qwen2, byte_level_alone]),
    }[name]
    for text in random_texts(1000):
        assert tokenizer.encode(text, starts=False) == expected.encode(text).ids


@pytest.fixture(scope="module")
def transformer(plan: Plan) -> Transformer:
    return Transformer.open(MODEL, plan=plan, context=128)


@pytest.fixture(scope="module")
def tokens(transformer: Transformer) -> NDArray[np.int64]:
    text = (REPOSITORY / "LICENSE").read_text()
    return np.array(transformer.tokenizer.encode(text)[:64])


@pytest.fixture(scope="module")
def trace(transformer: Transformer, tokens: NDArray[np.int64]) -> Trace:
    """The reference's values."""
    trace = Trace({}, {})
    trace.values["logits"] = Reference(transformer.program).logits(tokens, trace=trace)
    return trace


@pytest.mark.thorough
@pytest.mark.parametrize("name", present("cpu", "cuda", "webgpu:portable"))
def test_devices_equal_the_reference(
    transformer: Transformer, tokens: NDArray[np.int64], trace: Trace, name: str
) -> None:
    expected = trace.values["logits"]
    last = trace.values[f"{len(transformer.program.layers) - 1}.feed_forward"]
    with open_for_test(name) as device:
        model = DeviceModel(device, transformer.program, context=64)
        assert np.array_equal(model.extend(tokens, rows=64), expected)
        assert np.array_equal(model.residual(64), last)
        model.rewind(56)
        one_by_one = [model.extend([token]) for token in tokens[56:]]
        assert np.array_equal(np.concatenate(one_by_one), expected[56:])


@pytest.mark.thorough
def test_the_accuracy(plan: Plan) -> None:
    transformer = Transformer.open(MODEL, plan=plan, context=16)
    texts = [
        np.array(transformer.tokenizer.encode((REPOSITORY / name).read_text())[:256])
        for name in ("LICENSE", "README.md")
    ]
    report = accuracy(build(transformer.model, plan.scales), texts)
    assert report.divergence < 1e-3
    assert report.equal_choices > 0.97
    assert report.saturated < 1


@pytest.mark.thorough
def test_an_answer(plan: Plan) -> None:
    pytest.importorskip("jinja2")
    transformer = Transformer.open(MODEL, plan=plan, context=128)
    prompt = transformer.chat([{"role": "user", "content": "What is the capital of France?"}])
    answer = "".join(item.text for item in transformer.generate(prompt, 20))
    assert answer == "The capital of France is Paris."
