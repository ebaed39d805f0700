"""quod generate and models: the language models of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from quod.cli.display.terminal import show_json, show_part, show_table
from quod.cli.infer import prompt_text, utf8_text
from quod.cli.parameters import Argument, AsJson, Option, WrongUsage
from quod.cli.service.jobs import DEFAULT_SERVER, Certificate, Server, TokenFile, connect


def generate(
    model: Annotated[str, Argument("MODEL", "Name of a model of the server; see `quod models`.")],
    prompt: Annotated[str | None, Option(metavar="TEXT", help="The prompt.")] = None,
    prompt_file: Annotated[
        Path | None, Option(metavar="FILE", help="File with the prompt; - is standard input.")
    ] = None,
    chat: Annotated[
        bool, Option("--chat", help="The prompt is a message; use the model's chat template.")
    ] = False,
    system: Annotated[
        str | None, Option(metavar="TEXT", help="System message, with --chat.")
    ] = None,
    max_tokens: Annotated[
        int, Option("--max-tokens", "-n", metavar="N", least=0, help="Maximum number of tokens.")
    ] = 256,
    temperature: Annotated[
        float, Option(metavar="T", least=0, help="0 takes the likeliest token; else 0.01 to 100.")
    ] = 0.0,
    seed: Annotated[
        int | None,
        Option(
            metavar="N", least=0, most=(1 << 64) - 1,
            help="Seed for a temperature above 0. Default: from the prompt.",
        ),
    ] = None,
    priority: Annotated[
        int, Option(help="Jobs of a higher priority come first.", least=0, most=9)
    ] = 0,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:  # fmt: skip
    """Generate text on a server, printing it as it comes. Ctrl-C cancels the job."""
    text = prompt_text(prompt, prompt_file)
    if system is not None and not chat:
        raise WrongUsage("--system needs --chat")
    with connect(server, token_file, certificate) as client:
        from quod.service.client import GenerationRequest

        messages = []
        if system is not None:
            messages = [{"role": "system", "content": utf8_text("--system", system)}]
        messages.append({"role": "user", "content": text})
        request = GenerationRequest(
            model, None if chat else text, messages if chat else None, max_tokens, temperature,
            seed, priority=priority,
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
