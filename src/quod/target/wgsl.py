"""From lowered IR to WGSL, the language of WebGPU's shaders (W3C, "WebGPU Shading Language").

Values that are used once are written where they are used; others are named. Device functions stay
functions: drivers compile them once, or inline them themselves. Carried values of loops are the
only variables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from quod.errors import KernelError
from quod.kernel import types
from quod.kernel.ir import Block, Function, Kernel, Location, Op, walk
from quod.kernel.machine import Machine
from quod.kernel.registry import default_machines, emitters
from quod.kernel.types import PointerType, Type
from quod.kernel.value import Value
from quod.target.wgsl_lower import LoweredKernel, lower
from quod.target.wgsl_machine import PORTABLE
from quod.target.wgsl_module import Binding, Dialect, Field, WgslModule
from quod.target.wgsl_rules import LEVELS, RULES, constant_text, type_text

# Expressions of more text or depth are named: parsers recur into them.
_MOST_TEXT = 240
_MOST_DEPTH = 20

_LAST_INDEX = 0xFFFF_FFFE
"""The largest constant index that naga takes; it is beyond every binding."""

# WGSL allows 255 parameters of a function; one more is kept for none.
_MOST_PARAMETERS = 250

_NAME = re.compile(r"v\d+(\.m\d+)?|a\d+|\d+u|true|false")
"""What keeps its value while variables are set, unless it is one of them."""

_SPACES = {"shared": "workgroup", "private": "private"}
"""What WGSL calls the memory that an op declares."""

_HEADER_LANES = "@builtin(local_invocation_index) local_id: u32"
_HEADER_GROUP = "@builtin(workgroup_id) group: vec3<u32>"
_HEADER_GRID = "@builtin(num_workgroups) grid: vec3<u32>"


def emit(kernel: Kernel, machine: Machine) -> str:
    """The WGSL of a traced kernel, as Tint takes it."""
    return translate(kernel, machine, dialect="tint").text


emitters["wgsl"] = emit
# Unless told otherwise for every implementation of WebGPU.
default_machines["wgsl"] = PORTABLE.machine


def translate(
    kernel: Kernel,
    machine: Machine,
    *,
    dialect: Dialect,
    bindings: Sequence[Binding] | None = None,
) -> WgslModule:
    """The WGSL of a traced kernel.

    `bindings` has a row for each pointer parameter, in order, by default a binding each.
    KernelError for what WGSL does not have, such as 64-bit floating point numbers.
    """
    lowered = lower(kernel, machine)
    pointers = [
        index
        for index, argument in enumerate(kernel.block.arguments)
        if isinstance(argument.type, PointerType)
    ]
    rows = tuple(bindings or (Binding(number) for number in range(len(pointers))))
    if len(rows) != len(pointers):
        raise KernelError(f"kernel {kernel.name} has {len(pointers)} pointers, not {len(rows)}")
    return _Emitter(kernel, lowered, machine, dialect, rows).run()


class _Emitter:
    """Writes one module."""

    def __init__(
        self, source: Kernel, lowered: LoweredKernel, machine: Machine, dialect: Dialect,
        rows: tuple[Binding, ...],
    ) -> None:  # fmt: skip
        self.source = source
        self.machine = machine
        self.dialect = dialect
        self._kernel = lowered.kernel
        self._rows = rows
        self.arrays: dict[Value, tuple[str, str]] = {}
        """The name of each array, and what comes before an index in it."""
        self.atomic: set[Value] = set(lowered.atomic)
        self.exchanges_storage = _exchanges_storage(lowered, rows)
        """Whether instances may read from a buffer what others have stored there."""
        self.structures: dict[tuple[str, ...], str] = {}
        self.helpers: dict[str, str] = {}
        self.function_names: dict[int, str] = {}
        self._function_texts: list[_Lines] = []
        self._placed: dict[int, bool] = {}

    def run(self) -> WgslModule:
        fields, start = self._parameters()
        declared = [op for op in self._kernel.block.ops if op.name in _SPACES]
        for number, op in enumerate(declared):
            self.arrays[op.results[0]] = (f"{op.name}{number}", "")
        body = Body(self)
        body.names.update(start)
        body.emit_block(self._kernel.block)
        lines = _Lines()
        self._head(lines, declared)
        for text in self._function_texts:
            lines.extend(text)
        lines.add(f"@compute @workgroup_size({self.source.workgroup_size}, 1, 1)")
        lines.add(f"fn main({_HEADER_LANES}, {_HEADER_GROUP}, {_HEADER_GRID}) {{")
        # A grid in two dimensions may have some too many.
        lines.add("  let group_id = group.y * grid.x + group.x;")
        lines.add("  if (group_id >= parameters.words[0].x) { return; }")
        lines.extend(body.lines)
        lines.add("}")
        return WgslModule(
            "\n".join(lines.texts) + "\n", "main", self.source.workgroup_size, self._rows,
            self._storage, self._parameter_words, tuple(fields), self.dialect,
            tuple(lines.locations),
        )  # fmt: skip

    def _parameters(self) -> tuple[list[Field], dict[Value, str]]:
        """The fields of the parameter block, and how the lowered scalars are read from it."""
        fields: list[Field] = []
        names: dict[Value, str] = {}
        word = 1
        lowered = iter(self._kernel.block.arguments)
        rows = iter(self._rows)
        shared_bindings: dict[int, bool] = {}
        for index, argument in enumerate(self.source.block.arguments):
            if isinstance(argument.type, PointerType):
                array, row = next(lowered), next(rows)
                before = ""
                if row.offset:
                    fields.append(Field("offset", index, word, types.u32))
                    before = f"{_word(word)} + "
                    word += 1
                self.arrays[array] = (f"buffer{row.number}", before)
                shared_bindings[row.number] = (
                    shared_bindings.get(row.number, False) or array in self.atomic
                )
                continue
            fields.append(Field("value", index, word, argument.type))
            for part in self._parts_of(argument.type, lowered):
                names[part] = _parameter_text(part.type, word)
                word += 2 if part.type in (types.u64, types.i64) else 1
        self._binding_is_atomic = shared_bindings
        for argument in self._kernel.block.arguments:
            if argument in self.arrays:
                name = self.arrays[argument][0]
                if shared_bindings[int(name.removeprefix("buffer"))]:
                    self.atomic.add(argument)
        self._storage = max((row.number + 1 for row in self._rows), default=0)
        self._parameter_words = -(-word // 4) * 4
        return fields, names

    def _parts_of(self, type_: Type, lowered: Iterable[Value]) -> list[Value]:
        parts = iter(lowered)
        first = next(parts)
        if type_ in (types.u64, types.i64) and first.type is not type_:
            return [first, next(parts)]
        return [first]

    def _head(self, lines: _Lines, declared: list[Op]) -> None:
        used = {
            op.name
            for block in (self._kernel.block, *(f.block for f in self._kernel.functions))
            for op in walk(block)
        }
        lines.add(f"// Kernel {self.source.name}, written by Quod.")
        if used & {"shuffle", "ballot"} and self.dialect == "tint":
            lines.add("enable subgroups;")
        lines.add(f"struct Parameters {{ words: array<vec4<u32>, {self._parameter_words // 4}> }}")
        lines.add("@group(0) @binding(0) var<uniform> parameters: Parameters;")
        for number in range(self._storage):
            element = "atomic<u32>" if self._binding_is_atomic.get(number) else "u32"
            lines.add(
                f"@group(0) @binding({number + 1}) "
                f"var<storage, read_write> buffer{number}: array<{element}>;"
            )
        for op in declared:
            (array,) = op.results
            element = "atomic<u32>" if array in self.atomic else "u32"
            name, count = self.arrays[array][0], op.attributes["count"]
            lines.add(f"var<{_SPACES[op.name]}> {name}: array<{element}, {count}>;")
        if "uniform" in used:
            lines.add("var<workgroup> agreed: u32;")
        for members, name in self.structures.items():
            inner = ", ".join(f"m{i}: {kind}" for i, kind in enumerate(members))
            lines.add(f"struct {name} {{ {inner} }}")
        for text in self.helpers.values():
            lines.add(text)

    def structure(self, members: tuple[str, ...]) -> str:
        """The name of a structure with these members, m0 and so on."""
        return self.structures.setdefault(members, f"Values{len(self.structures)}")

    def helper(self, name: str, text: str) -> str:
        """A function of the module that a rule needs; gives its name."""
        self.helpers.setdefault(name, text)
        return name

    def function(self, function: Function, arrays: Sequence[Value]) -> str:
        """The name of a device function, which is written when it is called first."""
        key = id(function)
        if key not in self.function_names:
            clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in function.name)
            name = f"f{len(self.function_names)}_{clean}"
            self.function_names[key] = name
            own = [a for a in function.block.arguments if isinstance(a.type, PointerType)]
            for inner, array in zip(own, arrays, strict=True):
                self.arrays[inner] = self.arrays[array]
                if array in self.atomic:
                    self.atomic.add(inner)
            self._write_function(name, function)
        return self.function_names[key]

    def _write_function(self, name: str, function: Function) -> None:
        body = Body(self)
        scalars = [a for a in function.block.arguments if not isinstance(a.type, PointerType)]
        lines = _Lines(function.location)
        packed = self.packed(scalars)
        parameters = [f"words: array<u32, {len(packed)}>"] if packed else []
        body.names.update({value: f"words[{i}]" for i, value in enumerate(packed)})
        for value in scalars:
            if value not in packed:
                own = f"a{len(parameters)}"
                parameters.append(f"{own}: {type_text(value.type)}")
                body.names[value] = own
        if self.needs_ids(function):
            parameters += ["local_id: u32", "group_id: u32"]
        body.emit_block(function.block)
        results = [body.text_of(value) for value in function.block.yielded]
        kinds = tuple(type_text(value.type) for value in function.block.yielded)
        arrow = ""
        if len(kinds) == 1:
            arrow = f" -> {kinds[0]}"
            body.lines.add(f"  return {results[0]};")
        elif kinds:
            made = self.structure(kinds)
            arrow = f" -> {made}"
            body.lines.add(f"  return {made}({', '.join(results)});")
        lines.add(f"fn {name}({', '.join(parameters)}){arrow} {{")
        lines.extend(body.lines)
        lines.add("}")
        self._function_texts.append(lines)

    def needs_ids(self, function: Function) -> bool:
        """Whether a function must be told where its instance is."""
        key = id(function)
        if key not in self._placed:
            self._placed[key] = any(
                op.name in ("local_id", "workgroup_id", "uniform")
                or (op.name == "call" and self.needs_ids(op.attributes["function"]))
                for op in walk(function.block)
            )
        return self._placed[key]

    @staticmethod
    def packed(scalars: Sequence[Value]) -> dict[Value, None]:
        """The parameters, all words, that go in one array, where there are too many for WGSL."""
        if len(scalars) <= _MOST_PARAMETERS:
            return {}
        return {value: None for value in scalars if value.type is types.u32}


class _Lines:
    """Lines of text, each with the Python line that it came from."""

    def __init__(self, location: Location | None = None) -> None:
        self.texts: list[str] = []
        self.locations: list[Location | None] = []
        self.location = location

    def add(self, text: str) -> None:
        self.texts.append(text)
        self.locations.append(self.location)

    def extend(self, other: _Lines) -> None:
        self.texts += other.texts
        self.locations += other.locations


class Body:
    """Writes the statements of one function; what rules of ops get."""

    def __init__(self, module: _Emitter) -> None:
        self.module = module
        self.lines = _Lines()
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
        text, level = RULES[op.name](self, op)
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
        self.add(
            f"for (var {index} = {self.text_of(start)}; {index} < {bounds}; {index} += {by}) {{"
        )
        self.names[region.arguments[0]] = index
        self.names.update(zip(region.arguments[1:], variables, strict=True))
        self._region(region)
        self._assign(variables, region.yielded)
        self.add("}")
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
        self.names.update(zip(op.results, variables, strict=True))


def _exchanges_storage(lowered: LoweredKernel, rows: Sequence[Binding]) -> bool:
    kernel = lowered.kernel
    pointers = [a for a in kernel.block.arguments if isinstance(a.type, PointerType)]
    number = dict(zip(pointers, (row.number for row in rows), strict=True))
    loaded: set[int] = set()
    stored: set[int] = set()
    for block in (kernel.block, *(function.block for function in kernel.functions)):
        for op in walk(block):
            if op.name in ("load", "store") or op.name in _ATOMICS_OF_WGSL:
                array = number.get(lowered.root(op.operands[0]))
                if array is None:
                    continue
                if op.name != "store":
                    loaded.add(array)
                if op.name != "load":
                    stored.add(array)
    return bool(loaded & stored)


def _word(word: int) -> str:
    return f"parameters.words[{word // 4}].{'xyzw'[word % 4]}"


def _parameter_text(type_: Type, word: int) -> str:
    text = _word(word)
    if type_ is types.u32:
        return text
    if type_ is types.bool_:
        return f"({text} != 0u)"
    if type_ in (types.u64, types.i64):
        wide = f"(u64({text}) | (u64({_word(word + 1)}) << 32u))"
        return wide if type_ is types.u64 else f"bitcast<i64>{wide}"
    return f"bitcast<{type_text(type_)}>({text})"


_ATOMICS = {
    "atomic_add": "atomicAdd", "atomic_max": "atomicMax", "atomic_min": "atomicMin",
    "atomic_or": "atomicOr", "atomic_exchange": "atomicExchange",
}  # fmt: skip

_ATOMICS_OF_WGSL = frozenset({*_ATOMICS, "atomic_compare_exchange"})

_STATEMENTS: dict[str, Callable[[Body, Op], None]] = {
    "const": Body._nothing,
    "yield": Body._nothing,
    "shared": Body._nothing,
    "private": Body._nothing,
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
