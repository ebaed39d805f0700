"""Validation of a circuit's inputs, and their conversion to the values of input wires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.array import Words, integers_to_words
from quod.field.moduli import Modulus
from quod.r1cs.signal import ONE
from quod.r1cs.witness_program.steps import Input
from quod.validation import in_order, plain_bytes, shown_kind, whole_number

Inputs = Mapping[str, "int | Sequence[int]"]
"""Maps the name of an input to a number, a list of numbers, or bytes; -x means prime - x."""

InputNumbers = tuple[list[int], int]
"""The result of `checked_inputs`: the elements, and all bits as one integer."""


def checked_inputs(declared: Mapping[str, Input], inputs: Inputs, prime: int) -> InputNumbers:
    """Validate inputs and return their elements, and the bits of bit inputs as one integer.

    The first input's bits are the least significant. Raises InputError for a missing or unknown
    input, a list of the wrong length, a value that is no integer or whose absolute value is not
    below the prime, and a number with more bits than its input.
    """
    if not isinstance(inputs, Mapping):
        raise InputError(f"inputs must be a dict from names to numbers, not {shown_kind(inputs)}")
    if inputs.keys() != declared.keys():
        for name in declared:
            if name not in inputs:
                raise InputError(f"the input {name!r} is missing; give {_listed(declared)}")
        for name in inputs:
            if name not in declared:
                raise InputError(
                    f"the circuit has no input {name!r}; its inputs are {_listed(declared)}"
                )
    elements: list[int] = []
    # Shifting one growing integer would take quadratic time.
    bit_texts: list[str] = []
    for name, declaration in declared.items():
        value, count = inputs[name], len(declaration.wires)
        if declaration.bits:
            if type(value) is int and declaration.kind != "bytes":
                number = value
            else:
                number = _number_of(declaration, value)
            if number < 0 or number >> count:
                raise InputError(f"the input {name!r} must be a number of {count} bits")
            bit_texts.append(f"{number:0{count}b}" if count else "")
        elif declaration.single:
            if type(value) is not int or not 0 <= value < prime:
                value = _element(f"the input {name!r}", value, prime)
            elements.append(value)
        else:
            numbers: list[Any] = (
                value if isinstance(value, list) else [*in_order(f"the input {name!r}", value)]
            )
            if len(numbers) != count:
                raise InputError(f"the input {name!r} must be {count} numbers, not {len(numbers)}")
            if {*map(type, numbers)} != {int} or min(numbers) < 0 or max(numbers) >= prime:
                numbers = [
                    _element(f"number {index} of the input {name!r}", number, prime)
                    for index, number in enumerate(numbers)
                ]
            elements += numbers
    return elements, int("".join(reversed(bit_texts)) or "0", 2)


def _number_of(declaration: Input, value: object) -> int:
    """Return the number whose bits are those of an input of bits or bytes."""
    name = f"the input {declaration.name!r}"
    if declaration.kind != "bytes":
        return whole_number(name, value)
    content, size = plain_bytes(name, value), len(declaration.wires) // 8
    if len(content) != size:
        raise InputError(f"{name} must be {size} bytes, not {len(content)}")
    return int.from_bytes(content, "little")


def all_checked(
    declared: Mapping[str, Input], batch: Sequence[Inputs], prime: int
) -> list[InputNumbers]:
    """Validate several sets of inputs; an error names the index of its set."""
    numbers = []
    for index, inputs in enumerate(batch):
        with with_input_index(index, len(batch)):
            numbers.append(checked_inputs(declared, inputs, prime))
    return numbers


@contextmanager
def with_input_index(index: int, count: int) -> Iterator[None]:
    """Prefix an InputError of the body with the index of the input, if there are several."""
    try:
        yield
    except InputError as error:
        # A hint may raise a subclass of InputError, which stays as it is.
        if count == 1 or type(error) is not InputError:
            raise
        raise InputError(f"{place_of(index, count)}{error}") from error.__cause__


def place_of(index: int, count: int) -> str:
    """Return the prefix of a message about one of several inputs; empty for a single input."""
    return f"inputs[{index}]: " if count > 1 else ""


def input_wires(declared: Mapping[str, Input], public: int) -> NDArray[np.int64]:
    """Return the wires of `input_words`, in the order of a witness with `public` public wires."""
    inputs = declared.values()
    wires = [wire for each in inputs if not each.bits for wire in each.wires]
    wires += [wire for each in inputs if each.bits for wire in each.wires]
    return wire_indices(np.array([ONE, *wires], np.int64), public)


def wire_indices(wires: NDArray[np.int64], public: int) -> NDArray[np.int64]:
    """Return the indices of wires in a witness with `public` public wires."""
    return np.where(wires < ONE, -wires, wires + public * (wires > ONE))


def input_words(modulus: Modulus, inputs: Sequence[InputNumbers], wires: int) -> Words:
    """Return the values of `wires` input wires: integers, (inputs, wires, words) u32.

    The values are the constant 1, the elements and the bits.
    """
    words = np.zeros((len(inputs), wires, modulus.words), np.uint32)
    elements = [[1, *elements_of_input] for elements_of_input, _ in inputs]
    count = len(elements[0])
    numbers = integers_to_words(modulus, [number for row in elements for number in row])
    words[:, :count] = numbers.reshape(len(inputs), count, modulus.words)
    byte_length = -(-(wires - count) // 8)
    raw = b"".join([bits.to_bytes(byte_length, "little") for _, bits in inputs])
    packed = np.frombuffer(raw, np.uint8).reshape(len(inputs), byte_length)
    words[:, count:, 0] = np.unpackbits(packed, axis=1, count=wires - count, bitorder="little")
    return words


def input_values(
    declared: Mapping[str, Input], inputs: Inputs, prime: int
) -> list[tuple[int, int]]:
    """Return pairs of wire and value for all inputs; raises the errors of `checked_inputs`."""
    elements, bits = checked_inputs(declared, inputs, prime)
    remaining = iter(elements)
    pairs: list[tuple[int, int]] = []
    for declaration in declared.values():
        if declaration.bits:
            pairs += [(wire, bits >> index & 1) for index, wire in enumerate(declaration.wires)]
            bits >>= len(declaration.wires)
        else:
            pairs += [(wire, next(remaining)) for wire in declaration.wires]
    return pairs


def _element(name: str, value: object, prime: int) -> int:
    """Return a number as a field element; InputError unless -prime < number < prime."""
    number = whole_number(name, value)
    if not -prime < number < prime:
        raise InputError(f"{name} must be below the prime of the circuit's field")
    return number % prime


def _listed(declared: Mapping[str, Input]) -> str:
    names = [repr(name) for name in declared]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
