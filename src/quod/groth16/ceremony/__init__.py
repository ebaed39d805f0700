"""The second phase of a ceremony: a key of a circuit from powers of tau, and what is added to it.

Files are those of snarkjs, byte for byte.
"""

from quod.groth16.ceremony.known_powers import write_known_powers
from quod.groth16.ceremony.new_key import new_key

__all__ = ["new_key", "write_known_powers"]
