"""quod gkr: the usual sequence of commands, the files written, and exit codes of errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quod.cli import entry
from quod.cli import gkr as gkr_command
from quod.cli.gkr import ALGEBRAIC, COMMITMENT, NOT_ZERO_KNOWLEDGE
from quod.commitment.scheme_names import SCHEMES
from quod.field import EXTENSIONS, NAMED
from quod.gkr import security_bits
from quod.layered import CircuitBuilder, Public, Random, read_circuit, write_circuit
from tests.formats import expander
from tests.formats.tiny import replaced, split

PROVE = ["gkr", "prove", "--circuit", "c.circ", "--key", "key.json"]
VERIFY = ["gkr", "verify", "--circuit", "c.circ", "--key", "key.json", "--proof", "p.qgkp"]
MADE = [*PROVE, "--inputs", "w.json", "-o", "p.qgkp", "--public", "public.json", "-q"]

# Public input 0 less the product of the inputs, times a challenge.
SEGMENTS = [
    expander.Segment(2, 2, mul=[(0, 1, 0, -1)], const=[(0, ("public", 0))]),
    expander.Segment(2, 1, add=[(0, 0, expander.RANDOM)]),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a circuit of Expander, its key, and inputs of three instances."""
    monkeypatch.chdir(tmp_path)
    circuit = expander.circuit_bytes(expander.M31, SEGMENTS, [0, 1], public=1)
    (tmp_path / "c.circ").write_bytes(circuit)
    document = {"inputs": [[2, 3], [5, 7], ["11", "13"]], "public": [[6], [35], ["143"]]}
    (tmp_path / "w.json").write_text(json.dumps(document))
    assert entry.run(["gkr", "compile", "c.circ", "-o", "key.json", "-q"]) == 0
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_commands_run_in_separate_processes(folder: Path) -> None:
    source = Path(__file__).parents[2] / "src"
    environment = os.environ | {"PYTHONPATH": str(source)}

    def quod(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "quod", "gkr", *words],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    for words in (PROVE[1:], VERIFY[1:]):
        arguments = ["--inputs", "w.json", "-o", "p.qgkp"] if words[0] == "prove" else []
        done = quod(*words, "--public", "public.json", *arguments)
        assert done.returncode == 0, done.stderr
        assert NOT_ZERO_KNOWLEDGE in done.stderr
    assert done.stdout == "OK: the proof is valid.\n"
    assert json.loads(Path("public.json").read_text()) == [["6"], ["35"], ["143"]]
    Path("public.json").write_text('[["6"], ["35"], ["144"]]')
    done = quod(*VERIFY[1:], "--public", "public.json")
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("quod: error: p.qgkp: not valid for these public inputs")


