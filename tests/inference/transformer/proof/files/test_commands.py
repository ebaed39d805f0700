"""quod infer commit, prove and verify: from a model to a verified answer, and refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quod.cli import entry
from quod.inference import Transformer
from quod.inference.transformer.proof import Answer, Key, Prover, Statement, write_answer
from tests.inference.transformer.models import write_gpt2
from tests.inference.transformer.proof.files.conftest import PROMPT, TOKENS, write_model

Captured = pytest.CaptureFixture[str]


def run(capsys: Captured, *words: object) -> tuple[int, str, str]:
    """Run a command of `quod infer`; return its exit code and its output."""
    capsys.readouterr()
    code = entry.run(["infer", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def proof_of_fixture(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Provers that take no time."""
    monkeypatch.setattr(Prover, "prove", lambda self, statement: answer.proof)


def test_an_answer_is_verified(
    model: Path, key_path: Path, answer_path: Path, answer: Answer, capsys: Captured
) -> None:
    transformer = Transformer.open(model, context=64)
    chosen = [item.token for item in transformer.generate(PROMPT, TOKENS)]
    assert list(answer.statement.chosen) == chosen
    code, out, err = run(capsys, "verify", key_path, answer_path, "--model", model)
    assert code == 0
    lines = out.splitlines()
    prompt = " ".join(map(str, transformer.tokens_of(PROMPT)))
    assert lines[0] == "OK: the proof is valid."
    assert lines[1] == f"prompt, 2 tokens: {prompt}"
    assert lines[2] == 'prompt, text: "a the"'
    assert lines[3] == f"answer, 5 tokens: {' '.join(map(str, chosen))}"
    assert lines[4] == f"answer, text: {json.dumps(transformer.tokenizer.decode(chosen))}"
    assert "The prompt is what the prover claims; compare it with yours." in err
    assert f"Trust {key_path} only if you made it from the model" in err


def test_a_prompt_is_compared(
    model: Path, key_path: Path, answer_path: Path, tmp_path: Path, capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Answer, "verify", Answer.check)
    words = ["verify", key_path, answer_path, "--model", model]
    file = tmp_path / "prompt.txt"
    file.write_text(PROMPT)
    code, _, err = run(capsys, *words, "--prompt-file", file)
    assert code == 0
    assert "what the prover claims" not in err
    for other in ("a th", "a the ", "<|start|>a the"):
        code, out, err = run(capsys, *words, "--prompt", other)
        assert (code, out) == (4, "")
        assert 'answers another prompt: "a the", 2 tokens, and not the' in err
    code, out, err = run(capsys, *words, "--prompt", PROMPT, "--chat")
    assert (code, out) == (4, "")
    for options in (["--prompt", PROMPT], ["--chat"], ["--system", "x"]):
        code, out, err = run(capsys, "verify", key_path, answer_path, *options)
        assert (code, out) == (2, "")


def test_the_same_tokens_have_the_same_proof(
    model: Path, answer_path: Path, tmp_path: Path, capsys: Captured
) -> None:
    tokens, output = tmp_path / "tokens.json", tmp_path / "answer.qtip"
    code, _, _ = run(capsys, "run", model, "--prompt", PROMPT, "-n", TOKENS, "--save", tokens)
    assert code == 0
    code, out, err = run(capsys, "prove", model, "--from", tokens, "-o", output)
    assert (code, out) == (0, "")
    assert "Proved 5 tokens after 2 tokens of prompt in" in err
    assert "the weights are bound, not hidden" in err
    assert output.read_bytes() == answer_path.read_bytes()


