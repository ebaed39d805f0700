"""quod infer: plans, streamed text, scores, descriptions and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.cli import entry
from quod.inference import Transformer
from tests.inference.transformer.models import VOCABULARY, write_llama

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model with a plan beside it."""
    path = tmp_path_factory.mktemp("models") / "m.gguf"
    write_llama(path, width=32, hidden=64, heads=2, kv_heads=1, kinds=("Q4_1",))
    assert entry.run(["infer", "plan", str(path), "-q"]) == 0
    return str(path)


def test_a_plan_with_a_report(model: str, tmp_path: Path, capsys: Captured) -> None:
    text, out = tmp_path / "t.txt", tmp_path / "p.json"
    text.write_text("the an 12 " * 4)
    words = ["infer", "plan", model, "-o", str(out), "--calibrate", str(text), "--evaluate"]
    assert entry.run([*words, str(text)]) == 0
    captured = capsys.readouterr()
    assert "evaluated tokens" in captured.out
    assert "same likeliest token" in captured.out
    assert f"{out} has the plan, from" in captured.err
    assert entry.run([*words, str(text)]) == 5
    assert "--force" in capsys.readouterr().err
    assert entry.run([*words, str(text), "--force", "-q"]) == 0
    capsys.readouterr()
    assert entry.run(["infer", "inspect", model, "--plan", str(out), "--json"]) == 0
    description = json.loads(capsys.readouterr().out)
    assert description["accuracy"]["tokens"] > 0
    assert entry.run(["infer", "inspect", model, "--plan", str(out)]) == 0
    assert "same likeliest token" in capsys.readouterr().out
    assert description["tokens"] == VOCABULARY


def test_text_is_streamed(model: str, capsys: Captured) -> None:
    expected = list(Transformer.open(model, context=100).generate("the an", 7))
    words = ["infer", "run", model, "-n", "7", "--context", "100"]
    assert entry.run([*words, "--prompt", "the an"]) == 0
    captured = capsys.readouterr()
    assert "tokens a second." in captured.err
    assert captured.out.endswith("\n")
    assert entry.run([*words, "--prompt", "the an", "--tokens", "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == [str(item.token) for item in expected]
    assert captured.err == ""


def test_prompts_of_files_and_of_conversations(
    model: str, tmp_path: Path, capsys: Captured
) -> None:
    pytest.importorskip("jinja2")
    path = tmp_path / "prompt.txt"
    path.write_text("an")
    words = ["infer", "run", model, "-n", "5", "--tokens", "-q"]
    assert entry.run([*words, "--prompt-file", str(path), "--chat", "--system", "the"]) == 0
    from_chat = capsys.readouterr().out
    prompt = "<|start|>system the<|end|><|start|>user an<|end|><|start|>assistant "
    assert entry.run([*words, "--prompt", prompt]) == 0
    assert capsys.readouterr().out == from_chat
    seeded = [*words, "--prompt", "an", "--temperature", "3", "--seed"]
    outputs = []
    for seed in ("1", "1", "2"):
        assert entry.run([*seeded, seed]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_scores(model: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "t.txt"
    path.write_text("the an 12 the")
    assert entry.run(["infer", "score", model, str(path)]) == 0
    assert "perplexity" in capsys.readouterr().out
    assert entry.run(["infer", "score", model, str(path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    transformer = Transformer.open(model)
    assert row["tokens"] == transformer.tokenizer.encode("the an 12 the")
    assert row["log_probabilities"] == transformer.log_probabilities(row["tokens"]).tolist()


def test_a_model_without_a_plan(model: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(Path(model).read_bytes())
    words = ["-n", "4", "--tokens", "--prompt", "the an"]
    assert entry.run(["infer", "run", str(path), *words]) == 0
    captured = capsys.readouterr()
    assert f"There is no {path}.plan.json, so a plan is made" in captured.err
    assert entry.run(["infer", "run", model, *words]) == 0
    assert capsys.readouterr().out == captured.out
    assert not Path(f"{path}.plan.json").exists()


def test_wrong_command_lines(model: str, tmp_path: Path, capsys: Captured) -> None:
    for words, code, message in (
        ([], 2, "give the prompt by --prompt or by --prompt-file"),
        (["--prompt", "a", "--prompt-file", "b"], 2, "give the prompt by"),
        (["--prompt", "a", "--system", "b"], 2, "--system needs --chat"),
        (["--prompt", "\udcff"], 2, "--prompt is not UTF-8"),
        (["--prompt", "a", "--chat", "--system", "\udcff"], 2, "--system is not UTF-8"),
        (["--prompt", ""], 3, "the prompt has no tokens"),
        (["--prompt", "a" * 90, "--context", "50"], 3, "leave no room in the context of 50"),
        (["--prompt", "a", "--temperature", "0.001"], 3, "temperature must be 0, or from"),
        (["--prompt", "a", "--plan", str(tmp_path / "none.json")], 3, "none.json"),
    ):
        assert entry.run(["infer", "run", model, *words]) == code, words
        captured = capsys.readouterr()
        assert message in " ".join(captured.err.split())
        assert captured.out == ""
    text = tmp_path / "t.txt"
    assert entry.run(["infer", "run", __file__, "--prompt", "a"]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    text.write_bytes(b"a\xff")
    assert entry.run(["infer", "score", model, str(text)]) == 3
    assert "offset 1: is not UTF-8" in capsys.readouterr().err
