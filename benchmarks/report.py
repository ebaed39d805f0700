"""Writes docs/benchmarks.md from benchmarks/results/*.json.

python benchmarks/report.py            write the page
python benchmarks/report.py --check    fail if the page is not what the results say
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import checkout  # noqa: F401

from quod.bench.measure.report import shown_number, shown_parameters
from quod.bench.measure.results import load_results
from quod.device.webgpu.names import is_webgpu_name

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"

HEAD = """\
# Benchmarks

Written by `benchmarks/report.py` from `benchmarks/results`; do not edit. `make bench` measures
again, `make bench-cuda` on an NVIDIA GPU, `make bench-vulkan` on any GPU through WebGPU.

A row is the median of its repeats. A peer was measured in the same run, turn and turn about with
Quod, and like with like: *in process* is a library with the key in memory against Quod with the key
resident, *whole process* a program from its start to its end against `quod` from its start to its
end. *Ratio* is how many times faster Quod is. Times of different machines, or of different days on
a shared machine, do not compare; ratios do. *Spread* is the distance of the quartiles over the
median.

*Code* is a hash of the kernels that were launched, as text: a row is current while that is what it
would be now. `python benchmarks/run.py --stale` lists the rows that may not be, and `--only-stale`
measures those that are not. It is *sources* where no kernel tells, as for a process of its own:
such a row is current while nothing of the package has changed. Rows without are older.
"""
NOTHING = "\nNothing has been recorded yet.\n"
COLUMNS = (
    "parameters",
    "device",
    "median",
    "unit",
    "spread",
    "peer",
    "peer's",
    "ratio",
    "commit",
    "code",
)


def page(results: list[dict[str, Any]]) -> str:
    """The text of the page for these results files."""
    parts = [HEAD]
    for result in results:
        machine = result["machine"]
        host = f"{machine['processor']}, {machine['threads']} threads"
        parts.append(f"\n## {machine.get('gpu', host)}\n")
        others = ("system", "architecture", "python", "numpy", "llvmlite")
        described = ", ".join(f"{name} {machine[name]}" for name in others)
        if "gpu" in machine:
            described = f"{host}; {described}"
        if "driver" in machine:
            described = f"{machine['driver']}; {described}"
        parts.append(f"\n{described}\n")
        adapters = [(name, text) for name, text in machine.items() if is_webgpu_name(name)]
        parts.extend(f"\n`{name}`: {text}\n" for name, text in sorted(adapters))
        for subject in sorted({row["subject"] for row in result["rows"]}):
            rows = [row for row in result["rows"] if row["subject"] == subject]
            parts.append(f"\n### {subject}\n\n")
            parts.append("| " + " | ".join(COLUMNS) + " |\n")
            parts.append("|" + "---|" * len(COLUMNS) + "\n")
            parts.extend("| " + " | ".join(cells(row)) + " |\n" for row in rows)
            parts.append("\n")
            parts.extend(f"    {command}\n" for command in sorted({row["command"] for row in rows}))
    return "".join(parts) if results else HEAD + NOTHING


def cells(row: dict[str, Any]) -> list[str]:
    """One row of a table, in the order of `COLUMNS`."""
    return [
        shown_parameters(row["parameters"]),
        row["device"],
        shown_number(row["median"]),
        row["unit"],
        f"{row['spread']:.0%}",
        row["peer"] or "",
        "" if row["peer_median"] is None else shown_number(row["peer_median"]),
        "" if row["ratio"] is None else f"{row['ratio']:.2f}x",
        row["commit"],
        row.get("code") or ("sources" if row.get("sources") else ""),
    ]


def main() -> None:
    """Write the page, or check it."""
    text = page([load_results(path) for path in sorted((HERE / "results").glob("*.json"))])
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.exit("docs/benchmarks.md is not what benchmarks/results says; run `make docs`")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
