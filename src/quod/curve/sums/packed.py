"""Bases and sums as packed words for an `ElementMachine`, on devices that need short kernels.

A sum consists of the words of its four coordinates in the layout of slots. So it takes two fifths
of the registers that small limbs would, and goes through shared memory without conversion.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quod.curve.edwards.point import EdwardsPoint
from quod.curve.group import Group
from quod.curve.sums.bytecode import ElementMachine, Step, step
from quod.curve.sums.edwards import EdwardsSums
from quod.curve.sums.entries import SIGN_BIT
from quod.curve.sums.forms import SumArithmetic
from quod.field.any_field import field_arithmetic
from quod.field.element import Element
from quod.field.strategies.lazy_limbs.strategy import halves, joined
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value

Words = tuple[Value, ...]

_DIFFERENCES = (
    step("a", "a", "zz", less="x"),  # delta_x
    step("b", "b", "zzz", less="y"),  # delta_y
)

# The steps after the differences are the same for affine and extended addends.
_BY_DIFFERENCES = (
    step("c", "a", "a"),
    step("zz", "zz", "c"),
    step("a", "a", "c"),
    step("zzz", "zzz", "a"),
    step("c", "x", "c"),
    step("x", "b", "b", less="a", twice="c"),
    step("a", "y", "a"),
    step("y", "b", "c-x", less="a"),
)

# madd-2008-s of the Explicit-Formulas Database: add the affine point (a, b) to x, y, zz, zzz.
_ADD_AFFINE = (*_DIFFERENCES, *_BY_DIFFERENCES)

# add-2008-s: add the point a, b, c, d to x, y, zz, zzz. It leaves delta_y in b.
_ADD_POINT = (
    step("x", "x", "c"),
    step("y", "y", "d"),
    *_DIFFERENCES,
    step("zz", "zz", "c"),
    step("zzz", "zzz", "d"),
    *_BY_DIFFERENCES,
)

# dbl-2008-s-1 on a curve with a = 0; intermediate values are -U, -W and -X^2.
_DOUBLE_POINT = (
    step("a", "nothing", "nothing", twice="y"),
    step("b", "a", "a"),
    step("zz", "zz", "b"),
    step("a", "a", "b"),
    step("zzz", "a", "nothing-zzz"),
    step("c", "x", "b"),
    step("d", "x", "nothing-x"),
    step("d", "x", "x", twice="d"),
    step("x", "d", "d", twice="c"),
    step("a", "a", "nothing-y"),
    step("y", "d", "c-x", less="a"),
)

# dbl-2008-s-1 with the curve's a in slot e: step 8 leaves -3*X^2, step 9 adds a*ZZ^2.
_DOUBLE_POINT_WITH_A = (
    step("f", "zz", "zz"),
    *_DOUBLE_POINT[:6],
    step("d", "x", "x"),
    step("d", "x", "nothing-x", twice="d"),
    step("d", "f", "e", less="d"),
    *_DOUBLE_POINT[8:],
)

# Replace X and Y by the affine x and y, with 1/ZZZ in slot a.
_NORMALISE = (
    step("b", "a", "zz"),
    step("b", "b", "b"),
    step("x", "x", "b"),
    step("y", "y", "a"),
)

# The second half of add-2008-hwcd-3, with its products A in slot e, B in f and C in t.
_BY_PRODUCTS = (
    step("x", "f-e", "2z-t"),
    step("y", "f+e", "2z+t"),
    step("z", "2z-t", "2z+t"),
    step("t", "f-e", "f+e"),
)

# Add to x, y, z, t the base with y - x in slot a, y + x in b and 2dxy in c.
_ADD_EDWARDS_BASE = (
    step("e", "y-x", "a"),
    step("f", "y+x", "b"),
    step("t", "t", "c"),
    *_BY_PRODUCTS,
)

# Add to x, y, z, t the point a, b, c, d; slot e must hold 2d at the start.
_ADD_EDWARDS = (
    step("t", "t", "e"),
    step("t", "t", "d"),
    step("z", "z", "c"),
    step("e", "y-x", "b-a"),
    step("f", "y+x", "b+a"),
    *_BY_PRODUCTS,
)


class PackedSums(SumArithmetic[Words]):
    """The base class of packed sums of both forms."""

    machine: ElementMachine
    group: Group
    coordinates: tuple[str, str, str, str]
    """The consecutive slots of a sum."""
    others: tuple[str, str, str, str]
    """The slots of the addend."""

    def _put(self, machine: ElementMachine, names: Sequence[str], words: Words) -> None:
        size = machine.element_words
        for position, name in enumerate(names[: len(words) // size]):
            machine.put(name, words[position * size : (position + 1) * size])

    def _get(self, machine: ElementMachine) -> Words:
        return tuple(word for name in self.coordinates for word in machine.get(name))

    def _part(self, words: Words, coordinate: int) -> Words:
        """Return the words of one coordinate."""
        size = self.machine.element_words
        return words[coordinate * size : (coordinate + 1) * size]

    @property
    def _key(self) -> Hashable:
        """The key of device functions, whose arguments are plain words."""
        return type(self), self.group, self.machine.key

    def _pack(self, *elements: Any) -> Words:
        return tuple(word for element in elements for word in self.machine.pack(element))

    # --- bases

    def _bases(self, words: Sequence[Value], elements: int, entry: Value) -> Words:
        """Return a base as packed elements; one loop converts all of its coefficients.

        words: the 64-bit words of the base in memory; elements: their number of field elements.
        """
        k, machine = self.k, self.machine
        first = self.others[0]
        self._put(machine, self.others, tuple(halves(words)))
        is_negative = (entry & SIGN_BIT) != 0
        with k.range(0, elements * self.group.degree) as loop:
            part = machine.base.from_words(joined(machine.get_words(first, loop.index)))
            machine.put_part(first, loop.index, self._base_part(part, loop.index, is_negative))
        return tuple(word for name in self.others[:elements] for word in machine.get(name))

    @abstractmethod
    def _base_part(self, part: Element, index: Value, is_negative: Value) -> Element:
        """Return coefficient `index` of a base, negated if the base is and the form requires it."""

    @abstractmethod
    def _add_base(self, machine: ElementMachine) -> None:
        """Run the program of `add_base`."""

    def add_base(self, total: Words, base: Words) -> Words:
        machine = self.machine
        self._put(machine, self.coordinates, total)
        self._put(machine, self.others, base)
        self._add_base(machine)
        return self._get(machine)

    # --- sums

    def add(self, p: Words, q: Words) -> Words:
        result: Words = self.k.call(
            f"add_sums.{self.group.name}", self._add, self.machine.memory, p, q, key=self._key
        )
        return result

    @abstractmethod
    def _add(self, k: Builder, memory: Value, p: Words, q: Words) -> Words:
        """Compute p + q as the device function of `add`, with the machine's slots in `memory`."""

    # --- sums in memory

    def store_coordinates(self, sums: Value, index: Operand, total: Words) -> None:
        self.store(sums, index, total)

    def load(self, sums: Value, index: Operand) -> Words:
        self.load_slots(sums, index, self.coordinates)
        return self._get(self.machine)

    def store(self, sums: Value, index: Operand, p: Words) -> None:
        self._put(self.machine, self.coordinates, p)
        self.store_slots(sums, index, self.coordinates)

    def load_slots(self, array: Value, index: Operand, names: Sequence[str]) -> None:
        """Load item `index` of an array into consecutive slots; an item has len(names) elements."""
        machine, base = self.machine, self.machine.base
        with self._coefficients(index, len(names)) as (part, word_offset):
            words = base.load_words_at(array, word_offset)
            machine.put_part(names[0], part, base.from_words(words))

    def store_slots(self, array: Value, index: Operand, names: Sequence[str]) -> None:
        """Store consecutive slots as item `index` of an array, the inverse of `load_slots`."""
        machine, base = self.machine, self.machine.base
        with self._coefficients(index, len(names)) as (part, word_offset):
            element: Element = machine.get_part(names[0], part)
            base.store_words_at(array, word_offset, base.to_words(element))

    @contextmanager
    def _coefficients(self, index: Operand, elements: int) -> Iterator[tuple[Value, Value]]:
        """Loop over the coefficients of item `index`; yields their index and word offset."""
        k, size = self.k, self.group.coordinate_words
        item_offset = k.operand(index, types.u64).cast(types.u64) * (elements * size)
        with k.range(0, elements * self.group.degree) as loop:
            offset_in_item = (loop.index * self.machine.base.word_count).cast(types.u64)
            yield loop.index, item_offset + offset_in_item

    # --- sums in shared memory

    def keep(self, room: Value, index: Operand, p: Words) -> None:
        self.k.store(room.cast(types.u32), self.k.operand(index, types.u32) * len(p), *p)

    def kept(self, room: Value, index: Operand) -> Words:
        count = 4 * self.machine.element_words
        return self.k.load(room.cast(types.u32), self.k.operand(index, types.u32) * count, count)


