"""Verifies what prove.py wrote, in a process that has the images and never had the weights.

python examples/verified_mlp/verify.py FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from quod.errors import QuodError
from quod.inference import read_proof, read_verifying_key


def main() -> None:
    """Prints the key's digest, which the prover tells by another way, and what the digits are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    try:
        key, proof = read_verifying_key(folder / "key.qivk"), read_proof(folder / "proof.qinp")
        with np.load(Path(__file__).parent / "images.npz") as data:
            images = data["images"][: len(proof.logits)]
        proof.verify(key, images)
    except QuodError as error:
        parser.exit(error.exit_code, f"{parser.prog}: {error}\n")
    print(f"key {key.digest.hex()}")
    print(f"verified: {' '.join(map(str, proof.logits.argmax(axis=1)))}")


if __name__ == "__main__":
    main()
