"""docs/tutorial.md, followed from the empty folder to the contract: each file, command and line."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quod.bench.peers.evm import Job, call
from quod.cli import entry
from tests.support.evm import run
from tests.support.node import package, run_program

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text()
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(r"save this as `([a-z_]+\.[a-z]+)`:\s*\Z", re.IGNORECASE)


def steps() -> list[tuple[str, str]]:
    """The page's files, as name and text, and its commands, as "$" and what a shell would show."""
    page_steps = []
    for block in _FENCE.finditer(PAGE):
        saved = _SAVED.search(PAGE, 0, block.start())
        if block[1] == "console":
            assert saved is None
            page_steps += [
                ("$", command) for command in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]
            ]
        else:
            assert saved is not None, f"no file is named for {block[2][:40]}"
            page_steps.append((saved[1], block[2]))
    return page_steps


def executed(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command and return its output; its error, if it ends with one."""
    program, *words = shlex.split(line)
    if program == "quod":
        code = entry.run(words)
        printed, said = capsys.readouterr()
        return said if code else printed
    if program == "npm":
        # circom2 sees what is in its folder.
        installed = (REPOSITORY / "tools" / "setup.sh").read_text()
        assert words[0] == "install"
        assert all(package in installed for package in words[1:])
        shutil.copytree(package("circomlib"), "node_modules/circomlib")
        return ""
    if program == "npx":
        done = run_program(*words, directory=Path.cwd())
    else:
        command = {"python": sys.executable, "node": "node"}[program]
        done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.node
def test_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package("circom2")  # or skips
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "src"))
    done = []
    for name, text in steps():
        if name != "$":
            Path(name).write_text(text)
            continue
        line, *shown = text.strip().splitlines()
        done.append(line)
        printed_lines = executed(line, capsys).strip().splitlines()
        if shown:
            assert len(printed_lines) == len(shown), (line, printed_lines)
            for actual, expected in zip(printed_lines, shown, strict=True):
                assert actual.startswith(expected), line
        else:
            assert not printed_lines or not printed_lines[-1].startswith("quod: error"), (
                line,
                printed_lines,
            )
    assert len(done) > 20

    # The contract lets the sender in once, nobody else, and no card of another.
    public = json.loads(Path("public.json").read_text())
    assert entry.run(["zkey", "export", "soliditycalldata", "public.json", "proof.json"]) == 0
    words = re.findall(r"0x([0-9a-f]{64})", capsys.readouterr().out)
    proof, card = "".join(words[:8]), f"{int(public[1]):064x}"
    damaged = f"{int(words[6], 16) ^ 1:064x}"
    calls = [
        call("enter", proof + card),
        call("issue", card),
        call("enter", "".join(words[:6]) + damaged + words[7] + card),
        call("enter", proof + card),
        call("enter", proof + card),
    ]
    (ran,) = run(
        [
            Job(
                source=Path("club.sol").read_text(), contract="Club", optimizer=True,
                hardfork="prague", calls=calls,
                imports={"verifier.sol": Path("verifier.sol").read_text()},
            )
        ]
    )  # fmt: skip
    assert [call["error"] for call in ran["calls"]] == ["revert", None, "revert", None, "revert"]
    assert ran["calls"][2]["returned"] == "0x7fcdd1f4"  # ProofInvalid()
