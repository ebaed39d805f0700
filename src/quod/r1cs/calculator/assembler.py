"""An assembler of WebAssembly: expressions, functions and modules.

The encoding is that of the WebAssembly core specification 2.0, chapter 5. Integer arithmetic, one
memory, and structured control flow suffice for calculators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from quod.frozen import frozen

I32, I64 = 0x7F, 0x7E

# The opcodes of i64 are those of i32 plus these offsets.
_ARITHMETIC, _COMPARISON, _TEST = 0x12, 0x0B, 0x0B

_LOADS = {
    "i32.load": (0x28, I32, 2), "i64.load": (0x29, I64, 3), "i32.load8_u": (0x2D, I32, 0),
    "i32.load16_u": (0x2F, I32, 1), "i64.load32_u": (0x35, I64, 2),
}  # fmt: skip
_STORES = {
    "i32.store": (0x36, 2), "i64.store": (0x37, 3), "i32.store8": (0x3A, 0),
    "i64.store32": (0x3E, 2),
}  # fmt: skip


def unsigned(number: int) -> bytes:
    """Return the LEB128 encoding of a number that is not negative."""
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + unsigned(number >> 7)


def signed(number: int) -> bytes:
    """Return the signed LEB128 encoding of a number."""
    encoded = bytearray()
    while not -0x40 <= number < 0x40:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number & 0x7F)
    return bytes(encoded)


class Value:
    """An expression: code that pushes a number of a type."""

    __slots__ = ("code", "type")

    def __init__(self, type: int, code: bytes) -> None:
        self.type, self.code = type, code

    def _binary(self, opcode: int, offset: int, other: Value | int, result: int) -> Value:
        operand = constant(self.type, other) if isinstance(other, int) else other
        opcode += offset if self.type == I64 else 0
        return Value(result, self.code + operand.code + bytes([opcode]))

    def __add__(self, other: Value | int) -> Value:
        return self._binary(0x6A, _ARITHMETIC, other, self.type)

    def __sub__(self, other: Value | int) -> Value:
        return self._binary(0x6B, _ARITHMETIC, other, self.type)

    def __mul__(self, other: Value | int) -> Value:
        return self._binary(0x6C, _ARITHMETIC, other, self.type)

    def __and__(self, other: Value | int) -> Value:
        return self._binary(0x71, _ARITHMETIC, other, self.type)

    def __or__(self, other: Value | int) -> Value:
        return self._binary(0x72, _ARITHMETIC, other, self.type)

    def __xor__(self, other: Value | int) -> Value:
        return self._binary(0x73, _ARITHMETIC, other, self.type)

    def __lshift__(self, other: Value | int) -> Value:
        return self._binary(0x74, _ARITHMETIC, other, self.type)

    def __rshift__(self, other: Value | int) -> Value:
        """Shift an unsigned number."""
        return self._binary(0x76, _ARITHMETIC, other, self.type)

    def shift_signed(self, other: int) -> Value:
        """Shift a signed number to the right."""
        return self._binary(0x75, _ARITHMETIC, other, self.type)

    def equals(self, other: Value | int) -> Value:
        """Return 1 if the numbers are equal, else 0."""
        return self._binary(0x46, _COMPARISON, other, I32)

    def differs(self, other: Value | int) -> Value:
        """Return 1 if the numbers differ, else 0."""
        return self._binary(0x47, _COMPARISON, other, I32)

    def below(self, other: Value | int) -> Value:
        """Return 1 if the unsigned number is below the other, else 0."""
        return self._binary(0x49, _COMPARISON, other, I32)

    def is_zero(self) -> Value:
        """Return 1 for 0, else 0."""
        return Value(I32, self.code + bytes([0x45 + (_TEST if self.type == I64 else 0)]))

    def extend(self) -> Value:
        """Convert an unsigned i32 to i64 (i64.extend_i32_u)."""
        return Value(I64, self.code + b"\xad")

    def wrap(self) -> Value:
        """Return the low 32 bits of an i64 (i32.wrap_i64)."""
        return Value(I32, self.code + b"\xa7")


def constant(type: int, number: int) -> Value:
    """Return a constant, which may be signed or unsigned."""
    bits = 32 if type == I32 else 64
    number = (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return Value(type, bytes([0x41 if type == I32 else 0x42]) + signed(number))


def select(condition: Value, if_true: Value, if_false: Value) -> Value:
    """Return one of two numbers of a type."""
    return Value(if_true.type, if_true.code + if_false.code + condition.code + b"\x1b")


def load(operation: str, address: Value | int, offset: int = 0) -> Value:
    """Return a number in memory; `operation` is its name in WebAssembly's text format."""
    opcode, type, alignment = _LOADS[operation]
    base = constant(I32, address) if isinstance(address, int) else address
    return Value(type, base.code + bytes([opcode, alignment]) + unsigned(offset))


