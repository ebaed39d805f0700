"""quod generate and models: the language models of a server."""

from __future__ import annotations

from typing import Annotated

from quod.cli.display.terminal import show_json, show_part, show_table
from quod.cli.infer.commands import (
    Chat,
    MaxTokens,
    Prompt,
    PromptFile,
    Seed,
    System,
    Temperature,
    chat_messages,
    prompt_text,
)
from quod.cli.parameters import Argument, AsJson, Option
from quod.cli.service.jobs import DEFAULT_SERVER, Certificate, Server, TokenFile, connect


def generate(
    model: Annotated[str, Argument("MODEL", "Name of a model of the server; see `quod models`.")],
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    chat: Chat = False,
    system: System = None,
    max_tokens: MaxTokens = 256,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    priority: Annotated[
        int, Option(help="Jobs of a higher priority come first.", least=0, most=9)
    ] = 0,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:  # fmt: skip
    """Generate text on a server, printing it as it comes. Ctrl-C cancels the job."""
    text = prompt_text(prompt, prompt_file)
    messages = chat_messages(text, system, chat=chat)
    with connect(server, token_file, certificate) as client:
        from quod.service.client import GenerationRequest

        request = GenerationRequest(
            model, None if messages else text, messages or None, max_tokens, temperature, seed,
            priority=priority,
        )  # fmt: skip
        for tokens in client.generate(request):
            show_part(tokens.text)
    show_part("\n")


def models(
    as_json: AsJson = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:
    """List the language models of a server."""
    from quod.frozen import fields_of

    with connect(server, token_file, certificate) as client:
        records = client.models()
    if as_json:
        show_json([fields_of(record) for record in records])
        return
    rows = [
        (each.name, each.architecture, str(each.context), str(each.vocabulary), each.digest[:16],
         each.plan[:16])
        for each in records
    ]  # fmt: skip
    columns = ("model", "architecture", "context", "tokens", "SHA-256", "plan")
    show_table(columns, rows, right=("context", "tokens"))
