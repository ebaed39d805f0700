"""The byte-pair tokenizer in a GGUF file, with the results of llama.cpp."""

from __future__ import annotations

import codecs
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from quod.errors import InputError
from quod.formats.gguf.file import Gguf
from quod.formats.gguf.metadata import MetadataValue
from quod.inference.transformer.pretokenizers import PRETOKENIZERS
from quod.validation import check_characters, in_order, instance, shown, whole_number

_CONTROL, _USER_DEFINED = 3, 4
_END_NAMES = frozenset(
    ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>")
)
_MAX_WORDS, _MAX_WORD = 1 << 16, 64
"""The number of words whose tokens are cached, and the characters of the longest."""


def byte_characters() -> list[str]:
    """Return the character that stands for each byte in tokens (GPT-2's table)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


_CHARACTERS = byte_characters()
_BYTES = {character: byte for byte, character in enumerate(_CHARACTERS)}


class Tokenizer:
    """The tokenizer of a model."""

    def __init__(self, file: Gguf) -> None:
        """Read the tokenizer of a file.

        Raises InputError, with the file and the metadata key, for a kind of tokenizer or a
        pre-tokenizer that is not supported, and for missing or contradictory tables.
        """
        self._path = file.path
        metadata = file.metadata
        if metadata.get("tokenizer.ggml.model") != "gpt2":
            raise self._error(
                "tokenizer.ggml.model",
                f"is {shown(metadata.get('tokenizer.ggml.model'))}; Quod reads byte-pair "
                "tokenizers, which files call 'gpt2'",
            )
        name = metadata.get("tokenizer.ggml.pre", "gpt-2")
        if not isinstance(name, str) or name not in PRETOKENIZERS:
            raise self._error(
                "tokenizer.ggml.pre", f"is {shown(name)}; Quod has {', '.join(PRETOKENIZERS)}"
            )
        self._pretokenizer = PRETOKENIZERS[name]
        self._tokens = list(self._strings(metadata, "tokenizer.ggml.tokens"))
        self._ids: dict[str, int] = {}
        for token, text in enumerate(self._tokens):
            self._ids.setdefault(text, token)
        self._ranks = {
            pair: rank for rank, pair in enumerate(self._strings(metadata, "tokenizer.ggml.merges"))
        }
        self._kinds = self._read_kinds(metadata)
        self._special = self._special_tokens()
        self._words: dict[str, list[int]] = {}
        self.beginning = self._token(metadata, "bos")
        starts = metadata.get("tokenizer.ggml.add_bos_token", self._pretokenizer.starts)
        self._starts = starts is True and self.beginning is not None
        self.end = self._token(metadata, "eos")
        ends = {t for t in (self.end, self._token(metadata, "eot")) if t is not None}
        self.ends = frozenset(ends | {t for t in self._special if self._tokens[t] in _END_NAMES})

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def longest(self) -> int:
        """The largest number of bytes of a text that one token stands for."""
        return max(len(token.encode("utf-8", "replace")) for token in self._tokens)

    def text_of(self, token: int) -> str:
        """Return a token as the file spells it."""
        return self._tokens[token]

    def encode(self, text: str, *, special: bool = False, starts: bool | None = None) -> list[int]:
        """Return the tokens of a text.

        special: Whether the names of control tokens, such as <|im_start|>, stand for these tokens.
        starts: Whether the token of the beginning comes first; None is the file's choice.
        """
        instance("a text", text, str, "write text")
        check_characters("a text", text)
        tokens = []
        if self._starts if starts is None else starts:
            if self.beginning is None:
                raise self._error("tokenizer.ggml.bos_token_id", "is missing")
            tokens.append(self.beginning)
        for part in self._parts(text, special=special):
            if isinstance(part, int):
                tokens.append(part)
            else:
                for word in self._pretokenizer.split(part):
                    tokens += self._word(word)
        return tokens

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """Return the text of tokens; control tokens have no text unless `special`."""
        last = len(self._tokens) - 1
        numbers = [whole_number("a token", each, 0, last) for each in in_order("tokens", tokens)]
        return b"".join([self._bytes_of(token, special) for token in numbers]).decode(
            "utf-8", "replace"
        )

    def decoder(self) -> Callable[[int], str]:
        """Return a function from the next token to its text.

        The function holds back the bytes of incomplete UTF-8 characters. Control tokens have no
        text.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda token: decoder.decode(self._bytes_of(token, special=False))

    def _bytes_of(self, token: int, special: bool) -> bytes:
        text, kind = self._tokens[token], self._kinds[token]
        if kind == _CONTROL:
            return text.encode() if special else b""
        if kind == _USER_DEFINED:
            return text.encode()
        try:
            return bytes([_BYTES[character] for character in text])
        except KeyError:
            raise self._error(
                "tokenizer.ggml.tokens",
                f"token {token}, {shown(text)}, has a character that stands for no byte",
            ) from None

    def _parts(self, text: str, *, special: bool) -> list[str | int]:
        """Split off special tokens, longer ones first; user-defined ones always count."""
        parts: list[str | int] = [text]
        for token in self._special:
            if not special and self._kinds[token] != _USER_DEFINED:
                continue
            name, split = self._tokens[token], []
            for part in parts:
                if isinstance(part, int) or name not in part:
                    split.append(part)
                    continue
                for index, run in enumerate(part.split(name)):
                    split += ([token] if index else []) + ([run] if run else [])
            parts = split
        return [part for part in parts if part != ""]

    def _word(self, word: str) -> list[int]:
        tokens = self._words.get(word)
        if tokens is None:
            symbols = "".join([_CHARACTERS[byte] for byte in word.encode()])
            if self._pretokenizer.whole_words and symbols in self._ids:
                tokens = [self._ids[symbols]]
            else:
                tokens = [self._id(symbol) for symbol in merged(symbols, self._ranks)]
            if len(self._words) < _MAX_WORDS and len(word) <= _MAX_WORD:
                self._words[word] = tokens
        return tokens

    def _id(self, symbol: str) -> int:
        token = self._ids.get(symbol)
        if token is None:
            raise self._error(
                "tokenizer.ggml.tokens",
                f"has no token for {shown(symbol)}, so this text has no tokens",
            )
        return token

    def _strings(self, metadata: Mapping[str, MetadataValue], key: str) -> Sequence[str]:
        value = metadata.get(key)
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise self._error(key, "is missing, or no list of texts")
        return value

    def _read_kinds(self, metadata: Mapping[str, MetadataValue]) -> list[int]:
        value = metadata.get("tokenizer.ggml.token_type")
        if value is None:
            return [1] * len(self._tokens)
        if not isinstance(value, np.ndarray) or value.shape != (len(self._tokens),):
            raise self._error("tokenizer.ggml.token_type", "is no list with a number per token")
        return [int(kind) for kind in value.tolist()]

    def _special_tokens(self) -> list[int]:
        special = [
            token
            for token, kind in enumerate(self._kinds)
            if kind in (_CONTROL, _USER_DEFINED) and self._tokens[token]
        ]
        return sorted(special, key=lambda token: -len(self._tokens[token].encode()))

    def _token(self, metadata: Mapping[str, MetadataValue], kind: str) -> int | None:
        key = f"tokenizer.ggml.{kind}_token_id"
        value = metadata.get(key)
        if value is None:
            return None
        if not isinstance(value, np.integer) or not 0 <= int(value) < len(self._tokens):
            raise self._error(key, "is no token of the vocabulary")
        return int(value)

    def _error(self, key: str, message: str) -> InputError:
        return InputError(message, path=self._path, section=f"metadata {key!r}")


