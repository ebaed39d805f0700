"""The steps of a witness computation, as tracing records them.

A step computes one or more wires from inputs and wires of earlier steps. A wire that a constraint
determines is solved from that constraint, so no formula is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.r1cs.signal import Signal

HintFunction = Callable[..., "int | Sequence[int]"]


class Input:
    """A named input.

    wires: the input's wires.
    bits: whether the wires are the bits of one number, least first.
    single: whether the input is one number instead of a list.
    public: whether the verifier knows the input.
    kind: the form of the input's value: "field" (a number), "list" (numbers), "bits" (a number),
        "bytes" (whose bits, least first, are the wires), or "point" (two coordinates).
    """

    __slots__ = ("bits", "kind", "name", "public", "single", "wires")

    def __init__(
        self, name: str, wires: list[int], *, bits: bool, single: bool, public: bool,
        kind: str = "",
    ) -> None:  # fmt: skip
        self.name, self.wires, self.bits = name, wires, bits
        self.single, self.public = single, public
        self.kind = kind or ("bits" if bits else "field" if single else "list")

    @property
    def has_elements(self) -> bool:
        """True if each wire has an index: those of the numbers of a list, and those of bits."""
        return self.bits or not self.single


class Solve:
    """A step that solves a row for a wire, which occurs in A, B or C (`side` 0, 1 or 2)."""

    __slots__ = ("row", "side", "wire")

    def __init__(self, wire: int, row: int, side: int) -> None:
        self.wire, self.row, self.side = wire, row, side


class Bit:
    """A step that computes bit `position` of a signal's residue in [0, prime)."""

    __slots__ = ("position", "signal", "wire")

    def __init__(self, wire: int, signal: Signal, position: int) -> None:
        self.wire, self.signal, self.position = wire, signal, position


class InverseOrZero:
    """A step that computes the inverse of a signal, or 0 if the signal is 0."""

    __slots__ = ("signal", "wire")

    def __init__(self, wire: int, signal: Signal) -> None:
        self.wire, self.signal = wire, signal


class Hint:
    """A step in which a Python function computes wires from the values of signals."""

    __slots__ = ("arguments", "function", "wires")

    def __init__(
        self, wires: list[int], function: HintFunction, arguments: tuple[Signal, ...]
    ) -> None:
        self.wires, self.function, self.arguments = wires, function, arguments


Step = Solve | Bit | InverseOrZero | Hint


def wires_of(step: Step) -> list[int]:
    """Return the wires that a step computes."""
    return step.wires if isinstance(step, Hint) else [step.wire]
