"""What WGSL has no word for, made of what it has: before a kernel is written as WGSL.

WGSL knows 32-bit numbers, arrays of them at the outermost level, and no pointer that a value could
be. So the lowered kernel, which is IR like any other,

- holds a 64-bit integer as two 32-bit halves, or as WGSL's own where the machine has ``u64``;
- reaches memory through its parameters, shared and private arrays alone, as arrays of u32, with an
  index in words that gathers all pointer arithmetic;
- makes narrow stores of atomic additions, and carries of comparisons;
- exchanges values of a subgroup through shared memory where the machine has ``slow_subgroup``.

Device functions are lowered once for each choice of arrays that their pointers may be in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from quod.codegen.int64_pairs.arithmetic import WideArithmetic
from quod.codegen.int64_pairs.forms import Number, Wide
from quod.codegen.int64_pairs.rules import compute
from quod.errors import KernelError
from quod.frozen import frozen
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.ir import Block, Function, Kernel, Op, walk
from quod.kernel.machine import Capability, Machine
from quod.kernel.ops import ATOMICS, COMBINING, SUBGROUP, distances
from quod.kernel.passes import eliminate_dead_code
from quod.kernel.types import PointerType, Type
from quod.kernel.value import Value

_WORD_BYTES = 4

_PLAIN_TYPES = frozenset({types.bool_, types.u32, types.i32, types.f32})
_REWRITTEN = frozenset({"mul_hi", *ATOMICS})
"""Ops on such types that are not lowered to themselves."""


@frozen(eq=False)
class Place:
    """A pointer: the array it points into, a parameter or one declared, and an offset in it.

    The offset counts elements, or 32-bit words where elements are as wide or wider.
    """

    array: Value
    offset: Value
    element: Type

    @property
    def unit(self) -> int:
        return min(self.element.bytes, _WORD_BYTES)


Lowered = Value | Wide | Place


@frozen(eq=False)
class LoweredKernel:
    """The kernel as WGSL can say it.

    Of each parameter of the original there is one here, of a u64 two or one. `atomic` are the
    arrays that are changed atomically, parameters and results of `shared`; `roots` says which of
    these the parameters of functions are.
    """

    kernel: Kernel
    atomic: frozenset[Value]
    roots: Mapping[Value, Value]

    def root(self, array: Value) -> Value:
        """The kernel's own array that a function's parameter is."""
        return self.roots.get(array, array)


def lower(kernel: Kernel, machine: Machine) -> LoweredKernel:
    """Lowers a traced kernel; KernelError for what WGSL cannot express."""
    return _Lowering(kernel, machine).run()


def _begins(lowered: Lowered) -> bool:
    """Whether it is a pointer to the begin of an array: functions know its offset, zero."""
    return isinstance(lowered, Place) and lowered.offset.constant == 0


def _is_wide(type_: Type) -> bool:
    return type_ in (types.u64, types.i64)


class _Lowering:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self._source = kernel
        self._machine = machine
        self._k = Builder(machine)
        self._wide = WideArithmetic(self._k, native=machine.has(Capability.U64))
        self._values: dict[Value, Lowered] = {}
        self._functions: dict[Hashable, Function] = {}
        self._roots: dict[Value, Value] = {}
        self._exchanging: dict[int, bool] = {}
        self._plain: dict[int, bool] = {}
        self._atomic: set[Value] = set()
        self._exchange: Value | None = None
        self._votes: Value | None = None

    def run(self) -> LoweredKernel:
        k, source = self._k, self._source
        k.location = source.location
        arguments: list[Value] = []
        names: list[str] = []
        for name, argument in zip(source.parameters, source.block.arguments, strict=True):
            type_ = argument.type
            if isinstance(type_, PointerType):
                array = Value(types.pointer(types.u32, type_.space), k)
                arguments.append(array)
                names.append(name)
                self._values[argument] = Place(array, k.constant(0, types.u32), type_.element)
            else:
                parts = [Value(part, k) for part in self._wide.part_types(type_)]
                arguments += parts
                names += [name] if len(parts) == 1 else [f"{name}_low", f"{name}_high"]
                self._values[argument] = self._wide.joined(type_, parts)
        k.block.arguments = tuple(arguments)
        self._declare_exchange()
        self._block(source.block)
        k.close_region((), source.location)
        lowered = Kernel(
            source.name, tuple(names), k.block, source.workgroup_size, k.functions,
            source.location, k.shared_bytes, source.subgroup_size, source.resident,
        )  # fmt: skip
        eliminate_dead_code(lowered)
        return LoweredKernel(lowered, frozenset(self._atomic), self._roots)

    def _declare_exchange(self) -> None:
        """Shared memory for values of emulated subgroups, where there are any."""
        if not self._machine.has(Capability.SLOW_SUBGROUPS):
            return
        blocks = (self._source.block, *(function.block for function in self._source.functions))
        used = {op.name for block in blocks for op in walk(block)}
        size = self._source.workgroup_size
        if used & {"shuffle", *COMBINING}:
            self._exchange = self._k.shared(types.u32, size)
        if "ballot" in used:
            self._votes = self._k.shared(types.u32, -(-size // self._source.subgroup_size))
            self._atomic.add(self._votes)

    # --- regions

    def _block(self, block: Block) -> list[Value]:
        """Lowers the ops of a region but its yield; gives the parts of what it yields."""
        for op in block.ops:
            if op.name == "yield":
                return self._flat(op.operands)
            self._k.location = op.location
            self._op(op)
        return []

    def _flat(self, values: Sequence[Value]) -> list[Value]:
        """The values that stand for some, of places their offsets."""
        flat: list[Value] = []
        for value in values:
            lowered = self._values[value]
            if isinstance(lowered, Place):
                flat.append(lowered.offset)
            else:
                flat += self._wide.parts(lowered)
        return flat

    def _part_types(self, value: Value) -> list[Type]:
        if isinstance(value.type, PointerType):
            return [types.u32]
        return self._wide.part_types(value.type)

    def _bind(
        self, values: Sequence[Value], parts: Sequence[Value], like: Sequence[Lowered | None]
    ) -> None:
        """Lets values stand for parts; places are in the arrays of those that they are `like`."""
        at = 0
        for value, model in zip(values, like, strict=True):
            count = len(self._part_types(value))
            own = parts[at : at + count]
            at += count
            if isinstance(value.type, PointerType):
                assert isinstance(model, Place)
                self._values[value] = Place(model.array, own[0], model.element)
            else:
                self._values[value] = self._wide.joined(value.type, own)

    def _lowered(self, values: Sequence[Value]) -> list[Lowered]:
        return [self._values[value] for value in values]

    def _same_arrays(self, a: Sequence[Lowered | None], b: Sequence[Lowered], op: Op) -> None:
        for one, other in zip(a, b, strict=True):
            if isinstance(one, Place) and isinstance(other, Place):
                if one.array is not other.array or one.unit != other.unit:
                    raise KernelError(
                        f"{op.location}: a pointer that may be in one of two arrays, which WGSL "
                        "cannot express; branch around the accesses instead"
                    )

    def _region_types(self, values: Sequence[Value]) -> list[Type]:
        return [type_ for value in values for type_ in self._part_types(value)]

    def _if(self, op: Op) -> None:
        k = self._k
        condition = self._value(op.operands[0])
        regions, results = [], []
        for region in op.regions:
            block = k.open_region(())
            flat = self._block(region)
            results.append(self._lowered(region.yielded))
            k.close_region(flat, op.location)
            regions.append(block)
        self._same_arrays(results[0], results[1], op)
        made = k.record(
            "if", (condition,), self._region_types(op.results), {}, tuple(regions), op.location
        )
        self._bind(op.results, made, results[0])

    def _for(self, op: Op) -> None:
        k = self._k
        (region,) = op.regions
        index_type = op.operands[0].type
        if _is_wide(index_type) and not self._wide.native:
            self._wide_for(op)
            return
        bounds = [self._wide.whole(self._values[value]) for value in op.operands[:3]]
        initial = self._lowered(op.operands[3:])
        flat = self._flat(op.operands[3:])
        block = k.open_region([bounds[0].type, *(value.type for value in flat)])
        self._values[region.arguments[0]] = self._wide.joined(index_type, [block.arguments[0]])
        self._bind(region.arguments[1:], block.arguments[1:], initial)
        following = self._block(region)
        self._same_arrays(initial, self._lowered(region.yielded), op)
        k.close_region(following, op.location)
        made = k.record(
            "for", (*bounds, *flat), [value.type for value in flat], {}, (block,), op.location
        )
        self._bind(op.results, made, initial)

    def _wide_for(self, op: Op) -> None:
        """A loop whose index has two halves, as a `while`."""
        k, wide = self._k, self._wide
        (region,) = op.regions
        type_ = op.operands[0].type
        stop, step = (self._values[value] for value in op.operands[1:3])
        assert isinstance(stop, Wide)
        assert isinstance(step, Wide)
        initial = self._lowered(op.operands[3:])
        first = self._flat(op.operands[:1]) + self._flat(op.operands[3:])
        head = k.open_region([value.type for value in first])
        index = wide.joined(type_, head.arguments[:2])
        assert isinstance(index, Wide)
        condition = wide.compare("lt", index, stop)
        body = k.open_region(())
        self._values[region.arguments[0]] = index
        self._bind(region.arguments[1:], head.arguments[2:], initial)
        following = self._block(region)
        self._same_arrays(initial, self._lowered(region.yielded), op)
        k.close_region([*wide.parts(wide.add(index, step)), *following], op.location)
        k.close_region((condition,), op.location)
        made = k.record(
            "while", first, [value.type for value in first], {}, (head, body), op.location
        )
        self._bind(op.results, made[2:], initial)

    def _while(self, op: Op) -> None:
        k = self._k
        head, region = op.regions
        initial = self._lowered(op.operands)
        flat = self._flat(op.operands)
        new_head = k.open_region([value.type for value in flat])
        self._bind(head.arguments, new_head.arguments, initial)
        (condition,) = self._block(head)
        body = k.open_region(())
        following = self._block(region)
        self._same_arrays(initial, self._lowered(region.yielded), op)
        k.close_region(following, op.location)
        k.close_region((condition,), op.location)
        made = k.record(
            "while", flat, [value.type for value in flat], {}, (new_head, body), op.location
        )
        self._bind(op.results, made, initial)

    def _call(self, op: Op) -> None:
        function: Function = op.attributes["function"]
        given = self._lowered(op.operands)
        if self._is_plain(function):
            made = self._k.record(
                "call", self._flat(op.operands), function.result_types, {"function": function}
            )
            self._bind(op.results, made, [None] * len(op.results))
            return
        arrays = [one.array for one in given if isinstance(one, Place)]
        if self._exchanges(function):
            arrays += [one for one in (self._exchange, self._votes) if one is not None]
        roots = tuple(map(self._root, arrays))
        places = tuple(
            (one.element, _begins(one)) for one in given if isinstance(one, Place)
        )  # fmt: skip
        key = (id(function), tuple(map(id, roots)), places)
        if key not in self._functions:
            self._functions[key] = self._lower_function(function, given, arrays, op)
        lowered = self._functions[key]
        passed = [value for value in op.operands if not _begins(self._values[value])]
        made = self._k.record(
            "call", (*arrays, *self._flat(passed)), lowered.result_types,
            {"function": lowered}, (), op.location,
        )  # fmt: skip
        self._bind(op.results, made, [None] * len(op.results))

    def _is_plain(self, function: Function) -> bool:
        """Whether WGSL can say a function as it is. Products of field elements are such."""
        if id(function) not in self._plain:
            values = [*function.block.arguments]
            plain = True
            for op in walk(function.block):
                values += op.results
                values += [value for region in op.regions for value in region.arguments]
                if op.name == "call":
                    plain = plain and self._is_plain(op.attributes["function"])
                elif op.name not in ("if", "for", "while"):
                    plain = plain and op.name not in _SPECIAL and op.name not in _REWRITTEN
            plain = plain and all(value.type in _PLAIN_TYPES for value in values)
            self._plain[id(function)] = plain
            if plain:
                self._k.functions.append(function)
        return self._plain[id(function)]

    def _lower_function(
        self, function: Function, given: Sequence[Lowered], arrays: Sequence[Value], op: Op
    ) -> Function:
        """The function with its arrays first: within it they are parameters of its own."""
        k = self._k
        if any(isinstance(value.type, PointerType) for value in function.block.yielded):
            raise KernelError(f"{op.location}: a function that gives a pointer; give an index")
        exchange, votes = self._exchange, self._votes

        def body(builder: Builder, own: list[Value], flat: list[Value]) -> list[Value]:
            for inner, array in zip(own, arrays, strict=True):
                self._roots[inner] = self._root(array)
            there = iter(own)
            like = [
                Place(next(there), one.offset, one.element) if isinstance(one, Place) else one
                for one in given
            ]
            passed = [i for i, one in enumerate(given) if not _begins(one)]
            self._bind(
                [function.block.arguments[i] for i in passed], flat, [like[i] for i in passed]
            )
            for argument, one in zip(function.block.arguments, like, strict=True):
                if isinstance(one, Place) and _begins(one):
                    self._values[argument] = Place(one.array, self._zero(), one.element)
            if self._exchanges(function):
                self._exchange = None if exchange is None else next(there)
                self._votes = None if votes is None else next(there)
            return self._block(function.block)

        pairs = zip(function.block.arguments, given, strict=True)
        flat_types = self._region_types([argument for argument, one in pairs if not _begins(one)])
        parameters = [Value(type_, k) for type_ in flat_types]
        lowered, _ = k.trace_function(
            function.name, body, [*arrays, *parameters],
            lambda values: (list(values[: len(arrays)]), list(values[len(arrays) :])),
            function.inline,
        )  # fmt: skip
        self._exchange, self._votes = exchange, votes
        lowered.location = function.location
        return lowered

    def _exchanges(self, function: Function) -> bool:
        """Whether a function moves values between instances through shared memory."""
        if self._exchange is None and self._votes is None:
            return False
        if id(function) not in self._exchanging:
            self._exchanging[id(function)] = any(
                op.name in SUBGROUP
                or (op.name == "call" and self._exchanges(op.attributes["function"]))
                for op in walk(function.block)
            )
        return self._exchanging[id(function)]

    def _root(self, array: Value) -> Value:
        """The kernel's own array that a function's parameter is."""
        return self._roots.get(array, array)

    # --- single ops

    def _value(self, value: Value) -> Value:
        lowered = self._values[value]
        assert isinstance(lowered, Value)
        return lowered

    def _place(self, value: Value) -> Place:
        lowered = self._values[value]
        assert isinstance(lowered, Place)
        return lowered

    def _op(self, op: Op) -> None:
        special = _SPECIAL.get(op.name)
        if special is not None:
            special(self, op)
        elif op.name in ATOMICS:
            self._atomic_op(op)
        else:
            results = compute(self._wide, op, self._lowered(op.operands))
            self._values.update(zip(op.results, results, strict=True))

    def _declared(self, op: Op) -> None:
        """Shared or private memory, or a table."""
        pointer = op.results[0].type
        assert isinstance(pointer, PointerType)
        nbytes = pointer.element.bytes * int(op.attributes["count"])
        words = -(-nbytes // _WORD_BYTES)
        if op.name == "table":
            data = bytes.fromhex(op.attributes["data"]).ljust(words * _WORD_BYTES, b"\0")
            array = self._k.table(types.u32, np.frombuffer(data, "<u4").tolist())
        else:
            declare = self._k.shared if op.name == "shared" else self._k.private
            array = declare(types.u32, words)
            if op.name == "private" and pointer.element.bytes < _WORD_BYTES:
                # A store of part of a word reads the rest of it.
                with self._k.range(0, words) as loop:
                    array[loop.index] = 0
        self._values[op.results[0]] = Place(array, self._zero(), pointer.element)

    def _zero(self) -> Value:
        return self._k.constant(0, types.u32)

    def _pointer_cast(self, op: Op) -> None:
        place, type_ = self._place(op.operands[0]), op.attributes["type"]
        unit = min(type_.element.bytes, _WORD_BYTES)
        offset = place.offset
        if unit < place.unit:
            offset = offset * (place.unit // unit)
        elif unit > place.unit:
            offset = offset // (unit // place.unit)
        self._values[op.results[0]] = Place(place.array, offset, type_.element)

    def _units(self, place: Place, index: Value) -> Value:
        """The place of an element in units, from the index of a pointer."""
        low = self._wide.low(self._values[index])
        factor = max(1, place.element.bytes // _WORD_BYTES)
        return place.offset + low * factor

    def _pointer_add(self, op: Op) -> None:
        place = self._place(op.operands[0])
        offset = self._units(place, op.operands[1])
        self._values[op.results[0]] = Place(place.array, offset, place.element)

    def _load(self, op: Op) -> None:
        k, place = self._k, self._place(op.operands[0])
        count, first = int(op.attributes["count"]), self._units(place, op.operands[1])
        if place.unit < _WORD_BYTES:
            values: list[Lowered] = [self._narrow_load(place, first + i) for i in range(count)]
        else:
            each = place.element.bytes // _WORD_BYTES
            words = k.load(place.array, first, count * each)
            values = [
                self._wide.from_words(place.element, words[i * each : (i + 1) * each])
                for i in range(count)
            ]
        self._values.update(zip(op.results, values, strict=True))

    def _narrow(self, place: Place, at: Value) -> tuple[Value, Value, int]:
        """The word of a narrow element, its shift in it, and its mask there."""
        bits = 8 * place.unit
        per_word = _WORD_BYTES // place.unit
        return at // per_word, (at % per_word) * bits, (1 << bits) - 1

    def _narrow_load(self, place: Place, at: Value) -> Value:
        word, shift, mask = self._narrow(place, at)
        value = (self._k.load(place.array, word)[0] >> shift) & mask
        return value != 0 if place.element is types.bool_ else value

    def _store(self, op: Op) -> None:
        k, place = self._k, self._place(op.operands[0])
        first = self._units(place, op.operands[1])
        given = self._lowered(op.operands[2:])
        if place.unit < _WORD_BYTES:
            if not types.is_private(place.array.type):
                self._note_atomic(place)
            for i, value in enumerate(given):
                assert isinstance(value, Value)
                word, shift, mask = self._narrow(place, first + i)
                if value.type is types.bool_:
                    value = value.cast(types.u32)
                before = k.load(place.array, word)[0]
                old = (before >> shift) & mask
                change = ((value & mask) - old) << shift
                if types.is_private(place.array.type):
                    k.store(place.array, word, before + change)
                else:
                    # Others may change the rest of the word meanwhile: add what changes this part.
                    k.atomic_add(place.array, word, change)
            return
        words = [word for value in given for word in self._wide.to_words(value)]
        k.store(place.array, first, *words)

    def _note_atomic(self, place: Place) -> None:
        self._atomic.add(self._root(place.array))

    def _atomic_op(self, op: Op) -> None:
        place = self._place(op.operands[0])
        if place.element is not types.u32:
            raise KernelError(f"{op.location}: WGSL has no atomic operations on {place.element}")
        self._note_atomic(place)
        at = self._units(place, op.operands[1])
        values = [self._value(value) for value in op.operands[2:]]
        made = self._k.record(op.name, (place.array, at, *values), [types.u32])
        self._values[op.results[0]] = made[0]

    def _fence(self, op: Op) -> None:
        raise KernelError(
            f"{op.location}: WGSL orders no accesses between workgroups of one launch; cut the "
            "kernel in two"
        )

    def _copy_async(self, op: Op) -> None:
        """A plain copy: it is there earlier than it has to be."""
        target, source = self._place(op.operands[0]), self._place(op.operands[2])
        words = int(op.attributes["count"]) * target.element.bytes // _WORD_BYTES
        to, start = self._units(target, op.operands[1]), self._units(source, op.operands[3])
        if target.unit < _WORD_BYTES:
            per_word = _WORD_BYTES // target.unit
            to, start = to // per_word, start // per_word
        self._k.store(target.array, to, *self._k.load(source.array, start, words))

    def _nothing(self, op: Op) -> None:
        """A hint, a wait for what is there already, or what only devices do that interpret."""

    def _barrier(self, op: Op) -> None:
        self._k.barrier()

    # --- values of other instances

    def _uniform(self, op: Op) -> None:
        words = self._wide.to_words(self._values[op.operands[0]])
        same = [self._k.emit("uniform", (word,)) for word in words]
        self._values[op.results[0]] = self._wide.from_words(op.operands[0].type, same)

    def _shuffle(self, op: Op) -> None:
        number, lane = self._values[op.operands[0]], self._value(op.operands[1])
        self._values[op.results[0]] = self._moved(op.operands[0].type, number, lane)

    def _moved(self, type_: Type, number: Lowered, lane: Value) -> Number:
        """A number of the lane of the same subgroup, which counts modulo the subgroup's size."""
        k, exchange = self._k, self._exchange
        words = self._wide.to_words(number)
        if exchange is None:
            return self._wide.from_words(type_, [k.emit("shuffle", (w, lane)) for w in words])
        own = k.local_id()
        size = k.workgroup_size
        # As many lanes as there are, where the subgroup is larger than the workgroup.
        other = k.minimum(k.subgroup_id() * k.subgroup_size + lane % k.subgroup_size, size - 1)

        def through_memory(word: Value) -> Value:
            exchange[own] = word
            k.barrier()
            found = exchange[other]
            k.barrier()
            return found

        return self._wide.from_words(type_, [through_memory(word) for word in words])

    def _combined(self, op: Op) -> None:
        """Words by WGSL's own function, where there are subgroups; all else by pairs."""
        k, type_ = self._k, op.results[0].type
        number = self._values[op.operands[0]]
        if self._exchange is None and type_ in (types.u32, types.i32):
            assert isinstance(number, Value)
            self._values[op.results[0]] = k.emit(op.name, (number,))
            return
        name = op.definition.combines
        width = min(k.workgroup_size, k.subgroup_size)
        for distance in distances(width):
            lane = k.lane_id() ^ distance
            there = lane < width
            if width & (width - 1):
                lane = k.select(there, lane, k.lane_id())
            pair = Op(name, op.operands * 2, op.results, {}, (), op.location)
            (both,) = compute(self._wide, pair, [number, self._moved(type_, number, lane)])
            if width & (width - 1):
                both = self._wide.select(there, both, number)
            number = both
        if width & (width - 1):
            number = self._moved(type_, number, self._zero())
        self._values[op.results[0]] = number

    def _ballot(self, op: Op) -> None:
        k, votes, condition = self._k, self._votes, self._value(op.operands[0])
        if votes is None:
            self._values[op.results[0]] = k.emit("ballot", (condition,))
            return
        own, lane = k.subgroup_id(), k.lane_id()
        with k.if_(lane == 0):
            votes[own] = 0
        k.barrier()
        with k.if_(condition):
            k.atomic_or(votes, own, k.constant(1, types.u32) << lane)
        k.barrier()
        found = votes[own]
        k.barrier()
        self._values[op.results[0]] = found


_SPECIAL: dict[str, Callable[[_Lowering, Op], None]] = {
    "if": _Lowering._if,
    "for": _Lowering._for,
    "while": _Lowering._while,
    "call": _Lowering._call,
    "shared": _Lowering._declared,
    "private": _Lowering._declared,
    "table": _Lowering._declared,
    "pointer_cast": _Lowering._pointer_cast,
    "pointer_add": _Lowering._pointer_add,
    "load": _Lowering._load,
    "store": _Lowering._store,
    "fence": _Lowering._fence,
    "copy_async": _Lowering._copy_async,
    "copy_async_commit": _Lowering._nothing,
    "copy_async_wait": _Lowering._nothing,
    "prefetch": _Lowering._nothing,
    "print": _Lowering._nothing,
    "assert": _Lowering._nothing,
    "barrier": _Lowering._barrier,
    "uniform": _Lowering._uniform,
    "shuffle": _Lowering._shuffle,
    "ballot": _Lowering._ballot,
    **dict.fromkeys(COMBINING, _Lowering._combined),
}
