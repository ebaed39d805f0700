"""Every command and snippet of the documentation runs, every link leads somewhere."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from quod.cli import entry

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "examples").rglob("*.md"),
    ]
)
# Their snippets build on each other; tests/kernel and tests/test_tutorial.py run them.
OWN_TEST = [
    REPOSITORY / "docs" / name
    for name in (
        "language.md",
        "running-kernels.md",
        "fields-and-curves-in-kernels.md",
        "tutorial.md",
    )
]
# Installs into the environment that runs the tests; `make` does the same before it runs them.
NOT_RUN = {"pip install ."}
# The folder of the commands' outputs.
MAKE_OUT = "mkdir -p out"

# Pages whose blocks take more than six seconds. What they show has tests of its own.
SLOW = [
    REPOSITORY / "docs" / name
    for name in (
        "circuits.md",
        "cli.md",
        "filecoin.md",
        "gkr.md",
        "inference.md",
        "python.md",
        "tensors.md",
    )
]

# What is not installed everywhere, by a line of the snippets that need it.
OPTIONAL = {"import torch\n": "torch"}
# What is fetched on demand, by a part of the snippets that need it.
FETCHED = {'"build/smollm2/': REPOSITORY / "build" / "smollm2"}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A snippet, and what it prints, if that stands right behind.
_SNIPPET = re.compile(
    r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)


_FRACTION = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def alike(printed: str, actual: str) -> bool:
    """Return whether texts are the same but for last digits of fractions: processors add up in
    different orders.
    """
    pairs = zip(_FRACTION.findall(printed), _FRACTION.findall(actual), strict=False)
    near = all(math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=1e-6) for a, b in pairs)
    return near and _FRACTION.split(printed) == _FRACTION.split(actual)


def blocks(page: Path, language: str) -> list[str]:
    return [body for name, body in _FENCE.findall(page.read_text()) if name == language]


def with_blocks(language: str) -> list[Path]:
    return [page for page in PAGES if page not in OWN_TEST and blocks(page, language)]


def timely(language: str) -> list[ParameterSet]:
    """Those pages, the slow ones thoroughly."""
    return [
        pytest.param(page, marks=pytest.mark.thorough if page in SLOW else ())
        for page in with_blocks(language)
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, with the examples in it as in a checkout."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    (tmp_path / "build").mkdir()
    for path in FETCHED.values():
        (tmp_path / "build" / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_documentation_has_runnable_blocks() -> None:
    assert {"README.md", "docs/cli.md"} <= {name_of(page) for page in with_blocks("console")}
    assert {"README.md", "docs/python.md"} <= {name_of(page) for page in with_blocks("python")}


def not_ignored(folder: Path) -> list[str]:
    """Files that were written to a folder and that git would list as untracked in a checkout."""
    names = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_relative_to(folder / "examples")
    ]
    command = ["git", "-C", str(REPOSITORY), "check-ignore", "--no-index", "--stdin"]
    listed = subprocess.run(command, input="\n".join(names), capture_output=True, text=True)
    assert listed.returncode in (0, 1), listed.stderr
    return sorted({*names} - {*listed.stdout.splitlines()})


def test_server_witness_files_are_git_ignored(folder: Path) -> None:
    for name in ("data/spool/1", "quod-data/queue.db", "out/proof.json", "proof.json", "x/a.json"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("")
    assert not_ignored(folder) == ["x/a.json"]


@pytest.mark.parametrize("page", timely("console"), ids=name_of)
def test_commands(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A page may verify what another one has shown how to prove.
    files = ["examples/membership/circuit.zkey", "examples/membership/witness.wtns"]
    if any(" out/" in block for block in blocks(page, "console")):
        assert MAKE_OUT in page.read_text()
    (folder / "out").mkdir()
    assert entry.run(["groth16", "prove", *files, "out/proof.json", "out/public.json", "-q"]) == 0
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if not line.startswith("$ "):
                continue
            command = line[2:]
            if command in NOT_RUN or command == MAKE_OUT:
                continue
            program, *arguments = shlex.split(command)
            assert program == "quod", f"{command}: only quod commands can be run here"
            code = entry.run(arguments)
            assert code == 0, f"{command}: exit code {code}: {capsys.readouterr().err}"
    assert not_ignored(folder) == []


@pytest.mark.parametrize("page", timely("python"), ids=name_of)
def test_snippets(page: Path, folder: Path) -> None:
    absent = set()
    for number, (block, printed) in enumerate(_SNIPPET.findall(page.read_text())):
        needed = {module for line, module in OPTIONAL.items() if line in block}
        missing = {module for module in needed if not find_spec(module)}
        missing |= {
            path.name for part, path in FETCHED.items() if part in block and not path.exists()
        }
        if missing:
            absent |= missing
            continue
        script = folder / "out" / f"snippet_{number}.py"
        script.parent.mkdir(exist_ok=True)
        script.write_text(block)
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        assert not printed or alike(printed, done.stdout), f"{block}\n{done.stdout}"
    assert not_ignored(folder) == []
    if absent:
        pytest.skip(f"all ran but what needs {', '.join(absent)}, which is not installed")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


COMMANDS = [
    "groth16 prove",
    "groth16 fullprove",
    "groth16 verify",
    "groth16 setup",
    "groth16 test-key",
    "zcash prove-spend",
    "zcash prove-output",
    "zcash prove-bundle",
    "zcash prove-convert",
    "zcash verify",
    "infer commit",
    "infer inspect",
    "infer plan",
    "infer prove",
    "infer run",
    "infer score",
    "infer verify",
    "zcash circuit",
    "filecoin prove",
    "filecoin prove-update",
    "filecoin prove-window-post",
    "filecoin prove-winning-post",
    "filecoin verify",
    "filecoin params",
    "filecoin inspect",
    "filecoin seal-test",
    "gkr info",
    "gkr compile",
    "gkr prove",
    "gkr verify",
    "gkr inspect",
    "powersoftau new",
    "powersoftau contribute",
    "powersoftau beacon",
    "powersoftau prepare",
    "powersoftau truncate",
    "powersoftau export challenge",
    "powersoftau import response",
    "powersoftau verify",
    "zkey new",
    "zkey contribute",
    "zkey beacon",
    "zkey verify",
    "zkey export verificationkey",
    "zkey export bellman",
    "zkey export json",
    "zkey import bellman",
    "zkey export solidityverifier",
    "zkey export soliditycalldata",
    "keys add",
    "keys list",
    "keys show",
    "keys check",
    "keys remove",
    "keys served",
    "keys preload",
    "keys evict",
    "keys resume",
    "serve",
    "generate",
    "models",
    "submit",
    "wait",
    "status",
    "cancel",
    "r1cs check",
    "r1cs compile",
    "r1cs info",
    "r1cs print",
    "r1cs export json",
    "wtns calculate",
    "wtns check",
    "wtns export json",
    "export-web",
    "inspect",
    "devices",
    "resident status",
    "resident stop",
    "kernel list",
    "kernel build",
    "kernel emit",
    "kernel analyze",
    "kernel bench",
    "bench field",
    "bench msm",
    "bench ntt",
    "bench sumcheck",
    "bench gemm",
    "bench softmax",
    "bench norm",
    "bench activation",
    "bench attention",
    "bench attention-gradient",
    "bench decode",
    "bench loss",
    "bench adamw",
    "bench inference",
    "bench transformer",
    "bench quant",
    "bench commitment",
    "bench lookup",
    "bench gkr",
    "bench groth16",
    "bench process",
    "bench filecoin",
    "bench queue",
    "bench verify",
    "bench submit",
    "bench witness",
    "bench zcash",
    "bench setup",
    "bench solidity",
    "bench ceremony",
    "bench serve-pipeline",
    "bench serve",
]


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert entry.run([*command.split(), "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.thorough
def test_documented_options_match_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    page = (REPOSITORY / "docs" / "cli.md").read_text()
    option = re.compile(r"--[a-z][a-z0-9-]*")
    options = set(option.findall(help_of("", capsys)))
    for command in COMMANDS:
        options |= set(option.findall(help_of(command, capsys)))
    mentioned = set(option.findall(page))
    assert mentioned - options == set()
    # The page names --no-self-check; its opposite is what happens anyway.
    assert options - mentioned - {"--self-check", "--version"} == set()


def test_every_command_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    from quod.cli.app import app

    def leaves(command: object, path: str) -> list[str]:
        inner = getattr(command, "commands", None)
        if not inner:
            return [path.strip()]
        return [
            leaf
            for name, subcommand in inner.items()
            for leaf in leaves(subcommand, f"{path} {name}")
        ]

    assert sorted(leaves(app.built, "")) == sorted(COMMANDS)
    page = (REPOSITORY / "docs" / "cli.md").read_text()
    for command in COMMANDS:
        if command.startswith("bench "):
            assert f"`quod {command}" in page
        else:
            assert f"`quod {command}" in page.split("## quod groth16 prove")[0]


def test_benchmark_page_matches_the_results() -> None:
    script = REPOSITORY / "benchmarks" / "report.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)
