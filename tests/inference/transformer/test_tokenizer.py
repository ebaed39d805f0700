"""The tokenizer: words of the pre-tokenizers, merges by rank, special tokens, damaged tables."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError
from quod.formats import Gguf, write_gguf
from quod.inference.transformer.pretokenizers import PRETOKENIZERS
from quod.inference.transformer.tokenizer import Tokenizer, merged
from tests.inference.transformer.models import CONTROLS, VOCABULARY, tokenizer_metadata

POOLS = (
    "abcdefghijklmnopqrstuvwxyz ABC 'stremvld", " \t\n\r  \u00a0\u2003\u3000\x1c\x85\x0b",
    "0123456789 ½²Ⅷ٣", "äöüßéñçøåÅŁžюяжщЖ漢字かなカナ한국어עבריתالعربيةहिन्दी",
    "😀👍🏽👩‍👩‍👧🇩🇪", "!@#$%^&*()_+-=[]{};:\"\\|,.<>/?`~§€“”…—",
)  # fmt: skip


def random_texts(count: int) -> list[str]:
    """Texts of several scripts, spaces, digits and symbols."""
    rng = random.Random(5)
    texts = [
        "",
        "don't I'LL we'Ve it'S",
        "  hello   world  ",
        "\n\n  def f(x):\n\treturn x*100  \n",
    ]
    while len(texts) < count:
        length, text = rng.randrange(1, 60), ""
        while len(text) < length:
            pool = rng.choice(POOLS)
            text += "".join(rng.choice(pool) for _ in range(rng.randrange(1, 8)))
        texts.append(text)
    return texts


def tokenizer_of(folder: Path, changes: Mapping[str, Any] = {}) -> Tokenizer:
    metadata = {
        key: value
        for key, value in (tokenizer_metadata() | dict(changes)).items()
        if value is not None
    }
    write_gguf(folder / "t.gguf", metadata, {})
    return Tokenizer(Gguf.open(folder / "t.gguf"))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("gpt-2", "I'll pay 1234 €!", ["I", "'ll", " pay", " 1234", " €!"]),
        ("gpt-2", "a  b\n\n c ", ["a", " ", " b", "\n\n", " c", " "]),
        ("smollm", "x 120½", ["x", " ", "1", "2", "0", "½"]),
        (
            "llama-bpe",
            "I'LL pay 12345.\n\n x",
            ["I", "'LL", " pay", " ", "123", "45", ".\n\n", " x"],
        ),
        ("qwen2", "I'LL pay 12.\n\n x", ["I", "'LL", " pay", " ", "1", "2", ".\n\n", " x"]),
        ("llama-bpe", "\x1c a", ["\x1c", " a"]),
    ],
)
def test_pretokenizers(name: str, text: str, words: list[str]) -> None:
    assert list(PRETOKENIZERS[name].split(text)) == words


@pytest.mark.parametrize("name", PRETOKENIZERS)
def test_no_character_is_lost(name: str) -> None:
    for text in random_texts(200):
        assert "".join(PRETOKENIZERS[name].split(text)) == text


def naive(symbols: str, ranks: Mapping[str, int]) -> list[str]:
    """Merges by looking at all pairs each time."""
    parts = list(symbols)
    while True:
        pairs = [(ranks.get(f"{a} {b}", 1 << 30), i) for i, (a, b) in enumerate(pairwise(parts))]
        rank, index = min(pairs, default=(1 << 30, 0))
        if rank == 1 << 30:
            return parts
        parts[index : index + 2] = [parts[index] + parts[index + 1]]


def test_merges_are_by_rank() -> None:
    rng = random.Random(1)
    ranks = {pair: rank for rank, pair in enumerate(["a b", "ab c", "b c", "a a", "aa b", "c ab"])}
    for _ in range(300):
        word = "".join(rng.choice("abc") for _ in range(rng.randrange(12)))
        assert merged(word, ranks) == naive(word, ranks)
    assert len(merged("ab" * 20_000, ranks)) == 20_000


def test_texts_and_their_tokens(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(tmp_path)
    assert len(tokenizer) == VOCABULARY
    names = [tokenizer.text_of(token) for token in tokenizer.encode("the an a the")]
    # The merge of `a n` is before that of `Ġ a`.
    assert names == ["the", "Ġ", "an", "Ġa", "Ġthe"]
    for text in random_texts(300):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    with_controls = f"{CONTROLS[1]}the{CONTROLS[0]}"
    tokens = tokenizer.encode(with_controls, special=True)
    assert tokens == [VOCABULARY - 1, 257, VOCABULARY - 2]
    assert tokenizer.decode(tokens) == "the"
    assert tokenizer.decode(tokens, special=True) == with_controls
    assert len(tokenizer.encode(with_controls)) > 10
    assert tokenizer.ends == {VOCABULARY - 2}
    assert tokenizer.encode("a", starts=True)[0] == VOCABULARY - 1


def test_incomplete_characters_are_held_back(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(tmp_path)
    decode = tokenizer.decoder()
    assert [decode(token) for token in tokenizer.encode("é€")] == ["", "é", "", "", "€"]


def test_user_defined_tokens_always_count(tmp_path: Path) -> None:
    kinds = np.array([1] * (VOCABULARY - 1) + [4], np.int32)
    tokenizer = tokenizer_of(tmp_path, {"tokenizer.ggml.token_type": kinds})
    assert VOCABULARY - 1 in tokenizer.encode(f"a{CONTROLS[1]}")
    assert tokenizer.decode([VOCABULARY - 1]) == CONTROLS[1]


def test_the_beginning_is_the_files_choice(tmp_path: Path) -> None:
    llama = tokenizer_of(tmp_path, {"tokenizer.ggml.pre": "llama-bpe"})
    assert llama.encode("a")[0] == VOCABULARY - 1
    off = {"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}
    assert tokenizer_of(tmp_path, off).encode("a")[0] != VOCABULARY - 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.ggml.model": "llama"}, "is 'llama'; Quod reads byte-pair tokenizers"),
        ({"tokenizer.ggml.pre": "viking"}, "is 'viking'; Quod has gpt-2, smollm, qwen2"),
        ({"tokenizer.ggml.tokens": None}, "is missing, or no list of texts"),
        ({"tokenizer.ggml.merges": "a b"}, "is missing, or no list of texts"),
        ({"tokenizer.ggml.token_type": np.ones(3, np.int32)}, "is no list with a number per"),
        ({"tokenizer.ggml.eos_token_id": np.uint32(9999)}, "is no token of the vocabulary"),
    ],
)
def test_damaged_tokenizers_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        tokenizer_of(tmp_path, changes)
    assert caught.value.path == str(tmp_path / "t.gguf")
    assert caught.value.section == f"metadata {next(iter(changes))!r}"


def test_texts_without_tokens_are_refused(tmp_path: Path) -> None:
    tokens = tokenizer_metadata()["tokenizer.ggml.tokens"]
    changed = ["?" if token == "z" else token for token in tokens]
    tokenizer = tokenizer_of(tmp_path, {"tokenizer.ggml.tokens": changed})
    with pytest.raises(InputError, match="has no token for 'z'"):
        tokenizer.encode("zebra")
