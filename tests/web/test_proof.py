"""From a circuit in circom to a proof in Chromium that snarkjs accepts, with the real kernels.

SwiftShader takes minutes to compile them, so that the circuit is small and there is one of it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.cli import entry
from quod.web.serve import HEADERS
from tests.support.browser import Browser
from tests.support.node import run_program
from tests.support.site import serve

CIRCUIT = """pragma circom 2.0.0;
template Chain(n) {
    signal input start;
    signal input steps[n];
    signal output end;
    signal at[n + 1];
    at[0] <== start;
    for (var i = 0; i < n; i++) { at[i + 1] <== at[i] * (at[i] + steps[i]); }
    end <== at[n];
}
component main {public [start]} = Chain(5);
"""
R = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.timeout(1800)
def test_circom_to_chromium_to_snarkjs(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chain.circom").write_text(CIRCUIT)
    compiled = run_program(
        "circom2", "chain.circom", "--r1cs", "--wasm", "--sym", directory=tmp_path
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    zkey, out, vkey = tmp_path / "chain.zkey", tmp_path / "site", tmp_path / "vkey.json"
    setup = [str(tmp_path / "chain.r1cs"), str(zkey), "--seed", "1", "--insecure-test-key"]
    assert entry.run(["groth16", "test-key", *setup, "--quiet"]) == 0
    export = [
        str(zkey), "--wasm", str(tmp_path / "chain_js" / "chain.wasm"), "-o", str(out),
        "--sym", str(tmp_path / "chain.sym"), "--insecure-test-key",
    ]  # fmt: skip
    assert entry.run(["export-web", *export]) == 0
    assert "Wrote" in capsys.readouterr().err

    with serve(out, HEADERS) as site, browser.page() as page:
        page.navigate(site.url)
        page.wait_for("!document.querySelector('#prove').disabled")
        about = page.text("#insecure")
        page.fill("#in-start", "-3")
        page.fill("#in-steps", "1 2 0x10 4 5")
        page.click("#prove")
        page.wait_for(
            """!document.querySelector('#done').hidden ||
                !document.querySelector('#problem').hidden""",
            timeout=1500,
        )
        assert page.text("#problem") == ""
        at = -3
        for step in (1, 2, 16, 4, 5):
            at = at * (at + step) % R
        publics = json.loads(page.text("#public"))
        assert publics == [str(at), str(R - 3)]
        for name in ("proof", "public"):
            (tmp_path / f"{name}.json").write_text(page.text(f"#{name}"))
        page.screenshot("web-real-proof")
        # The kernels are there now: the next proof takes little, and has another blinding.
        before = page.text("#proof")
        page.fill("#in-start", "0")
        page.fill("#in-steps", "0 0 0 0 0")
        page.click("#prove")
        page.wait_for("document.querySelector('#work').hidden", timeout=300)
        assert page.text("#problem") == ""
        assert json.loads(page.text("#public")) == ["0", "0"]
        assert page.text("#proof") != before

    assert "For tests only: anyone can forge" in about
    exported = ["zkey", "export", "verificationkey", str(zkey), str(vkey), "--quiet"]
    assert entry.run([*exported, "--insecure-test-key"]) == 0
    accepted = run_program(
        "snarkjs", "groth16", "verify", vkey, tmp_path / "public.json", tmp_path / "proof.json"
    )
    assert accepted.returncode == 0, accepted.stdout
