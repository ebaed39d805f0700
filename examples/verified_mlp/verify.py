"""Verify the files that prove.py wrote, in a process with the images but without the weights.

python examples/verified_mlp/verify.py FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from quod.errors import QuodError
from quod.inference import read_proof, read_verifying_key


def main() -> None:
    """Print the key's digest and the classified digits.

    A verifier must compare the digest with one that it got from the prover by another channel.
    """
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
