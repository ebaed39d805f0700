"""Requests for text, of clients and servers, and the body of their jobs.

The body of a job is JSON: the identity of the plan, the tokens of the prompt, and the options. The
server makes the tokens, so that a prompt that is too long is refused before it is a job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from quod.errors import InputError
from quod.frozen import frozen
from quod.service.encoding import Wire
from quod.service.queue.records import HIGHEST_PRIORITY
from quod.service.queue.validation import checked_name, checked_time
from quod.validation import check_characters, shown, shown_kind, whole_number, whole_number_or_none

MAX_SEED: Final = (1 << 64) - 1
DEFAULT_TOKENS: Final = 256
_MAX_TOKENS: Final = 1 << 20
_MAX_MESSAGES: Final = 1 << 12


@frozen
class GenerationRequest:
    """A request for text of a language model.

    model: the name of a model of the server.
    Exactly one of the next two fields is required:
    prompt: the text to continue; names of control tokens count as these.
    messages: a conversation, to which the model's chat template is applied: mappings with `role`
        (usually system, user or assistant; the template defines them) and `content`.
    max_tokens: the maximum number of tokens.
    temperature: 0 for the likeliest token, or from 0.01 to 100.
    seed: chooses the tokens of a temperature, from 0 to 2**64 - 1; default: from the prompt.
    idempotency_key, priority, deadline: see `quod.service.client.ProofRequest`.
    """

    model: str
    prompt: str | None = None
    messages: Annotated[Sequence[Mapping[str, str]] | None, Wire(message=None)] = None
    max_tokens: int = DEFAULT_TOKENS
    temperature: float = 0.0
    seed: int | None = None
    idempotency_key: str = ""
    priority: int = 0
    deadline: float | None = None

    def __post_init__(self) -> None:
        checked_name("the model", self.model)
        checked_name("the idempotency key", self.idempotency_key, empty=True)
        checked_time("the deadline", self.deadline)
        self.__dict__.update(
            max_tokens=whole_number("max_tokens", self.max_tokens, 0, _MAX_TOKENS),
            temperature=_temperature(self.temperature),
            seed=whole_number_or_none("seed", self.seed, 0, MAX_SEED),
            priority=whole_number("the priority", self.priority, 0, HIGHEST_PRIORITY),
            messages=None if self.messages is None else _messages(self.messages),
        )
        if (self.prompt is None) == (self.messages is None):
            raise InputError("give either a prompt or messages", section="prompt")
        if self.prompt is not None and not isinstance(self.prompt, str):
            raise InputError(f"must be text, not {shown_kind(self.prompt)}", section="prompt")
        check_characters("the prompt", self.prompt or "")


def _temperature(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"must be a number, not {shown(value)}", section="temperature")
    try:
        return float(value)
    except OverflowError:
        raise InputError("is too large", section="temperature") from None


def _messages(value: object) -> tuple[dict[str, str], ...]:
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= _MAX_MESSAGES:
        raise InputError(f"must be a list of 1 to {_MAX_MESSAGES} messages", section="messages")
    for index, message in enumerate(value):
        if (
            not isinstance(message, Mapping)
            or set(message) != {"role", "content"}
            or not all(isinstance(text, str) for text in message.values())
        ):
            raise InputError(
                "must be an object with a role and a content, both of text, and nothing else",
                section=f"messages.{index}",
            )
        for text in message.values():
            check_characters("a message", text)
    return tuple(dict(message) for message in value)


@frozen
class Prompt:
    """The body of a job.

    plan: the identity of the plan (`Plan.identity`) that the tokens are generated under.
    tokens: the tokens of the prompt.
    max_tokens, temperature, seed: see `GenerationRequest`.
    """

    plan: str
    tokens: tuple[int, ...]
    max_tokens: int
    temperature: float
    seed: int | None

    def body(self) -> bytes:
        """Encode the body."""
        document = [self.plan, list(self.tokens), self.max_tokens, self.temperature, self.seed]
        return json.dumps(document, separators=(",", ":")).encode()


def read_prompt(body: bytes) -> Prompt:
    """Decode a body that `Prompt.body` encoded; InputError for anything else."""
    try:
        plan, tokens, max_tokens, temperature, seed = json.loads(body)
        return Prompt(
            str(plan), tuple([whole_number("a token", token, 0) for token in tokens]),
            whole_number("max_tokens", max_tokens, 0), float(temperature),
            whole_number_or_none("seed", seed, 0, MAX_SEED),
        )  # fmt: skip
    except (TypeError, ValueError, RecursionError):
        raise InputError("the body of the job is not a prompt") from None


def result_document(
    *, text: str, tokens: Sequence[int], prompt_tokens: int, finish: str, model: str, plan: str
) -> dict[str, Any]:
    """Return the result of a job.

    prompt_tokens: the number of tokens of the prompt.
    finish: "stop" after a token that ends the text, "length" at the maximum number of tokens.
    model, plan: the SHA-256 of the model's file, and the identity of its plan.
    """
    return {
        "text": text, "tokens": list(tokens), "prompt_tokens": prompt_tokens, "finish": finish,
        "model": model, "plan": plan,
    }  # fmt: skip
