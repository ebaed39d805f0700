"""Spends, Outputs and Converts of Zcash in the browser: the kind of proof of a site, and its key.

The page reads the private information that `quod.zcash.files` reads, and writes descriptions
as it does; `runtime/zcash` is its JavaScript.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from quod.device.discovery import resolve_device
from quod.device.runtime.timeline import Timeline
from quod.formats import Zkey
from quod.groth16.encodings.bellman_key import zkey_of
from quod.zcash.proofs.kinds import ProofKind
from quod.zcash.proofs.parameters import is_test_key


def action_key(
    kind: ProofKind, path: str | PathLike[str], timeline: Timeline, *, allow_insecure: bool
) -> Zkey:
    """Read the parameters of a kind of proof as a proving key.

    Raises the errors of `quod.zcash.proofs.parameters.open_proving_key`.
    """
    checked = is_test_key(kind, path, allow_insecure=allow_insecure)
    return zkey_of(path, kind.circuit(), resolve_device("cpu"), timeline, checked=checked)


def action_name(kind: ProofKind) -> str:
    """Return the default name of the page of a kind of proof, such as ``Sapling Spend``."""
    return f"{kind.protocol.name} {_statement(kind).capitalize()}"


def action_to_json(kind: ProofKind) -> dict[str, Any]:
    """Return the row of a kind of proof in ``site.json``: its statement and its protocol."""
    protocol = {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in vars(kind.protocol).items()
    }
    return {"statement": _statement(kind), "protocol": protocol}


def _statement(kind: ProofKind) -> str:
    return kind.name.partition("-")[2]
