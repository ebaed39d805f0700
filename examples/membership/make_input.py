"""Make a group of 1024 members, and the circuit's input for one member.

    python make_input.py input.json       write the input of membership.circom
    python make_input.py --constants      print the round constants for membership.circom

The hash is that of membership.circom, computed on Python integers. The script needs only the
standard library.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

# The scalar field of BN254, circom's default.
PRIME = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
ROUNDS = 110
DEPTH = 10

MEMBER = 613
SCOPE = int.from_bytes(b"a vote", "big")


def round_constant(index: int) -> int:
    """Return SHA-256 of ``quod membership round <index>``, a big-endian integer, modulo PRIME."""
    digest = hashlib.sha256(f"quod membership round {index}".encode()).digest()
    return int.from_bytes(digest, "big") % PRIME


CONSTANTS = [round_constant(index) for index in range(ROUNDS)]


def encrypt(key: int, message: int) -> int:
    """Encrypt with MiMC: `ROUNDS` rounds of x^5; the key is added before each and at the end."""
    state = message
    for constant in CONSTANTS:
        state = pow((state + key + constant) % PRIME, 5, PRIME)
    return (state + key) % PRIME


def compress(left: int, right: int) -> int:
    """Compress two field elements to one: Miyaguchi-Preneel over `encrypt` with the key `left`."""
    return (encrypt(left, right) + left + right) % PRIME


def secret_of(member: int) -> int:
    """Return the secret of a member of the example's group. A real member draws it at random."""
    digest = hashlib.sha256(f"quod membership secret {member}".encode()).digest()
    return int.from_bytes(digest, "big") % PRIME


def authentication_path(leaves: list[int], index: int) -> tuple[int, list[int]]:
    """Return the Merkle root and the siblings of leaf `index`, from the lowest level up.

    leaves: a power of two of them.
    """
    siblings = []
    level = leaves
    while len(level) > 1:
        siblings.append(level[index ^ 1])
        level = [compress(*level[start : start + 2]) for start in range(0, len(level), 2)]
        index >>= 1
    return level[0], siblings


def make_input() -> dict[str, str | list[str]]:
    """Return the circuit's input, with field elements in decimal, as circom reads them."""
    leaves = [compress(secret_of(member), 0) for member in range(1 << DEPTH)]
    root, siblings = authentication_path(leaves, MEMBER)
    return {
        "root": str(root),
        "scope": str(SCOPE),
        "secret": str(secret_of(MEMBER)),
        "siblings": [str(sibling) for sibling in siblings],
        "turns": [str(MEMBER >> level & 1) for level in range(DEPTH)],
    }


def main() -> None:
    if sys.argv[1:] == ["--constants"]:
        print(",\n".join(f"        {constant}" for constant in CONSTANTS))
    elif len(sys.argv) == 2:
        Path(sys.argv[1]).write_text(json.dumps(make_input(), indent=1) + "\n")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
