"""quod infer commit, prove and verify: answers of language models with proofs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.progress import followed_timeline
from quod.cli.display.terminal import note, show, show_valid
from quod.cli.infer.commands import (
    DEFAULT_CONTEXT,
    Chat,
    Context,
    Model,
    PlanFile,
    Prompt,
    PromptFile,
    System,
    chat_messages,
    check_text_apart,
    prompt_text,
    read_files,
    show_generated,
    statement_of,
)
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, Device, Option, Quiet, WrongUsage
from quod.errors import MismatchError, VerificationError, naming_file
from quod.wording import counted

if TYPE_CHECKING:
    from quod.inference.transformer.program import Program
    from quod.inference.transformer.proof import Key, Statement
    from quod.inference.transformer.tokenizer import Tokenizer

DEFAULT_TOKENS = 256
NOT_ZERO_KNOWLEDGE = (
    "the weights are bound, not hidden: proofs reveal information about them and about all values"
)


def commit(
    model: Model,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="File for the verifying key.")
    ],
    plan: PlanFile = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Commit to a model's weights: write the key with which its proofs are verified.

    The same model and plan give the same file on every device, so whoever has both can check a key
    by making it again.
    """
    check_outputs([output], read_files(model, plan))
    from quod.inference.transformer.proof import Prover, write_key
    from quod.inference.transformer.transformer import open_program

    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        with timeline.stage("read model"):
            program, chosen_plan = open_program(model, plan)
        with timeline.stage("commit"):
            key = Prover(device, program, chosen_plan.digest).key
        write_key(output, key)
    note(
        f"Committed to the weights in {perf_counter() - begin:.2f} s on {device}: {output}, "
        f"key {key.digest.hex()}",
        quiet=quiet,
    )


