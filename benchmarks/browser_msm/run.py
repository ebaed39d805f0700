"""Time MSMs over BLS12-377 in a headless browser, against the prize entry of 2023.

    python benchmarks/browser_msm/run.py --peer build/peer/webgpu-msm-bls12-377 --log2 12
    python benchmarks/browser_msm/run.py --log2 12 --log2 14          without the peer

Every result is checked against the processor's. README.md says what is compared with what.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path[:0] = [str(REPOSITORY), str(HERE.parent)]

from browser_msm.entry import bundle  # noqa: E402
from browser_msm.graph import KINDS, msm_graph  # noqa: E402

from quod.bench.measure import harness  # noqa: E402
from quod.bench.measure.harness import Measurement  # noqa: E402
from quod.bench.measure.report import report  # noqa: E402
from quod.bench.measure.results import record  # noqa: E402
from quod.curve.array import to_points  # noqa: E402
from quod.curve.groups import GROUPS  # noqa: E402
from quod.device.discovery import open_device  # noqa: E402
from quod.errors import QuodError  # noqa: E402
from quod.field.array import random_elements  # noqa: E402
from quod.msm import MsmBases, affine_ints, msm  # noqa: E402
from quod.msm.fixed_base import multiply_generator  # noqa: E402
from quod.msm.gpu.layout import GpuMsmPlan  # noqa: E402
from quod.msm.gpu.reduce.finish import Finisher  # noqa: E402
from quod.msm.options import MsmOptions  # noqa: E402
from quod.web import runtime_files  # noqa: E402
from tests.support.browser import Browser, Page  # noqa: E402
from tests.support.site import serve  # noqa: E402

Array = np.ndarray[Any, Any]

GROUP = GROUPS["bls12_377.g1"]
DEVICE = "browser"
ENTRY = "ZPrize 2023 entry"
TIMEOUT = 3600.0
"""Seconds that one call may take: a processor plays the GPU, and compiles for minutes."""


@dataclass(frozen=True)
class Side:
    """Milliseconds of the work and, if known, of a first call with compilation and loading."""

    work: float
    whole: float
    spread: float


@dataclass(frozen=True)
class Problem:
    """The points, scalars and the result of an MSM."""

    log2: int
    points: Array
    scalars: Array
    expected: tuple[int, int]


def problem(log2: int) -> Problem:
    """Draw distinct points and uniform scalars; the CPU computes the result."""
    processor = open_device("cpu")
    logarithms = random_elements(GROUP.scalars, 1 << log2, seed=log2)
    points = multiply_generator(processor, GROUP, logarithms)
    scalars = random_elements(GROUP.scalars, 1 << log2, seed=log2 + 100)
    expected = msm(processor, GROUP, MsmBases(processor, GROUP, points), scalars)
    if not isinstance(expected, tuple):
        raise QuodError("the sum is infinity; take another seed")
    x, y = expected
    assert isinstance(x, int)
    assert isinstance(y, int)
    return Problem(log2, points, scalars, (x, y))


def site_of(msm_problem: Problem, folder: Path) -> None:
    """Write the page and the entry's inputs, integers in little-endian byte order."""
    shutil.copytree(HERE / "page", folder, dirs_exist_ok=True)
    size = GROUP.coordinates.bytes
    points = (c for point in to_points(GROUP, msm_problem.points) for c in point or ())
    (folder / "points.bin").write_bytes(b"".join(int(c).to_bytes(size, "little") for c in points))
    (folder / "scalars.bin").write_bytes(np.ascontiguousarray(msm_problem.scalars).tobytes())


def run_ours(plan: GpuMsmPlan, page: Page, msm_problem: Problem, runs: int) -> Side:
    """Run the site's graph once, then `runs` times measured; Python adds up the lines."""
    loaded: float = page.evaluate("import('./quod.js').then((m) => m.load())", timeout=TIMEOUT)
    finisher, rows = Finisher([plan]), []
    for _ in range(runs + 1):
        row = page.evaluate("import('./quod.js').then((m) => m.run())", timeout=TIMEOUT)
        (words,) = finisher.finish([np.frombuffer(bytes(row["lines"]), np.uint64)])
        if affine_ints(GROUP, words[0]) != msm_problem.expected or any(row["flag"]):
            raise QuodError("the browser's MSM is wrong; please report it")
        rows.append(row)
    for name, milliseconds in rows[-1]["stages"]:
        print(f"    {name:12s} {milliseconds:10.1f} ms", file=sys.stderr)
    return _side([row["total"] for row in rows[1:]], loaded + rows[0]["total"])


