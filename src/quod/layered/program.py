"""Programs of wires, which become layered circuits.

A sub-circuit is a function from wires to wires, with a scope for the names of its assertions. A
program describes one instance; the prover proves many instances of it (`instances`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, TypeVar

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.layered.circuit import MAX_PUBLIC, MAX_RANDOMS, Coefficient, Public, Random
from quod.layered.folding import folded
from quod.layered.layering import Levels, layers_of
from quod.layered.layout import Layout
from quod.layered.lookups import sums_of
from quod.layered.nodes import (
    Advice,
    AdviceFunction,
    Assertion,
    ConstantNode,
    InputNode,
    Lookup,
    Node,
)
from quod.layered.table import Table
from quod.layered.wire import Product, Terms, Wire, weighted_sum, wire_of
from quod.validation import shown_kind, whole_number

T = TypeVar("T")

MAX_INPUTS = 1 << 26
_Term = tuple[Product, int]
# Iterables that are not lists of wires.
_NO_LIST = (Set, Mapping, str, bytes, bytearray, Wire)


class Program:
    """A program over a prime field: wires, and assertions about them."""

    def __init__(self, field: Modulus) -> None:
        self.field = field
        self._nodes: list[Node] = []
        # The values that depend on a challenge; advice cannot depend on them.
        self._late: set[int] = set()
        self._sums: dict[_Term | frozenset[_Term], int] = {}
        self._assertions: list[Assertion | Lookup] = []
        self._tables: dict[int, Table] = {}
        self._scopes: list[str] = []
        self._names: dict[str, tuple[int, int | None]] = {}
        self._public_names: dict[str, tuple[int, int | None]] = {}
        self._inputs = self._public = self._randoms = 0

    def input(self, name: str) -> Wire:
        """Declare a private input, whose value `Layout.inputs` takes by this name."""
        return self._input_wires(name, None)[0]

    def inputs(self, name: str, count: int) -> list[Wire]:
        """Declare a list of private inputs under one name."""
        return self._input_wires(name, whole_number("the count of inputs", count, 1, MAX_INPUTS))

    def public_input(self, name: str, *, shared: bool = False) -> Wire:
        """Declare a public input; a `shared` one is equal in all instances and a cheap factor."""
        return self._public_wires(name, None, shared)[0]

    def public_inputs(self, name: str, count: int, *, shared: bool = False) -> list[Wire]:
        """Declare a list of public inputs under one name."""
        count = whole_number("the count of public inputs", count, 1, MAX_PUBLIC)
        return self._public_wires(name, count, shared)

    def random(self) -> Wire:
        """Return a challenge, drawn after all inputs are committed to; equal in all instances.

        Values that depend on a challenge are in the extension field, so layers above cost more.
        """
        whole_number("the random values", self._randoms + 1, 1, MAX_RANDOMS)
        self._randoms += 1
        challenge = self._constant_wire(Random(self._randoms - 1), True)
        self._late.update(*challenge.terms)
        return challenge

    def constant(self, value: int) -> Wire:
        """Return a constant wire."""
        return wire_of(self, whole_number("a constant", value))

    def sum(self, wires: Iterable[Wire | int], weights: Sequence[int] | None = None) -> Wire:
        """Return the sum of wires, times weights if given; fast for many wires."""
        iterable: object = wires
        if isinstance(iterable, _NO_LIST) or not isinstance(iterable, Iterable):
            raise InputError(f"the wires of a sum must be a list, not {shown_kind(iterable)}")
        wires = list(wires)
        if weights is not None:
            if not isinstance(weights, (list, tuple)) or len(weights) != len(wires):
                raise InputError(f"{len(wires)} wires need a list of {len(wires)} weights")
            weights = [whole_number("a weight", weight) for weight in weights]
        return weighted_sum(self, wires, weights)

    def advice(
        self, function: AdviceFunction, wires: Sequence[Wire | int], count: int
    ) -> list[Wire]:
        """Return private inputs that `function` computes from the values of wires.

        function: takes an int per wire or, for a batch of instances, an array of ints per wire;
            returns a list of `count` such values, which are reduced modulo p.
        Nothing is asserted about the values: a prover may choose others, so the circuit must check
        them. InputError for wires that depend on a challenge, as inputs are fixed before it is
        drawn.
        """
        arguments = [wire_of(self, wire).terms for wire in _listed("the wires of advice", wires)]
        self._check_early("advice", arguments)
        count = whole_number("the count of advice", count, 1, MAX_INPUTS)
        scope = "/".join(self._scopes)
        return self._new_inputs(count, Advice(function, arguments, len(self._nodes), count, scope))

    def committed(self, wires: Sequence[Wire | int]) -> list[Wire]:
        """Return advice inputs with the same values, asserted to be equal to the wires.

        Users of the inputs start at the lowest layer. One more input per value thus makes a deep
        circuit shallow.
        """
        wires = [wire_of(self, wire) for wire in _listed("the wires", wires)]
        inputs = self.advice(_same, wires, len(wires)) if wires else []
        self.assert_equal(inputs, wires, "committed")
        return inputs

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix the names of assertions in the body with `name/`."""
        self._scopes.append(_name("the name of a scope", name))
        try:
            yield
        finally:
            self._scopes.pop()

    def map_rows(self, name: str, function: Callable[..., T], *columns: Sequence[Any]) -> list[T]:
        """Call a sub-circuit for each row of columns of equal length, in scopes name[0], ..."""
        _name("the name of a scope", name)
        if not callable(function):
            raise InputError(f"a sub-circuit must be a function, not {shown_kind(function)}")
        lists = [_listed("a column", column) for column in columns]
        if len({len(column) for column in lists}) != 1:
            raise InputError("the columns of a repeated sub-circuit must be lists of equal length")
        results = []
        for number, row in enumerate(zip(*lists, strict=True)):
            with self.scope(f"{name}[{number}]"):
                results.append(function(*row))
        return results

    def assert_zero(self, value: Wire | int, name: str) -> None:
        """Assert that a value is 0; InputError for a nonzero constant."""
        self.assert_equal(value, 0, name)

    def assert_equal(
        self, left: Wire | int | Sequence[Wire | int], right: Wire | int | Sequence[Wire | int],
        name: str,
    ) -> None:  # fmt: skip
        """Assert that two values are equal, or two lists of values entry by entry."""
        _name("the name of an assertion", name)
        if isinstance(left, (list, tuple)) or isinstance(right, (list, tuple)):
            lists = _listed("what is compared", left), _listed("what is compared", right)
            if len(lists[0]) != len(lists[1]):
                raise InputError(
                    f"lists of {len(lists[0])} and {len(lists[1])} values cannot be equal"
                )
            for number, (left_wire, right_wire) in enumerate(zip(*lists, strict=True)):
                self.assert_equal(left_wire, right_wire, f"{name}[{number}]")
            return
        full_name = "/".join([*self._scopes, name])
        left_wire, right_wire = wire_of(self, left), wire_of(self, right)
        terms = (left_wire - right_wire).terms
        if not terms:
            return
        if not terms.keys() - {()}:
            raise InputError(f"assertion {full_name} never holds: the difference is {terms[()]}")
        self._assertions.append(
            Assertion(
                full_name, self._sum(self._with_sign(terms)), left_wire.terms, right_wire.terms
            )
        )

    def assert_in_table(self, row: Sequence[Wire | int], table: Table, name: str) -> None:
        """Assert that values are a row of a table; all lookups in a table share its cost.

        InputError for a row that is not as wide as the table, and for values or a table that
        depend on a challenge, as lookups are counted before it is drawn.
        """
        _name("the name of an assertion", name)
        table.check(self)
        wires = [wire_of(self, wire) for wire in _listed("a row", row)]
        if len(wires) != table.width:
            raise InputError(
                f"{len(wires)} values are given for a row of a table of {table.width} columns"
            )
        terms = [wire.terms for wire in wires]
        self._check_early("a lookup", terms)
        if id(table) not in self._tables:
            self._check_early("a table", [wire.terms for wire in table.wires])
            self._tables[id(table)] = table
        self._assertions.append(Lookup("/".join([*self._scopes, name]), terms, table))

    def finished(self) -> Layout:
        """Return the layered circuit of all assertions so far, with the names of its inputs."""
        if not self._assertions:
            raise InputError("the program asserts nothing; add assert_zero or assert_equal")
        zero_nodes = [
            assertion.node for assertion in self._assertions if isinstance(assertion, Assertion)
        ]
        full_program, outputs = self, list(dict.fromkeys(zero_nodes))
        lookups = [assertion for assertion in self._assertions if isinstance(assertion, Lookup)]
        if lookups or self._late:
            # Sums of lookups belong to this circuit only, because the program may get more lookups.
            full_program = self._copied()
            sums = sums_of(full_program, lookups, Levels(full_program._nodes)) if lookups else []
            outputs += [full_program.value_of(wire.terms) for wire in sums]
            outputs = folded(full_program, full_program._nodes, full_program._late, outputs)
        nodes = full_program._nodes
        circuit = layers_of(self.field, nodes, outputs, max(full_program._inputs, 1), self._public)
        return Layout(
            circuit, list(nodes), list(self._assertions), dict(self._names),
            dict(self._public_names),
        )  # fmt: skip

    def _copied(self) -> Program:
        """Return an independent copy of the program."""
        program = Program(self.field)
        for name, value in vars(self).items():
            setattr(program, name, value.copy() if isinstance(value, (list, dict, set)) else value)
        return program

    def _check_early(self, what: str, sums: Sequence[Terms]) -> None:
        if not self._late.isdisjoint(
            index for terms in sums for product in terms for index in product
        ):
            raise InputError(
                f"{what} depends on a challenge, which is drawn after all inputs are fixed"
            )

    def value_of(self, terms: Terms) -> int:
        """Return the index of the value that equals a sum; adds the value if it is new."""
        if len(terms) == 1:
            ((product, coefficient),) = terms.items()
            if len(product) == 1 and coefficient == 1:
                return product[0]
        return self._sum(terms)

    def _sum(self, terms: Terms) -> int:
        """Return the index of the value that is this sum of gates; equal sums share one value."""
        items = terms.items()
        # A frozenset of one item would take as much memory as the value itself.
        key = next(iter(items)) if len(items) == 1 else frozenset(items)
        index = self._sums.setdefault(key, len(self._nodes))
        if index == len(self._nodes):
            self._nodes.append(terms)
            if self._late and not self._late.isdisjoint(
                index for product in terms for index in product
            ):
                self._late.add(index)
        return index

    def _with_sign(self, terms: Terms) -> Terms:
        """Return an asserted sum or its negative, so that coefficients need no sign.

        Public inputs and challenges as coefficients of gates cannot be negated.
        """
        p, positive, negative = self.field.value, 0, 0
        for product, coefficient in terms.items():
            if any(isinstance(self._nodes[number], ConstantNode) for number in product):
                positive += coefficient == 1
                negative += coefficient == p - 1
        if negative > positive:
            return {key: p - value for key, value in terms.items()}
        return terms

    def _input_wires(self, name: str, count: int | None) -> list[Wire]:
        self._new_name(name)
        self._names[name] = self._inputs, count
        return self._new_inputs(1 if count is None else count, None)

    def _new_inputs(self, count: int, advice: Advice | None) -> list[Wire]:
        whole_number("the inputs of a program", self._inputs + count, 1, MAX_INPUTS)
        first = len(self._nodes)
        self._nodes += [InputNode(self._inputs + index, advice) for index in range(count)]
        self._inputs += count
        return [Wire(self, {(first + index,): 1}) for index in range(count)]

    def _public_wires(self, name: str, count: int | None, shared: bool) -> list[Wire]:
        self._new_name(name)
        self._public_names[name] = self._public, count
        length = 1 if count is None else count
        whole_number("the public inputs", self._public + length, 1, MAX_PUBLIC)
        self._public += length
        first = self._public - length
        return [self._constant_wire(Public(first + index), shared) for index in range(length)]

    def _constant_wire(self, coefficient: Coefficient, multiplies: bool) -> Wire:
        self._nodes.append(ConstantNode(coefficient, multiplies))
        return Wire(self, {(len(self._nodes) - 1,): 1})

    def _new_name(self, name: str) -> None:
        _name("the name of an input", name)
        if name in self._names or name in self._public_names:
            raise InputError(f"two inputs have the name {name!r}; choose another name")


def _same(*values: Any) -> list[Any]:
    return list(values)


def _listed(what: str, value: object) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{what} must be a list, not {shown_kind(value)}")
    return list(value)


def _name(what: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InputError(f"{what} must be text, not {shown_kind(name)}")
    return name
