"""Parts of circuits in the table of public calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from quod import r1cs
from quod.curve import EDWARDS
from quod.r1cs import gadgets
from tests.doors.row import Row

INTEGER = ("negative", "huge")
CURVE = EDWARDS["baby_jubjub"]


def rows() -> Iterator[tuple[str, Row]]:
    """Of all gadgets; signals may be any number."""
    system = r1cs.ConstraintSystem("bn254")
    x = system.declare_at_most(system.private("x"), 1)
    point = gadgets.CurvePoint(*system.private("p", 2))
    bits = system.private_bits("bits", 2)

    def row(name: str, fine: dict[str, tuple[str, ...]] | None = None, **right: Any) -> Any:
        call = getattr(gadgets, name)
        # A signal alone is a number, and lists are of signals.
        single = {key: INTEGER for key, value in right.items() if type(value) is r1cs.Signal}
        own = {**single, **(fine or {})}
        return f"r1cs.gadgets.{name}", Row(call, {"system": system, **right}, own)

    for name in ("exclusive_or", "inclusive_or"):
        yield row(name, left=x, right=x)
    for name in ("exclusive_or_of_three", "majority"):
        yield row(name, first=x, second=x, third=x)
    for name in ("is_less", "is_at_most", "assert_less", "assert_at_most"):
        yield row(name, left=x, right=x, size=8)
    yield row("assert_bits_at_most", {"most": ("huge",)}, bits=bits, most=1)
    yield row("assert_bits", bits=bits)
    yield row("pack_elements", {"size": ("None",)}, bits=bits, size=8)
    yield row("unpack_elements", elements=bits, size=8)
    yield row("choose", bits=bits, values=[1, 2, 3, 4])
    yield row("choose_at", index=x, values=[1, 2])
    yield row("one_hot", index=x, count=2)
    yield row("look_up", bits=bits, tables=[[1, 2, 3, 4]])
    yield row("poseidon_hash", inputs=bits, initial=x)
    yield row("poseidon_outputs", inputs=bits, count=1, initial=x)
    yield row("mimc7", value=x, key=x)
    yield row("mimc7_hash", values=bits, key=x)
    yield row("mimc_feistel", left=x, right=x, key=x)
    yield row("mimc_sponge", values=bits, key=x, outputs=1)
    yield row("pedersen_point", bits=bits)
    yield row("blake2s_hash", message=[1] * 8, personalisation=bytes(8))
    yield row("sha256", message=[1] * 8)
    yield row("sha256_compression", state=[[1] * 32] * 8, block=[[1] * 32] * 16)
    yield row("assert_eddsa", public_key=point, message=x, r8=point, s=x)
    for name in ("poseidon_node", "mimc_sponge_node"):
        yield row(name, {"level": LEVEL}, level=0, left=x, right=x)
    yield row("merkle_root", leaf=x, siblings=[x], position=[x], compress=gadgets.poseidon_node)
    for kind in ("EdwardsPoints", "MontgomeryPoints"):
        yield row(kind, curve=CURVE)
        yield from _points(kind, getattr(gadgets, kind)(system, CURVE), point, bits)
    yield (
        "Template",
        Row(
            gadgets.Template,
            {"r1cs": r1cs.trace(square).r1cs, "calculate": abs},
        ),
    )


LEVEL = (
    "None", "a float", "true", "negative", "huge", "text", "bytes", "a list", "a set", "a mapping",
    "a class", "floats", "a mask", "hostile", "an object",
)  # fmt: skip
"""Anything: the level is of no hash but others'."""


def square(system: r1cs.ConstraintSystem) -> None:
    """One input, and its square."""
    system.output("y", system.private("x") ** 2)


def _points(kind: str, points: Any, point: Any, bits: Any) -> Iterator[tuple[str, Row]]:
    calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (points.add, {"left": point, "right": point}), (points.double, {"given": point}),
        (points.multiply, {"bits": bits, "given": point}),
        (points.multiply_fixed, {"bits": bits, "base": CURVE.generator}),
    ]  # fmt: skip
    if kind == "MontgomeryPoints":
        form = gadgets.MontgomeryPoint(*point)
        calls[:2] = [
            (points.add, {"left": form, "right": form, "distinct": True}),
            (points.double, {"given": form}),
        ]
        calls += [
            (points.from_edwards, {"given": point}),
            (points.to_edwards, {"given": form, "nonzero": True}),
        ]
    else:
        calls += [
            (points.negate, {"given": point}), (points.assert_on_curve, {"given": point}),
            (points.assert_equal, {"left": point, "right": point}),
            (points.constant, {"point": CURVE.generator}),
            (points.assert_not_small_order, {"given": point}),
        ]  # fmt: skip
    for call, right in calls:
        flags = {name: ("true",) for name, value in right.items() if value is True}
        yield f"{kind}.{call.__name__}", Row(call, right, flags)
