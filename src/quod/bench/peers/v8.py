"""Witness calculators of circuits in Python in V8, the engine of node, with the code of pages."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from quod.bench.peers.provers import NodeProcess
from quod.r1cs import Circuit
from quod.r1cs.inputs import Inputs

_CALCULATOR = Path(__file__).with_name("calculator.mjs")


@contextmanager
def calculator_in_v8(circuit: Circuit, inputs: Inputs) -> Iterator[Callable[[], None] | None]:
    """Yield a function that computes a witness in node, with the code of pages; None without node.

    The process has computed one witness when it is ready.
    """
    node = shutil.which("node")
    if node is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="quod-bench-") as directory:
        folder = Path(directory)
        for script in (files("quod.web") / "runtime").iterdir():
            if script.name.endswith(".js"):
                (folder / script.name).write_bytes(script.read_bytes())
        (folder / "package.json").write_text('{"type": "module"}')
        circuit.write_wasm(folder / "circuit.wasm")
        (folder / "input.json").write_text(json.dumps(calculator_input(circuit, inputs)))
        words = [folder, folder / "circuit.wasm", circuit.field.value, folder / "input.json"]
        process = NodeProcess([node, str(_CALCULATOR), *map(str, words)], "the calculator in node")
        try:
            yield lambda: process.ask("witness")
        finally:
            process.close()


def calculator_input(circuit: Circuit, inputs: Inputs) -> dict[str, list[str]]:
    """Return inputs in the form of circom's interface: lists of numbers, one for each wire."""
    values = {}
    for name, declared in circuit.inputs.items():
        value: Any = inputs[name]
        if declared.bits:
            number = int.from_bytes(value, "little") if isinstance(value, bytes) else value
            value = [number >> index & 1 for index in range(len(declared.wires))]
        values[name] = [str(each) for each in ([value] if isinstance(value, int) else value)]
    return values
