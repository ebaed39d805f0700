"""The circuits of Sapling and MASP by name, as commands and benchmarks take them."""

from __future__ import annotations

from collections.abc import Callable

from quod.names import NameTable
from quod.r1cs import Circuit
from quod.zcash.masp import masp_convert_circuit, masp_output_circuit, masp_spend_circuit
from quod.zcash.output import output_circuit
from quod.zcash.spend import spend_circuit

CIRCUITS: NameTable[Callable[[], Circuit]] = NameTable(
    "quod.zcash.named_circuits.CIRCUITS", "a circuit",
    {
        "sapling-output": output_circuit,
        "masp-output": masp_output_circuit,
        "sapling-spend": spend_circuit,
        "masp-spend": masp_spend_circuit,
        "masp-convert": masp_convert_circuit,
    },
)  # fmt: skip
