"""quod filecoin: commands that prove, verify, describe, and make test parameters and sectors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.cli import entry
from quod.filecoin.checks import check_commit
from quod.filecoin.files import commit_to_bincode, commit_to_json, read_commit
from quod.filecoin.parameters import ParameterSet
from quod.filecoin.parameters import files as parameter_files
from quod.filecoin.seal_records import parse_seal_records
from quod.filecoin.statement_files import post_to_json, read_statement
from quod.filecoin.statements import SealStatement
from tests.filecoin.made_parameters import POREP, WINDOW
from tests.filecoin.sealed import MINER, SECTOR, commit_output
from tests.filecoin.simulated import SimulatedKey
from tests.filecoin.test_proving import statement_of, vanilla_proof
from tests.filecoin.test_seal_records import record_document
from tests.filecoin.test_statement_files import post_document, seal_document, update_document

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command of quod filecoin in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIL_PROOFS_PARAMETER_CACHE", raising=False)
    return lambda *words: entry.run(["filecoin", *map(str, words)])


def test_a_window_post(
    run: Run, window_folder: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The folder is that of the environment."""
    monkeypatch.setenv("FIL_PROOFS_PARAMETER_CACHE", str(window_folder))
    assert run("seal-test", "window", "2KiB", "-o", "post.json", "--sectors", "3") == 0
    assert run("prove-window-post", "post.json", "-o", "proof", "--timings") == 0
    errors = capsys.readouterr().err
    assert "is a test key: anyone can forge proofs for it" in errors
    assert "Proved 2 partitions in" in errors
    assert "check vanilla proofs" in errors
    assert Path("proof").stat().st_size == 2 * 192
    assert run("verify", "post.json", "proof") == 9
    errors = capsys.readouterr().err
    assert "it is a test key of quod filecoin params; use the network's parameters" in errors
    assert "quod groth16" not in errors
    assert run("verify", "post.json", "proof", "--insecure-test-key") == 0
    assert capsys.readouterr().out == "OK: the proof is valid.\n"
    vk = window_folder / WINDOW.file_name("vk")
    assert run("verify", "post.json", "proof", "--vk", vk, "--insecure-test-key", "-q") == 0
    assert capsys.readouterr().out == ""
    document = json.loads(Path("post.json").read_text())
    Path("other.json").write_text(json.dumps(document | {"randomness": "00" * 32}))
    assert run("verify", "other.json", "proof", "--insecure-test-key") == 6
    assert "not valid for this statement and this key" in capsys.readouterr().err
    # The vanilla proofs have the challenges of another randomness.
    assert run("prove-window-post", "other.json", "-o", "new") == 3
    assert "proofs[0].vanilla_proof.sectors[0].inclusion_proofs[0]: is" in capsys.readouterr().err
    Path("proof").write_bytes(bytes(384))
    assert run("verify", "post.json", "proof", "--insecure-test-key") == 3
    assert "error: proof, section partitions[0].pi_a, offset 0: " in capsys.readouterr().err
    Path("proof").write_bytes(bytes(192))
    assert run("verify", "post.json", "proof", "--insecure-test-key") == 3
    assert "must be 384 bytes, 192 for each partition, not 192" in capsys.readouterr().err
    assert not Path("new").exists()


def written(name: str, content: object) -> str:
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content))
    return name


def parameters_of(parameters: ParameterSet) -> str:
    """Write a file of which only the number of public inputs is right."""
    Path("key").write_bytes(bytes(864) + (parameters.public + 1).to_bytes(4, "big"))
    return "key"


def network_named(parameters: ParameterSet) -> Path:
    """Write such a file under the network's name."""
    return Path(parameters_of(parameters)).rename(parameters.file_name("params"))


def vanilla_document() -> str:
    """A WindowPoSt with the vanilla proof of its sector."""
    return post_to_json(statement_of(7), [vanilla_proof(7)])


