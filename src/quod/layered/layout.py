"""Inputs of a finished program by name, and checks of its assertions on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from quod.errors import InputError
from quod.field.array import Words, from_integers
from quod.layered.circuit import LayeredCircuit
from quod.layered.evaluation import MAX_VALUES, Evaluation
from quod.layered.nodes import Assertion, Lookup, Node
from quod.layered.row_index import number_type
from quod.names import unknown_name
from quod.validation import shown, shown_kind, whole_number

Names = dict[str, tuple[int, int | None]]
"""The first index and the count of a name's values; the count is None for a single value."""

MAX_INSTANCES = 1 << 26


class Layout:
    """A finished program: its `circuit`, and the names of its inputs and assertions."""

    circuit: LayeredCircuit

    def __init__(
        self, circuit: LayeredCircuit, nodes: list[Node], assertions: list[Assertion | Lookup],
        names: Names, public_names: Names,
    ) -> None:  # fmt: skip
        self.circuit = circuit
        self._nodes, self._assertions = nodes, assertions
        self._names, self._public_names = names, public_names

    @property
    def names(self) -> list[str]:
        """The names of the private inputs, in order; advice has no names."""
        return list(self._names)

    @property
    def public_names(self) -> list[str]:
        """The names of the public inputs, in order."""
        return list(self._public_names)

    @property
    def assertions(self) -> list[str]:
        """The names of the assertions and lookups, in order."""
        return [assertion.name for assertion in self._assertions]

    @overload
    def inputs(self, values: Mapping[str, Any], *, check: bool = True) -> list[int]: ...
    @overload
    def inputs(self, values: Mapping[str, Any], *, instances: int, check: bool = True) -> Words: ...
    def inputs(
        self, values: Mapping[str, Any], *, instances: int | None = None, check: bool = True
    ) -> list[int] | Words:
        """Compute the circuit's inputs, including advice, from values by name.

        values: for each private and public name an int, or a list of the name's length, reduced
            modulo p; with `instances`, arrays with a leading axis of instances.
        Returns the inputs of one instance or, with `instances`, an array of elements (instances,
        inputs, words) as `quod.field.from_integers` returns.

        MismatchError names the first assertion that fails, unless `check` is False; InputError for
        wrong names and shapes.
        """
        count = self._instances(instances)
        self._check_names(values)
        private = self._columns(values, self._names, instances)
        public = self._columns(values, self._public_names, instances)
        length = 1 << self.circuit.log_inputs
        if instances is None:
            return [int(value) for value in self._run(private, public, check, 0)]
        step = max(1, MAX_VALUES // max(1, len(self._nodes)))
        dtype = number_type(self.circuit.field)
        table = np.zeros((count, length), dtype)
        for first in range(0, count, step):
            batch = slice(first, first + step)
            batch_columns = [[column[batch] for column in columns] for columns in (private, public)]
            for input_index, value in enumerate(
                self._run(batch_columns[0], batch_columns[1], check, first)
            ):
                table[batch, input_index] = value
        return self._elements(table)

    @overload
    def public(self, values: Mapping[str, Any]) -> list[int]: ...
    @overload
    def public(self, values: Mapping[str, Any], *, instances: int) -> list[list[int]]: ...
    def public(
        self, values: Mapping[str, Any], *, instances: int | None = None
    ) -> list[int] | list[list[int]]:
        """Return the public inputs from values by name; values of private names are ignored.

        With `instances`, returns a list for each instance.
        """
        count = self._instances(instances)
        self._check_names(values)
        columns = self._columns(values, self._public_names, instances)
        if instances is None:
            return columns
        rows: list[list[int]] = [[] for _ in range(count)]
        for column in columns:
            for row, value in zip(rows, column.tolist(), strict=True):
                row.append(value)
        return rows

    def _run(self, private: list[Any], public: list[Any], check: bool, first: int) -> list[Any]:
        """Return the inputs, including advice and padding.

        first: the index of the first instance, for messages.
        """
        length = 1 << self.circuit.log_inputs
        input_values: list[Any] = [None] * length
        column = iter(private)
        for start, count in self._names.values():
            for index in range(1 if count is None else count):
                input_values[start + index] = next(column)
        run = Evaluation(self.circuit.field, self._nodes, input_values, public)
        run.run(
            {assertion.node for assertion in self._assertions if isinstance(assertion, Assertion)}
            if check
            else set()
        )
        if check:
            run.check(self._assertions, first)
        return [0 if value is None else value for value in run.inputs]

    def _instances(self, instances: int | None) -> int:
        if instances is None:
            return 1
        return whole_number("the instances", instances, 1, MAX_INSTANCES)

    def _check_names(self, values: Mapping[str, Any]) -> None:
        mapping: object = values
        if not isinstance(mapping, Mapping):
            raise InputError(
                f"the inputs must be a mapping from names to values, not {shown_kind(mapping)}"
            )
        names = [*self._names, *self._public_names]
        for name in values:
            if name not in names:
                raise unknown_name("the program", "an input", name, names)

    def _columns(self, values: Mapping[str, Any], names: Names, instances: int | None) -> list[Any]:
        """Return the values of the named inputs, each an int below p or an array (instances,)."""
        columns: list[Any] = []
        for name, (_, count) in names.items():
            if name not in values:
                raise InputError(f"the input {name!r} is missing")
            shape = tuple(length for length in (instances, count) if length is not None)
            table = self._table(name, values[name], shape)
            if count is None:
                columns.append(table if instances is not None else table.item())
            elif instances is None:
                columns += table.tolist()
            else:
                columns += [table[:, index] for index in range(count)]
        return columns

    def _table(self, name: str, values: object, shape: tuple[int, ...]) -> Any:
        """Return a name's values as an array of elements; InputError for a wrong shape or type."""
        what = f"the input {name!r}"
        expected = f"of the shape {shape}" if shape else "one int"
        if isinstance(values, np.ndarray):
            if (
                values.shape != shape
                or values.dtype.kind not in "iu"
                or type(values) is not np.ndarray
            ):
                raise InputError(
                    f"{what} must be {expected}, of integers, not {values.dtype} {values.shape}"
                )
            table = values.astype(object)
        else:
            table = np.empty(shape, object)
            _fill(table, values, what, expected)
        reduced = table % self.circuit.field.value
        return np.asarray(reduced, object).astype(number_type(self.circuit.field))

    def _elements(self, table: Any) -> Words:
        field = self.circuit.field
        if table.dtype == object:
            return from_integers(field, table.reshape(-1).tolist()).reshape(*table.shape, -1)
        stored = table * (field.montgomery_radix % field.value) % field.value
        return np.asarray(stored, np.uint32)[..., None]


def _fill(table: Any, values: object, what: str, expected: str) -> None:
    """Copy nested lists of int into an array of their shape."""
    if not table.shape:
        table[()] = _integer(values, what, expected)
        return
    if not isinstance(values, (list, tuple)) or len(values) != len(table):
        size = f"{len(values)}" if isinstance(values, (list, tuple)) else shown_kind(values)
        raise InputError(f"{what} must be {expected}, not {size}")
    if table.ndim == 1:
        table[:] = [_integer(value, what, expected) for value in values]
        return
    for row, value in zip(table, values, strict=True):
        _fill(row, value, what, expected)


def _integer(value: object, what: str, expected: str) -> int:
    if type(value) is int:
        return value
    try:
        return whole_number(what, value)
    except InputError:
        raise InputError(f"{what} must be {expected}, not {shown(value)}") from None
