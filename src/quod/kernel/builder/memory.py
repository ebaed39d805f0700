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

_MAX_PREFETCHED = (1 << 31) - 1
_MAX_LOADED = 1 << 16


def check_value(value: object, name: str, takes: str = "takes kernel values") -> None:
    """Raise TraceError unless an operand is a kernel value; a field element, say, is not."""
    if not isinstance(value, Value):
        hint = "; field.to_words(a) are those of an element" if offers(value, "flatten") else ""
        type_name = an(type(value).__name__)
        raise TraceError(f"{name} {takes}, not {type_name}{hint}")


def check_type(candidate: object) -> None:
    """Raise TraceError unless the argument is a type; an annotation, say, is not."""
    if not isinstance(candidate, Type):
        hint = ""
        if offers(candidate, "__metadata__"):
            type_ = candidate.__metadata__[0]  # type: ignore[attr-defined]
            hint = f"; write {type_}, for U32 and its like are annotations"
        raise TraceError(f"this is no type of the language{hint or ', such as quod.kernel.u32'}")


class MemoryBuilder(ABC):
    """The part of a builder that records memory accesses."""

    _tracer: Tracer

    @abstractmethod
    def operand(self, item: Operand, type_: Type) -> Value:
        """Return `item` if it is a value, else a constant of the given type."""

    @abstractmethod
    def cast(self, value: Value, target: Type) -> Value:
        """Return a pointer with another element type."""

    @abstractmethod
    def _widened(self, bits: Value, element: Type) -> Value:
        """Convert the bits of a narrow float, zero-extended to a word, to f32."""

    @abstractmethod
    def _narrowed(self, value: Value, element: Type) -> Value:
        """Round an f32 to a narrow float; its bits are the lowest of the word returned."""

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
        """Load `count` consecutive elements from pointer[index] on."""
        result = types.loaded_type(self._element(pointer, "loaded from"))
        count = whole_number("the count of a load", count, None, _MAX_LOADED, error=TraceError)
        if count < 1:
            raise TraceError(f"a load gives at least one value, not {count}")
        element = self._element(pointer, "loaded from")
        if element in types.NARROW_FLOATS:
            bits = self.load(self.cast(pointer, types.bits_type(element)), index, count)
            return tuple([self._widened(word, element) for word in bits])
        operands = (pointer, self._index(index))
        return self._tracer.record("load", operands, [result] * count, {"count": count})

    def store(self, pointer: Value, index: Operand, *values: Value) -> None:
        """Store values at pointer[index] and the elements after it."""
        element = self._element(pointer, "stored through")
        expected_type = types.loaded_type(element)
        self._refuse_constant(pointer)
        if not values:
            raise TraceError("a store needs at least one value")
        for value in values:
            check_value(value, "store")
            if value.type is not expected_type:
                raise TraceError(
                    f"{an(expected_type)} is stored here, not {an(value.type)}; convert it with "
                    "value.cast(type)"
                )
        if element in types.NARROW_FLOATS:
            bits = [self._narrowed(value, element) for value in values]
            self.store(self.cast(pointer, types.bits_type(element)), index, *bits)
            return
        self._tracer.record("store", (pointer, self._index(index), *values), ())

    def atomic_add(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Add to pointer[index] atomically; return the old value."""
        return self._atomic("atomic_add", pointer, index, value)

    def atomic_max(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Store the maximum of pointer[index] and a value atomically; return the old value."""
        return self._atomic("atomic_max", pointer, index, value)

    def atomic_min(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Store the minimum of pointer[index] and a value atomically; return the old value."""
        return self._atomic("atomic_min", pointer, index, value)

    def atomic_or(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Set the bits of `value` in pointer[index] atomically; return the old value."""
        return self._atomic("atomic_or", pointer, index, value)

    def atomic_exchange(self, pointer: Value, index: Operand, value: Operand) -> Value:
        """Replace pointer[index] atomically; return the old value."""
        return self._atomic("atomic_exchange", pointer, index, value)

    def atomic_compare_exchange(
        self, pointer: Value, index: Operand, expected: Operand, value: Operand
    ) -> Value:
        """Replace pointer[index] atomically if it equals `expected`; return the old value."""
        return self._atomic("atomic_compare_exchange", pointer, index, expected, value)

    def _atomic(self, name: str, pointer: Value, index: Operand, *values: Operand) -> Value:
        element = self._element(pointer, "changed atomically")
        self._refuse_constant(pointer)
        if element not in types.UNSIGNED:
            raise TraceError(f"{name} works on u32 and u64, not on {element}")
        operands = [self.operand(value, element) for value in values]
        return self._tracer.record(name, (pointer, self._index(index), *operands), [element])[0]

    def fence(self) -> None:
        """Order this instance's earlier loads and stores before its later ones, device-wide."""
        self._tracer.record("fence", (), ())

    def copy_async(
        self, shared: Value, to: Operand, source: Value, start: Operand, count: int = 1, *,
        where: Value | None = None,
    ) -> None:  # fmt: skip
        """Start a copy of `count` elements from source[start] in global memory to shared[to].

        The copy has 4, 8 or 16 bytes, and both addresses are multiples of its size. This instance
        sees the copied data after `copy_async_commit` and `copy_async_wait`, other instances after
        a barrier that follows these. Where `where` is false, zeros are written and nothing is read,
        on machines with the capability ``async_copies``.
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
        """Commit this instance's copies since the last commit as one group."""
        self._tracer.record("copy_async_commit", (), ())

    def copy_async_wait(self, pending: int = 0) -> None:
        """Wait for all of this instance's groups of copies but the last `pending`."""
        pending = whole_number("pending", pending, error=TraceError)
        self._tracer.record("copy_async_wait", (), (), {"pending": pending})

    def load_matrices(
        self, pointer: Value, index: Operand, *, transposed: bool = False
    ) -> tuple[Value, ...]:
        """Load four 8 by 8 matrices of 16-bit floats from shared memory: a word each per instance.

        pointer[index], of u32, is the address of a row of four words: instance i points to row
        i % 8 of matrix i // 8. The result has the layout of `mma`. With `transposed`, rows in
        memory are columns of the matrices. Requires the capability ``tensor_cores``; legal where
        all instances of the workgroup reach it.
        """
        transposed = flag("transposed", transposed, error=TraceError)
        name = "load_matrices_transposed" if transposed else "load_matrices"
        self._element(pointer, "loaded from")
        return self._tracer.record(name, (pointer, self._index(index)), [types.u32] * 4)

    def store_matrices(
        self, pointer: Value, index: Operand, words: Sequence[Value], *, transposed: bool = False
    ) -> None:
        """Store 1, 2 or 4 matrices of 8 by 8 16-bit floats to shared memory.

        `words` has one word per matrix, in the layout of `load_matrices`. pointer[index], of u32,
        is the address of a row of four words: instance i points to row i % 8 of matrix i // 8, and
        the addresses of other instances are ignored. With `transposed`, rows in memory are columns
        of the matrices. Requires the capability ``matrix_stores``; legal where all instances of the
        workgroup reach it.
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
        """Return the address `index` elements after a pointer."""
        self._element(pointer, "moved")
        operands = (pointer, self._index(index))
        return self._tracer.record("pointer_add", operands, (pointer.type,), shared=True)[0]

    def prefetch(self, pointer: Value, index: Operand, count: int = 1) -> None:
        """Hint that `count` elements from pointer[index] on will be loaded soon."""
        self._element(pointer, "prefetched")
        count = whole_number("the count of a prefetch", count, 1, _MAX_PREFETCHED, error=TraceError)
        self._tracer.record("prefetch", (pointer, self._index(index)), (), {"count": count})
