"""A bytecode interpreter for formulas, for compilers that inline every call.

A product in small limbs takes thousands of instructions. Ten products in a row exceed the
instruction cache and take ten times as long to compile. Here the elements of a formula are in slots
of the instance's private memory, packed into 32-bit words. A loop runs the program of the formula:
each step computes one product of the slots that it names. So the code of a kernel contains a single
product, and registers hold little more than its factors.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any

from quod.curve.group import Group
from quod.field.any_field import field_arithmetic
from quod.field.arithmetic import FieldArithmetic
from quod.field.element import Element
from quod.field.extension import ExtensionField
from quod.field.strategies.lazy_limbs.strategy import LazyLimbs
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value
from quod.kernel.machine import Capability

NOTHING = "nothing"
"""The name of the slot that holds zero."""

_SLOT_BITS = 4


@frozen
class Factor:
    """A factor of a product: first + second, or first - second with `minus`.

    first, second: names of slots.
    doubled: 2 * first takes the place of first.
    """

    first: str
    second: str = NOTHING
    minus: bool = False
    doubled: bool = False


@frozen
class Step:
    """A step of a program: target = left * right - less - 2 * twice.

    target, less, twice: names of slots.
    """

    target: str
    left: Factor
    right: Factor
    less: str = NOTHING
    twice: str = NOTHING

    def code(self, names: Sequence[str]) -> int:
        """Encode the step in 32 bits: the indices in `names` of seven slots, then four flags."""
        left, right = self.left, self.right
        slots = (
            self.target, left.first, left.second, right.first, right.second, self.less, self.twice
        )  # fmt: skip
        word = sum(names.index(name) << (_SLOT_BITS * field) for field, name in enumerate(slots))
        flags = (left.minus, left.doubled, right.minus, right.doubled)
        return word | sum(flag << (28 + field) for field, flag in enumerate(flags))


def factor(text: str) -> Factor:
    """Parse the text of a factor, such as ``x``, ``2x``, ``c-x`` or ``2z+t``."""
    doubled, text = text.startswith("2"), text.removeprefix("2")
    first, minus, second = text.partition("-")
    if not minus:
        first, _, second = text.partition("+")
    return Factor(first, second or NOTHING, bool(minus), doubled)


def step(target: str, left: str, right: str, less: str = NOTHING, twice: str = NOTHING) -> Step:
    """Make a step; `left` and `right` are texts that `factor` parses."""
    return Step(target, factor(left), factor(right), less, twice)


def keeps_elements(k: Builder, group: Group) -> bool:
    """Return whether a kernel should run its formulas as bytecode on elements in private memory.

    That is so if the device needs short kernels and coordinates are lazily reduced limbs. For
    coordinates of one word ordinary code is short enough.
    """
    if not k.machine.has(Capability.SHORT_KERNELS):
        return False
    return isinstance(_coefficients(field_arithmetic(k, group.field)), LazyLimbs)


def _coefficients(field: FieldArithmetic[Any]) -> FieldArithmetic[Any]:
    return field.base if isinstance(field, ExtensionField) else field


class ElementMachine:
    """Named slots for elements of Fq or Fq2, and the interpreter of programs on them.

    Create it at the top of a kernel. A device function receives `memory` as an argument and
    continues with the machine that `within` returns.
    Raises TraceError for elements not in small limbs, or for more than 15 names.
    """

    def __init__(self, k: Builder, field: FieldArithmetic[Any], names: Sequence[str]) -> None:
        base = _coefficients(field)
        if not isinstance(base, LazyLimbs):
            raise TraceError("an element machine needs a field in lazily reduced small limbs")
        self._field = field
        self.base = base
        """The arithmetic of coefficients."""
        self._degree = field.word_count // base.word_count
        self._names = (NOTHING, *names)
        if len(self._names) > 1 << _SLOT_BITS:
            raise TraceError(
                f"an element machine has at most {1 << _SLOT_BITS} slots, not {len(self._names)}"
            )
        self.k = k
        self.words = base.modulus.words
        """32-bit words of a coefficient."""
        self.element_words = self._degree * self.words
        self.memory = k.private(types.u32, (len(self._names) + 1) * self.element_words)
        self.put(NOTHING, (k.constant(0, types.u32),) * self.element_words)

    @property
    def key(self) -> Hashable:
        """The static key of functions that receive the memory: the field and the slots."""
        return self.base.identity, self._degree, self._names

    def within(self, memory: Value) -> ElementMachine:
        """Return the machine inside a function that received its memory as `memory`."""
        other = copy.copy(self)
        other.memory = memory
        return other

    # --- elements and their words

    def pack(self, element: Any) -> tuple[Value, ...]:
        """Return an element as the words of a slot."""
        parts = (element,) if self._degree == 1 else element.coefficients
        return tuple(word for part in parts for word in self.base.to_register(part))

    def unpack(self, words: Sequence[Value]) -> Any:
        """Return the element with these words."""
        size, field = self.words, self._field
        parts = [
            self.base.from_register(words[j * size : (j + 1) * size]) for j in range(self._degree)
        ]
        return field.from_coefficients(*parts) if isinstance(field, ExtensionField) else parts[0]

    # --- slots

    def _offset(self, name: str) -> int:
        """Return the offset of a slot in `memory`, in words."""
        return self._names.index(name) * self.element_words

    def put(self, name: str, words: Sequence[Value]) -> None:
        """Store words in a slot."""
        self.k.store(self.memory, self._offset(name), *words)

    def get(self, name: str) -> tuple[Value, ...]:
        """Load the words of a slot."""
        return self.k.load(self.memory, self._offset(name), self.element_words)

    def put_part(self, name: str, index: Value, part: Element) -> None:
        """Store a coefficient; `index` counts coefficients from the start of slot `name`."""
        self.put_words(name, index, self.base.to_register(part))

    def get_part(self, name: str, index: Value) -> Element:
        """Load a coefficient; `index` counts coefficients from the start of slot `name`."""
        return self.base.from_register(self.get_words(name, index))

    def put_words(self, name: str, index: Value, words: Sequence[Value]) -> None:
        """Store the words of a coefficient; `index` counts from the start of slot `name`."""
        self.k.store(self.memory, index * self.words + self._offset(name), *words)

    def get_words(self, name: str, index: Value) -> tuple[Value, ...]:
        """Load the words of a coefficient; `index` counts from the start of slot `name`."""
        return self.k.load(self.memory, index * self.words + self._offset(name), self.words)

    def is_zero(self, words: Sequence[Value]) -> Value:
        """Return whether packed words are zero modulo p, that is, every coefficient is."""
        k, size, p = self.k, self.words, self.base.p
        all_zero = k.constant(True, types.bool_)
        for part in range(self._degree):
            coefficient = words[part * size : (part + 1) * size]
            is_multiple = k.constant(False, types.bool_)
            for multiple in range(0, self.base.standard_bound, p):
                differences = [
                    word ^ (multiple >> (32 * word_index) & 0xFFFFFFFF)
                    for word_index, word in enumerate(coefficient)
                ]
                is_multiple = is_multiple | self.base.words_are_zero(differences)
            all_zero = all_zero & is_multiple
        return all_zero

    # --- programs

    def run(self, program: Sequence[Step], start: Operand = 0, stop: Operand | None = None) -> None:
        """Run steps `start` to `stop` (exclusive; default: the end) of a program."""
        k = self.k
        codes = [k.constant(step.code(self._names), types.u32) for step in program]
        with k.range(start, len(program) if stop is None else stop) as loop:
            code = codes[-1]
            for step_index in reversed(range(len(program) - 1)):
                code = k.select(loop.index == step_index, codes[step_index], code)
            self._step(_Decoder(self, code, program))

    def _step(self, decoder: _Decoder) -> None:
        """Compute the step that the decoder has decoded."""
        k, size = self.k, self.words
        if self._degree == 1:
            no_offset = k.constant(0, types.u32)
            product = self.base.multiply(decoder.left(no_offset), decoder.right(no_offset))
            self._finish(decoder, no_offset, product, decoder.target())
            return
        low, high = (k.constant(part * size, types.u32) for part in range(2))
        scratch = k.constant(len(self._names) * self.element_words, types.u32)
        # Each coefficient is a sum of two products. The result goes to scratch memory first, since
        # the target may be a factor of the second coefficient.
        (left_low, left_high), (right_low, right_high) = (
            (load(low), load(high)) for load in (decoder.left, decoder.right)
        )
        scaled = self.base.times(right_high, self._residue)
        with k.range(0, 2) as loop:
            word_offset, is_low = loop.index * size, loop.index == 0
            # (l0 + l1*u)*(r0 + r1*u) = l0*r0 + residue*l1*r1 + (l0*r1 + l1*r0)*u
            straight = self.base.select(is_low, right_low, right_high)
            crossed = self.base.select(is_low, scaled, right_low)
            product = self.base.sum_of_products([(left_low, straight), (left_high, crossed)])
            self._finish(decoder, word_offset, product, scratch)
        k.store(self.memory, decoder.target(), *k.load(self.memory, scratch, self.element_words))

    @property
    def _residue(self) -> int:
        assert isinstance(self._field, ExtensionField)
        residue = self._field.extension.non_residue
        assert residue is not None
        return residue

    def read(self, at: Value) -> Element:
        """Load the coefficient at word offset `at` of the memory."""
        return self.base.from_register(self.k.load(self.memory, at, self.words))

    def _finish(self, decoder: _Decoder, word_offset: Value, product: Element, out: Value) -> None:
        result = decoder.subtract_terms(product, word_offset)
        self.k.store(self.memory, out + word_offset, *self.base.to_register(result))


class _Decoder:
    """The decoder of a step's code; it only handles cases that occur in the program."""

    def __init__(self, machine: ElementMachine, code: Value, program: Sequence[Step]) -> None:
        self._machine = machine
        self._code = code
        self._program = program

    def _slot(self, field: int) -> Value:
        """Return the word offset of the slot in field `field` of the code."""
        slot = self._code >> (_SLOT_BITS * field) & ((1 << _SLOT_BITS) - 1)
        return slot * self._machine.element_words

    def target(self) -> Value:
        """Return the word offset of the step's target."""
        return self._slot(0)

    def left(self, word_offset: Value) -> Element:
        """Compute a coefficient of the left factor, at `word_offset` in its slots."""
        return self._factor([step.left for step in self._program], 1, 28, word_offset)

    def right(self, word_offset: Value) -> Element:
        """Compute a coefficient of the right factor, at `word_offset` in its slots."""
        return self._factor([step.right for step in self._program], 3, 30, word_offset)

    def _factor(
        self, factors: Sequence[Factor], field: int, flag: int, word_offset: Value
    ) -> Element:
        """Compute a coefficient of the factor with its slots in `field` and its flags at `flag`."""
        machine, base = self._machine, self._machine.base
        value = machine.read(self._slot(field) + word_offset)
        if any(factor.doubled for factor in factors):
            value = base.select(self._flag(flag + 1), base.double(value), value)
        signs = {factor.minus for factor in factors if factor.second != NOTHING}
        if signs:
            second = machine.read(self._slot(field + 1) + word_offset)
            if len(signs) == 2:
                value = base.select(self._flag(flag), value - second, value + second)
            else:
                value = value - second if True in signs else value + second
        return value

    def _flag(self, bit: int) -> Value:
        return (self._code >> bit & 1) != 0

    def subtract_terms(self, product: Element, word_offset: Value) -> Element:
        """Return a coefficient of the step's product less those of slots `less` and 2 * `twice`."""
        machine = self._machine
        if any(step.less != NOTHING for step in self._program):
            product = product - machine.read(self._slot(5) + word_offset)
        if any(step.twice != NOTHING for step in self._program):
            product = product - machine.base.double(machine.read(self._slot(6) + word_offset))
        return product
