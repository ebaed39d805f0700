"""The language models of a server, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from quod.errors import InputError
from quod.formats.gguf.file import Gguf
from quod.frozen import frozen
from quod.inference.transformer.architecture import Architecture, read_architecture
from quod.inference.transformer.chat import render
from quod.inference.transformer.generation import temperature_scale
from quod.inference.transformer.plan import Plan, digest_of, read_plan
from quod.inference.transformer.tokenizer import Tokenizer
from quod.inference.transformer.transformer import Transformer, check_prompt, plan_path
from quod.service.errors import NotFoundError
from quod.service.generation.requests import GenerationRequest, Prompt
from quod.service.keys.names import parse_name
from quod.service.records import RemoteModel


@frozen(eq=False)
class ServedModel:
    """A model that the server generates text with. Thread-safe.

    digest: the SHA-256 of its file.
    context: the number of positions that fit, of prompt and answer together.
    sequences: the number of texts that a worker generates concurrently.
    """

    name: str
    path: Path
    plan: Plan
    digest: str
    architecture: Architecture
    context: int
    sequences: int
    file: Gguf
    tokenizer: Tokenizer

    def prompt(self, request: GenerationRequest) -> Prompt:
        """Return the tokens of a request and its options.

        Raises InputError for an empty prompt, for one that leaves no room in the context, for a
        temperature out of range, and for messages that the chat template refuses.
        """
        temperature_scale(request.temperature, 0)
        text = request.prompt or ""
        if request.messages is not None:
            try:
                text = render(self.file, self.tokenizer, request.messages, answer=True)
            except InputError as error:
                raise self.error_for_clients(error) from None
        size, longest = len(text.encode()), self.tokenizer.longest
        if size >= self.context * longest:
            # Splitting it into tokens would take seconds.
            raise InputError(
                f"has {size} bytes, at least {size // longest} tokens, which leave no room in the "
                f"context of {self.context}; shorten it",
                section="prompt",
            )
        try:
            tokens = self.tokenizer.encode(text, special=True)
        except InputError as error:
            raise self.error_for_clients(error) from None
        check_prompt(tokens, self.context)
        return Prompt(
            self.plan.identity, tuple(tokens), request.max_tokens, request.temperature, request.seed
        )

    def error_for_clients(self, error: InputError) -> InputError:
        """Return an error that names the model in place of its file, a path of the server."""
        if error.path is None:
            return error
        location = ", ".join([f"the model {self.name!r}", *filter(None, [error.section])])
        return InputError(f"{location}: {error.message}")

    def open(self, device: str) -> Transformer:
        """Open the model on a device; raises as `Transformer.open`."""
        return Transformer.open(
            self.path, plan=self.plan, device=device, context=self.context,
            sequences=self.sequences,
        )  # fmt: skip

    def record(self) -> RemoteModel:
        """Describe the model for clients."""
        return RemoteModel(
            self.name, self.architecture.family.name, self.context, len(self.tokenizer),
            self.digest, self.plan.identity,
        )  # fmt: skip


class Models:
    """The models of a server by name."""

    def __init__(self, models: Iterable[ServedModel]) -> None:
        self._models = {model.name: model for model in models}

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    def of(self, name: str) -> ServedModel:
        """Return the model of a name; raises NotFoundError for another name."""
        model = self._models.get(name)
        if model is None:
            raise NotFoundError(
                "there is no model of this name; `quod models` (ListModels) lists the models that "
                "you may use"
            )
        return model


def read_model(
    name: str, path: Path, *, plan: Path | None = None, context: int | None = None,
    sequences: int = 1,
) -> ServedModel:  # fmt: skip
    """Read the metadata, the tokenizer and the plan of a model; its weights are not read.

    plan: default: `plan_path(path)`.
    context: default: the model's.
    Raises InputError for malformed files, and MismatchError for the plan of another model.
    """
    parse_name(name)
    file = Gguf.open(path)
    architecture = read_architecture(file)
    plan_file = plan_path(path) if plan is None else plan
    if plan is None and not Path(plan_file).exists():
        raise InputError(
            f"has no plan: {plan_file} does not exist; make it with `quod infer plan {path}`",
            path=path,
        )
    chosen = read_plan(plan_file)
    digest = digest_of(path)
    chosen.check_model(file, digest)
    return ServedModel(
        name, path, chosen, digest.hex(), architecture,
        min(context or architecture.context, architecture.context), sequences, file,
        Tokenizer(file),
    )  # fmt: skip