def merged(symbols: str, ranks: Mapping[str, int]) -> list[str]:
    """Merge neighbouring symbols, the pair of the lowest rank first, then the leftmost.

    ranks: The rank of each pair, its symbols separated by a space.
    """
    # A doubly linked list of symbols, so that long words take n log n steps.
    parts: list[str] = list(symbols)
    following = [*range(1, len(parts)), -1]
    preceding = list(range(-1, len(parts) - 1))
    queue: list[tuple[int, int, str]] = []

    def propose(left: int) -> None:
        right = following[left] if left >= 0 else -1
        if right >= 0:
            pair = f"{parts[left]} {parts[right]}"
            rank = ranks.get(pair)
            if rank is not None:
                heapq.heappush(queue, (rank, left, pair))

    for index in range(len(parts)):
        propose(index)
    while queue:
        _, left, pair = heapq.heappop(queue)
        right = following[left]
        # Pairs whose symbols were merged meanwhile are stale.
        if right < 0 or not parts[left] or f"{parts[left]} {parts[right]}" != pair:
            continue
        parts[left] += parts[right]
        parts[right] = ""
        following[left] = following[right]
        if following[right] >= 0:
            preceding[following[right]] = left
        propose(preceding[left])
        propose(left)
    return [part for part in parts if part]
