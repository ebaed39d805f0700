"""Re-verification: decide whether the witness or the device made a proof wrong."""

from __future__ import annotations

from quod.device.protocol import in_host_memory
from quod.errors import VerificationError
from quod.formats import Witness
from quod.groth16 import Proof, ProvingKey


def prove_again(key: ProvingKey, witness: Witness, max_constraints: int) -> tuple[Proof, list[int]]:
    """Repeat a proof that did not verify, on the same device and then on the CPU.

    max_constraints: the maximum number of constraints for which the CPU is used.
    Returns a proof that verifies, which means that the device had computed wrongly. Raises
    VerificationError if no proof verifies: the witness does not satisfy the circuit. The zkey
    cannot show this directly, as it has the matrices A and B but not C.
    """
    try:
        return key.prove(witness)
    except VerificationError:
        if in_host_memory(key.device) or key.constraints > max_constraints:
            raise
    host = ProvingKey(key.zkey, "cpu", allow_insecure=True)
    try:
        return host.prove(witness)
    finally:
        host.close()
