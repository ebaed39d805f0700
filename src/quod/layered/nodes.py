"""The values of a program by index; operands have smaller indices than results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quod.frozen import frozen
from quod.layered.circuit import Coefficient
from quod.layered.table import Table
from quod.layered.wire import Terms

AdviceFunction = Callable[..., Sequence[Any]]


@frozen(eq=False)
class Advice:
    """Inputs that a function computes: `count` values, whose indices begin at `first`."""

    function: AdviceFunction
    arguments: list[Terms]
    first: int
    count: int
    scope: str


@frozen(eq=False)
class InputNode:
    """An input, by its index."""

    index: int
    advice: Advice | None


@frozen(eq=False)
class ConstantNode:
    """A public input or challenge: a constant gate in each layer that uses it.

    multiplies: whether it may be the coefficient of gates with inputs.
    """

    coefficient: Coefficient
    multiplies: bool


Node = InputNode | ConstantNode | Terms


@frozen(eq=False)
class Assertion:
    """An assertion that two sums are equal.

    name: the name of the assertion.
    node: the value that must be 0, the difference of the sums.
    left, right: the sums, for messages.
    """

    name: str
    node: int
    left: Terms
    right: Terms


@frozen(eq=False)
class Lookup:
    """An assertion that a row of sums is in a table."""

    name: str
    row: list[Terms]
    table: Table


def gates_of(
    constants: dict[int, ConstantNode], terms: Terms
) -> Iterator[tuple[tuple[int, ...], Coefficient]]:
    """Yield the gates of a sum: the values that each gate multiplies, and its coefficient.

    constants: the public inputs and challenges, which may be coefficients.
    """
    for product, coefficient in terms.items():
        if coefficient == 1 and len(product) in (1, 2):
            for position, number in enumerate(product):
                node = constants.get(number)
                # As the only factor it is a constant gate, whether it may multiply or not.
                if node is not None and (len(product) == 1 or node.multiplies):
                    yield product[:position] + product[position + 1 :], node.coefficient
                    break
            else:
                yield product, coefficient
        else:
            yield product, coefficient
