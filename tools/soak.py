"""Give mutated proofs of toy circuits to the fast verifier, which must reject all of them.

    python -m tools.soak --proofs 1000000 --seed 1

One proof of each batch is also given to the reference verifier, which must report the same error.
Proofs depend only on the seed; accepted ones are written to build/soak.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

from quod.errors import InputError, VerificationError
from quod.field import EXTENSIONS
from quod.gkr import Prover, Reduction, Verifier, VerifyingKey, verify
from tests.gkr.circuits import satisfied
from tests.gkr.mutations import mutated

FOLDER = Path("build") / "soak"
FIELDS = ("m31.4", "goldilocks.2")

_BATCH = 1000


_INSTANCES = {Reduction.TWO_PHASE: 1, Reduction.DATA_PARALLEL: 2}


def soak(name: str, reduction: Reduction, proofs: int, seed: int) -> int:
    """Count the mutated proofs of one circuit that the verifier accepted."""
    field, accepted, instances = EXTENSIONS[name], 0, _INSTANCES[reduction]
    circuit, inputs, public = satisfied(
        field.modulus, seed, layers=2, gates=5, randoms=True, instances=instances
    )
    key = VerifyingKey.of(circuit, field, reduction=reduction)
    proof = Prover("cpu", key, circuit, instances=instances).prove(inputs, public)
    verifier = Verifier("cpu", key, circuit, instances=instances, batch=_BATCH)
    changed = mutated(field, proof, seed)
    for done in range(0, proofs, _BATCH):
        wrong = list(itertools.islice(changed, _BATCH))
        errors = verifier.errors([public] * _BATCH, wrong)
        for proof_bytes, error in zip(wrong, errors, strict=True):
            if error is None:
                accepted += 1
                FOLDER.mkdir(parents=True, exist_ok=True)
                file = f"{name}-{reduction.value}-{seed}-{done}-{accepted}"
                (FOLDER / file).write_bytes(proof_bytes)
        try:
            verify(key, circuit, public, wrong[0], instances=instances)
            accepted += 1
        except (VerificationError, InputError) as error:
            accepted += str(error) != str(errors[0])
    return accepted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proofs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    kinds = list(itertools.product(FIELDS, Reduction))
    proofs_per_kind = arguments.proofs // len(kinds)
    failures = 0
    for name, reduction in kinds:
        begin = time.perf_counter()
        accepted = soak(name, reduction, proofs_per_kind, arguments.seed)
        failures += accepted
        seconds = time.perf_counter() - begin
        print(
            f"{name} by {reduction.value}: {proofs_per_kind} proofs in {seconds:.0f} s, "
            f"{accepted} taken"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
