"""Schemas of records, for both encodings of Rust's serde: bincode 1 and JSON.

bincode has little-endian integers, u64 lengths and u32 enum tags; JSON has arrays of numbers for
bytes and ``{"Variant": value}`` for enums. A schema fixes the length of every list, so that a file
cannot announce more values than the proof has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

from quod.errors import InputError
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.node_arrays import NodeArrays
from quod.filecoin.sectors import NODE_BYTES
from quod.formats.strict_json import json_type_of, shown
from quod.frozen import field_names, frozen
from quod.validation import shown_kind

_P = BLS12_381_FR.value
_TOP_BYTE = _P >> 248
_LENGTH_BYTES, _TAG_BYTES = 8, 4


class Position:
    """The position of a reader in a document: the names and indices of the fields around it."""

    def __init__(self, name: str | None, arrays: NodeArrays | None = None) -> None:
        """arrays: resolves strings that stand for lists of 32 bytes in JSON."""
        self._name, self.arrays = name, arrays
        self.fields: list[str | int] = []

    def error(self, message: str, offset: int | None = None) -> InputError:
        """Return an error that names the file, the field and the offset."""
        return InputError(message, path=self._name, section=self._field or None, offset=offset)

    def relocated(self, error: InputError) -> InputError:
        """Return an error that names the file, and the field in front of the error's field."""
        field = ".".join(filter(None, (self._field, error.section)))
        return InputError(
            error.message, path=self._name, section=field or None, offset=error.offset
        )

    @property
    def _field(self) -> str:
        names = (f"[{name}]" if isinstance(name, int) else f".{name}" for name in self.fields)
        return "".join(names).removeprefix(".")

    @contextmanager
    def inside(self, field: str) -> Iterator[None]:
        """Name a field in errors of the block."""
        self.fields.append(field)
        yield
        self.fields.pop()

    def object(self, value: object, keys: Collection[str]) -> Mapping[str, Any]:
        """Return a JSON object that has the keys; other keys must begin with _ and have null."""
        if not isinstance(value, dict):
            raise self.error(f"must be an object, not {json_type_of(value)}")
        for key in keys:
            if key not in value:
                raise self.error(f"lacks the key {shown(key)}")
        for key, entry in value.items():
            if key not in keys and not key.startswith("_"):
                raise self.error(f"has an unknown key {shown(key)}")
            if key not in keys and entry is not None:
                raise self.error(f"has a value for {shown(key)}, which must be null")
        return value


