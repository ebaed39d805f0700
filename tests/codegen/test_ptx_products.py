"""Machine code of the field products: fused multiply-adds and little else, nothing in memory."""

from __future__ import annotations

import collections
import functools

import pytest

from quod import catalogue
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.field.moduli import MODULI
from tests.support.ptx_assembler import assemble, opcodes, sass
from tests.support.thorough import one_and_others

FIELDS = ("bls12_377.fq", "bls12_381.fq", "bls12_381.fr", "bn254.fq", "bn254.fr")
ARCHS = ("sm_90a", "sm_120")


@functools.cache
def _counts(name: str, arch: str) -> collections.Counter[str]:
    machine = ptx_machine(arch=arch)
    text = ptx.emit(catalogue.find(name).trace(machine), machine)
    return opcodes(sass(assemble(text, arch)[0]))


def _words(field: str) -> int:
    return int(MODULI[field].words)


@pytest.mark.parametrize("arch", one_and_others(ARCHS, ["sm_90a"]))
@pytest.mark.parametrize("field", one_and_others(FIELDS, always=["bn254.fr"]))
@pytest.mark.parametrize("operation", ["multiply", "square"])
def test_products_are_fused_multiply_adds(operation: str, field: str, arch: str) -> None:
    """A product of n words takes n * n of them and the reduction as many, less for a square.

    A word of a modulus that is 0, 1 or -1 takes none, so there may be fewer than 2 * n * n.
    """
    counts = _counts(f"field.{operation}[{field}]", arch)
    n = _words(field)
    multiplied = n * n if operation == "multiply" else n * (n + 1) // 2
    fused = counts["IMAD.WIDE"]
    assert 0.85 * (multiplied + n * (n - 2)) <= fused <= multiplied + n * n
    # Halves that are not fused: the quotient of each row, and what the reduction leaves.
    assert counts["IMAD"] + counts["IMAD.HI"] <= 3 * n
    # Additions that pass a carry on, the final subtraction, addresses; a square doubles besides.
    others = sum(counts[name] for name in ("IADD3", "MOV", "SEL", "LOP3", "SHF", "UMOV", "HFMA2"))
    assert others <= (12 if operation == "multiply" else 18) * n, dict(counts)


@pytest.mark.parametrize("field", one_and_others(FIELDS, always=["bn254.fr"]))
@pytest.mark.parametrize(
    "operation",
    one_and_others(["multiply", "square", "add", "subtract"], ["multiply", "square", "add"]),
)
def test_no_registers_are_spilled(operation: str, field: str) -> None:
    counts = _counts(f"field.{operation}[{field}]", "sm_90a")
    assert counts["LDL"] == counts["STL"] == 0
    # Words are loaded and stored 16 bytes at a time: two operands, one result.
    vectors = -(-_words(field) // 4)
    assert counts["LDG"] <= 2 * vectors
    assert counts["STG"] <= vectors


def test_opcodes_are_classified() -> None:
    lines = [
        "@!P0 IMAD.WIDE.U32.X R2, P1, R3, R4, R6, P2",
        "IMAD.MOV.U32 R1, RZ, RZ, R2",
        "IMAD.X R1, RZ, RZ, R2, P0",
        "IMAD R1, R2, R3, RZ",
        "IMAD.HI.U32 R1, R2, R3, RZ",
        "LDG.E.128 R4, desc[UR4][R2.64]",
        "LDG.E R4, desc[UR4][R2.64]",
    ]
    assert opcodes(lines) == {
        "IMAD.WIDE": 1, "MOV": 1, "IADD3": 1, "IMAD": 1, "IMAD.HI": 1, "LDG": 2
    }  # fmt: skip
