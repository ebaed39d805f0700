"""Field elements as kernel parameters, passed by value at each launch."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Composite, Value


@frozen
class ElementOf(Composite):
    """Annotation of a kernel parameter that is an element of a field.

        Challenge = Annotated[Element, ElementOf(FR)]

        @kernel
        def scale(k: Builder, n: U32, r: Challenge, x: Pointer[U64]) -> None: ...

    A launch passes an int from 0 to p - 1, or for an extension a sequence of one int a coefficient;
    the kernel receives the element.

    field: the field, or the name of the static parameter that is the field: ``ElementOf("spec")``.
    """

    field: FieldSpec | str

    def __str__(self) -> str:
        return self.field if isinstance(self.field, str) else self.field.name

    @property
    def _spec(self) -> FieldSpec:
        assert not isinstance(self.field, str)
        return self.field

    def resolved(self, static: Mapping[str, Any]) -> ElementOf:
        field = static.get(self.field) if isinstance(self.field, str) else self.field
        if not isinstance(field, FieldSpec):
            wanted = f"the static parameter {self.field}" if isinstance(self.field, str) else "what"
            raise ValueError(
                f"is an element of the field that {wanted} is, and that is {field!r}; give a "
                "Modulus or an Extension"
            )
        return self if field is self.field else ElementOf(field)

    @property
    def slots(self) -> dict[str, Type]:
        """The types of the words of an element in memory, by number."""
        spec = self._spec
        words = spec.modulus.words
        each = (types.u32,) if words == 1 else (types.u64,) * (words // 2)
        return {str(number): type_ for number, type_ in enumerate(each * spec.degree)}

    def split(self, argument: object) -> tuple[int, ...]:
        spec = self._spec
        modulus = spec.modulus
        if spec.degree == 1:
            coefficients: Sequence[object] = (argument,)
        elif isinstance(argument, Sequence) and len(argument) == spec.degree:
            coefficients = argument
        else:
            raise ValueError(
                f"is an element of {self}: {spec.degree} ints, one a coefficient, not {argument!r}"
            )
        bits = 32 if modulus.words == 1 else 64
        words = []
        for coefficient in coefficients:
            stored = modulus.to_montgomery(self._checked(coefficient))
            count = 32 * modulus.words // bits
            words += [stored >> (bits * at) & ((1 << bits) - 1) for at in range(count)]
        return tuple(words)

    def _checked(self, number: object) -> int:
        modulus = self._spec.modulus
        try:
            value = -1 if isinstance(number, bool) else operator.index(number)  # type: ignore[arg-type]
        except TypeError:
            value = -1
        if not 0 <= value < modulus.value:
            raise ValueError(
                f"is an element of {self}, an int from 0 to the modulus less one, not {number!r}"
            )
        return value

    def joined(self, k: Any, numbers: Sequence[Value]) -> Any:
        return field_arithmetic(k, self._spec).from_words(numbers)