def run_entry(page: Page, msm_problem: Problem, runs: int) -> Side:
    """Call the entry once, then `runs` times measured."""
    rows = []
    for _ in range(runs + 1):
        row = page.evaluate("import('./entry.js').then((m) => m.run())", timeout=TIMEOUT)
        if (int(row["x"]), int(row["y"])) != msm_problem.expected:
            raise QuodError("the entry's result is wrong")
        rows.append(row)
    works = [row["total"] - row["compiling"] for row in rows[1:]]
    return _side(works, median(row["total"] for row in rows[1:]))


def _side(works: list[float], first_run: float) -> Side:
    low, high = np.percentile(works, [25, 75])
    return Side(median(works), first_run, float(high - low) / median(works))


def _measured(
    browser: Browser, folder: Path, run: Callable[[Page, Problem, int], Side], msm_problem: Problem,
    runs: int,
) -> Side:  # fmt: skip
    with serve(folder) as site, browser.page() as page:
        page.navigate(site.url + "index.html")
        return run(page, msm_problem, runs)


def main() -> None:
    """Measure, print the rows, and record them if an option says so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer", type=Path, help="folder with the entry's sources; see README.md")
    parser.add_argument("--as-published", action="store_true", help="do not repair the entry")
    parser.add_argument("--log2", type=int, action="append", help="sizes (default: 12, 13, 14)")
    parser.add_argument("--runs", type=int, default=3, help="measured runs after a first")
    parser.add_argument("--bases", choices=KINDS, action="append", help="default: both")
    parser.add_argument("--limbs", default="13:rolled", help="how elements are held in kernels")
    parser.add_argument("--resident-lanes", type=int, default=512)
    parser.add_argument("--record", type=Path, metavar="FILE", help="put the rows into results")
    arguments = parser.parse_args()
    rows: list[Measurement] = []
    with Browser() as browser, tempfile.TemporaryDirectory() as name:
        for log2 in arguments.log2 or (12, 13, 14):
            msm_problem = problem(log2)
            peer_side: Side | None = None
            if arguments.peer is not None:
                folder = Path(name) / f"entry-{log2}"
                site_of(msm_problem, folder)
                bundle(
                    arguments.peer, folder / "entry-bundle.js", repair=not arguments.as_published
                )  # fmt: skip
                peer_side = _measured(browser, folder, run_entry, msm_problem, arguments.runs)
            for kind in arguments.bases or KINDS:
                folder = Path(name) / f"{kind}-{log2}"
                site_of(msm_problem, folder)
                plan = _write_graph(folder / "graph", msm_problem, kind, arguments)
                run = functools.partial(run_ours, plan)
                quod_side = _measured(browser, folder, run, msm_problem, arguments.runs)
                parameters = {"group": GROUP.name, "log2": log2, "bases": kind}
                rows += _rows(parameters, arguments, quod_side, peer_side)
    report(rows, as_json=False)
    if arguments.record is not None:
        record(arguments.record, rows)


def _write_graph(
    folder: Path, msm_problem: Problem, kind: str, arguments: argparse.Namespace
) -> GpuMsmPlan:
    """Write the files of Quod's MSM to a new folder; return its plan."""
    graph, resident = msm_graph(
        GROUP, msm_problem.points, kind, limbs=arguments.limbs,
        resident_lanes=arguments.resident_lanes, options=MsmOptions(),
    )  # fmt: skip
    folder.mkdir()
    for file_name, content in {**runtime_files(), **graph.files}.items():
        with (folder / file_name).open("wb") as file:
            file.write(content) if isinstance(content, bytes) else content(file)
    return resident.plan()


def _rows(
    parameters: dict[str, Any],
    arguments: argparse.Namespace,
    quod_side: Side,
    peer_side: Side | None,
) -> list[Measurement]:
    """Return the time of a run's work, and of the first run with compilation and loading."""
    command = "python benchmarks/browser_msm/run.py " + " ".join(
        f"--{option} {value}"
        for option, value in (("peer", arguments.peer and "PEER"), ("log2", parameters["log2"]))
        if value
    )
    rows = []
    for measured, our_time, other in (
        ("run", quod_side.work, peer_side.work if peer_side else None),
        ("first", quod_side.whole, peer_side.whole if peer_side else None),
    ):
        spread = quod_side.spread if measured == "run" else 0.0
        rows.append(
            Measurement(
                "browser-msm", {**parameters, "time": measured}, DEVICE, our_time, "ms", spread,
                arguments.runs if measured == "run" else 1, ENTRY if other else None, other,
                other / our_time if other else None, harness.current_commit(), command,
            )
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    try:
        main()
    except QuodError as error:
        sys.exit(f"error: {error}")
