"""Write docs/benchmarks.md and docs/benchmarks/ from benchmarks/results/*.json.

python benchmarks/report.py            write the pages
python benchmarks/report.py --check    fail if the pages differ from the results

`selection.py` lists the rows of docs/benchmarks.md. docs/benchmarks/ has a page for each results
file, with all its rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
from selection import SELECTION, Selected

from quod.bench.measure.report import shown_number, shown_parameters
from quod.bench.measure.results import load_results
from quod.device.webgpu.names import is_webgpu_name

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
PAGE = Path("benchmarks.md")
TABLES = Path("benchmarks")

HEAD = """\
# Benchmarks

This page is for people who compare Quod with other programs. These commands measure again and
write this page:

```text
make bench          # on the CPU
make bench-cuda     # on an NVIDIA GPU
make bench-vulkan   # on any GPU, through WebGPU
```

`benchmarks/report.py` generates the page from `benchmarks/results`, with the rows that
`benchmarks/selection.py` names. Do not edit it. [Full tables](#full-tables) have all rows, with
their commands.

- **Time** is the median of the repeats.
- **Peer** is the program that the run measured alternately with Quod. *In process* compares a
  library that has the key in memory with Quod that has the key resident. *Whole process* compares
  two programs, each from start to end. *cuda* and *one-by-one* are Quod itself; *copy* is a copy of
  as many bytes, and *limit* what the device allows.
- **Ratio** is the peer's time divided by Quod's: above 1, Quod is faster.
- **Commit** is the version of Quod; `+` marks a checkout with uncommitted changes.

Compare ratios only: times differ between machines, and between days on a shared machine.
"""
NOTHING = "\nNo results are recorded.\n"
FULL = """
## Full tables

| machine | rows |
|---|---|
"""
COLUMNS_OF_FULL = """
Two of their columns are not above:

- **spread** is the distance of the quartiles divided by the median;
- **code** is a hash of the launched kernels' text. A row is current while this hash is. *sources*
  stands for a row without kernels, such as a whole process: it is current until the package
  changes. Rows with neither are older measurements.

`python benchmarks/run.py --stale` lists the rows that may not be current, and `--only-stale`
measures those that are not.
"""
SELECTED = ("computation", "machine", "device", "time", "peer", "peer's time", "ratio", "commit")
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
_COMMIT_DIGITS = 12

Result = dict[str, Any]
Row = dict[str, Any]


def pages(results: dict[str, Result]) -> dict[Path, str]:
    """Return the text of each page, by its path below docs.

    results: the results files, by their names without `.json`.
    Exits if a line of the selection does not select exactly one row.
    """
    tables = {TABLES / f"{name}.md": table_page(result) for name, result in results.items()}
    if not results:
        return {PAGE: HEAD + NOTHING}
    parts = [HEAD]
    for section, lines in SELECTION.items():
        parts.append(f"\n## {section}\n\n")
        parts.append(table(SELECTED, [selected_cells(line, results) for line in lines]))
    parts.append(FULL)
    for name, result in results.items():
        parts.append(f"| [{machine_name(result)}]({TABLES / name}.md) | {len(result['rows'])} |\n")
    parts.append(COLUMNS_OF_FULL)
    return {PAGE: "".join(parts), **tables}


def selected_row(line: Selected, results: dict[str, Result]) -> Row:
    """Return the only row that passes the filter; exit if there is none, or several."""
    rows: list[Row] = [
        row
        for row in results.get(line.place.machine, {"rows": []})["rows"]
        if (row["subject"], row["device"]) == (line.subject, line.place.device)
        and (row["peer"] or "").startswith(line.peer)
        and bool(row["peer"]) == bool(line.peer)
        and all(row["parameters"].get(name) == value for name, value in line.parameters.items())
    ]
    if len(rows) != 1:
        sys.exit(
            f"benchmarks/selection.py: {line.computation!r} of {line.subject} on "
            f"{line.place.machine}, {line.place.device}, selects {len(rows)} rows, not one"
        )
    return rows[0]


def selected_cells(line: Selected, results: dict[str, Result]) -> list[str]:
    """Return a row of docs/benchmarks.md, in the order of `SELECTED`."""
    row = selected_row(line, results)
    return [
        line.computation.format(**row["parameters"]),
        machine_name(results[line.place.machine]),
        row["device"],
        f"{shown_number(row['median'])} {row['unit']}",
        *peer_cells(row, unit=f" {row['unit']}"),
        short_commit(row["commit"]),
    ]


def peer_cells(row: Row, unit: str = "") -> list[str]:
    """Return a row's peer, the peer's time and the ratio; empty cells where there is no peer."""
    time, ratio = row["peer_median"], row["ratio"]
    return [
        row["peer"] or "",
        "" if time is None else f"{shown_number(time)}{unit}",
        "" if ratio is None else f"{ratio:.2f}x",
    ]


def short_commit(commit: str) -> str:
    """Shorten a commit to twelve digits, and keep the mark of uncommitted changes."""
    return commit.removesuffix("+")[:_COMMIT_DIGITS] + ("+" if commit.endswith("+") else "")


def machine_name(result: Result) -> str:
    """Return the GPU of a machine, or its CPU and number of threads."""
    machine = result["machine"]
    return str(machine.get("gpu") or cpu_name(result))


def cpu_name(result: Result) -> str:
    """Return the CPU of a machine with the number of threads."""
    return f"{result['machine']['processor']}, {result['machine']['threads']} threads"


def table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def table_page(result: Result) -> str:
    """Return the page of all rows of a results file, by subject, with their commands."""
    machine = result["machine"]
    fact_names = ("system", "architecture", "python", "numpy", "llvmlite")
    described = [f"{name} {machine[name]}" for name in fact_names]
    if "gpu" in machine:
        described = [*([machine["driver"]] if "driver" in machine else []),
                     cpu_name(result), *described]  # fmt: skip
    parts = [
        f"# Benchmarks: {machine_name(result)}\n\nThis page is for people who want every row "
        f"measured on this machine.\n[benchmarks.md](../{PAGE}) explains the columns. "
        "`benchmarks/report.py` generates the page.\n",
        f"\n{'; '.join(described)}\n",
    ]
    adapters = [(name, text) for name, text in machine.items() if is_webgpu_name(name)]
    parts.extend(f"\n`{name}`: {text}\n" for name, text in sorted(adapters))
    for subject in sorted({row["subject"] for row in result["rows"]}):
        rows = [row for row in result["rows"] if row["subject"] == subject]
        parts.append(f"\n## {subject}\n\n{table(COLUMNS, [cells(row) for row in rows])}\n")
        parts.extend(f"    {command}\n" for command in sorted({row["command"] for row in rows}))
    return "".join(parts)


def cells(row: Row) -> list[str]:
    """Return a row of a full table, in the order of `COLUMNS`."""
    return [
        shown_parameters(row["parameters"]),
        row["device"],
        shown_number(row["median"]),
        row["unit"],
        f"{row['spread']:.0%}",
        *peer_cells(row),
        row["commit"],
        row.get("code") or ("sources" if row.get("sources") else ""),
    ]


def stale_pages(texts: dict[Path, str], docs: Path) -> list[Path]:
    """Return the pages that are missing, differ from `texts`, or no longer have results."""
    existing_pages = {path.relative_to(docs) for path in (docs / TABLES).glob("*.md")}
    differing = {
        path
        for path, text in texts.items()
        if not (docs / path).exists() or (docs / path).read_text() != text
    }
    return sorted(differing | (existing_pages - texts.keys()))


def main() -> None:
    """Write the pages, or check them."""
    texts = pages({path.stem: load_results(path) for path in sorted(HERE.glob("results/*.json"))})
    stale = stale_pages(texts, DOCS)
    if sys.argv[1:] == ["--check"]:
        if stale:
            names = ", ".join(f"docs/{path}" for path in stale)
            sys.exit(f"{names}: not what benchmarks/results says; run `make docs`")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        (DOCS / TABLES).mkdir(exist_ok=True)
        for path in stale:
            if path in texts:
                (DOCS / path).write_text(texts[path])
            else:
                (DOCS / path).unlink()


if __name__ == "__main__":
    main()
