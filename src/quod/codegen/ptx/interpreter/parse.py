"""PTX text to instructions: the part of the language's grammar that kernels of Quod need.

An instruction takes one or more lines and ends with a semicolon; `line` is its first line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from quod.kernel.errors import InterpreterError
from quod.kernel.ir.nodes import Location


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
    """A parameter or result of a routine, or a caller's variable for one: `size` bytes.

    The type of an array of bytes is ``b8``.
    """

    name: str
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class SharedArray:
    """An array in shared memory; `size` in bytes, None if the launch determines it."""

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
    resident: int = 0
    """The workgroups per multiprocessor that `.minnctapersm` requests, or 0."""
    registers: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Type by name; for a range such as %r<9>, by prefix with the count of its registers."""
    passed: dict[str, Parameter] = field(default_factory=dict)
    """The parameters declared for calls in the body, by unique names."""
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Number of the instruction after each label."""


@dataclass(slots=True)
class Module:
    """A parsed text: its one entry, its functions, its shared and local arrays and its tables."""

    entry: Routine
    functions: dict[str, Routine]
    shared: list[SharedArray]
    local: list[SharedArray]
    tables: dict[str, bytes]


_INSTRUCTION = re.compile(r"(?:@(!?)(%?[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
# An unclosed bracket matches the rest of the text, so that no text is scanned twice.
_OPERAND = re.compile(r"\{[^}]*(?:\}|\Z)|\[[^\]]*(?:\]|\Z)|\([^)]*(?:\)|\Z)|[^,\s{\[(][^,]*")
_LABEL = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*:(?!:)")
_ROUTINE = re.compile(
    r"(?:\.(?:visible|extern|weak)\s+)?\.(entry|func)\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*"
    r"\(([^)]*)\)(.*)",
    re.DOTALL,
)
_TABLE = re.compile(r"\.global\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\]\s*=\s*\{([\d, ]*)\};")
_SHARED = re.compile(
    r"(?:\.(extern)\s+)?\.(?:shared|local)\s+(?:\.align\s+(\d+)\s+)?\.[bu](8|16|32|64)\s+([\w$]+)"
    r"\[(\d*)\]"
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.([busf](?:8|16|32|64))\s+(?:\.ptr\s+)?"
    r"(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?([\w$]+)(?:\[(\d+)\])?"
)
_NAME = re.compile(r"[%\w$]+")
_RANGE = re.compile(r"(%?[\w$]+)<(\d+)>")
# The maximum digits of the sizes, counts and alignments in declarations.
_MAX_DIGITS = 10
# The maximum length of an error message, which quotes the text.
_LONGEST_MESSAGE = 200
# The maximum nesting of scopes: the parameters of a call are declared in one.
_MAX_SCOPES = 8
_CLOSING = {"{": "}", "[": "]", "(": ")"}


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._file = "PTX"
        self._entry: Routine | None = None
        self._functions: dict[str, Routine] = {}
        self._shared: list[SharedArray] = []
        self._local: list[SharedArray] = []
        self._tables: dict[str, bytes] = {}
        self._scopes: list[dict[str, str]] = []

    def _error(self, problem: str, line: int) -> InterpreterError:
        if len(problem) > _LONGEST_MESSAGE:
            problem = f"{problem[: _LONGEST_MESSAGE - 3]}..."
        return InterpreterError(problem, Location(self._file, line))

    def parse(self) -> Module:
        routine: Routine | None = None
        # The lines of an unfinished statement, joined once when its end is found.
        pending_lines: list[str] = []
        first_line = 1
        for number, raw_line in enumerate(self._lines, 1):
            # Replace runs of spaces by one space, so that patterns need not try each space.
            line = " ".join(_without_comments(raw_line).split())
            if not line:
                continue
            if not pending_lines:
                first_line = number
            pending_lines.append(line)
            if routine is None:
                if pending_lines[0].startswith((".version", ".target", ".address_size", ".file")):
                    pending_lines = []
                elif line.endswith("{"):
                    routine = self._routine(" ".join(pending_lines)[:-1], first_line)
                    pending_lines = []
                elif line.endswith(";"):
                    self._declaration(" ".join(pending_lines), first_line)
                    pending_lines = []
            elif line in ("{", "}") and len(pending_lines) > 1:
                raise self._error("a statement has no semicolon", first_line)
            elif line == "{":
                # The parameters of a call are declared in a scope of their own.
                if len(self._scopes) == _MAX_SCOPES:
                    raise self._error("there are too many scopes within each other", number)
                self._scopes.append({})
                pending_lines = []
            elif line == "}":
                pending_lines = []
                if self._scopes:
                    self._scopes.pop()
                else:
                    routine = None
            elif len(pending_lines) == 1 or ";" in line:
                unfinished = self._body(routine, " ".join(pending_lines), first_line)
                pending_lines = [unfinished] if unfinished else []
        if routine is not None or pending_lines:
            raise self._error("the text ends within a routine or a declaration", first_line)
        if self._entry is None:
            raise self._error("the text has no .entry", 1)
        return Module(self._entry, self._functions, self._shared, self._local, self._tables)

    def _number(self, digits: str, line: int) -> int:
        if not 0 < len(digits) <= _MAX_DIGITS:
            raise self._error("a size, count or alignment is missing or too long", line)
        return int(digits)

    def _declaration(self, text: str, line: int) -> None:
        if _ROUTINE.match(text):  # a prototype; the function itself follows
            return
        table = _TABLE.fullmatch(text)
        if table:
            numbers = [self._number(digits.strip(), line) for digits in table[4].split(",")]
            if len(numbers) != self._number(table[3], line) or max(numbers) > 255:
                raise self._error(f"the table {table[2]} has not the bytes that it says", line)
            self._tables[table[2]] = bytes(numbers)
            return
        match = _SHARED.match(text)
        if not match:
            raise self._error(f"{text!r} is no declaration that is known here", line)
        extern, alignment, bits, name, count = match.groups()
        size = None if extern else self._number(count, line) * int(bits) // 8
        alignment_bytes = self._number(alignment, line) if alignment else int(bits) // 8
        arrays = self._local if text.startswith(".local") else self._shared
        arrays.append(SharedArray(name, size, alignment_bytes))

    def _routine(self, header: str, line: int) -> Routine:
        match = _ROUTINE.match(header)
        if not match:
            raise self._error(f"{header.strip()!r} begins no routine", line)
        kind, results, name, parameters, directives = match.groups()
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
        routine.workgroup_size = self._number(size[1], line)
        if ".reqnctapercluster" in directives:
            raise self._error("clusters of workgroups are not known here", line)
        resident = re.search(r"\.minnctapersm\s+(\d+)", directives)
        routine.resident = self._number(resident[1], line) if resident else 0
        self._entry = routine
        return routine

    def _parameters(self, text: str, line: int) -> list[Parameter]:
        parts = (part.strip() for part in text.split(","))
        return [self._parameter(part, line) for part in parts if part]

    def _parameter(self, text: str, line: int) -> Parameter:
        match = _PARAMETER.fullmatch(text)
        if not match:
            raise self._error(f"{text!r} is no parameter that is known here", line)
        type_, name, count = match.groups()
        return Parameter(name, type_, int(type_[1:]) // 8 * self._number(count or "1", line))

    def _body(self, routine: Routine, text: str, first_line: int) -> str:
        """Parse the complete statements of a text into the routine; return the rest."""
        *complete, unfinished = text.split(";")
        for statement in complete:
            self._statement(
                routine, self._labelled(routine, statement.strip(), first_line), first_line
            )
        return self._labelled(routine, unfinished.strip(), first_line)

    def _labelled(self, routine: Routine, text: str, line: int) -> str:
        """Record the labels at the start of a text; return the text after them."""
        position = 0
        while label := _LABEL.match(text, position):
            if label[1] in routine.labels:
                raise self._error(f"the label {label[1]} stands twice", line)
            routine.labels[label[1]] = len(routine.instructions)
            position = label.end()
        return text[position:].lstrip()

    def _statement(self, routine: Routine, text: str, line: int) -> None:
        if text.startswith("."):
            directive = text.split()[0]
            if directive == ".reg":
                self._registers(routine, text, line)
            elif directive == ".param":
                self._declare_call_parameter(routine, text, line)
            elif directive in (".shared", ".local"):
                self._declaration(text + ";", line)
            elif directive not in (".pragma", ".loc"):
                raise self._error(f"{directive} is no directive that is known here", line)
            return
        match = _INSTRUCTION.fullmatch(text)
        if not match:
            raise self._error(f"{text!r} is no instruction", line)
        negation, guard, opcode, text = match.groups()
        operands = tuple(part.strip() for part in _OPERAND.findall(self._renamed(text)))
        if any(part[-1] != _CLOSING.get(part[0], part[-1]) for part in operands):
            raise self._error("a bracket is not closed", line)
        routine.instructions.append(
            Instruction(
                tuple(opcode.replace("::", ":").split(".")),
                operands,
                guard,
                bool(negation),
                Location(self._file, line),
            )
        )

    def _declare_call_parameter(self, routine: Routine, text: str, line: int) -> None:
        parameter = self._parameter(text, line)
        if not self._scopes:
            raise self._error(f"{parameter.name} is declared outside the scope of a call", line)
        unique_name = f"{parameter.name}@{len(routine.passed)}"
        self._scopes[-1][parameter.name] = unique_name
        routine.passed[unique_name] = Parameter(unique_name, parameter.type, parameter.size)

    def _renamed(self, operands: str) -> str:
        """Return the operands, with this scope's parameters renamed to be unique."""
        if not self._scopes:
            return operands

        def scoped(name: str) -> str:
            scopes = (scope for scope in reversed(self._scopes) if name in scope)
            return next((scope[name] for scope in scopes), name)

        return _NAME.sub(lambda match: scoped(match[0]), operands)

    def _registers(self, routine: Routine, text: str, line: int) -> None:
        _, type_, names = (text.split(None, 2) + ["", ""])[:3]
        if not names:
            raise self._error(f"{text!r} declares no registers", line)
        for name in (part.strip() for part in names.split(",")):
            ranged = _RANGE.fullmatch(name)
            key, count = (ranged[1], self._number(ranged[2], line)) if ranged else (name, None)
            if key in routine.registers:
                raise self._error(f"the registers {key} are declared twice", line)
            routine.registers[key] = (type_.lstrip("."), count)


def _without_comments(line: str) -> str:
    """Return a line without // and /* */ comments; an unfinished /* comment stays."""
    parts: list[str] = []
    position = 0
    while (slash := line.find("/", position)) >= 0:
        if line.startswith("//", slash):
            return "".join(parts) + line[position:slash]
        stop = line.find("*/", slash + 2) if line.startswith("/*", slash) else -1
        if stop < 0 and line.startswith("/*", slash):
            break
        parts.append(line[position:slash] if stop >= 0 else line[position : slash + 1])
        position = stop + 2 if stop >= 0 else slash + 1
    return "".join(parts) + line[position:]


def parse(text: str) -> Module:
    """Parse a text; raises InterpreterError, which names the invalid line."""
    return _Parser(text).parse()
