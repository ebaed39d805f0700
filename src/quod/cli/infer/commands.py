"""quod infer: language models in exact integers."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.progress import followed_timeline
from quod.cli.display.terminal import note, show_json, show_part, show_table
from quod.cli.inspect import show_description
from quod.cli.outputs import check_outputs, is_standard_output
from quod.cli.parameters import Argument, AsJson, Device, Force, Option, Quiet, WrongUsage
from quod.wording import counted

if TYPE_CHECKING:
    from quod.inference.transformer.plan import Plan, Report
    from quod.inference.transformer.proof.statement import Statement
    from quod.inference.transformer.transformer import Transformer

Model = Annotated[Path, Argument("MODEL", "Language model (GGUF).")]
Prompt = Annotated[str | None, Option(metavar="TEXT", help="The prompt.")]
PromptFile = Annotated[
    Path | None, Option(metavar="FILE", help="File with the prompt; - is standard input.")
]
Chat = Annotated[
    bool, Option("--chat", help="The prompt is a message; use the model's chat template.")
]
System = Annotated[str | None, Option(metavar="TEXT", help="System message, with --chat.")]
MaxTokens = Annotated[
    int, Option("--max-tokens", "-n", metavar="N", least=0, help="Maximum number of tokens.")
]
Temperature = Annotated[
    float, Option(metavar="T", least=0, help="0 takes the likeliest token; else 0.01 to 100.")
]
Seed = Annotated[
    int | None,
    Option(
        metavar="N", least=0, most=(1 << 64) - 1,
        help="Seed for a temperature above 0. Default: from the prompt.",
    ),
]  # fmt: skip
PlanFile = Annotated[
    Path | None,
    Option("--plan", metavar="FILE", help="Plan of the model. Default: MODEL.plan.json."),
]
Context = Annotated[
    int,
    Option(metavar="N", least=2, help="Context window: most tokens of prompt and answer together."),
]
DEFAULT_CONTEXT = 2048
_SECONDS_BETWEEN_NOTES = 5.0


def inspect(model: Model, plan: PlanFile = None, as_json: AsJson = False) -> None:
    """Describe a language model: its shape, tensors, tokenizer and plan."""
    from quod.formats import Gguf
    from quod.frozen import fields_of
    from quod.inference.transformer.memory_needs import memory_needs
    from quod.inference.transformer.model import read_model
    from quod.inference.transformer.plan import digest_of, read_plan
    from quod.inference.transformer.tokenizer import Tokenizer

    file = Gguf.open(model)
    shape = read_model(file).architecture
    tokenizer, needs = Tokenizer(file), memory_needs(file, shape, DEFAULT_CONTEXT)
    types = Counter([tensor.type.name for tensor in file.tensors.values()])
    description: dict[str, object] = {
        "kind": "language model",
        "architecture": shape.family.name,
        "parameters": sum([_size(tensor.shape) for tensor in file.tensors.values()]),
        "layers": shape.layers,
        "width": shape.width,
        "hidden_width": shape.hidden,
        "heads": shape.heads,
        "key_value_heads": shape.kv_heads,
        "context": shape.context,
        "tokens": len(tokenizer),
        "tensors": dict(types),
        "host_bytes": needs.host,
        "device_bytes": needs.device,
        "sha256": digest_of(model).hex(),
    }
    path, accuracy = plan if plan is not None else _plan_path(model), dict[str, object]()
    if plan is not None or path.exists():
        chosen = read_plan(path)
        chosen.check_model(file, bytes.fromhex(str(description["sha256"])))
        description["plan"] = os.fspath(path)
        description["plan_identity"] = chosen.identity
        description["accuracy"] = None if chosen.report is None else fields_of(chosen.report)
        accuracy["accuracy"] = "not measured; see `quod infer plan --evaluate`"
        if chosen.report is not None:
            accuracy["accuracy"] = _described(chosen.report)
    if as_json:
        show_json(description)
    else:
        show_description(description | accuracy)


def plan(
    model: Model,
    output: Annotated[
        Path | None,
        Option(
            "--output", "-o", metavar="FILE", help="File for the plan. Default: MODEL.plan.json."
        ),
    ] = None,
    calibrate: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Text to choose the scales from; repeatable."),
    ] = None,
    evaluate: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Text to measure the accuracy on; repeatable."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Choose the scales of a model from texts, and measure the accuracy.

    Without --calibrate, texts that come with Quod are used; a few hundred tokens suffice. The
    report of --evaluate compares the next token's distribution with that of a float model.
    """
    texts = [*(calibrate or []), *(evaluate or [])]
    target = _plan_path(model) if output is None else output
    check_outputs([target], [model, *texts], exclusive=[] if force else [target])
    from quod.device.memory.budget import bytes_text
    from quod.formats import Gguf
    from quod.inference.transformer.architecture import read_architecture
    from quod.inference.transformer.memory_needs import memory_needs, plan_bytes
    from quod.inference.transformer.transformer import Transformer

    file = Gguf.open(model)
    needs = memory_needs(file, read_architecture(file), 1)
    note(f"The plan needs {bytes_text(plan_bytes(needs))} on the host.", quiet=quiet)
    chosen = Transformer.make_plan(
        model,
        None if calibrate is None else [_text(path) for path in calibrate],
        [_text(path) for path in evaluate or []],
        _Progress(quiet=quiet),
    )
    chosen.write(target, replace=force)
    note(f"{target} has the plan, from {chosen.calibration_tokens} tokens.", quiet=quiet)
    if chosen.report is not None:
        show_description(_described(chosen.report))


