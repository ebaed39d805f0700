"""A language model that runs: generation, chat and scores, with the same bits on every device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from fractions import Fraction
from hashlib import sha256
from os import fspath
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import InputError
from quod.formats.gguf.file import Gguf
from quod.formats.source import Path
from quod.inference.transformer.architecture import read_architecture
from quod.inference.transformer.calibration import calibration_texts
from quod.inference.transformer.chat import Message, render
from quod.inference.transformer.device.model import DeviceModel
from quod.inference.transformer.generation import (
    Batch,
    Generated,
    Generation,
    scaled_log_probabilities,
    shared_prefix,
    temperature_scale,
)
from quod.inference.transformer.memory_needs import (
    check_memory,
    check_plan_memory,
    memory_needs,
)
from quod.inference.transformer.model import Model, check_unchanged, read_model
from quod.inference.transformer.plan import (
    Plan,
    Progress,
    check_bounds,
    digest_of,
    make_plan,
    read_plan,
)
from quod.inference.transformer.program import Program, build
from quod.inference.transformer.reference import check_tokens
from quod.inference.transformer.rounding import Integers
from quod.inference.transformer.tokenizer import Tokenizer
from quod.validation import (
    check_function,
    flag,
    in_order,
    plain_bytes,
    whole_number,
    whole_number_or_none,
)

_MAX_TOKEN = (1 << 31) - 1
_SCORED_TOKENS = 64
"""The tokens whose logits are in memory at once when a text is scored."""


def plan_path(model: Path) -> str:
    """Return the file in which a model's plan is looked for: its name and `.plan.json`."""
    return fspath(model) + ".plan.json"


def open_program(path: Path, plan: Plan | Path | None = None) -> tuple[Program, Plan]:
    """Open a GGUF file under a plan, without a tokenizer and a device; see `Transformer.open`."""
    file, chosen = Gguf.open(path), _plan_of(path, plan)
    program = _program(file, chosen)
    check_unchanged(file)
    return program, chosen


def _plan_of(path: Path, plan: Plan | Path | None) -> Plan:
    """Return a plan, or read that of `plan_path`; InputError if there is none."""
    if isinstance(plan, Plan):
        return plan
    if plan is None:
        plan = plan_path(path)
        if not FilePath(plan).exists():
            raise InputError(
                f"has no plan: {plan} does not exist; make it with `quod infer plan "
                f"{fspath(path)}`",
                path=path,
            )
    return read_plan(plan)


def _program(file: Gguf, plan: Plan) -> Program:
    """Return the program of a file under its plan; MismatchError for the plan of another file."""
    plan.check_model(file, digest_of(file.path))
    program = build(read_model(file), plan.scales)
    check_bounds(program)
    return program


