"""Benchmarks of circom's witness calculators, compiled beforehand."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.provers import NO_SNARKJS, WHOLE, find_snarkjs, process
from quod.formats.strict_json import CIRCUIT_INPUT, read_json
from quod.witness import WitnessCalculator

_JOBS = 64


def cases(wasm: Path, inputs: Path, threads: list[int]) -> Iterator[Case]:
    """Yield cases that open a compiled calculator, and compute one witness, and many by threads.

    Inputs are parsed from JSON each time, as for a job.
    """
    calculator = WitnessCalculator.open(wasm)
    circuit_inputs = read_json(inputs, CIRCUIT_INPUT)

    def parameters(what: str) -> dict[str, Parameter]:
        return {"circuit": wasm.parent.name, "values": calculator.variables, "what": what}

    yield Case(parameters("open"), partial(WitnessCalculator.open, wasm), "ms")
    snarkjs = find_snarkjs()
    with tempfile.TemporaryDirectory(prefix="quod-bench-witness-") as folder:
        out = str(Path(folder) / "peer.wtns")
        peers, absent = {}, {}
        if snarkjs is None:
            absent["snarkjs"] = NO_SNARKJS
        else:
            words = [snarkjs, "wtns", "calculate", str(wasm), str(inputs), out]
            peers["snarkjs"] = process(words)
        yield Case(
            parameters("witness"), partial(calculator.calculate, circuit_inputs), "ms", peers=peers,
            absent=absent, peer_note=WHOLE,
        )  # fmt: skip
    for count in threads:

        def run(count: int = count) -> None:
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(calculator.calculate, [circuit_inputs] * _JOBS))

        thread_parameters = parameters("witnesses by threads") | {"threads": count}
        yield Case(thread_parameters, run, "ms/witness", _JOBS)
