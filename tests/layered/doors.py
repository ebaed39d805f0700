"""Calls of programs and gadgets for tests/test_public_door.py: a name, what is called, right
arguments, and the wrong values of that test that an argument takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from quod.field import NAMED
from quod.layered import Program, Table, gadgets

Call = tuple[str, Callable[..., Any], dict[str, Any], dict[str, tuple[str, ...]]]

M31 = NAMED["m31"]
ANY_INT = ("negative", "huge")
TEXT = ("text",)


def calls() -> Iterator[Call]:
    """All of them."""
    yield from _programs()
    yield from _gadgets()


def _programs() -> Iterator[Call]:
    program = Program(M31)
    wire = program.input("wire")
    yield "Program", Program, {"field": M31}, {}
    yield "Program.input", program.input, {"name": "a"}, {"name": TEXT}
    yield "Program.inputs", program.inputs, {"name": "a", "count": 1}, {"name": TEXT}
    public = {"name": "b", "shared": False}
    yield "public_input", Program(M31).public_input, public, {"name": TEXT, "shared": ("true",)}
    yield (
        "public_inputs", Program(M31).public_inputs, {**public, "count": 1},
        {"name": TEXT, "shared": ("true",)},
    )  # fmt: skip
    yield "Program.constant", program.constant, {"value": 1}, {"value": ANY_INT}
    weights = {"wires": [wire], "weights": [1]}
    yield "Program.sum", program.sum, weights, {"weights": ("None",)}
    advice = {"function": lambda x: [x], "wires": [wire], "count": 1}
    yield "Program.advice", program.advice, advice, {"function": ("a class",)}
    yield "committed", program.committed, {"wires": [wire]}, {}
    yield "scope", lambda name: program.scope(name).__enter__(), {"name": "s"}, {"name": TEXT}
    yield (
        "each", lambda name, function, column: program.each(name, function, column),
        {"name": "n", "function": lambda x: x, "column": []},
        {"name": TEXT, "function": ("a class",), "column": ("a list",)},
    )  # fmt: skip
    yield "assert_zero", program.assert_zero, {"value": wire, "name": "n"}, {"name": TEXT}
    yield (
        "assert_equal", program.assert_equal, {"left": wire, "right": wire, "name": "n"},
        {"left": ANY_INT, "right": ANY_INT, "name": TEXT},
    )  # fmt: skip
    layout_of = Program(M31)
    layout_of.assert_zero(layout_of.input("x"), "zero")
    layout = layout_of.finished()
    given = {"values": {"x": 0}, "instances": None}
    yield (
        "Layout.inputs", layout.inputs, {**given, "check": True},
        {"instances": ("None",), "check": ("true",)},
    )  # fmt: skip
    yield "Layout.public", layout.public, given, {"values": ("a mapping",), "instances": ("None",)}
    for name in ("__add__", "__mul__", "__rsub__"):
        yield f"Wire.{name}", getattr(wire, name), {"other": 1}, {"other": ANY_INT}
    yield "Wire.__pow__", lambda exponent: wire**exponent, {"exponent": 2}, {}


def _gadgets() -> Iterator[Call]:
    program = Program(M31)
    wire = program.input("wire")
    for name in ("assert_bits", "assert_signs"):
        yield (
            name, getattr(gadgets, name), {"program": program, "wires": [wire], "name": "n"},
            {"name": TEXT},
        )  # fmt: skip
    bits = {"program": program, "bits": [wire]}
    yield "signs_of_bits", gadgets.signs_of_bits, bits, {}
    yield "number_of_bits", gadgets.number_of_bits, bits, {}
    signs = {"program": program, "signs": [wire]}
    yield "number_of_signs", gadgets.number_of_signs, signs, {}
    number = {"program": program, "number": wire, "count": 3, "name": "n"}
    wrong = {"number": ANY_INT, "name": TEXT}
    yield "bits_of_number", gadgets.bits_of_number, number, wrong
    limb = {"limb": ("None",)}
    yield "assert_range", gadgets.assert_range, {**number, "limb": 2}, wrong | limb
    yield "limbs_of_number", gadgets.limbs_of_number, {**number, "limb": 2}, wrong
    table = Table([[1, 2], [wire, 3]])
    yield "Table", Table, {"rows": [1]}, {}
    row = {"row": [wire, wire], "table": table, "name": "n"}
    yield "assert_in_table", program.assert_in_table, row, {"name": TEXT}
    looked = {"program": program, "table": table, "wires": [wire], "name": "n"}
    yield "lookup", gadgets.lookup, looked, {"name": TEXT}
    yield "bytes_to_signs", gadgets.bytes_to_signs, {"data": b""}, {"data": ("bytes",)}
    yield (
        "signs_to_bytes", gadgets.signs_to_bytes, {"signs": [], "modulus": 17},
        {"modulus": ("huge",)},
    )  # fmt: skip
    for name, own in (("keccak_f", {"state": [wire] * 1600}), ("sha3_256", {"message": []})):
        yield (
            name, getattr(gadgets, name), {"program": program, **own, "committed_every": None},
            {"committed_every": ("None",)},
        )  # fmt: skip
    for name in ("sha256", "poseidon_m31", "poseidon_m31_hash"):
        last = "state" if name == "poseidon_m31" else "message"
        yield name, getattr(gadgets, name), {"program": program, last: [wire] * 16}, {}
    yield "poseidon_m31_hash_numbers", gadgets.poseidon_m31_hash_numbers, {"message": [1]}, {}
    permutation = gadgets.POSEIDON2["m31"]
    yield "permute", permutation.permute, {"program": program, "state": [wire] * 16}, {}
    pair = {"left": [wire] * 8, "right": [wire] * 8}
    yield "compress", permutation.compress, {"program": program, **pair}, {}
    yield "permute_numbers", permutation.permute_numbers, {"state": [1] * 16}, {}
    digests = {"left": [1] * 8, "right": [1] * 8}
    yield "compress_numbers", permutation.compress_numbers, digests, {}
    yield (
        "merkle_root", gadgets.merkle_root,
        {"program": program, "compress": permutation.compress, "leaf": [wire], "siblings": [],
         "position": [], "committed": True},
        {"compress": ("a class",), "committed": ("true",)},
    )  # fmt: skip
    yield (
        "merkle_tree", gadgets.merkle_tree,
        {"compress": permutation.compress_numbers, "leaves": [[1] * 8]},
        {"compress": ("a class",), "leaves": ("a list",)},
    )  # fmt: skip
    yield "merkle_path", gadgets.merkle_path, {"tree": [[[1] * 8]], "position": 0}, {}
    row = {"left": [[wire]], "right": [[wire]]}
    yield "matrix_product", gadgets.matrix_product, {"program": program, **row}, {}
    yield (
        "assert_matrix_product", gadgets.assert_matrix_product,
        {"program": program, **row, "product": [[wire]], "name": "n"}, {"name": TEXT},
    )  # fmt: skip