def test_both_verifiers_agree(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entry.run(MADE) == 0
    words = [*VERIFY, "--public", "public.json"]
    told = []
    for public in (None, '[["6"], ["35"], ["144"]]'):
        if public is not None:
            Path("public.json").write_text(public)
        for options in ([], ["--device", "cpu"]):
            code = entry.run([*words, *options])
            told.append((code, capsys.readouterr().err))
    assert [code for code, _ in told] == [0, 0, 6, 6]
    assert told[2] == told[3]
    # A large one is checked by kernels without being told.
    monkeypatch.setattr(gkr_command, "_MAX_GATES_IN_PYTHON", 0)
    monkeypatch.setattr("quod.gkr.verifier.verifier.verify", None)
    assert entry.run(words) == 6
    assert entry.run([*words, "--device", "none"]) == 7


def test_compile_writes_a_key_and_a_circuit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gkr", "compile", "c.circ", "--output", "k.json", "--circuit-output", "c.qcir"]
    assert entry.run([*words, "--field", "m31.4", "--commitment", "raw"]) == 0
    assert capsys.readouterr() == ("", "Wrote k.json, c.qcir.\n")
    assert Path("k.json").read_bytes() == Path("key.json").read_bytes()
    assert entry.run(["gkr", "compile", "c.qcir", "-o", "again.json", "-q"]) == 0
    assert Path("again.json").read_bytes() == Path("key.json").read_bytes()


def test_weak_security_requires_allow_bits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gkr", "compile", "c.circ", "-o", "k.json", "--field", "m31.3"]
    assert entry.run(words) == 3
    text = said(capsys)
    assert "a proof of this circuit over m31.3 shows" in text
    assert "or pass --allow-bits 8" in text
    assert not Path("k.json").exists()
    assert entry.run([*words, "--allow-bits", "80"]) == 0
    assert "warning: k.json: proofs for this key may have as few as 80 bits" in said(capsys)
    assert json.loads(Path("k.json").read_text())["bits"] == 80
    files = ["k.json" if word == "key.json" else word for word in MADE]
    assert entry.run(files) == 3
    assert "or pass --allow-bits 8" in said(capsys)
    assert entry.run([*files, "--allow-bits", "80"]) == 0
    files = ["k.json" if word == "key.json" else word for word in VERIFY]
    files += ["--public", "public.json", "-q"]
    assert entry.run(files) == 3
    assert "or pass --allow-bits 8" in said(capsys)
    assert entry.run([*files, "--allow-bits", "80"]) == 0
    assert "warning: k.json: the key accepts proofs with as few as 80 bits" in said(capsys)
    # Of more instances fewer bits are left.
    key = json.loads(Path("k.json").read_text())
    bits = security_of("m31.3", 1)
    assert bits > security_of("m31.3", 3)
    Path("k.json").write_text(json.dumps(key | {"bits": bits}))
    words = ["k.json" if word == "key.json" else word for word in MADE]
    assert entry.run([*words, "--allow-bits", "0"]) == 3
    assert "or compile with --allow-bits 8" in said(capsys)


def security_of(field: str, instances: int) -> int:
    circuit = read_circuit("c.circ")
    return security_bits(circuit, EXTENSIONS[field], instances=instances)


def test_data_parallel_keys(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the key to both verifiers; `info` shows the cost of a reduction."""
    assert entry.run(["gkr", "compile", "c.circ", "-o", "k.json", "--columns", "-q"]) == 0
    assert json.loads(Path("k.json").read_text())["reduction"] == "columns"
    words = [[word.replace("key.json", "k.json") for word in command] for command in (MADE, VERIFY)]
    assert entry.run(words[0]) == 0
    for options in ([], ["--device", "cpu"]):
        assert entry.run([*words[1], "--public", "public.json", "-q", *options]) == 0
    assert entry.run([*VERIFY, "--public", "public.json", "-q"]) == 4
    capsys.readouterr()
    reports = []
    for options in ([], ["--columns"]):
        assert entry.run(["gkr", "info", "c.circ", "--instances", "3", "--json", *options]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert [report["reduction"] for report in reports] == ["places", "columns"]
    assert reports[0]["error_terms"] != reports[1]["error_terms"]
    assert reports[0]["bytes_of_layers"] == reports[1]["bytes_of_layers"]
    # The inputs of four instances, and the head of the file, stand before.
    sent = split(Path("p.qgkp").read_bytes())[2]
    assert len(dict(sent)[2]) == 4 * 2 * 4 + reports[1]["bytes_of_layers"]["columns"]


def test_keys_with_sha_256(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gkr", "compile", "c.circ", "-o", "k.json", "--hash"]
    assert entry.run([*words, "sha3-512"]) == 3
    assert "the hash must be sha3-256, sha-256" in said(capsys)
    assert entry.run([*words, "sha-256"]) == 0
    assert json.loads(Path("k.json").read_text())["hash"] == "sha-256"
    capsys.readouterr()
    assert entry.run(["gkr", "inspect", "k.json"]) == 0
    assert "sha-256" in capsys.readouterr().out


@pytest.mark.thorough
def test_recursive_keys(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for by name, shown, and warned of by who compiles and who verifies."""
    words = ["gkr", "compile", "c.circ", "-o", "k.json"]
    assert entry.run([*words, "--hash", "poseidon2-m31"]) == 3
    assert "compile with --recursive" in said(capsys)
    assert entry.run([*words, "--hash", "sha-256", "--recursive"]) == 3
    assert "sha-256 is not for recursive verifiers; omit --recursive" in said(capsys)
    assert not Path("k.json").exists()
    assert entry.run([*words, "--recursive"]) == 0
    assert f"warning: k.json: {ALGEBRAIC}" in said(capsys)
    assert json.loads(Path("k.json").read_text())["hash"] == "poseidon2-m31"
    assert entry.run(["k.json" if word == "key.json" else word for word in MADE]) == 0
    capsys.readouterr()
    files = ["k.json" if word == "key.json" else word for word in VERIFY]
    for options in ([], ["--device", "cpu"]):
        assert entry.run([*files, "--public", "public.json", *options]) == 0
        assert f"warning: k.json: {ALGEBRAIC}" in said(capsys)
    assert entry.run([*VERIFY, "--public", "public.json"]) == 4
    assert "p.qgkp: the proof's hash is 'poseidon2-m31', and the key's 'sha3-256'" in said(capsys)
    key = json.loads(Path("k.json").read_text())
    Path("k.json").write_text(json.dumps(key | {"chain": 63}))
    assert entry.run([*files, "--public", "public.json"]) == 3
    assert "chain of 63 hashes is too short" in said(capsys)
    assert entry.run(["gkr", "inspect", "k.json"]) == 0
    assert "poseidon2-m31" in capsys.readouterr().out
    assert entry.run(["gkr", "info", "c.circ", "--recursive"]) == 0
    text = capsys.readouterr().out
    assert "poseidon2-m31" in text
    assert ALGEBRAIC in text
    assert "2**-118.0" in text.split("the hash")[-1]
    assert entry.run([*words, "--recursive", "--commitment", "ligero"]) == 0
    scheme = json.loads(Path("k.json").read_text())["commitment"]
    assert scheme["hash"] == "poseidon2-m31"
    assert entry.run(["k.json" if word == "key.json" else word for word in MADE]) == 0
    for options in ([], ["--device", "cpu"]):
        assert entry.run([*files, "--public", "public.json", *options]) == 0
    circuit = expander.circuit_bytes(expander.BN254, SEGMENTS, [0, 1], public=1)
    Path("bn.circ").write_bytes(circuit)
    for command in (["info"], ["compile", "-o", "no.json"]):
        assert entry.run(["gkr", command[0], "bn.circ", *command[1:], "--recursive"]) == 3
        assert "no hash over bn254.fr for recursive verifiers" in said(capsys)


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["gkr", "info", "c.circ", "--instances", "3", "--layers"]) == 0
    text = capsys.readouterr().out
    lines = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in text.splitlines()}
    assert (lines["field"], lines["public"], lines["zeros"]) == ("m31", "1", "1")
    assert (lines["challenges"], lines["commitment"], lines["chain"]) == ("m31.4", "raw", "64")
    assert lines["instances"] == "3"
    assert 100 < int(lines["bits"]) < 124
    assert lines["zero knowledge"] == "no"
    for term in ("random coefficients", "the outputs' point", "rounds of sumchecks", "the hash"):
        assert f"  {term}" in text
        assert "2**-1" in text.split(term)[-1]
    # The inputs, a layer that copies them, two layers; the last one of the extension; four
    # instances.
    assert lines["bytes of values"] == str(4 * (8 + 8 + 8 + 32))
    assert f"Note: {NOT_ZERO_KNOWLEDGE}." in text
    assert [line.split() for line in text.splitlines() if line.startswith("    ")] == [
        ["0", "2", "0", "2", *"00000"], ["1", "2", "1", "0", "1", *"0000"],
        ["2", "2", "0", "1", *"00000"],
    ]  # fmt: skip
    assert entry.run(["gkr", "info", "c.circ", "--json", "--layers", "--field", "m31.3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["zero_knowledge"] is False
    assert report["bits"] < 100 == report["least_bits"]
    assert [layer["multiply"] for layer in report["each_layer"]] == [0, 1, 0]


def test_prove_reports_timings_and_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*PROVE, "--inputs", "w.json", "-o", "p.qgkp", "--timings", "--trace", "t.json"]
    assert entry.run(words) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "Proved 3 instances in " in err
    assert "(checked, " in err
    assert NOT_ZERO_KNOWLEDGE in err
    for stage in ("read circuit", "read inputs", "prepare", "prove", "  check", "write"):
        assert stage in err
    # Layers are put together in the table, and apart in the trace.
    assert "layers: corner_weights" in err
    assert "layer 0" not in err
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert {"read circuit", "prove", "check"} <= names
    assert {"layer 0: corner_weights", "layer 1: corner_weights"} <= names
    words = [*PROVE, "--inputs", "w.json", "-o", "q.qgkp", "--no-self-check", "--device"]
    assert entry.run([*words, "cpu:scalar"]) == 0
    assert "on cpu:scalar (not checked, " in capsys.readouterr().err
    assert Path("q.qgkp").read_bytes() == Path("p.qgkp").read_bytes()
    assert entry.run(MADE) == 0
    assert capsys.readouterr() == ("", "")
    assert entry.run([*VERIFY, "--public", "public.json", "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_prove_takes_the_first_instances(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run([*MADE, "--instances", "2"]) == 0
    assert json.loads(Path("public.json").read_text()) == [["6"], ["35"]]
    assert entry.run([*VERIFY, "--public", "public.json", "--instances", "2", "-q"]) == 0
    assert entry.run([*VERIFY, "--public", "public.json", "--instances", "3", "-q"]) == 4
    assert "public.json: has public inputs for 2 instances, not for 3" in said(capsys)
    assert entry.run([*MADE, "--instances", "4"]) == 3
    assert "there are inputs for 3 instances, not for 4" in said(capsys)
    # The public inputs of others.
    Path("all.json").write_text('[["6"], ["35"], ["143"]]')
    assert entry.run([*VERIFY, "--public", "all.json"]) == 4
    assert "p.qgkp: the proof is for 2 instances, not 3" in said(capsys)


def test_circuits_without_public_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.circ").write_bytes(expander.SMALL_CIRCUIT)
    Path("w.json").write_bytes(expander.SMALL_WITNESS)
    assert entry.run(["gkr", "compile", "c.circ", "-o", "key.json", "-q"]) == 0
    assert entry.run(MADE) == 0
    assert entry.run([*VERIFY, "--instances", "16"]) == 0
    assert entry.run([*VERIFY, "--public", "public.json", "-q"]) == 0
    assert entry.run(VERIFY) == 4
    assert "the proof is for 16 instances, not 1" in said(capsys)


@pytest.mark.parametrize("scheme", ["ligero"])
def test_commitments(folder: Path, scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gkr", "compile", "c.circ", "-o", "key.json", "-q", "--commitment", scheme]
    assert entry.run(words) == 0
    assert json.loads(Path("key.json").read_text())["commitment"] == {
        "scheme": "ligero", "log_blowup": 2, "column_bits": 110, "hash": "sha3-256"
    }  # fmt: skip
    assert entry.run(MADE) == 0
    assert entry.run([*VERIFY, "--public", "public.json", "-q"]) == 0
    assert entry.run(["gkr", "info", "c.circ", "--commitment", scheme]) == 0
    assert "ligero 1/4 110 sha3-256" in capsys.readouterr().out
    # With the key of another commitment.
    assert entry.run(["gkr", "compile", "c.circ", "-o", "key.json", "-q"]) == 0
    assert entry.run([*VERIFY, "--public", "public.json", "-q"]) == 4


POWERS = Path(__file__).parents[1] / "data" / "formats" / "bn254" / "powers.ptau"


@pytest.mark.thorough
def test_powers_of_tau(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prime = expander.BN254
    Path("c.circ").write_bytes(expander.circuit_bytes(prime, SEGMENTS, [0, 1], public=1))
    compiling = ["gkr", "compile", "c.circ", "-o", "key.json", "-q"]
    powers = ["--ptau", str(POWERS)]
    for words in ([*compiling, "--commitment", "hyperkzg"], [*compiling, *powers]):
        assert entry.run(words) == 2
        assert "--ptau" in said(capsys)
    assert entry.run([*compiling, "--commitment", "hyperkzg", *powers]) == 0
    assert len(json.loads(Path("key.json").read_text())["commitment"]["tau_g2"]) == 3
    assert entry.run(MADE) == 2
    capsys.readouterr()
    assert entry.run([*MADE, *powers]) == 0
    assert entry.run([*VERIFY, "--public", "public.json", "-q"]) == 0
    # Powers that everyone knows, and others than the key's.
    Path("known.ptau").write_bytes(known_powers())
    assert entry.run([*compiling, "--commitment", "hyperkzg", "--ptau", "known.ptau"]) == 9
    assert entry.run([*MADE, "--ptau", "known.ptau", "--insecure-srs"]) == 4
    assert "known.ptau: has different powers of tau than the verifying key" in said(capsys)
    words = [*compiling, "--commitment", "hyperkzg", "--ptau", "known.ptau", "--insecure-srs"]
    assert entry.run(words) == 0
    assert entry.run([*VERIFY, "--public", "public.json"]) == 9
    assert "everyone knows the tau of the commitment" in said(capsys)
    assert entry.run([*VERIFY, "--public", "public.json", "--insecure-srs"]) == 4


def known_powers() -> bytes:
    """The file of powers with tau 1: generators alone."""
    data = POWERS.read_bytes()
    sections = dict(split(data)[2])
    for number, size in ((2, 64), (3, 128)):
        sections[number] = sections[number][:size] * (len(sections[number]) // size)
    return replaced(data, sections)


def proved(folder: Path) -> list[str]:
    assert entry.run(MADE) == 0
    return [*VERIFY, "--public", "public.json"]


def test_verify_needs_the_public_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proved(folder)
    assert entry.run(VERIFY) == 2
    assert "the circuit has 1 public input; pass --public FILE" in said(capsys)


def test_invalid_proofs_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify, data = proved(folder), Path("p.qgkp").read_bytes()
    capsys.readouterr()
    # Of the last element, the lowest byte: another element, most likely.
    Path("p.qgkp").write_bytes(data[:-4] + bytes([data[-4] ^ 1]) + data[-3:])
    assert entry.run(verify) == 6
    assert "p.qgkp: not valid for these public inputs and this key" in said(capsys)
    Path("p.qgkp").write_bytes(data[:-4] + b"\xff\xff\xff\xff")
    assert entry.run(verify) == 3
    assert "p.qgkp" in said(capsys)
    Path("p.qgkp").write_bytes(data[:-4])
    assert entry.run(verify) == 3
    assert "p.qgkp, section 2, offset 163: states a length of" in said(capsys)


def test_mismatched_files_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify = proved(folder)
    # Once more the same, but for a coefficient.
    other = [expander.Segment(2, 2, mul=[(0, 1, 0, -2)], const=SEGMENTS[0].const), SEGMENTS[1]]
    Path("other.circ").write_bytes(expander.circuit_bytes(expander.M31, other, [0, 1], public=1))
    assert entry.run(["gkr", "compile", "other.circ", "-o", "other.json", "-q"]) == 0
    capsys.readouterr()
    for words in (verify, MADE):
        swapped = ["other.circ" if word == "c.circ" else word for word in words]
        assert entry.run(swapped) == 4
        assert "key.json: the verifying key is for another circuit" in said(capsys)
    both = [{"c.circ": "other.circ", "key.json": "other.json"}.get(word, word) for word in verify]
    assert entry.run(both) == 4
    assert "p.qgkp: the proof and the key are for different circuits" in said(capsys)


def test_failures_write_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(os.listdir())
    assert entry.run([*MADE, "--device", "cuda:99"]) == 7
    wrong = {"inputs": [[2, 3], [5, 7]], "public": [[6], [36]]}
    Path("w.json").write_text(json.dumps(wrong))
    assert entry.run(MADE) == 3
    assert "w.json: output 0 of the circuit of instance 1 is not 0 with these" in said(capsys)
    Path("w.json").write_text('{"inputs": [[2, 3, 4]], "public": [[6]]}')
    assert entry.run(MADE) == 4
    assert "w.json, section inputs: instance 0 has 3 inputs, and the circuit 2" in said(capsys)
    Path("c.circ").write_bytes(Path("c.circ").read_bytes()[:-1])
    for words in (MADE, VERIFY, ["gkr", "info", "c.circ"], ["gkr", "inspect", "c.circ"],
                  ["gkr", "compile", "c.circ", "-o", "new.json"]):  # fmt: skip
        capsys.readouterr()
        assert entry.run(words) == 3
        assert "c.circ, section layers, offset " in said(capsys)
    assert set(os.listdir()) == before


def test_unknown_option_values_are_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["gkr", "info", "c.circ", "--field", "m31.9"]) == 3
    assert 'there is no field "m31.9"' in said(capsys)
    assert entry.run(["gkr", "info", "c.circ", "--field", "goldilocks.2"]) == 3
    assert "challenges must be in m31" in said(capsys)
    assert entry.run(["gkr", "compile", "c.circ", "-o", "k", "--commitment", "none"]) == 3
    assert "the commitment must be raw" in said(capsys)
    assert entry.run(["gkr", "compile", "c.circ"]) == 2
    assert entry.run(["gkr", "prove", "--circuit", "c.circ"]) == 2
    capsys.readouterr()
    assert entry.run(["gkr", "compile", "c.circ", "-o", "c.circ"]) == 2
    assert "given twice" in said(capsys)
    assert entry.run([*MADE[:-1], "--trace", "key.json"]) == 2
    assert entry.run(["gkr", "compile", "c.circ", "-o", "no/k.json"]) == 5
    assert all(name in COMMITMENT.help for name in SCHEMES)


def test_gf2_circuits_are_shown_but_not_proved(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = expander.Segment(2, 2, add=[(0, 0, 1)])
    Path("two.circ").write_bytes(expander.circuit_bytes(2, [segment], [0]))
    assert entry.run(["gkr", "inspect", "two.circ", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provable"] is False
    assert entry.run(["gkr", "compile", "two.circ", "-o", "k.json"]) == 3
    assert "two.circ, section header: the circuit is over gf2" in said(capsys)


def test_inspect_knows_all_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proved(folder)
    builder = CircuitBuilder(NAMED["koala_bear"], 1, public=1)
    builder.layer(1).add(0, 0, Random(0))
    builder.layer(1).constant(0, Public(0))
    write_circuit("c.qcir", builder.finished())
    capsys.readouterr()
    for file, kind in {
        "c.circ": "layered circuit (Expander, CIRCUIT6)", "c.qcir": "layered circuit (qcir)",
        "key.json": "verifying key of a layered circuit (JSON)",
        "p.qgkp": "proof of a layered circuit (qgkp)",
        "w.json": "inputs of a layered circuit (JSON)",
        "public.json": "public inputs of a layered circuit (JSON)",
    }.items():  # fmt: skip
        for group in ([], ["gkr"]):
            assert entry.run([*group, "inspect", file, "--json"]) == 0
            report = json.loads(capsys.readouterr().out)
            assert (report["file"], report["kind"]) == (file, kind)
        assert entry.run(["gkr", "inspect", file]) == 0
        assert kind in capsys.readouterr().out


def test_a_pipe_of_inputs_and_outputs(folder: Path) -> None:
    """The shell's <(...) and /dev/stdout."""
    source = Path(__file__).parents[2] / "src"
    command = f"{sys.executable} -m quod " + " ".join(
        [*PROVE, "--inputs", "<(cat w.json)", "-o", "p.qgkp", "--public", "/dev/stdout", "-q"]
    )
    done = subprocess.run(
        ["bash", "-c", command], env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [["6"], ["35"], ["143"]]