REFUSED: dict[str, tuple[Callable[[], list[Any]], int, str]] = {
    "another kind": (
        lambda: ["prove-winning-post", written("a", post_document()), "-o", "out"], 4,
        "a: is a statement of window-2KiB; use quod filecoin prove-window-post",
    ),
    "a commit as an update": (
        lambda: ["prove-update", written("a", commit_to_json(commit_output())), "-o", "out"], 4,
        "is a statement of porep-2KiB; use quod filecoin prove",
    ),
    "a statement": (
        lambda: ["prove", written("a", seal_document()), "-o", "out"], 3,
        "has a statement only; proving needs vanilla proofs",
    ),
    "no parameters": (
        lambda: ["prove-update", written("a", update_document()), "-o", "out", "--params", "."], 3,
        ".params): download them with lotus fetch-params 2KiB or curio fetch-params 2KiB, make",
    ),
    "another miner": (
        lambda: [
            "prove", written("a", commit_to_json(commit_output(), SECTOR)), "-o", "out",
            "--miner", "f01001", "--params", parameters_of(POREP),
        ], 4, "error: a, section replica_id: is not that of miner 1001 and sector 7",
    ),
    "no sector number": (
        lambda: [
            "prove", written("a", commit_to_json(commit_output())), "-o", "out",
            "--miner", "1000", "--params", parameters_of(POREP),
        ], 3, "has no sector number; add --sector-number",
    ),
    "parameters of another kind": (
        lambda: [
            "prove", written("a", commit_to_json(commit_output())), "-o", "out",
            "--params", parameters_of(WINDOW),
        ], 4, "has 22 public inputs; porep-2KiB needs 39",
    ),
    "parameters that are cut off": (
        lambda: [
            "prove", written("a", commit_to_json(commit_output())), "-o", "out",
            "--params", written("key", "x"),
        ], 3, "key, offset 1: is cut off before its points",
    ),
    "no folder": (
        lambda: ["prove-update", written("a", update_document()), "-o", "none/out"], 5,
        "no directory",
    ),
    "its own input": (
        lambda: ["prove-update", written("a", update_document()), "-o", "a"], 2, "given twice",
    ),
    "a folder with a long name": (lambda: ["params", "--params", "a" * 5000], 3, "name too long"),
    "its own parameters": (
        lambda: [
            "prove-window-post", written("a", vanilla_document()), "-o", parameters_of(WINDOW),
            "--params", "key",
        ], 2, "given twice",
    ),
    "parameters of its own folder": (
        lambda: [
            "prove-window-post", written("a", vanilla_document()), "--params", ".",
            "-o", network_named(WINDOW),
        ], 2, "given twice",
    ),
    "no file": (lambda: ["prove", "none", "-o", "out"], 3, "none: does not exist"),
    "sector number": (
        lambda: ["prove", written("a", "{}"), "-o", "out", "--sector-number", "5"], 2,
        "--sector-number requires --miner",
    ),
    "no proof": (lambda: ["verify", written("a", post_document())], 2, "missing PROOF"),
    "two keys": (
        lambda: ["verify", written("a", "{}"), "p", "--vk", "a", "--params", "."], 2, "exclude",
    ),
    "no secret": (
        lambda: ["params", "window", "2KiB", "--params", ".", "--seed", "1"], 2,
        "anyone who knows the seed can forge proofs",
    ),
    "a set": (
        lambda: ["params", "window", "--seed", "1", "--insecure-test-key"], 2, "name both",
    ),
    "a large set": (
        lambda: ["params", "porep", "32GiB", "--seed", "1", "--insecure-test-key"], 3,
        "proofs of the kind porep for sectors of 32GiB need a CUDA device",
    ),
    "a kind": (lambda: ["params", "prove"], 2, "unknown kind 'prove'"),
    "a size": (lambda: ["params", "porep", "3KiB"], 2, "the sector size must be 2KiB"),
    "no set": (lambda: ["params", "porep", "4KiB"], 2, "sectors of 4KiB; use 2KiB, 8MiB,"),
    "no files": (lambda: ["params", "--params", "."], 3, "has no files of these parameters"),
    "synthetic": (
        lambda: ["seal-test", "porep", "2KiB", "-o", "out", "--synthetic"], 2, "needs --whole",
    ),
    "whole": (
        lambda: ["seal-test", "porep", "512MiB", "-o", "out", "--whole"], 2,
        "leave out --whole for 512MiB",
    ),
    "an address": (
        lambda: ["prove", written("a", "{}"), "-o", "out", "--miner", "f3abc"], 2,
        "--miner takes the actor id, such as 1000 or f01000, not 'f3abc'",
    ),
    "a large actor id": (
        lambda: ["prove", written("a", "{}"), "-o", "out", "--miner", str(1 << 63)], 2,
        "--miner takes the actor id",
    ),
    "no parameter folder": (
        lambda: ["params", "--params", "none"], 3, "none: does not exist or is not a folder",
    ),
    "existing parameters": (
        lambda: [
            "params", "window", "2KiB", "--params", network_named(WINDOW).parent, "--seed", "1",
            "--insecure-test-key",
        ], 5, "exists, and may be the network's; name another folder with --params",
    ),
    "miner": (lambda: ["seal-test", "window", "2KiB", "-o", "out", "--miner", "7"], 2, "porep"),
    "number": (
        lambda: ["seal-test", "update", "2KiB", "-o", "out", "--sector-number", "7"], 2,
        "no effect on update",
    ),
    "whole update": (lambda: ["seal-test", "update", "2KiB", "-o", "out", "--whole"], 2, "only"),
    "sectors": (
        lambda: ["seal-test", "winning", "2KiB", "-o", "out", "--sectors", "2"], 2,
        "--sectors is only for window",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_work(
    name: str, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    words, code, message = REFUSED[name]
    assert run(*words()) == code
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


def test_sectors_without_a_circuit(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """An output of C1 of 32 GiB has the right form; its circuit is too large to be traced."""
    assert run("seal-test", "window", "32GiB", "-o", "post.json") == 0
    assert run("prove-window-post", "post.json", "-o", "proof") == 3
    assert "of the kind window for sectors of" in capsys.readouterr().err


def test_test_sectors(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal seeds give equal files, which the readers and checks accept."""
    arguments = ["--miner", MINER, "--sector-number", SECTOR]
    for name, words in (
        ("a", ["porep", "2kib"]), ("b", ["porep", "2KiB"]), ("c", ["porep", "2KiB", "--seed", "1"]),
        ("d", ["porep", "2KiB", "--whole", "--synthetic"]),
    ):  # fmt: skip
        assert run("seal-test", *words, "-o", name, *arguments) == 0
        file = read_commit(name)
        assert file.sector_number == SECTOR
        check_commit(file.output, miner=MINER, sector_number=SECTOR)
    assert "a sector that does not exist" in capsys.readouterr().err
    assert Path("a").read_bytes() == Path("b").read_bytes() != Path("c").read_bytes()
    for kind in ("winning", "update"):
        assert run("seal-test", kind, "2KiB", "-o", "file", "-q") == 0
        assert read_statement("file").statement.parameters.kind.value == kind
        assert run("inspect", "file", "--json") == 0
        description = json.loads(capsys.readouterr().out)
        assert description["parameters"] == f"{kind}-2KiB"
        if kind == "winning":
            assert description["registered_proof"] == "StackedDrgWinning2KiBV1"
        assert entry.run(["inspect", "file"]) == 3
        assert "use quod filecoin inspect" in capsys.readouterr().err
    for name in ("a", "d"):
        assert entry.run(["inspect", name]) == 3
        assert "is an output of C1: use quod filecoin inspect" in capsys.readouterr().err


def test_the_replica_id_is_that_of_the_miner(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    key, statement = SimulatedKey(POREP.public), SealStatement.of_output(commit_output())
    key.write(tmp_path / "vk")
    (tmp_path / "proof").write_bytes(key.prove_statement(statement))
    written("lotus.json", commit_to_json(commit_output(), SECTOR))
    Path("c1.bin").write_bytes(commit_to_bincode(commit_output()))
    for file in ("lotus.json", "c1.bin", written("seal.json", seal_document())):
        assert run("verify", file, "proof", "--vk", "vk") == 0
        assert "vk is not the network's key of porep-2KiB" in capsys.readouterr().err
    assert run("verify", "lotus.json", "proof", "--vk", "vk", "--miner", MINER) == 0
    assert run("verify", "lotus.json", "proof", "--vk", "vk", "--miner", MINER + 1) == 4
    assert "replica_id: is not that of miner 1001 and sector 7" in capsys.readouterr().err
    assert run("verify", "c1.bin", "proof", "--vk", "vk", "--miner", MINER) == 3
    assert "has no sector number; add --sector-number" in capsys.readouterr().err
    number = ["--miner", MINER, "--sector-number", SECTOR]
    assert run("verify", "c1.bin", "proof", "--vk", "vk", *number) == 0
    assert run("verify", "seal.json", "proof", "--vk", "vk", "--miner", MINER) == 3
    assert "is not an output of C1; omit --miner" in capsys.readouterr().err


def test_keys_of_another_set(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    SimulatedKey(WINDOW.public).write(tmp_path / "vk")
    written("seal.json", seal_document())
    Path("proof").write_bytes(bytes(192))
    assert run("verify", "seal.json", "proof", "--vk", "vk") == 4
    assert "has 22 public inputs; porep-2KiB needs 39" in capsys.readouterr().err
    SimulatedKey(POREP.public, test=True).write(tmp_path / "vk")
    assert run("verify", "seal.json", "proof", "--vk", "vk") == 9
    Path("vk").write_bytes(Path("vk").read_bytes()[:-1])
    assert run("verify", "seal.json", "proof", "--vk", "vk") == 3


def test_the_file_of_a_key_is_hashed_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A parameter file can be the verifying key, and has up to 60 GB."""
    SimulatedKey(POREP.public).write(tmp_path / "vk")
    written("seal.json", seal_document())
    Path("proof").write_bytes(bytes(192))
    digests: list[str] = []

    def counted_digest(path: object) -> str:
        digests.append(str(path))
        return "0" * 32

    monkeypatch.setattr(parameter_files, "file_digest", counted_digest)
    assert run("verify", "seal.json", "proof", "--vk", "vk") == 3
    assert digests == ["vk"]


def test_seal_records(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Proofs in records are verified as a batch; a wrong one is named."""
    key, lines = SimulatedKey(POREP.public), []
    key.write(tmp_path / "vk")
    for number in range(3):
        document = record_document() | {"sector_id": number}
        (record,) = parse_seal_records(json.dumps(document).encode())
        lines.append(document | {"proof": [*key.prove(record.public_inputs(0))]})
    large = {"sector_size": 8 << 20, "porep_id": [6] + [0] * 31}
    config = record_document()["porep_config"]
    other = record_document() | {"porep_config": config | large}

    def write(*documents: Any) -> str:
        return written("records.json", "\n".join(map(json.dumps, documents)))

    assert run("verify", write(*lines), "--vk", "vk") == 0
    assert capsys.readouterr().out == "OK: all 3 proofs are valid.\n"
    assert run("verify", write(*lines, other), "--vk", "vk", "--sector", "2KiB") == 0
    assert run("verify", "records.json", "--vk", "vk") == 6
    errors = capsys.readouterr().err
    assert "the proof of record 3 is malformed" in errors
    assert "1 of 4 proofs are not valid (records counted from 0: 3)" in errors
    lines[1]["seed"] = [7] * 32
    assert run("verify", write(*lines), "--vk", "vk") == 6
    assert "1 of 3 proofs are not valid (records counted from 0: 1)" in capsys.readouterr().err
    assert run("verify", "records.json", "--vk", "vk", "--sector", "8MiB") == 3
    assert run("verify", "records.json", "vk", "--vk", "vk") == 2
    config = config | {"partitions": 13, "api_version": "V1_2_0"}
    config |= {"api_features": ["NonInteractivePoRep"], "porep_id": [15] + [0] * 31}
    aggregate = record_document() | {"porep_config": config, "proof": [1] * 14164}
    assert run("verify", write(lines[0], aggregate), "--vk", "vk") == 3
    error = capsys.readouterr().err
    assert "has 1 aggregate of non-interactive PoReps" in error
    assert "not verified; the other proof is valid" in error
    assert run("verify", write(aggregate), "--vk", "vk") == 3
    assert capsys.readouterr().err.rstrip().endswith("which are not verified")
    assert run("inspect", write(lines[0], aggregate), "--json") == 0
    description = json.loads(capsys.readouterr().out)
    assert (description["records"], description["aggregates"]) == (2, 1)


def test_descriptions(
    run: Run, capsys: pytest.CaptureFixture[str], window_folder: Path, tmp_path: Path
) -> None:
    def described(path: object) -> dict[str, Any]:
        assert run("inspect", path, "--json") == 0
        description: dict[str, Any] = json.loads(capsys.readouterr().out)
        return description

    description = described(written("c1.json", commit_to_json(commit_output(), SECTOR)))
    assert description["kind"] == "output of C1"
    assert description["registered_proof"] == "StackedDrg2KiBV1_1"
    assert (description["sector_number"], description["vanilla_proofs"]) == (SECTOR, 2)
    assert description["comm_r"] == commit_output().comm_r.hex()
    description = described(window_folder / WINDOW.file_name("vk"))
    assert (description["named_as"], description["public"]) == ("window-2KiB", 22)
    assert description["network"] is None
    assert description["insecure"] == "it is a test key of quod filecoin params"
    assert entry.run(["inspect", str(window_folder / WINDOW.file_name("vk")), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["insecure"] == description["insecure"]
    key = SimulatedKey(POREP.public)
    assert described(key.write(tmp_path / "vk"))["insecure"] is False
    (tmp_path / "proof").write_bytes(key.prove([1] * 39) * 10)
    assert described("proof")["partitions"] == 10
    (tmp_path / "proof").write_bytes(b"\xff" * 192)
    for name in ("proof", written("other", "[]"), tmp_path):
        assert run("inspect", name) == 3


def test_parameter_files(
    run: Run, window_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("params", "--params", window_folder) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[2:]] == [
        ["window-2KiB", "params", "11,501,496"], ["window-2KiB", "vk", "3,076"],
    ]  # fmt: skip
    assert all(line.rstrip().endswith("test key") for line in lines[2:])
    # Another's key, and no key.
    SimulatedKey(POREP.public).write(tmp_path / POREP.file_name("vk"))
    assert run("params", "--params", ".") == 3
    assert "which is not that of the network's porep-2KiB" in capsys.readouterr().err
    assert run("params", "window", "--params", ".") == 3
    (tmp_path / WINDOW.file_name("vk")).write_bytes(b"x" * 100)
    assert run("params", "window", "2KiB", "--params", ".") == 3
    # A test key of another set, and one that is cut off.
    SimulatedKey(POREP.public, test=True).write(tmp_path / WINDOW.file_name("vk"))
    assert run("params", "window", "2KiB", "--params", ".") == 4
    (tmp_path / WINDOW.file_name("vk")).unlink()
    name = WINDOW.file_name("params")
    (tmp_path / name).write_bytes((window_folder / name).read_bytes()[:-1])
    assert run("params", "window", "2KiB", "--params", ".") == 3


@pytest.mark.thorough
def test_making_parameters(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["params", "window", "2KiB", "--params", ".", "--seed", "1", "--insecure-test-key"]
    assert run(*words) == 0
    assert "is INSECURE" in capsys.readouterr().err
    assert Path(WINDOW.file_name("meta")).read_text() == '{"sector_size":2048}'
    assert run(*words) == 5
    assert run(*words, "--force") == 0


def test_a_verifying_key_of_other_parameters(
    run: Run, window_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Proofs of the parameters would not be valid under it."""
    shutil.copy(window_folder / WINDOW.file_name("params"), tmp_path)
    SimulatedKey(WINDOW.public, test=True).write(tmp_path / WINDOW.file_name("vk"))
    assert run("params", "--params", ".") == 4
    assert "does not belong to the proving key in this folder" in capsys.readouterr().err
