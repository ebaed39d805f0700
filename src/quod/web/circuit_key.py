"""The check that a proving key is for a circuit in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import resolve_device
from quod.errors import MismatchError
from quod.formats import Zkey
from quod.groth16.setup import coefficients_of
from quod.r1cs import Circuit


def check_circuit(key: Zkey, circuit: Circuit) -> None:
    """Raise MismatchError if a key is not for a circuit: another field, size or matrix A or B.

    Keys do not contain the matrix C.
    """
    if key.curve != circuit.curve:
        raise MismatchError(
            f"is over {key.curve} and the circuit over {circuit.curve}", path=key.path
        )
    sizes = {
        "values": (key.variables, circuit.wires), "public values": (key.public, circuit.public),
        "constraints": (key.constraints, circuit.constraints),
    }  # fmt: skip
    for what, (of_key, of_circuit) in sizes.items():
        if of_key != of_circuit:
            raise MismatchError(
                f"has {of_key} {what} and the circuit {of_circuit}; they belong to different "
                "circuits, or the circuit has changed since",
                path=key.path,
            )
    expected = _ordered(coefficients_of(circuit, resolve_device("cpu")))
    if not np.array_equal(_ordered(key.coefficients), expected):
        raise MismatchError(
            "has other constraints than the circuit, which may have changed since; make a key for "
            "the circuit as it is",
            path=key.path,
        )


def _ordered(entries: NDArray[Any]) -> NDArray[Any]:
    """Return entries of matrices by constraint, matrix and signal."""
    order = np.lexsort((entries["signal"], entries["matrix"], entries["constraint"]))
    ordered: NDArray[Any] = entries[order]
    return ordered
