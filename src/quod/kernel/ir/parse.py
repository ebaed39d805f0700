"""Parser of the text form of a kernel, which `quod.kernel.ir.text` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from quod.errors import KernelError
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import shortened
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Function, Kernel, Location, Op
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine
from quod.kernel.ops.scalar import OPS

T = TypeVar("T")

# The maximum nesting depth of regions, as parsing and later passes are recursive.
_MAX_DEPTH = 64
# The maximum digits of an integer: more than any constant has, and fast to convert.
_MAX_DIGITS = 320
# The maximum length of an error message, which quotes the text.
_MAX_MESSAGE = 200

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<value>%[\w.]+)
    |(?P<function>@[A-Za-z_][A-Za-z0-9_.]*|@(?="))
    |(?P<number>-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)(?![A-Za-z0-9_]))
    |(?P<arrow>->)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>[][{}(),:=<>])""",
    re.VERBOSE,
)


class ParseError(KernelError):
    """The text is not a valid kernel. `line` and `column` count from 1."""

    def __init__(self, message: str, name: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        super().__init__(f"{name}:{line}:{column}: {shortened(message, _MAX_MESSAGE)}")


@frozen
class _Token:
    kind: str
    text: str
    line: int
    column: int


def parse(text: str, name: str = "<text>") -> Kernel:
    """Parse the text of a kernel; ParseError names `name`, line and column.

    An op without a location gets its line in the text. Semantics (types, scopes) are not checked
    here but by `quod.kernel.verifier.verify`.
    """
    return _Parser(text, name).kernel()


def _tokens(text: str, name: str) -> list[_Token]:
    tokens = []
    line, line_start, position = 1, 0, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        column = position - line_start + 1
        if match is None:
            raise ParseError(f"{text[position]!r} begins nothing", name, line, column)
        kind = str(match.lastgroup)
        if kind not in ("space", "newline"):
            tokens.append(_Token(kind, match.group(), line, column))
        position = match.end()
        if kind == "newline":
            line, line_start = line + 1, position
    tokens.append(_Token("end", "the end of the text", line, len(text) - line_start + 1))
    return tokens


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens = _tokens(text, name)
        self._position = 0
        self._depth = 0
        self._builder = Builder(Machine("text", 1, frozenset()))
        self._functions: dict[str, Function] = {}
        self._values: dict[str, Value] = {}

    # --- tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _error(self, message: str, token: _Token | None = None) -> ParseError:
        token = token or self._next
        return ParseError(message, self._name, token.line, token.column)

    def _take(self, kind: str, expected: str) -> _Token:
        token = self._next
        if token.kind != kind:
            raise self._error(f"expected {expected}, found {token.text}")
        self._position += 1
        return token

    def _next_is(self, text: str) -> bool:
        return self._next.text == text and self._next.kind in ("mark", "word", "arrow")

    def _accept(self, text: str) -> bool:
        if self._next_is(text):
            self._position += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(f"expected {text}, found {self._next.text}")

    def _list(self, end: str, item: Callable[[], T]) -> list[T]:
        """Parse comma-separated items up to a closing mark."""
        items: list[T] = []
        while not self._accept(end):
            if items:
                self._expect(",")
            items.append(item())
        return items

    def _integer(self, expected: str) -> int:
        token = self._take("number", expected)
        if not re.fullmatch(r"-?\d+", token.text):
            raise self._error(f"expected {expected}, found {token.text}", token)
        return self._int_value(token)

    def _int_value(self, token: _Token) -> int:
        if len(token.text) > _MAX_DIGITS:
            raise self._error(f"an integer of {len(token.text)} digits is too long", token)
        return int(token.text)

    def _string(self) -> str:
        token = self._take("string", "a text in quotes")
        try:
            decoded: str = json.loads(token.text)
        except ValueError:
            raise self._error(f"{token.text} is no text in JSON form", token) from None
        return decoded

    def _global_name(self) -> str:
        token = self._take("function", "a name with @")
        return token.text[1:] or self._string()

    # --- kernel and functions

    def kernel(self) -> Kernel:
        while self._accept("function"):
            self._function()
        first_token = self._next
        self._expect("kernel")
        name = self._global_name()
        self._values = {}
        parameters = []
        self._expect("(")
        arguments = []
        for token, value in self._list(")", self._definition):
            parameters.append(token.text[1:])
            arguments.append(value)
        self._expect("workgroup")
        workgroup_size = self._integer("the workgroup size")
        self._expect("shared")
        shared_bytes = self._integer("the bytes of shared memory")
        subgroup_size = self._integer("the subgroup size") if self._accept("subgroup") else 1
        resident = self._integer("the resident workgroups") if self._accept("resident") else 0
        cluster = self._integer("the workgroups of a cluster") if self._accept("cluster") else 1
        constant_parameters = (
            self._constant_parameters(parameters) if self._accept("constant") else ()
        )
        location = self._location(first_token)
        block = self._block(tuple(arguments))
        self._take("end", "the end of the text")
        functions = list(self._functions.values())
        return Kernel(
            name, tuple(parameters), block, workgroup_size, functions, location, shared_bytes,
            subgroup_size, resident,
            cluster, constant_parameters,
        )  # fmt: skip

    def _constant_parameters(self, parameters: list[str]) -> tuple[str, ...]:
        """Parse the comma-separated names of the parameters that are declared constant."""
        names: list[str] = []
        while not names or self._accept(","):
            token = self._take("value", "a parameter")
            if token.text[1:] not in parameters:
                raise self._error(f"{token.text} is no parameter", token)
            names.append(token.text[1:])
        return tuple(names)

    def _function(self) -> None:
        first_token = self._next
        name = self._global_name()
        if name in self._functions:
            raise self._error(f"the function {name} is defined twice", first_token)
        self._values = {}
        self._expect("(")
        arguments = tuple(value for _, value in self._list(")", self._definition))
        self._expect("->")
        self._expect("(")
        results = tuple(self._list(")", self._type))
        inline = self._accept("inline")
        location = self._location(first_token)
        block = self._block(arguments)
        function = Function(name, block, location, inline)
        if function.result_types != results:
            yielded, declared = (
                ", ".join(type_.name for type_ in value_types)
                for value_types in (function.result_types, results)
            )
            raise self._error(
                f"the function {name} yields ({yielded}), not ({declared})", first_token
            )
        self._functions[name] = function

    def _location(self, first_token: _Token) -> Location:
        if not self._accept("at"):
            return Location(self._name, first_token.line)
        file = self._string()
        self._expect(":")
        return Location(file, self._integer("a line"))

    # --- values and types

    def _type(self) -> Type:
        token = self._take("word", "a type")
        text = token.text
        if text == "ptr":
            self._expect("<")
            if self._next_is("ptr"):
                raise self._error("a pointer leads to numbers, not to pointers")
            element = self._type()
            self._expect(",")
            space = self._take("word", "global, shared, private or constant")
            self._expect(">")
            text = f"ptr<{element.name}, {space.text}>"
        try:
            return types.parse_type(text)
        except ValueError as error:
            raise self._error(str(error), token) from None

    def _definition(self) -> tuple[_Token, Value]:
        """Parse the definition of a value with its type."""
        token = self._take("value", "a value")
        if token.text in self._values:
            raise self._error(f"{token.text} is defined twice", token)
        self._expect(":")
        value = Value(self._type(), self._builder)
        self._values[token.text] = value
        return token, value

    def _operand(self) -> Value:
        token = self._take("value", "a value")
        if token.text not in self._values:
            raise self._error(f"{token.text} is not defined", token)
        return self._values[token.text]

    def _literal(self) -> int | float | bool | str:
        token = self._next
        if token.kind == "string":
            return self._string()
        self._position += 1
        if token.kind == "word" and token.text in ("true", "false"):
            return token.text == "true"
        if token.kind == "number":
            is_integer = re.fullmatch(r"-?\d+", token.text)
            return self._int_value(token) if is_integer else float(token.text)
        raise self._error(f"expected a constant, found {token.text}", token)

    # --- ops

    def _block(self, arguments: tuple[Value, ...]) -> Block:
        block = Block(arguments)
        if self._depth == _MAX_DEPTH:
            raise self._error(f"more than {_MAX_DEPTH} regions lie within each other")
        self._depth += 1
        self._expect("{")
        while not self._accept("}"):
            block.ops.append(self._op())
        self._depth -= 1
        return block

    def _op(self) -> Op:
        first_token = self._next
        results: list[Value] = []
        if first_token.kind == "value":
            results.append(self._definition()[1])
            while self._accept(","):
                results.append(self._definition()[1])
            self._expect("=")
        token = self._take("word", "an op")
        if token.text not in OPS:
            raise self._error(f"there is no op {token.text}", token)
        op = Op(OPS[token.text], (), tuple(results), {}, (), Location(self._name, first_token.line))
        for result in results:
            result.op = op
        self._unnamed_attribute(op)
        op.operands = tuple(self._operands())
        if self._accept("["):
            op.attributes.update(self._list("]", self._attribute))
        self._derived_attributes(op)
        op.regions = self._regions(op.name)
        op.location = self._location(first_token)
        return op

    def _operands(self) -> list[Value]:
        if self._next.kind != "value" or self._starts_definition():
            return []
        operands = [self._operand()]
        while self._accept(","):
            operands.append(self._operand())
        return operands

    def _starts_definition(self) -> bool:
        """Return whether the next value begins the next op as its first result."""
        next_token = self._tokens[self._position + 1]
        return next_token.kind == "mark" and next_token.text == ":"

    def _unnamed_attribute(self, op: Op) -> None:
        """Parse the attribute, if the op has one, that is written without its name."""
        key = op.definition.unnamed_attribute
        if key == "function":
            token = self._next
            name = self._global_name()
            if name not in self._functions:
                raise self._error(f"there is no function {name} above", token)
            op.attributes[key] = self._functions[name]
        elif key:
            value = self._literal()
            if op.results and op.results[0].type.kind == "float" and type(value) is int:
                value = float(value)
            op.attributes[key] = value
            if op.name == "const" and not isinstance(value, str):
                for result in op.results:
                    result.constant = value

    def _attribute(self) -> tuple[str, Any]:
        name = self._take("word", "an attribute").text
        self._expect("=")
        return name, self._literal()

    @staticmethod
    def _derived_attributes(op: Op) -> None:
        if "type" in op.definition.derived and op.results:
            op.attributes["type"] = op.results[0].type
        if "count" in op.definition.derived:
            op.attributes["count"] = len(op.results)

    def _regions(self, name: str) -> tuple[Block, ...]:
        """Parse an op's regions, the blocks nested in it.

        A name is defined only once per function, so scopes are left to the verifier.
        """
        regions: list[Block] = []
        while self._next_is("{") or self._next_is("("):
            arguments: list[Value] = []
            if self._accept("("):
                arguments = [value for _, value in self._list(")", self._definition)]
            regions.append(self._block(tuple(arguments)))
            separator = OPS[name].separator
            if not separator or not self._accept(separator):
                break
        return tuple(regions)
