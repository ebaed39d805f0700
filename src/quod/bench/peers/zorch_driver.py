"""Product sumchecks by zorch (pyzorch), compiled to a program; run by `zorch.py`.

Runs in an interpreter with pyzorch, which need not have Quod. Arguments: the name of a zk_dtypes
field, the logarithm of the size, and a file of two tables in the field's memory layout. It prints
"ready" after a compiling run; then it proves once for each input line and prints the seconds taken.
"""

import sys
from time import perf_counter
from typing import Any

import frx
import frx.numpy as fnp
import numpy as np
import zk_dtypes
from zorch.challenge import ChallengePolicy
from zorch.prove import fold_rounds
from zorch.sha256_field_transcript import Sha256FieldTranscript
from zorch.sumcheck.prover import CompressedProductRound, initial_claim
from zorch.testkit.transcript import cheap_transcript


def transcript(dtype: Any) -> Any:
    """Create the transcript: SHA-256 over Goldilocks.

    Over BN254 its challenges are not reduced and its claims become wrong, so a sponge of its tests
    replaces it, whose few products hash nothing.
    """
    if dtype.itemsize == 8:
        return Sha256FieldTranscript.new(b"sumcheck", dtype)
    return cheap_transcript(dtype)


def main() -> None:
    name, log2_size, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    dtype = np.dtype(getattr(zk_dtypes, name))
    with open(path, "rb") as file:
        tables = np.frombuffer(file.read(), dtype).reshape(2, 1 << log2_size)
    table_array = fnp.asarray(tables)
    claim = fnp.sum(table_array[0] * table_array[1])

    def prove(tables: frx.Array, claim: frx.Array, start: Any) -> object:
        state = initial_claim(tables, claim, log2_size)
        one_round = CompressedProductRound(ChallengePolicy(dtype))
        final_state, _, messages = fold_rounds(one_round, state, start, log2_size)
        return fnp.stack(messages), final_state.state, final_state.claim.value

    compiled = frx.jit(prove)

    def run() -> Any:
        start = transcript(dtype)
        frx.block_until_ready(start)
        begin = perf_counter()
        results = frx.block_until_ready(compiled(table_array, claim, start))
        seconds.append(perf_counter() - begin)
        return results

    seconds: list[float] = []
    messages, values, final_claim = run()
    # The first message must belong to the given sum, and the final values to the reduced one.
    half = table_array.reshape(2, 2, -1)
    expected = fnp.sum(half[0, 0] * half[1, 0])
    if messages[0, 0] != expected or values[0, 0] * values[1, 0] != final_claim:
        sys.exit("its sumcheck is wrong")
    print("ready", flush=True)
    for _ in sys.stdin:
        run()
        print(seconds[-1], flush=True)


main()
