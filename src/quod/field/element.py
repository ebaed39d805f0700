"""Field elements inside kernels, with proven bounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, cast

from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.kernel.builder.structure import Rebuild, Unknown
from quod.kernel.errors import TraceError, an
from quod.kernel.ir.value import Value

_MAX_FACTOR_BY_ADDITIONS = 16
"""The largest constant factor whose product is computed by additions."""


class FieldIdentity(NamedTuple):
    """The identity of a field in a kernel.

    strategy: the class of its arithmetic.
    name: the name of the modulus; different moduli may have the same name.
    form: further parameters of the strategy.
    """

    strategy: type[object]
    name: str
    modulus: int
    form: Hashable = None


class ElementKey(NamedTuple):
    """The static properties of an element, which regions and functions must agree on."""

    field: FieldIdentity
    bound: int
    maxima: tuple[int, ...]
    exponent: int

    def __str__(self) -> str:
        multiple = self.bound / self.field.modulus
        limit = f"{multiple:.3g}p" if multiple < 1000 else f"2^{self.bound.bit_length()}"
        return (
            f"an element of {self.field.name} below {limit} with limbs to {max(self.maxima):#x}, "
            f"Montgomery factor 2^{self.exponent}"
        )

    def same_but_for_bounds(self, other: object) -> bool:
        """Return whether the elements differ at most in their bounds."""
        return (
            isinstance(other, ElementKey)
            and self.field == other.field
            and self.exponent == other.exponent
        )


class AnyElement(Unknown):
    """The operators of elements; others raise a TraceError that says what to write instead.

    The base class `Unknown` is that of values which are unknown while a kernel is traced; it makes
    their use as Python values, such as in `if`, an error.

    operand_hint: the text that names the operands of a sum or product, for messages.
    """

    __slots__ = ()
    operand_hint: ClassVar[str]

    # Not an ABC: its metaclass would slow down every isinstance while kernels are traced. Type
    # checkers still check the abstract methods.
    @abstractmethod
    def _kind(self) -> str:
        """Describe the element for messages."""

    def _reject_operand(self, other: object) -> NoReturn:
        raise TraceError(
            f"{an(type(other).__name__)} cannot be combined with {self._kind()}; write "
            f"{self.operand_hint}"
        )

    @abstractmethod
    def _get_field(self) -> Any:
        """Return the element's field: an `ElementField`, or an `ExtensionField` for extensions."""

    @abstractmethod
    def _convert_operand(self, other: Any) -> Self:
        """Convert the other operand of a sum, an int or an element; raise TraceError for others."""

    def _times(self, factor: Any) -> Self:
        """Return the product with an int or an element; small int factors take additions."""
        field = self._get_field()
        if type(factor) is not int:
            factor = self._convert_operand(factor)
        elif abs(factor) <= _MAX_FACTOR_BY_ADDITIONS:
            return cast("Self", field.times(self, factor))
        else:
            factor = field.constant(factor)
        return cast("Self", field.multiply(self, factor))

    def __add__(self, other: Self | int) -> Self:
        result: Self = self._get_field().add(self, self._convert_operand(other))
        return result

    def __sub__(self, other: Self | int) -> Self:
        result: Self = self._get_field().subtract(self, self._convert_operand(other))
        return result

    def __mul__(self, other: Self | int) -> Self:
        return self._times(other)

    def __neg__(self) -> Self:
        result: Self = self._get_field().negate(self)
        return result

    def __radd__(self, other: int) -> Self:
        return cast("Self", self._get_field().add(self, self._convert_operand(other)))

    def __rsub__(self, other: int) -> Self:
        return cast("Self", self._get_field().subtract(self._convert_operand(other), self))

    def __rmul__(self, other: int) -> Self:
        return self._times(other)

    def __truediv__(self, other: Self | int) -> Self:
        """Multiply by the inverse, which is 0 for 0."""
        field = self._get_field()
        if type(other) is not int:
            return self._times(field.inverse(self._convert_operand(other)))
        if other % field.modulus.value == 0:
            raise TraceError(f"{self._kind()} is divided by {other}, which is 0 in the field")
        return self._times(pow(other, -1, field.modulus.value))

    def __rtruediv__(self, other: int) -> Self:
        """Multiply by the inverse, which is 0 for 0."""
        return cast("Self", self._get_field().inverse(self)._times(other))

    def __pow__(self, exponent: object) -> NoReturn:
        raise TraceError(f"{self._kind()} has no operator **; write field.power(a, exponent)")


class ElementField(Protocol):
    """The members of `quod.field.prime.PrimeField` that `Element` itself uses, not `AnyElement`."""

    modulus: Modulus
    identity: FieldIdentity
    p: int

    def raw_constant(self, integer: int, exponent: int | None = None) -> Element: ...

    def add(self, a: Element, b: Element) -> Element: ...

    def subtract(self, a: Element, b: Element) -> Element: ...

    def multiply(self, a: Element, b: Element) -> Element: ...

    def negate(self, a: Element) -> Element: ...


@frozen(eq=False)
class Element(AnyElement):
    """A field element as an integer in limbs, not necessarily reduced.

    limbs: the limbs, lowest first.
    bound: exclusive bound of the limbs' integer.
    maxima: the largest value of each limb.
    exponent: the element is the integer times 2**-exponent modulo p.

    The bounds are proven, and are exact integers. They are tracked through every operation while
    the kernel is traced. An operation that could overflow is preceded by a reduction or raises
    TraceError.
    """

    comparison: ClassVar[str] = (
        "write field.equal(a, b) or field.is_zero(a), with `with k.if_(...)` or field.select(...)"
    )

    operand_hint: ClassVar[str] = "an int, or field.load(pointer, index)"

    field: ElementField
    limbs: tuple[Value, ...]
    bound: int
    maxima: tuple[int, ...]
    exponent: int

    def _kind(self) -> str:
        return f"an element of {self.field.modulus.name}"

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        """Return the limbs and the static properties, for loops, branches and functions."""
        field, bound, maxima, exponent = self.field, self.bound, self.maxima, self.exponent

        def rebuild(values: Sequence[Value]) -> Element:
            return Element(field, tuple(values), bound, maxima, exponent)

        return list(self.limbs), ElementKey(field.identity, bound, maxima, exponent), rebuild

    def _get_field(self) -> ElementField:
        return self.field

    def _convert_operand(self, other: Element | int) -> Element:
        if type(other) is int:
            field = self.field
            return field.raw_constant((other << self.exponent) % field.p, self.exponent)
        if not isinstance(other, Element):
            self._reject_operand(other)
        return other
