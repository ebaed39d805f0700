"""The body of one WGSL function, as the rules of ops write it: names, expressions and lines.

Values that are used once are written where they are used; others are named. Carried values of loops
are the only variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from quod.codegen.rules import Rules
from quod.codegen.wgsl.types import constant_text
from quod.kernel.ir.nodes import Block, Function, Location, Op, walk
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

LEVELS = {"atom": 10, "product": 8, "sum": 7, "shift": 6, "compare": 5, "bits": 4}
"""How strongly kinds of expressions bind. WGSL shifts and masks atoms only."""

# Expressions of more text or depth are named: parsers recur into them.
_MOST_TEXT = 240
_MOST_DEPTH = 20


class Lines:
    """Lines of text, each with the Python line that it came from."""

    def __init__(self, location: Location | None = None) -> None:
        self.texts: list[str] = []
        self.locations: list[Location | None] = []
        self.location = location

    def add(self, text: str) -> None:
        self.texts.append(text)
        self.locations.append(self.location)

    def extend(self, other: Lines) -> None:
        self.texts += other.texts
        self.locations += other.locations


class Module(Protocol):
    """What bodies and rules ask of the module that they write for."""

    machine: Machine
    watches_loops: bool
    """Whether it notes that a driver has ended a loop."""
    exchanges_storage: bool
    """Whether instances may read from a buffer what others have stored there."""
    arrays: dict[Value, tuple[str, str]]
    """The name of each array, and what comes before an index in it."""
    atomic: set[Value]
    """The arrays whose elements are atomic."""

    def helper(self, name: str, text: str) -> str:
        """A function of the module that a rule needs; gives its name."""

    def function(self, function: Function, arrays: Sequence[Value]) -> str:
        """The name of a device function that is called."""

    def needs_ids(self, function: Function) -> bool:
        """Whether a function that has been written must be told where its instance is."""

    def packed(self, scalars: Sequence[Value]) -> dict[Value, None]:
        """The parameters, all words, that go in one array."""


class BodyEmitter:
    """The statements of one function, by the rules that it is given."""

    def __init__(self, module: Module, rules: Rules[Rule]) -> None:
        self.module = module
        self.lines = Lines()
        self.names: dict[Value, str] = {}
        self.uses_ids = False
        """Whether a rule has written `local_id` or `group_id`."""
        self._rules = rules
        self._level: dict[Value, int] = {}
        self._depth: dict[Value, int] = {}
        self._next = 0
        self._indent = "  "
        self._uses: Counter[Value] = Counter()
        self._home: dict[Value, Block] = {}
        self._block: Block | None = None

    # --- text

    def add(self, text: str) -> None:
        self.lines.add(self._indent + text)

    def add_inside(self, text: str) -> None:
        """Appends a line of a region that has been written."""
        self.add(f"  {text}")

    def fresh(self) -> str:
        self._next += 1
        return f"v{self._next}"

    def let(self, text: str) -> str:
        """Appends a name for an expression, and gives it."""
        name = self.fresh()
        self.add(f"let {name} = {text};")
        return name

    def text_of(self, value: Value, level: int = 0) -> str:
        """A value as part of an expression that binds its parts with strength `level`."""
        constant = value.constant
        if constant is not None:
            return constant_text(constant, value.type)
        text = self.names[value]
        return f"({text})" if self._level.get(value, LEVELS["atom"]) < level else text

    def define(self, value: Value, text: str, level: int = LEVELS["atom"]) -> None:
        """Lets a value be an expression: named, unless it is used once and near."""
        op = value.op
        depth = 1 + max((self._depth.get(o, 0) for o in op.operands), default=0) if op else 1
        used_once = self._uses[value] == 1 and self._home.get(value) is self._block
        if op is not None and op.definition.pure and used_once:
            if len(text) <= _MOST_TEXT and depth <= _MOST_DEPTH:
                self.names[value], self._level[value], self._depth[value] = text, level, depth
                return
        self.names[value] = self.let(text)

    def name(self, value: Value) -> None:
        """Names a value that is an expression so far."""
        if value.constant is None and self._level.get(value, LEVELS["atom"]) < LEVELS["atom"]:
            self.names[value] = self.let(self.names[value])
            self._level.pop(value)

    def is_read(self, value: Value) -> bool:
        """Whether anything in the region that is being written uses a value."""
        return self._uses[value] > 0

    def index(self, array: Value, at: str) -> str:
        """An element of an array, by a text that is an atom or a sum."""
        name, before = self.module.arrays[array]
        return f"{name}[{before}{at}]"

    # --- statements

    def emit_block(self, block: Block, then: Block | None = None) -> None:
        """Writes the ops of a region; the values that it yields are then known.

        The region `then` comes behind it, and reads them too.
        """
        self._count_uses(block)
        if then is not None:
            self._uses.update(operand for op in walk(then) for operand in op.operands)
        outer, self._block = self._block, block
        for op in block.ops:
            self.lines.location = op.location
            if not op.definition.unwritten:
                self._rules.of(op)(self, op)
        self._block = outer

    def _count_uses(self, block: Block) -> None:
        for op in block.ops:
            for operand in op.operands:
                self._uses[operand] += 1
                self._home[operand] = block
            for region in op.regions:
                # What is used in a region is not written into it from outside.
                for inner in walk(region):
                    for operand in inner.operands:
                        self._uses[operand] += 2

    def region(self, block: Block, then: Block | None = None) -> None:
        """Writes a region further inside, as `emit_block` does."""
        before = self._indent
        self._indent += "  "
        saved = self._uses
        self._uses = Counter()
        self.emit_block(block, then)
        self._uses = saved
        self._indent = before

    def emit_call(self, op: Op) -> None:
        """A call of a device function."""
        function: Function = op.attributes["function"]
        arrays = [o for o in op.operands if isinstance(o.type, PointerType)]
        scalars = [o for o in op.operands if not isinstance(o.type, PointerType)]
        name = self.module.function(function, arrays)
        # Two operands may be one value, and the parameters never are.
        own = [a for a in function.block.arguments if not isinstance(a.type, PointerType)]
        packed = self.module.packed(own)
        texts = dict(zip(own, map(self.text_of, scalars), strict=True))
        given = [f"array<u32, {len(packed)}>({', '.join(texts[a] for a in packed)})"]
        given = (given if packed else []) + [texts[a] for a in own if a not in packed]
        if self.module.needs_ids(function):
            self.uses_ids = True
            given += ["local_id", "group_id"]
        text = f"{name}({', '.join(given)})"
        if not op.results:
            self.add(f"{text};")
            return
        made = self.let(text)
        if len(op.results) == 1:
            self.names[op.results[0]] = made
            return
        self.names.update({result: f"{made}.m{i}" for i, result in enumerate(op.results)})


Rule = Callable[[BodyEmitter, Op], None]
"""Writes one op."""

Expression = Callable[[BodyEmitter, Op], tuple[str, int]]
"""The text of an op that computes one value, and how strongly it binds."""


def rule_by(expression: Expression) -> Rule:
    """The rule of an op that is an expression."""

    def rule(body: BodyEmitter, op: Op) -> None:
        text, level = expression(body, op)
        body.define(op.results[0], text, level)

    return rule
