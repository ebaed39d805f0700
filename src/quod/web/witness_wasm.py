"""Check that a file is a witness calculator of circom and that it belongs to a key's circuit.

The module is parsed, not run: circom compiles `getWitnessSize` to a function that returns a
constant, which must be the key's number of variables. (WebAssembly core specification 2.0, section
5, binary format.)
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath

from quod.errors import InputError, MismatchError
from quod.formats import Zkey
from quod.formats.source import read_small
from quod.frozen import frozen

_MAGIC = b"\0asm\x01\0\0\0"
_IMPORT, _EXPORT, _CODE = 2, 7, 10
_FUNCTION, _MEMORY = 0, 2
_I32_CONST, _END = 0x41, 0x0B
_MAX_BYTES = 256 << 20
# The maximum length of the LEB128 encoding of a 32-bit number.
_MAX_NUMBER_BYTES = 5
# The maximum number of imports or exports; circom's modules have about twenty.
_MAX_NAMES = 10_000
# Ids of sections in the order of a module; data counts (12) and tags (13) came later.
_ORDER = bytes([1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11])
_CUSTOM = 0
# The maximum number of custom sections (names, compiler notes); circom's modules have none.
_MAX_CUSTOM_SECTIONS = 1000
# The exports of all releases of circom 2; early releases lack getInputSignalSize and getInputSize.
_REQUIRED_EXPORTS = ("init", "getWitness", "setInputSignal", "getWitnessSize", "readSharedRWMemory")


@frozen
class Calculator:
    """A witness calculator of circom 2.

    path: the file, for messages.
    content: the WebAssembly module.
    variables: the number of values of a witness; None if the module does not state it.
    """

    path: str
    content: bytes
    variables: int | None

    def check(self, key: Zkey) -> None:
        """Raise MismatchError if the calculator is for another circuit than the key."""
        if self.variables is not None and self.variables != key.variables:
            raise MismatchError(
                f"computes a witness of {self.variables} values and {key.path} takes "
                f"{key.variables}; they belong to different circuits",
                path=self.path,
            )


def read_calculator(path: str | PathLike[str]) -> Calculator:
    """Read a .wasm file of circom 2; raises InputError for any other file."""
    content = read_small(path, limit=_MAX_BYTES, what="a witness calculator", begins=_MAGIC)
    return parse_calculator(content, name=fspath(path))


def parse_calculator(content: bytes, *, name: str = "calculator") -> Calculator:
    """Parse the bytes of a file as `read_calculator` does; messages name the file `name`."""
    if not content.startswith(_MAGIC):
        raise InputError("is not a WebAssembly module", path=name, offset=0)
    try:
        sections = _sections(content)
        exports = _exports(sections[_EXPORT]) if _EXPORT in sections else {}
        missing = [export for export in _REQUIRED_EXPORTS if export not in exports]
        if not missing:
            variables = _constant_result(sections, exports.get("getWitnessSize"))
            return Calculator(name, content, variables)
    except (IndexError, ValueError) as error:
        raise InputError("is a damaged WebAssembly module", path=name) from error
    raise InputError(
        f"is not a witness calculator of circom 2: it does not export {missing[0]}; "
        "compile the circuit with `circom --wasm`",
        path=name,
    )


class _Reader:
    """Reads consecutive bytes, numbers and vectors; raises IndexError beyond the end.

    at: the offset of the next byte.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data)
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """Read an unsigned LEB128 of 32 bits."""
        value = 0
        for position in range(_MAX_NUMBER_BYTES):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                return value
        raise ValueError("a number has more than 32 bits")

    def bytes(self) -> memoryview:
        """Read a length and that many bytes."""
        size = self.number()
        if self.at + size > len(self.data):
            raise IndexError(size)
        self.at += size
        return self.data[self.at - size : self.at]

    def items(self, read: Callable[[], object]) -> None:
        """Read a count, and call `read` that many times."""
        count = self.number()
        if count > _MAX_NAMES:
            raise ValueError(f"{count} names")
        for _ in range(count):
            read()


def _sections(content: bytes) -> dict[int, memoryview]:
    """Return the contents of the non-custom sections by id.

    Raises ValueError for an unknown, repeated or misplaced section, as WebAssembly engines do.
    """
    reader = _Reader(content)
    reader.at = len(_MAGIC)
    sections: dict[int, memoryview] = {}
    order_index = custom_count = 0
    while reader.at < len(content):
        section_id, section = reader.byte(), reader.bytes()
        if section_id == _CUSTOM:
            custom_count += 1
            if custom_count > _MAX_CUSTOM_SECTIONS:
                raise ValueError(f"more than {_MAX_CUSTOM_SECTIONS} custom sections")
            continue
        order_index = _ORDER.index(section_id, order_index) + 1
        sections[section_id] = section
    return sections


def _exports(section: memoryview) -> dict[str, int]:
    """Return the indices of the exported functions by name."""
    reader = _Reader(section)
    functions: dict[str, int] = {}

    def read_item() -> None:
        name, kind, index = str(reader.bytes(), "utf-8"), reader.byte(), reader.number()
        if kind == _FUNCTION:
            functions[name] = index

    reader.items(read_item)
    return functions


def _imported_functions(section: memoryview) -> int | None:
    """Return the number of imported functions; None for imports other than functions and memory."""
    reader = _Reader(section)
    kinds: list[int] = []

    def read_item() -> None:
        if not set(kinds) <= {_FUNCTION, _MEMORY}:
            return
        reader.bytes()
        reader.bytes()
        kinds.append(reader.byte())
        # A function has the index of its type; a memory has a flag, its minimum, and if the flag
        # is set its maximum.
        flag = reader.number()
        if kinds[-1] == _MEMORY:
            reader.number()
            if flag & 1:
                reader.number()

    reader.items(read_item)
    return kinds.count(_FUNCTION) if set(kinds) <= {_FUNCTION, _MEMORY} else None


def _constant_result(sections: dict[int, memoryview], function: int | None) -> int | None:
    """Return the constant that a function returns, or None if its body is anything else."""
    import_count = _imported_functions(sections[_IMPORT]) if _IMPORT in sections else 0
    if function is None or import_count is None or _CODE not in sections or function < import_count:
        return None
    reader = _Reader(sections[_CODE])
    if function - import_count >= reader.number():
        raise IndexError(function)
    for _ in range(function - import_count):
        reader.bytes()
    body = reader.bytes()
    if body[:2] != bytes([0, _I32_CONST]) or body[-1] != _END:
        return None
    constant_reader = _Reader(body[2:-1])
    number = constant_reader.number()
    return number if constant_reader.at == len(body) - 3 else None
