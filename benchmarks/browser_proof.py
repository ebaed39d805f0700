"""Time proofs of an exported site in a headless browser, and the steps before them.

    python benchmarks/browser_proof.py                      examples/membership
    python benchmarks/browser_proof.py --circuit FOLDER     circuit.zkey, .wasm and input.json there

A processor plays the browser's GPU (SwiftShader). Every proof is verified by the page and by Quod.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

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
from tests.support.browser import Browser, Page  # noqa: E402
from tests.support.site import serve  # noqa: E402

TIMEOUT = 3600.0
"""The time limit of one call in seconds."""

_LOAD = """async () => {
  const { load } = await import(new URL("quod.js", location.href).href);
  const before = performance.now();
  globalThis.prover = await load(new URL(".", location.href));
  return performance.now() - before;
}"""

_PROVE = """async (input) => {
  const before = performance.now();
  const made = await globalThis.prover.prove(input);
  return { ...made, milliseconds: performance.now() - before };
}"""


def prove(page: Page, key: VerifyingKey, inputs: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Compute one proof; raises QuodError if Quod does not accept it."""
    row: dict[str, Any] = page.call(_PROVE, inputs, timeout=TIMEOUT)
    file = folder / "proof.json"
    file.write_text(json.dumps(row["proof"]))
    if not key.verify([int(text) for text in row["publicSignals"]], Proof.from_json(file)):
        raise QuodError("the browser's proof is wrong; please report it")
    return row


def measure(circuit: Path, runs: int) -> list[Measurement]:
    """Measure one circuit: loading with compilation, a first proof, and later proofs."""
    zkey = Zkey.open(circuit / "circuit.zkey")
    key = VerifyingKey.from_zkey(zkey, allow_insecure=True)
    inputs = json.loads((circuit / "input.json").read_text())
    with tempfile.TemporaryDirectory() as name, Browser() as browser:
        folder = Path(name) / "site"
        export_site(circuit / "circuit.zkey", circuit / "circuit.wasm", folder, allow_insecure=True)
        with serve(folder, HEADERS) as site, browser.page() as page:
            page.navigate(site.url + "site.json")
            loading: float = page.call(_LOAD, timeout=TIMEOUT)
            rows = [prove(page, key, inputs, Path(name)) for _ in range(runs + 1)]
    for timing in rows[-1]["timings"]:
        print(f"    {timing['stage']:24s} {1e3 * timing['seconds']:10.1f} ms", file=sys.stderr)
    later = [row["milliseconds"] / 1e3 for row in rows[1:]]
    low, high = np.percentile(later, [25, 75])
    parameters: dict[str, Any] = {
        "circuit": circuit.name,
        "curve": zkey.curve,
        "domain": zkey.domain_size,
    }
    command = f"python benchmarks/browser_proof.py --circuit .../{circuit.name}"
    return [
        Measurement(
            "browser-proof", {**parameters, "time": what}, "browser", value, "s", spread, repeats,
            None, None, None, harness.current_commit(), command,
        )
        for what, value, spread, repeats in (
            ("load", loading / 1e3, 0.0, 1),
            ("first", rows[0]["milliseconds"] / 1e3, 0.0, 1),
            ("later", median(later), float(high - low) / median(later), runs),
        )
    ]  # fmt: skip


def main() -> None:
    """Measure, print the rows, and record them if an option says so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--circuit", type=Path, action="append", metavar="FOLDER",
        help="default: examples/membership",
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=5, help="measured proofs after a first")
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