class Bincode(Position):
    """A reader of bincode."""

    def __init__(self, data: bytes, name: str | None = None, offset: int = 0) -> None:
        super().__init__(name)
        self.data, self.offset = data, offset

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        data = self.data[self.offset : self.offset + size]
        if len(data) < size:
            raise self.error(
                f"is cut off: the field needs {size} bytes, and {len(data)} are left", self.offset
            )
        self.offset += size
        return data

    def unsigned(self, size: int) -> int:
        """Return the next integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def end(self) -> None:
        """Raise InputError unless all bytes have been read."""
        excess = len(self.data) - self.offset
        if excess:
            raise self.error(f"has {excess} bytes after its end", self.offset)


class Schema(ABC):
    """The two encodings of one type; errors are InputError."""

    @abstractmethod
    def decode(self, reader: Bincode) -> Any:
        """Read a value from bincode."""

    def decode_items(self, reader: Bincode, count: int) -> tuple[Any, ...]:
        """Read `count` values from bincode."""
        fields, items = reader.fields, []
        fields.append(0)
        for index in range(count):
            fields[-1] = index
            items.append(self.decode(reader))
        fields.pop()
        return tuple(items)

    @abstractmethod
    def encode(self, value: Any, out: bytearray) -> None:
        """Append a value in bincode."""

    @abstractmethod
    def parse(self, value: object, position: Position) -> Any:
        """Return the value of a parsed JSON value."""

    def parse_items(self, values: list[object], position: Position) -> tuple[Any, ...]:
        """Return the values of several parsed JSON values."""
        fields, items = position.fields, []
        fields.append(0)
        for index, value in enumerate(values):
            fields[-1] = index
            items.append(self.parse(value, position))
        fields.pop()
        return tuple(items)

    @abstractmethod
    def unparse(self, value: Any) -> object:
        """Return the JSON value of a value."""

    @abstractmethod
    def check(self, value: object, position: Position) -> None:
        """Raise InputError unless a value, such as a record, could have been read."""

    def check_items(self, values: Sequence[Any], position: Position) -> None:
        """Raise InputError unless each of several values could have been read."""
        fields = position.fields
        fields.append(0)
        for index, value in enumerate(values):
            fields[-1] = index
            self.check(value, position)
        fields.pop()


@frozen
class Unsigned(Schema):
    """An unsigned integer of `size` bytes, below `limit` if there is one."""

    size: int
    limit: int | None = None

    def decode(self, reader: Bincode) -> int:
        offset = reader.offset
        return self._checked(reader.unsigned(self.size), reader, offset)

    def encode(self, value: int, out: bytearray) -> None:
        out += value.to_bytes(self.size, "little")

    def parse(self, value: object, position: Position) -> int:
        if type(value) is not int:
            raise position.error(f"must be a whole number, not {json_type_of(value)}")
        return self._checked(value, position, None)

    def unparse(self, value: int) -> int:
        return value

    def check(self, value: object, position: Position) -> None:
        self.parse(value, position)

    def _checked(self, value: int, position: Position, offset: int | None) -> int:
        limit = 1 << 8 * self.size if self.limit is None else self.limit
        if not 0 <= value < limit:
            raise position.error(f"must be a whole number below {limit}, not {value}", offset)
        return value


@frozen
class Digest(Schema):
    """32 bytes."""

    def decode(self, reader: Bincode) -> bytes:
        return reader.take(NODE_BYTES)

    def encode(self, value: bytes, out: bytearray) -> None:
        out += value

    def parse(self, value: object, position: Position) -> bytes:
        node = position.arrays.node(value) if position.arrays is not None else None
        if node is not None:
            return node
        # bytes() would take true for 1.
        if isinstance(value, list) and len(value) == NODE_BYTES and {*map(type, value)} == {int}:
            try:
                return bytes(value)
            except ValueError:
                pass
        raise position.error(f"must be a list of {NODE_BYTES} bytes")

    def unparse(self, value: bytes) -> list[int]:
        return list(value)

    def check(self, value: object, position: Position) -> None:
        if type(value) is not bytes or len(value) != NODE_BYTES:
            raise position.error(f"must be {NODE_BYTES} bytes")


@frozen
class Node(Digest):
    """A node: a canonical element of BLS12-381's scalar field."""

    def decode(self, reader: Bincode) -> bytes:
        offset = reader.offset
        return self._checked(reader.take(NODE_BYTES), reader, offset)

    def decode_items(self, reader: Bincode, count: int) -> tuple[bytes, ...]:
        # Nodes are nearly all of a file's bytes: their last bytes are checked at once.
        start, stop = reader.offset, reader.offset + NODE_BYTES * count
        data = reader.data[start:stop]
        if len(data) < stop - start or not _are_below_top(data):
            return super().decode_items(reader, count)
        reader.offset = stop
        return _cut(data)

    def parse(self, value: object, position: Position) -> bytes:
        return self._checked(super().parse(value, position), position, None)

    def parse_items(self, values: list[object], position: Position) -> tuple[bytes, ...]:
        nodes = position.arrays.nodes(values) if position.arrays is not None else None
        if nodes is None or not _are_below_top(nodes):
            return super().parse_items(values, position)
        return _cut(nodes)

    def check(self, value: object, position: Position) -> None:
        super().check(value, position)
        self._checked(cast("bytes", value), position, None)

    def check_items(self, values: Sequence[Any], position: Position) -> None:
        # As in decode_items: the last bytes of all nodes are checked at once.
        is_node_sized = {*map(type, values)} == {bytes} and {*map(len, values)} == {NODE_BYTES}
        if not is_node_sized or not _are_below_top(b"".join(values)):
            super().check_items(values, position)

    def _checked(self, node: bytes, position: Position, offset: int | None) -> bytes:
        if node[-1] >= _TOP_BYTE and int.from_bytes(node, "little") >= _P:
            raise position.error(f"is not below the modulus of {BLS12_381_FR.name}", offset)
        return node


def _are_below_top(nodes: bytes) -> bool:
    """Return whether the last byte of each node shows that it is below the modulus."""
    return max(nodes[NODE_BYTES - 1 :: NODE_BYTES]) < _TOP_BYTE


def _cut(nodes: bytes) -> tuple[bytes, ...]:
    return tuple([nodes[at : at + NODE_BYTES] for at in range(0, len(nodes), NODE_BYTES)])