class PackedWeierstrassSums(PackedSums):
    """`WeierstrassSums` on packed words; for infinity the words of ZZ are zero."""

    coordinates = ("x", "y", "zz", "zzz")
    others = ("a", "b", "c", "d")

    def __init__(self, k: Builder, group: Group) -> None:
        self.k = k
        self.group = group
        self.field = field_arithmetic(k, group.field)
        self.base_words = group.point_words
        self.sum_words = 4 * group.coordinate_words
        a = group.parameters.a
        has_a = a not in (0, (0, 0))
        self._doubling = _DOUBLE_POINT_WITH_A if has_a else _DOUBLE_POINT
        slots_of_a = ("e", "f") if has_a else ()
        self.machine = ElementMachine(k, self.field, (*self.coordinates, *self.others, *slots_of_a))
        if has_a:
            self.machine.put("e", self.machine.pack(self.field.constant(a)))

    def base(self, words: Sequence[Value], entry: Value) -> Words:
        return self._bases(words, 2, entry)

    def _base_part(self, part: Element, index: Value, is_negative: Value) -> Element:
        is_y = index >= self.group.degree
        f = self.machine.base
        return f.select(is_y & is_negative, f.negate(part), part)

    def begin(self, base: Words) -> Words:
        one = self.field.one()
        return (*base, *self._pack(one, one))

    def _add_base(self, machine: ElementMachine) -> None:
        machine.run(_ADD_AFFINE)

    def failed(self, total: Words) -> Value:
        return self.machine.is_zero(self._part(total, 2))

    def neutral(self) -> Words:
        f = self.field
        return self._pack(f.one(), f.one(), f.zero(), f.zero())

    def add_base_completely(self, total: Words, base: Words) -> Words:
        return self.add(total, self.begin(base))

    def sum_of_bases(
        self, start: Operand, stop: Operand, entry: Callable[[Value], Value], bases: Value
    ) -> Words:
        # The sum stays in its slots, so the loop carries no words.
        self._put(self.machine, self.coordinates, self.neutral())
        with self.k.range(start, stop) as loop:
            base_entry = entry(loop.index)
            base = self.begin(self.base(self.load_base(bases, base_entry), base_entry))
            self._add_in_place(_ADD_AFFINE, base, self.k.constant(False, types.bool_))
        return self._get(self.machine)

    def sum_of_sums(
        self, count: Operand, term: Callable[[Value], tuple[Value, Value]], sums: Value
    ) -> Words:
        k, machine = self.k, self.machine
        self._put(machine, self.coordinates, self.neutral())
        with k.range(0, count) as loop:
            exists, index = term(loop.index)
            with k.if_(exists):
                self.load_slots(sums, index, self.others)
                addend = tuple(word for name in self.others for word in machine.get(name))
                self._add_in_place(_ADD_POINT, addend, self.is_infinite(addend))
        return self._get(machine)

    def _add_in_place(self, addition: Sequence[Step], addend: Words, is_infinite: Value) -> None:
        """Add a point, whose coordinates are also in the slots `others`, to the sum in its slots.

        is_infinite: the addend is infinity.
        """
        k, machine = self.k, self.machine
        program: tuple[Step, ...] = (*addition, *self._doubling)
        doubling, end = (k.constant(n, types.u32) for n in (len(addition), len(program)))
        is_first = machine.base.words_are_zero(machine.get("zz"))
        with k.if_(is_first):
            self._put(machine, self.coordinates, addend)
        # If the sum or the addend is infinity, no step runs.
        begin = k.select(is_first | is_infinite, end, 0)
        with k.while_((begin, doubling)) as loop:
            start, stop = loop.carried
            loop.check(start < stop)
            machine.run(program, start, stop)
            with k.if_(machine.is_zero(machine.get("zz"))) as same_x:
                # delta_y = 0 as well means equal points. After the doubling the program ends.
                is_same = (start == 0) & machine.is_zero(machine.get("b"))
                with k.if_(is_same):
                    self._put(machine, self.coordinates, addend)
                with k.if_(~is_same):
                    machine.put("zz", (k.constant(0, types.u32),) * machine.element_words)
                same_x.yield_(k.select(is_same, doubling, end))
            with same_x.otherwise():
                same_x.yield_(end)
            loop.next((same_x.results, end))

    def to_affine_words(self, p: Words) -> Words:
        machine = self.machine
        self._put(machine, self.coordinates, p)
        machine.put("a", machine.pack(self.field.inverse(machine.unpack(self._part(p, 3)))))
        return self.affine_words(self.is_infinite(p))

    def affine_words(self, is_infinite: Value, before: Sequence[Step] = ()) -> Words:
        """Return the canonical affine words of the point in slots x, y and zz, with 1/ZZZ in a.

        is_infinite: the point is infinity, whose words are zero.
        before: steps that are run first.
        """
        k, machine = self.k, self.machine
        machine.run((*before, *_NORMALISE))
        with k.range(0, 2 * self.group.degree) as loop:
            words = machine.base.to_words(machine.get_part("x", loop.index))
            machine.put_words("x", loop.index, halves(words))
        affine = joined([half for name in ("x", "y") for half in machine.get(name)])
        return tuple(k.select(is_infinite, 0, word) for word in affine)

    def is_infinite(self, p: Words) -> Value:
        """Return whether a sum is infinity."""
        return self.machine.base.words_are_zero(self._part(p, 2))

    def _with_zz(self, p: Words, is_infinite: Value) -> Words:
        """Return the point, or infinity where `is_infinite` is true."""
        size = self.machine.element_words
        zz = [self.k.select(is_infinite, 0, word) for word in self._part(p, 2)]
        return (*p[: 2 * size], *zz, *p[3 * size :])

    def double(self, p: Words) -> Words:
        result: Words = self.k.call(
            f"double_sum.{self.group.name}", self._double, self.machine.memory, p, key=self._key
        )
        return result

    def _double(self, k: Builder, memory: Value, p: Words) -> Words:
        machine = self.machine.within(memory)
        self._put(machine, self.coordinates, p)
        machine.run(self._doubling)
        doubled = self._get(machine)
        # A point of order two has y = 0, so its double has ZZ = 0.
        is_zero = machine.is_zero(self._part(doubled, 2))
        return self._with_zz(doubled, self.is_infinite(p) | is_zero)

    def _add(self, k: Builder, memory: Value, p: Words, q: Words) -> Words:
        machine = self.machine.within(memory)
        program: tuple[Step, ...] = (*_ADD_POINT, *self._doubling)
        doubling, end = (k.constant(n, types.u32) for n in (len(_ADD_POINT), len(program)))
        p_infinite, q_infinite = self.is_infinite(p), self.is_infinite(q)
        augend = tuple(k.select(p_infinite, x, y) for x, y in zip(q, p, strict=True))
        self._put(machine, self.coordinates, augend)
        self._put(machine, self.others, q)
        # If p or q is infinity, the other one is the sum, and no step runs.
        begin = k.select(p_infinite | q_infinite, end, 0)
        never = k.constant(False, types.bool_)
        with k.while_((begin, doubling, never)) as loop:
            start, stop, is_infinite = loop.carried
            loop.check(start < stop)
            machine.run(program, start, stop)
            with k.if_(machine.is_zero(machine.get("zz"))) as same_x:
                # delta_y = 0 as well means equal points. After the doubling the program ends.
                is_same = (start == 0) & machine.is_zero(machine.get("b"))
                self._put(machine, self.coordinates, p)
                same_x.yield_((k.select(is_same, doubling, end), ~is_same))
            with same_x.otherwise():
                same_x.yield_((end, never))
            next_step, is_infinite = same_x.results
            loop.next((next_step, end, is_infinite))
        _, _, is_infinite = loop.results
        return self._with_zz(self._get(machine), is_infinite)


