"""Benchmarks of a ceremony's second phase: keys from powers of tau, and contributions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.provers import IN_PROCESS, NO_SNARKJS, SnarkjsCalls
from quod.bench.proofs.process import QUOD, peak_bytes

_SEED = 1


STEPS = ("setup", "memory", "contribute", "verify")
"""The steps; `memory` is the peak resident memory of `quod groth16 setup`."""


def cases(device: str, curve: str, powers: Sequence[int], steps: Sequence[str]) -> Iterator[Case]:
    """Yield a case for each power and step, on a chain that fills a domain of 2**power."""
    from quod.bench.chain import ChainCircuit
    from quod.formats import write_r1cs
    from quod.groth16.phase2 import contribute, new_key, verify_from_r1cs, write_known_powers

    for power in powers:
        with tempfile.TemporaryDirectory(prefix="quod-bench-setup-") as directory:
            folder = Path(directory)
            chain = ChainCircuit(curve, (1 << power) - 2)
            r1cs, ptau = folder / "c.r1cs", folder / "p.ptau"
            init, last = folder / "0.zkey", folder / "1.zkey"
            a, b, c = chain.matrices
            write_r1cs(
                r1cs, curve=curve, wires=chain.wires, public_outputs=0,
                public_inputs=chain.public, private_inputs=0, a=a, b=b, c=c,
            )  # fmt: skip
            write_known_powers(ptau, curve, power, _SEED, device=device)
            if set(steps) & {"contribute", "verify"}:
                new_key(r1cs, ptau, init, device=device)
            if "verify" in steps:
                contribute(init, last, device=device)
            snarkjs = SnarkjsCalls.found()
            absent = {} if snarkjs is not None else {"snarkjs": NO_SNARKJS}
            quod_key, snarkjs_key = folder / "ours.zkey", folder / "theirs.zkey"
            rows: dict[str, tuple[Callable[..., object], str, tuple[object, ...]]] = {
                "setup": (
                    partial(new_key, r1cs, ptau, quod_key, replace=True), "newZKey",
                    (r1cs, ptau, snarkjs_key),
                ),
                "contribute": (
                    partial(contribute, init, quod_key, replace=True), "contribute",
                    (init, snarkjs_key, "", "x"),
                ),
                "verify": (
                    partial(verify_from_r1cs, r1cs, ptau, last), "verifyFromR1cs",
                    (r1cs, ptau, last),
                ),
            }  # fmt: skip
            try:
                for what in steps:
                    parameters: dict[str, Parameter] = {
                        "what": what,
                        "curve": curve,
                        "power": power,
                    }
                    if what == "memory":
                        files = str(r1cs), str(ptau), str(quod_key)
                        yield Case(
                            parameters, partial(_peak, *files, device), "MB", returns_figure=True
                        )
                        continue
                    step_run, name, arguments = rows[what]
                    yield _case(
                        parameters, partial(step_run, device=device), snarkjs, f"zKey.{name}",
                        arguments, absent,
                    )  # fmt: skip
            finally:
                if snarkjs is not None:
                    snarkjs.close()


def _peak(r1cs: str, ptau: str, zkey: str, device: str) -> float:
    """Return the peak memory in megabytes."""
    words = ["groth16", "setup", r1cs, ptau, zkey, "--device", device, "--force", "--quiet"]
    return peak_bytes(*QUOD, *words) / 1e6


def _case(
    parameters: dict[str, Parameter],
    run: Callable[[], object],
    snarkjs: SnarkjsCalls | None,
    name: str,
    arguments: Sequence[object],
    absent: dict[str, str],
) -> Case:
    peers = {} if snarkjs is None else {"snarkjs": partial(snarkjs.call, name, *arguments)}
    return Case(parameters, run, "ms", peers=peers, peer_note=IN_PROCESS, absent=absent)
