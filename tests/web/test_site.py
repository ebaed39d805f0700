"""Contents of an exported site, and refused exports."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import urlopen

import pytest

from quod.cli import entry
from quod.errors import InputError, MismatchError, OutputError
from quod.formats import Zkey, write_bellman_parameters
from quod.groth16 import ProvingKey, VerifyingKey
from quod.web import site as site_module
from quod.web.runtime_text import runtime_files
from quod.web.serve import HEADERS, site_server
from quod.web.signals import Signal, read_example, read_symbols
from quod.web.site import export_site
from quod.web.witness_wasm import read_calculator
from tests.groth16.bellman_key import parameters
from tests.groth16.circuits import recurrence
from tests.web.tables import EXAMPLE, export_table_site


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    export_table_site(folder)
    return folder


def test_files_are_listed_with_their_hashes(exported: Path) -> None:
    site, graph = (
        json.loads((exported / name).read_text()) for name in ("site.json", "graph.json")
    )
    listed = {**site["files"], **graph["files"]}
    for name, row in listed.items():
        content = (exported / name).read_bytes()
        assert row == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    written = {path.name for path in exported.iterdir()}
    assert written == {*listed, *runtime_files(), "site.json"}
    assert b"VERSION" not in (exported / "offline.js").read_bytes()


def test_site_describes_the_circuit(exported: Path) -> None:
    site = json.loads((exported / "site.json").read_text())
    assert (site["name"], site["curve"], site["public"]) == ("Membership", "bn254", 3)
    assert site["publics"] == ["nullifier", "root", "scope"]
    signals = {row["name"]: row for row in site["signals"]}
    assert signals["siblings"] == {"name": "siblings", "dims": [10], "public": False}
    assert signals["root"] == {"name": "root", "dims": [], "public": True}
    assert site["example"] == json.loads((EXAMPLE / "input.json").read_text())


def test_site_without_a_calculator_accepts_witnesses(tmp_path: Path) -> None:
    export_table_site(tmp_path / "site", calculator=False)
    site = json.loads((tmp_path / "site" / "site.json").read_text())
    assert set(site["files"]) == {"graph.json", "verification_key.json"}
    assert not (tmp_path / "site" / "witness.wasm").exists()
    assert (site["signals"], site["example"]) == ([], None)
    assert site["publics"] == ["nullifier", "root", "scope"]
    with pytest.raises(InputError, match="an example input needs a witness calculator"):
        export_site(EXAMPLE / "circuit.zkey", None, tmp_path / "x", example=EXAMPLE / "input.json")
    words = ["export-web", str(EXAMPLE / "circuit.zkey"), "-o", str(tmp_path / "x")]
    assert entry.run([*words, "--input", str(EXAMPLE / "input.json")]) == 2
    assert not (tmp_path / "x").exists()


@pytest.mark.thorough
def test_parameters_of_bellman_make_a_site(tmp_path: Path) -> None:
    """A browser's data are recorded as for every key; the verifying key is the file's."""
    circuit = recurrence("bls12_381", 9)
    write_bellman_parameters(tmp_path / "c.params", parameters(circuit))
    r1cs = circuit.write_r1cs(tmp_path / "c.r1cs")
    words = ["export-web", str(tmp_path / "c.params"), "-o", str(tmp_path / "site"), "-q"]
    assert entry.run([*words, "--bellman", str(r1cs)]) == 0
    site = json.loads((tmp_path / "site" / "site.json").read_text())
    assert (site["curve"], site["public"], site["insecure"]) == ("bls12_381", 2, False)
    key = VerifyingKey.from_json(tmp_path / "site" / "verification_key.json")
    proof, public = ProvingKey.from_bellman(tmp_path / "c.params", r1cs).prove(
        circuit.write_wtns(tmp_path / "c.wtns")
    )
    assert key.verify(public, proof)
    assert entry.run(words) == 3
    assert entry.run([*words, "--bellman", str(tmp_path / "c.params")]) == 3


def test_page_has_no_inline_code_or_external_requests() -> None:
    page = runtime_files()["index.html"].decode()
    assert "style=" not in page
    assert not re.search(r"\son\w+\s*=", page)
    assert "<script>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'self'" in page


def test_a_site_is_replaced_and_other_folders_are_not(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    export_table_site(folder, symbols=False)
    (folder / "data-001.bin").write_bytes(b"old")
    export_table_site(folder)
    assert not (folder / "data-001.bin").exists()
    site = json.loads((folder / "site.json").read_text())
    assert site["publics"] == ["nullifier", "root", "scope"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="File name too long"):
        export_table_site(tmp_path / ("s" * 300))
    with pytest.raises(OutputError, match="do not belong to a site"):
        export_table_site(other)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]
    with pytest.raises(OutputError, match="is not a folder"):
        export_table_site(other / "thesis.txt")


def test_equal_inputs_make_equal_sites(exported: Path, tmp_path: Path) -> None:
    export_table_site(tmp_path / "again")
    for path in exported.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


# --- witness calculators


def test_calculator_must_match_its_circuit(tmp_path: Path) -> None:
    key = Zkey.open(EXAMPLE / "circuit.zkey")
    calculator = read_calculator(EXAMPLE / "circuit.wasm")
    assert calculator.variables == key.variables
    calculator.check(key)
    other = type(calculator)("other.wasm", b"", key.variables + 1)
    with pytest.raises(MismatchError, match="different circuits"):
        other.check(key)


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    wasm_bytes = (EXAMPLE / "circuit.wasm").read_bytes()
    file = tmp_path / "bad.wasm"
    for size in (0, 3, 8, 9, 30, 100, 500, len(wasm_bytes) // 2, len(wasm_bytes) - 1):
        file.write_bytes(wasm_bytes[:size])
        with pytest.raises(InputError, match=r"WebAssembly|does not export|is empty"):
            read_calculator(file)
    file.write_text("(module)")
    with pytest.raises(InputError, match="is not a witness calculator"):
        read_calculator(file)
    with pytest.raises(InputError, match="does not exist"):
        read_calculator(tmp_path / "none.wasm")


# --- names of signals


def test_symbols(tmp_path: Path) -> None:
    file = tmp_path / "a.sym"
    file.write_text(
        "1,1,3,main.out\n2,2,3,main.grid[0][0]\n3,3,3,main.grid[1][2]\n"
        "4,-1,3,main.x\n5,-1,1,main.part.in\n"
    )
    symbols = read_symbols(file, 2)
    assert symbols.publics == ("out", "grid[0][0]")
    assert symbols.signals == (
        Signal("out", (), True), Signal("grid", (2, 3), True), Signal("x", (), False),
    )  # fmt: skip


@pytest.mark.parametrize("text", ["1,2\n", "a,b,c,other.x\n", "1,x,2,main.y\n", "PK\x03\x04"])
def test_invalid_symbols_are_rejected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.sym"
    file.write_text(text)
    with pytest.raises(InputError, match="line 1"):
        read_symbols(file, 1)


def test_examples(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    big = 2**200
    file.write_text(f'{{"a": {big}, "b": [[1, 2], [3, 4]], "c": [[1], [2, 3]], "d": {{"e": 1}}}}')
    document, signals = read_example(file)
    assert document["a"] == str(big)
    assert signals == (Signal("a", ()), Signal("b", (2, 2)))
    for text in ("[1]", "{", "[" * 100_000, '{"a": 0.5}', '{"a": 1, "a": 2}'):
        file.write_text(text)
        with pytest.raises(InputError, match=r"input\.json"):
            read_example(file)


# --- the command and the server


def test_command_rejects_missing_or_wrong_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zkey, wasm, out = EXAMPLE / "circuit.zkey", EXAMPLE / "circuit.wasm", tmp_path / "site"
    command = ["export-web", str(zkey), "--wasm"]
    assert entry.run([*command, str(tmp_path / "none.wasm"), "-o", str(out)]) == 3
    assert entry.run([*command, str(zkey), "-o", str(out)]) == 3
    assert entry.run(["export-web", str(wasm), "--wasm", str(wasm), "-o", str(out)]) == 3
    assert entry.run([*command, str(wasm), "-o", str(out), "--memory", "0"]) == 2
    assert entry.run([*command, str(wasm), "-o", str(out), "--limbs", "9"]) == 2
    assert not out.exists()
    assert "error" in capsys.readouterr().err.lower()
    # The matrices, the points and a buffer exceed the memory, one after the other.
    for memory, problem in ("1", "matrices of .* would take"), ("2", "MSMs"), ("8", "a buffer"):
        assert entry.run([*command, str(wasm), "-o", str(out), "--memory", memory]) == 7
        message = capsys.readouterr().err
        assert re.search(problem, message)
        assert message.endswith("; allow a proof more with --memory (in Python memory_budget)\n")
    assert not out.exists()


def test_server_sends_the_required_headers_and_files(exported: Path) -> None:
    import threading

    with site_server(exported) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        types = {"": "text/html", "quod.js": "text/javascript", "witness.wasm": "application/wasm"}
        for name, type_ in types.items():
            with urlopen(url + name, timeout=60) as answer:
                assert answer.headers["Content-Type"].split(";")[0] == type_
                for header, value in HEADERS.items():
                    assert answer.headers[header] == value
        server.shutdown()
        thread.join()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Port of a server of a small site, beside which a secret lies."""
    site = tmp_path / "site"
    (site / "list").mkdir(parents=True)
    (site / "index.html").write_text("page")
    (site / "list" / "file.bin").write_text("data")
    (site / "inside").symlink_to("list/file.bin")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "site-too").mkdir()
    (tmp_path / "site-too" / "index.html").write_text("secret")
    (site / "out").symlink_to(tmp_path / "secret")
    (site / "folder").symlink_to(tmp_path / "site-too")
    with site_server(site) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def asked(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read()


@pytest.mark.parametrize("path", ["/", "/index.html", "/list/file.bin", "/inside"])
def test_files_of_the_folder_are_served(port: int, path: str) -> None:
    status, content = asked(port, path)
    assert (status, content) in ((200, b"page"), (200, b"data"))
    assert asked(port, path, Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/out", "/folder/", "/folder/index.html", "/list/", "/list", "/%00", "/index.html%00",
        "/../secret", "/%2e%2e/secret", "/..%2fsecret", "/%ed%b0%80", "/missing",
    ],
)  # fmt: skip
def test_other_paths_are_not_served(port: int, path: str) -> None:
    status, content = asked(port, path)
    assert status == 404
    assert b"secret" not in content.replace(path.encode(), b"")
    # And the server goes on.
    assert asked(port, "/")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "localhost.evil.example"])
def test_another_host_is_refused(port: int, host: str) -> None:
    assert asked(port, "/", Host=host)[0] == 421


def test_invalid_text_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = tmp_path / "input.json"
    example.write_text('{"root": "\\ud800"}')
    site = tmp_path / "site"
    command = ["export-web", str(EXAMPLE / "circuit.zkey"), "-o", str(site)]
    command += ["--wasm", str(EXAMPLE / "circuit.wasm")]
    for options in (["--name", "a\udcff"], ["--input", str(example)]):
        assert entry.run([*command, *options]) == 3
        captured = capsys.readouterr()
        assert "surrogate" in captured.err
        assert captured.err.count("\n") == 1
        assert not site.exists()


def test_uncreatable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # Root may write everywhere.
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match=r"could not be created .*; choose a directory that you"):
        export_table_site(tmp_path / "site")


def test_failed_export_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OutputError("no space left")

    monkeypatch.setattr(site_module, "write_all_atomically", fail)
    with pytest.raises(OutputError, match="no space left"):
        export_table_site(tmp_path / "site")
    assert not (tmp_path / "site").exists()
