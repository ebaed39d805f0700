"""Chat templates: the prompt of a conversation, as the model's file describes it in Jinja."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from quod.errors import InputError, QuodError
from quod.extras import installation
from quod.formats.gguf.file import Gguf
from quod.inference.transformer.tokenizer import Tokenizer
from quod.validation import in_order

Message = Mapping[str, str]

_KEY = "tokenizer.chat_template"
_MAX_TEMPLATE = 1 << 16
_MAX_CALLS = 100
"""Calls within calls of a template."""


def render(file: Gguf, tokenizer: Tokenizer, messages: Sequence[Message], *, answer: bool) -> str:
    """Return the prompt of messages; see `Transformer.chat`.

    The template comes with the model, so it runs in Jinja's sandbox, without access to Python.
    """
    template = file.metadata.get(_KEY)
    if not isinstance(template, str):
        raise InputError("has no chat template; give a prompt instead of messages", path=file.path)
    if len(template) > _MAX_TEMPLATE:
        raise _error(file, f"has {len(template)} characters, more than {_MAX_TEMPLATE}")
    checked: list[object] = list(in_order("messages", messages))
    for message in checked:
        if (
            not isinstance(message, Mapping)
            or set(message) != {"role", "content"}
            or not all(isinstance(text, str) for text in message.values())
        ):
            raise InputError("a message has a role and a content, both of text, and nothing else")
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise QuodError(f"chat templates need jinja2: {installation('chat')}") from None

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    class Sandbox(ImmutableSandboxedEnvironment):
        """Ends macros that call themselves: Python's limit may be beyond the stack."""

        depth = 0

        def call(self, *args: Any, **kwargs: Any) -> Any:
            if self.depth == _MAX_CALLS:
                raise TemplateError("it calls itself without end")
            self.depth += 1
            try:
                return super().call(*args, **kwargs)
            finally:
                self.depth -= 1

    environment = Sandbox(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    values: dict[str, Any] = {
        "messages": [dict(message) for message in messages],
        "add_generation_prompt": answer,
        "bos_token": _name(tokenizer, tokenizer.beginning),
        "eos_token": _name(tokenizer, tokenizer.end),
    }
    try:
        return environment.from_string(template).render(values)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise _error(file, f"fails: {error}") from None
    except RecursionError:
        raise _error(file, "fails: it calls itself without end") from None


def _name(tokenizer: Tokenizer, token: int | None) -> str:
    return "" if token is None else tokenizer.text_of(token)


def _error(file: Gguf, message: str) -> InputError:
    return InputError(message, path=file.path, section=f"metadata {_KEY!r}")
