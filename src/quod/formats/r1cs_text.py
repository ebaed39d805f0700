"""Constraint systems and witnesses as text: snarkjs's JSON, and readable constraints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO, TypeAlias

from quod.formats.json_text import write_json_list
from quod.formats.r1cs import R1cs, SparseMatrix
from quod.formats.wtns import Witness
from quod.frozen import frozen

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""A linear combination: wires with their coefficients, in file order."""

_CHUNK = 1 << 14


@frozen
class Constraint:
    """A constraint A * B = C: its index, from 0, and its three linear combinations."""

    number: int
    a: Terms
    b: Terms
    c: Terms

    @property
    def wires(self) -> list[int]:
        """The distinct wires of the constraint in order of occurrence, without the constant 1."""
        wires = dict.fromkeys(wire for terms in (self.a, self.b, self.c) for wire, _ in terms)
        wires.pop(0, None)
        return list(wires)


def constraint(r1cs: R1cs, number: int) -> Constraint:
    """Return constraint `number` of a system."""
    a, b, c = (_terms(matrix, number) for matrix in r1cs.matrices)
    return Constraint(number, a, b, c)


def signed(value: int, prime: int) -> str:
    """Return a field element in decimal, as the negative number if it is above prime / 2."""
    return str(value) if value <= prime // 2 else str(value - prime)


def constraint_text(r1cs: R1cs, row: Constraint, names: Mapping[int, str]) -> str:
    """Return a readable constraint: ``(main.a - 1) * main.a = 0``; unnamed wires are ``wire 5``."""
    prime = r1cs.fr.value
    a, b, c = (_sum(terms, names, prime) for terms in (row.a, row.b, row.c))
    return f"{_factor(a)} * {_factor(b)} = {c}"


def wire_name(wire: int, names: Mapping[int, str]) -> str:
    """Return the name of a wire's signal, or its number if it has none."""
    return names.get(wire, f"wire {wire}")


def r1cs_to_json(r1cs: R1cs, file: BinaryIO) -> None:
    """Write a constraint system to an open file as `snarkjs r1cs export json` does."""
    head = {
        "n8": r1cs.fr.bytes,
        "prime": str(r1cs.fr.value),
        "nVars": r1cs.wires,
        "nOutputs": r1cs.public_outputs,
        "nPubInputs": r1cs.public_inputs,
        "nPrvInputs": r1cs.private_inputs,
        "nLabels": r1cs.labels,
        "nConstraints": r1cs.constraints,
        "useCustomGates": False,
    }
    file.write(json.dumps(head, indent=1)[:-2].encode())
    rows = (
        [{str(wire): str(value) for wire, value in terms} for terms in (row.a, row.b, row.c)]
        for row in (constraint(r1cs, number) for number in range(r1cs.constraints))
    )
    write_json_list(file, "constraints", (json.dumps(row, indent=1) for row in rows))
    write_json_list(file, "map", map(str, r1cs.wire_labels.tolist()))
    for list_name in ("customGates", "customGatesUses"):
        write_json_list(file, list_name, iter(()))
    file.write(b"\n}")


def witness_to_json(witness: Witness, file: BinaryIO) -> None:
    """Write the values of a witness to an open file as `snarkjs wtns export json` does."""
    for start in range(0, len(witness), _CHUNK):
        part = witness.values[start : start + _CHUNK]
        rows = [int.from_bytes(row.tobytes(), "little") for row in part]
        text = ",\n".join(f' "{value}"' for value in rows)
        file.write(("[\n" if not start else ",\n").encode() + text.encode())
    file.write(b"\n]")


def _terms(matrix: SparseMatrix, row: int) -> Terms:
    start, stop = int(matrix.row_ptr[row]), int(matrix.row_ptr[row + 1])
    columns = matrix.column[start:stop].tolist()
    values = (int.from_bytes(value.tobytes(), "little") for value in matrix.value[start:stop])
    return tuple(zip(columns, values, strict=True))


def _sum(terms: Terms, names: Mapping[int, str], prime: int) -> str:
    """Return the text of a linear combination; ``0`` without terms."""
    text = ""
    for wire, value in terms:
        signed_value = signed(value, prime)
        sign, magnitude = (
            ("-", signed_value[1:]) if signed_value.startswith("-") else ("+", signed_value)
        )
        name = wire_name(wire, names)
        term = magnitude if wire == 0 else name if magnitude == "1" else f"{magnitude}*{name}"
        if text:
            text += f" {sign} {term}"
        else:
            text = term if sign == "+" else f"-{term}"
    return text or "0"


def _factor(text: str) -> str:
    return f"({text})" if " + " in text or " - " in text or text.startswith("-") else text