def test_the_end_of_a_text_is_proved(
    model: Path, answer: Answer, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second token of the answer ends the text here."""
    prompt, chosen = answer.statement.prompt, answer.statement.chosen
    opened = Transformer.open

    def with_end(*arguments: object, **options: object) -> Transformer:
        transformer = opened(*arguments, **options)  # type: ignore[arg-type]
        transformer.tokenizer.ends = frozenset([chosen[1]])
        return transformer

    monkeypatch.setattr(Transformer, "open", with_end)
    tokens = tmp_path / "tokens.json"
    words = ["run", model, "--prompt", PROMPT, "--save", tokens, "--tokens", "-q", "-n", TOKENS]
    code, out, _ = run(capsys, *words)
    count = chosen.index(chosen[1])
    assert (code, out.split()) == (0, [str(token) for token in chosen[:count]])
    assert json.loads(tokens.read_text()) == {
        "prompt": prompt,
        "tokens": list(answer.statement.tokens[: prompt + count + 1]),
    }


def test_a_key_is_the_same_file_each_time(
    model: Path, key_path: Path, key: Key, tmp_path: Path, capsys: Captured
) -> None:
    plan, output = tmp_path / "plan.json", tmp_path / "again.qtvk"
    plan.write_bytes(Path(f"{model}.plan.json").read_bytes())
    copy = tmp_path / "m.gguf"
    copy.write_bytes(model.read_bytes())
    code, _, err = run(capsys, "commit", copy, "-o", output)
    assert code == 3
    assert f"m.gguf: has no plan: {copy}.plan.json does not exist" in err
    code, out, err = run(capsys, "commit", copy, "--plan", plan, "-o", output)
    assert (code, out) == (0, "")
    assert f"key {key.digest.hex()}" in err
    assert output.read_bytes() == key_path.read_bytes()


def test_another_key_is_refused(
    model: Path, key_path: Path, answer_path: Path, answer: Answer, key: Key, tmp_path: Path,
    capsys: Captured,
) -> None:  # fmt: skip
    other, other_key = write_model(tmp_path, seed=5), tmp_path / "other.qtvk"
    assert entry.run(["infer", "commit", str(other), "-o", str(other_key), "-q"]) == 0
    code, out, err = run(capsys, "verify", other_key, answer_path)
    assert (code, out) == (4, "")
    assert f"{answer_path}: the proof was made with another key" in err
    code, out, err = run(capsys, "verify", key_path, answer_path, "--model", other)
    assert (code, out) == (4, "")
    assert f"{key_path}: is a key of the model with SHA-256 {key.model.hex()[:16]}" in err
    output = tmp_path / "answer.qtip"
    words = ["prove", model, "--prompt", PROMPT, "-n", 2, "-o", output, "-q"]
    code, out, err = run(capsys, *words, "--key", other_key)
    assert (code, out) == (4, "")
    assert f"{other_key}: is a key of the model with SHA-256" in err
    text, plan = tmp_path / "calibration.txt", tmp_path / "plan.json"
    text.write_text("12")
    assert run(capsys, "plan", model, "-o", plan, "--calibrate", text, "-q")[0] == 0
    code, _, err = run(capsys, *words, "--plan", plan, "--key", key_path)
    assert code == 4
    assert f"and the key of {model} under this plan is " in err
    assert not output.exists()


def test_a_changed_token_is_not_proved(
    key_path: Path, key: Key, answer: Answer, tmp_path: Path, capsys: Captured
) -> None:
    tokens, path = answer.statement.tokens, tmp_path / "changed.qtip"
    changed = Statement((*tokens[:-1], (tokens[-1] + 1) % key.vocabulary), answer.statement.prompt)
    write_answer(path, key, changed, answer.proof)
    code, out, err = run(capsys, "verify", key_path, path)
    assert (code, out) == (6, "")
    assert f"{path}: " in err
    assert "the answer is not proved, do not accept it" in err


def test_tokens_that_the_model_does_not_choose(
    model: Path, key: Key, answer: Answer, tmp_path: Path, capsys: Captured
) -> None:
    tokens, output = list(answer.statement.tokens), tmp_path / "answer.qtip"
    file = tmp_path / "t.json"
    for changed, message in (
        ([*tokens[:-1], tokens[-1] ^ 1], "and the model chooses"),
        ([*tokens[:-1], key.vocabulary], "is not in the vocabulary"),
        (tokens[:1] * 300, "299 positions exceed the context of 256"),
    ):
        file.write_text(json.dumps({"prompt": 2, "tokens": changed}))
        code, out, err = run(capsys, "prove", model, "--from", file, "-o", output)
        assert (code, out) == (3, "")
        assert str(file) in err
        assert message in err
        assert not output.exists()


@pytest.mark.usefixtures("proof_of_fixture")
def test_nothing_is_written_to_a_full_disk(
    model: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for words in (
        ["commit", model, "-o", tmp_path / "key"],
        ["prove", model, "--prompt", PROMPT, "-n", TOKENS, "-o", tmp_path / "answer"],
        ["run", model, "--prompt", PROMPT, "-n", 2, "--save", tmp_path / "tokens.json"],
    ):
        code, _, err = run(capsys, *words)
        assert code == 5
        assert "No space left on device" in err
        assert not list(tmp_path.iterdir())


def test_outputs_are_refused_before_any_work(model: Path, tmp_path: Path, capsys: Captured) -> None:
    output = tmp_path / "none" / "out"
    for words in (
        ["commit", model, "-o", output],
        ["prove", model, "--prompt", PROMPT, "-o", output],
        ["run", model, "--prompt", PROMPT, "--save", output],
    ):
        code, out, err = run(capsys, *words)
        assert (code, out) == (5, "")
        assert "create its directory first" in err
    for words in (
        ["commit", model, "-o", model],
        ["prove", model, "--prompt", PROMPT, "-o", model],
        ["run", model, "--prompt", PROMPT, "--save", model],
    ):
        assert run(capsys, *words)[:2] == (2, "")


def test_wrong_command_lines(model: Path, tmp_path: Path, capsys: Captured) -> None:
    output = tmp_path / "out"
    tokens = tmp_path / "t.json"
    tokens.write_text("{}")
    prove = ["prove", model, "-o", output]
    for words, code, message in (
        (prove, 2, "give the prompt by --prompt or by --prompt-file"),
        ([*prove, "--prompt", "a", "--from", tokens], 2, "--from has the tokens of prompt"),
        (["prove", model, "-o", output, "--from", tokens, "-n", 1], 2, "--from has the tokens"),
        ([*prove, "--prompt", "a", "-n", 0], 2, ""),
        ([*prove, "--prompt", "a", "--temperature", 1], 2, ""),
        ([*prove, "--from", tokens], 3, "t.json: is no object with a prompt and tokens alone"),
        (["run", model, "--prompt", "a", "--save", output, "-n", 0], 2, "--save needs"),
        (["run", model, "--prompt", "a", "--save", output, "--temperature", 1], 2, "--save takes"),
        (["verify", model, model], 3, "is not a qtvk file"),
    ):
        exit_code, out, err = run(capsys, *words)
        assert (exit_code, out) == (code, ""), words
        assert message in " ".join(err.split())
    assert not output.exists()


def test_files_that_a_command_reads_are_not_written(
    model: Path, tmp_path: Path, capsys: Captured
) -> None:
    plan = Path(f"{model}.plan.json")
    before = plan.read_bytes()
    for words in (
        ("prove", model, "--prompt", PROMPT, "-n", 2, "-o", plan),
        ("commit", model, "-o", plan),
        ("run", model, "--prompt", PROMPT, "-n", 2, "--save", plan),
    ):
        code, out, err = run(capsys, *words)
        assert (code, out) == (2, ""), words
        assert "twice" in err
    assert plan.read_bytes() == before


def test_text_and_proof_do_not_mix(model: Path, tmp_path: Path) -> None:
    for words in (
        ("prove", "--prompt", PROMPT, "-o", "/dev/stdout"),
        ("run", "--prompt", PROMPT, "-n", "2", "--save", "/dev/stdout"),
    ):
        command = [sys.executable, "-m", "quod", "infer", words[0], str(model), *words[1:]]
        with (tmp_path / "out").open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2
        assert b"/dev/stdout is where the generated text goes" in done.stderr
        assert (tmp_path / "out").read_bytes() == b""


def test_a_model_without_proofs(tmp_path: Path, capsys: Captured) -> None:
    path = write_gpt2(tmp_path / "g.gguf")
    assert entry.run(["infer", "plan", str(path), "-q"]) == 0
    code, _, err = run(capsys, "commit", path, "-o", tmp_path / "key")
    assert code == 3
    assert "models of the family 'gpt2' cannot be proved" in err
    assert not (tmp_path / "key").exists()
    code, out, err = run(capsys, "prove", path, "--prompt", "the", "-o", tmp_path / "answer")
    assert (code, out) == (3, "")  # before a token is generated
    assert "models of the family 'gpt2' cannot be proved" in err


def test_both_files_are_described(key_path: Path, answer_path: Path, capsys: Captured) -> None:
    for path, kind in ((key_path, "(qtvk)"), (answer_path, "(qtip)")):
        assert entry.run(["inspect", str(path)]) == 0
        assert kind in capsys.readouterr().out
    assert entry.run(["inspect", "--json", str(answer_path)]) == 0
    assert json.loads(capsys.readouterr().out)["answer_tokens"] == TOKENS
