"""Re-verification: whether a bad proof is the fault of the witness or of the device."""

from __future__ import annotations

from quod.device.protocol import in_host_memory
from quod.errors import VerificationError
from quod.formats import Witness
from quod.groth16 import Proof, ProvingKey


def proved_again(key: ProvingKey, witness: Witness, most: int) -> tuple[Proof, list[int]]:
    """Repeat a proof that did not verify, on the same device and then on the CPU.

    Success means that the device was wrong. Raises VerificationError if both fail: the witness does
    not satisfy the circuit. A zkey has A and B but not C, so its matrices cannot decide this; a
    computation by other code can.
    most: the maximum number of constraints for which the CPU is used.
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