class Transformer:
    """A language model in exact integers, on a device. Not for concurrent use."""

    def __init__(
        self, file: Gguf, model: Model, tokenizer: Tokenizer, plan: Plan, program: Program,
        device_model: DeviceModel,
    ) -> None:  # fmt: skip
        """See `open`."""
        self.file, self.model, self.tokenizer, self.plan = file, model, tokenizer, plan
        self.program = program
        self._device_model = device_model
        self._cached: list[int] = []
        self._batch: Batch | None = None

    @classmethod
    def open(
        cls, path: Path, *, plan: Plan | Path | None = None, device: DeviceChoice = "cpu",
        context: int | None = None, sequences: int = 1,
    ) -> Transformer:  # fmt: skip
        """Open a GGUF file under a plan and upload its weights.

        plan: A plan or its file; default: the file `plan_path(path)`. `make_plan` makes one.
        context: The number of positions that the cache holds; default: the model's context.
        sequences: The number of texts that `generate_batch` generates at once.
        Raises InputError for a file, a tokenizer or a plan that is malformed or not supported;
        MismatchError for the plan of another model; DeviceError, before weights are read, if
        memory does not suffice.
        """
        limit = whole_number_or_none("context", context, 1)
        count = whole_number("sequences", sequences, 1)
        file = Gguf.open(path)
        chosen = _plan_of(path, plan)
        shape = read_architecture(file)
        opened = resolve_device(device)
        check_memory(memory_needs(file, shape, limit or shape.context, count), file.path, opened)
        program, tokenizer = _program(file, chosen), Tokenizer(file)
        model = program.model
        if len(tokenizer) != model.vocabulary:
            raise InputError(
                f"has {len(tokenizer)} tokens and embeds {model.vocabulary}", path=file.path
            )
        device_model = DeviceModel(opened, program, context=limit, sequences=count)
        check_unchanged(file)
        return cls(file, model, tokenizer, chosen, program, device_model)

    @staticmethod
    def make_plan(
        path: Path, calibration: Sequence[str] | None = None, evaluation: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> Plan:  # fmt: skip
        """Choose the scales of a model from calibration texts, and measure them on others.

        calibration: Default: texts that come with Quod.
        evaluation: The plan has a report if there are any.
        progress: Is called with a step, the tokens done and the tokens in total.
        Raises InputError for a model that is not supported, or whose sums could reach 2**63;
        DeviceError, before weights are read, if memory does not suffice.
        """
        if progress is not None:
            check_function("progress", progress)
        file = Gguf.open(path)
        shape = read_architecture(file)
        check_plan_memory(memory_needs(file, shape, 1), file.path)
        model, tokenizer = read_model(file), Tokenizer(file)

        def tokens(texts: Iterable[str]) -> list[NDArray[np.int64]]:
            encoded = [
                np.array(tokenizer.encode(text), np.int64) for text in in_order("texts", texts)
            ]
            return [text for text in encoded if len(text)]

        texts = calibration_texts() if calibration is None else calibration
        measured = tokens(evaluation)
        if len(evaluation) and not measured:
            raise InputError("the evaluation texts have no tokens")
        plan = make_plan(file, model, tokens(texts), measured, progress)
        check_unchanged(file)
        return plan

    @property
    def context(self) -> int:
        """The number of positions that fit, of prompt and answer together."""
        return self._device_model.context

    @property
    def memory_bytes(self) -> int:
        """The bytes that the model takes on its device, with the cache."""
        return self._device_model.memory_bytes

    def chat(self, messages: Sequence[Message], *, answer: bool = True) -> str:
        """Return the prompt of a conversation, by the chat template of the file.

        messages: Mappings with `role`, as the template defines them (usually system, user and
            assistant), and `content`.
        answer: Whether the prompt ends where the assistant's answer starts.
        Raises InputError for a file without a template, or a template that fails; QuodError
        without jinja2.
        """
        return render(self.file, self.tokenizer, messages, answer=flag("answer", answer))

    def tokens_of(self, prompt: str | Sequence[int]) -> list[int]:
        """Return the tokens of a prompt, in which the names of control tokens count as these."""
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt, special=True)
        return _token_list("the prompt", prompt)

    def logits(self, tokens: Sequence[int], *, rows: int = 1) -> Integers:
        """Return the exact logits after the last `rows` tokens of a text, int64.

        They stand for integers / 2**program.logit_bits. What the cache has of the text already is
        not computed again. Raises InputError for tokens beyond the vocabulary and for more tokens
        than the context.
        """
        text = _token_list("the text", tokens)
        rows = whole_number("rows", rows, 1, len(text))
        self._end_batch()
        shared = shared_prefix(self._cached, text[: len(text) - rows + 1])
        self._device_model.rewind(shared)
        self._cached = text[:shared]
        logits = self._device_model.extend(text[shared:], rows=rows)
        self._cached = text
        return logits

    def log_probabilities(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each token but the first after those before.

        The logits are exact; only this conversion is in f64.
        """
        text = _token_list("the text", tokens)
        check_tokens(self.program, np.array(text, np.int64), 0, self.context)
        self._end_batch()
        self._device_model.rewind(0)
        self._cached = []
        parts = [np.zeros(0)]
        for start in range(0, len(text) - 1, _SCORED_TOKENS):
            end = start + _SCORED_TOKENS
            chunk, following = text[start:end], text[start + 1 : end + 1]
            logits = self._device_model.extend(chunk, rows=len(chunk))[: len(following)]
            all_tokens = scaled_log_probabilities(logits, self.program.logit_bits)
            parts.append(all_tokens[np.arange(len(following)), following])
        return np.concatenate(parts)

    def generate(
        self, prompt: str | Sequence[int], max_tokens: int = 256, *,
        temperature: float | Fraction = 0, seed: bytes | None = None, stop: Collection[int] = (),
    ) -> Iterator[Generated]:  # fmt: skip
        """Generate tokens after a prompt, one at a time, up to a token that ends the text.

        max_tokens: The maximum number; generation also ends when the context is full.
        temperature: 0 for the likeliest token, or from 0.01 to 100.
        seed: Chooses the tokens of a temperature; default: the SHA-256 of the prompt's tokens.
        stop: More tokens that end the text. A token that ends the text is not returned.
        Raises InputError, before the first token, for an empty or too long prompt.
        """
        generation = self.generation(
            prompt, max_tokens, temperature=temperature, seed=seed, stop=stop
        )
        return self._generated(generation)

    def generate_batch(
        self, prompts: Sequence[str | Sequence[int]], max_tokens: int = 256, *,
        temperature: float | Fraction = 0, seed: bytes | None = None, stop: Collection[int] = (),
    ) -> Iterator[tuple[int, Generated]]:  # fmt: skip
        """Generate tokens after several prompts at once; yield the index of a prompt and a token.

        The tokens of a prompt are those that `generate` gives. Raises InputError as `generate`
        does, and for more prompts than the `sequences` that the model was opened with.
        """
        prompts = list(in_order("the prompts", prompts))
        if len(prompts) > self._device_model.sequences:
            raise InputError(
                f"{len(prompts)} prompts exceed the {self._device_model.sequences} sequences that "
                "the model was opened with"
            )
        generations = [
            self.generation(prompt, max_tokens, temperature=temperature, seed=seed, stop=stop)
            for prompt in prompts
        ]
        return self._generated_batch(generations)

    def batch(self) -> Batch:
        """Return an empty batch of up to `sequences` texts, which uses the whole cache.

        Texts that `generation` returns are added to it. Any other evaluation by this model ends the
        batch, which then raises InputError.
        """
        self._end_batch()
        self._cached = []
        self._batch = Batch(self._device_model)
        return self._batch

    def _end_batch(self) -> None:
        """Take the cache from the last batch."""
        if self._batch is not None:
            self._batch.end()
            self._batch = None

    def generation(
        self, prompt: str | Sequence[int], max_tokens: int = 256, *,
        temperature: float | Fraction = 0, seed: bytes | None = None, stop: Collection[int] = (),
    ) -> Generation:  # fmt: skip
        """Return the state of a text before its first token; see `generate`."""
        tokens = self.tokens_of(prompt)
        limit = whole_number("max_tokens", max_tokens, 0)
        check_prompt(tokens, self.context)
        check_tokens(self.program, np.array(tokens, np.int64), 0, self.context)
        scale = temperature_scale(temperature, self.program.logit_bits)
        if seed is None:
            seed = sha256(np.array(tokens, "<u4").tobytes()).digest()
        ends = _token_list("stop", list(stop) if isinstance(stop, Set) else stop)
        return Generation(
            tokens, min(limit, self.context - len(tokens)), scale, plain_bytes("seed", seed),
            self.tokenizer.ends | frozenset(ends), self.tokenizer.decoder(),
            self.program.logit_bits,
        )  # fmt: skip

    def _generated(self, generation: Generation) -> Iterator[Generated]:
        while generation.limit:
            generated = generation.append(self.logits(generation.tokens)[-1])
            if generated is None:
                return
            yield generated

    def _generated_batch(
        self, generations: Sequence[Generation]
    ) -> Iterator[tuple[int, Generated]]:
        batch = self.batch()
        texts = {
            batch.add(generation): index
            for index, generation in enumerate(generations)
            if generation.limit
        }
        while texts:
            for step in batch.step():
                index = texts.pop(step.text) if step.ended else texts[step.text]
                if step.error is not None:
                    raise step.error
                if step.generated is not None:
                    yield index, step.generated


def _token_list(name: str, tokens: Iterable[int]) -> list[int]:
    return [whole_number("a token", token, 0, _MAX_TOKEN) for token in in_order(name, tokens)]


def check_prompt(tokens: Sequence[int], context: int) -> None:
    """Raise InputError for a prompt without tokens, or one that leaves no room in the context."""
    if not tokens:
        raise InputError("the prompt has no tokens")
    if len(tokens) >= context:
        raise InputError(
            f"the prompt has {len(tokens)} tokens, which leave no room in the context of "
            f"{context}; shorten it or open the model with a larger context"
        )
