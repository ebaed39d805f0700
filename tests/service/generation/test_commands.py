"""quod generate, models and serve --model, as a user calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from quod.cli import entry
from quod.inference import Transformer
from quod.service.client import GenerationRequest
from tests.service.server.running_server import ConfiguredServer

PROMPT = "Unless required by applicable law"


def test_text_is_that_of_infer_run(
    server: ConfiguredServer, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--prompt", PROMPT, "-n", "25", "--temperature", "0.7", "--seed", "5"]
    address = server.listeners.grpc[0]
    assert entry.run(["generate", "tiny", *options, "--server", address]) == 0
    text = capsys.readouterr().out
    assert entry.run(["infer", "run", str(model), *options, "-q"]) == 0
    assert capsys.readouterr().out == text
    assert len(text) > 40


def test_chat_and_files(
    server: ConfiguredServer, transformer: Transformer, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "prompt.txt"
    file.write_text("the Work")
    words = ["generate", "tiny", "--prompt-file", str(file), "--chat", "--system", "a", "-n", "9"]
    assert entry.run([*words, "--server", server.listeners.grpc[0]]) == 0
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "the Work"}]
    expected = transformer.generate(transformer.chat(messages), 9)
    assert capsys.readouterr().out == "".join(token.text for token in expected) + "\n"


def test_models_are_listed(
    server: ConfiguredServer, transformer: Transformer, capsys: pytest.CaptureFixture[str]
) -> None:
    address = server.listeners.grpc[0]
    assert entry.run(["models", "--server", address]) == 0
    assert re.search(r"tiny +llama +256 +418 +59030ca6c9f21eb5", capsys.readouterr().out)
    assert entry.run(["models", "--server", address, "--json"]) == 0
    [record] = json.loads(capsys.readouterr().out)
    assert record["plan"] == transformer.plan.identity


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["other", "--prompt", "a"],
            10,
            "there is no model of this name; `quod models`",
        ),
        (["tiny", "--prompt", ""], 3, "the prompt has no tokens"),
        (["tiny", "--prompt", "a" * 3000], 3, "which leave no room in the context of 256"),
        (["tiny", "--prompt", "a", "--temperature", "500"], 3, "the temperature must be 0, or"),
        (["tiny", "--prompt", "a", "--system", "b"], 2, "--system needs --chat"),
        (["tiny"], 2, "give the prompt by --prompt or by --prompt-file"),
    ],
)
def test_refusals(
    server: ConfiguredServer, capsys: pytest.CaptureFixture[str], words: list[str], code: int,
    message: str,
) -> None:  # fmt: skip
    assert entry.run(["generate", *words, "--server", server.listeners.grpc[0]]) == code
    assert message in " ".join(capsys.readouterr().err.split())


def test_results_of_text_have_no_proof(
    server: ConfiguredServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = server.listeners.grpc[0]
    with server.client() as client:
        job = client.submit_generation(GenerationRequest("tiny", "a", max_tokens=2)).id
    proof = tmp_path / "proof.json"
    assert entry.run(["wait", job, "--proof", str(proof), "--server", address]) == 3
    assert "the job has generated text, not a proof" in capsys.readouterr().err
    assert not proof.exists()
    assert entry.run(["wait", job, "--server", address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["finish"] == "length"


def test_a_server_is_checked(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["serve", "--data", str(tmp_path / "data"), "--model", f"licence={model}"]
    assert entry.run([*words, "--check", "--json"]) == 0
    [cost] = json.loads(capsys.readouterr().out)
    assert (cost["key"], cost["device"], cost["problem"]) == ("licence", "cpu", "")
    assert cost["host_bytes"] > cost["read_bytes"] == model.stat().st_size
    assert entry.run([*words, "--add-key", "a=b"]) == 2
    assert entry.run([*words[:-1], "licence"]) == 3
    assert entry.run([*words[:-1], "a=absent.gguf"]) == 3
    assert "absent.gguf: does not exist" in capsys.readouterr().err