class Variable(Value):
    """A local or global variable; reading it is an expression."""

    __slots__ = ("_body", "_set")

    def __init__(self, type: int, read: bytes, write: bytes, body: bytearray) -> None:
        super().__init__(type, read)
        self._set, self._body = write, body

    def set(self, value: Value | int) -> None:
        """Assign an expression."""
        expression = constant(self.type, value) if isinstance(value, int) else value
        self._body += expression.code + self._set


@frozen
class Global:
    """A mutable global variable, with its index and type."""

    index: int
    type: int


class Label:
    """The target of branches: the end of a block, or the start of a loop."""

    def __init__(self, depth: int) -> None:
        self.depth = depth


class Function:
    """A function; its statements are appended in order.

    index: its index in the module.
    parameters: its parameters as variables.
    """

    def __init__(self, index: int, parameters: Sequence[int], results: Sequence[int]) -> None:
        self.index, self.results = index, tuple(results)
        self.types = list(parameters)
        self._parameter_count = len(parameters)
        self.body = bytearray()
        self._depth = 0
        self.parameters = [self._variable(number) for number in range(len(parameters))]

    @property
    def signature(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The types of parameters and results."""
        return tuple(self.types[: self._parameter_count]), self.results

    def _variable(self, index: int) -> Variable:
        number = unsigned(index)
        return Variable(self.types[index], b"\x20" + number, b"\x21" + number, self.body)

    def local(self, type: int) -> Variable:
        """Add a local variable, which is 0 at first."""
        self.types.append(type)
        return self._variable(len(self.types) - 1)

    def locals(self, type: int, count: int) -> list[Variable]:
        """Add local variables."""
        return [self.local(type) for _ in range(count)]

    def variable(self, variable: Global) -> Variable:
        """Return a global variable for use in this function."""
        number = unsigned(variable.index)
        return Variable(variable.type, b"\x23" + number, b"\x24" + number, self.body)

    def store(
        self, operation: str, address: Value | int, value: Value | int, offset: int = 0
    ) -> None:
        """Store a number in memory; `operation` is its name in WebAssembly's text format."""
        opcode, alignment = _STORES[operation]
        type = I64 if operation.startswith("i64") else I32
        base = constant(I32, address) if isinstance(address, int) else address
        number = constant(type, value) if isinstance(value, int) else value
        self.body += base.code + number.code + bytes([opcode, alignment]) + unsigned(offset)

    def fill(self, address: int, byte: int, size: int) -> None:
        """Fill memory with a byte."""
        for number in (address, byte, size):
            self.body += constant(I32, number).code
        self.body += b"\xfc\x0b\x00"

    @contextmanager
    def _nested(self, opcode: int) -> Iterator[Label]:
        self.body += bytes([opcode, 0x40])
        self._depth += 1
        yield Label(self._depth)
        self._close()

    def block(self) -> AbstractContextManager[Label]:
        """Open a block; a branch to its label jumps to its end."""
        return self._nested(0x02)

    def loop(self) -> AbstractContextManager[Label]:
        """Open a loop, whose body ends unless it branches to the label."""
        return self._nested(0x03)

    def if_(self, condition: Value) -> AbstractContextManager[Label]:
        """Open a block that runs if the condition is not 0."""
        self.body += condition.code
        return self._nested(0x04)

    @contextmanager
    def for_(self, index: Variable, count: Value | int) -> Iterator[None]:
        """Run the body for index 0 to count - 1."""
        index.set(0)
        with self.block() as end, self.loop() as start:
            self.branch(end, index.below(count).is_zero())
            yield
            index.set(index + 1)
            self.branch(start)

    def branch(self, label: Label, condition: Value | None = None) -> None:
        """Branch to a label, with a condition only if it is not 0."""
        distance = unsigned(self._depth - label.depth)
        if condition is None:
            self.body += b"\x0c" + distance
        else:
            self.body += condition.code + b"\x0d" + distance

    def switch(self, value: Value, cases: Sequence[Callable[[], None]]) -> None:
        """Run the case with the value's index; any other value is a trap."""
        count = len(cases)
        # A block for each case, one for other values, and one whose end is the end of the switch.
        self.body += b"\x02\x40" * (count + 2)
        self._depth += count + 2
        targets = b"".join(unsigned(index) for index in range(count + 1))
        self.body += value.code + b"\x0e" + unsigned(count) + targets
        for index, case in enumerate(cases):
            self._close()
            case()
            self.body += b"\x0c" + unsigned(count - index)
        self._close()
        self.trap()
        self._close()

    def _close(self) -> None:
        self._depth -= 1
        self.body.append(0x0B)

    def call(self, function: Function, *arguments: Value | int) -> None:
        """Call a function without result."""
        self.body += self.result_of(function, *arguments).code

    def result_of(self, function: Function, *arguments: Value | int) -> Value:
        """Return the result of a call as an expression, which calls it where it is used."""
        types, results = function.signature
        code = b"".join(
            (constant(type, argument) if isinstance(argument, int) else argument).code
            for type, argument in zip(types, arguments, strict=True)
        )
        return Value(results[0] if results else 0, code + b"\x10" + unsigned(function.index))

    def return_(self, value: Value | int | None = None) -> None:
        """Return a number, or nothing from a function without result."""
        if value is not None:
            expression = constant(self.results[0], value) if isinstance(value, int) else value
            self.body += expression.code
        self.body.append(0x0F)

    def trap(self) -> None:
        """Stop with an error."""
        self.body.append(0x00)

    def encoded(self) -> bytes:
        """Return the function's code with its size."""
        types = self.types[self._parameter_count :]
        groups: list[list[int]] = []
        for type in types:
            if groups and groups[-1][1] == type:
                groups[-1][0] += 1
            else:
                groups.append([1, type])
        declared = b"".join(unsigned(count) + bytes([type]) for count, type in groups)
        body = unsigned(len(groups)) + declared + bytes(self.body) + b"\x0b"
        return unsigned(len(body)) + body


class Module:
    """A module with one memory, which it exports as ``memory``."""

    def __init__(self) -> None:
        self._imports: list[tuple[str, str, Function]] = []
        self._functions: list[Function] = []
        self._exports: list[tuple[str, int]] = []
        self._globals: list[tuple[int, int]] = []
        self._data: list[tuple[int, bytes]] = []

    def imported(self, module: str, name: str, parameters: Sequence[int] = ()) -> Function:
        """Import a function without result; imports precede all functions."""
        function = Function(len(self._imports), parameters, ())
        self._imports.append((module, name, function))
        return function

    def function(
        self, parameters: Sequence[int] = (), results: Sequence[int] = (), export: str | None = None
    ) -> Function:
        """Add a function."""
        function = Function(len(self._imports) + len(self._functions), parameters, results)
        self._functions.append(function)
        if export is not None:
            self._exports.append((export, function.index))
        return function

    def define(
        self, parameters: int, write: Callable[..., None], *, results: int = 0,
        export: str | None = None,
    ) -> Function:  # fmt: skip
        """Add a function of i32 numbers; `write` takes it and its parameters, and appends code."""
        function = self.function([I32] * parameters, [I32] * results, export)
        write(function, *function.parameters)
        return function

    def constant(self, name: str, number: int) -> None:
        """Export a function that returns a constant, without any other code."""
        function = self.function((), (I32,), name)
        function.body += constant(I32, number).code

    def global_(self, type: int, number: int = 0) -> Global:
        """Add a mutable global variable with an initial value."""
        self._globals.append((type, number))
        return Global(len(self._globals) - 1, type)

    def data(self, address: int, content: bytes) -> None:
        """Add the initial content of memory at an address."""
        if content:
            self._data.append((address, content))

    def encoded(self, memory_bytes: int) -> bytes:
        """Return the module's bytes; the memory has `memory_bytes`, rounded to pages."""
        functions = [function for _, _, function in self._imports] + self._functions
        signatures = list(dict.fromkeys(function.signature for function in functions))
        types = [
            b"\x60" + _vector([bytes([type]) for type in parameters])
            + _vector([bytes([type]) for type in results])
            for parameters, results in signatures
        ]  # fmt: skip
        imports = [
            _name(module) + _name(name) + b"\0" + unsigned(signatures.index(function.signature))
            for module, name, function in self._imports
        ]
        indices = [unsigned(signatures.index(each.signature)) for each in self._functions]
        pages = -(-memory_bytes // 65_536)
        globals = [
            bytes([type, 1]) + constant(type, number).code + b"\x0b"
            for type, number in self._globals
        ]
        exports = [_name(name) + b"\0" + unsigned(index) for name, index in self._exports]
        exports.append(_name("memory") + b"\x02\0")
        data = [
            b"\0" + constant(I32, address).code + b"\x0b" + unsigned(len(content)) + content
            for address, content in self._data
        ]
        sections = {
            1: types, 2: imports, 3: indices, 5: [b"\0" + unsigned(pages)], 6: globals, 7: exports,
            10: [function.encoded() for function in self._functions], 11: data,
        }  # fmt: skip
        return b"\0asm\x01\0\0\0" + b"".join(
            bytes([number]) + unsigned(len(content)) + content
            for number, items in sections.items()
            if items
            for content in (_vector(items),)
        )


def _vector(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def _name(text: str) -> bytes:
    encoded = text.encode()
    return unsigned(len(encoded)) + encoded
