"""Benchmarks of a ceremony's first phase: contribution, preparation and verification."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

from quod.bench.measure.harness import Case, Parameter
from quod.bench.measure.settings import Settings
from quod.bench.peers.provers import IN_PROCESS, NO_SNARKJS, WHOLE, find_snarkjs, process
from quod.bench.proofs.process import QUOD
from quod.cli.parameters import Option, WrongUsage
from quod.curve.named import CURVES

STEPS = ("contribute", "prepare", "verify")


def cases(device: str, curve: str, sizes: list[int], steps: list[str]) -> Iterator[Case]:
    """Yield each step in process, including files, then as a process with snarkjs as peer."""
    from quod.ceremony import contribute, new_powers, prepare, verify

    with tempfile.TemporaryDirectory(prefix="quod-bench-ceremony-") as folder:
        for power in sizes:
            initial, contributed, prepared, out = (
                str(Path(folder) / f"{power}-{name}") for name in ("new", "done", "ready", "out")
            )
            new_powers(curve, power, initial)
            contribute(initial, contributed, device=device)
            if "verify" in steps:
                prepare(contributed, prepared, device=device)
            runs: dict[str, tuple[Callable[[], object], list[str], list[str]]] = {
                "contribute": (
                    partial(contribute, initial, out, device=device, replace=True),
                    [initial, out],
                    ["-e=text", "--name=x"],
                ),
                "prepare": (
                    partial(prepare, contributed, out, device=device, replace=True),
                    [contributed, out],
                    [],
                ),
                "verify": (partial(verify, prepared, device=device), [prepared], []),
            }
            for step in steps:
                run, files, extra_arguments = runs[step]
                parameters: dict[str, Parameter] = {"what": step, "curve": curve, "log2": power}
                yield Case(parameters, run, peer_note=IN_PROCESS)
                subcommand = ["prepare", "phase2"] if step == "prepare" else [step]
                quod = [sys.executable, *QUOD, "powersoftau", *subcommand, *files]
                snarkjs, peers, absent = find_snarkjs(), {}, {}
                if snarkjs is None or CURVES[curve].snarkjs_name not in ("bn128", "bls12381"):
                    absent["snarkjs"] = (
                        NO_SNARKJS if snarkjs is None else f"it does not support {curve}"
                    )
                else:
                    peers["snarkjs"] = process(
                        [snarkjs, "powersoftau", *subcommand, *files, *extra_arguments]
                    )
                force = [] if step == "verify" else ["--force"]
                yield Case(
                    parameters, process([*quod, "--device", device, *force]), peers=peers,
                    absent=absent, peer_note=WHOLE,
                )  # fmt: skip


def ceremony(
    settings: Settings,
    sizes: Annotated[
        list[int] | None,
        Option(
            "--log2",
            metavar="K",
            least=1,
            most=28,
            help="A ceremony of 2^K powers; may be repeated.",
        ),
    ] = None,
    curve: Annotated[str, Option(help="The curve: bn254 or bls12_381.")] = "bn254",
    steps: Annotated[
        list[str] | None, Option("--step", help="The step: contribute, prepare or verify.")
    ] = None,
) -> None:
    """Powers of tau: a contribution, the preparation of phase 2, and their verification."""
    from quod.formats.curves import curve_named

    if unknown := set(steps or []) - set(STEPS):
        raise WrongUsage(f"--step must be one of {', '.join(STEPS)}, not {min(unknown)}")
    bench_cases = cases(settings.device, curve_named(curve).name, sizes or [12], steps or [*STEPS])
    settings.measure("ceremony", bench_cases)
