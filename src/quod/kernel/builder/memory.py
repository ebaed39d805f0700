"""The ops of a builder that touch memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from quod.kernel.builder.tracer import Tracer
from quod.kernel.errors import TraceError, an
from quod.kernel.ir import types
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Operand, Value
from quod.validation import flag, offers, whole_number

_MOST = (1 << 31) - 1
_MOST_LOADED = 1 << 16


def check_value(value: object, name: str, takes: str = "takes kernel values") -> None:
    """TraceError for what an op cannot take, such as an element of a field."""
    if not isinstance(value, Value):
        hint = "; field.to_words(a) are those of an element" if offers(value, "flatten") else ""
        given = an(type(value).__name__)
        raise TraceError(f"{name} {takes}, not {given}{hint}")


def check_type(given: object) -> None:
    """TraceError for what is no type, such as the annotation of one."""
    if not isinstance(given, Type):
        hint = ""
        if offers(given, "__metadata__"):
            of = given.__metadata__[0]  # type: ignore[attr-defined]
            hint = f"; write {of}, for U32 and its like are annotations"
        raise TraceError(f"this is no type of the language{hint or ', such as quod.kernel.u32'}")


class MemoryBuilder(ABC):
    """What a kernel's Python function writes its accesses to memory to."""

    _tracer: Tracer

    @abstractmethod
    def operand(self, item: Operand, type_: Type) -> Value:
        """`item` as a value: itself, or a constant of the given type."""

    @abstractmethod
    def cast(self, value: Value, target: Type) -> Value:
        """A pointer with another element type."""

    @abstractmethod
    def _widened(self, bits: Value, element: Type) -> Value:
        """The f32 of the bits of an element, above which there are zeros."""

    @abstractmethod
    def _narrowed(self, value: Value, element: Type) -> Value:
        """The bits of the element nearest to an f32, the lowest of a word."""

    def _element(self, pointer: Value, use: str) -> Type:
        check_value(pointer, f"what is {use}", "is a pointer")
        if not isinstance(pointer.type, PointerType):
            raise TraceError(f"only a pointer can be {use}, not {an(pointer.type)}")
        return pointer.type.element

    @staticmethod
    def _refuse_constant(pointer: Value) -> None:
        if types.is_constant(pointer.type):
            raise TraceError(
                "a table is only read: copy it to shared or private memory to change it"
            )

    def _index(self, index: Operand) -> Value:
        value = self.operand(index, types.u32)
        if value.type not in types.UNSIGNED:
            raise TraceError(f"an index must be u32 or u64, not {value.type}")
        return value

    def load(self, pointer: Value, index: Operand, count: int = 1) -> tuple[Value, ...]:
        """`count` consecutive elements from pointer[index] on."""
        result = types.loaded_type(self._element(pointer, "loaded from"))
        count = whole_number("the count of a load", count, None, _MOST_LOADED, error=TraceError)
        if count < 1:
            raise TraceError(f"a load gives at least one value, not {count}")
        element = self._element(pointer, "loaded from")
        if element in types.NARROW_FLOATS:
            words = self.load(self.cast(pointer, types.bits_type(element)), index, count)
            return tuple([self._widened(word, element) for word in words])
        operands = (pointer, self._index(index))
        return self._tracer.record("load", operands, [result] * count, {"count": count})

    def store(self, pointer: Value, index: Operand, *values: Value) -> None:
        """Stores values at pointer[index] and the places after it."""
        element = self._element(pointer, "stored through")
        wanted = types.loaded_type(element)
        self._refuse_constant(pointer)
        if not values:
            raise TraceError("a store needs at least one value")
        for value in values:
            check_value(value, "store")
            if value.type is not wanted:
                raise TraceError(
                    f"{an(wanted)} is stored here, not {an(value.type)}; convert it with "
                    "value.cast(type)"
                )
        if element in types.NARROW_FLOATS:
            bits = [self._narrowed(value, element) for value in values]
            self.store(self.cast(pointer, types.bits_type(element)), index, *bits)
            return
        self._tracer.record("store", (pointer, self._index(index), *values), ())

    def atomic_add(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Adds to pointer[index] atomically; gives the value before."""
        return self._atomic("atomic_add", pointer, index, value)

    def atomic_max(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Makes pointer[index] the larger of both atomically; gives the value before."""
        return self._atomic("atomic_max", pointer, index, value)

    def atomic_min(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Makes pointer[index] the smaller of both atomically; gives the value before."""
        return self._atomic("atomic_min", pointer, index, value)

    def atomic_or(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Sets the bits of `value` in pointer[index] atomically; gives the value before."""
        return self._atomic("atomic_or", pointer, index, value)

    def atomic_exchange(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Replaces pointer[index] atomically; gives the value before."""
        return self._atomic("atomic_exchange", pointer, index, value)

    def atomic_compare_exchange(
        self, pointer: Value, index: Operand, expected: Operand, value: Operand
    ) -> Value:
        """Replaces pointer[index] where it is `expected`, atomically; gives the value before."""
        return self._atomic("atomic_compare_exchange", pointer, index, expected, value)

    def _atomic(self, name: str, pointer: Value, index: Operand, *values: Operand) -> Value:
        element = self._element(pointer, "changed atomically")
        self._refuse_constant(pointer)
        if element not in types.UNSIGNED:
            raise TraceError(f"{name} works on u32 and u64, not on {element}")
        numbers = [self.operand(value, element) for value in values]
        return self._tracer.record(name, (pointer, self._index(index), *numbers), [element])[0]

    def fence(self) -> None:
        """Orders this instance's accesses to memory for the whole device.

        What it loaded and stored before comes before what it loads and stores after.
        """
        self._tracer.record("fence", (), ())

    def copy_async(
        self, shared: Value, to: Operand, source: Value, start: Operand, count: int = 1, *,
        where: Value | None = None,
    ) -> None:  # fmt: skip
        """Begins to copy `count` elements from source[start] in global memory to shared[to].

        They are 4, 8 or 16 bytes in all, and both places begin at a multiple of that. They are
        there for this instance after `copy_async_commit` and `copy_async_wait`, and for the others
        after a barrier behind that. Where the condition `where` does not hold, zeros come instead
        and nothing is read: for machines with the capability ``async_copies``.
        """
        self._element(shared, "copied to")
        self._element(source, "copied from")
        count = whole_number("the count of a copy", count, 1, 16, error=TraceError)
        operands: tuple[Value, ...] = (shared, self._index(to), source, self._index(start))
        name = "copy_async"
        if where is not None:
            check_value(where, name)
            name, operands = "copy_async_or_zero", (*operands, where)
        self._tracer.record(name, operands, (), {"count": count})

    def copy_async_commit(self) -> None:
        """Makes one group of the copies that this instance began since the last group."""
        self._tracer.record("copy_async_commit", (), ())

    def copy_async_wait(self, pending: int = 0) -> None:
        """Waits until all groups of copies of this instance but the last `pending` are done."""
        pending = whole_number("pending", pending, error=TraceError)
        self._tracer.record("copy_async_wait", (), (), {"pending": pending})

    def load_matrices(
        self, pointer: Value, index: Operand, *, transposed: bool = False
    ) -> tuple[Value, ...]:
        """The instance's words of four matrices of 8 by 8 floats of 16 bits, in shared memory.

        pointer[index], of u32, is where a row of four words begins: that of instance i is row
        i % 8 of matrix i // 8. They are in registers as `mma` takes them; `transposed` where rows
        in memory are its columns. For machines with the capability ``tensor_cores``; legal where
        all instances of the workgroup come.
        """
        transposed = flag("transposed", transposed, error=TraceError)
        name = "load_matrices_transposed" if transposed else "load_matrices"
        self._element(pointer, "loaded from")
        return self._tracer.record(name, (pointer, self._index(index)), [types.u32] * 4)

    def store_matrices(
        self, pointer: Value, index: Operand, words: Sequence[Value], *, transposed: bool = False
    ) -> None:
        """Stores 1, 2 or 4 matrices of 8 by 8 floats of 16 bits to shared memory.

        Of each an instance has a word in `words`, as `load_matrices` gives it. pointer[index], of
        u32, is where a row of four words begins: that of instance i is row i % 8 of matrix i // 8,
        and what the others point to does not matter. `transposed` where rows in memory are columns
        of the matrices. For machines with the capability ``matrix_stores``; legal where all
        instances of the workgroup come.
        """
        transposed = flag("transposed", transposed, error=TraceError)
        if not isinstance(words, (list, tuple)):
            raise TraceError(
                f"words must be a list or tuple of values, not {an(type(words).__name__)}"
            )
        self._element(pointer, "stored to")
        for word in words:
            check_value(word, "store_matrices")
        operands = (pointer, self._index(index), *words)
        self._tracer.record("store_matrices", operands, (), {"transposed": transposed})

    def pointer_add(self, pointer: Value, index: Operand) -> Value:
        """The address `index` elements after a pointer."""
        self._element(pointer, "moved")
        return self._tracer.record_pure(
            "pointer_add", (pointer, self._index(index)), (pointer.type,)
        )[0]

    def prefetch(self, pointer: Value, index: Operand, count: int = 1) -> None:
        """Hints that `count` elements from pointer[index] on will be loaded soon."""
        self._element(pointer, "prefetched")
        count = whole_number("the count of a prefetch", count, 1, _MOST, error=TraceError)
        self._tracer.record("prefetch", (pointer, self._index(index)), (), {"count": count})
