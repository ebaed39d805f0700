"""Arrays of field elements on the host.

An array of n elements is uint32 of shape (n, words), in little-endian words. By default elements
are in stored form: Montgomery form, or canonical integers if `Modulus.is_plain` (see
`quod.field.moduli`). An element of an extension is its coefficients one after the other, on the
host a tuple of int (see `quod.field.spec`). Integers are converted through one long byte string; a
device converts arrays to and from Montgomery form.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, check_written, not_written, unwritten
from quod.errors import InputError
from quod.field import kernels
from quod.field.moduli import Modulus
from quod.field.spec import Extension, FieldSpec
from quod.kernel import KernelDefinition
from quod.validation import plain_array, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

Words = np.ndarray[Any, np.dtype[np.uint32]]
# Types without an order, and text and bytes, which are not lists of integers.
_UNORDERED = (Set, Mapping, str, bytes, bytearray, memoryview)

ByteOrder = Literal["little", "big"]


Integers = Iterable[int] | Iterable[tuple[int, ...]]
"""Elements of a prime field, or of an extension: tuples of as many coefficients as its degree."""


@overload
def from_integers(field: Modulus, integers: Iterable[int]) -> Words: ...
@overload
def from_integers(field: Extension, integers: Iterable[tuple[int, ...]]) -> Words: ...
def from_integers(field: FieldSpec, integers: Integers) -> Words:
    """Convert integers, taken modulo p, to elements in stored form, uint32 of shape (n, words).

    Stored form is Montgomery form, or canonical integers if `Modulus.is_plain`. For an extension
    the elements are tuples of `degree` int, and the shape is (n, degree * words). Raises InputError
    for other types, and for iterables without an order (sets and mappings), text or bytes.
    """
    modulus = field.modulus
    return _packed(
        field, (modulus.to_montgomery(integer) for _, integer in _coefficients(field, integers))
    )


@overload
def to_integers(field: Modulus, array: Words) -> list[int]: ...
@overload
def to_integers(field: Extension, array: Words) -> list[tuple[int, ...]]: ...
def to_integers(field: FieldSpec, array: Words) -> list[int] | list[tuple[int, ...]]:
    """Convert elements in stored form to integers below p, or tuples of them for an extension.

    Raises InputError for an array of another type, or of incomplete elements.
    """
    modulus = field.modulus
    return _group_coefficients(
        field, [modulus.from_montgomery(stored) for stored in _stored_integers(field, array)]
    )


@overload
def integers_to_words(field: Modulus, integers: Iterable[int]) -> Words: ...
@overload
def integers_to_words(field: Extension, integers: Iterable[tuple[int, ...]]) -> Words: ...
def integers_to_words(field: FieldSpec, integers: Integers) -> Words:
    """Convert integers to canonical words, the form of scalars, uint32 of shape (n, words).

    Raises InputError for anything but int from 0 to p - 1.
    """
    modulus = field.modulus
    if isinstance(field, Modulus) and isinstance(integers, list):
        plain = cast("list[int]", integers)
        if {*map(type, plain)} == {int} and min(plain) >= 0 and max(plain) < modulus.value:
            return _packed(field, plain)

    def checked() -> Iterable[int]:
        for position, integer in _coefficients(field, integers):
            if not 0 <= integer < modulus.value:
                raise InputError(f"integer {position} is not an element of {field.name}")
            yield integer

    return _packed(field, checked())


def _coefficients(field: FieldSpec, integers: Integers) -> Iterator[tuple[int, int]]:
    """Yield (position of the element, coefficient) of all coefficients.

    Raises InputError for other types than int, even NumPy's integers, which overflow.
    """
    is_extension = isinstance(field, Extension)
    kind = f"tuples of {field.degree} int" if is_extension else "int"
    sequence: object = integers
    if not isinstance(sequence, Iterable) or isinstance(sequence, _UNORDERED):
        raise InputError(f"elements must be a list of {kind}, not {type(integers).__name__}")
    for position, element in enumerate(integers):
        if is_extension:
            if type(element) is not tuple or len(element) != field.degree:
                actual = f"{len(element)}" if type(element) is tuple else type(element).__name__
                raise InputError(
                    f"element {position} of {field.name} must be a tuple of {field.degree} int, "
                    f"not {actual}"
                )
            coefficients = element
        else:
            coefficients = (element,)
        for integer in coefficients:
            if type(integer) is not int:
                raise InputError(f"integer {position} must be an int, not {type(integer).__name__}")
            yield position, integer


@overload
def words_to_integers(field: Modulus, array: Words) -> list[int]: ...
@overload
def words_to_integers(field: Extension, array: Words) -> list[tuple[int, ...]]: ...
def words_to_integers(field: FieldSpec, array: Words) -> list[int] | list[tuple[int, ...]]:
    """Return the integers that words hold, without conversion from Montgomery form.

    Raises InputError for an array of another type, or of incomplete elements.
    """
    return _group_coefficients(field, _stored_integers(field, array))


def check_words(field: FieldSpec, array: object) -> Words:
    """Return the array; raise InputError unless it has whole elements of a field in uint32 words.

    If the array has several axes, rows along the last axis must hold whole coefficients.
    """
    words = plain_array("elements", array)
    row_length = words.shape[-1] if words.ndim > 1 else 0
    if (
        words.dtype.newbyteorder("=") != np.uint32
        or words.size % field.words
        or row_length % field.modulus.words
    ):
        raise InputError(
            f"elements of {field.name} are {field.words} words of uint32 each, "
            f"not {words.dtype} of shape {words.shape}"
        )
    return words


def _stored_integers(field: FieldSpec, array: Words) -> list[int]:
    data = np.ascontiguousarray(check_words(field, array), "<u4").tobytes()
    size = field.modulus.bytes
    return [
        int.from_bytes(data[start : start + size], "little") for start in range(0, len(data), size)
    ]


def _group_coefficients(field: FieldSpec, integers: list[int]) -> list[int] | list[tuple[int, ...]]:
    """Group coefficients into elements."""
    if isinstance(field, Modulus):
        return integers
    return list(zip(*[iter(integers)] * field.degree, strict=True))


def from_bytes(modulus: Modulus, data: bytes, order: ByteOrder) -> Words:
    """Read elements of `modulus.bytes` bytes each as words, without conversion of form.

    Raises InputError if the length is not a multiple of that, or an element is not below p.
    """
    if len(data) % modulus.bytes:
        raise InputError(
            f"{len(data)} bytes are not a whole number of elements of {modulus.name}, "
            f"which take {modulus.bytes} each"
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, modulus.bytes)
    if order == "big":
        rows = rows[:, ::-1]
    array = np.ascontiguousarray(rows).view("<u4").astype(np.uint32, copy=True)
    check_canonical(modulus, array)
    return array


def to_bytes(modulus: Modulus, array: Words, order: ByteOrder) -> bytes:
    """Write each element's words as `modulus.bytes` bytes, without conversion of form."""
    rows = np.ascontiguousarray(array, "<u4").view(np.uint8).reshape(-1, modulus.bytes)
    return (rows[:, ::-1] if order == "big" else rows).tobytes()


