"""The emitter of one WGSL function body: names, expressions and lines, written by the ops' rules.

Values used once are inlined into the expression that uses them; others are named with `let`.
Results of branches and carried values of loops are variables.
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
"""The precedence of kinds of expressions. Operands of WGSL shifts and bit ops must be atoms."""

# Expressions with more text or depth are named, as parsers recurse into them.
_MAX_TEXT = 240
_MAX_DEPTH = 20


class Lines:
    """Lines of text, each with its Python line."""

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
    """The interface of the module that bodies and rules emit into."""

    machine: Machine
    watches_loops: bool
    """True if the module reports loops ended early by the driver."""
    exchanges_storage: bool
    """True if instances may read values from a buffer that others have stored there."""
    arrays: dict[Value, tuple[str, str]]
    """The name of each array, and the text to prefix to an index into it."""
    atomic: set[Value]
    """The arrays whose elements are atomic."""

    def helper(self, name: str, text: str) -> str:
        """Add a helper function to the module, once; return its name."""

    def function(self, function: Function, arrays: Sequence[Value]) -> str:
        """Return the name of a called device function."""

    def needs_ids(self, function: Function) -> bool:
        """Return whether an emitted function takes the instance's indices as parameters."""

    def packed(self, scalars: Sequence[Value]) -> dict[Value, None]:
        """Select the parameters, all of u32, to pass in one array."""


class BodyEmitter:
    """The statements of one function, emitted by a table of rules."""

    def __init__(self, module: Module, rules: Rules[Rule]) -> None:
        self.module = module
        self.lines = Lines()
        self.names: dict[Value, str] = {}
        self.uses_ids = False
        """True once a rule has used `local_id` or `group_id`."""
        self._rules = rules
        self._level: dict[Value, int] = {}
        self._depth: dict[Value, int] = {}
        self._next = 0
        self._indent = "  "
        self._uses: Counter[Value] = Counter()
        self._using_region: dict[Value, Block] = {}
        self._block: Block | None = None

    # --- text

    def add(self, text: str) -> None:
        self.lines.add(self._indent + text)

    def add_inside(self, text: str) -> None:
        """Append a line, indented as part of an inner region."""
        self.add(f"  {text}")

    def fresh(self) -> str:
        self._next += 1
        return f"v{self._next}"

    def let(self, text: str) -> str:
        """Bind an expression to a new name with `let`; return the name."""
        name = self.fresh()
        self.add(f"let {name} = {text};")
        return name

    def text_of(self, value: Value, level: int = 0) -> str:
        """Return the text of a value, parenthesised if needed.

        level: precedence of the enclosing expression.
        """
        constant = value.constant
        if constant is not None:
            return constant_text(constant, value.type)
        text = self.names[value]
        return f"({text})" if self._level.get(value, LEVELS["atom"]) < level else text

    def define(self, value: Value, text: str, level: int = LEVELS["atom"]) -> None:
        """Define a value as an expression: named, unless it is used once in the same region."""
        op = value.op
        depth = 1 + max((self._depth.get(o, 0) for o in op.operands), default=0) if op else 1
        used_once = self._uses[value] == 1 and self._using_region.get(value) is self._block
        if op is not None and op.definition.pure and used_once:
            if len(text) <= _MAX_TEXT and depth <= _MAX_DEPTH:
                self.names[value], self._level[value], self._depth[value] = text, level, depth
                return
        self.names[value] = self.let(text)

    def bind(self, value: Value) -> None:
        """Bind a value that is an inlined expression so far to a `let` name."""
        if value.constant is None and self._level.get(value, LEVELS["atom"]) < LEVELS["atom"]:
            self.names[value] = self.let(self.names[value])
            self._level.pop(value)

    def is_read(self, value: Value) -> bool:
        """Return whether a value is used in the region that is being emitted."""
        return self._uses[value] > 0

    def index(self, array: Value, at: str) -> str:
        """Return the text of an array element; `at` is an atom or a sum."""
        name, index_prefix = self.module.arrays[array]
        return f"{name}[{index_prefix}{at}]"

    # --- statements

    def emit_block(self, block: Block, then: Block | None = None) -> None:
        """Emit the ops of a region; its yielded values are available afterwards.

        The region `then`, emitted next, may use its values as well.
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
                self._using_region[operand] = block
            for region in op.regions:
                # A value used in an inner region is not inlined into it from outside.
                for inner_op in walk(region):
                    for operand in inner_op.operands:
                        self._uses[operand] += 2

    def region(self, block: Block, then: Block | None = None) -> None:
        """Emit an indented region, as `emit_block` does."""
        outer_indent = self._indent
        self._indent += "  "
        outer_uses = self._uses
        self._uses = Counter()
        self.emit_block(block, then)
        self._uses = outer_uses
        self._indent = outer_indent

    def emit_call(self, op: Op) -> None:
        """Emit the call of a device function."""
        function: Function = op.attributes["function"]
        arrays = [o for o in op.operands if isinstance(o.type, PointerType)]
        scalars = [o for o in op.operands if not isinstance(o.type, PointerType)]
        name = self.module.function(function, arrays)
        # Operands may repeat a value, but parameters are distinct.
        scalar_arguments = [
            a for a in function.block.arguments if not isinstance(a.type, PointerType)
        ]
        packed = self.module.packed(scalar_arguments)
        texts = dict(zip(scalar_arguments, map(self.text_of, scalars), strict=True))
        call_arguments = [f"array<u32, {len(packed)}>({', '.join(texts[a] for a in packed)})"]
        call_arguments = (call_arguments if packed else []) + [
            texts[a] for a in scalar_arguments if a not in packed
        ]
        if self.module.needs_ids(function):
            self.uses_ids = True
            call_arguments += ["local_id", "group_id"]
        text = f"{name}({', '.join(call_arguments)})"
        if not op.results:
            self.add(f"{text};")
            return
        returned = self.let(text)
        if len(op.results) == 1:
            self.names[op.results[0]] = returned
            return
        self.names.update({result: f"{returned}.m{i}" for i, result in enumerate(op.results)})


Rule = Callable[[BodyEmitter, Op], None]
"""The emitter of one op."""

Expression = Callable[[BodyEmitter, Op], tuple[str, int]]
"""The emitter of a pure op as an expression: its text and precedence."""


def rule_by(expression: Expression) -> Rule:
    """Make the rule of an op that is an expression."""

    def rule(body: BodyEmitter, op: Op) -> None:
        text, level = expression(body, op)
        body.define(op.results[0], text, level)

    return rule
