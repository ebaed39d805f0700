"""Time proofs on an exported page in a headless browser, from the moment when the page is opened.

    python benchmarks/browser_proof.py                      examples/membership
    python benchmarks/browser_proof.py --circuit FOLDER     circuit.zkey, .wasm and input.json there

A processor plays the browser's GPU (SwiftShader). A first proof is of a browser without caches: the
page is opened, the example input is entered and proved at once. With the same driver, the program
proves natively (webgpu:portable), to compare with later proofs. Every proof is verified by Quod.
The rows have the fastest of several runs, because other load makes them slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY)]

from quod.bench.measure import harness  # noqa: E402
from quod.bench.measure.harness import Measurement  # noqa: E402
from quod.bench.measure.report import report  # noqa: E402
from quod.bench.measure.results import record  # noqa: E402
from quod.errors import QuodError  # noqa: E402
from quod.formats import Zkey  # noqa: E402
from quod.groth16 import VerifyingKey  # noqa: E402
from quod.groth16.proof import Proof  # noqa: E402
from quod.web import export_site  # noqa: E402
from quod.web.serve import HEADERS  # noqa: E402
from tests.support.browser import SWIFTSHADER, Browser, Page  # noqa: E402
from tests.support.site import serve  # noqa: E402

TIMEOUT = 3600.0
"""The time limit of one call in seconds."""

_READY = "!document.querySelector('#prove').disabled"
_PROVE = """() => new Promise((resolve) => {
  const isShown = (id) => !document.querySelector(id).hidden;
  new MutationObserver(() => (isShown("#done") || isShown("#problem")) && resolve())
    .observe(document.body, { subtree: true, attributeFilter: ["hidden"] });
  document.querySelector("#prove").click();
})"""
_TIMES = """() => [...document.querySelectorAll("#times tr")].map((row) =>
  [...row.cells].map((cell) => cell.textContent))"""

_NATIVE = """
import json, sys, time
from quod.device.webgpu.device import WebGpuDevice
from quod.formats import Witness
from quod.groth16 import ProvingKey
device = WebGpuDevice(strength="portable")
assert device.properties.is_software
key = ProvingKey.from_zkey(sys.argv[1], device=device, allow_insecure=True)
witness, seconds = Witness.open(sys.argv[2]), []
for _ in range(int(sys.argv[3]) + 1):
    begin = time.perf_counter()
    key.prove(witness)
    seconds.append(time.perf_counter() - begin)
print(json.dumps(seconds[1:]))
"""


def prove(page: Page, key: VerifyingKey, folder: Path) -> None:
    """Compute a proof on an opened page; raises QuodError if Quod does not accept it."""
    # The page reports the end, as polling would take processor time from the proof.
    page.call(_PROVE, timeout=TIMEOUT)
    if problem := page.text("#problem"):
        raise QuodError(f"the page shows: {problem}")
    file = folder / "proof.json"
    file.write_text(page.evaluate("document.querySelector('#proof').textContent"))
    publics = json.loads(page.evaluate("document.querySelector('#public').textContent"))
    if not key.verify([int(text) for text in publics], Proof.from_json(file)):
        raise QuodError("the browser's proof is wrong; please report it")


def prove_on_page(
    site: Path, key: VerifyingKey, folder: Path, later_runs: int
) -> tuple[float, list[float]]:
    """Return the seconds of a first proof in a new browser, and of later proofs on its page."""
    seconds: list[float] = []
    with Browser() as browser, serve(site, HEADERS) as server, browser.page() as page:
        begin = time.perf_counter()
        page.navigate(server.url)
        page.wait_for(_READY, timeout=TIMEOUT)
        page.click("#example")
        for _ in range(later_runs + 1):
            prove(page, key, folder)
            seconds.append(time.perf_counter() - begin)
            begin = time.perf_counter()
        for stage, text in page.call(_TIMES):
            print(f"    {stage:24s} {text:>12s}", file=sys.stderr)
    return seconds[0], seconds[1:]


def prove_natively(circuit: Path, runs: int) -> list[float]:
    """Return the seconds of native proofs on the browser's driver, after a first proof."""
    command = [
        sys.executable, "-c", _NATIVE, str(circuit / "circuit.zkey"), str(circuit / "witness.wtns"),
        str(runs),
    ]  # fmt: skip
    environment = os.environ | {"VK_ICD_FILENAMES": str(SWIFTSHADER)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise QuodError(f"the native proof failed: {done.stderr[-300:]}")
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def measure(circuit: Path, runs: int) -> list[Measurement]:
    """Measure one circuit: first and later proofs on its page, and native proofs."""
    zkey = Zkey.open(circuit / "circuit.zkey")
    key = VerifyingKey.from_zkey(zkey, allow_insecure=True)
    firsts: list[float] = []
    later: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        site = Path(name) / "site"
        export_site(
            circuit / "circuit.zkey", circuit / "circuit.wasm", site, allow_insecure=True,
            example=circuit / "input.json",
        )  # fmt: skip
        for run in range(runs):
            print(f"run {run + 1}: load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            first, others = prove_on_page(site, key, Path(name), 2)
            firsts.append(first)
            later += others
    is_native = SWIFTSHADER.exists() and (circuit / "witness.wtns").exists()
    native = prove_natively(circuit, runs) if is_native else []
    parameters: dict[str, Any] = {
        "circuit": circuit.name,
        "curve": zkey.curve,
        "domain": zkey.domain_size,
    }
    command = f"python benchmarks/browser_proof.py --circuit .../{circuit.name}"
    return [
        Measurement(
            "browser-proof", {**parameters, "time": what}, device, min(seconds), "s",
            (max(seconds) - min(seconds)) / min(seconds), len(seconds),
            None, None, None, harness.current_commit(), command,
        )
        for what, device, seconds in (
            ("first", "browser", firsts),
            ("later", "browser", later),
            ("native", "webgpu:portable", native),
        )
        if seconds
    ]  # fmt: skip


def main() -> None:
    """Measure, print the rows, and record them if an option says so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--circuit", type=Path, action="append", metavar="FOLDER",
        help="default: examples/membership",
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=3, help="new browsers, and native proofs")
    parser.add_argument("--record", type=Path, metavar="FILE", help="put the rows into results")
    arguments = parser.parse_args()
    rows: list[Measurement] = []
    for circuit in arguments.circuit or [REPOSITORY / "examples" / "membership"]:
        rows += measure(circuit, arguments.runs)
    report(rows, as_json=False)
    if arguments.record is not None:
        record(arguments.record, rows)


if __name__ == "__main__":
    try:
        main()
    except QuodError as error:
        sys.exit(f"error: {error}")