def check_seed(seed: object) -> None:
    """Raise InputError unless the seed is an int of 0 or more."""
    if type(seed) is not int or seed < 0:
        kind = type(seed).__name__ if type(seed) is not int else "a negative one"
        raise InputError(f"a seed must be an int of 0 or more, not {kind}")


def random_elements(field: FieldSpec, count: int, seed: int | None = None) -> Words:
    """Return `count` uniform elements, from the system's secure source or reproducibly from a seed.

    Raises InputError for an invalid seed or count.
    """
    count = whole_number("count", count, 0, 1 << 40)
    return _random(field.modulus, count * field.degree, seed).reshape(count, field.words)


def _random(modulus: Modulus, count: int, seed: int | None) -> Words:
    if seed is not None:
        check_seed(seed)
    generator = None if seed is None else np.random.default_rng(seed)
    surplus_bits = 32 * modulus.words - modulus.bits
    array = np.zeros((0, modulus.words), np.uint32)
    while len(array) < count:
        missing = count - len(array)
        candidate_count = 2 * missing + 8  # at least half of the candidates are below p
        size = candidate_count * modulus.bytes
        raw = os.urandom(size) if generator is None else generator.bytes(size)
        candidates = (
            np.frombuffer(raw, "<u4").astype(np.uint32).reshape(candidate_count, modulus.words)
        )
        zero_words, masked_bits = divmod(surplus_bits, 32)
        if zero_words:
            candidates[:, -zero_words:] = 0
        candidates[:, modulus.words - zero_words - 1] &= np.uint32(0xFFFFFFFF >> masked_bits)
        array = np.concatenate([array, candidates[canonical(modulus, candidates)][:missing]])
    return array


