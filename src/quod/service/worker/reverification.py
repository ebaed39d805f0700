"""Who is to blame for a proof that does not verify: the witness, or the device."""

from __future__ import annotations

from quod.device.protocol import in_host_memory
from quod.errors import VerificationError
from quod.formats import Witness
from quod.groth16 import Proof, ProvingKey


def proved_again(key: ProvingKey, witness: Witness, most: int) -> tuple[Proof, list[int]]:
    """The proof, if the same device or the processor can make one that verifies.

    Then the device was wrong the first time. If neither can, VerificationError: the witness does
    not satisfy the circuit. A zkey has A and B alone, and no C, so that matrices cannot tell this;
    a computation by other code can. The processor is asked up to `most` constraints.
    """
    try:
        return key.prove(witness)
    except VerificationError:
        if in_host_memory(key.device) or key.constraints > most:
            raise
    host = ProvingKey(key.zkey, "cpu", allow_insecure=True)
    try:
        return host.prove(witness)
    finally:
        host.close()
