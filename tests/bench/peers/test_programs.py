"""Provers given by a path: programs, and rapidsnark's library."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from quod.bench.peers.programs import ProverAtPath, is_path
from quod.bench.peers.provers import Files
from quod.cli import entry
from quod.errors import InputError, QuodError
from quod.groth16 import ProvingKey

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "membership"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a proof and its public values, and a proof that is not valid."""
    folder = tmp_path_factory.mktemp("proof")
    key = ProvingKey.from_zkey(EXAMPLE / "circuit.zkey")
    proof, public = key.prove(EXAMPLE / "witness.wtns")
    (folder / "proof.json").write_text(proof.to_json())
    (folder / "public.json").write_text(json.dumps([str(value) for value in public]))
    wrong = json.loads(proof.to_json())
    wrong["pi_c"] = wrong["pi_a"]
    (folder / "wrong.json").write_text(json.dumps(wrong))
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(
        EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns",
        *(tmp_path / name for name in ("vkey.json", "public.json", "proof.json")),
    )  # fmt: skip


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(0o755)
    return path


def test_a_program_gets_the_files_in_order(tmp_path: Path, outputs: Path, files: Files) -> None:
    log = tmp_path / "log"
    program = script(
        tmp_path / "prover", f'echo "$1 $2" >> {log}', f"cp {outputs}/proof.json $3",
        f"cp {outputs}/public.json $4",
    )  # fmt: skip
    peer = ProverAtPath(str(program))
    assert not peer.is_library
    prove = peer.opened(files)
    prove()
    prove()
    assert log.read_text().splitlines() == [f"{files.zkey} {files.witness}"] * 2


def test_marks_stand_for_files(tmp_path: Path, outputs: Path, files: Files) -> None:
    program = script(
        tmp_path / "prover",
        f'[ "$1 $2 $3" = "prove --key={files.zkey} {files.witness}" ] || exit 7',
        f"cp {outputs}/proof.json $4; cp {outputs}/public.json $5",
    )  # fmt: skip
    words = "prove '--key={zkey}' {witness} {proof} {public}"
    ProverAtPath(f"{program} {words}").opened(files)()
    with pytest.raises(QuodError, match=r"prover failed \(7\)"):
        ProverAtPath(f"{program} {{zkey}}").opened(files)()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["exit 0"], "wrote no proof that can be read"),
        (["echo '{}' > $3", "cp {made}/public.json $4"], "wrote no proof that can be read"),
        (["cp {made}/proof.json $3", "echo '[\"1\"' > $4"], "wrote no proof that can be read"),
        (
            ["cp {made}/wrong.json $3", "cp {made}/public.json $4"],
            "is not valid for this key",
        ),
        (["echo first >&2", "echo no such curve >&2", "exit 9"], r"failed \(9\): no such curve"),
    ],
)
def test_only_valid_proofs_count(
    lines: list[str], said: str, tmp_path: Path, outputs: Path, files: Files
) -> None:
    program = script(tmp_path / "prover", *(line.replace("{made}", str(outputs)) for line in lines))
    with pytest.raises(QuodError, match=said):
        ProverAtPath(str(program)).opened(files)()


def test_files_of_an_earlier_proof_do_not_count(
    tmp_path: Path, outputs: Path, files: Files
) -> None:
    """Quod proves into the same files, before the other prover and between its runs."""
    copies = f"cp {outputs}/proof.json $3; cp {outputs}/public.json $4"
    program = script(tmp_path / "prover", f"[ -e {tmp_path}/idle ] || {{ {copies}; }}")
    prove = ProverAtPath(str(program)).opened(files)
    prove()
    (tmp_path / "idle").touch()
    with pytest.raises(QuodError, match="wrote no proof"):
        prove()
    for path in (files.proof, files.public):
        shutil.copy(outputs / path.name, path)
    with pytest.raises(QuodError, match="wrote no proof"):
        ProverAtPath(str(program)).opened(files)()


def test_deep_public_values_are_no_proof(tmp_path: Path, outputs: Path, files: Files) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    lines = (f"cp {outputs}/proof.json $3", f"cp {tmp_path}/deep.json $4")
    with pytest.raises(QuodError, match="wrote no proof that can be read"):
        ProverAtPath(str(script(tmp_path / "prover", *lines))).opened(files)()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"#!/no/such/interpreter\n", "prover cannot be run: No such file"),
        (b"\x7fELF and no more", "prover cannot be run: Exec format error"),
        (b"#!/bin/sh\nprintf '\\377\\376\\n' >&2; exit 3\n", r"prover failed \(3\): \ufffd"),
        (b"#!/bin/sh\nkill -9 $$\n", r"prover failed \(-9\): no message"),
    ],
    ids=["no interpreter", "no program", "no text", "killed"],
)
def test_programs_that_do_not_run(content: bytes, said: str, tmp_path: Path, files: Files) -> None:
    path = tmp_path / "a prover"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(QuodError, match=said):
        ProverAtPath(f"'{path}'").opened(files)()