def canonical(modulus: Modulus, array: Words) -> NDArray[np.bool_]:
    """Return for each element whether its integer is below p."""
    return below(modulus.words, array, modulus.value)


def below(words: int, array: Words, limit: int) -> NDArray[np.bool_]:
    """Return for each integer of `words` words whether it is below `limit`."""
    limbs = np.ascontiguousarray(array).reshape(-1, words)
    if words == 1:
        return limbs[:, 0] < limit
    is_below = np.zeros(len(limbs), np.bool_)
    equal = np.ones(len(limbs), np.bool_)
    for word_index in reversed(range(words)):
        word = limit >> (32 * word_index) & 0xFFFFFFFF
        is_below |= equal & (limbs[:, word_index] < word)
        equal &= limbs[:, word_index] == word
        if not equal.any():
            break
    return is_below


def all_canonical(modulus: Modulus, array: Words) -> bool:
    """Return whether all integers are below p; reads mostly the highest words."""
    limbs = np.ascontiguousarray(array).reshape(-1, modulus.words)
    if not limbs.size:
        return True
    modulus_word = modulus.value >> (32 * (modulus.words - 1))
    greatest_word = int(limbs[:, -1].max())
    if modulus.words == 1 or greatest_word != modulus_word:
        return greatest_word < modulus_word
    return bool(canonical(modulus, limbs[limbs[:, -1] == modulus_word]).all())


def check_canonical(modulus: Modulus, array: Words) -> None:
    """Raise InputError, with the position, if an element's integer is not below p."""
    is_canonical = canonical(modulus, array)
    if not is_canonical.all():
        position = int(np.argmin(is_canonical))
        raise InputError(f"element {position} is not below the modulus of {modulus.name}")


def to_montgomery(device: AnyDevice, field: FieldSpec, array: Words) -> Words:
    """Convert canonical integers to Montgomery form on a device."""
    return _convert_form(device, kernels.field_to_montgomery, field.modulus, array)


def from_montgomery(device: AnyDevice, field: FieldSpec, array: Words) -> Words:
    """Convert elements in Montgomery form to canonical integers on a device."""
    return _convert_form(device, kernels.field_from_montgomery, field.modulus, array)


def _convert_form(
    device: AnyDevice, definition: KernelDefinition, modulus: Modulus, array: Words
) -> Words:
    source = np.ascontiguousarray(array).reshape(-1, modulus.words)
    count = len(source)
    if source.size % 2:
        # The kernels take whole 64-bit words.
        source = np.concatenate([source, np.zeros((1, 1), np.uint32)])
    out = unwritten(*source.shape)
    can_equal_sentinel = modulus.value >> (32 * (modulus.words - 1)) == UNWRITTEN
    if can_equal_sentinel:
        # The last word of an element may equal the sentinel, but not all words of an element can.
        out.fill(UNWRITTEN)
    compiled = device.compile(definition, spec=modulus)
    device.launch(compiled, -(-count // device.lanes), count, source, out)
    if not can_equal_sentinel:
        check_written(device, "elements in another form", out[:count])
    elif (out == UNWRITTEN).all(axis=1).any():
        raise not_written(device, "elements in another form")
    return out[:count].reshape(array.shape)


def _packed(field: FieldSpec, stored: Iterable[int]) -> Words:
    size = field.modulus.bytes
    raw = b"".join([integer.to_bytes(size, "little") for integer in stored])
    return np.frombuffer(raw, "<u4").astype(np.uint32).reshape(-1, field.words)
