"""The statement of a proof: a text's tokens, of which the model chose those after the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.transformer.proof.key import PROTOCOL, SCHEME, Key, log_positions
from quod.inference.transformer.proof.vectors import log2_ceil
from quod.inference.transformer.rounding import Integers
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript
from quod.validation import whole_number

MAX_LOG_POSITIONS = 15
"""With more positions, the sum of a query's weights times its inverse could wrap around."""


@frozen
class Statement:
    """The statement that the model chose each token from number `prompt` on, greedily.

    tokens: the whole text.
    prompt: the number of tokens at its start that were given, at least 1.
    """

    tokens: tuple[int, ...]
    prompt: int

    def __post_init__(self) -> None:
        tokens: object = self.tokens
        if not isinstance(tokens, Sequence) or isinstance(tokens, (str, bytes)) or len(tokens) < 2:
            raise InputError("the tokens of a statement must be a sequence of at least 2 tokens")
        checked = tuple(whole_number("a token", token, 0, (1 << 31) - 1) for token in tokens)
        prompt = whole_number("the tokens of the prompt", self.prompt, 1, len(checked) - 1)
        self.__dict__.update(tokens=checked, prompt=prompt)

    def check(self, key: Key) -> None:
        """Raise InputError unless the tokens are in the vocabulary and fit the context."""
        largest = max(self.tokens)
        if largest >= key.vocabulary:
            raise InputError(f"token {largest} is not in the vocabulary of {key.vocabulary} tokens")
        if self.log_positions > MAX_LOG_POSITIONS:
            raise InputError(
                f"{len(self.tokens) - 1} positions exceed the limit of {1 << MAX_LOG_POSITIONS} of "
                "one proof"
            )
        if len(self.tokens) - 1 > key.context:
            raise InputError(
                f"{len(self.tokens) - 1} positions exceed the context of {key.context}"
            )

    @property
    def log_positions(self) -> int:
        """The base-2 logarithm of the number of positions that are proved, padding included."""
        return log_positions(len(self.tokens) - 1)

    @property
    def log_chosen(self) -> int:
        """The base-2 logarithm of the number of chosen tokens, padding included."""
        return max(1, log2_ceil(len(self.chosen)))

    @property
    def chosen(self) -> tuple[int, ...]:
        """The tokens that the model chose."""
        return self.tokens[self.prompt :]

    @cached_property
    def inputs(self) -> Integers:
        """The model's inputs: all tokens but the last, then token 0 up to a power of two.

        Attention is causal, so no value of a real position depends on the padding.
        """
        inputs = np.zeros(1 << self.log_positions, np.int64)
        inputs[: len(self.tokens) - 1] = self.tokens[:-1]
        return inputs

    def positions(self) -> Integers:
        """Return for each chosen token the position whose logits choose it."""
        return np.arange(self.prompt - 1, len(self.tokens) - 1)

    def begin(self, key: Key) -> Transcript:
        """Return a transcript that has absorbed the statement."""
        transcript = Transcript()
        transcript.begin(PROTOCOL)
        parameters = f"greedy {len(self.tokens)} {self.prompt} {SCHEME.parameters()}"
        transcript.absorb(Label.PARAMETERS, parameters.encode())
        numbers = np.array(self.tokens, "<u4").tobytes()
        transcript.absorb(Label.PUBLIC_INPUT, key.digest + numbers)
        return transcript
