"""The generation of texts: the choice of tokens, for one text or a batch of changing texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.transformer.device.model import DeviceModel
from quod.inference.transformer.plan import log_probabilities
from quod.inference.transformer.program import Quotient, quotient
from quod.inference.transformer.reference import greedy, sample
from quod.inference.transformer.rounding import Integers
from quod.validation import instance, shown

_MIN_TEMPERATURE, _MAX_TEMPERATURE = Fraction(1, 100), Fraction(100)
_MAX_DENOMINATOR = 1 << 20


@frozen
class Generated:
    """A generated token.

    token: Its number.
    text: Its text; empty while the bytes of a character are incomplete, and for control tokens.
    log_probability: The logarithm of its probability at temperature 1.
    """

    token: int
    text: str
    log_probability: float


@dataclass
class Generation:
    """The state of a text that is generated.

    tokens: The tokens so far, with the prompt.
    limit: The number of tokens that may follow.
    scale, seed: See `quod.inference.transformer.reference.sample`; without a scale the likeliest
        token is chosen.
    ends: The tokens that end the text.
    decode: Return the text of the next token.
    logit_bits: The fractional bits of logits.
    """

    tokens: list[int]
    limit: int
    scale: Quotient | None
    seed: bytes
    ends: frozenset[int]
    decode: Callable[[int], str]
    logit_bits: int

    def append(self, logits: Integers) -> Generated | None:
        """Choose the token after the text and append it; return None if it ends the text."""
        token = greedy(logits)
        if self.scale is not None:
            token = sample(logits, self.scale, self.seed, len(self.tokens))
        if token in self.ends:
            return None
        self.tokens.append(token)
        self.limit -= 1
        probabilities = scaled_log_probabilities(logits, self.logit_bits)
        return Generated(token, self.decode(token), float(probabilities[token]))


@frozen
class Step:
    """The progress of a text of a batch.

    text: The number that `Batch.add` returned.
    generated: The next token; None if a token that ends the text was chosen.
    ended: Whether the text has left the batch.
    error: The error of its token, which ends the text; None without one.
    """

    text: int
    generated: Generated | None
    ended: bool
    error: InputError | None = None


class Batch:
    """Texts that are generated concurrently. A text may enter or leave between two steps.

    A text has the tokens that it would have alone. Not for concurrent use.
    """

    def __init__(self, model: DeviceModel) -> None:
        self._model = model
        self._cached: list[list[int]] = [[] for _ in range(model.sequences)]
        self._active: dict[int, Generation] = {}
        self._logits: dict[int, Integers] = {}
        self._has_ended = False
        for sequence in range(model.sequences):
            model.rewind(0, sequence)

    @property
    def free(self) -> int:
        """The number of texts that may be added."""
        return len(self._cached) - len(self._active)

    def add(self, generation: Generation) -> int:
        """Add a text that may have at least one more token; return its number.

        It takes the free sequence of the cache that has most of its prompt. Raises InputError if
        none is free, and for a text that may have no more tokens.
        """
        self._check_open()
        instance("a text", generation, Generation, "`Transformer.generation` makes one")
        if not generation.limit:
            raise InputError("a text of a batch may have a token at least; its max_tokens is 0")
        sequences = [index for index in range(len(self._cached)) if index not in self._active]
        if not sequences:
            raise InputError(
                f"the batch is full with {len(self._active)} texts, the sequences that the model "
                "was opened with"
            )
        shared = {
            index: shared_prefix(self._cached[index], generation.tokens) for index in sequences
        }
        sequence = max(sequences, key=lambda index: shared[index])
        self._forget(sequence, shared[sequence])
        self._active[sequence] = generation
        return sequence

    def end(self) -> None:
        """Give the cache back: texts that are not complete are lost."""
        self._has_ended = True

    def _check_open(self) -> None:
        if self._has_ended:
            raise InputError("the batch has ended, because its model evaluated other texts")

    def remove(self, text: int) -> None:
        """Remove a text before its end."""
        self._active.pop(text, None)
        self._logits.pop(text, None)

    def step(self) -> list[Step]:
        """Append a token to each text whose prompt was evaluated, and evaluate more of a prompt."""
        self._check_open()
        steps = [self._choose(text, logits) for text, logits in list(self._logits.items())]
        self._logits.clear()
        chosen = {
            step.text: step.generated.token
            for step in steps
            if step.generated is not None and not step.ended
        }
        if chosen:
            rows = self._model.extend_batch(chosen)
            for (text, token), logits in zip(chosen.items(), rows, strict=True):
                self._cached[text].append(token)
                self._logits[text] = logits
        self._evaluate_prompt()
        return steps

    def _choose(self, text: int, logits: Integers) -> Step:
        generation = self._active[text]
        try:
            generated = generation.append(logits)
        except InputError as error:
            # A token that the tokenizer cannot spell must not end the other texts.
            del self._active[text]
            return Step(text, None, ended=True, error=error)
        ended = generated is None or generation.limit == 0
        if ended:
            del self._active[text]
        return Step(text, generated, ended)

    def _evaluate_prompt(self) -> None:
        """Evaluate a chunk of the first prompt that is not complete.

        Then the other texts of the batch get their next token.
        """
        text = next((text for text in self._active if text not in self._logits), None)
        if text is None:
            return
        tokens, cached = self._active[text].tokens, self._cached[text]
        chunk = tokens[len(cached) : len(cached) + self._model.chunk]
        is_last = len(cached) + len(chunk) == len(tokens)
        logits = self._model.extend(chunk, rows=int(is_last), sequence=text)
        cached += chunk
        if is_last:
            self._logits[text] = logits[-1]

    def _forget(self, sequence: int, positions: int) -> None:
        """Forget the positions of a sequence from a number on."""
        self._model.rewind(positions, sequence)
        del self._cached[sequence][positions:]


def shared_prefix(cached: Sequence[int], tokens: Sequence[int]) -> int:
    """Return how many of the first tokens the cache has; the last one is evaluated anyway."""
    count = 0
    while count < min(len(cached), len(tokens) - 1) and cached[count] == tokens[count]:
        count += 1
    return count


def scaled_log_probabilities(logits: Integers, logit_bits: int) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities of all tokens, in f64."""
    return log_probabilities(np.ldexp(logits.astype(np.float64), -logit_bits))


def temperature_scale(temperature: float | Fraction, logit_bits: int) -> Quotient | None:
    """Return the scale of differences of logits at a temperature; None for 0.

    The temperature is the nearest fraction with a denominator of at most 2**20. Raises InputError
    unless it is 0 or from 0.01 to 100.
    """
    try:
        # A text such as "1e999999999" would be an exact fraction, too.
        exact = Fraction(math.nan if isinstance(temperature, (str, bool)) else temperature)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the temperature is no number: {shown(temperature)}") from None
    if exact == 0:
        return None
    if not _MIN_TEMPERATURE <= exact <= _MAX_TEMPERATURE:
        raise InputError(
            f"the temperature must be 0, or from {float(_MIN_TEMPERATURE)} to "
            f"{float(_MAX_TEMPERATURE):g}, not {shown(temperature)}"
        )
    exact = exact.limit_denominator(_MAX_DENOMINATOR)
    return quotient(exact.denominator, exact.numerator**2, logit_bits)
