"""Classify digits with an 8-bit perceptron, and prove its outputs.

python examples/verified_mlp/prove.py --device cpu
python examples/verified_mlp/prove.py --out FOLDER  (with files for verify.py)
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import QuodError
from quod.inference import (
    Perceptron,
    Prover,
    error_terms,
    verify,
    write_proof,
    write_verifying_key,
)

FOLDER = Path(__file__).parent


def main() -> None:
    """Print the accuracy, and the time and size of a proof."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=_count, default=64, help="how many of the 64")
    parser.add_argument("--runs", type=_count, default=3, help="proofs, of which the median counts")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="a folder for key and proof")
    options = parser.parse_args()
    if options.out is not None and not options.out.is_dir():
        parser.error(f"{options.out} is no folder; make it first")
    with np.load(FOLDER / "images.npz") as data:
        if options.images > len(data["images"]):
            parser.error(f"there are {len(data['images'])} images, not {options.images}")
        images, labels = data["images"][: options.images], data["labels"][: options.images]
    try:
        _prove(options, images, labels)
    except QuodError as error:
        parser.exit(error.exit_code, f"{parser.prog}: {error}\n")


def _prove(options: argparse.Namespace, images: NDArray[Any], labels: NDArray[Any]) -> None:
    prover = Prover(options.device, Perceptron.open(FOLDER / "model.gguf"))
    inference = prover.prove(images)  # the first one compiles kernels
    times = []
    for _ in range(options.runs):
        start = time.perf_counter()
        inference = prover.prove(images)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    verify(prover.key, images, inference.logits, inference.proof)
    verify_seconds = time.perf_counter() - start
    correct = (inference.logits.argmax(axis=1) == labels).sum()
    bits = -math.log2(sum(error_terms(prover.key, len(images)).values()))
    print(f"{correct} of {len(images)} digits told right")
    print(f"proved and checked in {sorted(times)[len(times) // 2]:.2f} s on {prover.device.name}")
    print(f"verified in {verify_seconds:.2f} s, {len(inference.proof):,} bytes, {int(bits)} bits")
    if options.out is not None:
        write_verifying_key(options.out / "key.qivk", prover.key)
        write_proof(options.out / "proof.qinp", prover.key, inference.logits, inference.proof)
        print(f"key {prover.key.digest.hex()}")


def _count(text: str) -> int:
    """Parse a number of images or runs, at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


if __name__ == "__main__":
    main()
