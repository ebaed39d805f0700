"""A profile of a circuit: its constraints counted by namespace and by line of code."""

from __future__ import annotations

import json
from collections import Counter

from quod.formats.output import write_atomically
from quod.formats.source import Path
from quod.r1cs.names import path_name
from quod.r1cs.signal import source_line
from quod.r1cs.traced import TracedSystem

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class Profile:
    """Counts of constraints; `str` returns a table by namespace.

    total: all constraints.
    own: constraints by namespace, without nested namespaces.
    within: constraints by namespace, with nested namespaces.
    lines: constraints by ``file.py:line``.
    """

    def __init__(self, system: TracedSystem) -> None:
        self.total = len(system.row_paths)
        self._stacks: Counter[tuple[str, str]] = Counter()
        instructions = Counter(zip(system.row_codes, system.row_instructions, strict=True))
        self.lines: Counter[str] = Counter()
        names = {index: path_name(system, index) for index in range(len(system.paths))}
        locations = {key: source_line(*key) for key in instructions}
        for key, count in instructions.items():
            self.lines[locations[key]] += count
        for path, code, offset in zip(
            system.row_paths, system.row_codes, system.row_instructions, strict=True
        ):
            self._stacks[names[path], locations[code, offset]] += 1
        self.own: Counter[str] = Counter()
        self.within: Counter[str] = Counter()
        for (name, _), count in self._stacks.items():
            self.own[name] += count
            parts = name.split("/") if name else []
            for length in range(len(parts) + 1):
                self.within["/".join(parts[:length])] += count

    def __str__(self) -> str:
        lines = [f"{'constraints':>11} {'own':>8}  namespace"]
        for name in sorted(self.within):
            lines.append(f"{self.within[name]:>11} {self.own[name]:>8}  {name or '(all)'}")
        return "\n".join(lines)

    def speedscope(self) -> str:
        """Return the profile as JSON for speedscope.app: stacks of namespaces, line on top."""
        frames: dict[str, int] = {}
        samples, weights = [], []
        for (name, line), count in sorted(self._stacks.items()):
            stack = [*(name.split("/") if name else []), line]
            samples.append([frames.setdefault(frame, len(frames)) for frame in stack])
            weights.append(count)
        return json.dumps(
            {
                "$schema": _SCHEMA,
                "shared": {"frames": [{"name": frame} for frame in frames]},
                "profiles": [
                    {
                        "type": "sampled", "name": "constraints", "unit": "none", "startValue": 0,
                        "endValue": self.total, "samples": samples, "weights": weights,
                    }
                ],
            }
        )  # fmt: skip

    def write_speedscope(self, path: Path) -> None:
        """Write `speedscope` to a file; raises OutputError if writing fails."""
        write_atomically(path, self.speedscope().encode())