class PackedEdwardsSums(PackedSums):
    """`EdwardsSums` on packed words."""

    coordinates = ("x", "y", "z", "t")
    others = ("a", "b", "c", "d")

    def __init__(self, k: Builder, group: Group) -> None:
        self.k = k
        self.group = group
        self.plain = EdwardsSums(k, group)
        self.field = self.plain.field
        self.base_words, self.sum_words = self.plain.base_words, self.plain.sum_words
        self.machine = ElementMachine(k, self.field, (*self.coordinates, *self.others, "e", "f"))

    def base(self, words: Sequence[Value], entry: Value) -> Words:
        # Negation exchanges Y - X and Y + X.
        is_negative = (entry & SIGN_BIT) != 0
        size = self.group.coordinate_words
        minus, plus, product = (words[i * size : (i + 1) * size] for i in range(3))
        pairs = [*zip(plus, minus, strict=True), *zip(minus, plus, strict=True)]
        swapped = [self.k.select(is_negative, x, y) for x, y in pairs]
        return self._bases((*swapped, *product), 3, entry)

    def _base_part(self, part: Element, index: Value, is_negative: Value) -> Element:
        f = self.machine.base
        return f.select((index == 2) & is_negative, f.negate(part), part)

    def begin(self, base: Words) -> Words:
        return self.add_base(self.neutral(), base)

    def _add_base(self, machine: ElementMachine) -> None:
        machine.run(_ADD_EDWARDS_BASE)

    def failed(self, total: Words) -> None:
        return None

    def neutral(self) -> Words:
        f = self.field
        return self._pack(f.zero(), f.one(), f.one(), f.zero())

    def add_base_completely(self, total: Words, base: Words) -> Words:
        return self.add_base(total, base)

    def load(self, sums: Value, index: Operand) -> Words:
        loaded = super().load(sums, index)
        is_unset = self.machine.base.words_are_zero(self._part(loaded, 2))
        pairs = zip(self.neutral(), loaded, strict=True)
        return tuple(self.k.select(is_unset, neutral_word, word) for neutral_word, word in pairs)

    def to_affine_words(self, p: Words) -> Words:
        return self.plain.to_affine_words(
            EdwardsPoint(*(self.machine.unpack(self._part(p, i)) for i in range(4)))
        )

    def double(self, p: Words) -> Words:
        return self.add(p, p)

    def _add(self, k: Builder, memory: Value, p: Words, q: Words) -> Words:
        machine = self.machine.within(memory)
        self._put(machine, self.coordinates, p)
        self._put(machine, self.others, q)
        machine.put("e", self._pack(self.field.constant(2 * self.plain.form.d)))
        machine.run(_ADD_EDWARDS)
        return self._get(machine)
