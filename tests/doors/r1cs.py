"""Circuits in Python in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator

from quod import r1cs
from tests.doors.row import OPTIONAL, Row


def square(system: r1cs.ConstraintSystem) -> None:
    """One input, and its square."""
    system.output("y", system.private("x") ** 2)


def rows() -> Iterator[tuple[str, Row]]:
    """Of the builder, of what it makes, and of bits."""
    system = r1cs.ConstraintSystem("bn254")
    (signal,) = system.private_bits("bit", 1)
    made = r1cs.trace(square)
    yield (
        "trace",
        Row(r1cs.trace, {"function": square, "curve": "bn254"}, {"function": ("a class",)}),
    )
    yield "ConstraintSystem", Row(r1cs.ConstraintSystem, {"curve": "bn254"})
    for name in ("private", "public"):
        yield f"r1cs.{name}", Row(
            getattr(system, name), {"name": "x", "count": 2}, {"name": ("text",), "count": OPTIONAL}
        )  # fmt: skip
    yield "private_bits", Row(system.private_bits, {"name": "x", "count": 2}, {"name": ("text",)})
    integer = ("negative", "huge")
    for name, arguments in (
        ("enforce", ("a", "b", "c")), ("assert_equal", ("a", "b")), ("boolean", ("signal",)),
        ("assert_nonzero", ("signal",)), ("multiply", ("a", "b")), ("divide", ("a", "b")),
        ("select", ("bit", "chosen", "other")), ("is_zero", ("signal",)), ("is_equal", ("a", "b")),
        ("inverse_or_zero", ("signal",)),
    ):  # fmt: skip
        yield f"r1cs.{name}", Row(
            getattr(system, name), dict.fromkeys(arguments, signal),
            dict.fromkeys(arguments, integer),
        )  # fmt: skip
    yield (
        "r1cs.output",
        Row(system.output, {"name": "y", "signal": signal}, {"name": ("text",), "signal": integer}),
    )
    yield (
        "r1cs.at_most",
        Row(system.at_most, {"signal": signal}, {"signal": integer}),
    )
    yield (
        "r1cs.declare_at_most",
        Row(
            system.declare_at_most,
            {"signal": signal, "most": 1},
            {"signal": integer, "most": integer},
        ),
    )
    yield "r1cs.constant", Row(system.constant, {"number": 1}, {"number": integer})
    yield "r1cs.pack", Row(system.pack, {"bits": [signal]})
    yield "r1cs.sum", Row(system.sum, {"signals": [signal], "weights": [1]}, {"weights": OPTIONAL})
    yield (
        "hint",
        Row(
            system.hint,
            {"function": abs, "arguments": [signal], "count": 1},
            {"function": ("a class",)},
        ),
    )
    yield "hint_bit", Row(system.hint_bit, {"signal": signal, "position": 0}, {"signal": integer})
    yield "r1cs.wire", Row(system.wire, {"name": "x"}, {"name": ("text",)})
    yield (
        "r1cs.free",
        Row(lambda signal: system.free(signal), {"signal": signal}, {"signal": integer}),
    )
    yield "namespace", Row(system.namespace, {"name": "x"}, {"name": ("text",)})
    for function in (r1cs.low_bits, system.bits):
        own = {} if function == system.bits else {"system": system}
        yield function.__name__, Row(
            function, {**own, "signal": signal, "count": 3}, {"signal": integer, "count": OPTIONAL}
        )  # fmt: skip
    yield (
        "strict_bits",
        Row(r1cs.strict_bits, {"system": system, "signal": signal}, {"signal": integer}),
    )
    yield "Circuit", Row(r1cs.Circuit, {"system": system})
    yield "witness", Row(made.witness, {"inputs": {"x": 3}, "check": True}, {"check": ("true",)})
    yield "check", Row(made.check, {"witness": [1, 9, 3]})
    yield (
        "tamper",
        Row(
            made.tamper,
            {"count": 1, "inputs": {"x": 3}, "seed": 0},
            {"count": ("huge",), "seed": ("huge",)},
        ),
    )
