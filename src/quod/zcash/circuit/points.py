"""Points of Jubjub in a circuit, with the constraints of Zcash's `sapling-crypto`.

Points are affine: (u, v) with -u² + v² = 1 + d·u²·v² in Edwards form, and (x, y) in Montgomery
form. Coordinates are signals; in Montgomery form they may be linear combinations of wires.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.named.jubjub import JUBJUB
from quod.r1cs.bits import strict_bits
from quod.r1cs.gadgets.bellman.booleans import Boolean, scaled
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem

_D = JUBJUB.d % JUBJUB.fq.value
_MONTGOMERY = JUBJUB.montgomery


class EdwardsPoint:
    """A point (u, v), whose coordinates are signals of `system`."""

    __slots__ = ("system", "u", "v")

    def __init__(self, system: ConstraintSystem, u: Signal, v: Signal) -> None:
        self.system, self.u, self.v = system, u, v

    @classmethod
    def of_input(cls, system: ConstraintSystem, name: str) -> EdwardsPoint:
        """Return a private input (u, v), constrained to the curve; 4 constraints."""
        u, v = system.private_point(name)
        uu, vv = system.multiply(u, u), system.multiply(v, v)
        uuvv = system.multiply(uu, vv)
        system.enforce(vv - uu, system.one, uuvv * _D + 1)
        return cls(system, u, v)

    def add(self, other: EdwardsPoint) -> EdwardsPoint:
        """Return the sum; 6 constraints."""
        system = self.system
        cross = system.multiply(self.u + self.v, other.u + other.v)
        a = system.multiply(other.v, self.u)
        b = system.multiply(other.u, self.v)
        c = system.multiply(a.scaled(_D), b)
        u = system.wire()
        system.enforce(c + 1, u, a + b)
        v = system.wire()
        system.enforce(1 - c, v, cross - a - b)
        return EdwardsPoint(system, u, v)

    def double(self) -> EdwardsPoint:
        """Return twice the point; 5 constraints."""
        system = self.system
        total = self.u + self.v
        square = system.multiply(total, total)
        a = system.multiply(self.u, self.v)
        c = system.multiply(a.scaled(_D), a)
        u = system.wire()
        system.enforce(c + 1, u, 2 * a)
        v = system.wire()
        system.enforce(1 - c, v, square - 2 * a)
        return EdwardsPoint(system, u, v)

    def chosen(self, bit: Boolean) -> EdwardsPoint:
        """Return the point if the bit is 1, else the neutral point (0, 1); 2 constraints."""
        system = self.system
        factor = scaled(system, bit, 1)
        u, v = system.wire(), system.wire()
        system.enforce(self.u, factor, u)
        system.enforce(self.v, factor, v - 1 + factor)
        return EdwardsPoint(system, u, v)

    def times(self, bits: Sequence[Boolean]) -> EdwardsPoint:
        """Multiply by a number, given by its bits, least significant first.

        Adds 2 constraints for the first bit and 13 for each other bit.
        """
        base, result = self, None
        for index, bit in enumerate(bits):
            if index:
                base = base.double()
            addend = base.chosen(bit)
            result = addend if result is None else result.add(addend)
        assert result is not None
        return result

    def eightfold(self) -> EdwardsPoint:
        """Return eight times the point, constrained not to be neutral; 16 constraints.

        The last constraint is that its u has an inverse.
        """
        system = self.system
        with system.namespace("doublings"):
            multiple = self.double().double().double()
        inverse = system.wire()
        system.enforce(multiple.u, inverse, system.one)
        return multiple

    def encoded(self) -> list[Signal]:
        """Return the encoding's 256 bits: all bits of v, then the lowest of u; 776 constraints."""
        system = self.system
        with system.namespace("u"):
            u = strict_bits(system, self.u)
        with system.namespace("v"):
            v = strict_bits(system, self.v)
        return [*v, u[0]]

    def output(self, name: str) -> None:
        """Make both coordinates public."""
        self.system.output(f"{name}.u", self.u)
        self.system.output(f"{name}.v", self.v)


class MontgomeryPoint:
    """A point (x, y) in Montgomery form, neither at infinity nor of order two."""

    __slots__ = ("system", "x", "y")

    def __init__(self, system: ConstraintSystem, x: Signal, y: Signal) -> None:
        self.system, self.x, self.y = system, x, y

    def add(self, other: MontgomeryPoint) -> MontgomeryPoint:
        """Return the sum; 3 constraints. The caller must ensure that the x-coordinates differ."""
        system = self.system
        slope = system.wire()
        system.enforce(other.x - self.x, slope, other.y - self.y)
        x = system.wire()
        system.enforce(slope, slope, self.x + other.x + x + _MONTGOMERY.a)
        y = system.wire()
        system.enforce(self.x - x, slope, y + self.y)
        return MontgomeryPoint(system, x, y)

    def to_edwards(self) -> EdwardsPoint:
        """Convert the point to Edwards form; 2 constraints."""
        system = self.system
        u = system.wire()
        system.enforce(self.y, u, self.x.scaled(SCALE))
        v = system.wire()
        system.enforce(self.x + 1, v, self.x - 1)
        return EdwardsPoint(system, u, v)


SCALE = 0x2762DE61E862645E31DE341E77D764E5CE4069703DA88ABD8F4535F7CF82B8D9
"""The square root of 4/(a - d) by which u = SCALE·x/y."""