def test_paths_are_told_from_names() -> None:
    assert [is_path(peer) for peer in ("snarkjs", "./prover", "/x/prover {zkey}")] == [
        False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "command",
    ["./absent", "/", "./prover 'unbalanced", "/no/such.so", "/" + "x" * 300,
     str(EXAMPLE / "witness.wtns")],
    ids=["absent", "a folder", "unbalanced", "no library", "too long", "not executable"],
)  # fmt: skip
def test_missing_programs_are_input_errors(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="--against"):
        ProverAtPath(command)
    inputs = [str(EXAMPLE / "circuit.zkey"), str(EXAMPLE / "witness.wtns")]
    assert entry.run(["bench", "process", *inputs, "--against", command]) == 3
    assert "--against" in capsys.readouterr().err


def test_rows_name_the_commit(tmp_path: Path) -> None:
    program = script(tmp_path / "prover", "exit 0")
    assert ProverAtPath(str(program)).name == "prover"
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([git, "-C", str(tmp_path), *words], check=True)
    shown = subprocess.run(
        [git, "-C", str(tmp_path), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    assert ProverAtPath(f"{program} {{zkey}}").name == f"prover {shown.stdout.strip()}"


@pytest.mark.parametrize(
    ("name", "is_library"),
    [("a.so", True), ("liba.so.1", True), ("a.so.1.2.3", True), ("a.dylib", True), ("a.dll", True),
     (".so", False), ("a.sox", False), ("a.so.x", False), ("so", False)],
)  # fmt: skip
def test_libraries_are_recognised_by_name(name: str, is_library: bool, tmp_path: Path) -> None:
    path = script(tmp_path / name)
    assert ProverAtPath(str(path)).is_library == is_library
    if is_library:
        with pytest.raises(InputError, match="takes no arguments"):
            ProverAtPath(f"{path} {{zkey}}")


def test_a_library_that_creates_no_prover_fails(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call would end this process."""
    (tmp_path / "library.so").write_bytes(b"")
    functions = SimpleNamespace(
        groth16_prover_create=lambda *_: 0, groth16_prover_prove=lambda *_: pytest.fail("called")
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda _: functions)
    with pytest.raises(QuodError, match="created no prover"):
        ProverAtPath(str(tmp_path / "library.so")).opened(files)()


def test_other_libraries_are_refused(tmp_path: Path, files: Files) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(b"no library")
    peer = ProverAtPath(str(path))
    assert peer.is_library
    with pytest.raises(InputError, match="is not a library of rapidsnark"):
        peer.opened(files)
    for functions in (SimpleNamespace(), SimpleNamespace(groth16_prover_create=None)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ctypes, "CDLL", lambda _, functions=functions: functions)
            with pytest.raises(InputError, match="is not a library of rapidsnark"):
                peer.opened(files)


def test_a_library_keeps_its_key(
    tmp_path: Path, outputs: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls = tmp_path / "library.so", list[str]()
    path.write_bytes(b"")

    def create(prover: object, zkey: bytes, size: ctypes.c_ulonglong, *_: object) -> int:
        calls.append("create")
        assert zkey[: size.value] == files.zkey.read_bytes()
        ctypes.cast(prover, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.c_void_p(5)
        return 0

    def prove(
        prover: ctypes.c_void_p, witness: bytes, size: ctypes.c_ulonglong, *memory: object
    ) -> int:
        calls.append(f"prove {prover.value}")
        assert witness[: size.value] == files.witness.read_bytes()
        proof, _, public, _, message, _ = memory
        if len(calls) == 4:
            message.value = b"out of memory"  # type: ignore[attr-defined]
            return 1
        proof.value = (outputs / "proof.json").read_bytes()  # type: ignore[attr-defined]
        public.value = (outputs / "public.json").read_bytes()  # type: ignore[attr-defined]
        return 0

    functions = SimpleNamespace(groth16_prover_create=create, groth16_prover_prove=prove)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: functions)
    run = ProverAtPath(str(path)).opened(files)
    run()
    run()
    with pytest.raises(QuodError, match="the library failed: out of memory"):
        run()
    assert calls == ["create", "prove 5", "prove 5", "prove 5"]
