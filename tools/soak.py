"""Mutated proofs of toy circuits, none of which the fast verifier may take.

    python -m tools.soak --proofs 1000000 --seed 1

Of each batch one proof is also given to the plain verifier, which must say the same. Proofs follow
from the seed; those that are taken are written to build/soak.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

from quod.errors import InputError, VerificationError
from quod.field import EXTENSIONS
from quod.gkr import Prover, Verifier, VerifyingKey, verify
from tests.gkr.circuits import satisfied
from tests.gkr.mutations import mutated

FOLDER = Path("build") / "soak"
FIELDS = ("m31.4", "goldilocks.2")

_BATCH = 1000


def soak(name: str, proofs: int, seed: int) -> int:
    """How many mutated proofs of one circuit were taken."""
    field, taken = EXTENSIONS[name], 0
    circuit, inputs, public = satisfied(field.modulus, seed, layers=2, gates=5, randoms=True)
    key = VerifyingKey.of(circuit, field)
    proof = Prover("cpu", key, circuit).prove(inputs, public)
    verifier, changed = Verifier("cpu", key, circuit, batch=_BATCH), mutated(field, proof, seed)
    for done in range(0, proofs, _BATCH):
        wrong = list(itertools.islice(changed, _BATCH))
        errors = verifier.errors([public] * _BATCH, wrong)
        for own, error in zip(wrong, errors, strict=True):
            if error is None:
                taken += 1
                FOLDER.mkdir(parents=True, exist_ok=True)
                (FOLDER / f"{name}-{seed}-{done}-{taken}").write_bytes(own)
        try:
            verify(key, circuit, public, wrong[0])
            taken += 1
        except (VerificationError, InputError) as error:
            taken += str(error) != str(errors[0])
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proofs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    each = arguments.proofs // len(FIELDS)
    failures = 0
    for name in FIELDS:
        begin = time.perf_counter()
        taken = soak(name, each, arguments.seed)
        failures += taken
        print(f"{name}: {each} proofs in {time.perf_counter() - begin:.0f} s, {taken} taken")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
