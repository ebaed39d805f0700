"""Make the table of a test run on a GPU, for benchmarks/results, from pytest's report.

    make test-vulkan PYTEST_ARGS="-n 8 --junitxml=build/run.xml"
    python tools/table_of_tests.py build/run.xml --device webgpu > benchmarks/results/tests-NAME.md

The table counts tests by folder, and lists the reasons for skipped tests. Without `--device` the
machine is not queried, and the heading has the text of `--on`.
"""

from __future__ import annotations

import argparse
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from pathlib import Path

_OUTCOMES = ("passed", "skipped", "failed")
_LONGEST_REASON = 100


def outcome(case: ElementTree.Element) -> str:
    """Return the outcome of a test."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def folder(case: ElementTree.Element) -> str:
    """Return the folder of a test, from a class name such as ``tests.msm.sort.test_binning``."""
    place = case.get("classname") or case.get("name") or ""
    modules = [name for name in place.split(".") if not name[:1].isupper()]
    return "/".join(modules[:-1])


def reason(case: ElementTree.Element) -> str:
    """Return the reason for a skipped test, without sizes, so that equal reasons are one."""
    skipped = case.find("skipped")
    message = "" if skipped is None else skipped.get("message", "")
    text = re.sub(r"\d+ (bytes|lines)", r"so many \1", message)
    text = " ".join(text.split()).replace("|", "/")
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " ..."


def table(report: Path, heading: str, about: str) -> str:
    """Return the page as Markdown."""
    root = ElementTree.parse(report).getroot()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seconds: defaultdict[str, float] = defaultdict(float)
    reasons: Counter[str] = Counter()
    failed = []
    for case in root.iter("testcase"):
        result, test_folder = outcome(case), folder(case)
        # A test that was interrupted has no class name and is not counted; neither has a module
        # that failed to import, which counts as failed.
        if not case.get("classname") and result != "failed":
            continue
        counts[test_folder][result] += 1
        seconds[test_folder] += float(case.get("time", 0))
        if result == "skipped":
            reasons[reason(case)] += 1
        if result == "failed":
            failed.append("::".join(filter(None, (case.get("classname"), case.get("name")))))
    lines = [f"# {heading}", "", "Written by tools/table_of_tests.py.", "", about, ""]
    lines += [
        "| folder | passed | skipped | failed | seconds, all workers |",
        "|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for test_folder, outcomes in sorted(counts.items()):
        total.update(outcomes)
        shown = " | ".join(str(outcomes[name]) for name in _OUTCOMES)
        lines.append(f"| {test_folder} | {shown} | {seconds[test_folder]:.0f} |")
    shown = " | ".join(str(total[name]) for name in _OUTCOMES)
    lines += [f"| **all** | {shown} | {sum(seconds.values()):.0f} |", ""]
    for name, ids in _by_function(failed).items():
        shown = f" ({', '.join(ids)})" if any(ids) else ""
        lines.append(f"Failed: {name}{shown}.")
    lines += ["", "| skipped | why |", "|---|---|"]
    lines += [f"| {count} | {text} |" for text, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def _by_function(names: list[str]) -> dict[str, list[str]]:
    """Return the parameters of tests by function."""
    parameters_by_function: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        function, _, parameters = name.removesuffix("]").partition("[")
        parameters_by_function[function].append(parameters)
    return parameters_by_function


def main() -> None:
    """Print the table."""
    from quod.bench.measure.harness import current_commit
    from quod.bench.measure.results import machine

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("report", type=Path, help="what --junitxml has written")
    parser.add_argument("--device", help="what it was run on: cuda or webgpu")
    parser.add_argument("--on", default="", help="what it was run on, where no device is named")
    parser.add_argument("--commit", help="of what was run, by default this checkout's")
    parser.add_argument("--command", help="what was run; by default the target for the device")
    parser.add_argument("--note", default="", help="a sentence about this run")
    arguments = parser.parse_args()
    target = "test-cuda" if (arguments.device or "").startswith("cuda") else "test-vulkan"
    about = (
        f"`{arguments.command or f'make {target}'}`, commit {arguments.commit or current_commit()}."
    )
    heading = f"Tests on {arguments.on or 'a GPU'}"
    if arguments.device:
        facts = machine(arguments.device)
        heading = f"Tests on one {facts['gpu']}"
        about += f" {facts.get(arguments.device) or facts.get('driver')}."
    print(table(arguments.report, heading, f"{about} {arguments.note}".strip()), end="")


if __name__ == "__main__":
    main()