def prove(
    model: Model,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="File for the answer and its proof.")
    ],
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    chat: Chat = False,
    system: System = None,
    max_tokens: Annotated[
        int | None,
        Option(
            "--max-tokens", "-n", metavar="N", least=1,
            help=f"Maximum number of tokens; by default {DEFAULT_TOKENS}.",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        Option(
            "--from", metavar="FILE",
            help="Prove these tokens (JSON, from `quod infer run --save`) instead of generating.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        Option("--key", metavar="FILE", help="Refuse a model or plan of another key than this."),
    ] = None,
    plan: PlanFile = None,
    context: Context = DEFAULT_CONTEXT,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Generate an answer, printing it token by token, and prove that the model chose it.

    Every token is the likeliest one. The token that ends the text is proved too, as the last one.
    The proof is NOT zero knowledge.
    """
    check_outputs([output], read_files(model, plan, prompt_file, tokens, key))
    generating = prompt, prompt_file, system, max_tokens, chat, context
    if tokens is None:
        check_text_apart(output)
    elif generating != (None, None, None, None, False, DEFAULT_CONTEXT):
        raise WrongUsage(
            "--from has the tokens of prompt and answer; omit the options of a prompt, "
            "--max-tokens and --context"
        )
    text = "" if tokens is not None else prompt_text(prompt, prompt_file)
    messages = chat_messages(text, system, chat=chat)
    from quod.formats import write_atomically
    from quod.inference.transformer.proof import Prover, read_key
    from quod.inference.transformer.proof.files.answer import answer_writer
    from quod.inference.transformer.proof.files.tokens import read_tokens
    from quod.inference.transformer.proof.key import check_provable
    from quod.inference.transformer.transformer import Transformer, open_program

    expected = None
    if key is not None:
        expected = read_key(key)
        # Before an answer is generated; the plan is compared with the commitment.
        _check_model(model, key, expected)
    statement: Statement
    program: Program
    if tokens is not None:
        statement = read_tokens(tokens)
        program, chosen_plan = open_program(model, plan)
    else:
        with followed_timeline(quiet=quiet):
            transformer = Transformer.open(model, plan=plan, device=device, context=context)
        check_provable(transformer.model)
        prompt_tokens = transformer.tokens_of(transformer.chat(messages) if messages else text)
        limit = DEFAULT_TOKENS if max_tokens is None else max_tokens
        chosen = show_generated(transformer, prompt_tokens, limit, quiet=quiet)
        statement = statement_of(transformer, prompt_tokens, chosen, limit)
        program, chosen_plan = transformer.program, transformer.plan
        # The memory of the model on its device is for the prover now.
        del transformer
    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        with timeline.stage("commit"):
            prover = Prover(device, program, chosen_plan.digest)
        if expected is not None and expected.digest != prover.key.digest:
            raise MismatchError(
                f"is the key {expected.digest.hex()[:16]}..., and the key of {model} under this "
                f"plan is {prover.key.digest.hex()[:16]}...; pass the plan of the key, or commit "
                "again",
                path=key,
            )
        with timeline.stage("prove"), naming_file(model if tokens is None else tokens):
            proof = prover.prove(statement)
    write_atomically(output, answer_writer(prover.key, statement, proof))
    note(
        f"Proved {counted(len(statement.chosen), 'token')} after "
        f"{counted(statement.prompt, 'token')} of prompt in {perf_counter() - begin:.2f} s on "
        f"{device} (checked, {counted(len(proof), 'byte')}): {output}",
        quiet=quiet,
    )
    note(f"Note: {NOT_ZERO_KNOWLEDGE}.", quiet=quiet)


def verify(
    key: Annotated[Path, Argument("KEY", "Verifying key, from `quod infer commit` (qtvk).")],
    answer: Annotated[Path, Argument("ANSWER", "Answer, from `quod infer prove` (qtip).")],
    model: Annotated[
        Path | None,
        Option(metavar="MODEL", help="Model (GGUF) whose tokenizer gives the text of tokens."),
    ] = None,
    prompt: Annotated[
        str | None, Option(metavar="TEXT", help="Prompt to compare with, with --model.")
    ] = None,
    prompt_file: Annotated[
        Path | None, Option(metavar="FILE", help="File with this prompt; - is standard input.")
    ] = None,
    chat: Chat = False,
    system: System = None,
    quiet: Quiet = False,
) -> None:
    """Verify an answer. The exit code is 0 only if it is valid, and 6 if it is not.

    Prints the tokens of prompt and answer, and with --model their text. The prompt is what the
    prover claims: compare it with yours, or pass --prompt.
    """
    has_prompt = prompt is not None or prompt_file is not None
    if (has_prompt or chat) and model is None:
        raise WrongUsage("a prompt is compared by the tokenizer of a model; pass --model")
    text = prompt_text(prompt, prompt_file) if has_prompt or chat else ""
    messages = chat_messages(text, system, chat=chat)
    from quod.inference.transformer.proof import read_answer, read_key

    verifying_key, claimed = read_key(key), read_answer(answer)
    claimed.check(verifying_key)
    statement, tokenizer = claimed.statement, None
    if model is not None:
        from quod.formats import Gguf
        from quod.inference.transformer.chat import render
        from quod.inference.transformer.tokenizer import Tokenizer

        _check_model(model, key, verifying_key)
        file = Gguf.open(model)
        tokenizer = Tokenizer(file)
        if has_prompt:
            text = render(file, tokenizer, messages, answer=True) if messages else text
            _check_prompt(answer, statement, tokenizer, text)
    try:
        claimed.verify(verifying_key)
    except VerificationError as error:
        raise VerificationError(f"{error}; the answer is not proved, do not accept it") from None
    show_valid(quiet=quiet)
    for name, part in (
        ("prompt", statement.tokens[: statement.prompt]),
        ("answer", statement.chosen),
    ):
        show(f"{name}, {counted(len(part), 'token')}: {' '.join(map(str, part))}")
        if tokenizer is not None:
            show(f"{name}, text: {_quoted(tokenizer, part)}")
    note(
        "Note: the proof is about token IDs, not text. "
        + ("" if has_prompt else "The prompt is what the prover claims; compare it with yours. ")
        + f"Trust {key} only if you made it from the model, or trust its source.",
        quiet=quiet,
    )


def _check_model(model: Path, path: Path, key: Key) -> None:
    """Raise MismatchError unless a key names a model's file."""
    from quod.inference.transformer.plan import digest_of

    if (digest := digest_of(model)) != key.model:
        raise MismatchError(
            f"is a key of the model with SHA-256 {key.model.hex()[:16]}..., and {model} has "
            f"{digest.hex()[:16]}...",
            path=path,
        )


def _check_prompt(path: Path, statement: Statement, tokenizer: Tokenizer, text: str) -> None:
    """Raise MismatchError unless the prompt of a statement has the tokens of a text."""
    wanted = tokenizer.encode(text, special=True)
    if wanted == [*statement.tokens[: statement.prompt]]:
        return
    raise MismatchError(
        f"answers another prompt: {_quoted(tokenizer, statement.tokens[: statement.prompt])}, "
        f"{counted(statement.prompt, 'token')}, and not the {counted(len(wanted), 'token')} of "
        "the one that was given",
        path=path,
    )


def _quoted(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    """Return the text of tokens on one line, in quotes; control tokens by their names."""
    return json.dumps(tokenizer.decode(tokens, special=True), ensure_ascii=False)
