"""Tables to commit to: elements of the prime field, or integers of fewer bits."""

from __future__ import annotations

from typing import Any

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.integers import ELEMENT, Integers, check_fits, load_integer
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.field.strategy import prime_field
from quod.kernel import U32, Builder, Pointer, kernel
from quod.validation import instance


def check_table(field: FieldSpec, log2_size: int, table: object) -> tuple[Buffer, str]:
    """Return a table's memory and the name of its type.

    InputError unless it is a buffer of 2**log2_size prime field elements, or so many `Integers`.
    """
    modulus = field.modulus
    if isinstance(table, Integers):
        check_fits(modulus, "the table", table.type)
        if table.count != 1 << log2_size:
            raise InputError(f"the table has {table.count} integers, not 2**{log2_size}")
        if table.memory.nbytes % 4:
            raise InputError(
                f"a table of {table.count} integers of {table.dtype} does not fill words of 32 "
                "bits; use a wider type"
            )
        return table.memory, table.type
    buffer = instance("the table", table, Buffer, "upload one to the device")
    size = modulus.bytes << log2_size
    if buffer.nbytes != size:
        raise InputError(
            f"the table has {buffer.nbytes} bytes; 2**{log2_size} elements of "
            f"{modulus.name} take {size}"
        )
    return buffer, ELEMENT


def table_of_elements(device: AnyDevice, field: FieldSpec, log2_size: int, table: object) -> Buffer:
    """Return a table as elements of the prime field; integers are converted to new memory.

    Raises InputError as `check_table` does.
    """
    memory, type_name = check_table(field, log2_size, table)
    if type_name == ELEMENT:
        return memory
    count, modulus = 1 << log2_size, field.modulus
    size = modulus.bytes << log2_size
    device.check_budget("the elements of a table", size)
    elements = device.allocate(size, zero=False)
    compiled = device.compile(to_elements, modulus=modulus, type_name=type_name)
    device.launch(compiled, -(-count // compiled.lanes), count, memory, elements)
    return elements


@kernel
def to_elements(
    k: Builder, n: U32, integers: Pointer[U32], elements: Pointer[U32], *, modulus: Modulus,
    type_name: str,
) -> None:  # fmt: skip
    """Convert n integers to elements in memory form."""
    f: Any = prime_field(k, modulus)
    i = k.global_id()
    with k.if_(i < n):
        f.store(elements, i, load_integer(f, type_name, integers, i))
