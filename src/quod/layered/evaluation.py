"""Evaluation of a program's values for one instance or for a batch of instances.

A value of one instance is an int. A value of a batch is an array: int64 if products of field
elements fit into it, else Python integers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.errors import InputError, MismatchError
from quod.field.moduli import Modulus
from quod.layered.circuit import Public
from quod.layered.nodes import Advice, Assertion, ConstantNode, InputNode, Lookup, Node
from quod.layered.row_index import RowIndex, number_type
from quod.layered.wire import Product, Terms
from quod.validation import shown, shown_kind

# Beyond this many values in memory, instances are computed in parts.
MAX_VALUES = 1 << 24
# The sum of two int64 values up to this bound does not wrap around.
_MAX_PART = 1 << 62


class Evaluation:
    """The values of one run: ints, or arrays with an entry per instance."""

    def __init__(
        self, field: Modulus, nodes: list[Node], inputs: list[Any], public: list[Any]
    ) -> None:
        """Begin a run; `inputs` has None for advice, which `run` fills in."""
        self._field, self._p, self._nodes = field, field.value, nodes
        self.inputs, self._public = inputs, public
        self._values: dict[int, Any] = {}
        self._powers: dict[Product, Any] = {}
        self._tables: dict[int, RowIndex] = {}

    def run(self, roots: set[int]) -> None:
        """Compute the values of `roots`, all advice, and all values that these depend on."""
        needed, pending = set[int](), list(roots)
        for number, node in enumerate(self._nodes):
            if (
                isinstance(node, InputNode)
                and node.advice is not None
                and node.advice.first == number
            ):
                pending += _argument_values(node.advice)
        while pending:
            number = pending.pop()
            if number not in needed:
                needed.add(number)
                node = self._nodes[number]
                if isinstance(node, dict):
                    pending += {operand for product in node for operand in product}
        for number, node in enumerate(self._nodes):
            if isinstance(node, InputNode):
                if node.advice is not None and self.inputs[node.index] is None:
                    self._advise(node.advice)
                self._values[number] = self.inputs[node.index]
            elif number not in needed:
                continue
            elif isinstance(node, ConstantNode):
                self._values[number] = self._constant_value(node)
            else:
                self._values[number] = self.value(node)

    def value(self, terms: Terms) -> Any:
        """Evaluate a sum of products."""
        p, total, bound = self._p, 0, 0
        for product, coefficient in terms.items():
            product_value = self._evaluate_product(product)
            # Coefficients near p count as small negative numbers. A product is reduced only if the
            # sum would not fit otherwise.
            factor = coefficient if 2 * coefficient < p else coefficient - p
            if abs(factor) * p >= _MAX_PART:
                product_value, factor = product_value * factor % p, 1
            bound += abs(factor) * p
            if bound >= 2 * _MAX_PART:
                total, bound = total % p, (1 + abs(factor)) * p
            total = total + (product_value if factor == 1 else product_value * factor)
        return total % p

    def _evaluate_product(self, product: Product) -> Any:
        """Evaluate a product of values."""
        if len(product) < 2:
            return self._values[product[0]] if product else 1
        if len(product) == 2:
            return self._values[product[0]] * self._values[product[1]] % self._p
        if product not in self._powers:
            # Powers are kept: in a layer of a hash every sum uses the power of every value.
            half = len(product) // 2
            halves = self._evaluate_product(product[:half]), self._evaluate_product(product[half:])
            self._powers[product] = halves[0] * halves[1] % self._p
        return self._powers[product]

    def check(self, assertions: list[Assertion | Lookup], first: int) -> None:
        """Raise MismatchError for the first assertion that fails, with the values compared."""
        for assertion in assertions:
            if isinstance(assertion, Lookup):
                self._check_lookup(assertion, first)
                continue
            value = self._values[assertion.node]
            if not np.any(value):
                continue
            sides = [self.value(terms) for terms in (assertion.left, assertion.right)]
            where = ""
            if isinstance(value, np.ndarray):
                index = int(np.flatnonzero(value)[0])
                where = f" in instance {first + index}"
                sides = [
                    int(side[index]) if isinstance(side, np.ndarray) else side for side in sides
                ]
            raise MismatchError(
                f"the assertion {assertion.name} does not hold{where}: {sides[0]} is not {sides[1]}"
            )

    def _check_lookup(self, lookup: Lookup, first: int) -> None:
        if (key := id(lookup.table)) not in self._tables:
            self._tables[key] = lookup.table.index(self._field, lambda wire: self.value(wire.terms))
        row = [self.value(terms) for terms in lookup.row]
        row_indices = self._tables[key].find(row)
        if -1 not in row_indices:
            return
        index, where = row_indices.index(-1), ""
        if len(row_indices) > 1 or any(isinstance(value, np.ndarray) for value in row):
            where = f" in instance {first + index}"
        values = [int(value[index]) if isinstance(value, np.ndarray) else value for value in row]
        shown_row = values[0] if len(values) == 1 else tuple(values)
        raise MismatchError(
            f"the lookup {lookup.name} does not hold{where}: {shown_row} is not in the table"
        )

    def _constant_value(self, node: ConstantNode) -> Any:
        coefficient = node.coefficient
        if isinstance(coefficient, Public):
            return self._public[coefficient.number]
        # Only for messages, because a proof draws its own challenges.
        return random.SystemRandom().randrange(self._p)

    def _advise(self, advice: Advice) -> None:
        subject = f"the advice in {advice.scope}" if advice.scope else "the advice"
        values: object = advice.function(*map(self.value, advice.arguments))
        if not isinstance(values, (list, tuple)) or len(values) != advice.count:
            raise InputError(
                f"{subject} must be a list of {advice.count} values, not {shown_kind(values)}"
            )
        node = self._nodes[advice.first]
        assert isinstance(node, InputNode)
        for offset, value in enumerate(values):
            if isinstance(value, np.ndarray):
                dtype_kind = value.dtype.kind
                is_integer = dtype_kind in "iu" or (
                    dtype_kind == "O" and all(type(element) is int for element in value)
                )
            else:
                is_integer = type(value) is int
            if not is_integer:
                raise InputError(f"{subject} must be integers; number {offset} is {shown(value)}")
            self.inputs[node.index + offset] = self._reduced(value)

    def _reduced(self, value: Any) -> Any:
        """Reduce a result of advice modulo p, and convert it to the type of other values."""
        if not isinstance(value, np.ndarray):
            return value % self._p
        dtype = number_type(self._field)
        converted = value.astype(dtype if np.can_cast(value.dtype, dtype) else object, copy=False)
        return (converted % self._p).astype(dtype, copy=False)


def _argument_values(advice: Advice) -> Sequence[int]:
    return [number for terms in advice.arguments for product in terms for number in product]