def run(
    model: Model,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    chat: Chat = False,
    system: System = None,
    max_tokens: MaxTokens = 256,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    tokens: Annotated[bool, Option("--tokens", help="Print token IDs instead of text.")] = False,
    save: Annotated[
        Path | None,
        Option(metavar="FILE", help="File for the tokens (JSON), for `quod infer prove --from`."),
    ] = None,
    plan: PlanFile = None,
    context: Context = DEFAULT_CONTEXT,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Generate text, printing it token by token.

    The same model, plan, prompt and seed give the same tokens on every device. Names of control
    tokens in the prompt, such as <|im_start|>, stand for these tokens.
    """
    if save is not None:
        if temperature:
            raise WrongUsage("--save takes the likeliest tokens alone; omit --temperature")
        if not max_tokens:
            raise WrongUsage("--save needs at least one token; pass a larger --max-tokens")
        check_outputs([save], read_files(model, plan, prompt_file))
        check_text_apart(save)
    text = prompt_text(prompt, prompt_file)
    messages = chat_messages(text, system, chat=chat)
    transformer = _opened(model, plan, context, device, quiet=quiet)
    if messages:
        text = transformer.chat(messages)
    prompt_tokens = transformer.tokens_of(text)
    chosen = show_generated(
        transformer, prompt_tokens, max_tokens, temperature, seed, as_tokens=tokens, quiet=quiet
    )
    if save is not None:
        from quod.formats import write_atomically
        from quod.inference.transformer.proof.files.tokens import tokens_to_json

        statement = statement_of(transformer, prompt_tokens, chosen, max_tokens)
        write_atomically(save, tokens_to_json(statement))


def show_generated(
    transformer: Transformer, prompt: list[int], max_tokens: int, temperature: float = 0.0,
    seed: int | None = None, *, as_tokens: bool = False, quiet: bool,
) -> list[int]:  # fmt: skip
    """Print the tokens after a prompt one by one, note the speed, and return them."""
    start, first, chosen = perf_counter(), 0.0, list[int]()
    for generated in transformer.generate(
        prompt, max_tokens, temperature=temperature,
        seed=None if seed is None else seed.to_bytes(8, "little"),
    ):  # fmt: skip
        first = first or perf_counter() - start
        chosen.append(generated.token)
        show_part(f"{generated.token} " if as_tokens else generated.text)
    show_part("\n")
    speed = ""
    if len(chosen) > 1:
        rate = (len(chosen) - 1) / (perf_counter() - start - first)
        speed = f", then {rate:.1f} tokens a second"
    note(f"{counted(len(prompt), 'token')} of prompt in {first:.2f} s{speed}.", quiet=quiet)
    return chosen


def statement_of(
    transformer: Transformer, prompt: list[int], chosen: list[int], max_tokens: int
) -> Statement:
    """Return the statement that the model chose the likeliest tokens after a prompt.

    A token that ended the text before the limit is the last one of the statement.
    """
    from quod.inference.transformer.proof.statement import Statement
    from quod.inference.transformer.reference import greedy

    tokens = [*prompt, *chosen]
    if len(chosen) < max_tokens and len(tokens) < transformer.context:
        tokens.append(greedy(transformer.logits(tokens)[-1]))
    return Statement(tuple(tokens), len(prompt))


def score(
    model: Model,
    texts: Annotated[list[Path], Argument("TEXT...", "Texts; - is standard input.")],
    plan: PlanFile = None,
    context: Context = DEFAULT_CONTEXT,
    device: Device = "cpu",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the perplexity of texts, and with --json the log-probability of each token.

    A text longer than the context is split into windows, each of which starts without the tokens
    before it.
    """
    import numpy as np

    contents = [_text(path) for path in texts]
    transformer = _opened(model, plan, context, device, quiet=quiet)
    rows = []
    for path, content in zip(texts, contents, strict=True):
        encoded = transformer.tokenizer.encode(content)
        pieces = [
            encoded[index : index + transformer.context]
            for index in range(0, len(encoded), transformer.context)
        ]
        values = [transformer.log_probabilities(piece).tolist() for piece in pieces]
        flat = [value for piece in values for value in piece]
        rows.append(
            {
                "text": os.fspath(path),
                "tokens": encoded,
                "log_probabilities": flat,
                "perplexity": float(np.exp(-np.mean(flat))) if flat else None,
            }
        )
    if as_json:
        show_json(rows)
        return
    show_table(
        ("text", "tokens", "perplexity"),
        [
            (
                str(row["text"]),
                str(len(row["tokens"])),  # type: ignore[arg-type]
                "" if row["perplexity"] is None else f"{row['perplexity']:.3f}",
            )
            for row in rows
        ],
        right=("tokens", "perplexity"),
    )


def prompt_text(prompt: str | None, prompt_file: Path | None) -> str:
    """Return the prompt of the options --prompt and --prompt-file, of which one is given."""
    if prompt is not None and prompt_file is None:
        return utf8_text("--prompt", prompt)
    if prompt is not None or prompt_file is None:
        raise WrongUsage("give the prompt by --prompt or by --prompt-file")
    return _text(prompt_file)


def chat_messages(text: str, system: str | None, *, chat: bool) -> list[dict[str, str]]:
    """Return the messages of a prompt and a system message; none without --chat."""
    if not chat:
        if system is not None:
            raise WrongUsage("--system needs --chat")
        return []
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": utf8_text("--system", system)})
    return messages


def utf8_text(option: str, text: str) -> str:
    """Return the text of an option; WrongUsage for bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongUsage(f"{option} is not UTF-8") from None
    return text


def _opened(
    model: Path, plan: Path | None, context: int, device: str, *, quiet: bool
) -> Transformer:
    """Open a model; without a plan, make one from the texts that come with Quod."""
    from quod.device.memory.budget import bytes_text
    from quod.formats import Gguf
    from quod.inference.transformer.architecture import read_architecture
    from quod.inference.transformer.memory_needs import memory_needs
    from quod.inference.transformer.transformer import Transformer

    file = Gguf.open(model)
    # A file that is no model is reported as such.
    needs = memory_needs(file, read_architecture(file), context)
    note(
        f"The model needs {bytes_text(needs.host)} on the host, and at least "
        f"{bytes_text(needs.device)} on {device}.",
        quiet=quiet,
    )
    chosen: Plan | Path = _plan_path(model) if plan is None else plan
    if plan is None and not _plan_path(model).exists():
        note(
            f"There is no {_plan_path(model)}, so a plan is made for this run. `quod infer plan "
            f"{model}` keeps one.",
            quiet=quiet,
        )
        chosen = Transformer.make_plan(model, progress=_Progress(quiet=quiet))
    with followed_timeline(quiet=quiet):
        return Transformer.open(model, plan=chosen, device=device, context=context)


class _Progress:
    """Notes about the progress of a plan, some seconds apart."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._next = perf_counter() + _SECONDS_BETWEEN_NOTES

    def __call__(self, step: str, done: int, total: int) -> None:
        if perf_counter() >= self._next:
            note(f"{step}: {done} of {total} tokens", quiet=self._quiet)
            self._next = perf_counter() + _SECONDS_BETWEEN_NOTES


def _described(report: Report) -> dict[str, object]:
    return {
        "evaluated tokens": report.tokens,
        "divergence from float": f"{report.divergence:.2e}",
        "same likeliest token": f"{100 * report.equal_choices:.2f} %",
        "perplexity": f"{report.perplexity:.3f} (float: {report.float_perplexity:.3f})",
        "saturated values": f"{report.saturated:.2f} for a thousand tokens",
    }


def read_files(model: Path, plan: Path | None, *others: Path | None) -> list[Path]:
    """Return the files that a command reads; without a plan, the one beside the model."""
    plan = _plan_path(model) if plan is None else plan
    return [model, plan, *(path for path in others if path is not None)]


def check_text_apart(output: Path) -> None:
    """Raise WrongUsage for a file that is standard output, where generated text goes."""
    if is_standard_output(output):
        raise WrongUsage(f"{output} is where the generated text goes; name another file")


def _plan_path(model: Path) -> Path:
    from quod.inference.transformer.transformer import plan_path

    return Path(plan_path(model))


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def _text(path: Path) -> str:
    from quod.errors import InputError
    from quod.formats.source import read_small

    name = "/dev/stdin" if os.fspath(path) == "-" else os.fspath(path)
    data = read_small(name, limit=16 << 20, what="a text")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8", path=name, offset=error.start) from None
