"""Compare the texts of all registered kernels before and after a change.

    python -m tools.kernel_texts --out before.json
    python -m tools.kernel_texts --against before.json

The second command prints each kernel whose text differs, is new or is gone, and exits with 1 if
there is one. `--normalise` ignores renamed and moved parameters: it sorts the parameters by their
first use, and replaces the names of parameters and functions by numbers in order of appearance.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

from quod import catalogue
from quod.codegen.targets import TARGETS, emit_registered
from quod.errors import KernelError
from quod.kernel import Kernel, Machine
from quod.kernel.ir.nodes import walk
from quod.kernel.registry import RegisteredKernel

Digests = dict[str, dict[str, str]]
"""By kernel and target the digest of the text; empty if the target cannot run the kernel."""

_NAMES = {
    # LLVM's own functions are operations.
    "llvm": re.compile(r"%\"?[A-Za-z_][\w.]*\"?|@\"?(?!llvm\.)[\w.$]+\"?"),
    "ptx": re.compile(r"\b(?:\w+_)?param_\w+|\b(?<=\.entry )\w+|\b(?<=\.func )\w+"),
    "wgsl": re.compile(r"\b[A-Za-z_]\w*\b"),
}

# The names that a text declares; of WGSL all other words are operations and types.
_DECLARED = {
    "wgsl": re.compile(
        r"\b(?:fn|struct|alias|let|const|override|var(?:<[^>]*>)?)\s+([A-Za-z_]\w*)"
        r"|\b([A-Za-z_]\w*)\s*:"
    )
}


def normalised(text: str, target: str) -> str:
    """Replace each name that the text declares by the number of its first appearance."""
    numbers: dict[str, int] = {}
    pattern = _DECLARED.get(target)
    declared = pattern and {match[1] or match[2] for match in pattern.finditer(text)}

    def numbered(match: re.Match[str]) -> str:
        name = match.group()
        if declared is not None and name not in declared:
            return name
        return f"#{numbers.setdefault(name, len(numbers))}"

    return _NAMES[target].sub(numbered, text)


class WithSortedParameters(RegisteredKernel):
    """A kernel whose parameters are in the order of their first use, then the unused parameters."""

    def trace(self, machine: Machine) -> Kernel:
        kernel = super().trace(machine)
        operands = [operand for op in walk(kernel.block) for operand in op.operands]
        uses = {value: at for at, value in reversed(list(enumerate(operands)))}
        parameters = list(zip(kernel.block.arguments, kernel.parameters, strict=True))
        parameters.sort(key=lambda pair: uses.get(pair[0], len(operands)))
        kernel.block.arguments = tuple(value for value, _ in parameters)
        kernel.parameters = tuple(name for _, name in parameters)
        return kernel


def digests(normalise: bool = False, pattern: str = "") -> Digests:
    """Return the digests of all kernels whose name matches a pattern."""
    names = [row.name for row in catalogue.kernels() if re.search(pattern, row.name)]
    return {name: _digests_of(name, normalise) for name in names}


def _digests_of(name: str, normalise: bool) -> dict[str, str]:
    kernel, texts = catalogue.find(name), {}
    if normalise:
        kernel = WithSortedParameters(kernel.name, kernel.definition, kernel.static)
    for target in TARGETS:
        try:
            text = emit_registered(kernel, target)
        except KernelError:
            texts[target] = ""
            continue
        text = normalised(text, target) if normalise else text
        texts[target] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return texts


def differences(before: Digests, after: Digests) -> list[str]:
    """Return a line for each kernel that is new, is gone, or has another text."""
    lines = [f"{name}: gone" for name in sorted(before.keys() - after.keys())]
    lines += [f"{name}: new" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        targets = [t for t in TARGETS if before[name].get(t) != after[name].get(t)]
        if targets:
            lines.append(f"{name}: {', '.join(targets)}")
    return lines


def main() -> int:
    """Write digests or compare them with those of a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the digests to this file")
    parser.add_argument("--against", type=Path, help="compare with the digests of this file")
    parser.add_argument("--normalise", action="store_true", help="leave names out of account")
    parser.add_argument("--kernels", default="", help="a pattern of kernel names (default: all)")
    options = parser.parse_args()
    after = digests(options.normalise, options.kernels)
    if not after:
        parser.error(f"no kernel's name matches {options.kernels!r}; `quod kernel list` shows them")
    if options.out is not None:
        options.out.write_text(json.dumps(after, indent=1) + "\n")
    if options.against is None:
        print(f"{len(after)} kernels")
        return 0
    before = json.loads(options.against.read_text())
    before = {name: row for name, row in before.items() if re.search(options.kernels, name)}
    lines = differences(before, after)
    print(*lines, f"{len(after)} kernels, {len(lines)} differ", sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