@frozen
class Items(Schema):
    """A list of `count` values, as a tuple."""

    of: Schema
    count: int

    def decode(self, reader: Bincode) -> tuple[Any, ...]:
        offset = reader.offset
        self._check_count(reader.unsigned(_LENGTH_BYTES), reader, offset)
        return self.of.decode_items(reader, self.count)

    def encode(self, value: Sequence[Any], out: bytearray) -> None:
        out += len(value).to_bytes(_LENGTH_BYTES, "little")
        for item in value:
            self.of.encode(item, out)

    def parse(self, value: object, position: Position) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise position.error(f"must be a list, not {json_type_of(value)}")
        self._check_count(len(value), position, None)
        return self.of.parse_items(value, position)

    def unparse(self, value: Sequence[Any]) -> list[object]:
        return [self.of.unparse(item) for item in value]

    def check(self, value: object, position: Position) -> None:
        if not isinstance(value, tuple):
            raise position.error(f"must be a tuple, not {shown_kind(value)}")
        self._check_count(len(value), position, None)
        self.of.check_items(value, position)

    def _check_count(self, count: int, position: Position, offset: int | None) -> None:
        if count != self.count:
            raise position.error(f"must have {self.count} entries, not {count}", offset)


@frozen
class Struct(Schema):
    """A struct as a record: `kind` is called with the values of the fields, by name.

    nulls: names of fields without a value, which JSON has as null.
    """

    kind: Any
    fields: Mapping[str, Schema]
    nulls: tuple[str, ...] = ()

    def decode(self, reader: Bincode) -> Any:
        values, fields = [], reader.fields
        fields.append("")
        for name, schema in self.fields.items():
            fields[-1] = name
            values.append(schema.decode(reader))
        fields.pop()
        return self._record(values)

    def encode(self, value: Any, out: bytearray) -> None:
        for name, schema in self.fields.items():
            schema.encode(getattr(value, name), out)

    def parse(self, value: object, position: Position) -> Any:
        entries = position.object(value, self.fields)
        values, fields = [], position.fields
        fields.append("")
        for name, schema in self.fields.items():
            fields[-1] = name
            values.append(schema.parse(entries[name], position))
        fields.pop()
        return self._record(values)

    def unparse(self, value: Any) -> dict[str, object]:
        entries = {n: schema.unparse(getattr(value, n)) for n, schema in self.fields.items()}
        return entries | dict.fromkeys(self.nulls)

    def check(self, value: object, position: Position) -> None:
        fields = position.fields
        fields.append("")
        for name, schema in self.fields.items():
            fields[-1] = name
            try:
                entry = getattr(value, name)
            except AttributeError:
                raise position.error(f"is missing: {shown_kind(value)} lacks it") from None
            schema.check(entry, position)
        fields.pop()

    def _record(self, values: Sequence[Any]) -> Any:
        if self._is_in_order:
            return self.kind(*values)
        return self.kind(**dict(zip(self.fields, values, strict=True)))

    @cached_property
    def _is_in_order(self) -> bool:
        """True if the fields have the order of the record's, which is then made faster."""
        return isinstance(self.kind, type) and field_names(self.kind) == (*self.fields,)


@frozen
class Wrapper(Schema):
    """A struct with a single field, as the value of the field."""

    field: str
    of: Schema

    def decode(self, reader: Bincode) -> Any:
        with reader.inside(self.field):
            return self.of.decode(reader)

    def encode(self, value: Any, out: bytearray) -> None:
        self.of.encode(value, out)

    def parse(self, value: object, position: Position) -> Any:
        entries = position.object(value, (self.field,))
        with position.inside(self.field):
            return self.of.parse(entries[self.field], position)

    def unparse(self, value: Any) -> dict[str, object]:
        return {self.field: self.of.unparse(value)}

    def check(self, value: object, position: Position) -> None:
        self.of.check(value, position)


@frozen
class Variant(Schema):
    """An enum that must be one of its variants, as the value of the variant.

    names: the enum's variants, in order.
    name: the variant.
    """

    names: tuple[str, ...]
    name: str
    of: Schema

    def decode(self, reader: Bincode) -> Any:
        offset = reader.offset
        tag = reader.unsigned(_TAG_BYTES)
        if tag != self.names.index(self.name):
            actual = self.names[tag] if tag < len(self.names) else f"the variant {tag}"
            raise reader.error(f"must be {self.name}, not {actual}", offset)
        with reader.inside(self.name):
            return self.of.decode(reader)

    def encode(self, value: Any, out: bytearray) -> None:
        out += self.names.index(self.name).to_bytes(_TAG_BYTES, "little")
        self.of.encode(value, out)

    def parse(self, value: object, position: Position) -> Any:
        if isinstance(value, dict) and [*value] != [self.name] and len(value) == 1:
            raise position.error(f"must be {self.name}, not {shown(next(iter(value)))}")
        entries = position.object(value, (self.name,))
        with position.inside(self.name):
            return self.of.parse(entries[self.name], position)

    def unparse(self, value: Any) -> dict[str, object]:
        return {self.name: self.of.unparse(value)}

    def check(self, value: object, position: Position) -> None:
        self.of.check(value, position)
