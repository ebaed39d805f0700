"""Field elements as kernel parameters, passed by value at each launch."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from quod.field.any_field import field_arithmetic
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

    A launch passes an int from 0 to p - 1, or for an extension a sequence with one such int per
    coefficient. The kernel receives the element.

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
            field_source = (
                f"static parameter {self.field}" if isinstance(self.field, str) else "field"
            )
            raise ValueError(
                f"is a field element, but its {field_source} is {field!r}; give a Modulus or an "
                "Extension"
            )
        return self if field is self.field else ElementOf(field)

    @property
    def slots(self) -> dict[str, Type]:
        """The type of each word of an element in memory, by its index as text."""
        spec = self._spec
        words = spec.modulus.words
        coefficient_types = (types.u32,) if words == 1 else (types.u64,) * (words // 2)
        return {str(index): type_ for index, type_ in enumerate(coefficient_types * spec.degree)}

    def split(self, argument: object) -> tuple[int, ...]:
        spec = self._spec
        modulus = spec.modulus
        if spec.degree == 1:
            coefficients: Sequence[object] = (argument,)
        elif isinstance(argument, Sequence) and len(argument) == spec.degree:
            coefficients = argument
        else:
            raise ValueError(
                f"is an element of {self}: {spec.degree} ints, one per coefficient, not "
                f"{argument!r}"
            )
        bits = 32 if modulus.words == 1 else 64
        words = []
        for coefficient in coefficients:
            stored = modulus.to_montgomery(self._check_coefficient(coefficient))
            count = 32 * modulus.words // bits
            words += [
                stored >> (bits * word_index) & ((1 << bits) - 1) for word_index in range(count)
            ]
        return tuple(words)

    def _check_coefficient(self, number: object) -> int:
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
