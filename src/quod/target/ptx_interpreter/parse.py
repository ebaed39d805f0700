"""PTX text to instructions: the part of the language's grammar that kernels of Quod need.

An instruction stands on one line or more and ends with a semicolon; `line` is where it begins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from quod.kernel.errors import InterpreterError
from quod.kernel.ir import Location


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `guard` is the predicate that it runs under, `opcode` split at its dots."""

    opcode: tuple[str, ...]
    operands: tuple[str, ...]
    guard: str | None
    negated: bool
    location: Location

    def error(self, problem: str) -> InterpreterError:
        return InterpreterError(f"{'.'.join(self.opcode)} {problem}", self.location)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter or a result of a routine, or what a caller passes as one: `size` bytes.

    The type of an array of bytes is ``b8``.
    """

    name: str
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class SharedArray:
    """An array in shared memory; `size` in bytes, None where the launch says it."""

    name: str
    size: int | None
    alignment: int


@dataclass(slots=True)
class Routine:
    """An entry or a device function."""

    name: str
    location: Location
    parameters: list[Parameter]
    results: list[Parameter] = field(default_factory=list)
    workgroup_size: int = 0
    registers: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Type by name; for a range such as %r<9>, by prefix with the count of its registers."""
    passed: dict[str, Parameter] = field(default_factory=dict)
    """What the calls within pass and take, each under a name of its own."""
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Number of the instruction after each label."""


@dataclass(slots=True)
class Module:
    """A parsed text: its one entry, its functions, its shared memory."""

    entry: Routine
    functions: dict[str, Routine]
    shared: list[SharedArray]


_INSTRUCTION = re.compile(r"(?:@(!?)(%?[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s{\[(][^,]*")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_ROUTINE = re.compile(
    r"(?:\.(?:visible|extern|weak)\s+)?\.(entry|func)\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*"
    r"\(([^)]*)\)(.*)",
    re.DOTALL,
)
_SHARED = re.compile(
    r"(?:\.(extern)\s+)?\.shared\s+(?:\.align\s+(\d+)\s+)?\.[bu](8|16|32|64)\s+([\w$]+)"
    r"\[(\d*)\]"
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.([busf](?:8|16|32|64))\s+(?:\.ptr\s+)?"
    r"(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?([\w$]+)(?:\[(\d+)\])?"
)
_NAME = re.compile(r"[%\w$]+")
_RANGE = re.compile(r"(%?[\w$]+)<(\d+)>")
_COMMENT = re.compile(r"//.*|/\*.*?\*/")


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._file = "PTX"
        self._entry: Routine | None = None
        self._functions: dict[str, Routine] = {}
        self._shared: list[SharedArray] = []
        self._scopes: list[dict[str, str]] = []

    def _error(self, problem: str, line: int) -> InterpreterError:
        return InterpreterError(problem, Location(self._file, line))

    def parse(self) -> Module:
        routine: Routine | None = None
        held, begun = "", 0
        for number, raw in enumerate(self._lines, 1):
            line = _COMMENT.sub("", raw).strip() if "/" in raw else raw.strip()
            if not line:
                continue
            if not held:
                begun = number
            held = f"{held} {line}" if held else line
            if routine is None:
                if held.startswith((".version", ".target", ".address_size", ".file")):
                    held = ""
                elif held.endswith("{"):
                    routine = self._routine(held[:-1], begun)
                    held = ""
                elif held.endswith(";"):
                    self._declaration(held, begun)
                    held = ""
            elif line == "{":
                # What a call passes is declared in a scope of its own.
                self._scopes.append({})
                held = ""
            elif line == "}":
                held = ""
                if self._scopes:
                    self._scopes.pop()
                else:
                    routine = None
            else:
                held = self._body(routine, held, begun)
        if routine is not None or held:
            raise self._error("the text ends within a routine or a declaration", begun)
        if self._entry is None:
            raise self._error("the text has no .entry", 1)
        return Module(self._entry, self._functions, self._shared)

    def _declaration(self, text: str, line: int) -> None:
        if _ROUTINE.match(text):  # a prototype; the function itself follows
            return
        found = _SHARED.match(text)
        if not found:
            raise self._error(f"{text!r} is no declaration that is known here", line)
        extern, alignment, bits, name, count = found.groups()
        size = None if extern else int(count) * int(bits) // 8
        self._shared.append(SharedArray(name, size, int(alignment or int(bits) // 8)))

    def _routine(self, header: str, line: int) -> Routine:
        found = _ROUTINE.match(header)
        if not found:
            raise self._error(f"{header.strip()!r} begins no routine", line)
        kind, results, name, parameters, directives = found.groups()
        location = Location(self._file, line)
        routine = Routine(name, location, self._parameters(parameters, line))
        routine.results = self._parameters(results or "", line)
        if kind == "func":
            self._functions[name] = routine
            return routine
        if self._entry is not None:
            raise self._error("one text has one .entry here", line)
        size = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)", directives)
        if size is None:
            raise self._error("the entry has no .maxntid, which says how many instances run", line)
        routine.workgroup_size = int(size[1])
        self._entry = routine
        return routine

    def _parameters(self, text: str, line: int) -> list[Parameter]:
        parts = (part.strip() for part in text.split(","))
        return [self._parameter(part, line) for part in parts if part]

    def _parameter(self, text: str, line: int) -> Parameter:
        found = _PARAMETER.fullmatch(text)
        if not found:
            raise self._error(f"{text!r} is no parameter that is known here", line)
        type_, name, count = found.groups()
        return Parameter(name, type_, int(type_[1:]) // 8 * int(count or 1))

    def _body(self, routine: Routine, held: str, begun: int) -> str:
        """Takes what is complete of `held` into the routine; gives the rest."""
        while held:
            label = _LABEL.match(held)
            if label:
                if label[1] in routine.labels:
                    raise self._error(f"the label {label[1]} stands twice", begun)
                routine.labels[label[1]] = len(routine.instructions)
                held = held[label.end() :].lstrip()
                continue
            statement, semicolon, rest = held.partition(";")
            if not semicolon:
                return held
            self._statement(routine, statement.strip(), begun)
            held = rest.lstrip()
        return ""

    def _statement(self, routine: Routine, text: str, line: int) -> None:
        if text.startswith("."):
            directive = text.split()[0]
            if directive == ".reg":
                self._registers(routine, text, line)
            elif directive == ".param":
                self._passed(routine, text, line)
            elif directive == ".shared":
                self._declaration(text + ";", line)
            elif directive not in (".pragma", ".loc"):
                raise self._error(f"{directive} is no directive that is known here", line)
            return
        found = _INSTRUCTION.fullmatch(text)
        if not found:
            raise self._error(f"{text!r} is no instruction", line)
        negation, guard, opcode, operands = found.groups()
        routine.instructions.append(
            Instruction(
                tuple(opcode.replace("::", ":").split(".")),
                tuple(part.strip() for part in _OPERAND.findall(self._renamed(operands))),
                guard,
                bool(negation),
                Location(self._file, line),
            )
        )

    def _passed(self, routine: Routine, text: str, line: int) -> None:
        parameter = self._parameter(text, line)
        if not self._scopes:
            raise self._error(f"{parameter.name} is declared outside the scope of a call", line)
        own = f"{parameter.name}@{len(routine.passed)}"
        self._scopes[-1][parameter.name] = own
        routine.passed[own] = Parameter(own, parameter.type, parameter.size)

    def _renamed(self, operands: str) -> str:
        """The operands with the names of this scope's parameters made different from others'."""
        if not self._scopes:
            return operands
        known = {name: own for scope in self._scopes for name, own in scope.items()}
        return _NAME.sub(lambda found: known.get(found[0], found[0]), operands)

    def _registers(self, routine: Routine, text: str, line: int) -> None:
        _, type_, names = text.split(None, 2)
        for name in (part.strip() for part in names.split(",")):
            ranged = _RANGE.fullmatch(name)
            key, count = (ranged[1], int(ranged[2])) if ranged else (name, None)
            if key in routine.registers:
                raise self._error(f"the registers {key} are declared twice", line)
            routine.registers[key] = (type_.lstrip("."), count)


def parse(text: str) -> Module:
    """The module of a text; InterpreterError names the line that is not understood."""
    return _Parser(text).parse()
