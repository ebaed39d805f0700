"""Convert the Output proofs of Zcash's mainnet in the shared fixtures to lists in build/bench.

The public inputs of a proof are cv and epk, points of Jubjub by their coordinates, and cmu.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from quod.curve.coordinates import FqCoordinates
from quod.curve.named import EDWARDS

CHECKOUT = Path(__file__).resolve().parent.parent
FIXTURES = CHECKOUT.parent / "shared" / "fixtures" / "zcash"
KEY, PROOFS = FIXTURES / "sapling-output.params", FIXTURES / "mainnet_sapling_outputs.json"


WHOLE = [os.path.relpath(KEY, CHECKOUT), "--circuit", "sapling-output"]
"""The arguments for measuring the command from a note to its Output."""


def available() -> bool:
    """Report whether the proofs are present."""
    return PROOFS.is_file()


def outputs() -> list[tuple[list[int], bytes]]:
    """Return the public inputs and the 192 bytes of each proof."""
    proofs = []
    for output in json.loads(PROOFS.read_text()):
        values = {name: bytes.fromhex(output[name]) for name in ("cv", "epk", "cmu", "proof")}
        cmu = int.from_bytes(values["cmu"], "little")
        proofs.append(([*_point(values["cv"]), *_point(values["epk"]), cmu], values["proof"]))
    return proofs


def _point(data: bytes) -> tuple[int, int]:
    """Decode u and v of a Jubjub point: v is little-endian; the top bit is the lowest bit of u."""
    jubjub = EDWARDS["jubjub"]
    field, number = FqCoordinates(jubjub.fq.value), int.from_bytes(data, "little")
    p, sign, v = field.p, number >> 255, number % (1 << 255)
    u = field.square_root((v * v - 1) * pow(1 + jubjub.d * v * v, -1, p) % p)
    assert u is not None
    return (u if u % 2 == sign else p - u), v


def prepare() -> list[str]:
    """Return the paths of the key, the public inputs and the proofs, relative to the checkout."""
    folder = CHECKOUT / "build" / "bench" / "sapling-output"
    folder.mkdir(parents=True, exist_ok=True)
    chain_outputs = outputs()
    public, proofs = folder / "publics.json", folder / "proofs.bin"
    public.write_text(
        json.dumps([[str(value) for value in public_inputs] for public_inputs, _ in chain_outputs])
    )
    proofs.write_bytes(b"".join(proof for _, proof in chain_outputs))
    return [os.path.relpath(path, CHECKOUT) for path in (KEY, public, proofs)]
