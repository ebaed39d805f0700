"""The statements of one WGSL function, from the ops of its regions.

Values that are used once are written where they are used; others are named. Carried values of loops
are the only variables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from quod.codegen.rules import rule_of
from quod.codegen.wgsl.rules import LEVELS, RULES, constant_text, type_text
from quod.errors import KernelError
from quod.kernel.ir import Block, Function, Location, Op, walk
from quod.kernel.passes import is_without_effect
from quod.kernel.types import PointerType
from quod.kernel.value import Value

if TYPE_CHECKING:
    from quod.codegen.wgsl.emitter import Emitter

# Expressions of more text or depth are named: parsers recur into them.
_MOST_TEXT = 240
_MOST_DEPTH = 20

CUT_SHORT = "cut_short"
"""The variable that says whether a driver has ended a loop."""

_LAST_INDEX = 0xFFFF_FFFE
"""The largest constant index that naga takes; it is beyond every binding."""

_NAME = re.compile(r"v\d+(\.m\d+)?|a\d+|\d+u|true|false")
"""What keeps its value while variables are set, unless it is one of them."""


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


class Body:
    """Writes the statements of one function; what rules of ops get."""

    def __init__(self, module: Emitter) -> None:
        self.module = module
        self.lines = Lines()
        self.names: dict[Value, str] = {}
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

    def fresh(self) -> str:
        self._next += 1
        return f"v{self._next}"

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
        name = self.fresh()
        self.add(f"let {name} = {text};")
        self.names[value] = name

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
            self._emit(op)
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

    def _region(self, block: Block, then: Block | None = None) -> None:
        before = self._indent
        self._indent += "  "
        saved = self._uses
        self._uses = Counter()
        self.emit_block(block, then)
        self._uses = saved
        self._indent = before

    def _emit(self, op: Op) -> None:
        special = _STATEMENTS.get(op.name)
        if special is not None:
            special(self, op)
            return
        text, level = rule_of(RULES, op, "WGSL")(self, op)
        self.define(op.results[0], text, level)

    def _nothing(self, op: Op) -> None:
        pass

    def _load(self, op: Op) -> None:
        array, at = op.operands
        atomic = array in self.module.atomic
        for place, result in zip(self._places(at, len(op.results)), op.results, strict=True):
            element = self.index(array, place)
            name = self.fresh()
            self.add(f"let {name} = {f'atomicLoad(&{element})' if atomic else element};")
            self.names[result] = name

    def _places(self, at: Value, count: int) -> list[str]:
        """The texts of `count` indices from one on."""
        constant = at.constant
        if constant is not None:
            # An index in a branch that is never taken may be any; naga refuses the last.
            return [f"{min(int(constant) + i, _LAST_INDEX)}u" for i in range(count)]
        if count > 1 and self._level.get(at, LEVELS["atom"]) < LEVELS["atom"]:
            name = self.fresh()
            self.add(f"let {name} = {self.names[at]};")
            self.names[at] = name
            self._level.pop(at, None)
        text = self.text_of(at, LEVELS["sum"])
        return [text] + [f"{text} + {i}u" for i in range(1, count)]

    def _store(self, op: Op) -> None:
        array, at, *values = op.operands
        atomic = array in self.module.atomic
        for place, value in zip(self._places(at, len(values)), values, strict=True):
            element = self.index(array, place)
            text = self.text_of(value)
            self.add(f"atomicStore(&{element}, {text});" if atomic else f"{element} = {text};")

    def _atomic(self, op: Op) -> None:
        array, at, *values = op.operands
        element = self.index(array, self._places(at, 1)[0])
        arguments = ", ".join(self.text_of(value) for value in values)
        name = self.fresh()
        if op.name == "atomic_compare_exchange":
            # The weak exchange may fail for no reason: ask again while the old value is expected.
            expected, value = (self.text_of(one) for one in values)
            self.add(f"var {name} = atomicLoad(&{element});")
            self.add("loop {")
            self.add(f"  if ({name} != {expected}) {{ break; }}")
            again = self.fresh()
            self.add(f"  let {again} = atomicCompareExchangeWeak(&{element}, {expected}, {value});")
            self.add(f"  if ({again}.exchanged) {{ break; }}")
            self.add(f"  {name} = {again}.old_value;")
            self.add("}")
        else:
            self.add(f"let {name} = {_ATOMICS[op.name]}(&{element}, {arguments});")
        self.names[op.results[0]] = name

    def _barrier(self, op: Op) -> None:
        if self.module.exchanges_storage:
            self.add("storageBarrier();")
        self.add("workgroupBarrier();")

    def _uniform(self, op: Op) -> None:
        (value,) = op.operands
        self.add(f"if (local_id == 0u) {{ agreed = {self.text_of(value)}; }}")
        name = self.fresh()
        self.add(f"let {name} = workgroupUniformLoad(&agreed);")
        self.names[op.results[0]] = name

    def _call(self, op: Op) -> None:
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
            given += ["local_id", "group_id"]
        text = f"{name}({', '.join(given)})"
        if not op.results:
            self.add(f"{text};")
            return
        made = self.fresh()
        self.add(f"let {made} = {text};")
        if len(op.results) == 1:
            self.names[op.results[0]] = made
            return
        self.names.update({result: f"{made}.m{i}" for i, result in enumerate(op.results)})

    # --- control flow

    def _if(self, op: Op) -> None:
        condition = self.text_of(op.operands[0])
        # SwiftShader's compiler takes twice as long for each result in a row that nothing reads.
        read = [i for i, result in enumerate(op.results) if self._uses[result]]
        results = [self.fresh() for _ in read]
        for name, i in zip(results, read, strict=True):
            self.add(f"var {name}: {type_text(op.results[i].type)};")
            self.names[op.results[i]] = name
        then, otherwise = op.regions
        self.add(f"if ({condition}) {{")
        self._side(then, results, read)
        if len(otherwise.ops) > 1 or results:
            self.add("} else {")
            self._side(otherwise, results, read)
        self.add("}")

    def _side(self, region: Block, results: Sequence[str], read: Sequence[int]) -> None:
        self._region(region)
        self._assign(results, [region.yielded[i] for i in read])

    def _assign(self, targets: Sequence[str], values: Sequence[Value]) -> None:
        """Sets variables all at once: none is read after another was set."""
        texts = [self.text_of(value) for value in values]
        pairs = [(t, text) for t, text in zip(targets, texts, strict=True) if t != text]
        if len(pairs) > 1:
            for i, (target, text) in enumerate(pairs):
                if not _NAME.fullmatch(text) or text in targets:
                    name = self.fresh()
                    self._inner(f"let {name} = {text};")
                    pairs[i] = (target, name)
        for target, text in pairs:
            self._inner(f"{target} = {text};")

    def _inner(self, text: str) -> None:
        self.lines.add(f"{self._indent}  {text}")

    def _variables(self, values: Sequence[Value]) -> list[str]:
        names = []
        for value in values:
            name = self.fresh()
            self.add(f"var {name} = {self.text_of(value)};")
            names.append(name)
        return names

    def _for(self, op: Op) -> None:
        (region,) = op.regions
        start, stop, step = op.operands[:3]
        variables = self._variables(op.operands[3:])
        index = self.fresh()
        bounds = self.text_of(stop, LEVELS["shift"])
        if not bounds.isidentifier() and stop.constant is None:
            name = self.fresh()
            self.add(f"let {name} = {bounds};")
            bounds = name
        by = self.text_of(step, LEVELS["product"])
        first = f"var {index} = {self.text_of(start)};"
        watched = self.module.watches_loops
        if watched:
            self.add(first)
        begin = ";" if watched else first
        self.add(f"for ({begin} {index} < {bounds}; {index} += {by}) {{")
        self.names[region.arguments[0]] = index
        self.names.update(zip(region.arguments[1:], variables, strict=True))
        self._region(region)
        self._assign(variables, region.yielded)
        self.add("}")
        if watched:
            self.add(f"if ({index} < {bounds}) {{ {CUT_SHORT} = true; }}")
        self.names.update(zip(op.results, variables, strict=True))

    def _while(self, op: Op) -> None:
        head, region = op.regions
        variables = self._variables(op.operands)
        self.names.update(zip(head.arguments, variables, strict=True))
        self.add("loop {")
        self._region(head, region)
        (condition,) = head.yielded
        self._inner(f"if (!({self.text_of(condition)})) {{ break; }}")
        self._region(region)
        self._assign(variables, region.yielded)
        self.add("}")
        if self.module.watches_loops:
            # Compilers know that a flag is set where a loop ends by itself, but not that it does.
            if not is_without_effect(head):
                raise KernelError(
                    f"{op.location}: what a while loop does before its condition has an effect, "
                    "which a driver that ends loops early does not allow: put that behind the "
                    "condition, or run the kernel on the processor"
                )
            self.add("{")
            self._region(head, region)
            self._inner(f"if ({self.text_of(condition)}) {{ {CUT_SHORT} = true; }}")
            self.add("}")
        self.names.update(zip(op.results, variables, strict=True))


_ATOMICS = {
    "atomic_add": "atomicAdd", "atomic_max": "atomicMax", "atomic_min": "atomicMin",
    "atomic_or": "atomicOr", "atomic_exchange": "atomicExchange",
}  # fmt: skip

ATOMICS_OF_WGSL = frozenset({*_ATOMICS, "atomic_compare_exchange"})
"""The ops that become atomic functions."""

_STATEMENTS: dict[str, Callable[[Body, Op], None]] = {
    "const": Body._nothing,
    "yield": Body._nothing,
    "shared": Body._nothing,
    "private": Body._nothing,
    "table": Body._nothing,
    "load": Body._load,
    "store": Body._store,
    "barrier": Body._barrier,
    "uniform": Body._uniform,
    "call": Body._call,
    "if": Body._if,
    "for": Body._for,
    "while": Body._while,
    "atomic_compare_exchange": Body._atomic,
    **dict.fromkeys(_ATOMICS, Body._atomic),
}
