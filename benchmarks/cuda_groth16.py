"""Time Groth16 proofs on a GPU by stage, including the key, for circuits of several sizes.

    python benchmarks/cuda_groth16.py                          100K, 800K, 3.2M and 16M constraints
    python benchmarks/cuda_groth16.py --curve bls12_381 800000

For each size: how long the test key takes to make and to open, by stage; the first proof and the
median of later ones, with their self-check; proofs one after the other from many witnesses; and the
GPU's own time of each step, with what it moves and multiplies, when steps run one by one.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter

import checkout  # noqa: F401

from quod.bench.chain import ChainCircuit
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.groth16 import ProvingKey
from quod.groth16.setup import make_key

SIZES = [100_000, 800_000, 3_200_000, 16_000_000]

# The seed of the test keys; and how many proofs are timed.
_SEED, _PROOFS = 1, 9


def measure(device: AnyDevice, curve: str, constraints: int) -> None:
    """Measure one size and print its figures."""
    circuit = ChainCircuit(curve, constraints)
    print(f"== {circuit.path}", flush=True)
    timeline = Timeline()
    begin = perf_counter()
    witness = circuit.witness(device=device)
    zkey = make_key(circuit, _SEED, device=device, timeline=timeline)
    print(f"circuit and key made in {perf_counter() - begin:.1f} s")
    show(timeline)
    timeline = Timeline()
    begin = perf_counter()
    key = ProvingKey(zkey, device, timeline)
    print(f"key opened in {perf_counter() - begin:.1f} s")
    show(timeline)
    times = []
    for _ in range(1 + _PROOFS):
        begin = perf_counter()
        key.prove(witness)
        times.append(1e3 * (perf_counter() - begin))
    later = times[1:]
    print(
        f"first proof {times[0]:.1f} ms, then {median(later):.2f} ms "
        f"(from {min(later):.2f} to {max(later):.2f})",
        flush=True,
    )
    begin = perf_counter()
    count = sum(1 for _ in key.prove_many([witness] * _PROOFS))
    print(f"many witnesses: {1e3 * (perf_counter() - begin) / count:.2f} ms a proof")
    timeline = Timeline()
    key.prove(witness, timeline=timeline)
    show(timeline)
    key.close()


def show(timeline: Timeline) -> None:
    """Return the table of stages."""
    for row in timeline.table():
        line = f"  {'  ' * row.depth}{row.name:32} {1e3 * row.seconds:10.3f} ms"
        if row.bytes:
            line += f" {row.bytes / row.seconds / 1e9:8.0f} GB/s"
        if row.modmuls:
            line += f" {row.modmuls / row.seconds / 1e9:8.2f} G/s"
        print(line, flush=True)


def main() -> None:
    """Measure the sizes of the command line."""
    parser = argparse.ArgumentParser(description="Groth16 proofs on a GPU, by stage.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--curve", default="bn254")
    parser.add_argument("sizes", nargs="*", type=int, help="constraints")
    options = parser.parse_args()
    device = open_device(options.device)
    for constraints in options.sizes or SIZES:
        measure(device, options.curve, constraints)


if __name__ == "__main__":
    main()
